//! Rules that the project's own tests break, to prove that they find it. `tests/search` breaks those of the
//! machines, and `tests/faults` those of the library.
//!
//! Without the feature `internals`, no rule can be broken, and the compiler removes the checks.

/// A rule that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultPoint {
    // Writes that lack a part of their condition.
    CreateUnfenced,
    CompleteUnfenced,
    ReleaseUnfenced,
    ReleaseAnyStatus,
    ReleaseSucceededUnfenced,
    TakeReleasedUnfenced,
    KeepFailureUnfenced,
    RenewUnfenced,
    /// A renewal does not require the end of the lease that it replaces.
    RenewAnyEnd,
    RenewalMayShorten,
    RestampMayShorten,
    TakeOverUnfenced,
    TransactUnfenced,
    CommitAnyStatus,
    SettleUnfenced,
    HookCommitUnfenced,
    StepUnfenced,
    /// A step is noted in its record before its item is confirmed.
    NoteBeforeItem,
    /// A version is compared by its owner alone.
    CompareOwnerAlone,
    /// A version is compared without the number of its steps.
    CompareNoSteps,
    /// A finished record is replaced although its retention was extended meanwhile.
    CompareNoRetention,
    /// A completion does not accept a RELEASED record.
    ReleasedRefuses,

    // Clocks.
    /// A call judges another owner's lease by its own wall clock.
    TakersClock,
    /// A call judges a record by the estimate of store time if the response has no `Date`.
    JudgeByEstimate,
    /// An owner relies on its lease for its whole length, whatever the response shows.
    OwnersClock,
    /// A process stamps a record before a response has shown it store time.
    StampUnlearned,
    RetentionUnverified,
    ExpireBeforeLease,
    TrustTheWallClock,
    TrustTheMonotonicClock,
    /// A handler is polled after its lease has expired.
    PollAfterTheLease,

    // What a call concludes.
    /// A call does not recognize its own record.
    ForgetOwnOwner,
    AttemptStays,
    TrustStaleReads,
    ForgetStaleReads,
    ForgetUndatedRecords,
    RunBeforeSettled,
    /// A write without a response counts as not applied.
    ForgetDoubt,
    /// A commit or transaction in doubt is reported as not applied.
    DoubtLeftOpen,
    /// A transaction in doubt is followed by another one.
    TransactAgain,
    /// A commit in doubt is sent again over a record that was released after a later attempt.
    CommitAgain,
    /// An answer without the items is stored, although an earlier try with them is in doubt.
    AnswerInDoubt,
    /// A hook's commit without a response counts as not applied.
    ForgetHookCommit,
    /// An absent record counts as proof that a commit or transaction in doubt was not applied.
    TrustAbsence,
    /// So does the record of any other owner.
    TrustAnyOwner,
    /// A commit whose items are rejected is reported as not applied, although an earlier try is in doubt.
    RefusedInDoubt,
    /// A write without a response counts as rejected.
    UnknownIsRefused,

    // Outside the machines.
    /// A request that is sent at most once is sent before its note is confirmed.
    SendBeforeNote,
    /// The local cache returns answers past their retention.
    CachePastRetention,
    /// The local cache returns answers to requests with other payloads.
    CacheAnyFingerprint,
    /// A record is completed before the parts of its answer are written.
    CompleteBeforeParts,
    /// A key whose completion is unconfirmed is released.
    ReleaseAfterUnconfirmed,
    /// An answer whose parts were not written is lost, although it fits into the record.
    LoseUnwrittenAnswers,
}

#[cfg(feature = "internals")]
thread_local! {
    static BROKEN: std::cell::Cell<&'static [FaultPoint]> = const { std::cell::Cell::new(&[]) };
}

/// Breaks these rules on this thread, and no others.
#[cfg(feature = "internals")]
pub fn set_broken(points: &'static [FaultPoint]) {
    BROKEN.set(points);
}

/// Whether this rule is broken on this thread.
#[cfg(feature = "internals")]
pub fn is_broken(point: FaultPoint) -> bool {
    BROKEN.get().contains(&point)
}

/// Whether this rule is broken: never, without the feature `internals`.
#[cfg(not(feature = "internals"))]
pub const fn is_broken(_: FaultPoint) -> bool {
    false
}
