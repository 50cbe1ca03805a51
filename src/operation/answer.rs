//! Conversion between a function's answer and its stored form.

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};

use crate::answer::{Answer, reason, to_json};
use crate::call::errors::answer_unavailable;
use crate::error::{Error, ErrorKind, json_fault};

/// Returns the stored form of a value. If the value cannot be serialized, repeats get an error.
pub(super) fn encode<T: Serialize>(value: &T, report: impl FnOnce(&str)) -> Answer {
    to_json(value).map_or_else(
        |error| {
            report(&error);
            Answer::Unavailable(reason::NOT_SERIALIZABLE.into())
        },
        json,
    )
}

pub(super) fn json(json: String) -> Answer {
    Answer::Json(json.into())
}

pub(super) fn report_unstorable(reason: &str) {
    tracing::error!(reason, "a reconcile hook's answer cannot be stored: repeats get an error");
}

pub(super) fn decode<T: DeserializeOwned>(answer: &Answer) -> Result<T, Error> {
    let unreadable = |message| Error::new(ErrorKind::AnswerUnreadable, message);
    match answer {
        Answer::Json(json) => {
            let text = str::from_utf8(json).map_err(serde_json::Error::custom);
            text.and_then(serde_json::from_str).map_err(|source| {
                unreadable("the stored answer is not of the type asked for")
                    .with_source(json_fault(&source))
            })
        }
        Answer::Unavailable(reason) => Err(answer_unavailable(reason)),
        Answer::Http(_) => Err(unreadable(
            "the stored answer is an HTTP response: this scope is used by an HTTP handler too",
        )),
    }
}
