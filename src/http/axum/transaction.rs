//! Handlers whose whole effect is one transaction.

use ::axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;

use super::super::Http;
use super::super::handler_transaction::HandlerTransaction;
use super::super::layer::{Effect, IdempotencyLayer};
use super::super::problem::{Problem, ProblemKind};
use crate::call::transaction::Transaction;
use crate::error::Error;

impl Http {
    /// Creates a layer for handlers whose whole effect is one DynamoDB transaction.
    ///
    /// A request takes only **one** round trip, and a repeat takes one too. The rules are those of
    /// [`run_transaction`](crate::Call::run_transaction).
    ///
    /// The handler returns a [`Transaction`] with anything that axum can convert into a response, or a
    /// `Result` with such a transaction. The handler runs before the first request to DynamoDB, also in
    /// a repeat, so it must have no effect itself. It has no [`Execution`](crate::Execution).
    ///
    /// The response to a transaction with writes is stored, whatever its final status. A response without a
    /// transaction, such as an extractor's rejection, is not stored, and the key stays free. The body that
    /// [`on_condition_failed`](Transaction::on_condition_failed) returns must be in memory. If it is a
    /// stream, the client gets [`ProblemKind::ConditionFailed`].
    ///
    /// Layers that change the response must be around this layer, because layers inside it do not see
    /// the response. A request that passes through is unprotected. If its transaction has writes,
    /// nothing is written, and the client gets a 500.
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

/// Passes the transaction to the layer of [`Http::transaction_layer`]. Without that layer, nothing is
/// written, and the client gets [`ProblemKind::Misconfigured`].
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
