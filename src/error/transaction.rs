//! Errors of commits and transactions.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;

use super::Error;

/// How many of your items fit into a transaction next to the record; DynamoDB's limit is 100.
///
/// ```
/// assert_eq!(dynamodb_idempotency::MAX_TRANSACTION_ITEMS, 99);
/// ```
pub const MAX_TRANSACTION_ITEMS: usize = 99;

/// The condition of one of your items was false, so nothing was written.
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
    pub(crate) first: Failed,
    pub(crate) further: Vec<Failed>,
}

pub(crate) struct Failed {
    pub(crate) index: usize,
    pub(crate) item: Option<HashMap<String, AttributeValue>>,
}

impl ConditionFailed {
    /// Returns the index of the item, counted from 0: the first, if there are several.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::refused_example(|failed| {
    /// assert_eq!(failed.index(), 0); // the debit
    /// # });
    /// ```
    #[must_use]
    pub fn index(&self) -> usize {
        self.first.index
    }

    /// Returns the item in the table that the condition was evaluated against.
    ///
    /// `None` if the item does not exist, or if your request set
    /// [`ReturnValuesOnConditionCheckFailure::None`](aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::None).
    ///
    /// ```
    /// # dynamodb_idempotency::testing::refused_example(|failed| {
    /// let account = failed.item().expect("the account exists");
    /// assert_eq!(account["balance"].as_n().map(String::as_str), Ok("5"));
    /// # });
    /// ```
    #[must_use]
    pub fn item(&self) -> Option<&HashMap<String, AttributeValue>> {
        self.first.item.as_ref()
    }

    /// Returns all items whose conditions were false, in order, each with its
    /// [`index`](Self::index) and [`item`](Self::item).
    ///
    /// ```
    /// # dynamodb_idempotency::testing::refused_example(|failed| {
    /// let indexes: Vec<_> = failed.all().map(|(index, _item)| index).collect();
    /// assert_eq!(indexes, [0]);
    /// # });
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

/// Leaves out the items, which are your own data.
impl fmt::Debug for ConditionFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indexes: Vec<usize> = self.all().map(|(index, _)| index).collect();
        f.debug_struct("ConditionFailed").field("indexes", &indexes).finish_non_exhaustive()
    }
}

/// Why a transaction is invalid; nothing was written. Indexes count your own items from 0.
///
/// All variants except [`Refused`](Self::Refused) are found before anything is sent.
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
    /// There are more items than [`MAX_TRANSACTION_ITEMS`].
    TooManyItems {
        /// The number of items.
        items: usize,
    },
    /// An item has no operation, or more than one.
    NotOneOperation {
        /// The index of the item.
        index: usize,
    },
    /// Two operations concern the same item of a table, which DynamoDB does not allow.
    SameItem {
        /// The index of the first.
        first: usize,
        /// The index of the second.
        second: usize,
    },
    /// An item concerns the operation's own record.
    OwnRecord {
        /// The index of the item.
        index: usize,
    },
    /// An item, or one of its values, is larger than DynamoDB's 400 KB.
    ItemTooLarge {
        /// The index of the item.
        index: usize,
        /// The size of the item or value in bytes; a lower bound.
        bytes: usize,
    },
    /// All items together, with the record, are larger than DynamoDB's 4 MB.
    TooLarge {
        /// The size of the items in bytes; a lower bound.
        bytes: usize,
    },
    /// The answer is larger than [`Policy::max_answer_bytes`](crate::Policy::max_answer_bytes), or
    /// the record with the compressed answer is larger than DynamoDB's 400 KB. Store a reference
    /// instead of the answer. Nothing was written.
    AnswerTooLarge {
        /// The size of the answer, or of the whole record, in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer cannot be serialized as JSON, or reading the response body failed. Contains the
    /// reason.
    AnswerNotSerializable(String),
    /// The [`AnswerCodec`](crate::AnswerCodec) failed. Contains its reason.
    AnswerNotEncoded(String),
    /// The handler used the wrong commit: an HTTP handler needs
    /// [`commit_response`](crate::Execution::commit_response), a function
    /// [`commit`](crate::Execution::commit).
    WrongKindOfAnswer,
    /// DynamoDB rejected the transaction as invalid: an expression is wrong, two items have the
    /// same key in a way that the crate could not detect, or an update would make an item too
    /// large.
    Refused {
        /// The index of the item, if DynamoDB named it.
        index: Option<usize>,
        /// DynamoDB's message.
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
            Self::AnswerTooLarge { bytes, limit } => {
                write!(
                    f,
                    "the answer, or the record with it, has {bytes} bytes of at most {limit}: nothing \
                     was written. Store a reference instead of the answer, or complete the operation \
                     without a transaction"
                )
            }
            Self::AnswerNotSerializable(reason) => {
                write!(f, "the answer cannot be serialized: {reason}")
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

/// Why [`commit`](crate::Execution::commit) did not write its items.
///
/// After [`ConditionFailed`](Self::ConditionFailed), [`Invalid`](Self::Invalid) and
/// [`NotApplied`](Self::NotApplied) the execution still owns its record: its handler may commit
/// something else or answer without a commit.
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
    /// One of your conditions was false.
    ConditionFailed(ConditionFailed),
    /// The transaction is invalid.
    Invalid(InvalidTransaction),
    /// Nothing of this commit was written, and nothing will be. Until the time was over, other
    /// transactions held the items, DynamoDB throttled or did not confirm, or the future of another
    /// commit of this execution was not polled. Or a table or a permission is missing.
    NotApplied(Error),
    /// An earlier commit of this execution was applied.
    AlreadyCommitted,
    /// The execution has ended; the handler's return value is not stored. By kind:
    ///
    /// - [`LeaseLost`](crate::ErrorKind::LeaseLost): another execution owns the key, or the record
    ///   is gone. Nothing was written, and nothing will be.
    /// - [`Unavailable`](crate::ErrorKind::Unavailable): the record was released or deleted, for
    ///   example by hand. Nothing was written, and nothing will be. The next call runs.
    /// - [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown): DynamoDB did not confirm the commit. It
    ///   applied all of the commit or nothing, and a repeat with the same key finds out which.
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput): the handler had already returned.
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

impl From<InvalidTransaction> for CommitError {
    fn from(invalid: InvalidTransaction) -> Self {
        Self::Invalid(invalid)
    }
}

/// The error of [`Call::run_transaction`](crate::Call::run_transaction).
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
    /// The closure failed with this error before anything was sent, or a stored error is replayed.
    Handler(E),
    /// One of your conditions was false, and the transaction has no answer for that case. Nothing
    /// was written, and the record did not change.
    ConditionFailed(ConditionFailed),
    /// The transaction is invalid. Nothing was written, and the record did not change.
    Invalid(InvalidTransaction),
    /// The crate could not return an answer; see [`ErrorKind`](crate::ErrorKind).
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
