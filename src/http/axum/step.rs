//! Steps whose results are responses.

use std::future::Future;

use ::axum::body::Body;
use ::axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::answer::HttpAnswer;
use crate::call::execution::Execution;
use crate::call::user_code;
use crate::error::{Error, ErrorKind, RunError};
use crate::http::answer;
use crate::http::exchange::read_of_handler;

impl Execution {
    /// Runs a [`step`](Self::step) whose result is any axum response.
    ///
    /// A later attempt gets the stored response. The body is read into memory. Cookies, the date and
    /// hop-by-hop headers are [not stored](crate::http), so only the first response has them.
    ///
    /// ```no_run
    /// use axum::http::StatusCode;
    /// use axum::response::Response;
    /// use dynamodb_idempotency::{Execution, RunError};
    ///
    /// async fn reserve() -> Result<(StatusCode, &'static str), StatusCode> {
    ///     Ok((StatusCode::CREATED, "seat 1A"))
    /// }
    ///
    /// async fn book(execution: Execution) -> Result<Response, RunError<StatusCode>> {
    ///     execution.step_into_response("reserve", reserve()).await
    /// }
    /// ```
    ///
    /// # Errors
    /// The same as for `step`. [`ErrorKind::AnswerUnavailable`], with [`Error::step_ran`], if the
    /// conversion into a response panics or its body fails: the result cannot be stored, and no later
    /// attempt repeats the step.
    pub async fn step_into_response<R, E>(
        &self,
        name: &str,
        work: impl Future<Output = Result<R, E>>,
    ) -> Result<Response, RunError<E>>
    where
        R: IntoResponse,
    {
        let work = async { Ok(StepResult(StepResponse::read(work.await?).await)) };
        let StepResult(kept) = self.step(name, work).await?;
        kept.ok().and_then(StepResponse::into_response).ok_or_else(|| {
            let message = format!("the stored result of step `{name}` is not a response");
            Error::new(ErrorKind::AnswerUnreadable, message).into()
        })
    }
}

/// The result of a step, or why it cannot be stored.
struct StepResult(Result<StepResponse, String>);

impl Serialize for StepResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StepResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        StepResponse::deserialize(deserializer).map(|stored| Self(Ok(stored)))
    }
}

/// A response in the form in which a step's result is stored.
#[derive(Serialize, Deserialize)]
struct StepResponse {
    status: u16,
    headers: Vec<(String, TextOrBytes)>,
    body: TextOrBytes,
    /// The headers of the response, which are sent once. Some of them are not stored.
    #[serde(skip)]
    all_headers: Option<HeaderMap>,
}

/// Text is stored as text, which is readable in the console.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum TextOrBytes {
    Text(String),
    Bytes(Vec<u8>),
}

impl TextOrBytes {
    fn of(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl StepResponse {
    /// Reads the response of a step that has run.
    async fn read(response: impl IntoResponse) -> Result<Self, String> {
        let response = user_code::call(|| response.into_response());
        let response = response.map_err(|_| "its conversion into a response panicked")?;
        let (head, body) = response.into_parts();
        let body = read_of_handler(body.collect()).await;
        let body = body.map_err(|error| format!("reading the response's body failed: {error}"))?;
        let stored = answer::kept_headers(&head.headers).into_iter();
        let headers = stored.map(|(name, value)| (name, TextOrBytes::of(value)));
        Ok(Self {
            status: head.status.as_u16(),
            headers: headers.collect(),
            body: TextOrBytes::of(body.to_bytes().into()),
            all_headers: Some(head.headers),
        })
    }

    /// Converts the result into a response; `None` if it is not valid HTTP.
    fn into_response(self) -> Option<Response> {
        let body = Bytes::from(self.body.into_bytes()).into();
        let headers = self.headers.into_iter().map(|(name, value)| (name, value.into_bytes()));
        let answer = HttpAnswer { status: self.status, headers: headers.collect(), body };
        let mut response = answer::restore(answer)?.map(|body| Body::from(body.bytes));
        if let Some(all_headers) = self.all_headers {
            *response.headers_mut() = all_headers;
        }
        Some(response)
    }
}
