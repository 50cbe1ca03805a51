//! What the project's own search for faults (`tests/faults/`) needs inside the crate: entropy that
//! follows a seed, and switches that break one rule of the protocol each, so that the search can
//! prove that it would notice.
//!
//! Without the feature `fault-injection` both are constants that the compiler removes. Not part of
//! the public interface: no promise of stability.

/// One rule of the protocol, broken. See `docs/reliability.md` for what each leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "fault-injection", allow(missing_docs, reason = "the names say it"))]
#[cfg_attr(not(feature = "fault-injection"), expect(unreachable_pub, reason = "private then"))]
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
    ForgetWhatWasTaken,
    StepUnfenced,
    CompareNoSteps,
    TransactUnfenced,
    CommitAnyStatus,
    DoubtLeftOpen,
    ForgetDoubt,
    SettleUnfenced,
    CompleteBeforeParts,
    LoseUnwrittenAnswers,
    TrustStaleReads,
    ForgetGlimpses,
    CacheAnyFingerprint,
    CachePastRetention,
    ShareAnyFingerprint,
    RefuseUnasked,
    PollAfterTheLease,
    TrustTheWallClock,
    TrustTheMonotonicClock,
}

#[cfg(not(feature = "fault-injection"))]
pub(crate) use self::switched_off::{ClockShift, adaptive_weight, entropy, mutant, part_bytes};
#[cfg(feature = "fault-injection")]
pub(crate) use self::switched_on::{ClockShift, adaptive_weight, entropy, mutant, part_bytes};
#[cfg(feature = "fault-injection")]
pub use self::switched_on::{set_adaptive_weight, set_entropy, set_mutants, set_part_bytes};

#[cfg(not(feature = "fault-injection"))]
mod switched_off {
    use super::Mutant;

    /// None: the monotonic clock is the machine's.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct ClockShift(());

    impl ClockShift {
        #[expect(clippy::unused_self, reason = "the other one has a shift")]
        pub(crate) const fn millis(self) -> i64 {
            0
        }
    }

    pub(crate) const fn mutant(_: Mutant) -> bool {
        false
    }

    pub(crate) const fn entropy(_: &mut [u8]) -> bool {
        false
    }

    pub(crate) const fn part_bytes() -> Option<usize> {
        None
    }

    pub(crate) const fn adaptive_weight() -> Option<u32> {
        None
    }
}

#[cfg(feature = "fault-injection")]
mod switched_on {
    use std::cell::{Cell, RefCell};
    use std::fmt;
    use std::sync::Arc;

    use super::Mutant;
    use crate::idempotency::Builder;

    type Shift = dyn Fn() -> i64 + Send + Sync;

    /// How far the monotonic clock is ahead of the machine's, in ms: behind, after a freeze.
    #[derive(Clone, Default)]
    pub(crate) struct ClockShift(Option<Arc<Shift>>);

    impl ClockShift {
        pub(crate) fn new(shift: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
            Self(Some(Arc::new(shift)))
        }

        pub(crate) fn millis(&self) -> i64 {
            self.0.as_ref().map_or(0, |shift| shift())
        }
    }

    impl fmt::Debug for ClockShift {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("ClockShift").finish_non_exhaustive()
        }
    }

    impl Builder {
        /// Lets a test move the monotonic clock: so many ms ahead of the machine's, or behind it.
        #[doc(hidden)]
        pub fn shift_monotonic_clock(
            mut self,
            shift: impl Fn() -> i64 + Send + Sync + 'static,
        ) -> Self {
            self.clock_shift = ClockShift::new(shift);
            self
        }
    }

    type Entropy = Box<dyn FnMut(&mut [u8])>;

    // One simulation a thread.
    thread_local! {
        static MUTANTS: Cell<&'static [Mutant]> = const { Cell::new(&[]) };
        static PART_BYTES: Cell<Option<usize>> = const { Cell::new(None) };
        static ADAPTIVE_WEIGHT: Cell<Option<u32>> = const { Cell::new(None) };
        static ENTROPY: RefCell<Option<Entropy>> = const { RefCell::new(None) };
    }

    /// Breaks these rules on this thread, and no others.
    pub fn set_mutants(mutants: &'static [Mutant]) {
        MUTANTS.set(mutants);
    }

    /// Draws random bytes from `source` on this thread.
    pub fn set_entropy(source: impl FnMut(&mut [u8]) + 'static) {
        ENTROPY.set(Some(Box::new(source)));
    }

    /// Splits answers on this thread into parts of so many bytes.
    pub fn set_part_bytes(bytes: usize) {
        PART_BYTES.set(Some(bytes));
    }

    pub(crate) fn part_bytes() -> Option<usize> {
        PART_BYTES.get()
    }

    /// On this thread, an adaptive call goes by so many of the last ones, about.
    pub fn set_adaptive_weight(weight: u32) {
        ADAPTIVE_WEIGHT.set(Some(weight));
    }

    pub(crate) fn adaptive_weight() -> Option<u32> {
        ADAPTIVE_WEIGHT.get()
    }

    pub(crate) fn mutant(mutant: Mutant) -> bool {
        MUTANTS.get().contains(&mutant)
    }

    /// Fills `bytes` from the thread's source; `false` if it has none.
    pub(crate) fn entropy(bytes: &mut [u8]) -> bool {
        ENTROPY.with_borrow_mut(|source| source.as_mut().map(|source| source(bytes)).is_some())
    }
}
