//! Writes the record together with the caller's items, in one transaction. If DynamoDB cancels it, each item
//! gets a reason. The record is the first item. If it is to blame, the other reasons are ignored.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConsumedCapacity, Put, ReturnValuesOnConditionCheckFailure,
    TransactWriteItem,
};

use super::error_code::{Response, explain, says, says_of};
use super::expression::Expression;
use super::request_error::{DynamoError, RequestError};
use super::{Reply, Table, WriteResult, result_name};
use crate::error::{ConditionFailed, Error, ErrorKind};
use crate::fingerprint::StoredFingerprint;
use crate::protocol::Write;
use crate::signals::Stopwatch;
use crate::store::key::RecordKey;
use crate::store::record;

impl Table {
    /// Writes the record on its condition together with `items`, or nothing.
    pub(crate) async fn transact(
        &self,
        of: (&RecordKey, &StoredFingerprint),
        write: &Write,
        response: Option<AttributeValue>,
        (items, token): (&[TransactWriteItem], &str),
        limit: Duration,
    ) -> Reply<WriteResult<Error>> {
        let record = record::item(&self.schema, of, &write.record, response);
        let (expression, names, values) = Expression::of(&self.schema, &write.condition).finish();
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(record))
            .condition_expression(expression)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match put.build() {
            Ok(put) => {
                let record = TransactWriteItem::builder().put(put).build();
                self.transact_items(Some(record), (items, token), limit).await
            }
            Err(source) => {
                let message = "the record's part of the transaction could not be built";
                let error = Error::new(ErrorKind::Configuration, message).with_source(source);
                Reply::new(WriteResult::NotApplied(error), None)
            }
        }
    }

    /// Writes `items`, with the record if there is one.
    pub(crate) async fn transact_items(
        &self,
        record: Option<TransactWriteItem>,
        (items, token): (&[TransactWriteItem], &str),
        limit: Duration,
    ) -> Reply<WriteResult<Error>> {
        let has_record = record.is_some();
        let all: Vec<_> = record.into_iter().chain(items.iter().cloned()).collect();
        let request = self
            .client
            .transact_write_items()
            .set_transact_items(Some(all))
            .client_request_token(token)
            .set_return_consumed_capacity(self.capacity.clone())
            .send();
        let stopwatch = Stopwatch::start();
        let (answer, seen) = self.send(Box::pin(request), limit).await;
        let tables = answer.as_ref().ok().and_then(|output| output.consumed_capacity.as_ref());
        let units = tables.map(|of_each| {
            of_each.iter().filter_map(ConsumedCapacity::capacity_units).sum::<f64>()
        });
        let (outcome, is_in_doubt) = match answer {
            Ok(_) => (WriteResult::Applied, false),
            Err(error) => {
                let (outcome, is_open) = self.transaction_result(error, items, has_record);
                (outcome, is_open || seen.in_doubt)
            }
        };
        let name = match &outcome {
            WriteResult::Conflict(_) => "refused",
            outcome => result_name(outcome),
        };
        stopwatch.store("TransactWriteItems", name, units);
        Reply { outcome, is_in_doubt, time: seen.time }
    }

    /// Classifies an error. Also returns whether a request with the same token may have been
    /// executed, or may still be.
    fn transaction_result(
        &self,
        error: RequestError,
        items: &[TransactWriteItem],
        has_record: bool,
    ) -> (WriteResult<Error>, bool) {
        let error = match error {
            RequestError::NotExecuted(DynamoError::TransactionCanceledException(canceled)) => {
                let reasons = canceled.cancellation_reasons.unwrap_or_default();
                return (cancellation_result(reasons, has_record), false);
            }
            RequestError::NotExecuted(error) => error,
            error => {
                let is_open = error.is_unknown();
                return (error.write_result(self.destination(), false), is_open);
            }
        };
        let explained =
            |kind, message: String| Error::new(kind, message).with_source(Response::of(&error));
        let unavailable = |message: &str| explained(ErrorKind::Unavailable, message.to_owned());
        let (error, is_open) = match error.code() {
            Some("ValidationException") => {
                let rejected = rejected_as_invalid(None, &says(&error));
                return (WriteResult::ItemsRejected(rejected), false);
            }
            Some("IdempotentParameterMismatchException") => {
                let error = unavailable("the transaction's token was used for other items");
                return (WriteResult::TokenUsed(error), true);
            }
            Some("TransactionInProgressException") => {
                (unavailable("an earlier try of the transaction is still in flight"), true)
            }
            Some("ResourceNotFoundException") => {
                (explained(ErrorKind::Configuration, self.table_missing(items)), false)
            }
            Some("AccessDeniedException") => {
                (explained(ErrorKind::Configuration, denied(&says(&error))), false)
            }
            _ => (explain(self.destination(), &error), false),
        };
        (WriteResult::NotApplied(error), is_open)
    }

    fn table_missing(&self, items: &[TransactWriteItem]) -> String {
        let of_each = items.iter().flat_map(|item| {
            let put = item.put.as_ref().map(|put| &put.table_name);
            let update = item.update.as_ref().map(|update| &update.table_name);
            let delete = item.delete.as_ref().map(|delete| &delete.table_name);
            let check = item.condition_check.as_ref().map(|check| &check.table_name);
            [put, update, delete, check].into_iter().flatten()
        });
        let tables: BTreeSet<_> = of_each.chain([&self.name]).map(String::as_str).collect();
        let tables = tables.into_iter().collect::<Vec<_>>().join("`, `");
        format!(
            "a table of the transaction does not exist {}; DynamoDB does not say which of `{tables}`: create \
             it, or correct its name in the items, the region or the endpoint",
            self.destination().place()
        )
    }
}

