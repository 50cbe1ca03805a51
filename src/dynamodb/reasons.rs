//! The result of a transaction, and why DynamoDB canceled it. The first reason is the record's, and
//! is evaluated first.

use aws_sdk_dynamodb::types::CancellationReason;

use crate::error::{ConditionFailed, Error, ErrorKind, Failed, InvalidTransaction};
use crate::record::Item;

/// The result of a transaction.
#[derive(Debug)]
#[must_use]
pub(crate) enum Transacted {
    /// All of it was applied.
    Applied,
    /// The condition of the record failed; contains the record, if it exists. Nothing was written.
    Refused(Option<Item>),
    /// The caller's items do not allow the transaction. Nothing was written.
    ItemsRefused(ItemsRefusal),
    /// Another transaction conflicted, or DynamoDB throttled. The same request may succeed later.
    Conflict(Error),
    /// The token was used with other contents, so this transaction was not executed.
    TokenUsed(Error),
    /// The transaction was not executed.
    NotApplied(Error),
    /// The outcome is unknown.
    Unknown(Error),
}

impl Transacted {
    /// The result for signals.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Applied => "ok",
            Self::Refused(_) | Self::ItemsRefused(_) | Self::Conflict(_) => "refused",
            Self::TokenUsed(_) | Self::NotApplied(_) => "error",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// Why the caller's items do not allow a transaction.
#[derive(Debug)]
pub(crate) enum ItemsRefusal {
    ConditionFailed(ConditionFailed),
    Invalid(InvalidTransaction),
}

const CONDITION: &str = "ConditionalCheckFailed";

pub(super) fn judge(reasons: Vec<CancellationReason>) -> Transacted {
    let codes: Vec<String> = reasons.iter().map(|reason| code(reason).to_owned()).collect();
    let mut reasons = reasons.into_iter();
    let (own, theirs) = (reasons.next(), reasons.enumerate());
    let retry = || {
        let message = format!("DynamoDB canceled the transaction: {}", codes.join(", "));
        Transacted::Conflict(Error::new(ErrorKind::Unavailable, message))
    };
    match own {
        Some(own) if code(&own) == CONDITION => {
            return Transacted::Refused(own.item);
        }
        Some(own) if is_invalid(&own) => return Transacted::ItemsRefused(invalid(None, own)),
        // The record's condition was not evaluated, so the other reasons prove nothing.
        Some(own) if code(&own) != NONE => return retry(),
        None => return retry(),
        Some(_) => {}
    }
    refused(theirs).map_or_else(retry, Transacted::ItemsRefused)
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
            Transacted::Refused(_) => "record".to_owned(),
            Transacted::ItemsRefused(ItemsRefusal::ConditionFailed(failed)) => {
                format!("condition {:?}", failed.all().map(|(index, _)| index).collect::<Vec<_>>())
            }
            Transacted::ItemsRefused(ItemsRefusal::Invalid(InvalidTransaction::Refused {
                index,
                ..
            })) => {
                format!("invalid {index:?}")
            }
            Transacted::Conflict(_) => "retry".to_owned(),
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
