//! Requests to the table that only tools send.

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::{AttributeValue, ConsumedCapacity, ReturnConsumedCapacity};
use futures_util::TryFutureExt;

use super::expression::{Change, Expression};
use super::request_error::DynamoError;
use super::{Consistency, Reply, Table, WriteResult};
use crate::clock::Stamp;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::StoredFingerprint;
use crate::protocol::{Condition, RecordMeta, State, Status, Term, Version, released_until};
use crate::store::attribute;
use crate::store::key::RecordKey;
use crate::store::record::{self, Item, OwnerId};

/// What a request of a scan reads.
#[derive(Debug)]
pub(crate) struct ScanRequest<'a> {
    /// The number of the part of the table, and of all parts.
    pub(crate) part: (u32, u32),
    /// No records of these statuses, and no parts of answers.
    pub(crate) without: Option<[Status; 3]>,
    /// Only keys with this prefix.
    pub(crate) prefix: Option<&'a str>,
    pub(crate) after: Option<Item>,
    /// The number of items to read, at most. By default DynamoDB stops after 1 MB.
    pub(crate) items_at_most: Option<u32>,
    pub(crate) consistency: Consistency,
}

/// Why a request of a scan has no result.
#[derive(Debug)]
pub(crate) enum NoPage {
    /// There was no response in time. A request for fewer items may get one.
    TimedOut(Error),
    Failed(Error),
}

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
    /// Releases a record that has not changed since it was read, whatever its state. `owner` is an id
    /// that no call has.
    pub(crate) async fn release_seen(
        &self,
        key: &RecordKey,
        owner: OwnerId,
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
        change.set(attribute::STATUS, AttributeValue::S(Status::Released.as_str().to_owned()));
        change.set(attribute::OWNER, AttributeValue::S(owner.to_string()));
        change.set(attribute::ATTEMPT, record::number(attempt));
        change.set_expiry(expires_at);
        change.remove(attribute::LEASE_EXPIRES_AT);
        change.remove(attribute::COMPLETED_AT);
        change.remove(attribute::RESPONSE);
        change.remove(attribute::STEPS);
        self.update(key, change, self.request_timeout).await
    }

    /// Returns the time for a write. A process that does not know DynamoDB's time sends a read
    /// first.
    async fn stamp(&self, key: &RecordKey) -> Result<Stamp, Error> {
        if let Some(stamp) = self.clock.moment().stamp() {
            return Ok(stamp);
        }
        self.read(key, Consistency::Strong, self.request_timeout).await.outcome?;
        self.clock.moment().stamp().ok_or_else(Error::no_store_time)
    }

    /// Reads one segment of the table, as a parallel scan does. A table with a composite key has all
    /// records in one partition. There, it is a query of this partition, whatever the segment.
    ///
    /// The SDK does not send the request again after a timeout: the caller asks for fewer items.
    pub(crate) async fn scan(&self, request: ScanRequest<'_>) -> Reply<Result<ScanPage, NoPage>> {
        let ScanRequest { part: (part, parts), without, prefix, after, items_at_most, consistency } =
            request;
        let (mut filter, mut keys) = (Vec::new(), Vec::new());
        let (mut names, mut values) = (HashMap::new(), Item::new());
        if let Some(statuses) = without {
            for (name, attribute) in [
                ("#status", attribute::STATUS),
                ("#attempt", attribute::ATTEMPT),
                ("#response", attribute::RESPONSE),
            ] {
                names.insert(name.to_owned(), attribute.to_owned());
            }
            for (value, status) in [":s1", ":s2", ":s3"].into_iter().zip(statuses) {
                let status = AttributeValue::S(status.as_str().to_owned());
                values.insert(value.to_owned(), status);
            }
            filter.push("NOT #status IN (:s1, :s2, :s3)");
            filter.push(NO_PART);
        }
        let mut bind = |placeholder: &str, name: &str, value: &str| {
            names.insert(format!("#{placeholder}"), name.to_owned());
            values.insert(format!(":{placeholder}"), AttributeValue::S(value.to_owned()));
        };
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
        let limit = items_at_most.map(|most| i32::try_from(most).unwrap_or(i32::MAX));
        // Longer than the request itself may take.
        let attempt = self.request_timeout.saturating_mul(2);
        let once = TimeoutConfig::builder().operation_attempt_timeout(attempt);
        let once = aws_sdk_dynamodb::config::Builder::default().timeout_config(once.build());
        let Some((name, value)) = self.schema.partition() else {
            let request = self.client.scan().table_name(&self.name);
            let request = request
                .segment(part.cast_signed())
                .total_segments(parts.cast_signed())
                .set_exclusive_start_key(after)
                .set_filter_expression(all_of(&filter))
                .set_expression_attribute_names((!names.is_empty()).then_some(names))
                .set_expression_attribute_values((!values.is_empty()).then_some(values))
                .set_limit(limit)
                .consistent_read(consistency == Consistency::Strong)
                .return_consumed_capacity(ReturnConsumedCapacity::Total);
            let read = request.customize().config_override(once).send().map_ok(|it| {
                page(it.items, it.last_evaluated_key, it.scanned_count, it.consumed_capacity)
            });
            return self.read_page("dynamodb:Scan", Box::pin(read)).await;
        };
        bind("partition", name, value);
        keys.push("#partition = :partition");
        let request = self.client.query().table_name(&self.name);
        let request = request
            .key_condition_expression(keys.join(" AND "))
            .set_exclusive_start_key(after)
            .set_filter_expression(all_of(&filter))
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .set_limit(limit)
            .consistent_read(consistency == Consistency::Strong)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let read = request.customize().config_override(once).send().map_ok(|it| {
            page(it.items, it.last_evaluated_key, it.scanned_count, it.consumed_capacity)
        });
        self.read_page("dynamodb:Query", Box::pin(read)).await
    }

    /// Sends a request of a scan. The error of a denied request names the action to allow.
    async fn read_page<E: Into<DynamoError>>(
        &self,
        action: &str,
        request: Pin<Box<impl Future<Output = Result<ScanPage, SdkError<E>>>>>,
    ) -> Reply<Result<ScanPage, NoPage>> {
        let (answer, seen) = self.send(request, self.request_timeout).await;
        let outcome = answer.map_err(|error| {
            let timed_out = error.is_timeout();
            let error = match error.denied() {
                Some(says) => {
                    let table = &self.name;
                    let message =
                        format!("grant {action} on table `{table}` (DynamoDB says: {says})");
                    Error::new(ErrorKind::Configuration, message)
                }
                None => error.explain(self.destination()),
            };
            if timed_out { NoPage::TimedOut(error) } else { NoPage::Failed(error) }
        });
        Reply::new(outcome, seen.time)
    }

    /// Puts a blocker of this owner, which no call has, under a key, with the number of the last attempt.
    /// `replaced` is the version and the `expires_at` of a record to replace.
    pub(crate) async fn put_blocker(
        &self,
        key: &RecordKey,
        owner: OwnerId,
        lasts: Duration,
        attempt: u32,
        replaced: Option<(&Version, i64)>,
    ) -> Reply<WriteResult> {
        let now = match self.stamp(key).await {
            Ok(stamp) => stamp.at,
            Err(error) => return Reply::new(WriteResult::NotApplied(error), None),
        };
        let meta = RecordMeta {
            owner,
            state: State::Pending { lease_expires_at: now },
            attempt,
            released_attempts: 0,
            created_at: now,
            completed_at: None,
            expires_at: now.plus(lasts).seconds_up(),
            steps: None,
            is_same_request: false,
        };
        let item = record::item(&self.schema, (key, &StoredFingerprint::BLOCKER), &meta, None);
        let condition = match replaced {
            None => Condition::absent(),
            Some((version, expires_at)) => {
                Condition::unchanged(version).and(Term::ExpiresAt(expires_at))
            }
        };
        self.put(item, Expression::of(&self.schema, &condition), self.request_timeout).await
    }

    /// Puts an item as it is, on a condition.
    pub(crate) async fn put_item(&self, item: Item, condition: &Condition) -> Reply<WriteResult> {
        let request = self.put_request(item, Expression::of(&self.schema, condition)).send();
        let (answer, seen) = self.send(Box::pin(request), self.request_timeout).await;
        let outcome = match answer {
            Ok(_) => WriteResult::Applied,
            Err(error) => error.write_result(self.destination(), seen.in_doubt),
        };
        Reply { outcome, is_in_doubt: seen.in_doubt, time: seen.time }
    }

    /// Reads the item with the key of `item`, whatever it is.
    pub(crate) async fn read_same_key(&self, item: &Item) -> Result<Option<Item>, Error> {
        let key: Item = self
            .schema
            .key_names()
            .filter_map(|name| Some((name.to_owned(), item.get(name)?.clone())))
            .collect();
        let get = self.client.get_item().table_name(&self.name).set_key(Some(key));
        let request = Box::pin(get.consistent_read(true).send());
        let (answer, _) = self.send(request, self.request_timeout).await;
        answer.map(|output| output.item).map_err(|error| error.explain(self.destination()))
    }
}

/// A damaged record may lack any attribute, but a part of an answer has a response and neither of the others.
/// In a query, a filter cannot tell them by their keys.
const NO_PART: &str =
    "(attribute_exists(#status) OR attribute_exists(#attempt) OR attribute_not_exists(#response))";

/// DynamoDB rejects an empty expression.
fn all_of(terms: &[&str]) -> Option<String> {
    (!terms.is_empty()).then(|| terms.join(" AND "))
}
