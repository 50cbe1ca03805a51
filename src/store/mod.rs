//! All DynamoDB calls of the crate. Each write of a record is conditional; `WriteResult` lists its
//! results.

#[cfg(feature = "admin")]
pub(crate) mod admin;
pub(crate) mod attribute;
mod components;
pub(crate) mod create;
mod error_code;
mod expression;
mod inspect;
pub(crate) mod key;
mod observer;
pub(crate) mod record;
mod request_error;
pub(crate) mod schema;
mod service_text;
#[cfg(feature = "admin")]
mod sweep;
mod transact;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::get_item::builders::GetItemFluentBuilder;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConsumedCapacity, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
};
use futures_util::future::Either;

use self::error_code::Destination;
use self::expression::Change;
use self::observer::{Observed, observe};
use self::record::{Item, OwnerId, StepValue};
use self::request_error::{DynamoError, RequestError};
use crate::clock::{Clock, StoreTime};
use crate::error::Error;
use crate::fingerprint::StoredFingerprint;
use crate::protocol::{self, Condition, Form, Term, Write};
use crate::signals::Stopwatch;
use crate::store::key::RecordKey;
use crate::store::schema::TableSchema;

pub(crate) use self::expression::Expression;
pub(crate) use self::inspect::{Access, Obstacle};
pub(crate) use self::observer::{Endpoint, Snapshot, observable};
#[cfg(feature = "admin")]
pub use self::sweep::Expired;

/// A table and its client. Each request for a record has a time limit of at most
/// `request_timeout`. If no response has arrived by then, its result is unknown.
#[derive(Debug)]
pub(crate) struct Table {
    /// Made by [`observable`].
    pub(crate) client: Client,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) name: String,
    pub(crate) schema: TableSchema,
    pub(crate) clock: Clock,
    /// The longest time limit of a request, including the SDK's retries.
    pub(crate) request_timeout: Duration,
    /// Whether responses contain the consumed capacity.
    pub(crate) capacity: Option<ReturnConsumedCapacity>,
}

/// The result of a conditional write. `I` says why the caller's items were rejected in a transaction.
pub(crate) type WriteResult<I = Infallible> = protocol::WriteResult<Item, Error, I>;

/// The result of a request, with DynamoDB's time.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reply<T> {
    pub(crate) outcome: T,
    /// Whether an earlier try of this request may have been executed, or may still be.
    pub(crate) is_in_doubt: bool,
    pub(crate) time: Option<StoreTime>,
}

impl<T> Reply<T> {
    pub(crate) const fn new(outcome: T, time: Option<StoreTime>) -> Self {
        Self { outcome, is_in_doubt: false, time }
    }
}

/// The consistency of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consistency {
    /// It reflects all writes that were confirmed before it was sent.
    Strong,
    /// It may return an earlier state, at half the price.
    Eventual,
}

impl Table {
    /// Writes the whole record, or changes a part of it. `response` is the answer of a finished record. Built
    /// outside of the future, as in [`put`](Self::put).
    pub(crate) fn write_record(
        &self,
        of: (&RecordKey, &StoredFingerprint),
        write: &Write,
        response: Option<AttributeValue>,
        limit: Duration,
    ) -> impl Future<Output = Reply<WriteResult>> {
        let mut change = Change::on(Expression::of(&self.schema, &write.condition));
        match write.form() {
            Form::Put | Form::Transaction => {
                let item = record::item(&self.schema, of, &write.record, response);
                return Either::Left(self.put(item, change.condition, limit));
            }
            Form::Update => {
                if write.condition.holds(None) {
                    change.beginning(of.1, &write.record);
                }
                change.record(&write.record, response);
            }
            Form::UpdateWithoutSteps => {
                change.record(&write.record, response);
                change.remove(attribute::STEPS);
            }
            Form::Touch => change.touch(&write.record),
            // Its contents are not part of the write: see `store_step`.
            Form::Step => {}
            Form::Stamp => change.lease(&write.record),
        }
        Either::Right(self.update(of.0, change, limit))
    }

    /// Writes one part of an answer. Its key identifies its content. So a failed condition means
    /// that the same part is in the table, and is kept long enough.
    pub(crate) async fn put_part(
        &self,
        key: &RecordKey,
        owner: &OwnerId,
        expires_at: i64,
        bytes: Vec<u8>,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let item = record::part_item(&self.schema, key, owner, expires_at, bytes);
        self.put_unchanging(item, expires_at, limit).await
    }

    /// Puts the item of a step, on the condition of a part: its key identifies its content too.
    pub(crate) async fn put_step_item(
        &self,
        key: &RecordKey,
        expires_at: i64,
        value: &StepValue,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let item = record::step_item(&self.schema, key, expires_at, value);
        self.put_unchanging(item, expires_at, limit).await
    }

    /// Puts an item whose key identifies its content.
    async fn put_unchanging(
        &self,
        item: Item,
        expires_at: i64,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let condition = Condition::absent_or_expires_before(expires_at);
        self.put(item, Expression::of(&self.schema, &condition), limit).await
    }

    /// Keeps the item of a step until `expires_at`. A rejection means that the item is kept long enough, or is
    /// missing.
    pub(crate) async fn extend_step_item(
        &self,
        key: &RecordKey,
        expires_at: i64,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let condition = Condition::all(&[Term::ExpiresBefore(expires_at)]);
        let mut change = Change::on(Expression::of(&self.schema, &condition));
        change.set_expiry(expires_at);
        self.update(key, change, limit).await
    }

