//! Why DynamoDB cancelled a transaction. The record's reason is the first, and decides first.

use aws_sdk_dynamodb::types::CancellationReason;

use super::{ConditionFailed, Failed, InvalidTransaction};
use crate::error::{Error, ErrorKind};
use crate::record::Item;

/// What a cancellation asks for.
#[derive(Debug)]
#[must_use]
pub(super) enum Verdict {
    /// The record is another one than its guard asks for; with it, where there is one.
    Record(Option<Item>),
    ConditionFailed(ConditionFailed),
    Invalid(InvalidTransaction),
    /// Another transaction was there, or DynamoDB throttled: the same again may succeed.
    Retry(Error),
}

/// Why the caller's items will never be written as they are.
#[derive(Debug)]
pub(super) enum Refusal {
    ConditionFailed(ConditionFailed),
    Invalid(InvalidTransaction),
}

const CONDITION: &str = "ConditionalCheckFailed";

pub(super) fn judge(reasons: Vec<CancellationReason>) -> Verdict {
    let codes: Vec<String> = reasons.iter().map(|reason| code(reason).to_owned()).collect();
    let mut reasons = reasons.into_iter();
    let (own, theirs) = (reasons.next(), reasons.enumerate());
    let retry = || {
        let message = format!("DynamoDB cancelled the transaction: {}", codes.join(", "));
        Verdict::Retry(Error::new(ErrorKind::Unavailable, message))
    };
    match own {
        Some(own) if code(&own) == CONDITION => return Verdict::Record(own.item),
        Some(own) if is_invalid(&own) => return Verdict::Invalid(invalid(None, own)),
        // The record's part was not judged: nothing can be said of the others either.
        Some(own) if code(&own) != NONE => return retry(),
        None => return retry(),
        Some(_) => {}
    }
    match refused(theirs) {
        Some(Refusal::ConditionFailed(failed)) => Verdict::ConditionFailed(failed),
        Some(Refusal::Invalid(invalid)) => Verdict::Invalid(invalid),
        None => retry(),
    }
}

/// What the items were refused for in a transaction whose record is refused in any case, and was seen
/// to be as expected.
pub(super) fn refusal(
    reasons: Vec<CancellationReason>,
    is_expected: impl Fn(Option<&Item>) -> bool,
) -> Option<Refusal> {
    let mut reasons = reasons.into_iter();
    let own = reasons.next().filter(|own| code(own) == CONDITION)?;
    if is_expected(own.item.as_ref()) { refused(reasons.enumerate()) } else { None }
}

fn refused(theirs: impl Iterator<Item = (usize, CancellationReason)>) -> Option<Refusal> {
    let mut failed = Vec::new();
    for (index, reason) in theirs {
        if is_invalid(&reason) {
            return Some(Refusal::Invalid(invalid(Some(index), reason)));
        }
        if code(&reason) == CONDITION {
            failed.push(Failed { index, item: reason.item });
        }
    }
    let mut failed = failed.into_iter();
    let first = failed.next()?;
    Some(Refusal::ConditionFailed(ConditionFailed { first, further: failed.collect() }))
}

const NONE: &str = "None";

fn code(reason: &CancellationReason) -> &str {
    reason.code.as_deref().unwrap_or(NONE)
}

/// The same again will fail again.
fn is_invalid(reason: &CancellationReason) -> bool {
    matches!(code(reason), "ValidationError" | "ItemCollectionSizeLimitExceeded")
}

fn invalid(index: Option<usize>, reason: CancellationReason) -> InvalidTransaction {
    let message = reason.message.or(reason.code).unwrap_or_default();
    InvalidTransaction::Refused { index, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(codes: &[&str]) -> String {
        let reasons = codes.iter().map(|code| CancellationReason::builder().code(*code).build());
        match judge(reasons.collect()) {
            Verdict::Record(_) => "record".to_owned(),
            Verdict::ConditionFailed(failed) => {
                format!("condition {:?}", failed.all().map(|(index, _)| index).collect::<Vec<_>>())
            }
            Verdict::Invalid(InvalidTransaction::Refused { index, .. }) => {
                format!("invalid {index:?}")
            }
            Verdict::Invalid(other) => panic!("{other}"),
            Verdict::Retry(_) => "retry".to_owned(),
        }
    }

    /// Which of the caller's items a preview is refused for.
    fn previewed(codes: &[&str], is_expected: bool) -> Option<Vec<usize>> {
        let reasons = codes.iter().map(|code| CancellationReason::builder().code(*code).build());
        match refusal(reasons.collect(), |_| is_expected)? {
            Refusal::ConditionFailed(failed) => {
                Some(failed.all().map(|(index, _)| index).collect())
            }
            Refusal::Invalid(_) => Some(Vec::new()),
        }
    }

    #[test]
    fn a_preview_counts_where_its_record_is_the_one_that_was_expected() {
        let (none, failed, conflict) = ("None", "ConditionalCheckFailed", "TransactionConflict");
        assert_eq!(previewed(&[failed, none, failed], true), Some(vec![1]));
        assert_eq!(previewed(&[failed, none, "ValidationError"], true), Some(vec![]));
        assert_eq!(previewed(&[failed, none, conflict], true), None);
        assert_eq!(previewed(&[failed, none, failed], false), None);
        assert_eq!(previewed(&[conflict, failed], true), None);
        assert_eq!(previewed(&[], true), None);
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
