//! Effects that happen exactly once: the business writes and the record in one DynamoDB transaction.
//!
//! [`Execution::commit`](crate::Execution::commit) ends a running operation so;
//! [`Operation::run_transaction`](crate::Operation::run_transaction) is the whole of an operation.

mod commit;
mod items;
mod once;
mod operation;
mod preview;
mod reasons;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use serde::Serialize;

use crate::error::Error;
use crate::response::Unstorable;

#[cfg(feature = "http")]
pub(crate) use self::commit::Commit;
pub(crate) use self::commit::{Commits, Fate, commit_unknown, given_up};
pub(crate) use self::once::{Instead, Once, look_up, once};

/// How many items of the caller's fit beside the record: DynamoDB takes 100 in all.
///
/// ```
/// assert_eq!(dynamodb_idempotency::MAX_TRANSACTION_ITEMS, 99);
/// ```
pub const MAX_TRANSACTION_ITEMS: usize = 99;

/// A condition of one of the caller's own items did not hold: nothing was written.
///
/// ```
/// use dynamodb_idempotency::ConditionFailed;
///
/// fn explain(failed: &ConditionFailed) -> String {
///     let others = failed.all().count() - 1;
///     match failed.item().and_then(|account| account.get("balance")?.as_n().ok()) {
///         Some(balance) => format!("only {balance} are left"),
///         None => format!("item {} is not as it should be, and {others} more", failed.index()),
///     }
/// }
/// ```
pub struct ConditionFailed {
    first: Failed,
    further: Vec<Failed>,
}

struct Failed {
    index: usize,
    item: Option<HashMap<String, AttributeValue>>,
}

