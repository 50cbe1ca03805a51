//! Time that goes on by itself only while nothing is under way, so that no test depends on how fast
//! the machine is.
//!
//! It stands still while anything can be done and while a request is with the store. Otherwise it
//! jumps to the next timer. Wall clocks, the monotonic one and the store's `Date` all follow it, so
//! a test may wait for minutes in no time. Of other sockets than the store's it knows nothing.

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
    // A thread may run one test after the other.
    let runtime = Handle::try_current().ok()?.id();
    BEGUN.get().filter(|begun| begun.runtime == runtime)
}

/// From here on this test's time is made up, if it has one thread.
pub(crate) fn begin() {
    let runtime = Handle::current();
    if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread && begun().is_none() {
        tokio::time::pause();
        let (wall, start) = (SystemTime::now(), Instant::now());
        BEGUN.set(Some(Begun { runtime: runtime.id(), wall, start }));
    }
}

/// From here on time passes as it does outside, for what comes to other sockets.
pub(crate) fn end() {
    if begun().is_some() {
        BEGUN.set(None);
        tokio::time::resume();
    }
}

pub(crate) fn is_made_up() -> bool {
    begun().is_some()
}

/// The wall clock of everybody whose clock is right.
pub(crate) fn now() -> SystemTime {
    begun().map_or_else(SystemTime::now, |begun| begun.wall + begun.start.elapsed())
}

/// While this lives, made-up time stands still.
pub(crate) struct Standstill(#[expect(dead_code, reason = "its end is told")] Option<Sender<()>>);

impl Standstill {
    pub(crate) fn begin() -> Self {
        Self(is_made_up().then(|| {
            let (end, ended): (Sender<()>, Receiver<()>) = channel();
            // Tokio's paused clock does not go on while blocking work is under way.
            tokio::task::spawn_blocking(move || ended.recv());
            end
        }))
    }
}
