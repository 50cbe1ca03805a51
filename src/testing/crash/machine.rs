//! A runtime of one thread with its own tasks, whose time stands still until all machines are idle.
//!
//! Several machines take turns on the test's thread. [`Machine::tick`] runs one until it is idle:
//! no task of it can continue without time passing. [`Machine::leap`] then moves its clock to its
//! next timer, and runs nothing. So [`super::run`] knows the next moment at which anything happens
//! on any machine before code runs.
//!
//! Tokio tells when a runtime is idle: it calls a hook before it parks its thread. With paused time,
//! parking moves the clock to the next timer.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

/// How often a call may be polled before time has to pass.
const MAX_POLLS: u32 = 100_000;

/// Whether something happened because of which the test has to be polled.
#[derive(Clone, Debug, Default)]
pub(super) struct Woken(Arc<AtomicBool>);

impl Woken {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.set();
    }
}

/// Where a turn of a machine ended.
#[derive(Debug)]
pub(super) enum Turn<T> {
    Answered(T),
    /// Nothing can continue without time passing.
    Idle,
    /// The call was dropped at an `await`, as the plan says.
    Dropped,
    /// The machine has crashed.
    Crashed,
    /// The call was polled again and again without waiting for time.
    Spins,
}

#[derive(derive_more::Debug)]
#[debug("Machine {{ clock: {}, .. }}", self.clock())]
pub(super) struct Machine {
    runtime: Mutex<Option<Runtime>>,
    handle: Handle,
    signals: Arc<Signals>,
    /// When the machine started, by its own clock and by that of the world.
    started: (Instant, u64),
    clock: AtomicU64,
}

/// What the hooks of the runtime and the root future tell each other.
#[derive(Debug, Default)]
struct Signals {
    is_leaping: AtomicBool,
    has_leapt: AtomicBool,
    /// How often in a row the runtime was about to park.
    idle: AtomicU32,
    is_dead: AtomicBool,
    root: Mutex<Option<Waker>>,
}

impl Signals {
    fn wake(&self) {
        let waker = self.root().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn root(&self) -> MutexGuard<'_, Option<Waker>> {
        self.root.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs before the runtime parks. Woken, the root future ends the turn, and no time passes.
    fn before_park(&self) {
        if !self.is_leaping.load(Ordering::SeqCst) {
            self.idle.fetch_add(1, Ordering::SeqCst);
            self.wake();
        }
    }

    /// Runs after the clock has moved. The root future, which is polled first, ends the leap.
    fn after_park(&self) {
        if self.is_leaping.load(Ordering::SeqCst) {
            self.has_leapt.store(true, Ordering::SeqCst);
            self.wake();
        }
    }
}

/// Whether a call has to be polled.
#[derive(Debug)]
pub(super) struct CallWaker {
    is_set: AtomicBool,
    signals: Arc<Signals>,
    world: Woken,
}

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::SeqCst);
        self.world.set();
        self.signals.wake();
    }
}

impl Machine {
    /// Starts a machine at this time of the world.
    pub(super) fn start(now: u64) -> io::Result<Self> {
        let signals = Arc::<Signals>::default();
        let (before, after) = (Arc::clone(&signals), Arc::clone(&signals));
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            // A crash ends the turn before any other task is polled.
            .event_interval(1)
            .on_thread_park(move || before.before_park())
            .on_thread_unpark(move || after.after_park())
            .build()?;
        let handle = runtime.handle().clone();
        let started = (read_clock(&handle), now);
        let clock = AtomicU64::new(now);
        Ok(Self { runtime: Mutex::new(Some(runtime)), handle, signals, started, clock })
    }