impl ConditionFailed {
    /// Which of the items it was, counted from 0; the first, where there are several.
    ///
    /// ```
    /// # use dynamodb_idempotency::testing::Sandbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let sandbox = Sandbox::start().await?;
    /// # let idempotency = sandbox.idempotency();
    /// # use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem};
    /// # use dynamodb_idempotency::{ConditionFailed, Outcome, Transaction};
    /// # let account = AttributeValue::S("account-7".to_owned());
    /// # let balance = AttributeValue::N("5".to_owned());
    /// # let put = sandbox.client().put_item().table_name(sandbox.table());
    /// # put.item("pk", account.clone()).item("balance", balance).send().await?;
    /// # let check = ConditionCheck::builder()
    /// #     .table_name(sandbox.table()).key("pk", account)
    /// #     .condition_expression("balance >= :amount")
    /// #     .expression_attribute_values(":amount", AttributeValue::N("20".to_owned()))
    /// #     .build()?;
    /// # let debit = TransactWriteItem::builder().condition_check(check).build();
    /// # let transfer = idempotency.operation("transfers").key("order-42");
    /// let refuse = |failed: &ConditionFailed| {
    ///     assert_eq!(failed.index(), 0); // the debit
    ///     Some("insufficient funds".to_owned())
    /// };
    /// # let answer = transfer.run_transaction(async || {
    /// #     let answer = Transaction::new("transferred".to_owned());
    /// #     Ok::<_, std::io::Error>(answer.items([debit]).on_condition_failed(refuse))
    /// # }).await?;
    /// # assert_eq!(answer, "insufficient funds");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn index(&self) -> usize {
        self.first.index
    }

    /// The item as it stands in the table, by which the condition was judged. `None` where there is
    /// none, or where the item asked for
    /// [`ReturnValuesOnConditionCheckFailure::None`](aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::None)
    /// itself.
    ///
    /// ```
    /// # use dynamodb_idempotency::testing::Sandbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let sandbox = Sandbox::start().await?;
    /// # let idempotency = sandbox.idempotency();
    /// # use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem};
    /// # use dynamodb_idempotency::{ConditionFailed, Outcome, Transaction};
    /// # let account = AttributeValue::S("account-7".to_owned());
    /// # let balance = AttributeValue::N("5".to_owned());
    /// # let put = sandbox.client().put_item().table_name(sandbox.table());
    /// # put.item("pk", account.clone()).item("balance", balance).send().await?;
    /// # let check = ConditionCheck::builder()
    /// #     .table_name(sandbox.table()).key("pk", account)
    /// #     .condition_expression("balance >= :amount")
    /// #     .expression_attribute_values(":amount", AttributeValue::N("20".to_owned()))
    /// #     .build()?;
    /// # let debit = TransactWriteItem::builder().condition_check(check).build();
    /// # let transfer = idempotency.operation("transfers").key("order-42");
    /// let refuse = |failed: &ConditionFailed| {
    ///     let account = failed.item().expect("the account exists");
    ///     assert_eq!(account["balance"].as_n().map(String::as_str), Ok("5"));
    ///     Some("insufficient funds".to_owned())
    /// };
    /// # let answer = transfer.run_transaction(async || {
    /// #     let answer = Transaction::new("transferred".to_owned());
    /// #     Ok::<_, std::io::Error>(answer.items([debit]).on_condition_failed(refuse))
    /// # }).await?;
    /// # assert_eq!(answer, "insufficient funds");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn item(&self) -> Option<&HashMap<String, AttributeValue>> {
        self.first.item.as_ref()
    }

    /// All items whose conditions did not hold, in their order, as [`index`](Self::index) and
    /// [`item`](Self::item).
    ///
    /// ```
    /// # use dynamodb_idempotency::testing::Sandbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let sandbox = Sandbox::start().await?;
    /// # let idempotency = sandbox.idempotency();
    /// # use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem};
    /// # use dynamodb_idempotency::{ConditionFailed, Outcome, Transaction};
    /// # let account = AttributeValue::S("account-7".to_owned());
    /// # let balance = AttributeValue::N("5".to_owned());
    /// # let put = sandbox.client().put_item().table_name(sandbox.table());
    /// # put.item("pk", account.clone()).item("balance", balance).send().await?;
    /// # let check = ConditionCheck::builder()
    /// #     .table_name(sandbox.table()).key("pk", account)
    /// #     .condition_expression("balance >= :amount")
    /// #     .expression_attribute_values(":amount", AttributeValue::N("20".to_owned()))
    /// #     .build()?;
    /// # let debit = TransactWriteItem::builder().condition_check(check).build();
    /// # let transfer = idempotency.operation("transfers").key("order-42");
    /// let refuse = |failed: &ConditionFailed| {
    ///     let indexes: Vec<_> = failed.all().map(|(index, _item)| index).collect();
    ///     assert_eq!(indexes, [0]);
    ///     Some("insufficient funds".to_owned())
    /// };
    /// # let answer = transfer.run_transaction(async || {
    /// #     let answer = Transaction::new("transferred".to_owned());
    /// #     Ok::<_, std::io::Error>(answer.items([debit]).on_condition_failed(refuse))
    /// # }).await?;
    /// # assert_eq!(answer, "insufficient funds");
    /// # Ok(())
    /// # }
    /// ```
    pub fn all(
        &self,
    ) -> impl Iterator<Item = (usize, Option<&HashMap<String, AttributeValue>>)> + '_ {
        let all = std::iter::once(&self.first).chain(&self.further);
        all.map(|failed| (failed.index, failed.item.as_ref()))
    }
}

impl fmt::Display for ConditionFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the condition of item {} did not hold: nothing was written", self.index())
    }
}

/// Without the items, which are the business's.
impl fmt::Debug for ConditionFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indexes: Vec<usize> = self.all().map(|(index, _)| index).collect();
        f.debug_struct("ConditionFailed").field("indexes", &indexes).finish_non_exhaustive()
    }
}

