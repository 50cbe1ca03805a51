//! Answers in your own form, for example encrypted.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::key::RecordKey;
use crate::user_code;

/// Why an [`AnswerCodec`] could not encode or decode.
///
/// ```
/// use dynamodb_idempotency::CodecError;
///
/// let error: CodecError = "there is no key with this id".into();
/// assert_eq!(error.to_string(), "there is no key with this id");
/// ```
pub type CodecError = Box<dyn StdError + Send + Sync>;

/// Turns the stored form of an answer into other bytes, and back: for example encryption with your
/// own key. Set it with [`Builder::answer_codec`](crate::Builder::answer_codec).
///
/// Everything that the crate stores as an answer goes through it: functions' results, HTTP
/// responses, committed answers, those of a reconcile hook, failures that are kept, and the results
/// of [steps](crate::Execution::step). Keys, scopes, the names of steps, times and the SHA-256 of
/// the request do not: for keys there is [`KeyForm::Sha256`](crate::KeyForm::Sha256).
///
/// An answer is compressed first, so its length in the table tells something about its content. If
/// that matters, choose [`Compression::Off`](crate::Compression::Off). The codec's bytes are what
/// is stored, billed, and counted for
/// [`Policy::max_answer_bytes`](crate::Policy::max_answer_bytes).
///
/// Every answer waits for it, so it must not block: fetch keys when the function starts. It owns
/// the bytes that it gets, so that it can change them in place. While it works, an answer takes
/// about three times its size in memory. A panic counts as an error.
///
/// If `encode` fails, the operation still completes, since its effect has happened, with the reason
/// in the place of the answer: the first caller gets its answer, repeats get
/// [`ErrorKind::AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable), and nothing is ever
/// stored unencoded. A commit and a transaction are not sent then. If it fails for a step, the step
/// has happened too, and its result is lost: the handler gets
/// [`StepError::NotStored`](crate::StepError::NotStored), each later attempt gets
/// `AnswerUnavailable` at that step, and the step never runs again.
///
/// If `decode` fails, a repeat gets `AnswerUnavailable` (for a failure that is kept
/// [`Failed`](crate::ErrorKind::Failed)), nothing runs, and the record stays as it is. Steps are
/// read before an unfinished operation is taken over: a process whose codec does not decode them
/// refuses with [`StepsUnreadable`](crate::ErrorKind::StepsUnreadable), which is retryable, and
/// leaves the record to a process that can.
///
/// In memory answers are not encoded: in the [local cache](crate::Builder::local_cache), and on
/// their way to calls that share one. The answer of a commit whose future was dropped is read back
/// from the table, as it was stored.
///
/// A codec can bind an answer to its key, as the associated data of an authenticated cipher: then
/// the answer cannot be decoded under another key. This protects contents. Anybody who may write to
/// the table can still delete a record, so that its operation runs again, restore an earlier record
/// of the same key, or change the record's status: a failure that is kept would be replayed as a
/// success. The key does not name the table: use one data key for each table.
///
/// ```
/// use dynamodb_idempotency::{AnswerCodec, CodecError};
///
/// /// Shows the shape, and hides nothing: `examples/encrypted-answers` is AES-256-GCM.
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
    /// What is to be stored in the place of `plain` in the record `pk`, which is `scope#key` as in
    /// the table. May be called several times for one answer.
    ///
    /// ```
    /// use dynamodb_idempotency::{AnswerCodec, CodecError};
    ///
    /// // In a test of a codec of yours: one answer, twice, and each time something else.
    /// fn is_fresh_each_time(codec: &impl AnswerCodec) -> Result<bool, CodecError> {
    ///     let encode = || codec.encode("charge#order-42", b"[1]".to_vec());
    ///     Ok(encode()? != encode()?)
    /// }
    /// ```
    ///
    /// # Errors
    /// If it cannot. The error goes to the log, not into the table.
    fn encode(&self, pk: &str, plain: Vec<u8>) -> Result<Vec<u8>, CodecError>;

    /// Exactly the bytes that [`encode`](Self::encode) was given.
    ///
    /// ```
    /// use dynamodb_idempotency::{AnswerCodec, CodecError};
    ///
    /// // In a test of a codec of yours.
    /// fn comes_back(codec: &impl AnswerCodec, answer: &[u8]) -> Result<bool, CodecError> {
    ///     let encoded = codec.encode("charge#order-42", answer.to_vec())?;
    ///     Ok(codec.decode("charge#order-42", encoded)? == answer)
    /// }
    /// ```
    ///
    /// # Errors
    /// If these bytes are not its own, or not those of `pk`. The error goes to the log, and into
    /// the caller's error.
    fn decode(&self, pk: &str, encoded: Vec<u8>) -> Result<Vec<u8>, CodecError>;
}

