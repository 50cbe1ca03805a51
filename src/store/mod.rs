//! All DynamoDB calls of the crate. Each write is conditional, and its result is one of applied,
//! rejected, not applied, or unknown.

#[cfg(feature = "admin")]
mod admin;
mod cancellation;
mod components;
mod create;
mod expression;
mod inspect;
pub(crate) mod key;
mod observer;
mod parts;
pub(crate) mod record;
mod request_error;
pub(crate) mod schema;
mod steps;
#[cfg(feature = "admin")]
mod sweep;
mod transact;

use std::convert::Infallible;
use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::{DeleteItemError, DeleteItemOutput};
use aws_sdk_dynamodb::operation::get_item::GetItemOutput;
use aws_sdk_dynamodb::operation::get_item::builders::GetItemFluentBuilder;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::put_item::{PutItemError, PutItemOutput};
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::{UpdateItemError, UpdateItemOutput};
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
};

use self::expression::{Change, Expression};
use self::observer::{Observed, Observer};
use self::record::Item;
use self::request_error::RequestError;
use crate::clock::{Clock, StoreTime};
use crate::error::Error;
use crate::fingerprint::StoredFingerprint;
use crate::protocol::{self, Form, Write};
use crate::signals::Stopwatch;
use crate::store::key::RecordKey;
use crate::store::schema::TableSchema;

#[cfg(feature = "admin")]
pub(crate) use self::admin::{Only, Part};
#[cfg(feature = "fuzzing")]
pub(crate) use self::expression::condition_expression;
pub(crate) use self::inspect::{Access, Inspection};
pub(crate) use self::observer::{Snapshot, observable};
#[cfg(feature = "admin")]
pub(crate) use self::sweep::Expired;

/// A table and its client. Each request has a time limit. The result of a request without a response
/// by then, or within `request_timeout`, is unknown.
#[derive(Debug)]
pub(crate) struct Table {
    /// Made by [`observable`].
    pub(crate) client: Client,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) name: String,
    pub(crate) schema: TableSchema,
    pub(crate) clock: Clock,
    /// The longest time limit of a request, with the SDK's retries.
    pub(crate) request_timeout: Duration,
    /// Whether responses contain the consumed capacity.
    pub(crate) capacity: Option<ReturnConsumedCapacity>,
}

/// The result of a conditional write. `I` says why the caller's items do not allow a transaction.
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
    /// It reflects all writes that were confirmed before.
    Strong,
    /// It may return an earlier state, at half the price.
    Eventual,
}

impl Table {
    /// Writes the whole record, or changes it. `response` is the answer of a finished one.
    pub(crate) async fn write_record(
        &self,
        of: (&RecordKey, &StoredFingerprint),
        write: &Write,
        response: Option<AttributeValue>,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let condition = Expression::of(&self.schema, &write.condition);
        match write.form {
            Form::Put | Form::Transaction => {
                let item = record::item(&self.schema, of, &write.record, response);
                self.put(item, condition, limit).await
            }
            Form::Update => {
                let mut change = Change::on(condition);
                if write.condition.holds(None) {
                    change.beginning(of.1, &write.record);
                }
                change.record(&write.record, response);
                self.update(of.0, change, limit).await
            }
            Form::Touch => {
                let mut change = Change::on(condition);
                change.touch(&write.record);
                self.update(of.0, change, limit).await
            }
            Form::Stamp => {
                let mut change = Change::on(condition);
                change.lease(&write.record);
                self.update(of.0, change, limit).await
            }
        }
    }

    /// Reads the record, strongly consistent.
    pub(crate) async fn get(
        &self,
        key: &RecordKey,
        limit: Duration,
    ) -> Reply<Result<Option<Item>, Error>> {
        self.read(key, Consistency::Strong, limit).await
    }

    pub(crate) async fn read(
        &self,
        key: &RecordKey,
        consistency: Consistency,
        limit: Duration,
    ) -> Reply<Result<Option<Item>, Error>> {
        let request = self.get_request(key, consistency);
        let request = Box::pin(request.send());
        let limit = limit.min(self.request_timeout);
        let stopwatch = Stopwatch::start();
        let (answer, seen) = self.send(request, limit).await;
        let time = seen.time;
        let units = consumed(answer.as_ref());
        let outcome = match answer {
            Some(Ok(output)) => Ok(output.item),
            Some(Err(error)) => Err(self.request_error(error, &seen).into_error()),
            None => Err(request_error::timed_out(limit)),
        };
        let result = if outcome.is_ok() { "ok" } else { "error" };
        stopwatch.store(GetItemOutput::ACTION, result, units);
        Reply::new(outcome, time)
    }

