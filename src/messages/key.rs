//! Where a message contains its idempotency key.

use std::sync::Arc;

use super::error::Rejected;
use super::message::Message;
use super::source::Body;
use crate::json::{JsonKey, NoKey};

/// The default attribute of the key, named like the HTTP header.
const DEFAULT_ATTRIBUTE: &str = "Idempotency-Key";

/// Where a message contains its idempotency key. `R` is the type of the source's record.
///
/// A **broker's id** is the same in all deliveries of one message. If a producer sends a request
/// twice, for example after a timeout, the broker gives the two messages different ids, and the
/// effect happens twice. If producers retry, let them send a key.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
/// use dynamodb_idempotency::messages::MessageKey;
///
/// let orders = idempotency.sqs("orders").key(MessageKey::json("/order/id"));
/// let payments = idempotency.kafka("payments").key(MessageKey::attribute("payment-id"));
/// let clicks = idempotency.kinesis("clicks").key(MessageKey::broker_id());
/// # }
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("MessageKey")]
pub struct MessageKey<R> {
    find: Find<R>,
    /// Why this rule cannot be used.
    pub(crate) wrong: Option<String>,
}

type Find<R> = Arc<dyn Fn(&Message<R>, &Body) -> Result<String, Rejected> + Send + Sync>;

impl<R> MessageKey<R> {
    /// Uses the message attribute (SQS, SNS) or header (Kafka) with exactly this name. Its value
    /// must be text.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let consumer = idempotency.kafka("payments").key(MessageKey::attribute("payment-id"));
    /// # Ok(()) });
    /// ```
    pub fn attribute(name: impl Into<String>) -> Self {
        let name = name.into();
        Self::by(move |_, body| attribute(&body.attributes, &name))
    }

    /// Uses parts of the payload's JSON: see [`JsonKey`].
    ///
    /// If a pointer is invalid, [`Consumer::handler`](super::Consumer::handler) returns an error.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let orders = idempotency.sqs("orders").key(MessageKey::json("/order/id"));
    /// let lines = idempotency.sqs("lines").key(MessageKey::json(["/order/id", "/line"]));
    /// # Ok(()) });
    /// ```
    pub fn json(key: impl Into<JsonKey>) -> Self {
        let key = key.into();
        let wrong = key.wrong();
        let find = move |message: &Message<R>, _: &Body| {
            key.find(&message.payload).map_err(|none| match none {
                NoKey::Missing(reason) => Rejected::NoKey(reason),
                NoKey::Invalid(reason) => Rejected::Malformed(reason),
            })
        };
        Self { wrong, ..Self::by(find) }
    }

    /// Uses the id that the source gives the message.
    ///
    /// If possible, use a key from the message instead. For example, an SQS redrive
    /// (`StartMessageMoveTask`) creates new messages with new ids, so a message that ran before
    /// runs again.
    ///
    /// | source | id |
    /// |---|---|
    /// | SQS | `messageId`; in an envelope, the id of its content |
    /// | Kinesis | stream ARN, shard, sequence number |
    /// | DynamoDB Streams | stream ARN, sequence number |
    /// | Kafka | cluster ARN (or the bootstrap servers, sorted), topic, partition, offset |
    /// | SNS | `MessageId` |
    /// | EventBridge | `source`, `id` |
    /// | S3 | bucket, key (URL-encoded, as it is sent), version, sequencer (or, without a sequencer, the event's name and time); if the whole id has more than 2 KB, use [`KeyForm::Sha256`](crate::policy::KeyForm::Sha256) |
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let consumer = idempotency.sqs("thumbnails").key(MessageKey::broker_id());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn broker_id() -> Self {
        Self::by(|_, body| {
            let missing =
                || Rejected::Malformed("the record does not carry its broker's id".to_owned());
            body.broker_id.clone().ok_or_else(missing)
        })
    }

    /// Uses the key that `find` returns: a `String`, or an `Option<String>`.
    ///
    /// The closure must name the type of its message.
    /// [`Consumer::key_with`](super::Consumer::key_with) infers it.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::messages::{Message, MessageKey, events::sqs::SqsMessage};
    ///
    /// let key = MessageKey::with(|message: &Message<SqsMessage>| message.record().message_id.clone());
    /// let consumer = idempotency.sqs("orders").key(key);
    /// # }
    /// ```
    pub fn with<Key: Into<Option<String>>>(
        find: impl Fn(&Message<R>) -> Key + Send + Sync + 'static,
    ) -> Self {
        Self::by(move |message, _| {
            let missing = || Rejected::NoKey("the message has no idempotency key".to_owned());
            find(message).into().ok_or_else(missing)
        })
    }

    pub(crate) fn by(
        find: impl Fn(&Message<R>, &Body) -> Result<String, Rejected> + Send + Sync + 'static,
    ) -> Self {
        Self { find: Arc::new(find), wrong: None }
    }

    pub(crate) fn default_attribute() -> Self {
        Self::attribute(DEFAULT_ATTRIBUTE)
    }

    /// Finds the key of a message that was read from `body`.
    pub(crate) fn find(&self, message: &Message<R>, body: &Body) -> Result<String, Rejected> {
        let key = (self.find)(message, body)?;
        if key.is_empty() {
            return Err(Rejected::Malformed("the idempotency key is empty".to_owned()));
        }
        Ok(key)
    }
}

/// Why a binary attribute is not a key.
pub(crate) const BINARY: &str = "is binary, and a key is text";

/// The attributes of a message. An error says why a value is not text.
pub(crate) type Attributes = Vec<(String, Result<String, &'static str>)>;

/// Returns an attribute as a key.
fn attribute(attributes: &Attributes, name: &str) -> Result<String, Rejected> {
    let mut found = attributes.iter().filter(|(other, _)| other == name);
    let Some((_, value)) = found.next() else {
        return Err(Rejected::NoKey(format!("the message has no attribute `{name}`")));
    };
    let invalid = |reason: String| Err(Rejected::Malformed(reason));
    match (value, found.next()) {
        (Ok(value), None) => Ok(value.clone()),
        (Err(why), None) => invalid(format!("the attribute `{name}` {why}")),
        (_, Some(_)) => invalid(format!("the message has several attributes `{name}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_to_be_there_once_and_to_be_text() {
        let text = |text: &str| Ok(text.to_owned());
        let all =
            [("one", text("1")), ("two", text("2")), ("two", text("2")), ("bytes", Err(BINARY))];
        let attributes: Attributes = all.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(attribute(&attributes, "one").as_deref(), Ok("1"));
        assert!(matches!(attribute(&attributes, "One"), Err(Rejected::NoKey(_))));
        for name in ["two", "bytes"] {
            assert!(matches!(attribute(&attributes, name), Err(Rejected::Malformed(_))), "{name}");
        }
    }
}
