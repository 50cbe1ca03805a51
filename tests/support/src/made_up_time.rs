//! Simulated time that advances only while no task can make progress, so that no test depends on the
//! speed of the machine.
//!
//! It stops while a task can run and while the store processes a request. Otherwise it jumps to the
//! next timer. Wall clocks, the monotonic clock and the store's `Date` follow it, so a test waits for
//! minutes without delay. It does not observe sockets other than the store's.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::SystemTime;

use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::time::Instant;

#[derive(Clone, Copy)]
struct Begun {
    runtime: Id,
    wall: SystemTime,
    start: Instant,
}

thread_local! {
    static BEGUN: Cell<Option<Begun>> = const { Cell::new(None) };
}

fn begun() -> Option<Begun> {
    // A thread can run several tests, one after the other.
    let runtime = Handle::try_current().ok()?.id();
    BEGUN.get().filter(|begun| begun.runtime == runtime)
}

/// Simulates the time of this test from now on, if its runtime has one thread.
pub fn begin() {
    let runtime = Handle::current();
    if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread && begun().is_none() {
        tokio::time::pause();
        let (wall, start) = (SystemTime::now(), Instant::now());
        BEGUN.set(Some(Begun { runtime: runtime.id(), wall, start }));
    }
}

/// Returns to real time, for a test that waits for other sockets than the store's.
pub fn end() {
    if begun().is_some() {
        BEGUN.set(None);
        tokio::time::resume();
    }
}

pub(crate) fn is_made_up() -> bool {
    begun().is_some()
}

/// The time of a correct wall clock.
pub fn now() -> SystemTime {
    begun().map_or_else(SystemTime::now, |begun| begun.wall + begun.start.elapsed())
}

/// Simulated time is stopped until this value is dropped.
pub(crate) struct Standstill(
    #[expect(dead_code, reason = "dropping it ends the standstill")] Option<Sender<()>>,
);

impl Standstill {
    pub(crate) fn begin() -> Self {
        Self(is_made_up().then(|| {
            let (end, ended): (Sender<()>, Receiver<()>) = channel();
            // Tokio's paused clock does not advance while blocking work runs.
            tokio::task::spawn_blocking(move || ended.recv());
            end
        }))
    }
}
