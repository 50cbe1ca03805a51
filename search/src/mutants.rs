//! Proof that the search can fail: each rule of the protocol that is broken is found.

use std::time::Duration;

use crate::explore::search;
use crate::rows;
use dynamodb_idempotency_protocol::mutant::Mutant;

/// What is broken, in which rows it is looked for, and with how many callers and faults.
struct Broken {
    mutants: &'static [Mutant],
    row: &'static str,
    bound: (usize, u8),
}

const fn broken(mutants: &'static [Mutant], row: &'static str, bound: (usize, u8)) -> Broken {
    Broken { mutants, row, bound }
}

/// Rules that the driver keeps, or what stands around the machines.
pub(crate) const NOT_THE_MACHINES: &[Mutant] = &[
    Mutant::ReleaseAfterUnconfirmed,
    Mutant::CompleteBeforeParts,
    Mutant::LoseUnwrittenAnswers,
    Mutant::CacheAnyFingerprint,
    Mutant::CachePastRetention,
];

/// The machines', and no oracle here sees them: what counts against `max_attempts`, the attempt of a record
/// after its last execution, TTL within a call, and a key that a renewal has locked. The search through
/// schedules (`tests/faults/mutants.rs`) finds each.
const NOT_SEEN: &[Mutant] = &[
    Mutant::ForgetWhatWasTaken,
    Mutant::AttemptMayFall,
    Mutant::ReleaseDeletes,
    Mutant::RenewalUnverified,
];

const ALL: &[Broken] = &[
    broken(&[Mutant::CreateUnfenced], "default", (2, 1)),
    broken(&[Mutant::CompleteUnfenced], "default", (2, 1)),
    broken(&[Mutant::ReleaseUnfenced], "default", (2, 1)),
    broken(&[Mutant::ReleaseAnyStatus], "commit", (2, 1)),
    broken(&[Mutant::TakeReleasedUnfenced], "default", (2, 1)),
    broken(&[Mutant::ReleasedRefuses], "default", (2, 1)),
    broken(&[Mutant::KeepFailureUnfenced], "retain", (2, 1)),
    broken(&[Mutant::RenewUnfenced], "renewed", (2, 1)),
    broken(&[Mutant::TakeOverUnfenced], "default", (3, 1)),
    broken(&[Mutant::CompareOwnerAlone], "default", (2, 1)),
    broken(&[Mutant::TakersClock], "fast-taker", (2, 1)),
    broken(&[Mutant::StampUnlearned], "fast-clock", (2, 1)),
    broken(
        &[Mutant::StampUnlearned, Mutant::RetentionUnverified],
        "slow-clock-transaction",
        (2, 1),
    ),
    broken(&[Mutant::StampUnlearned, Mutant::OwnersClock], "slow-clock", (2, 1)),
    broken(&[Mutant::ForgetOwnOwner], "default", (2, 1)),
    broken(&[Mutant::ExpireBeforeLease], "short-retention", (2, 1)),
    broken(&[Mutant::RenewalMayShorten], "renewed", (2, 1)),
    broken(&[Mutant::StampUnlearned, Mutant::RestampMayShorten], "slow-clock", (2, 1)),
    broken(&[Mutant::AttemptStays], "default", (2, 1)),
    broken(&[Mutant::StepUnfenced], "steps", (2, 1)),
    broken(&[Mutant::CompareNoSteps], "steps", (2, 1)),
    broken(&[Mutant::TransactUnfenced], "commit", (2, 1)),
    broken(&[Mutant::TransactUnfenced], "transaction", (2, 1)),
    broken(&[Mutant::CommitAnyStatus], "commit", (2, 1)),
    broken(&[Mutant::DoubtLeftOpen], "commit", (2, 1)),
    broken(&[Mutant::RefusedInDoubt], "commit", (2, 2)),
    broken(&[Mutant::SettleUnfenced], "reconcile", (2, 1)),
    broken(&[Mutant::TrustStaleReads], "read-first-stale", (2, 1)),
    broken(&[Mutant::ForgetStaleReads], "open-read-first-stale", (2, 2)),
    broken(&[Mutant::PollAfterTheLease], "default", (2, 1)),
    broken(&[Mutant::TrustTheWallClock], "clocks", (2, 1)),
    broken(&[Mutant::TrustTheMonotonicClock], "clocks", (2, 1)),
    broken(&[Mutant::RunBeforeSettled], "half-used", (2, 2)),
    broken(&[Mutant::ForgetDoubt], "transaction", (2, 1)),
    broken(&[Mutant::DoubtLeftOpen], "transaction", (2, 1)),
    broken(&[Mutant::UnknownIsRefused], "default", (2, 1)),
];

/// Looks for each; whether all were found.
pub(crate) fn all_are_found() -> bool {
    let mut survivors = 0;
    for Broken { mutants, row, bound: (callers, faults) } in ALL {
        let Some(row) = rows::named(row) else { return false };
        let row = row.with(*callers, *faults);
        let found = search(&row, Duration::from_secs(120), mutants);
        let name = format!("{mutants:?}");
        if let Some(violation) = found.violation {
            let steps = violation.steps.len();
            println!("{name} in {}: {}, {steps} steps", row.name, violation.what);
            println!("    {}", violation.schedule());
        } else {
            survivors += 1;
            println!("{name} in {}: SURVIVES {} states", row.name, found.states);
        }
    }
    println!("Not the machines' (the driver's, or what stands around it): {NOT_THE_MACHINES:?}");
    println!("Not seen by any oracle here: {NOT_SEEN:?}");
    println!("{} of {} broken rules found", ALL.len() - survivors, ALL.len());
    survivors == 0
}
