//! The settings for answers: which are stored, and how they are changed and rendered.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};

#[cfg(doc)]
use super::ProblemKind;
use super::{Http, Problem, answer};

impl Http {
    /// Sets which responses are stored and replayed, by their status.
    ///
    /// Other responses are sent but not stored. A *rejection* has the effect of
    /// [`discard`](crate::Execution::discard) under every policy. For a *failure*,
    /// [`Policy::failure`](crate::Policy::failure) decides.
    ///
    /// | status | default |
    /// |---|---|
    /// | 2xx; 3xx except 304; 402, 404, 410 and every 4xx not named below | stored |
    /// | 400, 401, 403, 405, 406, 407, 411, 413, 414, 415, 417, 421, 422, 428, 431 | a rejection: nothing was done, and the client can correct the request and keep its key |
    /// | 304, 412 | a rejection: a precondition was false, and may be true for the next request |
    /// | 408, 409, 425, 429 | a failure: the client should send the same request again |
    /// | any other status, also one of the first row that your function does not select | a failure |
    ///
    /// With `webhook`, only a 2xx is stored by default, because senders deliver an event again after any
    /// other status. A 3xx, 402 or 404 is then a failure.
    ///
    /// To store all responses, use `|status| status.as_u16() >= 200`. Interim responses (1xx) are not
    /// answers, and storing them is a configuration error. If the function panics, the request counts
    /// as completed, and repeats get [`ProblemKind::AnswerUnavailable`].
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use http::StatusCode;
    ///
    /// // 404 is not stored: what is missing now may exist later.
    /// let http = idempotency
    ///     .http("payments")
    ///     .store_if(|status| status.is_success() || status == StatusCode::PAYMENT_REQUIRED);
    /// # }
    /// ```
    pub fn store_if(mut self, stored: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.store_if = Some(Arc::new(stored));
        self
    }

    /// Renders the crate's own answers. Default: [`Problem::to_response`].
    ///
    /// The default is also used if the renderer panics.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use bytes::Bytes;
    /// use http::Response;
    ///
    /// let http = idempotency.http("payments").render_problem(|problem| {
    ///     let mut response = Response::new(Bytes::from(problem.title()));
    ///     *response.status_mut() = problem.status();
    ///     response
    /// });
    /// # }
    /// ```
    pub fn render_problem(
        mut self,
        renderer: impl Fn(&Problem) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.renderer = Arc::new(renderer);
        self
    }

    /// Changes an answer before it is stored, for example to remove a header.
    ///
    /// The client of this request still gets the handler's own response. Repeats get the changed one.
    /// The function also changes committed responses, responses of a [hook](Self::reconcile) and
    /// failures that are kept. To encrypt answers, use an [`AnswerCodec`](crate::AnswerCodec) instead.
    ///
    /// The function receives the response without the headers that are not stored, and may be called
    /// several times for one answer. If it panics, the request counts as completed, and repeats get
    /// [`ProblemKind::AnswerUnavailable`].
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// // The token is for the first client only, and must not be readable in the table.
    /// let http = idempotency.http("sessions").on_store(|mut response| {
    ///     response.headers_mut().remove("x-session-token");
    ///     response
    /// });
    /// # }
    /// ```
    pub fn on_store(
        mut self,
        change: impl Fn(Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.on_store = Some(answer::on_store(change));
        self
    }

    /// Changes a replay before it is sent.
    ///
    /// The replay already has the header `Idempotency-Replayed`, and its extensions contain
    /// [`StoredUntil`](super::StoredUntil). The record does not change. If the function panics, the client gets
    /// [`ProblemKind::AnswerUnavailable`].
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use http::HeaderValue;
    ///
    /// let http = idempotency.http("payments").on_replay(|mut response| {
    ///     response.headers_mut().insert("cache-control", HeaderValue::from_static("no-store"));
    ///     response
    /// });
    /// # }
    /// ```
    pub fn on_replay(
        mut self,
        change: impl Fn(Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.on_replay = Some(Arc::new(change));
        self
    }

    /// Streams an answer whose body is too large to be stored.
    ///
    /// A body is too large if it exceeds [`max_answer_bytes`](crate::Policy::max_answer_bytes). The
    /// record is then completed with a reason instead of the answer. The first client gets the answer,
    /// repeats get [`ProblemKind::AnswerUnavailable`], and the handler never runs again.
    ///
    /// By default, the crate first reads the whole body into memory. With this setting, it reads about
    /// `max_answer_bytes`, completes the record, and then sends the body as it arrives. If the body
    /// fails after that, the client's connection breaks. If the status is not stored
    /// ([`store_if`](Self::store_if)), the key is freed or the failure is recorded before the body is
    /// sent.
    ///
    /// The setting applies to [`layer`](Self::layer) and `wrap_streaming`. It has no effect with
    /// [`wrap`](Self::wrap), which returns only complete bodies.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let layer = idempotency
    ///     .http("reports")
    ///     .policy(|policy| policy.max_answer_bytes(1 << 20))
    ///     .stream_large_answers()
    ///     .layer()?;
    /// # Ok(()) });
    /// ```
    pub fn stream_large_answers(mut self) -> Self {
        self.stream_large = true;
        self
    }
}
