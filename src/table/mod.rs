//! Every DynamoDB call of the crate, and nothing else: each write is conditional, each answer is
//! one of applied, refused, not applied, or unknown.

#[cfg(feature = "admin")]
mod admin;
mod components;
mod connections;
mod create;
mod expression;
mod fault;
mod inspect;
mod parts;
mod probe;
mod resume;
#[cfg(feature = "admin")]
mod sweep;
mod transact;

use std::error::Error as StdError;
use std::pin::Pin;
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

use self::expression::{Change, Condition};
use self::fault::Fault;
use self::probe::{Probe, Seen};
use crate::clock::{Clock, StoreTime, Timestamp};
use crate::error::Error;
use crate::fault_injection::{Mutant, mutant};
use crate::key::RecordKey;
use crate::record::{self, Claim, Item, Owner, Status, Version};
use crate::schema::{Attribute, TableSchema};
use crate::signals::Stopwatch;

#[cfg(feature = "admin")]
pub(crate) use self::admin::{Only, Part};
pub(crate) use self::connections::Connections;
pub(crate) use self::inspect::{Access, Look};
pub(crate) use self::probe::watchable;
#[cfg(feature = "admin")]
pub(crate) use self::sweep::Expired;
pub(crate) use self::transact::{Guard, Sent, Transacted};

/// One table and how to talk to it. Each call takes the longest that it may last; what has no answer
/// by then, or within `request_timeout`, is unknown.
#[derive(Debug)]
pub(crate) struct Table {
    /// A [watchable] one.
    pub(crate) client: Client,
    pub(crate) connections: Connections,
    pub(crate) name: String,
    pub(crate) schema: TableSchema,
    pub(crate) clock: Clock,
    /// The longest that one call may take, the SDK's own retries included.
    pub(crate) request_timeout: Duration,
    /// Whether requests ask what they consume.
    pub(crate) capacity: Option<ReturnConsumedCapacity>,
    /// Whether records are left alone: every write of one is said to have happened, none is ever
    /// found, and transactions are sent without theirs.
    pub(crate) is_disabled: bool,
}

/// What became of a conditional write.
#[derive(Debug)]
#[must_use]
pub(crate) enum Write {
    /// It is in the table.
    Applied,
    /// Its condition did not hold; with the record it lost to, where the store sent it.
    Refused(Option<Item>),
    /// It did not happen, because another write or transaction was at the item.
    Conflict(Error),
    /// It did not happen, and never will as it is: DynamoDB does not take these values.
    Invalid(Error),
    /// It did not happen.
    NotApplied(Error),
    /// Nobody knows: no answer, or a server error, to this try or to an earlier one.
    Unknown(Error),
}

/// An answer and the store's clock when it was given.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reply<T> {
    pub(crate) outcome: T,
    pub(crate) time: Option<StoreTime>,
}

/// What a read may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consistency {
    /// What every write that was confirmed before has left.
    Strong,
    /// That, or what was there before; at half the price.
    Eventual,
}

/// How long a new owner holds the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub(crate) lease_expires_at: Timestamp,
    /// Epoch seconds.
    pub(crate) expires_at: i64,
}

impl Table {
    /// Writes the pending record where there is none.
    pub(crate) async fn create(&self, claim: &Claim, term: Term, limit: Duration) -> Reply<Write> {
        let mut condition = Condition::new(&self.schema);
        if mutant(Mutant::TakeReleasedUnfenced) {
            condition.free_or_held_by(&claim.owner, u32::MAX);
        } else if !mutant(Mutant::CreateUnfenced) {
            condition.absent();
        }
        self.put(self.pending(claim, term), condition, limit).await
    }

    /// Puts a new pending record in the place of one that no longer counts, or is in nobody's hands.
    pub(crate) async fn replace(
        &self,
        claim: &Claim,
        term: Term,
        seen: &Version,
        limit: Duration,
    ) -> Reply<Write> {
        let mut condition = Condition::new(&self.schema);
        condition.version(seen);
        self.put(self.pending(claim, term), condition, limit).await
    }

