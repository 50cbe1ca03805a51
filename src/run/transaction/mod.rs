//! Effects that happen exactly once: the business writes and the record in one DynamoDB transaction.
//!
//! [`Execution::commit`](crate::Execution::commit) ends a running operation with a transaction.
//! [`Call::run_transaction`](crate::Call::run_transaction) runs a whole operation as one.

mod commit;
pub(crate) mod items;
mod run;
mod without_record;

use aws_sdk_dynamodb::types::TransactWriteItem;
use serde::Serialize;

use crate::answer::{Answer, Unstorable, to_json};
use crate::error::{ConditionFailed, Error};

#[cfg(feature = "http")]
pub(crate) use self::commit::Commit;
pub(crate) use self::commit::Committed;
pub(crate) use self::run::{TransactionEncoding, run_transaction};

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
