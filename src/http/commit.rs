//! Committed responses.

use aws_sdk_dynamodb::types::TransactWriteItem;
use bytes::Bytes;
use http::Response;

use super::answer;
use crate::answer::{Answer, AnswerKind, BodyRef, HttpAnswer};
use crate::engine::execution::Execution;
use crate::engine::transaction::Commit;
use crate::error::CommitError;

impl Execution {
    /// As [`commit`](Self::commit), for HTTP handlers: `response` is what the client gets, whatever
    /// the handler returns, and what repeats get.
    ///
    /// It is stored by the rules of [`http`](crate::http), without cookies and changed by
    /// [`Http::on_store`](crate::http::Http::on_store), but whatever its status, since its effect
    /// has happened. Headers that are not stored are sent once, with this request's response.
    ///
    /// ```no_run
    /// use aws_sdk_dynamodb::types::TransactWriteItem;
    /// use dynamodb_idempotency::{CommitError, Execution};
    /// use http::Response;
    ///
    /// async fn book(
    ///     execution: &Execution,
    ///     row: TransactWriteItem,
    /// ) -> Result<Response<String>, CommitError> {
    ///     let mut response = Response::new(r#"{"id":"pay_1"}"#.to_owned());
    ///     *response.status_mut() = http::StatusCode::CREATED;
    ///     execution.commit_response(&response, [row]).await?;
    ///     Ok(response)
    /// }
    /// ```
    ///
    /// # Errors
    /// As `commit`.
    pub async fn commit_response<B: CommittedBody>(
        &self,
        response: &Response<B>,
        items: impl IntoIterator<Item = TransactWriteItem>,
    ) -> Result<(), CommitError> {
        self.commit_answer(commit(response, items.into_iter().collect())).await
    }
}

fn commit<B: CommittedBody>(response: &Response<B>, items: Vec<TransactWriteItem>) -> Commit<'_> {
    let (status, headers, body) = (response.status(), response.headers(), response.body().stored());
    let all = headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
    let whole =
        HttpAnswer { status: status.as_u16(), headers: all.collect(), body: body.to_body() };
    Commit {
        kind: AnswerKind::Http,
        answer: Answer::Http(whole),
        stored: answer::draft_of(status, headers, None, body),
        items,
    }
}

/// A body that a committed response can have: `lambda_http::Body`, [`Bytes`], text, bytes, nothing.
/// Implemented by the crate alone.
///
/// ```
/// use dynamodb_idempotency::http::CommittedBody;
///
/// fn fits<B: CommittedBody>(_: B) {}
/// fits("text");
/// fits(vec![0_u8, 1]);
/// fits(());
/// ```
pub trait CommittedBody: sealed::Sealed {}

impl<B: sealed::Sealed> CommittedBody for B {}

pub(crate) mod sealed {
    use crate::answer::BodyRef;

    pub trait Sealed {
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "nobody else calls it")]
        fn stored(&self) -> BodyRef<'_>;
    }
}

macro_rules! whole {
    ($($body:ty),*) => {$(
        #[expect(private_interfaces, reason = "nobody else calls it")]
        impl sealed::Sealed for $body {
            fn stored(&self) -> BodyRef<'_> {
                let bytes: &[u8] = self.as_ref();
                match std::str::from_utf8(bytes) {
                    Ok("") => BodyRef::Empty,
                    Ok(text) => BodyRef::Text(text),
                    Err(_) => BodyRef::Binary(bytes),
                }
            }
        }
    )*};
}
whole!(Bytes, String, &str, Vec<u8>);

#[expect(private_interfaces, reason = "nobody else calls it")]
impl sealed::Sealed for () {
    fn stored(&self) -> BodyRef<'_> {
        BodyRef::Empty
    }
}