impl<C: AnswerCodec + ?Sized> AnswerCodec for Arc<C> {
    fn encode(&self, pk: &str, plain: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        (**self).encode(pk, plain)
    }

    fn decode(&self, pk: &str, encoded: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        (**self).decode(pk, encoded)
    }
}

/// The codec that answers are stored by, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Coding {
    pub(crate) codec: Option<Arc<dyn AnswerCodec>>,
    /// Whether answers that no codec wrote are refused.
    pub(crate) refuses_plain: bool,
}

impl Coding {
    /// For what stands in, or beside, the record of this key.
    pub(crate) fn of<'a>(&'a self, key: &'a RecordKey) -> Coder<'a> {
        Coder { coding: self, key }
    }
}

/// Not the codec: it has keys.
impl fmt::Debug for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coding")
            .field("has_codec", &self.codec.is_some())
            .field("refuses_plain", &self.refuses_plain)
            .finish_non_exhaustive()
    }
}

/// The codec, for one record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coder<'a> {
    coding: &'a Coding,
    key: &'a RecordKey,
}

/// What is stored where the codec has failed: without its words, which may be about the content.
pub(crate) const NOT_ENCODED: &str = "its AnswerCodec could not encode it";

const NO_CODEC: &str = "it was encoded by an AnswerCodec, and this program has none: give the one \
                        that wrote it to Builder::answer_codec";
const PLAIN: &str =
    "it was stored without an AnswerCodec, and Builder::accept_plain_answers is off";
const PANICKED: &str = "it panicked";

impl Coder<'_> {
    pub(crate) fn is_set(self) -> bool {
        self.coding.codec.is_some()
    }

    /// Why the codec has not encoded it.
    pub(crate) fn encode(self, plain: Vec<u8>) -> Result<Vec<u8>, String> {
        let Some(codec) = &self.coding.codec else { return Err(NO_CODEC.to_owned()) };
        match user_code::call(|| codec.encode(self.key.as_str(), plain)) {
            Ok(encoded) => encoded.map_err(|error| user_code::text(&error)),
            Err(_) => Err(PANICKED.to_owned()),
        }
    }

    /// Why the codec has not decoded it.
    pub(crate) fn decode(self, encoded: Vec<u8>) -> Result<Vec<u8>, String> {
        let Some(codec) = &self.coding.codec else { return Err(NO_CODEC.to_owned()) };
        let reason = match user_code::call(|| codec.decode(self.key.as_str(), encoded)) {
            Ok(Ok(plain)) => return Ok(plain),
            Ok(Err(error)) => user_code::text(&error),
            Err(_) => PANICKED.to_owned(),
        };
        tracing::error!(
            operation = self.key.operation(),
            reason,
            "an AnswerCodec could not decode what is stored: repeats get an error"
        );
        Err(format!("its AnswerCodec could not decode it: {reason}"))
    }

    /// Why what no codec wrote is not taken.
    pub(crate) fn accept_plain(self) -> Result<(), String> {
        if self.coding.refuses_plain { Err(PLAIN.to_owned()) } else { Ok(()) }
    }
}
