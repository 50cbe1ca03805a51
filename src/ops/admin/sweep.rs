//! Deletes items that expired long ago, by hand.

use super::release::known;
use super::{Admin, Expired};
use crate::error::Error;

impl Admin<'_> {
    /// Deletes an item if it has not changed since it was read. Returns whether it was deleted.
    ///
    /// DynamoDB's time to live (TTL) does the same for free. Use this method for a table without TTL, such
    /// as a strongly consistent global table, which would grow without bounds. Only operators need the
    /// permission `dynamodb:DeleteItem`, not functions.
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
    /// respond: the item may be deleted, and a retry is safe. Other errors are those of every request.
    pub async fn delete_expired(&self, expired: &Expired) -> Result<bool, Error> {
        let reply = self.table().delete_expired(expired).await;
        let deleted =
            known(reply.outcome, "it is unknown whether the item is deleted: sweep again")?;
        Ok(deleted.is_ok())
    }
}
