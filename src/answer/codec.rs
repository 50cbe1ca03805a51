//! Answers in your own form, for example encrypted.

use std::error::Error as StdError;
use std::sync::Arc;

use crate::run::user_code;
use crate::store::key::RecordKey;

/// The error of an [`AnswerCodec`] that could not encode or decode.
///
/// ```
/// use dynamodb_idempotency::CodecError;
///
/// let error: CodecError = "there is no key with this id".into();
/// assert_eq!(error.to_string(), "there is no key with this id");
/// ```
pub type CodecError = Box<dyn StdError + Send + Sync>;

/// Transforms stored answers into other bytes and back, for example by encryption.
///
/// Set it with [`Builder::answer_codec`](crate::Builder::answer_codec).
///
/// The codec transforms everything that the crate stores as an answer: functions' results, HTTP
/// responses, committed answers, answers of a reconcile hook, failures that are kept, and the results
/// of [steps](crate::Execution::step). It does not transform keys, scopes, names of steps, times
/// and the SHA-256 of the request. To hide keys, use [`KeyForm::Sha256`](crate::policy::KeyForm::Sha256).
///
/// An answer is compressed before it is encoded, so its length in the table reveals something about
/// its content. If that matters, choose [`Compression::Off`](crate::policy::Compression::Off). The codec's
/// output is stored, billed, and counted for
/// [`Policy::max_answer_bytes`](crate::Policy::max_answer_bytes).
///
/// Every answer waits for the codec, so it must not block: fetch keys when the function starts. It
/// owns the bytes that it gets, so it can change them in place. While the codec runs, an answer
/// takes about three times its size in memory. A panic counts as an error.
///
/// If `encode` fails, the operation still completes, because its effect has happened, and the
/// reason is stored instead of the answer. The first caller gets its answer, and repeats get
/// [`ErrorKind::AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable). Nothing is ever stored
/// unencoded. A commit or a transaction is not sent in this case. For a step, the result is lost:
/// the handler gets `AnswerUnavailable`, with [`Error::step_ran`](crate::Error::step_ran), each later
/// attempt gets `AnswerUnavailable` at that step, and the step never runs again.
///
/// If `decode` fails, a repeat gets `AnswerUnavailable` (for a failure that is kept,
/// [`Failed`](crate::ErrorKind::Failed)), nothing runs, and the record does not change. Steps are
/// read before an unfinished operation is taken over. A process whose codec cannot decode them
/// returns [`StepsUnreadable`](crate::ErrorKind::StepsUnreadable), which is retryable, and leaves
/// the record to a process that can.
///
/// Answers in memory are not encoded: neither in the [local cache](crate::Builder::local_cache) nor
/// while they are passed to callers. If the future of a commit was dropped, its answer is read from
/// the table.
///
/// A codec can bind an answer to its key, as the associated data of an authenticated cipher. The
/// answer can then not be decoded under another key. This protects contents only. A principal with
/// write access to the table can still delete a record, so that its operation runs again, restore an
/// earlier record of the same key, or change the record's status, so that a kept failure is replayed
/// as a success. The key does not name the table: use one data key for each table.
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
    /// `pk` is the key of the record, `scope#key` as in the table. The method may be called several
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
    /// If the codec cannot encode. The error is logged but not stored.
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
    /// If the codec did not write these bytes, or not for `pk`. The error is logged, and becomes
    /// part of the caller's error.
    fn decode(&self, pk: &str, encoded: Vec<u8>) -> Result<Vec<u8>, CodecError>;
}

/// The codec for answers, if one is set.
#[derive(Clone, derive_more::Debug, Default)]
// Without the codec, which contains keys.
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
