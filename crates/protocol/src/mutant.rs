//! Switches that break one rule of the protocol each, so that the searches for faults can prove that
//! they would notice.
//!
//! Without the feature `fault-injection` each is a constant that the compiler removes. Not part of the
//! public interface: no promise of stability.

#[cfg(feature = "fault-injection")]
use std::cell::Cell;

/// One rule of the protocol, broken. See `docs/reliability.md` for what each leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    CreateUnfenced,
    CompleteUnfenced,
    ReleaseUnfenced,
    ReleaseAnyStatus,
    TakeReleasedUnfenced,
    ReleasedRefuses,
    ReleaseDeletes,
    AttemptMayFall,
    RenewalUnverified,
    RetentionUnverified,
    StampUnlearned,
    KeepFailureUnfenced,
    RenewUnfenced,
    TakeOverUnfenced,
    CompareOwnerAlone,
    TakersClock,
    OwnersClock,
    ForgetOwnOwner,
    ExpireBeforeLease,
    RenewalMayShorten,
    RestampMayShorten,
    ReleaseAfterUnconfirmed,
    UnknownIsRefused,
    AttemptStays,
    StepUnfenced,
    CompareNoSteps,
    TransactUnfenced,
    CommitAnyStatus,
    DoubtLeftOpen,
    SettleUnfenced,
    CompleteBeforeParts,
    LoseUnwrittenAnswers,
    TrustStaleReads,
    ForgetStaleReads,
    CacheAnyFingerprint,
    CachePastRetention,
    PollAfterTheLease,
    TrustTheWallClock,
    TrustTheMonotonicClock,
    ForgetWhatWasTaken,
    RunBeforeSettled,
    ForgetDoubt,
    RefusedInDoubt,
}

#[cfg(not(feature = "fault-injection"))]
pub const fn mutant(_: Mutant) -> bool {
    false
}

#[cfg(feature = "fault-injection")]
thread_local! {
    static MUTANTS: Cell<&'static [Mutant]> = const { Cell::new(&[]) };
}

/// Breaks these rules on this thread, and no others.
#[cfg(feature = "fault-injection")]
pub fn set_mutants(mutants: &'static [Mutant]) {
    MUTANTS.set(mutants);
}

#[cfg(feature = "fault-injection")]
pub fn mutant(mutant: Mutant) -> bool {
    MUTANTS.get().contains(&mutant)
}
