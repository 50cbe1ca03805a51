//! The result of a transaction, and why DynamoDB canceled it. The first reason is the record's, if the
//! transaction has one, and is evaluated first.

use aws_sdk_dynamodb::types::CancellationReason;

use super::WriteResult;
use crate::error::{ConditionFailed, Error, ErrorKind};

const CONDITION: &str = "ConditionalCheckFailed";

pub(super) fn cancellation_result(
    reasons: Vec<CancellationReason>,
    has_record: bool,
) -> WriteResult<Error> {
    let codes = reasons.iter().map(code).collect::<Vec<_>>().join(", ");
    let mut theirs = reasons.into_iter();
    let rejected = match if has_record { theirs.next() } else { None } {
        Some(own) if code(&own) == CONDITION => return WriteResult::Rejected(own.item),
        Some(own) if is_invalid(&own) => Some(invalid(None, own)),
        // The record's condition was not evaluated, so the other reasons prove nothing.
        Some(own) if code(&own) != NONE => None,
        Some(_) | None => items_error(theirs.enumerate()),
    };
    rejected.map_or_else(
        || {
            let message = format!("DynamoDB canceled the transaction: {codes}");
            WriteResult::Conflict(Error::new(ErrorKind::Unavailable, message))
        },
        WriteResult::ItemsRejected,
    )
}

/// Returns why the caller's items were rejected, if they were.
fn items_error(theirs: impl Iterator<Item = (usize, CancellationReason)>) -> Option<Error> {
    let mut failed = Vec::new();
    for (index, reason) in theirs {
        if is_invalid(&reason) {
            return Some(invalid(Some(index), reason));
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

/// A retry would fail again.
fn is_invalid(reason: &CancellationReason) -> bool {
    matches!(code(reason), "ValidationError" | "ItemCollectionSizeLimitExceeded")
}

fn invalid(index: Option<usize>, reason: CancellationReason) -> Error {
    let message = reason.message.or(reason.code).unwrap_or_default();
    rejected_as_invalid(index, &message)
}

/// DynamoDB rejected the transaction as invalid, because of the item with this index if it named one.
pub(super) fn rejected_as_invalid(index: Option<usize>, message: &str) -> Error {
    let rejected = index.map_or("the transaction".to_owned(), |index| format!("item {index}"));
    Error::invalid_transaction(format!("DynamoDB rejects {rejected}: {message}"))
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
