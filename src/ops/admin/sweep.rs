//! Deletes items that expired long ago, by hand.

use super::Admin;
use super::release::known;
use crate::error::Error;
use crate::store;

/// An item of [`Page::expired`](super::Page::expired): a record, or a part of a large answer, that
/// has been expired for more than an hour.
///
/// ```
/// # doc_examples::run(async |sandbox, idempotency| {
/// use std::time::Duration;
///
/// use dynamodb_idempotency::admin::{Expired, Select};
///
/// sandbox.record("payments", "order-42").completed("re_1").await?;
/// sandbox.clock().advance(Duration::from_secs(26 * 3600)); // a day is the default retention
/// let page = idempotency.admin().page(0, 1, Select::Expired, None).await?;
/// assert_eq!(page.expired.iter().map(Expired::pk).collect::<Vec<_>>(), ["payments#order-42"]);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Expired(pub(super) store::Expired);

impl Expired {
    /// Returns the key in its stored form, `scope#key`.
    ///
    /// ```
    /// fn log(expired: &dynamodb_idempotency::admin::Expired) {
    ///     println!("{}", expired.pk());
    /// }
    /// ```
    #[must_use]
    pub fn pk(&self) -> &str {
        self.0.key.as_str()
    }
}

impl Admin<'_> {
    /// Deletes an item if it has not changed since it was read. Returns whether it was deleted.
    ///
    /// DynamoDB's time to live does the same for free. A table without one (a global table with
    /// strong consistency) grows without bounds otherwise. The permission `dynamodb:DeleteItem` is
    /// needed by operators only, not by functions.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::admin::Select;
    ///
    /// let record = sandbox.record("payments", "order-42");
    /// record.completed("re_1").await?;
    /// sandbox.clock().advance(Duration::from_secs(26 * 3600));
    /// let admin = idempotency.admin();
    /// for expired in admin.page(0, 1, Select::Expired, None).await?.expired {
    ///     assert!(admin.delete_expired(&expired).await?);
    /// }
    /// assert!(record.read().await?.is_none());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) if DynamoDB does not
    /// respond: the item may be deleted, and a retry is safe. Others as for all requests.
    pub async fn delete_expired(&self, expired: &Expired) -> Result<bool, Error> {
        let reply = self.table().delete_expired(&expired.0).await;
        let deleted =
            known(reply.outcome, "it is unknown whether the item is deleted: sweep again")?;
        Ok(deleted.is_ok())
    }
}
