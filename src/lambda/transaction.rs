//! The wrapper around a `lambda_http` service whose whole effect is one transaction.

use std::sync::Arc;

use lambda_http::{Body, Request, Response, service_fn};
use tower_service::Service;

use super::payload::Limit;
use super::service::LambdaResponse;
use crate::http::Http;
use crate::http::exchange::{HandlerBody, exchange_transaction, oneshot, pass_transaction, render};
use crate::http::request::whole_call;
use crate::run::transaction::Transaction;

impl Http {
    /// Wraps a `lambda_http` handler whose whole effect is one DynamoDB transaction.
    ///
    /// The rules are those of [`wrap`](Self::wrap), but a request takes only **one** round trip,
    /// and so does a repeat.
    ///
    /// The handler returns a [`Transaction`]: its response and the items to write. It runs before
    /// the first request to DynamoDB, in a repeat too, and must have no effect itself; see
    /// [`Call::run_transaction`](crate::Call::run_transaction). It has no
    /// [`Execution`](crate::Execution).
    ///
    /// The response to a transaction with writes is stored whatever its status. Without writes, and
    /// for [`on_condition_failed`](Transaction::on_condition_failed), a response whose status is
    /// not stored is sent, and nothing of it is kept whatever the policy for failures. If a
    /// response is [larger than Lambda accepts](crate::lambda), nothing is written, and the client
    /// gets [`ProblemKind::BodyBroken`](crate::http::ProblemKind::BodyBroken).
    ///
    /// A request that passes through (because of its method, or without a key where none is
    /// required) is unprotected: without writes its response is sent; with writes it gets a 500.
    ///
    /// ```
    /// use aws_sdk_dynamodb::types::TransactWriteItem;
    /// use dynamodb_idempotency::{Idempotency, Transaction, lambda};
    /// use lambda_http::{Body, Error, Request, Response, service_fn};
    /// # fn debit_and_credit(_: &Request) -> [TransactWriteItem; 2] { unimplemented!() }
    ///
    /// async fn transfer(request: Request) -> Result<Transaction<Response<Body>>, Error> {
    ///     let done = Response::builder().status(201).body(Body::Empty)?;
    ///     let refused = Response::builder().status(402).body(Body::from("insufficient funds"))?;
    ///     Ok(Transaction::new(done)
    ///         .items(debit_and_credit(&request))
    ///         .on_condition_failed(|_| Some(refused)))
    /// }
    ///
    /// async fn serve(idempotency: Idempotency) -> Result<(), Error> {
    ///     lambda::run(idempotency.http("transfers").wrap_transaction(service_fn(transfer))?).await
    /// }
    /// ```
    ///
    /// # Errors
    /// The same as for [`layer`](Self::layer).
    pub fn wrap_transaction<'a, S>(
        self,
        service: S,
    ) -> Result<
        impl Service<Request, Response = LambdaResponse, Error = S::Error, Future: Send + 'a> + Clone,
        crate::Error,
    >
    where
        S: Service<Request, Response = Transaction<Response<Body>>, Error: Send, Future: Send>
            + Clone
            + Send
            + 'a,
    {
        let config = self.checked()?;
        Ok(service_fn(move |request: Request| {
            let (config, inner) = (Arc::clone(&config), service.clone());
            Box::pin(async move {
                let (config, limit) = (&*config, Limit::of(request.extensions()));
                let (call, request) = whole_call(config, request);
                Ok(LambdaResponse(match call {
                    Ok(None) => pass_transaction(config, oneshot(inner, request).await?),
                    Ok(Some(call)) => {
                        // Called inside the future, so that a panic of the call itself is handled too.
                        let handler = async {
                            let transaction = oneshot(inner, request).await?;
                            Ok(match limit.check(&transaction.response) {
                                Ok(()) => transaction.map(|answer| {
                                    answer.map(|body| HandlerBody::Whole(body.into()))
                                }),
                                Err(reason) => Transaction::discard(
                                    transaction.response.map(|_| HandlerBody::Unsendable(reason)),
                                ),
                            })
                        };
                        limit.enforce(config, exchange_transaction(config, call, handler).await?)
                    }
                    Err(problem) => render(config, &problem),
                }))
            })
        }))
    }
}
