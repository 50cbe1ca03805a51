//! The world of one run: its tables, its time, its processes, and what happened in it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_smithy_async::time::TimeSource as _;
use aws_smithy_runtime_api::client::result::ConnectorError;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join, pending, poll_fn};

use super::machine::{CallWaker, Machine, Turn, Woken};
use super::plan::{Kind, Place, Plan};
use super::request::Description;
use crate::builder::Builder;
use crate::error::Error;
use crate::idempotency::Idempotency;
use crate::store::schema::TableSchema;
use crate::testing::transport::{self, Network, Request, Response, Store, TABLE, VirtualClock};

/// The time at which each run begins: 2030-01-01.
const BEGINNING: u64 = 1_893_456_000_000;
/// How long a request takes to reach DynamoDB, and a response to arrive.
const LATENCY: u64 = 1;
/// How long a request of the first caller of a race takes at which the second caller begins.
const HELD: u64 = 250;
/// The largest [`clock_tolerance`](Builder::clock_tolerance), and the rounding of `Date`.
const BEYOND_THE_LEASE: u64 = 12_000;
/// How long tasks that outlive the answer get to finish.
const AFTERWARDS: u64 = 60_000;
/// How many awaits in a row are places of their own if nothing else happens between them.
const AWAITS: usize = 8;

const NESTED: &str = "`world.call` or `world.race` was called inside of a call. A process makes one call: call \
                      the function itself there, or make the other call after this one, or at once in `tokio::join!`";

thread_local! {
    /// The process whose code runs on this thread.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// One caller of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// The attempt, counted from 1.
    Attempt(u32),
    First,
    Second,
}

/// One process, from its start to its end.
#[derive(Debug)]
struct State {
    /// Number of the call in this run, counted from 1.
    call: u32,
    caller: Caller,
    machine: Arc<Machine>,
    requests: u32,
    is_dead: bool,
    /// Whether an earlier attempt has changed something in the tables.
    is_repeat: bool,
    /// The last thing that happened in it.
    last: String,
    /// How many awaits there were since then.
    awaits: usize,
}

impl State {
    fn name(&self) -> String {
        let name = match self.caller {
            Caller::Attempt(attempt) => format!("attempt {attempt}"),
            Caller::First => "the first caller".to_owned(),
            Caller::Second => "the second caller".to_owned(),
        };
        if self.call > 1 { format!("{name} of call {}", self.call) } else { name }
    }
}

/// Something that happened, and when.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) at: Duration,
    pub(super) text: String,
}

/// What a run has shown.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) events: Vec<Event>,
    pub(super) places: Vec<Place>,
    /// The faults that happened, in words.
    pub(super) faults: Vec<String>,
    pub(super) failure: Option<String>,
}

impl Log {
    pub(super) fn failed(failure: String) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: VirtualClock,
    store: Store,
    pub(super) woken: Woken,
    plan: Plan,
    longest: Duration,
    states: Mutex<Vec<State>>,
    log: Mutex<Log>,
    /// The ends of waits.
    timers: Mutex<BTreeSet<u64>>,
    wakers: Mutex<Vec<Waker>>,
    calls: Mutex<u32>,
    /// Whether the second caller of a race begins.
    begun: AtomicBool,
    /// Whether a process has written something.
    is_written: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What happens to a request next.
enum Fate {
    Continue,
    Held,
    Lost,
    /// Its process has ended.
    Never,
}

impl Shared {
    pub(super) fn new(plan: Plan, longest: Duration) -> Result<Arc<Self>, Error> {
        let clock = VirtualClock::at(BEGINNING);
        let store = Store::new(&clock)?;
        let shared = Self {
            clock,
            store,
            woken: Woken::default(),
            plan,
            longest,
            states: Mutex::default(),
            log: Mutex::default(),
            timers: Mutex::default(),
            wakers: Mutex::default(),
            calls: Mutex::default(),
            begun: AtomicBool::default(),
            is_written: AtomicBool::default(),
        };
        let created = shared.store.create_table(TABLE, &TableSchema::default());
        if let Some(error) = created.error_name() {
            shared.fail(format!("the table could not be created: {error}"));
        }
        Ok(Arc::new(shared))
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.millis()
    }

    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.log().failure.is_some()
    }

