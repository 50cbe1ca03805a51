//! Proves that the search finds each broken rule of the protocol.

use std::time::Duration;

use dynamodb_idempotency_protocol::fault_point::FaultPoint;
#[allow(clippy::enum_glob_use, reason = "the table names nearly all of them")]
use dynamodb_idempotency_protocol::fault_point::FaultPoint::*;

use crate::explore::search;
use crate::rows;

/// Rules that are broken together, the row whose search must find that, and its callers and faults.
pub(crate) struct Broken {
    points: &'static [FaultPoint],
    row: &'static str,
    bound: (usize, u8),
}

const fn broken(points: &'static [FaultPoint], row: &'static str, bound: (usize, u8)) -> Broken {
    Broken { points, row, bound }
}

pub(crate) const ALL: &[Broken] = &[
    broken(&[CreateUnfenced], "default", (2, 1)),
    broken(&[CompleteUnfenced], "default", (2, 1)),
    broken(&[ReleaseUnfenced], "default", (2, 1)),
    broken(&[ReleaseAnyStatus], "commit", (2, 1)),
    broken(&[TakeReleasedUnfenced], "default", (2, 1)),
    broken(&[ReleasedRefuses], "default", (2, 1)),
    broken(&[KeepFailureUnfenced], "retain", (2, 1)),
    broken(&[RenewUnfenced], "renewed", (2, 1)),
    broken(&[TakeOverUnfenced], "default", (3, 1)),
    broken(&[CompareOwnerAlone], "default", (2, 1)),
    broken(&[TakersClock], "fast-taker", (2, 1)),
    broken(&[JudgeByEstimate], "clocks", (2, 2)),
    broken(&[JudgeByEstimate], "clocks-retention-transaction", (2, 2)),
    broken(&[StampUnlearned], "fast-clock", (2, 1)),
    broken(&[StampUnlearned, RetentionUnverified], "slow-clock-transaction", (2, 1)),
    broken(&[StampUnlearned, OwnersClock], "slow-clock", (2, 1)),
    broken(&[ForgetOwnOwner], "default", (2, 1)),
    broken(&[ExpireBeforeLease], "short-retention", (2, 1)),
    broken(&[RenewalMayShorten], "renewed", (2, 1)),
    broken(&[StampUnlearned, RestampMayShorten], "slow-clock", (2, 1)),
    broken(&[AttemptStays], "default", (2, 1)),
    broken(&[StepUnfenced], "steps", (2, 1)),
    broken(&[CompareNoSteps], "steps", (2, 1)),
    broken(&[CompareNoRetention], "late-past-retention", (2, 2)),
    broken(&[StepUnfenced], "step-items", (2, 1)),
    broken(&[CompareNoSteps], "step-items", (2, 1)),
    broken(&[NoteBeforeItem], "step-items", (2, 1)),
    broken(&[SendBeforeNote], "send-once", (2, 1)),
    broken(&[StepUnfenced], "send-once", (2, 1)),
    broken(&[ReleaseSucceededUnfenced], "release", (2, 1)),
    broken(&[TransactUnfenced], "commit", (2, 1)),
    broken(&[TransactUnfenced], "transaction", (2, 1)),
    broken(&[CommitAnyStatus], "commit", (2, 1)),
    broken(&[DoubtLeftOpen], "commit", (2, 1)),
    broken(&[RefusedInDoubt], "commit", (2, 2)),
    broken(&[SettleUnfenced], "reconcile", (2, 1)),
    broken(&[HookCommitUnfenced], "reconcile", (2, 1)),
    broken(&[ForgetHookCommit], "operator-reconcile", (2, 2)),
    broken(&[TrustStaleReads], "read-first-stale", (2, 1)),
    broken(&[ForgetStaleReads], "open-read-first-stale", (2, 2)),
    broken(&[ForgetUndatedRecords], "slow-clock-commit", (2, 2)),
    broken(&[PollAfterTheLease], "default", (2, 1)),
    broken(&[TrustTheWallClock], "clocks", (2, 1)),
    broken(&[TrustTheMonotonicClock], "clocks", (2, 1)),
    broken(&[RunBeforeSettled], "half-used", (2, 2)),
    broken(&[ForgetDoubt], "transaction", (2, 1)),
    broken(&[DoubtLeftOpen], "transaction", (2, 1)),
    broken(&[TransactAgain], "operator-transaction", (2, 2)),
    broken(&[CommitAgain], "operator-commit-open", (2, 3)),
    broken(&[AnswerInDoubt], "operator-transaction", (2, 3)),
    broken(&[UnknownIsRefused], "default", (2, 1)),
    broken(&[TrustAbsence], "operator-commit", (2, 2)),
    broken(&[TrustAbsence], "operator-transaction", (2, 3)),
    broken(&[TrustAnyOwner], "operator-commit", (2, 2)),
];

/// Those that are found only after millions of states.
pub(crate) const DEEP: &[Broken] = &[broken(&[RenewAnyEnd], "clocks-commit-renewed", (1, 3))];

/// Searches for each of these. Returns whether all were found.
pub(crate) fn are_found(rules: &[Broken]) -> bool {
    let mut survivors = 0;
    for Broken { points, row, bound: (callers, faults) } in rules {
        let Some(row) = rows::named(row) else { return false };
        let row = row.with(*callers, *faults);
        let found = search(&row, Duration::from_secs(600), points);
        let name = format!("{points:?}");
        if let Some(violation) = found.violation {
            let steps = violation.steps.len();
            println!("{name} in {}: {}, {steps} steps", row.name, violation.what);
            println!("    {}", violation.schedule());
        } else {
            survivors += 1;
            println!("{name} in {}: SURVIVES {} states", row.name, found.states);
        }
    }
    println!("{} of {} broken rules found", rules.len() - survivors, rules.len());
    survivors == 0
}
