//! Effects that happen exactly once: the business writes and the record in one DynamoDB transaction.
//!
//! [`Execution::commit`](crate::Execution::commit) ends a running operation with a transaction.
//! [`Call::run_transaction`](crate::Call::run_transaction) runs a whole operation as one.

pub(crate) mod items;

use std::future::Future;
use std::sync::Arc;

use aws_sdk_dynamodb::types::TransactWriteItem;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::answer::{Answer, Unstorable, to_json};
use crate::call::acquiring::{Acquiring, Action, Progress};
use crate::call::context::{CallContext, End};
use crate::call::core::Core;
use crate::call::errors::{abandoned, commit_unknown};
use crate::call::execution::Storage;
use crate::call::handler::RunOutcome;
use crate::call::user_code::{self, Panic};
use crate::error::{ConditionFailed, Error};
use crate::protocol::{Goal, Tries};
use crate::signals::Ending;
use crate::store::WriteResult;
use crate::store::record::random_owner;

pub(crate) fn json<T: Serialize + ?Sized>(answer: &T) -> Result<Answer, Error> {
    let json = to_json(answer).map_err(|reason| not_serializable(&reason))?;
    Ok(Answer::Json(json.into()))
}

/// The error of a committed answer that cannot be serialized.
pub(crate) fn not_serializable(reason: &str) -> Error {
    Error::invalid_transaction(format!("the answer cannot be serialized: {reason}"))
}

/// The answer of an operation and the writes that are its effect. Either all are applied, once, or none.
///
/// ```
/// use aws_sdk_dynamodb::types::TransactWriteItem;
/// use dynamodb_idempotency::Transaction;
///
/// fn transfer(amount: u64, debit: TransactWriteItem, credit: TransactWriteItem) -> Transaction<&'static str> {
///     if amount == 0 {
///         return Transaction::discard("nothing to transfer");
///     }
///     Transaction::new("transferred")
///         .items([debit, credit])
///         .on_condition_failed(|_| Some("insufficient funds"))
/// }
/// ```
#[derive(derive_more::Debug)]
#[debug("Transaction {{ response: {response:?}, items: {}, .. }}", items.len())]
#[must_use]
pub struct Transaction<T> {
    pub(crate) response: T,
    pub(crate) items: Vec<TransactWriteItem>,
    pub(crate) on_condition_failed: Option<OnConditionFailed<T>>,
    pub(crate) nothing_executed: bool,
}

pub(crate) type OnConditionFailed<T> = Box<dyn FnOnce(&ConditionFailed) -> Option<T> + Send>;

impl<T: 'static> Transaction<T> {
    /// Converts its answers.
    #[cfg(any(feature = "axum", feature = "lambda"))]
    pub(crate) fn map<U: 'static>(self, change: fn(T) -> U) -> Transaction<U> {
        let Self { response, items, on_condition_failed, nothing_executed } = self;
        let on_condition_failed = on_condition_failed.map(|answer| -> OnConditionFailed<U> {
            Box::new(move |failed| answer(failed).map(change))
        });
        Transaction { response: change(response), items, on_condition_failed, nothing_executed }
    }
}

impl<T> Transaction<T> {
    /// Whether there is anything to store.
    pub(crate) fn writes(&self) -> bool {
        !self.nothing_executed || !self.items.is_empty()
    }

    /// Creates a transaction with an answer to store, and no writes yet.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::Transaction;
    ///
    /// let order = || idempotency.operation("orders").key("42").payload("a pen");
    /// let build = async || Ok::<_, std::io::Error>(Transaction::new("accepted".to_owned()));
    /// assert_eq!(order().run_transaction(build).await?, "accepted");
    /// assert_eq!(order().run_transaction(build).await?, "accepted"); // the stored answer
    /// # Ok(()) });
    /// ```
    pub fn new(response: T) -> Self {
        Self { response, items: Vec::new(), on_condition_failed: None, nothing_executed: false }
    }

    /// Creates a transaction that rejects the request. The caller gets its answer, nothing is written, and the
    /// key stays free for a corrected request. If you add items, they are written, and the answer is stored.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::{Outcome, Transaction};
    ///
    /// let transfer = idempotency.operation("transfers").key("order-42").payload(&20);
    /// let refused = async || {
    ///     Ok::<_, std::io::Error>(Transaction::discard("nothing to transfer".to_owned()))
    /// };
    /// let outcome = transfer.run_transaction_with_outcome(refused).await?;
    /// assert!(matches!(outcome, Outcome::NothingExecuted(_)));
    /// assert!(sandbox.record("transfers", "order-42").read().await?.is_none());
    /// # Ok(()) });
    /// ```
    pub fn discard(response: T) -> Self {
        Self { nothing_executed: true, ..Self::new(response) }
    }

