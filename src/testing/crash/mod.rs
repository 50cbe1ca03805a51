//! Runs a test once for each place at which its calls can crash.

mod machine;
mod plan;
mod report;
mod request;
mod world;

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use self::machine::Machine;
use self::plan::{Chosen, Plan, Plans};
use self::report::{PLACE_ENV, Report};
use self::world::{Current, Log, Shared, differs};
pub use self::world::{Process, World};
use crate::call::user_code;
use crate::fault_injection::{Observed, Seeded};

/// The most repeats of a call, and so the most places of one run.
const REPEATS: usize = 4;
/// How long a call may take, in the time of the world.
const LONGEST_CALL: Duration = Duration::from_secs(3600);
/// How long the test's own code may wait.
const LONGEST_TEST: u64 = 366 * 24 * 3600 * 1000;
/// The longest step of time while several machines run, and the first one otherwise.
const SECOND: u64 = 1000;
thread_local! {
    /// How many tests of `every_crash` this thread has begun.
    static BEGUN: Cell<u32> = const { Cell::new(0) };
}

/// How often something may happen without time passing.
const MAX_TURNS: u32 = 100_000;

const NO_REQUEST: &str = "no call has sent a request, so nothing could be disturbed. Make the call in `world.call(..)` \
                          or `world.race(..)`, and use `process.idempotency()`, `process.builder()` or \
                          `process.client()` in it: requests of `world.client()` are no places";

/// Runs `test` once for each place at which its calls can crash, each time in a new [`World`].
///
/// See [the module](super) for an example, and [`EveryCrash`] for the places and for settings. Call
/// it from a plain `#[test]` function.
///
/// ```
/// use dynamodb_idempotency::testing::{World, every_crash};
///
/// every_crash(async |world: World| {
///     let answer = world.call(async |process| {
///         let operation = process.idempotency().operation("greet").key("k").no_payload();
///         operation.run(async |_| Ok::<_, std::io::Error>("hello".to_owned())).await
///     });
///     assert_eq!(answer.await.unwrap(), "hello");
/// });
/// ```
///
/// # Panics
/// If `test` panics in one of the runs: the message names the place and lists what the world saw.
/// Also if no call sends a request, if a call does not answer, if two runs differ without a reason, and inside of a
/// runtime.
#[track_caller]
pub fn every_crash(test: impl AsyncFnMut(World)) {
    EveryCrash::new().run(test);
}

/// [`every_crash`] with settings.
///
/// The first run is undisturbed. The places of the later runs are:
///
/// - a crash before each request of the call reaches DynamoDB, and one after DynamoDB has executed
///   it and before the response arrives;
/// - the loss of each response, without a crash;
/// - a crash at each [`point`](World::point) that the test names;
/// - the future of the call is dropped at each `await` that waits, without a crash: the tasks that
///   the call has spawned continue. If more than eight awaits follow each other and nothing else
///   happens in between, only the first eight count;
/// - a crash after the answer, while tasks that the call has spawned still run.
///
/// A crash ends everything in its [`Process`]. Destructors run, but their requests reach nothing.
///
/// Closures of `spawn_blocking` and file operations run one after the other while no task runs. They take
/// real time, at most 10 seconds, and the time of the world stands still. One that has not begun before a
/// crash does not run. A task that never waits, such as a loop around `yield_now`, is not found: the test does
/// not end.
///
/// Of the renewals of a lease, and of the reads while a call waits for another one, the first three
/// count. Later attempts crash too: before each of their requests and at each point, once for all places
/// that are alike, and at each place that no earlier run has reached, such as the requests of a
/// [hook](crate::Call::reconcile).
///
/// ```
/// use std::time::Duration;
///
/// use dynamodb_idempotency::testing::{EveryCrash, World};
///
/// EveryCrash::new().repeats(2).longest_call(Duration::from_secs(60)).run(async |world: World| {
///     let answer = world.call(async |process| {
///         let operation = process.idempotency().operation("greet").key("k").no_payload();
///         operation.run(async |_| Ok::<_, std::io::Error>("hello".to_owned())).await
///     });
///     assert_eq!(answer.await.unwrap(), "hello");
/// });
/// ```
#[derive(Clone, Debug)]
#[must_use = "call run()"]
pub struct EveryCrash {
    repeats: usize,
    longest_call: Duration,
}

impl Default for EveryCrash {
    fn default() -> Self {
        Self { repeats: REPEATS, longest_call: LONGEST_CALL }
    }
}