/// Why a transaction is one that DynamoDB cannot take: nothing was written. Indexes count the
/// caller's own items from 0.
///
/// All but [`Refused`](Self::Refused) are found before anything is sent.
///
/// ```
/// use dynamodb_idempotency::InvalidTransaction;
///
/// let invalid = InvalidTransaction::TooManyItems { items: 100 };
/// assert_eq!(invalid.to_string(), "100 items are more than the 99 that fit");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidTransaction {
    /// There are more than [`MAX_TRANSACTION_ITEMS`].
    TooManyItems {
        /// How many there are.
        items: usize,
    },
    /// An item has no operation, or several.
    NotOneOperation {
        /// Which.
        index: usize,
    },
    /// Two items are about the same item of a table, which DynamoDB does not allow.
    SameItem {
        /// The first of the two.
        first: usize,
        /// The second.
        second: usize,
    },
    /// An item is about the operation's own record.
    OwnRecord {
        /// Which.
        index: usize,
    },
    /// An item, or one of its values, is larger than DynamoDB's 400 KB.
    ItemTooLarge {
        /// Which.
        index: usize,
        /// Its size, or that of the value; at least.
        bytes: usize,
    },
    /// All items together, with the record, are larger than DynamoDB's 4 MB.
    TooLarge {
        /// Their size; at least.
        bytes: usize,
    },
    /// The answer is larger than [`Policy::max_answer_bytes`](crate::Policy::max_answer_bytes); or
    /// does not fit into its record, which has 400 KB, under
    /// [`LargeAnswers::InRecord`](crate::LargeAnswers::InRecord).
    AnswerTooLarge {
        /// The size of the answer; or of the whole record.
        bytes: usize,
    },
    /// The answer cannot be written as JSON, or the body of the response that it is ended with an error;
    /// with the reason.
    AnswerNotSerializable(String),
    /// The [`AnswerCodec`](crate::AnswerCodec) has failed; with its reason.
    AnswerNotEncoded(String),
    /// An HTTP handler commits by [`commit_response`](crate::Execution::commit_response), a
    /// function by [`commit`](crate::Execution::commit).
    WrongKindOfAnswer,
    /// DynamoDB does not take the transaction: an expression that is wrong, two items on one key
    /// that cannot be told apart here, an item that an update would make too large.
    Refused {
        /// Which item, if DynamoDB told.
        index: Option<usize>,
        /// What it said.
        message: String,
    },
}

impl fmt::Display for InvalidTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyItems { items } => {
                write!(f, "{items} items are more than the {MAX_TRANSACTION_ITEMS} that fit")
            }
            Self::NotOneOperation { index } => {
                write!(f, "item {index} must be one put, update, delete or condition check")
            }
            Self::SameItem { first, second } => {
                write!(f, "items {first} and {second} are about the same item of a table")
            }
            Self::OwnRecord { index } => {
                write!(f, "item {index} is about the operation's own record")
            }
            Self::ItemTooLarge { index, bytes } => {
                write!(f, "item {index} has {bytes} bytes, more than DynamoDB's 400 KB")
            }
            Self::TooLarge { bytes } => {
                write!(f, "the items have {bytes} bytes, more than DynamoDB's 4 MB")
            }
            Self::AnswerTooLarge { bytes } => {
                write!(f, "the answer, or the record with it, has {bytes} bytes: too many to store")
            }
            Self::AnswerNotSerializable(reason) => {
                write!(f, "the answer cannot be serialised: {reason}")
            }
            Self::AnswerNotEncoded(reason) => {
                write!(f, "the answer's AnswerCodec could not encode it: {reason}")
            }
            Self::WrongKindOfAnswer => {
                f.write_str("an HTTP handler commits by commit_response(), a function by commit()")
            }
            Self::Refused { index: Some(index), message } => {
                write!(f, "DynamoDB refuses item {index}: {message}")
            }
            Self::Refused { index: None, message } => {
                write!(f, "DynamoDB refuses the transaction: {message}")
            }
        }
    }
}

impl StdError for InvalidTransaction {}

