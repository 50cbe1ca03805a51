//! The result of a transaction, and why DynamoDB canceled it. The first reason is the record's, and
//! is evaluated first.

use std::convert::Infallible;

use aws_sdk_dynamodb::types::CancellationReason;

use super::WriteResult;
use crate::error::{ConditionFailed, Error, ErrorKind, Failed, InvalidTransaction};

/// Why the caller's items do not allow a transaction.
#[derive(Debug)]
pub(crate) enum ItemsRefusal {
    ConditionFailed(ConditionFailed),
    Invalid(InvalidTransaction),
}

impl From<Infallible> for ItemsRefusal {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

const CONDITION: &str = "ConditionalCheckFailed";

pub(super) fn judge(reasons: Vec<CancellationReason>) -> WriteResult<ItemsRefusal> {
    let codes: Vec<String> = reasons.iter().map(|reason| code(reason).to_owned()).collect();
    let mut reasons = reasons.into_iter();
    let (own, theirs) = (reasons.next(), reasons.enumerate());
    let retry = || {
        let message = format!("DynamoDB canceled the transaction: {}", codes.join(", "));
        WriteResult::Conflict(Error::new(ErrorKind::Unavailable, message))
    };
    match own {
        Some(own) if code(&own) == CONDITION => {
            return WriteResult::Rejected(own.item);
        }
        Some(own) if is_invalid(&own) => return WriteResult::ItemsRejected(invalid(None, own)),
        // The record's condition was not evaluated, so the other reasons prove nothing.
        Some(own) if code(&own) != NONE => return retry(),
        None => return retry(),
        Some(_) => {}
    }
    refused(theirs).map_or_else(retry, WriteResult::ItemsRejected)
}

/// Returns why the caller's items were rejected, if they were.
fn refused(theirs: impl Iterator<Item = (usize, CancellationReason)>) -> Option<ItemsRefusal> {
    let mut failed = Vec::new();
    for (index, reason) in theirs {
        if is_invalid(&reason) {
            return Some(invalid(Some(index), reason));
        }
        if code(&reason) == CONDITION {
            failed.push(Failed { index, item: reason.item });
        }
    }
    let mut failed = failed.into_iter();
    let first = failed.next()?;
    let failed = ConditionFailed { first, further: failed.collect() };
    Some(ItemsRefusal::ConditionFailed(failed))
}

const NONE: &str = "None";

fn code(reason: &CancellationReason) -> &str {
    reason.code.as_deref().unwrap_or(NONE)
}

/// A retry would fail again.
fn is_invalid(reason: &CancellationReason) -> bool {
    matches!(code(reason), "ValidationError" | "ItemCollectionSizeLimitExceeded")
}

fn invalid(index: Option<usize>, reason: CancellationReason) -> ItemsRefusal {
    let message = reason.message.or(reason.code).unwrap_or_default();
    ItemsRefusal::Invalid(InvalidTransaction::Refused { index, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(codes: &[&str]) -> String {
        let reasons = codes.iter().map(|code| CancellationReason::builder().code(*code).build());
        match judge(reasons.collect()) {
            WriteResult::Rejected(_) => "record".to_owned(),
            WriteResult::ItemsRejected(ItemsRefusal::ConditionFailed(failed)) => {
                format!("condition {:?}", failed.all().map(|(index, _)| index).collect::<Vec<_>>())
            }
            WriteResult::ItemsRejected(ItemsRefusal::Invalid(InvalidTransaction::Refused {
                index,
                ..
            })) => {
                format!("invalid {index:?}")
            }
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
            (vec![invalid, failed], "invalid None"),
            (vec![none, failed, none, failed], "condition [0, 2]"),
            (vec![none, conflict, failed], "condition [1]"),
            (vec![none, failed, invalid], "invalid Some(1)"),
            (vec![none, "ItemCollectionSizeLimitExceeded"], "invalid Some(0)"),
            (vec![none, conflict], "retry"),
            (vec![none, "ProvisionedThroughputExceeded"], "retry"),
            (vec![none, "SomethingNew"], "retry"),
            (vec![none, none], "retry"),
            (vec![], "retry"),
        ] {
            assert_eq!(judged(&codes), expected, "{codes:?}");
        }
    }
}
