//! A runtime of one thread with its own tasks, whose time stands still until all machines are idle.
//!
//! Several machines take turns on the test's thread. [`Machine::tick`] runs one until it is idle:
//! no task of it can continue without time passing. [`Machine::leap`] then moves its clock to its
//! next timer, and runs nothing. So [`super::run`] knows the next moment at which anything happens
//! on any machine before code runs.
//!
//! Tokio tells when a runtime is idle: it calls a hook before it parks its thread. With paused time,
//! parking moves the clock to the next timer.
//!
//! Closures of `spawn_blocking` run one after the other, and only in a leap, while no task runs. The
//! clock stands still until they have ended. So they take real time, and no run depends on how fast
//! their thread is.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

/// How often a call may be polled before time has to pass.
const MAX_POLLS: u32 = 100_000;
/// How long closures of `spawn_blocking` may run, in real time.
const LONGEST_CLOSURE: Duration = Duration::from_secs(10);

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
    Stuck(Stuck),
}

/// Why a machine does not become idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    /// Its call is polled again and again without waiting for time.
    Spins,
    /// A closure of `spawn_blocking` does not end.
    Blocks,
}

impl Stuck {
    /// The message about a machine of this name.
    pub(super) fn of(self, name: &str) -> String {
        match self {
            Self::Spins => format!(
                "{name} never waits: it is polled again and again without waiting for anything. Does the code \
                 loop around `yield_now`, or around a future that is ready at once?"
            ),
            Self::Blocks => format!(
                "a closure of `spawn_blocking` or a file operation of {name} has not ended after \
                 {LONGEST_CLOSURE:?} of real time. Time stands still and no task runs until it ends, so it \
                 must not wait for a request, a sleep, a task or another closure: await those in the handler"
            ),
        }
    }
}

#[derive(derive_more::Debug)]
#[debug("Machine {{ clock: {}, .. }}", self.clock())]
pub(super) struct Machine {
    runtime: Mutex<Option<Runtime>>,
    handle: Handle,
    signals: Arc<Signals>,
    threads: Arc<Threads>,
    /// When the machine started, by its own clock and by that of the world.
    started: (Instant, u64),
    clock: AtomicU64,
}

/// What the hooks of the runtime and the root future tell each other.
#[derive(Debug, Default)]
struct Signals {
    is_leaping: AtomicBool,
    /// Whether the leap ends: the clock has moved, or the call was woken.
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

/// The thread that runs closures of `spawn_blocking`.
#[derive(Debug, Default)]
struct Threads {
    state: Mutex<ThreadState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum ThreadState {
    /// A new thread waits before its first closure.
    #[default]
    Paused,
    /// This many threads run.
    Running(u32),
    /// No further thread begins.
    Dead,
}

impl Threads {
    fn state(&self) -> MutexGuard<'_, ThreadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs on a new thread. If its process has crashed, the thread ends here, and its closures do not run.
    fn begin(&self) {
        let is_paused = |state: &mut ThreadState| matches!(state, ThreadState::Paused);
        let state = self.changed.wait_while(self.state(), is_paused);
        match &mut *state.unwrap_or_else(PoisonError::into_inner) {
            ThreadState::Running(threads) => return *threads += 1,
            ThreadState::Paused | ThreadState::Dead => {}
        }
        std::panic::resume_unwind(Box::new("the process has crashed"));
    }

    /// Runs on a thread that has run all closures.
    fn end(&self) {
        if let ThreadState::Running(threads) = &mut *self.state() {
            *threads -= 1;
        }
        self.changed.notify_all();
    }

    fn resume(&self) {
        let mut state = self.state();
        if matches!(*state, ThreadState::Paused) {
            *state = ThreadState::Running(0);
        }
        self.changed.notify_all();
    }

    /// Waits until no thread runs, and lets none begin.
    fn pause(&self) -> Result<(), Stuck> {
        let runs = |state: &mut ThreadState| matches!(state, ThreadState::Running(1..));
        let waited = self.changed.wait_timeout_while(self.state(), LONGEST_CLOSURE, runs);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(Stuck::Blocks);
        }
        if matches!(*state, ThreadState::Running(_)) {
            *state = ThreadState::Paused;
        }
        Ok(())
    }