/// Why [`commit`](crate::Execution::commit) has not written what it was given.
///
/// After the first three the execution still owns its record: its handler may commit something else
/// or answer without a commit.
///
/// ```
/// use aws_sdk_dynamodb::types::TransactWriteItem;
/// use dynamodb_idempotency::{CommitError, Execution};
///
/// async fn buy(execution: Execution, last_one: TransactWriteItem) -> Result<String, CommitError> {
///     match execution.commit("bought", [last_one]).await {
///         Ok(()) => Ok("bought".to_owned()),
///         // Nothing was written, and the execution goes on.
///         Err(CommitError::ConditionFailed(_)) => Ok("sold out".to_owned()),
///         Err(error) => Err(error),
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum CommitError {
    /// A condition of the caller's own did not hold.
    ConditionFailed(ConditionFailed),
    /// The transaction is one that DynamoDB cannot take.
    Invalid(InvalidTransaction),
    /// Nothing was written: other transactions were at the items, or DynamoDB throttled, until the
    /// time was over; or a table or a permission is missing.
    NotApplied(Error),
    /// This execution has committed before, and that stands.
    AlreadyCommitted,
    /// The execution is over; what its handler returns is not stored. By its kind:
    ///
    /// - [`LeaseLost`](crate::ErrorKind::LeaseLost): another execution owns the key. Nothing was
    ///   written, now or later.
    /// - [`Unavailable`](crate::ErrorKind::Unavailable): DynamoDB did not confirm the commit, and
    ///   the record was given up instead. Nothing was written, now or later, but for what
    ///   `docs/exactly-once.md` says of late copies. The record is FAILED: under
    ///   [`Failure::Replay`](crate::Failure::Replay), and on the last attempt of
    ///   [`Failure::Retain`](crate::Failure::Retain), for good; else the next call runs.
    /// - [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown): DynamoDB is out of reach. The commit
    ///   has happened as a whole or not at all, and a repeat with the same key finds out.
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput): the handler had returned before.
    Ended(Error),
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConditionFailed(failed) => failed.fmt(f),
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::NotApplied(error) | Self::Ended(error) => error.fmt(f),
            Self::AlreadyCommitted => f.write_str("this execution has committed before"),
        }
    }
}

impl StdError for CommitError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::NotApplied(error) | Self::Ended(error) => error.source(),
            Self::ConditionFailed(_) | Self::Invalid(_) | Self::AlreadyCommitted => None,
        }
    }
}

impl From<Unstorable> for InvalidTransaction {
    fn from(unstorable: Unstorable) -> Self {
        match unstorable {
            Unstorable::TooLarge { bytes, .. } => Self::AnswerTooLarge { bytes },
            Unstorable::NotEncoded(reason) => Self::AnswerNotEncoded(reason),
        }
    }
}

impl From<Unstorable> for CommitError {
    fn from(unstorable: Unstorable) -> Self {
        Self::Invalid(unstorable.into())
    }
}

impl From<InvalidTransaction> for CommitError {
    fn from(invalid: InvalidTransaction) -> Self {
        Self::Invalid(invalid)
    }
}

/// What [`Operation::run_transaction`](crate::Operation::run_transaction) fails with.
///
/// ```
/// use dynamodb_idempotency::TransactionError;
///
/// fn is_worth_a_retry<E>(error: &TransactionError<E>) -> bool {
///     match error {
///         TransactionError::Idempotency(error) => error.is_retryable(),
///         TransactionError::ConditionFailed(_) => true, // the item may change
///         _ => false,
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TransactionError<E> {
    /// The closure failed with this, before anything was sent; or a kept error is replayed.
    Handler(E),
    /// A condition of the caller's own did not hold, and there is no answer for that. Nothing was
    /// written, and the key is as it was.
    ConditionFailed(ConditionFailed),
    /// The transaction is one that DynamoDB cannot take. Nothing was written, and the key is as it
    /// was.
    Invalid(InvalidTransaction),
    /// The idempotency layer could not give an answer; see [`ErrorKind`](crate::ErrorKind).
    Idempotency(Error),
}

impl<E: fmt::Display> fmt::Display for TransactionError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(error) => error.fmt(f),
            Self::ConditionFailed(failed) => failed.fmt(f),
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Idempotency(error) => error.fmt(f),
        }
    }
}

