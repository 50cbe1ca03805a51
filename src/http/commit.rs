//! Committed responses.

use aws_sdk_dynamodb::types::TransactWriteItem;
use bytes::Bytes;
use http::Response;

use super::answer;
use crate::answer::{Answer, Body, HttpAnswer};
use crate::call::commit::Commit;
use crate::call::execution::Execution;
use crate::call::transaction::not_serializable;
use crate::error::Error;

impl Execution {
    /// Commits items like [`commit`](Self::commit), with an HTTP response as the answer.
    ///
    /// The client and all repeats get `response`, whatever its final status and whatever the handler returns.
    /// [`Http::on_store`](crate::http::Http::on_store) changes the stored response. Headers that are
    /// [not stored](crate::http), such as cookies, are sent only with the response to this request. The
    /// body is stored as text if it is UTF-8.
    ///
    /// ```no_run
    /// use aws_sdk_dynamodb::types::TransactWriteItem;
    /// use dynamodb_idempotency::{Error, Execution};
    /// use http::Response;
    ///
    /// async fn book(
    ///     execution: &Execution,
    ///     row: TransactWriteItem,
    /// ) -> Result<Response<String>, Error> {
    ///     let mut response = Response::new(r#"{"id":"pay_1"}"#.to_owned());
    ///     *response.status_mut() = http::StatusCode::CREATED;
    ///     execution.commit_response(&response, [row]).await?;
    ///     Ok(response)
    /// }
    /// ```
    ///
    /// # Errors
    /// The same as for `commit`, and [`InvalidTransaction`](crate::ErrorKind::InvalidTransaction) if the status is
    /// 1xx, because an interim response is not an answer.
    pub async fn commit_response<B: AsRef<[u8]>>(
        &self,
        response: &Response<B>,
        items: impl IntoIterator<Item = TransactWriteItem>,
    ) -> Result<(), Error> {
        let body = Body::from(Bytes::copy_from_slice(response.body().as_ref()));
        let stored = answer::stored(response, body).map_err(not_serializable)?;
        let all = response.headers().iter();
        let all = all.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        let sent = HttpAnswer { headers: all.collect(), ..stored.clone() };
        let commit = Commit {
            answer: Answer::Http(sent),
            stored: Answer::Http(stored),
            items: items.into_iter().collect(),
        };
        self.commit_answer(commit).await
    }
}
