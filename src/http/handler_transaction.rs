//! Passes a transaction from a handler to the layer around it, in the extensions of a response. If no
//! layer takes it, the client gets that response, which reports an error.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt;
use http::Response;
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Either};

use super::Http;
use super::answer_body::{AnswerBody, BoxError, ResponseBody, whole};
use super::client::Client;
use super::exchange::{HandlerBody, cannot_be_sent, pass_transaction};
use super::layer::read_body;
use crate::answer;
use crate::answer::reason::http as reason;
use crate::call::transaction::{OnConditionFailed, Transaction};

/// The body of any handler's response.
pub(super) type Whole = UnsyncBoxBody<Bytes, BoxError>;

/// A handler's transaction in the extensions of its response. It is shared, because extensions are
/// cloned. Only the first `take` returns it.
#[derive(Clone)]
pub(super) struct HandlerTransaction(Arc<Mutex<Slot>>);

struct Slot(Option<Transaction<Response<Whole>>>);

impl HandlerTransaction {
    #[cfg_attr(not(feature = "axum"), expect(dead_code, reason = "axum's handlers return them"))]
    pub(super) fn new(transaction: Transaction<Response<Whole>>) -> Self {
        Self(Arc::new(Mutex::new(Slot(Some(transaction)))))
    }

    fn take<B>(response: &mut Response<B>) -> Option<Transaction<Response<Whole>>> {
        let Self(slot) = response.extensions_mut().remove()?;
        slot.lock().unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.0.is_some() {
            tracing::error!(
                "a handler returned a transaction, but its route has no transaction layer: nothing was written"
            );
        }
    }
}

/// Returns the handler's transaction. A response without one changes nothing in DynamoDB.
pub(super) async fn transaction<B: Body<Error: Into<BoxError>> + 'static>(
    config: &Http,
    mut response: Response<B>,
    client: &Client,
) -> Transaction<Response<HandlerBody<AnswerBody<B>>>> {
    let Some(transaction) = HandlerTransaction::take(&mut response) else {
        let response = read(config, response, Some(client)).await;
        return Transaction::discard(response.map(HandlerBody::nothing_written));
    };
    let Transaction { response, items, on_condition_failed, nothing_executed } = transaction;
    let (response, on_condition_failed) =
        (read(config, response, Some(client)).await, on_condition_failed.map(synchronous));
    match response.body() {
        HandlerBody::Unsendable(_) => {
            Transaction::discard(response.map(HandlerBody::nothing_written))
        }
        HandlerBody::Whole(_) | HandlerBody::Streaming(_) => {
            Transaction { response, items, on_condition_failed, nothing_executed }
        }
    }
}

/// Returns the response to a request that passes through, for which no items are written.
pub(super) async fn passed<B: Body>(
    config: &Http,
    mut response: Response<B>,
) -> Response<ResponseBody<B>> {
    let Some(transaction) = HandlerTransaction::take(&mut response) else {
        return response.map(Either::Left);
    };
    let Transaction { response, items, .. } = transaction;
    let (head, body) = read(config, response, None).await.into_parts();
    let body = match body {
        HandlerBody::Whole(body) => body.into(),
        HandlerBody::Streaming(body) => body,
        HandlerBody::Unsendable(reason) => return whole(cannot_be_sent(config, &reason)),
    };
    let transaction = Transaction::new(Response::from_parts(head, body)).items(items);
    whole(pass_transaction(config, transaction))
}

/// Reads the whole response.
async fn read<B: Body<Error: Into<BoxError>>, C: From<answer::Body>>(
    config: &Http,
    response: Response<B>,
    client: Option<&Client>,
) -> Response<HandlerBody<C>> {
    let (head, body) = response.into_parts();
    let body = match read_body(config, &head, body, false, client).await {
        HandlerBody::Whole(body) => HandlerBody::Whole(body),
        HandlerBody::Streaming(_) => HandlerBody::Unsendable(reason::STREAMED.into()),
        HandlerBody::Unsendable(reason) => HandlerBody::Unsendable(reason),
    };
    Response::from_parts(head, body)
}

/// Reads the answer to a failed condition synchronously. A body that is not available at once is
/// treated as missing.
fn synchronous<C: 'static>(
    answer: OnConditionFailed<Response<Whole>>,
) -> OnConditionFailed<Response<HandlerBody<C>>> {
    Box::new(move |failed| {
        let (head, body) = answer(failed)?.into_parts();
        let Some(Ok(body)) = body.collect().now_or_never() else {
            tracing::error!("the body of the answer for a failed condition is not in memory");
            return None;
        };
        Some(Response::from_parts(head, HandlerBody::Whole(body.to_bytes().into())))
    })
}