fn denied(says: &str) -> String {
    format!(
        "DynamoDB denies the transaction: each item in it needs its own permission \
         (dynamodb:PutItem, UpdateItem, DeleteItem or ConditionCheckItem). {says}"
    )
}

const CONDITION: &str = "ConditionalCheckFailed";

fn cancellation_result(reasons: Vec<CancellationReason>, has_record: bool) -> WriteResult<Error> {
    let codes = reasons.iter().map(code).collect::<Vec<_>>().join(", ");
    let mut theirs = reasons.into_iter();
    let rejected = match if has_record { theirs.next() } else { None } {
        Some(own) if code(&own) == CONDITION => return WriteResult::Rejected(own.item),
        Some(own) if is_invalid(&own) => Some(invalid(None, &own)),
        // The record's condition was not evaluated, so the other reasons prove nothing.
        Some(own) if code(&own) != NONE => None,
        Some(_) | None => items_error(theirs.enumerate()),
    };
    let Some(rejected) = rejected else {
        let message = format!("DynamoDB canceled the transaction: {codes}");
        return WriteResult::Conflict(Error::new(ErrorKind::Unavailable, message));
    };
    WriteResult::ItemsRejected(rejected)
}

/// Returns why the caller's items were rejected, if they were.
fn items_error(theirs: impl Iterator<Item = (usize, CancellationReason)>) -> Option<Error> {
    let mut failed = Vec::new();
    for (index, reason) in theirs {
        if is_invalid(&reason) {
            return Some(invalid(Some(index), &reason));
        }
        if code(&reason) == CONDITION {
            failed.push((index, reason.item));
        }
    }
    let mut failed = failed.into_iter();
    let first = failed.next()?;
    let failed = ConditionFailed { first, further: failed.collect() };
    Some(failed.into())
}

const NONE: &str = "None";

fn code(reason: &CancellationReason) -> &str {
    reason.code.as_deref().unwrap_or(NONE)
}

/// Whether the reason is final: a retry would fail for the same reason.
fn is_invalid(reason: &CancellationReason) -> bool {
    matches!(code(reason), "ValidationError" | "ItemCollectionSizeLimitExceeded")
}

fn invalid(index: Option<usize>, reason: &CancellationReason) -> Error {
    let message = says_of(reason.code.as_deref(), reason.message.as_deref());
    rejected_as_invalid(index, message.as_deref().unwrap_or_else(|| code(reason)))
}

/// The error of a transaction that DynamoDB rejected as invalid. `index` is the item that it names.
fn rejected_as_invalid(index: Option<usize>, says: &str) -> Error {
    let rejected = index.map_or("the transaction".to_owned(), |index| format!("item {index}"));
    Error::invalid_transaction(format!("DynamoDB rejects {rejected}: {says}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of_result(codes: &[&str]) -> String {
        let reasons = codes.iter().map(|code| CancellationReason::builder().code(*code).build());
        match cancellation_result(reasons.collect(), true) {
            WriteResult::Rejected(_) => "record".to_owned(),
            WriteResult::ItemsRejected(error) => match error.condition_failed() {
                Some(failed) => {
                    format!(
                        "condition {:?}",
                        failed.all().map(|(index, _)| index).collect::<Vec<_>>()
                    )
                }
                None => error.to_string(),
            },
            WriteResult::Conflict(_) => "retry".to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_record_decides_before_the_callers_items() {
        let (none, failed) = ("None", "ConditionalCheckFailed");
        let (conflict, invalid) = ("TransactionConflict", "ValidationError");
        for (codes, expected) in [
            (vec![failed, failed], "record"),
            (vec![failed, invalid], "record"),
            (vec![conflict, failed], "retry"),
            (vec!["ThrottlingError", failed], "retry"),
            (vec![invalid, failed], "DynamoDB rejects the transaction: ValidationError"),
            (vec![none, failed, none, failed], "condition [0, 2]"),
            (vec![none, conflict, failed], "condition [1]"),
            (vec![none, failed, invalid], "DynamoDB rejects item 1: ValidationError"),
            (
                vec![none, "ItemCollectionSizeLimitExceeded"],
                "DynamoDB rejects item 0: ItemCollectionSizeLimitExceeded",
            ),
            (vec![none, conflict], "retry"),
            (vec![none, "ProvisionedThroughputExceeded"], "retry"),
            (vec![none, "SomethingNew"], "retry"),
            (vec![none, none], "retry"),
            (vec![], "retry"),
        ] {
            assert_eq!(name_of_result(&codes), expected, "{codes:?}");
        }
    }
}
