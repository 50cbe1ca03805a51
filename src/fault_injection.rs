//! Lets the project's search for faults (`tests/faults/`) control the entropy and the clock inside the
//! crate, and break the code around the machines.
//!
//! Without the feature `internals` nothing is injected, and the compiler removes the checks.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

pub(crate) use crate::protocol::fault_point::{FaultPoint, is_broken};

const IS_ON: bool = cfg!(feature = "internals");
/// `testing::every_crash` takes random bytes from a seed too.
const IS_SEEDABLE: bool = cfg!(any(feature = "internals", feature = "testing"));

type Entropy = Box<dyn FnMut(&mut [u8])>;
type Observer = Box<dyn Fn(&str)>;

// Each thread runs one simulation.
thread_local! {
    static PART_BYTES: Cell<Option<usize>> = const { Cell::new(None) };
    static ENTROPY: RefCell<Option<Entropy>> = const { RefCell::new(None) };
    static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
}

pub(crate) fn part_bytes() -> Option<usize> {
    if IS_ON { PART_BYTES.get() } else { None }
}

/// Fills `bytes` from the thread's source; `false` if it has none.
pub(crate) fn entropy(bytes: &mut [u8]) -> bool {
    IS_SEEDABLE
        && ENTROPY.with_borrow_mut(|source| source.as_mut().map(|source| source(bytes)).is_some())
}

/// Reports what a function of the caller has answered to the thread's observer, if it has one.
pub(crate) fn observe(what: impl FnOnce() -> String) {
    if IS_SEEDABLE {
        OBSERVER.with_borrow(|observer| {
            if let Some(observer) = observer {
                observer(&what());
            }
        });
    }
}

/// How far the monotonic clock is ahead of the machine's, in ms. Negative after a freeze.
#[derive(Clone, derive_more::Debug, Default)]
#[debug("ClockShift")]
pub(crate) struct ClockShift {
    pub(crate) shift: Option<Arc<dyn Fn() -> i64 + Send + Sync>>,
    /// Whether the process begins as if a response had shown DynamoDB's time, equal to its own.
    pub(crate) knows_time: bool,
}

impl ClockShift {
    pub(crate) fn millis(&self) -> i64 {
        self.shift.as_ref().map_or(0, |shift| shift())
    }
}

/// Takes random bytes on this thread from `source`.
#[cfg(feature = "internals")]
pub fn set_entropy(source: impl FnMut(&mut [u8]) + 'static) {
    ENTROPY.set(Some(Box::new(source)));
}

/// Splits answers on this thread into parts of this size.
#[cfg(feature = "internals")]
pub fn set_part_bytes(bytes: usize) {
    PART_BYTES.set(Some(bytes));
}

/// Takes random bytes on this thread from a seed, the crate's and the SDK's, until it is dropped.
#[cfg(feature = "testing")]
pub(crate) struct Seeded {
    entropy: Option<Entropy>,
    sdk: u64,
}

#[cfg(feature = "testing")]
impl Seeded {
    pub(crate) fn begin() -> Self {
        let mut random = fastrand::Rng::with_seed(1);
        let sdk = fastrand::get_seed();
        fastrand::seed(2);
        let entropy = ENTROPY.replace(Some(Box::new(move |bytes| random.fill(bytes))));
        Self { entropy, sdk }
    }
}

#[cfg(feature = "testing")]
impl Drop for Seeded {
    fn drop(&mut self) {
        ENTROPY.set(self.entropy.take());
        fastrand::seed(self.sdk);
    }
}

/// Has an observer on this thread, until it is dropped.
#[cfg(feature = "testing")]
pub(crate) struct Observed(());

#[cfg(feature = "testing")]
impl Observed {
    pub(crate) fn by(observer: impl Fn(&str) + 'static) -> Self {
        OBSERVER.set(Some(Box::new(observer)));
        Self(())
    }
}

#[cfg(feature = "testing")]
impl Drop for Observed {
    fn drop(&mut self) {
        OBSERVER.set(None);
    }
}
