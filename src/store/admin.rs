//! Requests to the table that only tools send.

use std::collections::HashMap;
use std::mem::take;
use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeValue, ConsumedCapacity, ContinuousBackupsDescription, ReturnConsumedCapacity,
    TableDescription, TimeToLiveDescription,
};

use super::expression::{Change, Expression};
use super::inspect::Inspection;
use super::{Reply, Table, WriteResult};
use crate::clock::Stamp;
use crate::error::{Error, ErrorKind};
use crate::protocol::{Condition, Status, Version, released_until};
use crate::store::key::RecordKey;
use crate::store::record::Item;
use crate::store::schema::{Attribute, Keys};

/// The part of a table that a parallel scan reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) number: u32,
    pub(crate) of: u32,
}

/// Selects the records that a scan returns. All items that it reads are billed. With a partition,
/// only keys with this prefix are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Only<'a> {
    pub(crate) status: Option<Status>,
    /// The prefix of the keys.
    pub(crate) prefix: Option<&'a str>,
}

/// The result of one request of a scan.
#[derive(Debug)]
pub(crate) struct ScanPage {
    pub(crate) items: Vec<Item>,
    /// Where the next request continues; `None` after the last one.
    pub(crate) next: Option<Item>,
    /// The number of items read, including those that were left out.
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
        change.release(attempt, expires_at);
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
        self.get(key, self.request_timeout).await.outcome?;
        self.clock.moment().stamp().ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, "DynamoDB did not respond: its time is unknown")
        })
    }

    /// Reads a part of the table, eventually consistent. In a table with a composite key it reads
    /// the one partition that contains records.
    pub(crate) async fn scan(
        &self,
        part: Part,
        only: Only<'_>,
        after: Option<Item>,
    ) -> Reply<Inspection<ScanPage>> {
        match self.schema.keys() {
            Keys::Partition { name } => self.scan_table(name, part, only, after).await,
            // One reader reads the whole partition.
            Keys::Composite { .. } if part.number > 0 => {
                let nothing = ScanPage { items: Vec::new(), next: None, scanned: 0, consumed: 0.0 };
                Reply::new(Inspection::Answered(nothing), None)
            }
            Keys::Composite { partition, value, sort } => {
                self.query_partition([partition, value, sort], only, after).await
            }
        }
    }

    async fn scan_table(
        &self,
        key: &str,
        part: Part,
        only: Only<'_>,
        after: Option<Item>,
    ) -> Reply<Inspection<ScanPage>> {
        let mut filter = Filter::new(self, only.status);
        if let Some(prefix) = only.prefix {
            filter.and("begins_with(#key, :prefix)", ("#key", key), (":prefix", prefix));
        }
        let (names, values) = filter.bound();
        let request = self
            .client
            .scan()
            .table_name(&self.name)
            .segment(part.number.cast_signed())
            .total_segments(part.of.cast_signed())
            .set_exclusive_start_key(after)
            .set_filter_expression(filter.expression)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let request = Box::pin(request.send());
        let reply = self.inspect_timed(request, self.request_timeout).await;
        let outcome = reply.outcome.map(|read| {
            page(read.items, read.last_evaluated_key, read.scanned_count, read.consumed_capacity)
        });
        Reply::new(outcome, reply.time)
    }

    async fn query_partition(
        &self,
        [partition, value, sort]: [&str; 3],
        only: Only<'_>,
        after: Option<Item>,
    ) -> Reply<Inspection<ScanPage>> {
        let mut filter = Filter::new(self, only.status);
        let mut keys = Filter::default();
        keys.and("#partition = :partition", ("#partition", partition), (":partition", value));
        if let Some(prefix) = only.prefix {
            keys.and("begins_with(#sort, :prefix)", ("#sort", sort), (":prefix", prefix));
        }
        filter.names.extend(keys.names);
        filter.values.extend(keys.values);
        let (names, values) = filter.bound();
        let request = self
            .client
            .query()
            .table_name(&self.name)
            .set_key_condition_expression(keys.expression)
            .set_exclusive_start_key(after)
            .set_filter_expression(filter.expression)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let request = Box::pin(request.send());
        let reply = self.inspect_timed(request, self.request_timeout).await;
        let outcome = reply.outcome.map(|read| {
            page(read.items, read.last_evaluated_key, read.scanned_count, read.consumed_capacity)
        });
        Reply::new(outcome, reply.time)
    }

    /// The permission that [`scan`](Self::scan) needs.
    pub(crate) fn scan_action(&self) -> &'static str {
        match self.schema.keys() {
            Keys::Partition { .. } => "dynamodb:Scan",
            Keys::Composite { .. } => "dynamodb:Query",
        }
    }

    pub(crate) async fn describe(&self, limit: Duration) -> Inspection<TableDescription> {
        let request = self.client.describe_table().table_name(&self.name).send();
        let output = self.inspect(Box::pin(request), limit).await;
        output.map(|output| output.table.unwrap_or_else(|| TableDescription::builder().build()))
    }

    pub(crate) async fn describe_ttl(&self, limit: Duration) -> Inspection<TimeToLiveDescription> {
        let request = self.client.describe_time_to_live().table_name(&self.name).send();
        let output = self.inspect(Box::pin(request), limit).await;
        output.map(|output| {
            let description = output.time_to_live_description;
            description.unwrap_or_else(|| TimeToLiveDescription::builder().build())
        })
    }

    pub(crate) async fn describe_backups(
        &self,
        limit: Duration,
    ) -> Inspection<Option<ContinuousBackupsDescription>> {
        let request = self.client.describe_continuous_backups().table_name(&self.name);
        let request = Box::pin(request.send());
        let output = self.inspect_timed(request, limit).await.outcome;
        output.map(|output| output.continuous_backups_description)
    }
}