    /// Adds one write or condition check, as [`items`](Self::items) does.
    ///
    /// ```
    /// use aws_sdk_dynamodb::types::TransactWriteItem;
    /// use dynamodb_idempotency::Transaction;
    ///
    /// fn book(receipt: TransactWriteItem) -> Transaction<String> {
    ///     Transaction::new("booked".to_owned()).item(receipt)
    /// }
    /// ```
    pub fn item(mut self, item: TransactWriteItem) -> Self {
        self.items.push(item);
        self
    }

    /// Adds writes and condition checks, at most [`MAX_TRANSACTION_ITEMS`](crate::MAX_TRANSACTION_ITEMS) in
    /// all. If an item does not set `ReturnValuesOnConditionCheckFailure`, the crate sets it to `ALL_OLD`.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
    /// use dynamodb_idempotency::Transaction;
    ///
    /// let row = AttributeValue::S("receipt-42".to_owned());
    /// let put = Put::builder().table_name(sandbox.table()).item("pk", row.clone()).build()?;
    /// let put = TransactWriteItem::builder().put(put).build();
    /// let book = idempotency.operation("book").key("order-42").no_payload();
    /// book.run_transaction(async || {
    ///     Ok::<_, std::io::Error>(Transaction::new("booked".to_owned()).items([put]))
    /// })
    /// .await?;
    ///
    /// let get = sandbox.client().get_item().table_name(sandbox.table()).key("pk", row);
    /// assert!(get.send().await?.item.is_some());
    /// # Ok(()) });
    /// ```
    pub fn items(mut self, items: impl IntoIterator<Item = TransactWriteItem>) -> Self {
        self.items.extend(items);
        self
    }

    /// Sets the answer to store instead if a condition of an item fails, such as "insufficient funds". If the
    /// closure returns `None`, nothing is stored, and the call fails with
    /// [`ErrorKind::ConditionFailed`](crate::ErrorKind::ConditionFailed). Storing the answer costs one more
    /// round trip.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem};
    /// use dynamodb_idempotency::{ConditionFailed, Outcome, Transaction};
    ///
    /// let account = AttributeValue::S("account-7".to_owned());
    /// let put = sandbox.client().put_item().table_name(sandbox.table());
    /// let balance = AttributeValue::N("5".to_owned());
    /// put.item("pk", account.clone()).item("balance", balance).send().await?;
    ///
    /// let check = ConditionCheck::builder()
    ///     .table_name(sandbox.table())
    ///     .key("pk", account)
    ///     .condition_expression("balance >= :amount")
    ///     .expression_attribute_values(":amount", AttributeValue::N("20".to_owned()))
    ///     .build()?;
    /// let debit = TransactWriteItem::builder().condition_check(check).build();
    /// let refuse = |failed: &ConditionFailed| {
    ///     let balance = failed.item()?["balance"].as_n().ok()?;
    ///     Some(format!("item {}: only {balance} left", failed.index()))
    /// };
    /// let outcome = idempotency
    ///     .operation("transfers")
    ///     .key("order-42")
    ///     .payload(&20)
    ///     .run_transaction_with_outcome(async || {
    ///         let answer = Transaction::new("transferred".to_owned());
    ///         Ok::<_, std::io::Error>(answer.items([debit]).on_condition_failed(refuse))
    ///     })
    ///     .await?;
    /// assert_eq!(outcome, Outcome::Executed("item 0: only 5 left".to_owned()));
    /// # Ok(()) });
    /// ```
    pub fn on_condition_failed(
        mut self,
        answer: impl FnOnce(&ConditionFailed) -> Option<T> + Send + 'static,
    ) -> Self {
        self.on_condition_failed = Some(Box::new(answer));
        self
    }
}

impl From<Unstorable> for Error {
    fn from(unstorable: Unstorable) -> Self {
        match unstorable {
            Unstorable::TooLarge { bytes, limit } => items::answer_too_large(bytes, limit),
            Unstorable::NotEncoded(reason) => Self::invalid_transaction(format!(
                "the answer's AnswerCodec could not encode it: {reason}"
            )),
            Unstorable::PartsNotWritten(error) => error,
        }
    }
}

/// How an adapter's answers are stored by a transaction.
pub(crate) trait TransactionEncoding<V> {
    /// The closure has panicked. Returns whether the call still gets the answer of an earlier call.
    fn panicked(&self, _: &Panic) -> bool {
        false
    }

