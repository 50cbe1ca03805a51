//! Requests to the table that only tools send.

use std::collections::HashMap;
use std::pin::Pin;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::{AttributeValue, ConsumedCapacity, ReturnConsumedCapacity};
use futures_util::TryFutureExt;

use super::expression::{Change, Expression};
use super::inspect::Obstacle;
use super::request_error::DynamoError;
use super::{Consistency, Reply, Table, WriteResult};
use crate::clock::Stamp;
use crate::error::{Error, ErrorKind};
use crate::protocol::{Condition, Status, Version, released_until};
use crate::store::key::RecordKey;
use crate::store::record::{self, Item};
use crate::store::schema::Attribute;

/// The result of one request of a scan.
#[derive(Debug, Default)]
pub(crate) struct ScanPage {
    pub(crate) items: Vec<Item>,
    /// Where the next request continues; `None` after the last one.
    pub(crate) next: Option<Item>,
    /// The number of items read, including those that the filter left out.
    pub(crate) scanned: u64,
    /// The read units.
    pub(crate) consumed: f64,
}

impl Table {
    /// Releases a record that has not changed since it was read, whatever its state.
    pub(crate) async fn release_seen(
        &self,
        key: &RecordKey,
        attempt: u32,
        seen: &Version,
    ) -> Reply<WriteResult> {
        let now = match self.stamp(key).await {
            Ok(stamp) => stamp.at,
            Err(error) => return Reply::new(WriteResult::NotApplied(error), None),
        };
        let expires_at = released_until(now, seen.lease_expires_at.unwrap_or(now));
        let condition = Condition::unchanged(seen);
        let mut change = Change::on(Expression::of(&self.schema, &condition));
        change.set(Attribute::Status, AttributeValue::S(Status::Released.as_str().to_owned()));
        change.set(Attribute::Attempt, record::number(attempt));
        change.set(Attribute::ExpiresAt, record::number(expires_at));
        change.remove(Attribute::LeaseExpiresAt);
        change.remove(Attribute::CompletedAt);
        change.remove(Attribute::Response);
        change.remove(Attribute::Steps);
        self.update(key, change, self.request_timeout).await
    }

    /// Returns the time for a write. A process that does not know DynamoDB's time sends a read
    /// first.
    async fn stamp(&self, key: &RecordKey) -> Result<Stamp, Error> {
        if let Some(stamp) = self.clock.moment().stamp() {
            return Ok(stamp);
        }
        self.read(key, Consistency::Strong, self.request_timeout).await.outcome?;
        self.clock.moment().stamp().ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, "DynamoDB did not respond: its time is unknown")
        })
    }

    /// Reads one of `parts` segments of the table, as a parallel scan does, eventually consistent. A table
    /// with a composite key has all records in one partition. There, segment 0 is a query of this
    /// partition, and the other segments are empty.
    ///
    /// `status` and `prefix` select the records that it returns. All items that it reads are billed.
    pub(crate) async fn scan(
        &self,
        (part, parts): (u32, u32),
        (status, prefix): (Option<Status>, Option<&str>),
        after: Option<Item>,
    ) -> Reply<Result<ScanPage, Error>> {
        let (mut filter, mut keys) = (Vec::new(), Vec::new());
        let (mut names, mut values) = (HashMap::new(), Item::new());
        let mut bind = |placeholder: &str, name: &str, value: &str| {
            names.insert(format!("#{placeholder}"), name.to_owned());
            values.insert(format!(":{placeholder}"), AttributeValue::S(value.to_owned()));
        };
        if let Some(status) = status {
            bind("status", self.schema.name(Attribute::Status), status.as_str());
            filter.push("#status = :status");
        }
        if let Some(prefix) = prefix {
            bind("key", self.schema.key_name(), prefix);
            let terms = if self.schema.partition().is_some() { &mut keys } else { &mut filter };
            terms.push("begins_with(#key, :key)");
        }
        let page = |items: Option<_>, next, scanned: i32, consumed: Option<ConsumedCapacity>| {
            let units = consumed.and_then(|consumed| consumed.capacity_units);
            let (items, consumed) = (items.unwrap_or_default(), units.unwrap_or(0.0));
            ScanPage { items, next, scanned: scanned.try_into().unwrap_or(0), consumed }
        };
        let Some((name, value)) = self.schema.partition() else {
            let request = self.client.scan().table_name(&self.name);
            let request = request
                .segment(part.cast_signed())
                .total_segments(parts.cast_signed())
                .set_exclusive_start_key(after)
                .set_filter_expression(all_of(&filter))
                .set_expression_attribute_names((!names.is_empty()).then_some(names))
                .set_expression_attribute_values((!values.is_empty()).then_some(values))
                .return_consumed_capacity(ReturnConsumedCapacity::Total);
            let read = request.send().map_ok(|it| {
                page(it.items, it.last_evaluated_key, it.scanned_count, it.consumed_capacity)
            });
            return self.read_page("dynamodb:Scan", Box::pin(read)).await;
        };
        if part > 0 {
            return Reply::new(Ok(ScanPage::default()), None);
        }
        bind("partition", name, value);
        keys.push("#partition = :partition");
        let request = self.client.query().table_name(&self.name);
        let request = request
            .key_condition_expression(keys.join(" AND "))
            .set_exclusive_start_key(after)
            .set_filter_expression(all_of(&filter))
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let read = request.send().map_ok(|it| {
            page(it.items, it.last_evaluated_key, it.scanned_count, it.consumed_capacity)
        });
        self.read_page("dynamodb:Query", Box::pin(read)).await
    }

    /// Sends a request of a scan. The error of a denied request names the action to allow.
    async fn read_page<E: Into<DynamoError>>(
        &self,
        action: &str,
        request: Pin<Box<impl Future<Output = Result<ScanPage, SdkError<E>>>>>,
    ) -> Reply<Result<ScanPage, Error>> {
        let reply = self.inspect(request).await;
        let outcome = reply.outcome.map_err(|obstacle| match obstacle {
            Obstacle::Denied(message) => {
                let table = &self.name;
                let message =
                    format!("grant {action} on table `{table}` (DynamoDB says: {message})");
                Error::new(ErrorKind::Configuration, message)
            }
            Obstacle::Failed(error) | Obstacle::General(error) => error,
        });
        Reply::new(outcome, reply.time)
    }
}

/// DynamoDB rejects an empty expression.
fn all_of(terms: &[&str]) -> Option<String> {
    (!terms.is_empty()).then(|| terms.join(" AND "))
}