    fn kill(&self) {
        *self.state() = ThreadState::Dead;
        self.changed.notify_all();
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
        self.signals.has_leapt.store(true, Ordering::SeqCst);
        self.signals.wake();
    }
}

impl Machine {
    /// Starts a machine at this time of the world.
    pub(super) fn start(now: u64) -> io::Result<Self> {
        let signals = Arc::<Signals>::default();
        let (before, after) = (Arc::clone(&signals), Arc::clone(&signals));
        let threads = Arc::<Threads>::default();
        let (begin, end) = (Arc::clone(&threads), Arc::clone(&threads));
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            // A crash ends the turn before any other task is polled.
            .event_interval(1)
            .on_thread_park(move || before.before_park())
            .on_thread_unpark(move || after.after_park())
            .max_blocking_threads(1)
            .thread_keep_alive(Duration::ZERO)
            .on_thread_start(move || begin.begin())
            .on_thread_stop(move || end.end())
            .build()?;
        let handle = runtime.handle().clone();
        let started = (read_clock(&handle), now);
        let clock = AtomicU64::new(now);
        let runtime = Mutex::new(Some(runtime));
        Ok(Self { runtime, handle, signals, threads, started, clock })
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
        self.threads.kill();
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

    /// Drops the tasks, and the closures of `spawn_blocking` that have not begun.
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
    pub(super) fn tick_tasks(&self) -> Result<(), Stuck> {
        match self.turn(|_| None::<Turn<()>>) {
            Turn::Stuck(stuck) => Err(stuck),
            Turn::Answered(()) | Turn::Idle | Turn::Dropped | Turn::Crashed => Ok(()),
        }
    }

    /// Runs the closures of `spawn_blocking` that have been spawned until now.
    pub(super) fn run_closures(&self) -> Result<(), Stuck> {
        if !self.runs() {
            return Ok(());
        }
        let (sender, last) = mpsc::channel();
        self.handle.spawn_blocking(move || sender.send(()));
        self.threads.resume();
        let ended = last.recv_timeout(LONGEST_CLOSURE);
        self.threads.pause()?;
        ended.map_err(|_| Stuck::Blocks)
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
        self.turn(|signals| {
            if !awake.is_set.swap(false, Ordering::SeqCst) {
                return None;
            }
            signals.idle.store(0, Ordering::SeqCst);
            match call.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => Some(Turn::Answered(output)),
                Poll::Pending if signals.is_dead.load(Ordering::SeqCst) => None,
                Poll::Pending if waits() => Some(Turn::Dropped),
                Poll::Pending => None,
            }
        })
    }

    fn turn<T>(&self, mut poll: impl FnMut(&Signals) -> Option<Turn<T>>) -> Turn<T> {
        let signals = &self.signals;
        let turn = self.block_on(|| {
            if signals.is_dead.load(Ordering::SeqCst) {
                return Some(Turn::Crashed);
            }
            if let Some(turn) = poll(signals) {
                return Some(turn);
            }
            // Between the first and the second time, timers that were due have fired.
            (signals.idle.load(Ordering::SeqCst) >= 2).then_some(Turn::Idle)
        });
        match turn {
            Ok(turn) => turn.unwrap_or(Turn::Crashed),
            Err(stuck) => Turn::Stuck(stuck),
        }
    }

    /// Moves the clock to the next timer, and at most to `bound`. Runs closures of `spawn_blocking`, and
    /// only tasks that can continue without time passing. Returns the clock, which has not moved if a
    /// closure ran or woke the call.
    pub(super) fn leap(&self, bound: u64) -> Result<u64, Stuck> {
        let signals = &self.signals;
        signals.has_leapt.store(false, Ordering::SeqCst);
        let (started, base) = self.started;
        let mut timer = None;
        self.threads.resume();
        let leapt = self.block_on(|| {
            if signals.has_leapt.load(Ordering::SeqCst) || signals.is_dead.load(Ordering::SeqCst) {
                return Some(());
            }
            if signals.idle.load(Ordering::SeqCst) == 0 {
                return None;
            }
            signals.is_leaping.store(true, Ordering::SeqCst);
            let end = started + Duration::from_millis(bound.saturating_sub(base));
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
            let root = signals.root().clone();
            let waker = root.as_ref().unwrap_or(Waker::noop());
            timer.as_mut().poll(&mut Context::from_waker(waker)).is_ready().then_some(())
        });
        signals.is_leaping.store(false, Ordering::SeqCst);
        self.threads.pause()?;
        leapt?;
        let passed = read_clock(&self.handle).saturating_duration_since(started);
        let passed = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        // A dead machine has no timers.
        let clock = if signals.is_dead.load(Ordering::SeqCst) { bound } else { base + passed };
        self.clock.store(clock, Ordering::SeqCst);
        Ok(clock)
    }

    /// Runs the runtime until `poll`, its root, returns something. `None` if the runtime was shut down.
    fn block_on<T>(&self, mut poll: impl FnMut() -> Option<T>) -> Result<Option<T>, Stuck> {
        let signals = &self.signals;
        signals.idle.store(0, Ordering::SeqCst);
        let runtime = self.runtime();
        let mut polls = 0;
        let root = std::future::poll_fn(|context| {
            *signals.root() = Some(context.waker().clone());
            if let Some(ended) = poll() {
                return Poll::Ready(Ok(ended));
            }
            if !signals.is_leaping.load(Ordering::SeqCst) {
                polls += 1;
                if polls > MAX_POLLS {
                    return Poll::Ready(Err(Stuck::Spins));
                }
            }
            Poll::Pending
        });
        let ended = runtime.as_ref().map(|runtime| runtime.block_on(root));
        *signals.root() = None;
        ended.transpose()
    }
}

#[expect(clippy::disallowed_methods, reason = "it is the clock of a virtual machine")]
fn read_clock(handle: &Handle) -> Instant {
    let _context = handle.enter();
    Instant::now()
}