impl<E: StdError + 'static> StdError for TransactionError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Handler(error) => error.source(),
            Self::Idempotency(error) => error.source(),
            Self::ConditionFailed(_) | Self::Invalid(_) => None,
        }
    }
}

impl<E> From<Error> for TransactionError<E> {
    fn from(error: Error) -> Self {
        Self::Idempotency(error)
    }
}

impl<E> From<InvalidTransaction> for TransactionError<E> {
    fn from(invalid: InvalidTransaction) -> Self {
        Self::Invalid(invalid)
    }
}

/// A function's answer as it is stored.
fn json<T: Serialize + ?Sized>(answer: &T) -> Result<String, InvalidTransaction> {
    let json = serde_json::to_string(answer);
    json.map_err(|error| InvalidTransaction::AnswerNotSerializable(error.to_string()))
}

/// The answer of an operation and the writes that are its effect: all happen, once, or none.
///
/// ```
/// use aws_sdk_dynamodb::types::TransactWriteItem;
/// use dynamodb_idempotency::Transaction;
///
/// fn transfer(amount: u64, debit: TransactWriteItem, credit: TransactWriteItem) -> Transaction<&'static str> {
///     if amount == 0 {
///         return Transaction::nothing_executed("nothing to transfer");
///     }
///     Transaction::new("transferred")
///         .items([debit, credit])
///         .on_condition_failed(|_| Some("insufficient funds"))
/// }
/// ```
#[must_use]
pub struct Transaction<T> {
    pub(crate) response: T,
    pub(crate) items: Vec<TransactWriteItem>,
    pub(crate) on_condition_failed: Option<OnConditionFailed<T>>,
    pub(crate) nothing_executed: bool,
}

pub(crate) type OnConditionFailed<T> = Box<dyn FnOnce(&ConditionFailed) -> Option<T> + Send>;

impl<T> Transaction<T> {
    /// Whether there is anything to store.
    pub(crate) fn writes(&self) -> bool {
        !self.nothing_executed || !self.items.is_empty()
    }

    /// An answer that is stored, so far without any writes.
    ///
    /// ```
    /// # use dynamodb_idempotency::testing::Sandbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let sandbox = Sandbox::start().await?;
    /// # let idempotency = sandbox.idempotency();
    /// use dynamodb_idempotency::Transaction;
    ///
    /// let order = || idempotency.operation("orders").key("42");
    /// let build = async || Ok::<_, std::io::Error>(Transaction::new("accepted".to_owned()));
    /// assert_eq!(order().run_transaction(build).await?, "accepted");
    /// assert_eq!(order().run_transaction(build).await?, "accepted"); // the stored answer
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(response: T) -> Self {
        Self { response, items: Vec::new(), on_condition_failed: None, nothing_executed: false }
    }

