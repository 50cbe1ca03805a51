//! Keys that a `JMESPath` expression finds.

use std::sync::LazyLock;

use jmespath::functions::{Function, ToStringFn};
use jmespath::{
    Context, ErrorReason, JmespathError, Rcvar, Runtime, RuntimeError, SearchResult, Variable,
};

use super::error::Rejected;
use super::key::MessageKey;
use crate::error::{Error, ErrorKind};

/// The functions of the language, except that `to_string` rejects numbers that would lose digits.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = Runtime::new();
    runtime.register_builtin_functions();
    let plain = ToStringFn::new();
    let exact = move |args: &[Rcvar], context: &mut Context<'_>| -> SearchResult {
        if args.iter().all(|argument| is_exact(argument)) {
            plain.evaluate(args, context)
        } else {
            Err(inexact(context))
        }
    };
    runtime.register_function("to_string", Box::new(exact));
    runtime
});

/// Returns whether all numbers are integers of 64 bits. Others lose digits, so two keys could
/// become the same.
fn is_exact(value: &Variable) -> bool {
    match value {
        Variable::Number(number) => number.is_i64() || number.is_u64(),
        Variable::Array(values) => values.iter().all(|value| is_exact(value)),
        Variable::Object(members) => members.values().all(|value| is_exact(value)),
        Variable::Null | Variable::String(_) | Variable::Bool(_) | Variable::Expref(_) => true,
    }
}

fn inexact(context: &Context<'_>) -> JmespathError {
    let reason = RuntimeError::InvalidType {
        expected: "whole numbers of 64 bits".to_owned(),
        actual: "a number that would lose digits".to_owned(),
        position: 0,
    };
    JmespathError::from_ctx(context, ErrorReason::Runtime(reason))
}

impl<R> MessageKey<R> {
    /// Finds the key with a `JMESPath` expression in the payload's JSON.
    ///
    /// An example is `join('-', [order.id, order.line])`. The result must be a string or an integer
    /// of 64 bits. Other numbers are rejected, also by `to_string`, because they would lose digits,
    /// and two keys could become the same.
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
    /// [`ErrorKind::Configuration`] if the expression is invalid.
    pub fn jmespath(expression: &str) -> Result<Self, Error> {
        let compiled = RUNTIME.compile(expression).map_err(|source| {
            let message = format!("`{expression}` is not a JMESPath expression");
            Error::new(ErrorKind::Configuration, message).with_source(source)
        })?;
        Ok(Self::by(move |message, _| {
            let invalid = |why: &str| Rejected::Malformed(format!("the key by `{compiled}` {why}"));
            let payload = str::from_utf8(&message.payload).unwrap_or_default();
            let payload = Variable::from_json(payload)
                .map_err(|_| invalid("cannot be found: the payload is not JSON"))?;
            let found =
                compiled.search(payload).map_err(|error| invalid(&error.reason.to_string()))?;
            match &*found {
                Variable::Null => Err(Rejected::NoKey(format!("the payload has no `{compiled}`"))),
                Variable::String(text) => Ok(text.clone()),
                Variable::Number(number) if is_exact(&found) => Ok(number.to_string()),
                _ => Err(invalid("is neither a text nor a whole number of 64 bits")),
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::key::Attributes;
    use crate::messages::message::Message;
    use crate::messages::source::Body;

    fn found(expression: &str, payload: &str) -> Result<String, Rejected> {
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
            assert!(matches!(found(expression, payload), Err(Rejected::NoKey(_))), "{expression}");
        }
        for expression in ["order", "items[*].sku", "length(order.line)", "`1.5`", "`true`"] {
            assert!(
                matches!(found(expression, payload), Err(Rejected::Malformed(_))),
                "{expression}"
            );
        }
        assert!(matches!(found("id", "no JSON"), Err(Rejected::Malformed(_))));
    }

    /// `18446744073709551616` and `18446744073709551617` are the same number in 64 bits.
    #[test]
    fn no_two_numbers_become_one_text() {
        let of = |id: &str| format!(r#"{{"id":{id},"order":{{"ids":[{id}]}}}}"#);
        for id in
            ["18446744073709551616", "18446744073709551617", "-9223372036854775809", "1.5", "1e2"]
        {
            for expression in
                ["to_string(id)", "to_string(order)", "join('-', [to_string(order.ids)])"]
            {
                let found = found(expression, &of(id));
                assert!(
                    matches!(found, Err(Rejected::Malformed(_))),
                    "{expression}: {id}: {found:?}"
                );
            }
        }
        // The numeric functions use 64 bits too.
        for expression in ["to_string(sum(order.ids))", "to_string(abs(id))"] {
            let found = found(expression, &of("9007199254740993"));
            assert!(matches!(found, Err(Rejected::Malformed(_))), "{expression}: {found:?}");
        }
        for id in ["18446744073709551615", "9007199254740993", "-9223372036854775808", "7"] {
            assert_eq!(found("to_string(id)", &of(id)).as_deref(), Ok(id));
            assert_eq!(found("to_string(order.ids)", &of(id)), Ok(format!("[{id}]")));
        }
        assert_eq!(found("to_string('a')", "{}").as_deref(), Ok("a"));
    }

    #[test]
    fn what_is_no_expression_is_rejected_at_once() {
        let error = MessageKey::<()>::jmespath("order.[").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
    }
}
