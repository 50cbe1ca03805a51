//! Deletes items that expired long ago, for tables without a time to live. Only tools use it.

use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;

use super::expression::Expression;
use super::{Reply, Table, WriteResult};
use crate::clock::Timestamp;
use crate::error::Error;
use crate::protocol::{Condition, Term};
use crate::store::key::RecordKey;
use crate::store::record::{self, Item, Record, Version};

/// How long an item must have been expired before it is deleted. A delayed request could be applied
/// once the record is absent, but AWS accepts no request later than half an hour after it was
/// signed (`docs/protocol.md`).
const NO_DELAYED_REQUEST_AFTER: Duration = Duration::from_secs(3600);

/// An item of [`Page::expired`](crate::admin::Page::expired): a record, or a part of a large answer, that
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
pub struct Expired {
    key: RecordKey,
    expires_at: i64,
    /// The version of a record. A part of an answer needs none: its expiry only moves to later
    /// times, so an equal one shows that it has not changed.
    version: Option<Version>,
}

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
        self.key.as_str()
    }
}

impl Table {
    /// Returns the item of this key, if it has been expired for long enough at `now` of DynamoDB's
    /// clock.
    ///
    /// # Errors
    /// [`UnknownRecord`](crate::ErrorKind::UnknownRecord) or [`NewerRecord`](crate::ErrorKind::NewerRecord)
    /// for an item that this version cannot read. The item is not deleted.
    pub(crate) fn long_expired(
        &self,
        key: RecordKey,
        item: Item,
        now: Timestamp,
    ) -> Result<Option<Expired>, Error> {
        let before = now.minus(NO_DELAYED_REQUEST_AFTER);
        let (expires_at, version) = if key.is_of_part() {
            (record::part_expires_at(&self.schema, item)?, None)
        } else {
            let record = Record::decode(&self.schema, item)?;
            (record.meta.expires_at, Some(record.meta.version()))
        };
        let retention_ends = Timestamp::from_millis(expires_at.saturating_mul(1000));
        let lease_ends = version.as_ref().and_then(|seen| seen.lease_expires_at);
        let ended = lease_ends.map_or(retention_ends, |end| end.max(retention_ends));
        Ok((ended < before).then_some(Expired { key, expires_at, version }))
    }

    /// Deletes an item that has not changed since it was read.
    pub(crate) async fn delete_expired(&self, seen: &Expired) -> Reply<WriteResult> {
        let expires_at = Term::ExpiresAt(seen.expires_at);
        let condition = match &seen.version {
            Some(version) => Condition::unchanged(version).and(expires_at),
            None => Condition::all(&[expires_at]),
        };
        let (expression, names, values) = Expression::of(&self.schema, &condition).finish();
        let request = self
            .client
            .delete_item()
            .table_name(&self.name)
            .set_key(Some(record::key_item(&self.schema, &seen.key)))
            .condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .set_return_consumed_capacity(self.capacity.clone())
            .send();
        let (request, limit) = (Box::pin(request), self.request_timeout);
        self.write("DeleteItem", request, |output| output.consumed_capacity, limit).await
    }
}
