//! Between a function's answer and its stored form.

use std::panic::AssertUnwindSafe;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::Answer;
use crate::engine::refusal::answer_unavailable;
use crate::error::{Error, ErrorKind, JsonFault};

/// Stands in the place of an answer that serde cannot write.
pub(super) const NOT_SERIALISABLE: &str = "it could not be serialised";

/// A function's answer as JSON; or why it cannot be stored.
pub(super) fn serialise<T: Serialize>(value: &T) -> Result<String, String> {
    match std::panic::catch_unwind(AssertUnwindSafe(|| serde_json::to_string(value))) {
        Ok(Ok(json)) => Ok(json),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("its serialisation panicked".to_owned()),
    }
}

/// A reconcile hook's answer as it is stored.
pub(super) fn encode_value<T: Serialize>(value: &T) -> Answer {
    serialise(value).map_or_else(
        |reason| {
            tracing::error!(
                reason,
                "a reconcile hook's answer cannot be stored: repeats get an error"
            );
            Answer::Unavailable(NOT_SERIALISABLE.to_owned())
        },
        Answer::Json,
    )
}

pub(crate) fn decode<T: DeserializeOwned>(answer: &Answer) -> Result<T, Error> {
    match answer {
        Answer::Json(json) => serde_json::from_str(json).map_err(|source| {
            Error::new(
                ErrorKind::AnswerUnreadable,
                "the stored answer is not of the type asked for",
            )
            .with_source(JsonFault::from(source))
        }),
        Answer::Unavailable(reason) => Err(answer_unavailable(reason)),
        Answer::Http(_) => Err(Error::new(
            ErrorKind::AnswerUnreadable,
            "the stored answer is an HTTP response: this scope is used by an HTTP handler too",
        )),
    }
}