    /// Makes the claim's owner the owner of a record whose operation goes on. What else the record
    /// holds stays: a later version's attributes too.
    pub(crate) async fn take_over(
        &self,
        claim: &Claim,
        term: Term,
        seen: &Version,
        limit: Duration,
    ) -> Reply<Write> {
        let mut change = Change::new(&self.schema);
        if !mutant(Mutant::TakeOverUnfenced) {
            change.condition.version(seen);
        }
        change.set(Attribute::Status, AttributeValue::S(Status::Pending.as_str().into()));
        change.set(Attribute::Owner, AttributeValue::S(claim.owner.as_str().into()));
        change.set(Attribute::Attempt, record::number(claim.attempt));
        change.set(Attribute::LeaseExpiresAt, record::number(term.lease_expires_at.millis()));
        change.set(Attribute::ExpiresAt, record::number(term.expires_at));
        change.remove(Attribute::CompletedAt);
        change.remove(Attribute::Response);
        self.update(&claim.key, change, limit).await
    }

    /// Stamps the owner's own lease anew, earlier or later: only over the stamp that was seen, so
    /// that a late copy of this write never undoes a renewal.
    pub(crate) async fn restamp(
        &self,
        claim: &Claim,
        term: Term,
        seen: Timestamp,
        limit: Duration,
    ) -> Reply<Write> {
        let mut change = Change::new(&self.schema);
        change.condition.held_by(&claim.owner);
        if !mutant(Mutant::RestampMayShorten) {
            change.condition.lease_is(seen);
        }
        self.stamp(claim, term, change, limit).await
    }

    /// Extends the owner's lease; a late repeat never shortens it.
    pub(crate) async fn renew(&self, claim: &Claim, term: Term, limit: Duration) -> Reply<Write> {
        let mut change = Change::new(&self.schema);
        if !mutant(Mutant::RenewUnfenced) {
            change.condition.held_by(&claim.owner);
        }
        if !mutant(Mutant::RenewalMayShorten) {
            change.condition.lease_ends_before(term.lease_expires_at);
        }
        self.stamp(claim, term, change, limit).await
    }

    async fn stamp(
        &self,
        claim: &Claim,
        term: Term,
        mut change: Change<'_>,
        limit: Duration,
    ) -> Reply<Write> {
        change.set(Attribute::LeaseExpiresAt, record::number(term.lease_expires_at.millis()));
        change.set(Attribute::ExpiresAt, record::number(term.expires_at));
        self.update(&claim.key, change, limit).await
    }

    /// Writes the finished record over the owner's own, or where it is in nobody's hands: the effect
    /// has happened, whoever released or deleted the record. The item has this attempt, and a released
    /// record with a later one refuses it.
    pub(crate) async fn complete(
        &self,
        owner: &Owner,
        attempt: u32,
        item: Item,
        limit: Duration,
    ) -> Reply<Write> {
        let mut condition = Condition::new(&self.schema);
        if !mutant(Mutant::CompleteUnfenced) {
            condition.free_or_owned_by(owner, attempt);
        }
        self.put(item, condition, limit).await
    }

    /// Keeps a failure, with an answer if it can be replayed.
    pub(crate) async fn keep_failure(
        &self,
        claim: &Claim,
        failed_at: Timestamp,
        expires_at: i64,
        response: Option<AttributeValue>,
        limit: Duration,
    ) -> Reply<Write> {
        let mut change = Change::new(&self.schema);
        if !mutant(Mutant::KeepFailureUnfenced) {
            change.condition.held_by(&claim.owner);
        }
        change.fail(claim, failed_at, expires_at, response);
        self.update(&claim.key, change, limit).await
    }