fn page(
    items: Option<Vec<Item>>,
    next: Option<Item>,
    scanned: i32,
    consumed: Option<ConsumedCapacity>,
) -> ScanPage {
    ScanPage {
        items: items.unwrap_or_default(),
        next,
        scanned: scanned.try_into().unwrap_or(0),
        consumed: consumed.and_then(|consumed| consumed.capacity_units).unwrap_or(0.0),
    }
}

/// An expression with its names and values.
#[derive(Default)]
struct Filter {
    expression: Option<String>,
    names: HashMap<String, String>,
    values: Item,
}

impl Filter {
    /// Leaves out items that are in another state.
    fn new(table: &Table, only: Option<Status>) -> Self {
        let mut filter = Self::default();
        if let Some(status) = only {
            let name = table.schema.name(Attribute::Status);
            filter.and("#status = :status", ("#status", name), (":status", status.as_str()));
        }
        filter
    }

    fn and(&mut self, term: &str, name: (&str, &str), value: (&str, &str)) {
        self.expression = Some(match self.expression.take() {
            Some(before) => format!("{before} AND {term}"),
            None => term.to_owned(),
        });
        self.names.insert(name.0.to_owned(), name.1.to_owned());
        self.values.insert(value.0.to_owned(), AttributeValue::S(value.1.to_owned()));
    }

    /// The names and values. DynamoDB rejects empty maps.
    fn bound(&mut self) -> (Option<HashMap<String, String>>, Option<Item>) {
        let (names, values) = (take(&mut self.names), take(&mut self.values));
        ((!names.is_empty()).then_some(names), (!values.is_empty()).then_some(values))
    }
}

impl<T> Inspection<T> {
    /// Returns the response. A denied request becomes an error that names the action to allow.
    pub(crate) fn or_error(self, table: &str, action: &str) -> Result<T, Error> {
        match self {
            Self::Answered(seen) => Ok(seen),
            Self::Denied(message) => {
                let message =
                    format!("grant {action} on table `{table}` (DynamoDB says: {message})");
                Err(Error::new(ErrorKind::Configuration, message))
            }
            Self::Misconfigured(error) | Self::Failed(error) | Self::NoResponse(error) => {
                Err(error)
            }
        }
    }
}
