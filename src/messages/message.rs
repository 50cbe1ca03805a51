//! A message as its handler receives it.

use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, json_fault};
use crate::json::without_bom;

/// One message of a batch, as its handler receives it.
///
/// ```
/// use dynamodb_idempotency::messages::{Message, events::sqs::SqsMessage};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Payment { amount: u64 }
///
/// fn read(message: Message<SqsMessage>) -> Result<u64, dynamodb_idempotency::Error> {
///     println!("{:?}, {} bytes", message.key(), message.payload().len());
///     println!("sent by {:?}", message.record().attributes.get("SenderId"));
///     let payment: Payment = message.json()?;
///     let record: SqsMessage = message.into_record();
///     drop(record);
///     Ok(payment.amount)
/// }
/// ```
#[derive(derive_more::Debug)]
// Without payload and key, because both may be personal data.
#[debug("Message {{ payload_bytes: {}, .. }}", payload.len())]
pub struct Message<R> {
    pub(crate) record: R,
    pub(crate) payload: Vec<u8>,
    pub(crate) key: Option<String>,
}

impl<R> Message<R> {
    /// Returns the whole record, with every field that its source sent.
    ///
    /// ```
    /// # doc_examples::with_message(|message| {
    /// assert_eq!(message.record().message_id.as_deref(), Some("m-1"));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn record(&self) -> &R {
        &self.record
    }

    /// Returns the whole record by value.
    ///
    /// ```
    /// # doc_examples::with_message(|message| {
    /// use dynamodb_idempotency::messages::events::sqs::SqsMessage;
    ///
    /// let record: SqsMessage = message.into_record();
    /// assert_eq!(record.event_source.as_deref(), Some("aws:sqs"));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn into_record(self) -> R {
        self.record
    }

    /// Returns the decoded payload, from inside the [envelope](super::Envelope) if the consumer removes one.
    ///
    /// The table in [`messages`](super) shows what the payload is for each source.
    ///
    /// ```
    /// # doc_examples::with_message(|message| {
    /// assert_eq!(message.payload(), br#"{"amount": 1200}"#);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Deserializes the payload from JSON. A byte order mark before it is ignored.
    ///
    /// ```
    /// # doc_examples::with_message(|message| {
    /// #[derive(serde::Deserialize)]
    /// struct Payment { amount: u64 }
    ///
    /// let payment: Payment = message.json()?;
    /// assert_eq!(payment.amount, 1200);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the payload is not JSON, or not of this type. The error
    /// contains the position but nothing of the payload, so a handler can return it.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(without_bom(&self.payload)).map_err(|error| {
            let fault = json_fault(&error);
            let message = format!("the payload is not what the handler takes: {fault}");
            Error::new(ErrorKind::InvalidInput, message)
        })
    }

    /// Returns the idempotency key of the message.
    ///
    /// `None` if the message has no key under [`RunUnprotected`](super::MissingKey::RunUnprotected), or no
    /// valid key while idempotency is switched off.
    ///
    /// ```
    /// # doc_examples::with_message(|message| {
    /// assert_eq!(message.key(), Some("order-42"));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}