impl EveryCrash {
    /// The default settings.
    ///
    /// ```
    /// use dynamodb_idempotency::testing::{EveryCrash, World};
    /// # async fn greets(world: World) {
    /// #     let call = world.call(async |process| process.client().list_tables().send().await.is_ok());
    /// #     assert!(call.await);
    /// # }
    ///
    /// EveryCrash::new().run(greets);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets at how many places one run is disturbed at most, at least 1. So a call is made again at
    /// most this often. Default 4.
    ///
    /// ```
    /// use dynamodb_idempotency::testing::{EveryCrash, World};
    /// # async fn greets(world: World) {
    /// #     let call = world.call(async |process| process.client().list_tables().send().await.is_ok());
    /// #     assert!(call.await);
    /// # }
    ///
    /// // One crash a run: the repeats are undisturbed.
    /// EveryCrash::new().repeats(1).run(greets);
    /// ```
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub const fn repeats(mut self, repeats: usize) -> Self {
        assert!(
            repeats > 0,
            "EveryCrash::repeats is 0, so that no run would be disturbed. It must be at least 1"
        );
        self.repeats = repeats;
        self
    }

    /// Sets how long a call may take, in the time of the world. Default 1 hour.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::testing::{EveryCrash, World};
    /// # async fn greets(world: World) {
    /// #     let call = world.call(async |process| process.client().list_tables().send().await.is_ok());
    /// #     assert!(call.await);
    /// # }
    ///
    /// let tests = EveryCrash::new().longest_call(Duration::from_secs(24 * 3600));
    /// tests.run(greets);
    /// ```
    pub const fn longest_call(mut self, longest: Duration) -> Self {
        self.longest_call = longest;
        self
    }

    /// Runs a test, as [`every_crash`] does.
    ///
    /// ```
    /// use dynamodb_idempotency::testing::{EveryCrash, World};
    /// # async fn greets(world: World) {
    /// #     let call = world.call(async |process| process.client().list_tables().send().await.is_ok());
    /// #     assert!(call.await);
    /// # }
    ///
    /// EveryCrash::new().run(greets);
    /// ```
    ///
    /// # Panics
    /// The same as for [`every_crash`].
    #[track_caller]
    #[expect(clippy::panic, reason = "a test fails so")]
    pub fn run(self, mut test: impl AsyncFnMut(World)) {
        assert!(
            tokio::runtime::Handle::try_current().is_err(),
            "every_crash was called inside of a runtime, and starts runtimes of its own. Call it from \
             a plain function: #[test] instead of #[tokio::test]"
        );
        if let Err(report) = self.explore(&mut test) {
            panic!("{report}");
        }
    }

    fn explore(&self, test: &mut impl AsyncFnMut(World)) -> Result<(), Box<Report>> {
        let nth = BEGUN.get() + 1;
        BEGUN.set(nth);
        let failed = |plan: &Plan, number, log| {
            let chosen = Chosen { nth, plan: plan.clone() };
            Box::new(Report { chosen, number, log })
        };
        if let Ok(text) = std::env::var(PLACE_ENV) {
            let Some(chosen) = Chosen::parse(&text) else {
                let log =
                    Log::failed(format!("{PLACE_ENV} is `{text}`, which no report has printed"));
                return Err(failed(&Plan::default(), 1, log));
            };
            if chosen.nth != nth {
                note(&format!(
                    "{PLACE_ENV}={text} skips this every_crash, number {nth} of its thread"
                ));
                return Ok(());
            }
            let log = self.run_once(test, &chosen.plan);
            return if log.failure.is_some() { Err(failed(&chosen.plan, 1, log)) } else { Ok(()) };
        }
        let mut plans = Plans::new(self.repeats);
        let mut number = 0;
        while let Some(plan) = plans.next() {
            number += 1;
            let log = self.run_once(test, &plan);
            if log.failure.is_some() {
                return Err(failed(&plan, number, log));
            }
            plans.learn(&plan, &log.places);
        }
        Ok(())
    }