    /// Leaves the owner's pending record in nobody's hands: never a completed one, whose response was
    /// only lost, and never one with steps, which would happen again. It is not deleted, so that no late
    /// copy of an acquisition is let in again.
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        lease_expires_at: Timestamp,
        limit: Duration,
    ) -> Reply<Write> {
        let mut change = Change::new(&self.schema);
        if !mutant(Mutant::ReleaseUnfenced) {
            change.condition.owned_by(&claim.owner);
        }
        if !mutant(Mutant::ReleaseAnyStatus) {
            change.condition.pending();
        }
        change.condition.no_steps();
        let expires_at = record::released_until(self.clock.store_now(), lease_expires_at);
        change.release(claim.attempt, expires_at);
        self.update(&claim.key, change, limit).await
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
        if self.is_disabled {
            return Reply { outcome: Ok(None), time: None };
        }
        let request = self.get_request(key, consistency);
        let request = Box::pin(request.send());
        let limit = limit.min(self.request_timeout);
        let stopwatch = Stopwatch::start();
        let (answer, seen) = self.send(request, limit).await;
        let time = seen.time;
        let units = consumed(answer.as_ref());
        let outcome = match answer {
            Some(Ok(output)) => Ok(output.item),
            Some(Err(error)) => Err(self.fault(error, &seen).into_error()),
            None => Err(fault::timed_out(limit)),
        };
        let result = if outcome.is_ok() { "ok" } else { "error" };
        stopwatch.store(GetItemOutput::ACTION, result, units);
        Reply { outcome, time }
    }

    fn pending(&self, claim: &Claim, term: Term) -> Item {
        record::first_item(&self.schema, claim, term.lease_expires_at, term.expires_at)
    }

    async fn put(&self, item: Item, condition: Condition<'_>, limit: Duration) -> Reply<Write> {
        let request = self.put_request(item, condition);
        let request = Box::pin(request.send());
        self.write(request, limit).await
    }

    async fn update(&self, key: &RecordKey, change: Change<'_>, limit: Duration) -> Reply<Write> {
        let request = self.update_request(key, change);
        let request = Box::pin(request.send());
        self.write(request, limit).await
    }

    fn get_request(&self, key: &RecordKey, consistency: Consistency) -> GetItemFluentBuilder {
        let get = self.client.get_item().table_name(&self.name);
        get.set_key(Some(record::key_item(&self.schema, key)))
            .consistent_read(consistency == Consistency::Strong)
            .set_return_consumed_capacity(self.capacity.clone())
    }

    fn put_request(&self, item: Item, condition: Condition<'_>) -> PutItemFluentBuilder {
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

    /// Sends a request, of which there is no answer after `limit`.
    async fn send<T>(
        &self,
        request: Pin<Box<impl Future<Output = T>>>,
        limit: Duration,
    ) -> (Option<T>, Seen) {
        let probe = Probe::new(self.clock.machine());
        let answer = self.clock.within(limit, probe.watch(request)).await;
        let seen = probe.seen();
        self.clock.observe(seen.time);
        (answer, seen)
    }

    /// Sends a write and sorts its answer. Its future is boxed: the SDK's are some kilobytes large, and
    /// every future around them would be.
    async fn write<O: Metered, E: Conditional>(
        &self,
        request: Pin<Box<impl Future<Output = Result<O, SdkError<E>>>>>,
        limit: Duration,
    ) -> Reply<Write> {
        if self.is_disabled {
            return Reply { outcome: Write::Applied, time: None };
        }
        let limit = limit.min(self.request_timeout);
        let stopwatch = Stopwatch::start();
        let (answer, seen) = self.send(request, limit).await;
        let units = consumed(answer.as_ref());
        let outcome = match answer {
            None => Write::Unknown(fault::timed_out(limit)),
            Some(Ok(_)) => Write::Applied,
            Some(Err(SdkError::ServiceError(context))) if context.err().is_refused() => {
                Write::Refused(context.into_err().into_item())
            }
            Some(Err(error)) => match self.fault(error, &seen) {
                // An earlier try of the SDK's may have been executed all the same.
                Fault::Unknown(error) => Write::Unknown(error),
                fault if seen.in_doubt => Write::Unknown(fault.into_error()),
                Fault::Conflict(error) => Write::Conflict(error),
                Fault::Invalid(error) => Write::Invalid(error),
                Fault::Refused(error) => Write::NotApplied(error),
            },
        };
        stopwatch.store(O::ACTION, outcome.name(), units);
        let outcome = match outcome {
            Write::Unknown(_) if mutant(Mutant::UnknownIsRefused) => Write::Refused(None),
            outcome => outcome,
        };
        Reply { outcome, time: seen.time }
    }

    fn fault<E>(&self, error: SdkError<E>, seen: &Seen) -> Fault
    where
        E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
    {
        match error {
            SdkError::DispatchFailure(_) if !seen.was_sent => fault::unsent(error),
            error => fault::sort(&self.name, error),
        }
    }
}

impl Write {
    /// The result as signals have it.
    const fn name(&self) -> &'static str {
        match self {
            Self::Applied => "ok",
            Self::Refused(_) => "refused",
            Self::Conflict(_) | Self::Invalid(_) | Self::NotApplied(_) => "error",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// An answer of DynamoDB's, for the sake of what it tells of its request.
trait Metered {
    /// DynamoDB's name of the request.
    const ACTION: &'static str;
    /// The capacity units that it consumed, if that was asked.
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

/// A write's error type, for the sake of the one error that is an answer.
trait Conditional: StdError + ProvideErrorMetadata + Send + Sync + 'static {
    /// Whether the condition did not hold.
    fn is_refused(&self) -> bool;
    /// The record that it did not hold for, where the store sent it.
    fn into_item(self) -> Option<Item>;
}

macro_rules! conditional {
    ($($error:ident),*) => {$(
        impl Conditional for $error {
            fn is_refused(&self) -> bool {
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