    /// Whether the value is stored for repeats.
    fn is_stored(&self, value: &V) -> bool;

    fn answer(&self, value: &V) -> Result<Answer, Error>;
}

/// Writes the items of `build` and its answer, once for the key. `build` runs before the first request.
pub(crate) async fn run_transaction<V, E>(
    encoding: &impl TransactionEncoding<V>,
    core: &Arc<Core>,
    call: Arc<CallContext>,
    build: impl Future<Output = Result<Transaction<V>, E>>,
) -> RunOutcome<V, E> {
    let checked = call.stores_answers("a transaction");
    if let Err(error) = checked.and_then(|()| call.policy.validate_transaction()) {
        return error.into();
    }
    if !call.has_record {
        let outcome = run_without_record(core, call, build).await;
        if let RunOutcome::Panicked(panic, _) = &outcome {
            encoding.panicked(panic);
        }
        return outcome;
    }
    let writes = |transaction: &Transaction<V>| {
        transaction.writes()
            && (!transaction.items.is_empty() || encoding.is_stored(&transaction.response))
    };
    let outcome = match call.prepare(&core.table.clock, user_code::run(build)).await {
        Err(error) => return error.into(),
        Ok(Ok(Ok(transaction))) if writes(&transaction) => {
            let written = write(encoding, core, call, transaction).await;
            return written.unwrap_or_else(RunOutcome::Ended);
        }
        Ok(Ok(Ok(transaction))) => RunOutcome::Returned(transaction.response, Storage::NotStored),
        Ok(Ok(Err(error))) => RunOutcome::Failed(error),
        Ok(Err(panic)) if encoding.panicked(&panic) => RunOutcome::Panicked(panic, None),
        Ok(Err(panic)) => return RunOutcome::Panicked(panic, None),
    };
    // A repeat of a completed operation gets the stored answer, whatever the closure returned now.
    let found = match Acquiring::new(core, &call, Goal::LookUp, false) {
        Ok(mut acquiring) => acquiring.advance(Action::Start).await,
        Err(error) => Err(error.into()),
    };
    match found {
        Ok(_) => outcome,
        Err(end) => outcome.replaced(end),
    }
}

async fn write<V, E>(
    encoding: &impl TransactionEncoding<V>,
    core: &Arc<Core>,
    call: Arc<CallContext>,
    transaction: Transaction<V>,
) -> Result<RunOutcome<V, E>, End> {
    let Transaction { response, items, mut on_condition_failed, .. } = transaction;
    let answer = encoding.answer(&response)?;
    let mut acquiring = Acquiring::new(core, &call, Goal::Transact, false)?;
    let mut progress = acquiring.advance(Action::Transact(answer, items)).await;
    // The answer without items that was sent last, the outcome if nothing is written, and a panic of
    // `on_condition_failed`, which counts as no answer.
    let (mut other, mut unwritten, mut panicked) = (None, None, None);
    while let Ok(Progress::ItemsRejected(error)) = progress {
        let answer = match (error.condition_failed(), on_condition_failed.take()) {
            (Some(failed), Some(answer)) => {
                user_code::call(|| answer(failed)).unwrap_or_else(|panic| {
                    panicked = Some(panic);
                    None
                })
            }
            _ => None,
        };
        unwritten = Some(match answer {
            Some(answer) if encoding.is_stored(&answer) => match encoding.answer(&answer) {
                Ok(stored) => {
                    other = Some(answer);
                    progress = acquiring.advance(Action::Instead(Some(stored))).await;
                    continue;
                }
                Err(invalid) => invalid.into(),
            },
            Some(answer) => RunOutcome::Returned(answer, Storage::NotStored),
            None => error.into(),
        });
        other = None;
        progress = acquiring.advance(Action::Instead(None)).await;
    }
    let outcome = match (progress, unwritten) {
        (Err(end), _) => end.into(),
        (Ok(Progress::Written), _) => {
            let stored = Storage::Stored(acquiring.stored_until());
            RunOutcome::Returned(other.unwrap_or(response), stored)
        }
        (Ok(Progress::NothingWritten), Some(outcome)) => outcome,
        (
            Ok(
                Progress::NothingWritten
                | Progress::Acquired(_)
                | Progress::Abandoned(_)
                | Progress::ItemsRejected(_),
            ),
            _,
        ) => abandoned().into(),
    };
    let Some(panic) = panicked else { return Ok(outcome) };
    encoding.panicked(&panic);
    Ok(after_panic(panic, outcome))
}