    /// An answer that goes out unstored, with nothing written and the key left free: the request
    /// was looked at and refused, and may come again corrected. Items that are added make it an
    /// ordinary answer.
    ///
    /// ```
    /// # use dynamodb_idempotency::testing::Sandbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let sandbox = Sandbox::start().await?;
    /// # let idempotency = sandbox.idempotency();
    /// use dynamodb_idempotency::{Outcome, Transaction};
    ///
    /// let transfer = idempotency.operation("transfers").key("order-42");
    /// let refused = async || {
    ///     Ok::<_, std::io::Error>(Transaction::nothing_executed("nothing to transfer".to_owned()))
    /// };
    /// let outcome = transfer.run_transaction_with_outcome(refused).await?;
    /// assert!(matches!(outcome, Outcome::NothingExecuted(_)));
    /// assert!(sandbox.record("transfers", "order-42").read().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn nothing_executed(response: T) -> Self {
        Self { nothing_executed: true, ..Self::new(response) }
    }

    /// Adds writes and condition checks, at most [`MAX_TRANSACTION_ITEMS`] in all. Those that do
    /// not say what they return when their condition fails return the item (`ALL_OLD`).
    ///
    /// ```
    /// # use dynamodb_idempotency::testing::Sandbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let sandbox = Sandbox::start().await?;
    /// # let idempotency = sandbox.idempotency();
    /// use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
    /// use dynamodb_idempotency::Transaction;
    ///
    /// let row = AttributeValue::S("receipt-42".to_owned());
    /// let put = Put::builder().table_name(sandbox.table()).item("pk", row.clone()).build()?;
    /// let put = TransactWriteItem::builder().put(put).build();
    /// let book = idempotency.operation("book").key("order-42");
    /// book.run_transaction(async || {
    ///     Ok::<_, std::io::Error>(Transaction::new("booked".to_owned()).items([put]))
    /// })
    /// .await?;
    ///
    /// let get = sandbox.client().get_item().table_name(sandbox.table()).key("pk", row);
    /// assert!(get.send().await?.item.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn items(mut self, items: impl IntoIterator<Item = TransactWriteItem>) -> Self {
        self.items.extend(items);
        self
    }

    /// The answer that is stored instead when a condition of these items does not hold: "insufficient
    /// funds", say. `None` stores nothing, and the call fails with
    /// [`TransactionError::ConditionFailed`]. It costs one more round trip.
    ///
    /// ```
    /// # use dynamodb_idempotency::testing::Sandbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let sandbox = Sandbox::start().await?;
    /// # let idempotency = sandbox.idempotency();
    /// # use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, TransactWriteItem};
    /// # use dynamodb_idempotency::{ConditionFailed, Outcome, Transaction};
    /// # let account = AttributeValue::S("account-7".to_owned());
    /// # let balance = AttributeValue::N("5".to_owned());
    /// # let put = sandbox.client().put_item().table_name(sandbox.table());
    /// # put.item("pk", account.clone()).item("balance", balance).send().await?;
    /// # let check = ConditionCheck::builder()
    /// #     .table_name(sandbox.table()).key("pk", account)
    /// #     .condition_expression("balance >= :amount")
    /// #     .expression_attribute_values(":amount", AttributeValue::N("20".to_owned()))
    /// #     .build()?;
    /// # let debit = TransactWriteItem::builder().condition_check(check).build();
    /// # let transfer = idempotency.operation("transfers").key("order-42");
    /// let outcome = transfer
    ///     .run_transaction_with_outcome(async || {
    ///         let answer = Transaction::new("transferred".to_owned());
    ///         let refuse = |_: &ConditionFailed| Some("insufficient funds".to_owned());
    ///         Ok::<_, std::io::Error>(answer.items([debit]).on_condition_failed(refuse))
    ///     })
    ///     .await?;
    /// assert_eq!(outcome, Outcome::Executed("insufficient funds".to_owned()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_condition_failed(
        mut self,
        answer: impl FnOnce(&ConditionFailed) -> Option<T> + Send + 'static,
    ) -> Self {
        self.on_condition_failed = Some(Box::new(answer));
        self
    }
}

impl<T: fmt::Debug> fmt::Debug for Transaction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("response", &self.response)
            .field("items", &self.items.len())
            .finish_non_exhaustive()
    }
}

/// DynamoDB's client request token, at most 36 bytes: the same for each try of one transaction. Only
/// an economy: what keeps a transaction from being applied twice is the record's condition.
fn token(owner: &str, number: u32) -> String {
    const MAX_BYTES: usize = 36;
    let number = number.to_string();
    let room = MAX_BYTES - 1 - number.len();
    format!("{}-{number}", owner.get(..room).unwrap_or(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_and_differs_by_its_number() {
        let owner = "0123456789abcdef0123456789abcdef";
        assert_eq!(token(owner, 1), format!("{owner}-1"));
        assert_eq!(token(owner, 999).len(), 36);
        assert_eq!(token(owner, 1000).len(), 36);
        assert_eq!(token(owner, u32::MAX).len(), 36);
        assert_ne!(token(owner, 999), token(owner, 1000));
    }
}