    /// Ends the run. The first failure counts.
    pub(super) fn fail(&self, failure: String) {
        self.log().failure.get_or_insert(failure);
        self.woken.set();
    }

    fn event(&self, text: String) {
        let at = Duration::from_millis(self.now() - BEGINNING);
        self.log().events.push(Event { at, text });
    }

    /// The machines that still run, with the numbers of their processes.
    pub(super) fn machines(&self) -> Vec<(usize, Arc<Machine>)> {
        let states = lock(&self.states);
        let machines = states.iter().map(|state| Arc::clone(&state.machine)).enumerate();
        machines.filter(|(_, machine)| machine.runs()).collect()
    }

    /// Wakes all futures of the world.
    pub(super) fn wake_all(&self) {
        let wakers = std::mem::take(&mut *lock(&self.wakers));
        wakers.into_iter().for_each(Waker::wake);
    }

    fn wait(&self, waker: &Waker) {
        lock(&self.wakers).push(waker.clone());
    }

    /// The earliest end of a wait.
    pub(super) fn next_timer(&self) -> Option<u64> {
        let mut timers = lock(&self.timers);
        *timers = timers.split_off(&(self.now() + 1));
        timers.first().copied()
    }

    async fn sleep_until(&self, end: u64) {
        poll_fn(|context| {
            if self.now() >= end {
                return Poll::Ready(());
            }
            lock(&self.timers).insert(end);
            self.wait(context.waker());
            Poll::Pending
        })
        .await;
    }

    /// A place is reached. Returns whether the plan chooses it, after comparing it with the run in
    /// which the plan was made.
    fn reach(&self, place: Place) -> bool {
        let text = place.text.clone();
        let mut log = self.log();
        let index = log.places.len();
        let expected = self.plan.expected.get(index).map(|expected| expected.text.as_str());
        log.places.push(place);
        if expected.is_some_and(|expected| expected != text) {
            let failure = differs(&text, expected.unwrap_or_default());
            drop(log);
            self.fail(failure);
            return false;
        }
        let is_chosen = self.plan.places.contains(&index);
        if is_chosen {
            log.faults.push(text.clone());
        }
        drop(log);
        if is_chosen {
            self.event(format!("FAULT: {text}"));
        }
        is_chosen
    }

    /// A process reaches a place of this kind. `text` gets the name of the caller.
    fn reaches(
        &self,
        process: usize,
        kind: Kind,
        signature: &str,
        text: impl FnOnce(&str) -> String,
    ) -> bool {
        let place = {
            let states = lock(&self.states);
            let Some(state) = states.get(process).filter(|state| !state.is_dead) else {
                return false;
            };
            let begins = kind == Kind::Begin;
            let is_fitting = match state.caller {
                Caller::Attempt(_) => !begins,
                Caller::First => begins && !self.begun.load(Ordering::SeqCst),
                Caller::Second => false,
            };
            if !is_fitting {
                return false;
            }
            let is_repeat = state.is_repeat && matches!(kind, Kind::Before | Kind::Point);
            let signature = format!("{} {is_repeat} {kind:?} {signature}", state.call);
            Place { signature, text: text(&state.name()) }
        };
        self.reach(place)
    }

    fn crash(&self, process: usize) {
        let machine = {
            let mut states = lock(&self.states);
            let state = states.get_mut(process);
            state.map(|state| {
                state.is_dead = true;
                Arc::clone(&state.machine)
            })
        };
        if let Some(machine) = machine {
            machine.kill();
        }
        self.woken.set();
    }

    fn begin_second(&self) {
        self.begun.store(true, Ordering::SeqCst);
        self.woken.set();
    }

    /// Something happened in a process: `what`, which is the same in each run, or `in_detail`.
    fn happened(&self, process: usize, what: &str, in_detail: &str) {
        let name = {
            let mut states = lock(&self.states);
            let Some(state) = states.get_mut(process) else { return };
            what.clone_into(&mut state.last);
            state.awaits = 0;
            state.name()
        };
        self.event(format!("{name}: {in_detail}"));
    }

    /// A function of the caller has answered.
    pub(super) fn saw(&self, what: &str) {
        let states = lock(&self.states);
        let state = CURRENT.get().and_then(|process| states.get(process));
        let name = state.map(|state| format!("{}: ", state.name())).unwrap_or_default();
        drop(states);
        self.event(format!("{name}{what}"));
    }

