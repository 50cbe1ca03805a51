//! A user's codec for answers, for example for encryption.

use std::error::Error as StdError;
use std::sync::Arc;

use crate::call::user_code;
use crate::store::key::RecordKey;

/// The reason why an [`AnswerCodec`] could not encode or decode.
///
/// ```
/// use dynamodb_idempotency::CodecError;
///
/// let error: CodecError = "there is no key with this id".into();
/// assert_eq!(error.to_string(), "there is no key with this id");
/// ```
pub type CodecError = Box<dyn StdError + Send + Sync>;

/// Transforms answers before they are stored, and back, for example by encryption.
///
/// Set it with [`Builder::answer_codec`](crate::Builder::answer_codec).
///
/// The codec transforms all answers that the crate stores: results of functions and of
/// [steps](crate::Execution::step), HTTP responses, committed answers, answers of a reconcile hook, and
/// failures that are kept. It does not transform keys, scopes, names of steps, times or the SHA-256 of
/// the request. To hide keys, use [`KeyForm::Sha256`](crate::policy::KeyForm::Sha256).
///
/// The crate compresses an answer before the codec encodes it, so the stored length reveals something
/// about the content. To avoid this, choose [`Compression::Off`](crate::policy::Compression::Off).
/// [`Policy::max_answer_bytes`](crate::Policy::max_answer_bytes) also limits the codec's output.
///
/// The codec must not block: fetch its keys when the function starts. It can change the bytes that it
/// receives in place. While it runs, an answer takes about three times its size in memory. A panic
/// counts as an error. Answers in the [local cache](crate::Builder::local_cache) are not encoded.
///
/// If `encode` fails, no answer is stored unencoded:
///
/// - An operation still completes, because its effect has happened. The reason is stored instead of the
///   answer. The first caller gets the answer, and repeats get
///   [`ErrorKind::AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable).
/// - A commit or a transaction is not sent.
/// - The result of a step is lost, and the step never runs again. The handler gets `AnswerUnavailable`
///   with [`Error::step_ran`](crate::Error::step_ran). Later attempts get `AnswerUnavailable` at that
///   step.
///
/// If `decode` fails, nothing runs and the record does not change:
///
/// - A repeat gets `AnswerUnavailable`, or [`Failed`](crate::ErrorKind::Failed) for a failure that is
///   kept.
/// - A call that would take over an operation with steps gets
///   [`StepsUnreadable`](crate::ErrorKind::StepsUnreadable).
///
/// A codec can bind an answer to its key, for example as the associated data of an authenticated
/// cipher. Such an answer cannot be decoded under another key. The key does not contain the table's
/// name, so use one data key for each table. A codec protects only contents. A principal that can write
/// to the table can still delete a record, so that its operation runs again, restore an earlier record
/// of the same key, or turn a kept failure into a success.
///
/// ```
/// use dynamodb_idempotency::{AnswerCodec, CodecError};
///
/// /// Shows the shape only and hides nothing: `examples/encrypted-answers` uses AES-256-GCM.
/// struct Labelled;
///
/// impl AnswerCodec for Labelled {
///     fn encode(&self, pk: &str, plain: Vec<u8>) -> Result<Vec<u8>, CodecError> {
///         Ok([pk.as_bytes(), b"\n", &plain].concat())
///     }
///
///     fn decode(&self, pk: &str, encoded: Vec<u8>) -> Result<Vec<u8>, CodecError> {
///         let rest = encoded.strip_prefix(pk.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
///         rest.map(<[u8]>::to_vec).ok_or_else(|| "it belongs to another key".into())
///     }
/// }
///
/// let codec = Labelled;
/// let stored = codec.encode("charge#order-42", b"[1]".to_vec())?;
/// assert_eq!(codec.decode("charge#order-42", stored.clone())?, b"[1]");
/// assert!(codec.decode("charge#order-43", stored).is_err());
/// # Ok::<_, CodecError>(())
/// ```
pub trait AnswerCodec: Send + Sync {
    /// Returns the bytes to store instead of `plain`.
    ///
    /// `pk` is the key of the record in the table, `scope#key`. The crate may call this method several
    /// times for one answer.
    ///
    /// ```
    /// use dynamodb_idempotency::{AnswerCodec, CodecError};
    ///
    /// // In a test of your codec: encoding an answer twice gives different bytes.
    /// fn is_fresh_each_time(codec: &impl AnswerCodec) -> Result<bool, CodecError> {
    ///     let encode = || codec.encode("charge#order-42", b"[1]".to_vec());
    ///     Ok(encode()? != encode()?)
    /// }
    /// ```
    ///
    /// # Errors
    /// If the codec cannot encode. The crate logs the error but does not store it.
    fn encode(&self, pk: &str, plain: Vec<u8>) -> Result<Vec<u8>, CodecError>;

