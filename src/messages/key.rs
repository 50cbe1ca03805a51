//! Where a message contains its idempotency key.

use std::sync::Arc;

use serde_json::Value;

use super::error::Rejected;
use super::message::Message;
use super::source::Body;

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
pub struct MessageKey<R>(Find<R>);

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

    /// Uses a member of the payload's JSON, by its JSON pointer (RFC 6901) such as `/order/id`. The
    /// member must be a string or an integer of 64 bits.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::messages::MessageKey;
    ///
    /// let consumer = idempotency.sqs("orders").key(MessageKey::json("/order/id"));
    /// # Ok(()) });
    /// ```
    pub fn json(pointer: impl Into<String>) -> Self {
        let pointer = pointer.into();
        Self::by(move |message, _| member(&message.payload, &pointer))
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
        Self(Arc::new(find))
    }

    pub(crate) fn default_attribute() -> Self {
        Self::attribute(DEFAULT_ATTRIBUTE)
    }

    /// Finds the key of a message that was read from `body`.
    pub(crate) fn find(&self, message: &Message<R>, body: &Body) -> Result<String, Rejected> {
        let key = (self.0)(message, body)?;
        if key.is_empty() {
            return Err(Rejected::Malformed("the idempotency key is empty".to_owned()));
        }
        Ok(key)
    }
}

/// Returns a member of a JSON text as a key.
pub(crate) fn member(payload: &[u8], pointer: &str) -> Result<String, Rejected> {
    let invalid = |what: &str| Rejected::Malformed(format!("the key at `{pointer}` {what}"));
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(invalid("is not at an RFC 6901 pointer, which begins with `/`"));
    }
    let Ok(payload) = serde_json::from_slice::<Value>(payload) else {
        return Err(invalid("cannot be found: the payload is not JSON"));
    };
    match payload.pointer(pointer) {
        None | Some(Value::Null) => {
            Err(Rejected::NoKey(format!("the payload has no member `{pointer}`")))
        }
        Some(Value::String(text)) => Ok(text.clone()),
        // Other numbers lose digits, so two keys could become the same.
        Some(Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(number.to_string()),
        Some(_) => Err(invalid("is neither a text nor a whole number of 64 bits")),
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
    fn a_member_is_a_key_if_it_is_a_text_or_a_whole_number() {
        let payload = br#"{"a":{"b/c":"k"},"n":9007199254740993,"m":-1,"e":""}"#;
        for (pointer, key) in
            [("/a/b~1c", "k"), ("/n", "9007199254740993"), ("/m", "-1"), ("/e", "")]
        {
            assert_eq!(member(payload, pointer).as_deref(), Ok(key), "{pointer}");
        }
        assert_eq!(member(b"\"k\"", "").as_deref(), Ok("k"));
    }

    #[test]
    fn a_missing_key_differs_from_an_invalid_key() {
        let payload = br#"{"f":1.5,"big":18446744073709551616,"t":true,"o":{},"l":["k"],"z":null}"#;
        for pointer in ["/x", "/o/x", "/l/1", "/z"] {
            assert!(matches!(member(payload, pointer), Err(Rejected::NoKey(_))), "{pointer}");
        }
        for pointer in ["/f", "/big", "/t", "/o", "/l", "", "f"] {
            assert!(matches!(member(payload, pointer), Err(Rejected::Malformed(_))), "{pointer}");
        }
        for payload in ["", "k", "{", "{\"f\":1"] {
            assert!(matches!(member(payload.as_bytes(), "/f"), Err(Rejected::Malformed(_))));
        }
    }

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