    /// Stores a step: as a new map, if the write requires that there is none, or else as a member of the map.
    /// Built outside of the future, as in [`put`](Self::put).
    pub(crate) fn store_step(
        &self,
        key: &RecordKey,
        write: &Write,
        (name, value): (&str, AttributeValue),
        limit: Duration,
    ) -> impl Future<Output = Reply<WriteResult>> {
        let creates_map = write.condition.terms().any(|term| *term == Term::NoSteps);
        let mut change = Change::on(Expression::of(&self.schema, &write.condition));
        if creates_map {
            let steps = Item::from([(name.to_owned(), value)]);
            change.set(attribute::STEPS, AttributeValue::M(steps));
        } else {
            change.set_step(name, value);
        }
        self.update(key, change, limit)
    }

    /// Reads the item of a key.
    pub(crate) async fn read(
        &self,
        key: &RecordKey,
        consistency: Consistency,
        limit: Duration,
    ) -> Reply<Result<Option<Item>, Error>> {
        let request = Box::pin(self.get_request(key, consistency).send());
        let stopwatch = Stopwatch::start();
        let (answer, seen) = self.send(request, limit).await;
        let units = answer.as_ref().ok().and_then(|output| output.consumed_capacity.as_ref());
        let result = if answer.is_ok() { "ok" } else { "error" };
        stopwatch.store("GetItem", result, units.and_then(ConsumedCapacity::capacity_units));
        let outcome =
            answer.map(|output| output.item).map_err(|error| error.explain(self.destination()));
        Reply::new(outcome, seen.time)
    }

    /// What errors name.
    fn destination(&self) -> Destination<'_> {
        let region = self.client.config().region().map(AsRef::as_ref);
        Destination { table: &self.name, region, endpoint: self.endpoint.get() }
    }

    /// Builds the request outside of the future, which would otherwise also hold what the request is built of.
    fn put(
        &self,
        item: Item,
        condition: Expression<'_>,
        limit: Duration,
    ) -> impl Future<Output = Reply<WriteResult>> {
        let request = Box::pin(self.put_request(item, condition).send());
        self.write("PutItem", request, |output| output.consumed_capacity, limit)
    }

    /// Built outside of the future, as in [`put`](Self::put).
    fn update(
        &self,
        key: &RecordKey,
        change: Change<'_>,
        limit: Duration,
    ) -> impl Future<Output = Reply<WriteResult>> {
        let request = Box::pin(self.update_request(key, change).send());
        self.write("UpdateItem", request, |output| output.consumed_capacity, limit)
    }

    fn get_request(&self, key: &RecordKey, consistency: Consistency) -> GetItemFluentBuilder {
        let get = self.client.get_item().table_name(&self.name);
        get.set_key(Some(record::key_item(&self.schema, key)))
            .consistent_read(consistency == Consistency::Strong)
            .set_return_consumed_capacity(self.capacity.clone())
    }

    fn put_request(&self, item: Item, condition: Expression<'_>) -> PutItemFluentBuilder {
        let (expression, names, values) = condition.finish();
        self.client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(item))
            .condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .set_return_consumed_capacity(self.capacity.clone())
    }

    fn update_request(&self, key: &RecordKey, change: Change<'_>) -> UpdateItemFluentBuilder {
        let update = change.expression();
        let (expression, names, values) = change.condition.finish();
        self.client
            .update_item()
            .table_name(&self.name)
            .set_key(Some(record::key_item(&self.schema, key)))
            .update_expression(update)
            .condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .set_return_consumed_capacity(self.capacity.clone())
    }

    /// Sends a request and stops waiting after `limit`.
    async fn send<T, E: Into<DynamoError>>(
        &self,
        request: Pin<Box<impl Future<Output = Result<T, SdkError<E>>>>>,
        limit: Duration,
    ) -> (Result<T, RequestError>, Observed) {
        let limit = limit.min(self.request_timeout);
        let (answer, mut seen) = observe(&self.clock, limit, request).await;
        seen.time = seen.time.and_then(|time| self.clock.observe(time));
        let answer = match answer {
            Some(answer) => answer.map_err(|error| RequestError::new(error, seen.was_sent)),
            None => Err(RequestError::TimedOut(limit)),
        };
        (answer, seen)
    }

    /// Sends a write and classifies its result. The future is boxed, because the SDK's futures, and
    /// every future around them, would take some kilobytes.
    async fn write<T, E: Into<DynamoError>>(
        &self,
        action: &'static str,
        request: Pin<Box<impl Future<Output = Result<T, SdkError<E>>>>>,
        capacity: fn(T) -> Option<ConsumedCapacity>,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let stopwatch = Stopwatch::start();
        let (answer, seen) = self.send(request, limit).await;
        let (outcome, consumed) = match answer {
            Ok(output) => (WriteResult::Applied, capacity(output)),
            Err(error) => (error.write_result(self.destination(), seen.in_doubt), None),
        };
        let units = consumed.and_then(|consumed| consumed.capacity_units);
        stopwatch.store(action, result_name(&outcome), units);
        Reply::new(outcome, seen.time)
    }
}

/// The result of a write for signals.
const fn result_name<I>(result: &WriteResult<I>) -> &'static str {
    match result {
        WriteResult::Applied => "ok",
        WriteResult::Rejected(_) | WriteResult::ItemsRejected(_) => "refused",
        WriteResult::Conflict(_)
        | WriteResult::TokenUsed(_)
        | WriteResult::Invalid(_)
        | WriteResult::NotApplied(_) => "error",
        WriteResult::Unknown(_) => "unknown",
    }
}
