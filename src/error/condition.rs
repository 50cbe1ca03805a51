//! The failed conditions of a commit or transaction.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

/// The limit for your items in a transaction: DynamoDB's limit of 100 items, minus one for the record.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use aws_sdk_dynamodb::types::TransactWriteItem;
/// use dynamodb_idempotency::{ErrorKind, MAX_TRANSACTION_ITEMS, Transaction};
///
/// let items = vec![TransactWriteItem::builder().build(); MAX_TRANSACTION_ITEMS + 1];
/// let build = async || Ok::<_, std::io::Error>(Transaction::new(1).items(items));
/// let ran = idempotency.operation("orders").key("42").payload("a pen").run_transaction(build).await;
/// let error = ran.unwrap_err().into_handler().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidTransaction);
/// assert_eq!(error.to_string(), "100 items are more than the 99 that fit");
/// # Ok(()) });
/// ```
pub const MAX_TRANSACTION_ITEMS: usize = 99;

/// Your items whose conditions were false in a commit or transaction. Nothing was written. See
/// [`Error::condition_failed`](crate::Error::condition_failed).
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
#[derive(derive_more::Debug, derive_more::Display)]
// Without the items, which are the caller's data.
#[debug(
    "ConditionFailed {{ indexes: {:?}, .. }}",
    self.all().map(|(index, _)| index).collect::<Vec<_>>()
)]
#[display("the condition of item {} did not hold: nothing was written", self.index())]
pub struct ConditionFailed {
    pub(crate) first: Failed,
    pub(crate) further: Vec<Failed>,
}

type Failed = (usize, Option<HashMap<String, AttributeValue>>);

impl ConditionFailed {
    /// Returns the index of the first item whose condition was false, counted from 0.
    ///
    /// ```
    /// # doc_examples::with_condition_failed(|failed| {
    /// assert_eq!(failed.index(), 0); // the debit
    /// # });
    /// ```
    #[must_use]
    pub fn index(&self) -> usize {
        self.first.0
    }

    /// Returns the item in the table that the first false condition was evaluated against.
    ///
    /// `None` if the item does not exist, or if your request set
    /// [`ReturnValuesOnConditionCheckFailure::None`](aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::None).
    ///
    /// ```
    /// # doc_examples::with_condition_failed(|failed| {
    /// let account = failed.item().expect("the account exists");
    /// assert_eq!(account["balance"].as_n().map(String::as_str), Ok("5"));
    /// # });
    /// ```
    #[must_use]
    pub fn item(&self) -> Option<&HashMap<String, AttributeValue>> {
        self.first.1.as_ref()
    }

    /// Returns all items whose conditions were false, in order. Each has its [`index`](Self::index) and
    /// [`item`](Self::item).
    ///
    /// ```
    /// # doc_examples::with_condition_failed(|failed| {
    /// let indexes: Vec<_> = failed.all().map(|(index, _item)| index).collect();
    /// assert_eq!(indexes, [0]);
    /// # });
    /// ```
    pub fn all(
        &self,
    ) -> impl Iterator<Item = (usize, Option<&HashMap<String, AttributeValue>>)> + '_ {
        let all = std::iter::once(&self.first).chain(&self.further);
        all.map(|(index, item)| (*index, item.as_ref()))
    }
}
