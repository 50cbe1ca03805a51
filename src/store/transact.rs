//! Writes the record together with the caller's items, in one transaction.

use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::{
    TransactWriteItemsError, TransactWriteItemsOutput,
};
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConsumedCapacity, Put, ReturnValuesOnConditionCheckFailure,
    TransactWriteItem,
};

use super::cancellation::{cancellation_result, rejected_as_invalid};
use super::expression::Expression;
use super::observer::Observed;
use super::request_error::{self, RequestError};
use super::{Metered, Reply, Table, WriteResult, consumed, result_name};
use crate::error::{Error, ErrorKind};
use crate::fingerprint::StoredFingerprint;
use crate::protocol::Write;
use crate::signals::Stopwatch;
use crate::store::key::RecordKey;
use crate::store::record::{self, Item};

impl Metered for TransactWriteItemsOutput {
    const ACTION: &'static str = "TransactWriteItems";

    fn units(&self) -> Option<f64> {
        let tables = self.consumed_capacity.as_ref()?;
        Some(tables.iter().filter_map(ConsumedCapacity::capacity_units).sum())
    }
}

/// The reply to a transaction.
pub(crate) type TransactionReply = Reply<WriteResult<Error>>;

impl Table {
    /// Writes the record on its condition together with `items`, or nothing.
    pub(crate) async fn transact(
        &self,
        of: (&RecordKey, &StoredFingerprint),
        write: &Write,
        response: Option<AttributeValue>,
        (items, token): (&[TransactWriteItem], &str),
        limit: Duration,
    ) -> TransactionReply {
        let record = record::item(&self.schema, of, &write.record, response);
        let record = match self.conditional(record, Expression::of(&self.schema, &write.condition))
        {
            Ok(record) => Some(record),
            Err(error) => {
                return Reply::new(WriteResult::NotApplied(error), None);
            }
        };
        self.transact_items(record, (items, token), limit).await
    }

    /// Writes `items`, with the record if there is one.
    pub(crate) async fn transact_items(
        &self,
        record: Option<TransactWriteItem>,
        (items, token): (&[TransactWriteItem], &str),
        limit: Duration,
    ) -> TransactionReply {
        let has_record = record.is_some();
        let all: Vec<_> = record.into_iter().chain(items.iter().cloned()).collect();
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
            None => (WriteResult::Unknown(request_error::timed_out(limit)), true),
            Some(Ok(_)) => (WriteResult::Applied, false),
            Some(Err(error)) => self.transaction_result(error, &seen, items, has_record),
        };
        let name = match &outcome {
            WriteResult::Conflict(_) => "refused",
            outcome => result_name(outcome),
        };
        stopwatch.store(TransactWriteItemsOutput::ACTION, name, units);
        Reply { outcome, is_in_doubt: is_open || seen.in_doubt, time: seen.time }
    }

    fn conditional(
        &self,
        record: Item,
        condition: Expression<'_>,
    ) -> Result<TransactWriteItem, Error> {
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

    /// The tables of a transaction; the record's is first.
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

    /// Classifies an error. Also returns whether a request with the same token was, or is being,
    /// executed.
    fn transaction_result(
        &self,
        error: SdkError<TransactWriteItemsError>,
        seen: &Observed,
        items: &[TransactWriteItem],
        has_record: bool,
    ) -> (WriteResult<Error>, bool) {
        let (code, message, is_client_error) = match &error {
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
            (WriteResult::NotApplied(error), false)
        };
        match code.as_str() {
            "TransactionCanceledException" if is_client_error => {
                let reasons = match error.into_service_error() {
                    TransactWriteItemsError::TransactionCanceledException(canceled) => {
                        canceled.cancellation_reasons
                    }
                    _ => None,
                };
                let mut reasons = reasons.unwrap_or_default();
                if !has_record {
                    // In every other transaction, the record's reason is the first.
                    reasons.insert(0, CancellationReason::builder().build());
                }
                (cancellation_result(reasons), false)
            }
            "IdempotentParameterMismatchException" => {
                let error = unavailable("the transaction's token was used for other items", error);
                (WriteResult::TokenUsed(error), true)
            }
            "TransactionInProgressException" => {
                let message = "an earlier try of the transaction is still in flight";
                (WriteResult::NotApplied(unavailable(message, error)), true)
            }
            "ValidationException" if is_client_error => {
                (WriteResult::ItemsRejected(rejected_as_invalid(None, &message)), false)
            }
            "ResourceNotFoundException" => configuration(self.table_missing(items), error),
            "AccessDeniedException" => configuration(denied(&message), error),
            _ => match self.request_error(error, seen) {
                RequestError::Unknown(error) => (WriteResult::Unknown(error), true),
                RequestError::Invalid(error)
                | RequestError::Conflict(error)
                | RequestError::NotExecuted(error) => (WriteResult::NotApplied(error), false),
            },
        }
    }

    fn table_missing(&self, items: &[TransactWriteItem]) -> String {
        let tables = self.tables_of(items).join("`, `");
        format!(
            "a table of the transaction does not exist; DynamoDB does not say which of `{tables}`: create \
             it, or correct its name in the items"
        )
    }
}

fn denied(message: &str) -> String {
    format!(
        "DynamoDB denies the transaction: each item in it needs its own permission \
         (dynamodb:PutItem, UpdateItem, DeleteItem or ConditionCheckItem). {message}"
    )
}