    /// Returns exactly the bytes that [`encode`](Self::encode) received.
    ///
    /// ```
    /// use dynamodb_idempotency::{AnswerCodec, CodecError};
    ///
    /// // In a test of your codec.
    /// fn round_trips(codec: &impl AnswerCodec, answer: &[u8]) -> Result<bool, CodecError> {
    ///     let encoded = codec.encode("charge#order-42", answer.to_vec())?;
    ///     Ok(codec.decode("charge#order-42", encoded)? == answer)
    /// }
    /// ```
    ///
    /// # Errors
    /// If the codec did not write these bytes for `pk`. The error is logged and becomes part of the
    /// caller's error.
    fn decode(&self, pk: &str, encoded: Vec<u8>) -> Result<Vec<u8>, CodecError>;
}

/// The codec for answers, if one is set.
#[derive(Clone, derive_more::Debug, Default)]
// Without the codec, which contains secret keys.
#[debug("Coding {{ has_codec: {}, rejects_plain: {rejects_plain} }}", codec.is_some())]
pub(crate) struct Coding {
    pub(crate) codec: Option<Arc<dyn AnswerCodec>>,
    /// Whether answers that no codec wrote are rejected.
    pub(crate) rejects_plain: bool,
}

impl Coding {
    /// Returns the coder for the record of this key and its parts.
    pub(crate) fn of<'a>(&'a self, key: &'a RecordKey) -> Coder<'a> {
        Coder { coding: self, key }
    }
}

/// The codec for one record.
#[derive(Clone, Copy)]
pub(crate) struct Coder<'a> {
    coding: &'a Coding,
    key: &'a RecordKey,
}

const NO_CODEC: &str = "it was encoded by an AnswerCodec, and this program has none: pass the one \
                        that wrote it to Builder::answer_codec";
const PLAIN: &str =
    "it was stored without an AnswerCodec, which Builder::reject_plain_answers rejects";
const PANICKED: &str = "it panicked";

impl Coder<'_> {
    pub(crate) fn is_set(self) -> bool {
        self.coding.codec.is_some()
    }

    /// Encodes with the codec. The error is the reason to report.
    pub(crate) fn encode(self, plain: Vec<u8>) -> Result<Vec<u8>, String> {
        let Some(codec) = &self.coding.codec else { return Err(NO_CODEC.to_owned()) };
        match user_code::call(|| codec.encode(self.key.as_str(), plain)) {
            Ok(encoded) => encoded.map_err(user_code::text),
            Err(_) => Err(PANICKED.to_owned()),
        }
    }

    /// Decodes with the codec. The error is the reason to report.
    pub(crate) fn decode(self, encoded: Vec<u8>) -> Result<Vec<u8>, String> {
        let Some(codec) = &self.coding.codec else { return Err(NO_CODEC.to_owned()) };
        let reason = match user_code::call(|| codec.decode(self.key.as_str(), encoded)) {
            Ok(Ok(plain)) => return Ok(plain),
            Ok(Err(error)) => user_code::text(error),
            Err(_) => PANICKED.to_owned(),
        };
        tracing::error!(
            operation = self.key.operation(),
            reason,
            "an AnswerCodec could not decode a stored answer: repeats get an error"
        );
        Err(format!("its AnswerCodec could not decode it: {reason}"))
    }

    /// Checks whether an answer that no codec wrote is accepted. The error is the reason to report.
    pub(crate) fn accept_plain(self) -> Result<(), String> {
        if self.coding.rejects_plain { Err(PLAIN.to_owned()) } else { Ok(()) }
    }
}
