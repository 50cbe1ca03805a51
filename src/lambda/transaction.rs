//! The wrapper around a `lambda_http` service whose whole effect is one transaction.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use lambda_http::{Body, Request, Response};
use tower_service::Service;

use super::service::{ResponseFuture, bytes_of};
use crate::engine::transaction::Transaction;
use crate::http::{
    Applicability, Config, Http, applicability, call, exchange_transaction, pass_transaction,
    ready, render,
};

impl Http {
    /// Wraps a `lambda_http` handler whose whole effect is one DynamoDB transaction. The rules are
    /// those of [`wrap`](Self::wrap), but it takes **one** round trip, for the first request and
    /// for a repeat.
    ///
    /// The handler returns a [`Transaction`]: its response and the writes to make. It runs before
    /// DynamoDB is asked, in a repeat too, and must have no effect of its own; see
    /// [`Operation::run_transaction`](crate::Operation::run_transaction). It has no
    /// [`Execution`](crate::Execution). The response to a transaction with writes is stored
    /// whatever its status. Without writes, and for
    /// [`on_condition_failed`](Transaction::on_condition_failed), a response whose status is not
    /// stored is sent, and nothing of it is kept whatever the policy for failures.
    ///
    /// A request that passes through (by its method, or without a key that is not required) is
    /// unprotected: its response is sent if there are no writes; otherwise it is a 500.
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
    ///     lambda::run(idempotency.http("transfers").wrap_transaction(service_fn(transfer))).await
    /// }
    /// ```
    pub fn wrap_transaction<'a, S>(self, service: S) -> IdempotentTransaction<'a, S>
    where
        S: Service<Request, Response = Transaction<Response<Body>>> + 'a,
    {
        IdempotentTransaction {
            config: self.without_trailers(),
            inner: service,
            lifetime: PhantomData,
        }
    }
}

/// A `lambda_http` service of transactions that happen once; made by [`Http::wrap_transaction`].
#[derive(Clone, Debug)]
pub struct IdempotentTransaction<'a, S> {
    config: Arc<Config>,
    inner: S,
    /// Of what the service borrows.
    lifetime: PhantomData<fn() -> &'a ()>,
}

impl<'a, S> Service<Request> for IdempotentTransaction<'a, S>
where
    S: Service<Request, Response = Transaction<Response<Body>>> + Clone + Send + 'a,
    S::Future: Send + 'a,
    S::Error: Send + 'a,
{
    type Response = super::LambdaResponse;
    type Error = S::Error;
    type Future = ResponseFuture<'a, S::Error>;

    /// Always: the handler is waited for when it is called.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        ResponseFuture::new(answer(Arc::clone(&self.config), self.inner.clone(), request))
    }
}

async fn answer<S>(
    config: Arc<Config>,
    mut inner: S,
    request: Request,
) -> Result<Response<Body>, S::Error>
where
    S: Service<Request, Response = Transaction<Response<Body>>> + Send,
    S::Future: Future<Output = Result<Transaction<Response<Body>>, S::Error>> + Send,
    S::Error: Send,
{
    let (parts, body) = request.into_parts();
    let called = match applicability(&config, &parts) {
        Ok(Applicability::None) => {
            ready(&mut inner).await?;
            let passing = inner.call(Request::from_parts(parts, body));
            return Ok(pass_transaction(&config, passing.await?));
        }
        Ok(Applicability::Key(key)) => call(&config, &parts, &key, bytes_of(&body)),
        Err(problem) => Err(problem),
    };
    match called {
        Ok(called) => {
            // Called inside, so that a panic of the call itself counts too.
            let handler = async move {
                ready(&mut inner).await?;
                inner.call(Request::from_parts(parts, body)).await
            };
            exchange_transaction(&config, called, handler).await
        }
        Err(problem) => Ok(render(&config, &problem)),
    }
}
