//! Handlers whose whole effect is one transaction.

use ::axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;

use super::super::Http;
use super::super::handler_transaction::HandlerTransaction;
use super::super::layer::{Effect, IdempotencyLayer};
use super::super::problem::{Problem, ProblemKind};
use crate::error::Error;
use crate::run::transaction::Transaction;

impl Http {
    /// Creates a layer for handlers whose whole effect is one DynamoDB transaction.
    ///
    /// A request takes **one** round trip, and so does a repeat. This layer corresponds to
    /// [`run_transaction`](crate::Call::run_transaction) as [`layer`](Self::layer) does to
    /// [`run`](crate::Call::run).
    ///
    /// The handler returns a [`Transaction`] of anything that axum can convert into a response, or
    /// a `Result` with one. It runs before the first request to DynamoDB, in a repeat too, and must
    /// have no effect itself. It has no [`Execution`](crate::Execution). The response to a
    /// transaction with writes is stored whatever its status. A response without a transaction,
    /// such as an extractor's rejection, is sent but not stored, and leaves the key free.
    ///
    /// The body of the response for [`on_condition_failed`](Transaction::on_condition_failed) must
    /// be in memory, like text and JSON. With a stream the client gets
    /// [`ProblemKind::ConditionFailed`]. Put layers that change the response around this layer:
    /// layers below it do not see the response.
    ///
    /// A request that passes through (because of its method, or without a key where none is
    /// required) is unprotected: without writes its response is sent; with writes it gets a 500.
    ///
    /// ```no_run
    /// use aws_sdk_dynamodb::types::TransactWriteItem;
    /// use axum::http::StatusCode;
    /// use axum::{Json, Router, routing::post};
    /// use dynamodb_idempotency::{Error, Idempotency, Transaction};
    /// # fn debit_and_credit(_: u32) -> [TransactWriteItem; 2] { unimplemented!() }
    ///
    /// async fn transfer(Json(amount): Json<u32>) -> Transaction<(StatusCode, &'static str)> {
    ///     Transaction::new((StatusCode::CREATED, "transferred"))
    ///         .items(debit_and_credit(amount))
    ///         .on_condition_failed(|_| Some((StatusCode::PAYMENT_REQUIRED, "insufficient funds")))
    /// }
    ///
    /// fn router(idempotency: &Idempotency) -> Result<Router, Error> {
    ///     let layer = idempotency.http("transfers").transaction_layer()?;
    ///     Ok(Router::new().route("/transfers", post(transfer).route_layer(layer)))
    /// }
    /// ```
    ///
    /// # Errors
    /// The same as for [`layer`](Self::layer).
    pub fn transaction_layer(self) -> Result<IdempotencyLayer, Error> {
        Ok(IdempotencyLayer::new(self.checked()?, Effect::Transaction))
    }
}

/// Passes the transaction to the layer of [`Http::transaction_layer`]. Without that layer nothing
/// is written, and the response is [`ProblemKind::Misconfigured`].
impl<R: IntoResponse + 'static> IntoResponse for Transaction<R> {
    fn into_response(self) -> Response {
        let detail = "The handler needs a transaction, and no transaction layer is around its route: \
                      nothing was written.";
        let mut unlayered = Problem::new(ProblemKind::Misconfigured, detail).into_response();
        let transaction = self.map(|response| {
            response.into_response().map(|body| body.map_err(Into::into).boxed_unsync())
        });
        unlayered.extensions_mut().insert(HandlerTransaction::new(transaction));
        unlayered
    }
}