    /// Whether a process has sent a request.
    pub(super) fn has_requests(&self) -> bool {
        lock(&self.states).iter().any(|state| state.requests > 0)
    }

    /// A request leaves a process. Returns its number; `None` if the process has ended.
    fn sent(&self, process: usize) -> Option<u32> {
        let mut states = lock(&self.states);
        let state = states.get_mut(process).filter(|state| !state.is_dead)?;
        state.requests += 1;
        Some(state.requests)
    }

    /// A request is about to reach DynamoDB.
    fn before(&self, process: usize, number: u32, request: &Description) -> Fate {
        if !self.is_alive(process) {
            return Fate::Never;
        }
        let would_have = request.would_have();
        let crashes = self.reaches(process, Kind::Before, &would_have, |name| {
            format!("crash before DynamoDB had {would_have}, request {number} of {name}")
        });
        if crashes {
            self.crash(process);
            return Fate::Never;
        }
        let begins = self.reaches(process, Kind::Begin, &would_have, |name| {
            let request = format!("request {number} of {name}");
            format!("the second caller began before DynamoDB had {would_have}, {request}")
        });
        if begins {
            self.begin_second();
            return Fate::Held;
        }
        if self.has_failed() { Fate::Never } else { Fate::Continue }
    }

    /// DynamoDB has executed a request.
    fn after(
        &self,
        process: usize,
        number: u32,
        request: &Description,
        response: &Response,
    ) -> Fate {
        let had = request.had(response);
        let key = request.key.as_ref().map(|key| format!(" (key `{key}`)")).unwrap_or_default();
        let in_detail = format!("request {number}: DynamoDB {had}{key}");
        self.happened(process, &format!("DynamoDB had {had}"), &in_detail);
        if request.is_write && response.error_name().is_none() {
            self.is_written.store(true, Ordering::SeqCst);
        }
        let of = |name: &str| format!("request {number} of {name}");
        if self.reaches(process, Kind::After, &had, |name| {
            format!("crash after DynamoDB had {had}, {}", of(name))
        }) {
            self.crash(process);
            return Fate::Never;
        }
        if self.reaches(process, Kind::Lost, &had, |name| {
            format!("the response was lost after DynamoDB had {had}, {}", of(name))
        }) {
            return Fate::Lost;
        }
        if self.reaches(process, Kind::Begin, &had, |name| {
            format!("the second caller began after DynamoDB had {had}, {}", of(name))
        }) {
            self.begin_second();
            return Fate::Held;
        }
        if self.has_failed() { Fate::Never } else { Fate::Continue }
    }

    fn is_alive(&self, process: usize) -> bool {
        lock(&self.states).get(process).is_some_and(|state| !state.is_dead)
    }

    /// The call of a process waits. Returns whether it is dropped here.
    fn waits(&self, process: usize) -> bool {
        let last = {
            let mut states = lock(&self.states);
            let Some(state) = states.get_mut(process) else { return false };
            state.awaits += 1;
            if state.awaits > AWAITS {
                return false;
            }
            let nth =
                if state.awaits > 1 { format!(", await {}", state.awaits) } else { String::new() };
            format!("{}{nth}", state.last)
        };
        self.reaches(process, Kind::Drop, &last, |name| {
            format!("the future of {name} was dropped while it waited, after {last}")
        })
    }

    /// Until when leases last.
    fn leases_end(&self) -> u64 {
        let ends = self.store.items().into_iter().filter_map(|item| {
            let end = item["lease_expires_at"]["N"].as_str()?.parse::<u64>().ok()?;
            (item["status"]["S"] == "PENDING").then_some(end)
        });
        ends.max().unwrap_or_default().max(self.now()) + BEYOND_THE_LEASE
    }

    /// The name of a process.
    pub(super) fn name_of(&self, process: usize) -> String {
        lock(&self.states).get(process).map(State::name).unwrap_or_default()
    }

    fn number_of_call(&self) -> u32 {
        let mut calls = lock(&self.calls);
        *calls += 1;
        *calls
    }
}

/// The message about two runs that differ.
pub(super) fn differs(now: &str, before: &str) -> String {
    format!(
        "the handler did something else than in an earlier run, which was disturbed at the same places \
         so far.\n\
         earlier: {before}\n\
         now:     {now}\n\
         A run must be repeatable: no threads of its own, real sockets, random order, or state that is \
         left from an earlier run. Keep them out of the handler under test, for example behind a double."
    )
}