    pub(super) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The machine's clock. It is ahead of the world's while the machine waits for its next timer.
    pub(super) fn clock(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// Nothing on this machine is polled any more.
    pub(super) fn kill(&self) {
        self.signals.is_dead.store(true, Ordering::SeqCst);
        self.signals.wake();
    }

    /// Whether it neither crashed nor was shut down.
    pub(super) fn runs(&self) -> bool {
        !self.signals.is_dead.load(Ordering::SeqCst)
    }

    /// How many tasks are left that were spawned on this machine.
    pub(super) fn tasks(&self) -> usize {
        self.handle.metrics().num_alive_tasks()
    }

    /// Drops the tasks. A thread of `spawn_blocking` cannot be ended.
    pub(super) fn shut_down(&self) {
        self.kill();
        let runtime = self.runtime().take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }

    fn runtime(&self) -> MutexGuard<'_, Option<Runtime>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A waker for a call on this machine, which begins awake.
    pub(super) fn waker(&self, world: &Woken) -> Arc<CallWaker> {
        let signals = Arc::clone(&self.signals);
        Arc::new(CallWaker { is_set: AtomicBool::new(true), signals, world: world.clone() })
    }

    /// Runs the tasks until the machine is idle.
    pub(super) fn tick_tasks(&self) {
        let _: Turn<()> = self.turn(|_| None);
    }

    /// Runs a call and the tasks until the call ends or the machine is idle. `waits` is called at
    /// each `await` of the call; `true` drops the call there.
    pub(super) fn tick<F: Future>(
        &self,
        mut call: Pin<&mut F>,
        awake: &Arc<CallWaker>,
        mut waits: impl FnMut() -> bool,
    ) -> Turn<F::Output> {
        let waker = Waker::from(Arc::clone(awake));
        let mut polls = 0;
        self.turn(|signals| {
            if !awake.is_set.swap(false, Ordering::SeqCst) {
                return None;
            }
            polls += 1;
            signals.idle.store(0, Ordering::SeqCst);
            match call.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => Some(Turn::Answered(output)),
                Poll::Pending if signals.is_dead.load(Ordering::SeqCst) => None,
                Poll::Pending if waits() => Some(Turn::Dropped),
                Poll::Pending if polls == MAX_POLLS => Some(Turn::Spins),
                Poll::Pending => None,
            }
        })
    }

    fn turn<T>(&self, mut poll: impl FnMut(&Signals) -> Option<Turn<T>>) -> Turn<T> {
        let signals = &self.signals;
        signals.idle.store(0, Ordering::SeqCst);
        self.block_on(|| {
            if signals.is_dead.load(Ordering::SeqCst) {
                return Some(Turn::Crashed);
            }
            if let Some(turn) = poll(signals) {
                return Some(turn);
            }
            // Between the first and the second time, timers that were due have fired.
            (signals.idle.load(Ordering::SeqCst) >= 2).then_some(Turn::Idle)
        })
        .unwrap_or(Turn::Crashed)
    }

    /// Moves the clock to the next timer, and at most to `bound`. Runs only tasks that can continue
    /// without time passing. Returns the clock.
    pub(super) fn leap(&self, bound: u64) -> u64 {
        let signals = &self.signals;
        signals.has_leapt.store(false, Ordering::SeqCst);
        signals.is_leaping.store(true, Ordering::SeqCst);
        let (started, base) = self.started;
        let mut timer = None;
        self.block_on(|| {
            if signals.has_leapt.load(Ordering::SeqCst) || signals.is_dead.load(Ordering::SeqCst) {
                return Some(());
            }
            let end = started + Duration::from_millis(bound.saturating_sub(base));
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
            let root = signals.root().clone();
            let waker = root.as_ref().unwrap_or(Waker::noop());
            timer.as_mut().poll(&mut Context::from_waker(waker)).is_ready().then_some(())
        });
        signals.is_leaping.store(false, Ordering::SeqCst);
        let passed = read_clock(&self.handle).saturating_duration_since(started);
        let passed = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        // A dead machine has no timers.
        let clock = if signals.is_dead.load(Ordering::SeqCst) { bound } else { base + passed };
        self.clock.store(clock, Ordering::SeqCst);
        clock
    }

    /// Runs the runtime until `poll`, its root, returns something. `None` if it was shut down.
    fn block_on<T>(&self, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
        let runtime = self.runtime();
        let root = std::future::poll_fn(|context| {
            *self.signals.root() = Some(context.waker().clone());
            poll().map_or(Poll::Pending, Poll::Ready)
        });
        let ended = runtime.as_ref().map(|runtime| runtime.block_on(root));
        *self.signals.root() = None;
        ended
    }
}

#[expect(clippy::disallowed_methods, reason = "it is the clock of a virtual machine")]
fn read_clock(handle: &Handle) -> Instant {
    let _context = handle.enter();
    Instant::now()
}
