//! A message as its handler gets it.

use std::fmt;

use serde::de::DeserializeOwned;

/// One message of a batch.
///
/// ```
/// use dynamodb_idempotency::messages::{Message, events::sqs::SqsMessage};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Payment { amount: u64 }
///
/// fn read(message: Message<SqsMessage>) -> Result<u64, serde_json::Error> {
///     println!("{:?}, {} bytes", message.key(), message.payload().len());
///     println!("sent by {:?}", message.record().attributes.get("SenderId"));
///     let payment: Payment = message.json()?;
///     let record: SqsMessage = message.into_record();
///     drop(record);
///     Ok(payment.amount)
/// }
/// ```
pub struct Message<R> {
    pub(crate) record: R,
    pub(crate) payload: Vec<u8>,
    pub(crate) key: Option<String>,
}

impl<R> Message<R> {
    /// The whole record, with every field that its source sent.
    #[must_use]
    pub fn record(&self) -> &R {
        &self.record
    }

    /// The whole record, owned.
    #[must_use]
    pub fn into_record(self) -> R {
        self.record
    }

    /// What the producer sent, decoded: see the table in [`messages`](super) for what that is of
    /// each source. Inside of an envelope that is opened, what the envelope carries.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The payload as JSON.
    ///
    /// # Errors
    /// When it is not JSON, or not of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.payload)
    }

    /// The idempotency key that was found; `None` only where
    /// [`MissingKey::RunUnprotected`](super::MissingKey::RunUnprotected) lets it run without.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

/// Neither payload nor key: both may be personal.
impl<R> fmt::Debug for Message<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}