/// A network from a process, or from the test itself, to the tables.
#[derive(Clone, Debug)]
struct Wire {
    shared: Arc<Shared>,
    process: Option<usize>,
}

impl Network for Wire {
    fn carry(&self, request: Request) -> BoxFuture<'static, Result<HttpResponse, ConnectorError>> {
        let Self { shared, process } = self.clone();
        let Some(process) = process else {
            let response = shared.store.execute(&request);
            return std::future::ready(shared.store.deliver(response)).boxed();
        };
        let sent = shared.sent(process);
        let described = Description::of(&request, || shared.store.item(&request));
        async move {
            let Some(number) = sent else { return pending().await };
            sleep(LATENCY).await;
            match shared.before(process, number, &described) {
                Fate::Held => sleep(HELD).await,
                Fate::Continue => {}
                Fate::Never | Fate::Lost => return pending().await,
            }
            let response = shared.store.execute(&request);
            match shared.after(process, number, &described, &response) {
                Fate::Held => sleep(HELD).await,
                Fate::Continue => sleep(LATENCY).await,
                Fate::Never => return pending().await,
                Fate::Lost => return Err(ConnectorError::io("the response was lost".into())),
            }
            shared.store.deliver(response)
        }
        .boxed()
    }
}

#[expect(clippy::disallowed_methods, reason = "time of a virtual machine")]
async fn sleep(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// The world in which [`every_crash`](super::every_crash) runs a test: tables on an embedded
/// DynamoDB, a clock, and the processes that make the calls. Clones share it, so the test's doubles
/// of other services can hold one.
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
#[derive(Clone, derive_more::Debug)]
#[debug("World {{ now: {:?}, .. }}", self.now())]
pub struct World {
    pub(super) shared: Arc<Shared>,
}

impl World {
    /// Makes a call in a process of its own, and makes it again in a new process if the plan of this
    /// run ends it, until it is answered.
    ///
    /// Before it is made again, time passes beyond every lease in the tables. `call` returns any
    /// future: of an operation, a `Router` or a Lambda service (`oneshot`), or a consumer's batch.
    /// Create the [`Idempotency`] in it, with [`Process::idempotency`] or [`Process::builder`]: what
    /// a process has learned ends with it.
    ///
    /// Several calls of one test can run at once, for example in `tokio::join!`, but not in tasks
    /// that the test spawns.
    ///
    /// ```
    /// use dynamodb_idempotency::testing::{World, every_crash};
    ///
    /// every_crash(async |world: World| {
    ///     let answer = world.call(async |process| {
    ///         let operation = process.idempotency().operation("count").key("k").no_payload();
    ///         operation.run(async |_| Ok::<_, std::io::Error>(1)).await
    ///     });
    ///     assert_eq!(answer.await.unwrap(), 1);
    /// });
    /// ```
    pub async fn call<T>(&self, mut call: impl AsyncFnMut(Process) -> T) -> T {
        let number = self.shared.number_of_call();
        for attempt in 1.. {
            match self.process(number, Caller::Attempt(attempt), &mut call).await {
                Some(answer) => return answer,
                None => self.shared.sleep_until(self.shared.leases_end()).await,
            }
        }
        pending().await
    }

    /// Makes two calls at once: the second begins at each request of the first, and at each
    /// [`point`](Self::point) in it. No process crashes.
    ///
    /// In the first run, the second call begins after the answer of the first one.
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// use dynamodb_idempotency::testing::{Process, World, every_crash};
    ///
    /// every_crash(async |world: World| {
    ///     let charges = Cell::new(0);
    ///     let call = async |process: Process| {
    ///         let operation = process.idempotency().operation("charge").key("k").no_payload();
    ///         let charge = async |_| {
    ///             charges.set(charges.get() + 1);
    ///             world.point("charged").await;
    ///             Ok::<_, std::io::Error>(1200)
    ///         };
    ///         operation.run(charge).await
    ///     };
    ///     let (first, second) = world.race(call, call).await;
    ///     assert!(first.is_ok() || second.is_ok()); // the other one can be in progress
    ///     assert_eq!(charges.get(), 1);
    /// });
    /// ```
    pub async fn race<T, U>(
        &self,
        mut first: impl AsyncFnMut(Process) -> T,
        mut second: impl AsyncFnMut(Process) -> U,
    ) -> (T, U) {
        let number = self.shared.number_of_call();
        self.shared.begun.store(false, Ordering::SeqCst);
        let first = async {
            let answer = self.process(number, Caller::First, &mut first).await;
            self.shared.begin_second();
            answer
        };
        let second = async {
            poll_fn(|context| {
                if self.shared.begun.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
                self.shared.wait(context.waker());
                Poll::Pending
            })
            .await;
            self.process(number, Caller::Second, &mut second).await
        };
        match join(first, second).await {
            (Some(first), Some(second)) => (first, second),
            // The run has failed.
            _ => pending().await,
        }
    }

    /// A point in the code at which the process can crash. Its name is in the report.
    ///
    /// Call it in your doubles of other services, after their effect: `world.point("charged").await`.
    /// Outside of a call, it only adds a line to what the world saw.
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// use dynamodb_idempotency::testing::{World, every_crash};
    ///
    /// every_crash(async |world: World| {
    ///     let mails = Cell::new(0);
    ///     let send = async || {
    ///         mails.set(mails.get() + 1);
    ///         world.point("sent").await;
    ///     };
    ///     let answer = world.call(async |process| {
    ///         let operation = process.idempotency().operation("welcome").key("user-7").no_payload();
    ///         operation.run(async |_| { send().await; Ok::<_, std::io::Error>(()) }).await
    ///     });
    ///     assert!(answer.await.is_ok());
    ///     assert!(mails.get() >= 1); // a crash after the mail: it is sent again
    /// });
    /// ```
    pub async fn point(&self, name: impl fmt::Display) {
        let shared = &self.shared;
        let Some(process) = CURRENT.get() else {
            shared.event(format!("point `{name}`"));
            return;
        };
        if !shared.is_alive(process) {
            return pending().await;
        }
        let what = format!("point `{name}`");
        shared.happened(process, &what, &what);
        if shared.reaches(process, Kind::Point, &what, |who| format!("crash at {what} of {who}")) {
            shared.crash(process);
            return pending().await;
        }
        if shared.reaches(process, Kind::Begin, &what, |who| {
            format!("the second caller began at {what} of {who}")
        }) {
            shared.begin_second();
            sleep(HELD).await;
        }
    }

    /// A client of the tables for the test itself: to create tables of your own, and to look what is
    /// in them. Its requests are no places. A process uses [`Process::client`].
    ///
    /// ```
    /// use dynamodb_idempotency::testing::{World, every_crash};
    ///
    /// every_crash(async |world: World| {
    ///     let answer = world.call(async |process| {
    ///         let operation = process.idempotency().operation("greet").key("k").no_payload();
    ///         operation.run(async |_| Ok::<_, std::io::Error>(1)).await
    ///     });
    ///     assert!(answer.await.is_ok());
    ///     let records = world.client().scan().table_name(world.table()).send().await.unwrap();
    ///     assert_eq!(records.count(), 1);
    /// });
    /// ```
    #[must_use]
    pub fn client(&self) -> Client {
        let wire = Wire { shared: Arc::clone(&self.shared), process: None };
        transport::client(wire, &self.shared.clock)
    }

    /// The name of the table of records.
    ///
    /// ```
    /// use dynamodb_idempotency::testing::{World, every_crash};
    ///
    /// every_crash(async |world: World| {
    ///     assert_eq!(world.table(), "idempotency");
    ///     let record = world.call(async |process| {
    ///         let key = aws_sdk_dynamodb::types::AttributeValue::S("greet#k".to_owned());
    ///         let get = process.client().get_item().table_name(world.table()).key("pk", key);
    ///         get.send().await.unwrap().item
    ///     });
    ///     assert_eq!(record.await, None);
    /// });
    /// ```
    #[must_use]
    pub fn table(&self) -> &str {
        TABLE
    }

    /// The time in this world, for doubles that look at a clock. `SystemTime::now` is real time.
    ///
    /// ```
    /// use dynamodb_idempotency::testing::{World, every_crash};
    ///
    /// every_crash(async |world: World| {
    ///     let answer = world.call(async |process| {
    ///         let operation = process.idempotency().operation("wait").key("k").no_payload();
    ///         let wait = async |_| {
    ///             let before = world.now();
    ///             tokio::time::sleep(std::time::Duration::from_secs(9)).await; // takes no real time
    ///             Ok::<_, std::time::SystemTimeError>(world.now().duration_since(before)?.as_secs())
    ///         };
    ///         operation.run(wait).await
    ///     });
    ///     assert_eq!(answer.await.unwrap(), 9);
    /// });
    /// ```
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.shared.clock.now()
    }

    /// Runs a call in a new process. `None` if the plan ended it, or if the run has failed.
    async fn process<T>(
        &self,
        number: u32,
        caller: Caller,
        call: &mut impl AsyncFnMut(Process) -> T,
    ) -> Option<T> {
        let shared = &self.shared;
        if CURRENT.get().is_some() {
            shared.fail(NESTED.to_owned());
            return pending().await;
        }
        let machine = match Machine::start(shared.now()) {
            Ok(machine) => Arc::new(machine),
            Err(error) => {
                shared.fail(format!("a runtime could not be started: {error}"));
                return pending().await;
            }
        };
        let id = {
            let mut states = lock(&shared.states);
            states.push(State {
                call: number,
                caller,
                machine: Arc::clone(&machine),
                requests: 0,
                is_dead: false,
                is_repeat: shared.is_written.load(Ordering::SeqCst),
                last: "its start".to_owned(),
                awaits: 0,
            });
            states.len() - 1
        };
        self.began(caller, id);
        let wire = Wire { shared: Arc::clone(shared), process: Some(id) };
        let process = Process {
            parts: Arc::new(Parts { wire, client: OnceLock::new(), idempotency: OnceLock::new() }),
        };
        let longest = shared.now().saturating_add(millis(shared.longest));
        let waker = machine.waker(&shared.woken);
        let mut running = Running { machine: &machine, call: Some(Box::pin(call(process))) };
        let ended = poll_fn(|context| {
            let turn = running.turn(shared, id, &waker);
            if let Turn::Idle = turn {
                if shared.now() >= longest {
                    shared.fail(format!(
                        "the call has not answered for {:?} (of the world's time). Set \
                         EveryCrash::longest_call if it may take longer",
                        shared.longest
                    ));
                } else {
                    lock(&shared.timers).insert(longest);
                }
                shared.wait(context.waker());
                return Poll::Pending;
            }
            Poll::Ready(turn)
        })
        .await;
        drop(running);
        match ended {
            Turn::Answered(answer) => {
                self.answered(id, &machine).await;
                Some(answer)
            }
            // Its tasks continue: it is not a crash.
            Turn::Dropped => None,
            Turn::Crashed => {
                machine.shut_down();
                None
            }
            Turn::Stuck(stuck) => {
                shared.fail(stuck.of(&shared.name_of(id)));
                pending().await
            }
            Turn::Idle => pending().await,
        }
    }

    fn began(&self, caller: Caller, id: usize) {
        let name = self.shared.name_of(id);
        self.shared.event(format!("{name} begins"));
        let mut log = self.shared.log();
        let seconds = (self.shared.now() - BEGINNING) / 1000;
        let is_repeat = matches!(caller, Caller::Attempt(2..));
        if let Some(fault) = log.faults.last_mut().filter(|_| is_repeat) {
            *fault = format!("{fault}; {name} began at {seconds} s");
        }
    }

    /// A process has answered. Its tasks continue, or it ends here.
    async fn answered(&self, id: usize, machine: &Machine) {
        let shared = &self.shared;
        shared.happened(id, "its answer", "answered");
        let ticked = {
            let _current = Current::set(id);
            machine
                .tick_tasks()
                .and_then(|()| machine.run_closures())
                .and_then(|()| machine.tick_tasks())
        };
        if let Err(stuck) = ticked {
            return shared.fail(stuck.of(&shared.name_of(id)));
        }
        if machine.tasks() == 0 {
            return machine.shut_down();
        }
        if shared.reaches(id, Kind::Answered, "answered", |name| {
            format!("crash after {name} had answered, while tasks that it had spawned still ran")
        }) {
            shared.crash(id);
            machine.shut_down();
            return;
        }
        let end = shared.now() + AFTERWARDS;
        while machine.tasks() > 0 && shared.now() < end {
            shared.sleep_until(shared.now() + LATENCY).await;
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 2)
}

/// A call on its machine. It is dropped where it runs.
struct Running<'a, F> {
    machine: &'a Machine,
    call: Option<std::pin::Pin<Box<F>>>,
}

