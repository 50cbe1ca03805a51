//! What the project's own search for faults (`tests/faults/`) needs inside the crate: entropy that
//! follows a seed, a clock that it sets, and points where it breaks what surrounds the machines.
//!
//! Without the feature `fault-injection` all are constants that the compiler removes. Not part of
//! the public interface: no promise of stability.

#[cfg(not(feature = "fault-injection"))]
pub(crate) use self::switched_off::{ClockShift, entropy, is_broken, part_bytes};
#[cfg(feature = "fault-injection")]
pub(crate) use self::switched_on::{ClockShift, entropy, is_broken, part_bytes};
#[cfg(feature = "fault-injection")]
pub use self::switched_on::{set_entropy, set_fault_points, set_part_bytes};

/// What can be broken outside the machines. The search of every state breaks the rules of the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(feature = "fault-injection"), expect(unreachable_pub, reason = "private then"))]
pub enum FaultPoint {
    /// The local cache returns answers past their retention.
    CachePastRetention,
    /// The local cache returns answers to requests with other payloads.
    CacheAnyFingerprint,
    /// A record is completed before the parts of its answer are written.
    CompleteBeforeParts,
    /// A handler is polled after its lease has expired.
    PollAfterTheLease,
    /// A key whose completion is unconfirmed is released.
    ReleaseAfterUnconfirmed,
    /// An answer whose parts were not written is lost, although it fits into the record.
    LoseUnwrittenAnswers,
}

#[cfg(not(feature = "fault-injection"))]
mod switched_off {
    /// None: the monotonic clock is the machine's.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct ClockShift(());

    impl ClockShift {
        #[expect(clippy::unused_self, reason = "the other one has a shift")]
        pub(crate) const fn millis(self) -> i64 {
            0
        }

        #[expect(clippy::unused_self, reason = "as above")]
        pub(crate) const fn knows_time(self) -> bool {
            false
        }
    }

    pub(crate) const fn entropy(_: &mut [u8]) -> bool {
        false
    }

    pub(crate) const fn part_bytes() -> Option<usize> {
        None
    }

    pub(crate) const fn is_broken(_: super::FaultPoint) -> bool {
        false
    }
}

#[cfg(feature = "fault-injection")]
mod switched_on {
    use std::cell::{Cell, RefCell};
    use std::fmt;
    use std::sync::Arc;

    use super::FaultPoint;

    type Shift = dyn Fn() -> i64 + Send + Sync;

    /// How far the monotonic clock is ahead of the machine's, in ms. Negative after a freeze.
    #[derive(Clone, Default)]
    pub(crate) struct ClockShift {
        shift: Option<Arc<Shift>>,
        /// Whether the process begins as if a response had shown DynamoDB's time, equal to its own.
        pub(crate) knows_time: bool,
    }

    impl ClockShift {
        #[cfg(test)]
        pub(crate) fn new(shift: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
            Self { shift: Some(Arc::new(shift)), knows_time: false }
        }

        pub(crate) fn millis(&self) -> i64 {
            self.shift.as_ref().map_or(0, |shift| shift())
        }

        pub(crate) fn set(&mut self, shift: impl Fn() -> i64 + Send + Sync + 'static) {
            self.shift = Some(Arc::new(shift));
        }

        pub(crate) const fn knows_time(&self) -> bool {
            self.knows_time
        }
    }

    impl fmt::Debug for ClockShift {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("ClockShift").finish_non_exhaustive()
        }
    }

    type Entropy = Box<dyn FnMut(&mut [u8])>;

    // One simulation a thread.
    thread_local! {
        static PART_BYTES: Cell<Option<usize>> = const { Cell::new(None) };
        static BROKEN: Cell<&'static [FaultPoint]> = const { Cell::new(&[]) };
        static ENTROPY: RefCell<Option<Entropy>> = const { RefCell::new(None) };
    }

    /// Draws random bytes from `source` on this thread.
    pub fn set_entropy(source: impl FnMut(&mut [u8]) + 'static) {
        ENTROPY.set(Some(Box::new(source)));
    }

    /// Breaks these points on this thread, and no others.
    pub fn set_fault_points(broken: &'static [FaultPoint]) {
        BROKEN.set(broken);
    }

    pub(crate) fn is_broken(point: FaultPoint) -> bool {
        BROKEN.get().contains(&point)
    }

    /// Splits answers on this thread into parts of so many bytes.
    pub fn set_part_bytes(bytes: usize) {
        PART_BYTES.set(Some(bytes));
    }

    pub(crate) fn part_bytes() -> Option<usize> {
        PART_BYTES.get()
    }

    /// Fills `bytes` from the thread's source; `false` if it has none.
    pub(crate) fn entropy(bytes: &mut [u8]) -> bool {
        ENTROPY.with_borrow_mut(|source| source.as_mut().map(|source| source(bytes)).is_some())
    }
}