    /// Runs the test in a new world.
    fn run_once(&self, test: &mut impl AsyncFnMut(World), plan: &Plan) -> Log {
        let shared = match Shared::new(plan.clone(), self.longest_call) {
            Ok(shared) => shared,
            Err(error) => return Log::failed(error.to_string()),
        };
        let home = match Machine::start(shared.now()) {
            Ok(home) => home,
            Err(error) => return Log::failed(format!("a runtime could not be started: {error}")),
        };
        let _seeded = Seeded::begin();
        let observing = Arc::clone(&shared);
        let _observed = Observed::by(move |what| observing.saw(what));
        {
            let world = World { shared: Arc::clone(&shared) };
            let mut future = Box::pin(test(world));
            drive(&shared, &home, future.as_mut());
            let _context = home.handle().enter();
            if let Err(panic) = user_code::call(|| drop(future)) {
                shared.fail(panic.text().to_owned());
            }
        }
        shared.machines().iter().for_each(|(_, machine)| machine.shut_down());
        home.shut_down();
        if plan.places.is_empty() && !shared.has_requests() {
            shared.fail(NO_REQUEST.to_owned());
        }
        let mut log = std::mem::take(&mut *shared.log());
        let reached = log.places.len();
        if log.failure.is_none() && plan.places.iter().any(|&place| place >= reached) {
            let now = format!("the end of the test, after {reached} places");
            log.failure = Some(match plan.expected.get(reached) {
                Some(expected) => differs(&now, &expected.text),
                None => format!(
                    "the run has {reached} places, so it did not reach the place of {PLACE_ENV}. The test \
                     or the handler was changed after the report, or differs from run to run. Run the test \
                     without the variable"
                ),
            });
        }
        log
    }
}

#[expect(clippy::print_stderr, reason = "the output of a test")]
fn note(text: &str) {
    eprintln!("{text}");
}

/// Runs the test's future and all machines until it is done or the run has failed.
fn drive(shared: &Shared, home: &Machine, mut future: Pin<&mut impl Future<Output = ()>>) {
    let waker = Waker::from(Arc::new(shared.woken.clone()));
    let mut pace = Pace { step: 1, events: 0, turns: 0 };
    let end = shared.now() + LONGEST_TEST;
    loop {
        shared.wake_all();
        shared.woken.take();
        let polled = user_code::call(|| {
            let _context = home.handle().enter();
            future.as_mut().poll(&mut Context::from_waker(&waker))
        });
        match polled {
            Ok(std::task::Poll::Ready(())) => return,
            Ok(std::task::Poll::Pending) => {}
            Err(panic) => return shared.fail(panic.text().to_owned()),
        }
        let machines = shared.machines();
        if let Err(stuck) = home.tick_tasks() {
            return shared.fail(stuck.of("the test"));
        }
        for (process, machine) in &machines {
            if machine.clock() <= shared.now() {
                let _current = Current::set(*process);
                if let Err(stuck) = machine.tick_tasks() {
                    shared.fail(stuck.of(&shared.name_of(*process)));
                }
            }
        }
        if shared.has_failed() {
            return;
        }
        pace.turns += 1;
        if pace.turns > MAX_TURNS {
            return shared.fail(
                "the test goes on and on without waiting for anything: does it loop, or does a thread of its \
                 own wake it?"
                    .to_owned(),
            );
        }
        if shared.woken.take() {
            continue;
        }
        if let Err(stuck) = pace.let_time_pass(shared, home, &machines) {
            return shared.fail(stuck);
        }
        if shared.now() >= end {
            return shared
                .fail("the test waits, and nothing is left that could wake it".to_owned());
        }
    }
}

/// How fast time passes.
struct Pace {
    step: u64,
    /// How many events there were.
    events: usize,
    /// How many turns there were since time passed.
    turns: u32,
}

impl Pace {
    /// Lets time pass to the next timer of a machine or of the world. With several machines, the
    /// steps begin small and grow while nothing happens, so that no machine's clock gets far ahead
    /// of the others'.
    fn let_time_pass(
        &mut self,
        shared: &Shared,
        home: &Machine,
        machines: &[(usize, Arc<Machine>)],
    ) -> Result<(), String> {
        let now = shared.now();
        let (first, longest) =
            if machines.len() > 1 { (1, SECOND) } else { (SECOND, u64::from(u32::MAX)) };
        let step = self.step.clamp(first, longest);
        let furthest = shared.next_timer().unwrap_or(u64::MAX).min(now + step);
        let ahead = machines.iter().map(|(_, machine)| machine.clock()).filter(|&at| at > now);
        let mut bound = ahead.min().unwrap_or(furthest).min(furthest);
        for (process, machine) in machines {
            if machine.clock() <= now {
                let _current = Current::set(*process);
                let leapt = machine.leap(bound);
                bound = bound.min(leapt.map_err(|stuck| stuck.of(&shared.name_of(*process)))?);
            }
        }
        let leapt = home.leap(bound);
        bound = bound.min(leapt.map_err(|stuck| stuck.of("the test"))?);
        shared.clock.set(bound);
        let stands_still = bound == now;
        if !stands_still {
            self.turns = 0;
        }
        let events = shared.log().events.len();
        let is_quiet = events == std::mem::replace(&mut self.events, events)
            && !stands_still
            && !shared.woken.is_set();
        self.step = if is_quiet { step * 2 } else { 1 };
        Ok(())
    }
}