impl<F: Future> Running<'_, F> {
    fn turn(&mut self, shared: &Shared, id: usize, waker: &Arc<CallWaker>) -> Turn<F::Output> {
        // Its clock is ahead while it waits for its next timer.
        let is_ahead = self.machine.clock() > shared.now();
        let Some(call) = self.call.as_mut().filter(|_| !is_ahead && !shared.has_failed()) else {
            return Turn::Idle;
        };
        let _current = Current::set(id);
        self.machine.tick(call.as_mut(), waker, || shared.waits(id))
    }
}

impl<F> Drop for Running<'_, F> {
    fn drop(&mut self) {
        let _context = self.machine.handle().enter();
        self.call = None;
    }
}

/// The process whose code runs, until this value is dropped.
pub(super) struct Current(Option<usize>);

impl Current {
    pub(super) fn set(process: usize) -> Self {
        Self(CURRENT.replace(Some(process)))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// A process of a [`World`], in which one call is made. Clones are the same process.
///
/// ```
/// use dynamodb_idempotency::testing::{World, every_crash};
///
/// every_crash(async |world: World| {
///     let answer = world.call(async |process| {
///         let idempotency = process.idempotency();
///         let operation = idempotency.operation("greet").key("k").no_payload();
///         operation.run(async |_| Ok::<_, std::io::Error>(1)).await
///     });
///     assert_eq!(answer.await.unwrap(), 1);
/// });
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Process")]
pub struct Process {
    parts: Arc<Parts>,
}

struct Parts {
    wire: Wire,
    client: OnceLock<Client>,
    idempotency: OnceLock<Idempotency>,
}

impl Process {
    /// The [`Idempotency`] of this process, on the world's table, with the default policy.
    ///
    /// ```
    /// use dynamodb_idempotency::testing::{World, every_crash};
    ///
    /// every_crash(async |world: World| {
    ///     let answer = world.call(async |process| {
    ///         let operation = process.idempotency().operation("greet").key("k").no_payload();
    ///         operation.run(async |_| Ok::<_, std::io::Error>(1)).await
    ///     });
    ///     assert_eq!(answer.await.unwrap(), 1);
    /// });
    /// ```
    #[must_use]
    pub fn idempotency(&self) -> Idempotency {
        self.parts.idempotency.get_or_init(|| self.builder().assemble()).clone()
    }

    /// A builder for an [`Idempotency`] of this process with settings of your own.
    ///
    /// The world's table has the default schema. For another schema, create a table in the test, with
    /// [`World::client`] and [`Idempotency::create_table`].
    ///
    /// ```
    /// use dynamodb_idempotency::policy::Takeover;
    /// use dynamodb_idempotency::testing::{World, every_crash};
    ///
    /// every_crash(async |world: World| {
    ///     let answer = world.call(async |process| {
    ///         let builder = process.builder().policy(|policy| policy.takeover(Takeover::Reject));
    ///         let operation = builder.build().unwrap().operation("greet").key("k").no_payload();
    ///         operation.run(async |_| Ok::<_, std::io::Error>(1)).await
    ///     });
    ///     answer.await.unwrap_or(0); // an error after a crash: takeovers are rejected
    /// });
    /// ```
    pub fn builder(&self) -> Builder {
        Idempotency::builder(self.client(), TABLE).enabled()
    }

    /// The DynamoDB client of this process, for tables of your own. The process can crash at each of
    /// its requests.
    ///
    /// ```
    /// use dynamodb_idempotency::testing::{World, every_crash};
    ///
    /// every_crash(async |world: World| {
    ///     let tables = world.call(async |process| {
    ///         process.client().list_tables().send().await.unwrap().table_names().len()
    ///     });
    ///     assert_eq!(tables.await, 1);
    /// });
    /// ```
    #[must_use]
    pub fn client(&self) -> Client {
        let Parts { wire, client, .. } = &*self.parts;
        client.get_or_init(|| transport::client(wire.clone(), &wire.shared.clock)).clone()
    }
}
