//! Operations that are a single DynamoDB transaction.

use std::future::Future;
use std::marker::PhantomData;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument;

use super::call::{Call, Json, outcome_of};
use super::outcome::Outcome;
use super::typed::{KeptErrors, Unset};
use crate::answer::Answer;
use crate::call::transaction::{Transaction, TransactionEncoding, json, run_transaction};
use crate::error::{Error, RunError};

impl<Errors> Call<Unset, Errors> {
    /// Runs the whole operation as one DynamoDB transaction.
    ///
    /// The transaction contains the writes that `build` returns, and the completed record with its answer.
    /// DynamoDB applies all of it, once, or nothing. The call takes one round trip. A repeat takes one too:
    /// DynamoDB cancels the repeat's transaction and returns the stored answer. The record has at most 400 KB,
    /// so store a reference if the answer is larger. [`FirstRequest::Read`](crate::policy::FirstRequest::Read)
    /// makes repeats of large answers cheaper.
    ///
    /// `build` runs **before** the first request to DynamoDB, in a repeat too. It prepares the writes and
    /// must have no effect itself. If `build` fails, nothing is stored, whatever the failure policy says.
    ///
    /// The transaction respects records that [`run`](Self::run) wrote under the same key. It respects a
    /// live lease, and takes over an expired one. After a kept failure, it runs or returns the failure, as
    /// the policy says. A transaction holds no lease, so it cannot be taken over.
    /// [`Outage::Open`](crate::policy::Outage::Open) does not apply, because the effect needs DynamoDB too.
    ///
    /// ```no_run
    /// use aws_sdk_dynamodb::types::TransactWriteItem;
    /// use dynamodb_idempotency::{Idempotency, RunError, Transaction};
    ///
    /// async fn transfer(
    ///     idempotency: &Idempotency,
    ///     debit: TransactWriteItem, // on the condition that the balance suffices
    ///     credit: TransactWriteItem,
    /// ) -> Result<String, RunError<std::io::Error>> {
    ///     idempotency
    ///         .operation("transfers")
    ///         .key("order-42")
    ///         .payload(&20)
    ///         .run_transaction(async || {
    ///             Ok(Transaction::new("transferred".to_owned())
    ///                 .items([debit, credit])
    ///                 .on_condition_failed(|_| Some("insufficient funds".to_owned())))
    ///         })
    ///         .await
    /// }
    /// ```
    ///
    /// # Errors
    /// [`RunError::Handler`] with the error of `build`, or with a stored one.
    /// [`ErrorKind::ConditionFailed`](crate::ErrorKind::ConditionFailed) if a condition is false and the
    /// transaction has no answer for that case: nothing was written.
    /// [`ErrorKind::InvalidTransaction`](crate::ErrorKind::InvalidTransaction) if DynamoDB or the crate
    /// rejects the transaction: nothing was written.
    /// [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) if DynamoDB did not confirm the write
    /// in time: retry with the same key. The other kinds are those of [`run`](Self::run).
    pub async fn run_transaction<T, E, F, Fut>(self, build: F) -> Result<T, RunError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Transaction<T>, E>>,
        T: Serialize + DeserializeOwned,
        Errors: KeptErrors<E>,
    {
        self.run_transaction_with_expiry(build).await.map(|(outcome, _)| outcome.into_inner())
    }

    /// Like [`run_transaction`](Self::run_transaction), but also returns where the answer comes from.
    ///
    /// The [outcome](crate::Outcome) is `Executed` (also for the answer to a failed condition), `Replayed`,
    /// or `NothingExecuted`. While idempotency is switched off, it is `Unprotected`.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::Transaction;
    ///
    /// let outcome = idempotency
    ///     .operation("transfers")
    ///     .key("order-42")
    ///     .payload(&20)
    ///     .run_transaction_with_outcome(async || {
    ///         Ok::<_, std::io::Error>(Transaction::new("transferred".to_owned())) // .items(..)
    ///     })
    ///     .await?;
    /// println!("a replay: {}", outcome.is_replayed());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for `run_transaction`.
    pub async fn run_transaction_with_outcome<T, E, F, Fut>(
        self,
        build: F,
    ) -> Result<Outcome<T>, RunError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Transaction<T>, E>>,
        T: Serialize + DeserializeOwned,
        Errors: KeptErrors<E>,
    {
        self.run_transaction_with_expiry(build).await.map(|(outcome, _)| outcome)
    }

    /// Like [`run_transaction_with_outcome`](Self::run_transaction_with_outcome), but also returns until when the
    /// answer is stored, as [`run_with_expiry`](Self::run_with_expiry) does.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::Transaction;
    ///
    /// let transfer = idempotency.operation("transfers").key("order-42").no_payload();
    /// let (outcome, stored_until) = transfer
    ///     .run_transaction_with_expiry(async || {
    ///         Ok::<_, std::io::Error>(Transaction::new("transferred".to_owned())) // .items(..)
    ///     })
    ///     .await?;
    /// let record = sandbox.record("transfers", "order-42").read().await?.expect("a record");
    /// assert_eq!(stored_until, Some(record.expires_at));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for `run_transaction`.
    pub async fn run_transaction_with_expiry<T, E, F, Fut>(
        self,
        build: F,
    ) -> Result<(Outcome<T>, Option<SystemTime>), RunError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Transaction<T>, E>>,
        T: Serialize + DeserializeOwned,
        Errors: KeptErrors<E>,
    {
        let (core, call, Unset) = self.ready()?;
        let span = call.signals.span();
        async {
            let build = async { build().await };
            let outcome = run_transaction(&Json::<Errors>(PhantomData), &core, call, build).await;
            outcome_of::<T, E, Errors>(outcome)
        }
        .instrument(span)
        .await
    }
}

impl<T: Serialize, Errors> TransactionEncoding<T> for Json<Errors> {
    fn is_stored(&self, _: &T) -> bool {
        true
    }

    fn answer(&self, value: &T) -> Result<Answer, Error> {
        json(value)
    }
}
