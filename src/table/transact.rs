//! The record together with the caller's own items, in one transaction.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::{
    TransactWriteItemsError, TransactWriteItemsOutput,
};
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConsumedCapacity, Put, ReturnValuesOnConditionCheckFailure,
    TransactWriteItem,
};

use super::expression::{Change, Condition};
use super::fault::{self, Fault};
use super::probe::Seen;
use super::{Metered, Reply, Table, Write, consumed};
use crate::clock::StoreTime;
use crate::error::{Error, ErrorKind};
use crate::fault_injection::{Mutant, mutant};
use crate::record::{self, Claim, Item, Owner, Status, Version};
use crate::schema::Attribute;
use crate::signals::Stopwatch;

/// What the record must be for the write to land.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guard<'a> {
    /// There is none.
    Absent,
    /// The owner's own, PENDING.
    Held(&'a Owner),
    /// In nobody's hands (none, or RELEASED after no later attempt than this), or the owner's own, PENDING.
    FreeOrHeld(&'a Owner, u32),
    /// Exactly the one that was seen.
    Version(&'a Version),
    /// One of an owner that there is not: it never lands.
    Never(&'a Owner),
}

/// What became of a transaction.
#[derive(Debug)]
#[must_use]
pub(crate) enum Transacted {
    /// All of it is in the tables.
    Applied,
    /// Nothing of it was written; the reason of each item, the record's first.
    Canceled(Vec<CancellationReason>),
    /// Its token was used with other contents; this one was not executed.
    TokenUsed(Error),
    /// It was not executed, and never will be as it is: DynamoDB's words.
    Invalid(String),
    /// It was not executed.
    NotApplied(Error),
    /// Nobody knows.
    Unknown(Error),
}

impl Transacted {
    /// The result as signals have it.
    const fn name(&self) -> &'static str {
        match self {
            Self::Applied => "ok",
            Self::Canceled(_) => "refused",
            Self::TokenUsed(_) | Self::Invalid(_) | Self::NotApplied(_) => "error",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl Metered for TransactWriteItemsOutput {
    const ACTION: &'static str = "TransactWriteItems";

    fn units(&self) -> Option<f64> {
        let tables = self.consumed_capacity.as_ref()?;
        Some(tables.iter().filter_map(ConsumedCapacity::capacity_units).sum())
    }
}

/// The answer to a transaction.
#[derive(Debug)]
#[must_use]
pub(crate) struct Sent {
    pub(crate) outcome: Transacted,
    /// A try of this call may have been executed, or may yet be.
    pub(crate) in_doubt: bool,
    pub(crate) time: Option<StoreTime>,
}

impl Table {
    /// Writes the record under its guard and `items` with it, or nothing at all.
    pub(crate) async fn transact(
        &self,
        record: Item,
        guard: Guard<'_>,
        items: &[TransactWriteItem],
        token: &str,
        limit: Duration,
    ) -> Sent {
        let ended = |outcome| Sent { outcome, in_doubt: false, time: None };
        let mut all = match self.guarded(record, guard) {
            Ok(_) if self.is_disabled => Vec::new(),
            Ok(record) => vec![record],
            Err(error) => return ended(Transacted::NotApplied(error)),
        };
        all.extend_from_slice(items);
        if all.is_empty() {
            return ended(Transacted::Applied);
        }
        let request = self
            .client
            .transact_write_items()
            .set_transact_items(Some(all))
            .client_request_token(token)
            .set_return_consumed_capacity(self.capacity.clone())
            .send();
        let limit = limit.min(self.request_timeout);
        let stopwatch = Stopwatch::start();
        let (answer, seen) = self.send(Box::pin(request), limit).await;
        let units = consumed(answer.as_ref());
        let (outcome, is_open) = match answer {
            None => (Transacted::Unknown(fault::timed_out(limit)), true),
            Some(Ok(_)) => (Transacted::Applied, false),
            Some(Err(error)) => self.sort(error, &seen, items),
        };
        stopwatch.store(TransactWriteItemsOutput::ACTION, outcome.name(), units);
        let outcome = if self.is_disabled { without_record(outcome) } else { outcome };
        Sent { outcome, in_doubt: is_open || seen.in_doubt, time: seen.time }
    }

    /// Writes the record alone, under the guard that a transaction has.
    pub(crate) async fn put_guarded(
        &self,
        record: Item,
        guard: Guard<'_>,
        limit: Duration,
    ) -> Reply<Write> {
        self.put(record, self.condition(guard), limit).await
    }

    /// Puts a record out of the way of a late write that asks for it (for none, where nothing was seen), so
    /// that this can land no more: by another version of the same, or a released one where there is none.
    pub(crate) async fn displace(
        &self,
        claim: &Claim,
        seen: Option<&Version>,
        limit: Duration,
    ) -> Reply<Write> {
        let nobody = match Owner::random() {
            Ok(nobody) => nobody,
            Err(error) => return Reply { outcome: Write::NotApplied(error), time: None },
        };
        let Some(seen) = seen else {
            let mut condition = Condition::new(&self.schema);
            condition.absent();
            let claim = Claim { owner: nobody, attempt: 0, ..claim.clone() };
            let item = record::released_item(&self.schema, &claim, self.clock.store_now());
            return self.put(item, condition, limit).await;
        };
        let mut change = Change::new(&self.schema);
        change.condition.version(seen);
        match (seen.status, seen.lease_expires_at) {
            (Status::Pending, Some(lease_expires_at)) => {
                // Its owner is slow perhaps, and may complete it still.
                let earlier = record::number(lease_expires_at.shifted(-1).millis());
                change.set(Attribute::LeaseExpiresAt, earlier);
            }
            // Its answer may have parts, which are its owner's.
            (Status::Completed, _) => {
                change.set(Attribute::Steps, AttributeValue::M(HashMap::new()));
            }
            (Status::Pending | Status::Failed | Status::Released, _) => {
                change.set(Attribute::Owner, AttributeValue::S(nobody.as_str().into()));
            }
        }
        self.update(&claim.key, change, limit).await
    }

    fn guarded(&self, record: Item, guard: Guard<'_>) -> Result<TransactWriteItem, Error> {
        let condition = if mutant(Mutant::TransactUnfenced) {
            Condition::new(&self.schema)
        } else {
            self.condition(guard)
        };
        let (expression, names, values) = condition.finish();
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(record))
            .condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .map_err(|source| {
                let message = "the record's part of the transaction could not be built";
                Error::new(ErrorKind::Configuration, message).with_source(source)
            })?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    fn condition(&self, guard: Guard<'_>) -> Condition<'_> {
        let mut condition = Condition::new(&self.schema);
        match guard {
            Guard::Absent => condition.absent(),
            Guard::Held(owner) if mutant(Mutant::CommitAnyStatus) => condition.owned_by(owner),
            Guard::Held(owner) => condition.held_by(owner),
            Guard::FreeOrHeld(owner, attempt) => condition.free_or_held_by(owner, attempt),
            Guard::Version(version) => condition.version(version),
            Guard::Never(nobody) => condition.owned_by(nobody),
        }
        condition
    }

    /// The tables of a transaction, the record's first.
    fn tables_of<'a>(&'a self, items: &'a [TransactWriteItem]) -> Vec<&'a str> {
        let of_each = items.iter().flat_map(|item| {
            let put = item.put.as_ref().map(|put| &put.table_name);
            let update = item.update.as_ref().map(|update| &update.table_name);
            let delete = item.delete.as_ref().map(|delete| &delete.table_name);
            let check = item.condition_check.as_ref().map(|check| &check.table_name);
            [put, update, delete, check].into_iter().flatten().map(String::as_str)
        });
        let mut tables = vec![self.name.as_str()];
        for table in of_each {
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        tables
    }

    /// What an error means; also whether a request with the same token was, or is being, executed.
    fn sort(
        &self,
        error: SdkError<TransactWriteItemsError>,
        seen: &Seen,
        items: &[TransactWriteItem],
    ) -> (Transacted, bool) {
        let (code, said, is_refused) = match &error {
            SdkError::ServiceError(context) => (
                context.err().code().unwrap_or_default().to_owned(),
                context.err().message().unwrap_or("no detail").to_owned(),
                context.raw().status().is_client_error(),
            ),
            _ => (String::new(), String::new(), false),
        };
        let unavailable = |message, source: SdkError<TransactWriteItemsError>| {
            Error::new(ErrorKind::Unavailable, message).with_source(source)
        };
        let configuration = |message: String, source: SdkError<TransactWriteItemsError>| {
            let error = Error::new(ErrorKind::Configuration, message).with_source(source);
            (Transacted::NotApplied(error), false)
        };
        match code.as_str() {
            "TransactionCanceledException" if is_refused => {
                let reasons = match error.into_service_error() {
                    TransactWriteItemsError::TransactionCanceledException(canceled) => {
                        canceled.cancellation_reasons
                    }
                    _ => None,
                };
                (Transacted::Canceled(reasons.unwrap_or_default()), false)
            }
            "IdempotentParameterMismatchException" => {
                let message = "the transaction's token was used for other items";
                (Transacted::TokenUsed(unavailable(message, error)), true)
            }
            "TransactionInProgressException" => {
                let message = "an earlier try of the transaction is still under way";
                (Transacted::NotApplied(unavailable(message, error)), true)
            }
            "ValidationException" if is_refused => (Transacted::Invalid(said), false),
            "ResourceNotFoundException" => {
                let tables = self.tables_of(items).join("`, `");
                let message = format!(
                    "a table of the transaction is not there: DynamoDB does not say which of `{tables}`"
                );
                configuration(message, error)
            }
            "AccessDeniedException" => configuration(
                format!(
                    "DynamoDB denies the transaction: each item in it needs its own permission \
                     (dynamodb:PutItem, UpdateItem, DeleteItem or ConditionCheckItem). {said}"
                ),
                error,
            ),
            _ => match self.fault(error, seen) {
                Fault::Unknown(error) => (Transacted::Unknown(error), true),
                Fault::Invalid(error) | Fault::Conflict(error) | Fault::Refused(error) => {
                    (Transacted::NotApplied(error), false)
                }
            },
        }
    }
}

/// What became of a transaction that was sent without the record: callers take the first reason for
/// the record's. Another token would let an earlier try happen twice, with no record to forbid it.
fn without_record(outcome: Transacted) -> Transacted {
    match outcome {
        Transacted::Canceled(theirs) => {
            let records = CancellationReason::builder().build();
            Transacted::Canceled(std::iter::once(records).chain(theirs).collect())
        }
        Transacted::TokenUsed(error) => Transacted::Unknown(error),
        outcome => outcome,
    }
}