    /// Builds the request outside of the future, so that the future does not borrow `condition`.
    fn put(
        &self,
        item: Item,
        condition: Expression<'_>,
        limit: Duration,
    ) -> impl Future<Output = Reply<WriteResult>> {
        let request = self.put_request(item, condition);
        self.write(Box::pin(request.send()), limit)
    }

    /// The same as [`put`](Self::put).
    fn update(
        &self,
        key: &RecordKey,
        change: Change<'_>,
        limit: Duration,
    ) -> impl Future<Output = Reply<WriteResult>> {
        let request = self.update_request(key, change);
        self.write(Box::pin(request.send()), limit)
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
    async fn send<T>(
        &self,
        request: Pin<Box<impl Future<Output = T>>>,
        limit: Duration,
    ) -> (Option<T>, Observed) {
        let observer = Observer::new(&self.clock.local);
        let answer = self.clock.within(limit, observer.observe(request)).await;
        let seen = observer.seen();
        match seen.time {
            Some(time) => self.clock.observe(time),
            None if seen.was_answered => self.clock.trust_local(),
            None => {}
        }
        (answer, seen)
    }

    /// Sends a write and classifies its result. The future is boxed, because the SDK's futures, and
    /// every future around them, would take some kilobytes.
    async fn write<O: Metered, E: Conditional>(
        &self,
        request: Pin<Box<impl Future<Output = Result<O, SdkError<E>>>>>,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let limit = limit.min(self.request_timeout);
        let stopwatch = Stopwatch::start();
        let (answer, seen) = self.send(request, limit).await;
        let units = consumed(answer.as_ref());
        let outcome = match answer {
            None => WriteResult::Unknown(request_error::timed_out(limit)),
            Some(Ok(_)) => WriteResult::Applied,
            Some(Err(SdkError::ServiceError(context))) if context.err().is_rejected() => {
                WriteResult::Rejected(context.into_err().into_item())
            }
            Some(Err(error)) => match self.request_error(error, &seen) {
                // An earlier try of the SDK may have been executed.
                RequestError::Unknown(error) => WriteResult::Unknown(error),
                error if seen.in_doubt => WriteResult::Unknown(error.into_error()),
                RequestError::Conflict(error) => WriteResult::Conflict(error),
                RequestError::Invalid(error) => WriteResult::Invalid(error),
                RequestError::NotExecuted(error) => WriteResult::NotApplied(error),
            },
        };
        stopwatch.store(O::ACTION, result_name(&outcome), units);
        Reply::new(outcome, seen.time)
    }

    fn request_error<E>(&self, error: SdkError<E>, seen: &Observed) -> RequestError
    where
        E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
    {
        match error {
            SdkError::DispatchFailure(_) if !seen.was_sent => request_error::unsent(error),
            error => request_error::classify(&self.name, error),
        }
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

/// The data that a response contains about its request.
trait Metered {
    /// DynamoDB's id of the request.
    const ACTION: &'static str;
    /// The capacity units that it consumed, if they were requested.
    fn units(&self) -> Option<f64>;
}

macro_rules! metered {
    ($($output:ident: $action:literal),*) => {$(
        impl Metered for $output {
            const ACTION: &'static str = $action;

            fn units(&self) -> Option<f64> {
                self.consumed_capacity()?.capacity_units()
            }
        }
    )*};
}
metered!(
    DeleteItemOutput: "DeleteItem",
    GetItemOutput: "GetItem",
    PutItemOutput: "PutItem",
    UpdateItemOutput: "UpdateItem"
);

fn consumed<O: Metered, E>(answer: Option<&Result<O, E>>) -> Option<f64> {
    answer?.as_ref().ok()?.units()
}

/// The error type of a write, which may be a failed condition.
trait Conditional: StdError + ProvideErrorMetadata + Send + Sync + 'static {
    /// Returns whether the condition failed.
    fn is_rejected(&self) -> bool;
    /// Returns the record for which it failed, if DynamoDB sent it.
    fn into_item(self) -> Option<Item>;
}

macro_rules! conditional {
    ($($error:ident),*) => {$(
        impl Conditional for $error {
            fn is_rejected(&self) -> bool {
                self.is_conditional_check_failed_exception()
            }

            fn into_item(self) -> Option<Item> {
                match self {
                    Self::ConditionalCheckFailedException(failed) => failed.item,
                    _ => None,
                }
            }
        }
    )*};
}
conditional!(DeleteItemError, PutItemError, UpdateItemError);
