//! Keys by a `JMESPath` expression.

use jmespath::Variable;

use super::key::{MessageKey, NoKey};
use crate::error::{Error, ErrorKind};

impl<R> MessageKey<R> {
    /// What a `JMESPath` expression finds in the payload's JSON: `join('-', [order.id, order.line])`.
    /// A text, or a whole number.
    ///
    /// ```
    /// use dynamodb_idempotency::messages::{MessageKey, events::sqs::SqsMessage};
    ///
    /// let key = MessageKey::<SqsMessage>::jmespath("join('-', [order.id, order.line])")?;
    /// assert!(MessageKey::<SqsMessage>::jmespath("order.").is_err());
    /// # Ok::<_, dynamodb_idempotency::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if it is no expression.
    pub fn jmespath(expression: &str) -> Result<Self, Error> {
        let compiled = jmespath::compile(expression).map_err(|source| {
            let message = format!("`{expression}` is not a JMESPath expression");
            Error::new(ErrorKind::Configuration, message).with_source(source)
        })?;
        Ok(Self::found_by(move |message| {
            let payload = std::str::from_utf8(&message.payload).map_err(|_| not_json(&compiled))?;
            let payload = Variable::from_json(payload).map_err(|_| not_json(&compiled))?;
            let invalid = |why: &str| NoKey::Invalid(format!("the key by `{compiled}` {why}"));
            let found = compiled.search(payload).map_err(|error| invalid(&error.to_string()))?;
            match &*found {
                Variable::Null => Err(NoKey::Missing(format!("the payload has no `{compiled}`"))),
                Variable::String(text) => Ok(text.clone()),
                // Others lose digits, and two keys could become one.
                Variable::Number(number) if number.is_i64() || number.is_u64() => {
                    Ok(number.to_string())
                }
                _ => Err(invalid("is neither a text nor a whole number of 64 bits")),
            }
        }))
    }
}

fn not_json(expression: &jmespath::Expression<'_>) -> NoKey {
    NoKey::Invalid(format!("the key by `{expression}` cannot be found: the payload is not JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::key::Attributes;
    use crate::messages::message::Message;
    use crate::messages::source::Body;

    fn found(expression: &str, payload: &str) -> Result<String, NoKey> {
        let rule = MessageKey::<()>::jmespath(expression).unwrap();
        let message = Message { record: (), payload: payload.into(), key: None };
        rule.find(&message, &Body::new(Vec::new(), Attributes::default(), None))
    }

    #[test]
    fn an_expression_finds_a_text_or_a_whole_number() {
        let payload = r#"{"order":{"id":"o-1","line":9007199254740993},"items":[{"sku":"a"}]}"#;
        for (expression, key) in [
            ("order.id", "o-1"),
            ("order.line", "9007199254740993"),
            ("items[0].sku", "a"),
            ("join('-', [order.id, items[0].sku])", "o-1-a"),
        ] {
            assert_eq!(found(expression, payload).as_deref(), Ok(key), "{expression}");
        }
        for expression in ["order.other", "items[3]"] {
            assert!(matches!(found(expression, payload), Err(NoKey::Missing(_))), "{expression}");
        }
        for expression in ["order", "items[*].sku", "length(order.line)", "`1.5`", "`true`"] {
            assert!(matches!(found(expression, payload), Err(NoKey::Invalid(_))), "{expression}");
        }
        assert!(matches!(found("id", "no JSON"), Err(NoKey::Invalid(_))));
    }

    #[test]
    fn what_is_no_expression_is_refused_at_once() {
        let error = MessageKey::<()>::jmespath("order.[").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
    }
}