/// The outcome of a call whose `on_condition_failed` panicked. A failed condition is then the panic alone.
fn after_panic<V, E>(panic: Panic, outcome: RunOutcome<V, E>) -> RunOutcome<V, E> {
    let is_unwritten = matches!(
        &outcome,
        RunOutcome::Ended(End::NoAnswer(error)) if error.condition_failed().is_some()
    );
    RunOutcome::Panicked(panic, (!is_unwritten).then(|| Box::new(outcome)))
}

/// Commits and transactions of calls that store no record: only the items are written.
impl Core {
    /// Writes items until DynamoDB answers or the time is over. One token makes all tries one transaction.
    /// But there is no record whose condition rejects a delayed try. So once a try has no answer, the
    /// result is success or `OutcomeUnknown`. Boxed, as [`acquire`](crate::call::acquiring::acquire) is.
    pub(super) fn write_items<'a>(
        &'a self,
        call: &'a CallContext,
        mut all: Vec<TransactWriteItem>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let clock = &self.table.clock;
        let end = clock.lasting(call.policy.completion_timeout);
        let mut tries = Tries::until(call.answer_by().map_or(end, |by| by.min(end)));
        let writing = async move {
            items::check(&mut all)?;
            if all.is_empty() {
                return Ok(());
            }
            let token = random_owner()?.to_string();
            let mut in_doubt = false;
            loop {
                let limit = tries.limit(clock.moment());
                let sent = self.table.transact_items(None, (&all, &token), limit).await;
                in_doubt |= sent.is_in_doubt;
                let (error, may_try_again) = match sent.outcome {
                    WriteResult::Applied => return Ok(()),
                    WriteResult::ItemsRejected(error) if !in_doubt => return Err(error),
                    // Unknown: an earlier try may have been applied, and a new transaction could be the second.
                    WriteResult::ItemsRejected(_)
                    | WriteResult::Rejected(_)
                    | WriteResult::TokenUsed(_) => return Err(commit_unknown()),
                    WriteResult::NotApplied(error) | WriteResult::Invalid(error) => {
                        let may_try_again = error.is_retryable();
                        (error, may_try_again)
                    }
                    WriteResult::Conflict(error) | WriteResult::Unknown(error) => (error, true),
                };
                if may_try_again && clock.wait(&mut tries).await {
                    continue;
                }
                if !in_doubt {
                    return Err(error);
                }
                tracing::error!(
                    table = self.table.name, %error,
                    "a transaction was not confirmed in time: it has happened as a whole or not at all"
                );
                return Err(commit_unknown());
            }
        };
        writing.boxed()
    }
}

/// Runs a transaction of a call without a record. Its answer is not stored.
async fn run_without_record<V, E>(
    core: &Core,
    call: Arc<CallContext>,
    build: impl Future<Output = Result<Transaction<V>, E>>,
) -> RunOutcome<V, E> {
    let outcome = match user_code::run(build).await {
        Ok(Ok(transaction)) => {
            let written = write_transaction(core, &call, transaction).await;
            written.unwrap_or_else(RunOutcome::from)
        }
        Ok(Err(error)) => RunOutcome::Failed(error),
        Err(panic) => RunOutcome::Panicked(panic, None),
    };
    let ending = match &outcome {
        RunOutcome::Ended(End::NoAnswer(error)) => Ending::of_error(error),
        RunOutcome::Returned(..) => Ending::UNPROTECTED,
        RunOutcome::Failed(_) | RunOutcome::Panicked(..) | RunOutcome::Ended(_) => {
            Ending::NOT_WRITTEN
        }
    };
    call.ended(ending, None);
    outcome
}

async fn write_transaction<V, E>(
    core: &Core,
    call: &CallContext,
    transaction: Transaction<V>,
) -> Result<RunOutcome<V, E>, Error> {
    let Transaction { response, items, on_condition_failed, .. } = transaction;
    let returned = |value| Ok(RunOutcome::Returned(value, Storage::Unprotected));
    let written = core.write_items(call, items).await;
    let Err(error) = written else { return returned(response) };
    let Some(failed) = error.condition_failed() else { return Err(error) };
    let answered = on_condition_failed.map(|answer| user_code::call(|| answer(failed)));
    match answered.transpose() {
        Ok(Some(Some(answer))) => returned(answer),
        Ok(Some(None) | None) => Err(error),
        Err(panic) => Ok(RunOutcome::Panicked(panic, None)),
    }
}
