//! The requests of clients, and the card network.

use std::time::Duration;

use lambda_http::http::StatusCode;
use lambda_http::{Body, Error};
use serde_json::Value;

/// A valid request.
#[derive(Debug)]
pub(crate) struct Order {
    /// In the currency's smallest unit.
    pub(crate) amount: u64,
    pub(crate) currency: String,
    pub(crate) note: Option<String>,
    pub(crate) source: Source,
}

/// The test tokens.
#[derive(Debug)]
pub(crate) enum Source {
    Visa,
    Slow,
    /// The card network does not respond.
    Stuck,
    Declined,
    ProcessingError,
    Crash,
}

/// Why a request is rejected before anything happens.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: String,
}

fn refusal<T>(status: StatusCode, code: &str) -> Result<T, Refusal> {
    Err(Refusal { status, code: code.to_owned() })
}

impl Order {
    pub(crate) fn parse(body: &Body) -> Result<Self, Refusal> {
        let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
            return refusal(StatusCode::BAD_REQUEST, "body_is_not_a_json_object");
        };
        let invalid = |code| refusal(StatusCode::UNPROCESSABLE_ENTITY, code);
        let Some(amount) = fields.get("amount").and_then(Value::as_u64).filter(|&n| n > 0) else {
            return invalid("amount_must_be_a_positive_integer");
        };
        let currency = fields.get("currency").and_then(Value::as_str).unwrap_or_default();
        if currency.len() != 3 || !currency.bytes().all(|b| b.is_ascii_lowercase()) {
            return invalid("currency_must_be_three_lower_case_letters");
        }
        let note = match fields.get("note") {
            None | Some(Value::Null) => None,
            Some(Value::String(note)) if note.len() <= 500 => Some(note.clone()),
            Some(_) => return invalid("note_must_be_a_text_of_500_bytes_at_most"),
        };
        let source = match fields.get("source").and_then(Value::as_str) {
            Some("tok_visa") => Source::Visa,
            Some("tok_slow") => Source::Slow,
            Some("tok_stuck") => Source::Stuck,
            Some("tok_declined") => Source::Declined,
            Some("tok_processing_error") => Source::ProcessingError,
            Some("tok_crash") => Source::Crash,
            _ => return invalid("source_is_unknown"),
        };
        Ok(Self { amount, currency: currency.to_owned(), note, source })
    }
}

/// The card network's decision.
#[derive(Debug)]
pub(crate) enum Charge {
    Succeeded,
    Failed { status: StatusCode, code: &'static str, attempt_id: String },
}

/// Calls the card network, here a table of test tokens.
#[expect(clippy::panic, reason = "tok_crash shows what a panicking handler leaves behind")]
pub(crate) async fn charge(order: &Order) -> Result<Charge, Error> {
    let (status, code) = match order.source {
        Source::Visa => return Ok(Charge::Succeeded),
        Source::Slow => {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            return Ok(Charge::Succeeded);
        }
        Source::Stuck => return std::future::pending().await,
        Source::Crash => panic!("tok_crash was asked for"),
        Source::Declined => (StatusCode::PAYMENT_REQUIRED, "card_declined"),
        Source::ProcessingError => (StatusCode::SERVICE_UNAVAILABLE, "processing_error"),
    };
    Ok(Charge::Failed { status, code, attempt_id: random_id("att")? })
}

/// A prefix and 128 random bits.
pub(crate) fn random_id(prefix: &str) -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{prefix}_{:032x}", u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_input_is_rejected_with_the_reason() {
        for (body, status, code) in [
            ("", 400, "body_is_not_a_json_object"),
            ("[]", 400, "body_is_not_a_json_object"),
            ("{}", 422, "amount_must_be_a_positive_integer"),
            (r#"{"amount":-1}"#, 422, "amount_must_be_a_positive_integer"),
            (r#"{"amount":1.5}"#, 422, "amount_must_be_a_positive_integer"),
            (r#"{"amount":"1"}"#, 422, "amount_must_be_a_positive_integer"),
            (r#"{"amount":1}"#, 422, "currency_must_be_three_lower_case_letters"),
            (r#"{"amount":1,"currency":"eur"}"#, 422, "source_is_unknown"),
            (
                r#"{"amount":1,"currency":"eur","note":1}"#,
                422,
                "note_must_be_a_text_of_500_bytes_at_most",
            ),
            (r#"{"amount":1,"currency":"eur","source":"x"}"#, 422, "source_is_unknown"),
        ] {
            let refusal = Order::parse(&Body::from(body)).unwrap_err();
            assert_eq!((refusal.status.as_u16(), refusal.code.as_str()), (status, code), "{body}");
        }
    }
}
