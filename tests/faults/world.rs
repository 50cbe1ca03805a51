//! The simulated world of one schedule: the store and its clock, the requests in flight, and the state of
//! each caller. It is thread-local because the SDK requires `Send` of everything that a client owns.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::client::result::ConnectorError;
use dynamodb_idempotency::Execution;
use dynamodb_idempotency::testing::transport::Response;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::guarantee::Violation;
use crate::ledger::Ledger;
use crate::store::{Executed, Operation, RECORDS, Store, is_eventual, is_part, pk};

/// The store's clock at the start of every simulation, in epoch milliseconds.
const BEGINNING: i64 = 1_900_000_000_000;

/// How many requests one caller can have in flight: one of the call itself, and a renewal.
pub(crate) const SLOTS: usize = 2;

pub(crate) type Delivery = Result<HttpResponse, ConnectorError>;

/// A request that is in flight or delayed.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) caller: usize,
    pub(crate) operation: Operation,
    pub(crate) body: Value,
    pub(crate) digest: u64,
}

impl Request {
    /// Whether it reads or writes a part of an answer.
    pub(crate) fn concerns_part(&self) -> bool {
        pk(self.operation, &self.body).is_some_and(is_part)
    }
}

/// A request and the store's response.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) operation: Operation,
    pub(crate) request: Value,
    pub(crate) status: u16,
    pub(crate) response: Value,
}

/// A request whose caller still waits for the response.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) request: Request,
    pub(crate) reply: oneshot::Sender<Delivery>,
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HandlerEnd {
    Succeed,
    Fail,
    /// The handler reports that it executed nothing, and fails.
    Decline,
}

#[derive(Debug, Default)]
pub(crate) struct Caller {
    /// How far its wall clock is ahead of the store's, in ms.
    pub(crate) skew: i64,
    /// For how long its monotonic clock was frozen, in ms.
    pub(crate) frozen: i64,
    /// A digest of every input of the caller and its time. Together with the code it determines the caller's
    /// state.
    pub(crate) history: u64,
    pub(crate) parked: [Option<Parked>; SLOTS],
    /// The channels of requests that will never be answered.
    pub(crate) hung: Vec<oneshot::Sender<Delivery>>,
    /// Ends its handler. Present while the handler runs.
    pub(crate) gate: Option<oneshot::Sender<HandlerEnd>>,
    /// How many random values the caller has requested.
    random_values: u64,
}

impl Caller {
    /// Whether the caller waits for a timer only.
    pub(crate) fn sleeps(&self) -> bool {
        !self.hung.is_empty() || (!self.waits() && self.gate.is_none())
    }

    /// Whether a request of the caller is in flight.
    pub(crate) fn waits(&self) -> bool {
        self.parked.iter().any(Option::is_some)
    }
}

#[derive(Debug)]
pub(crate) struct World {
    start: Instant,
    phase: i64,
    jitter: Option<u64>,
    /// The caller that is being polled.
    pub(crate) current: usize,
    pub(crate) store: Store,
    pub(crate) callers: Vec<Caller>,
    /// Requests that can still arrive after their caller stopped waiting.
    pub(crate) late: Vec<Request>,
    pub(crate) ledger: Ledger,
    /// How often each step ran.
    pub(crate) steps: BTreeMap<String, u32>,
    /// Whether handlers continue after their leases have expired.
    pub(crate) handlers_continue: bool,
    /// All requests and responses, for the differential test.
    pub(crate) exchanges: Option<Vec<Exchange>>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    static KEEP_EXCHANGES: Cell<bool> = const { Cell::new(false) };
}

/// All requests and responses of the store during `simulate`.
pub(crate) fn exchanges(simulate: impl FnOnce()) -> Vec<Exchange> {
    KEEP_EXCHANGES.set(true);
    simulate();
    KEEP_EXCHANGES.set(false);
    with(|world| world.exchanges.take()).unwrap_or_default()
}

/// Begins a new world on this thread.
pub(crate) fn begin(skews: &[i64], phase: i64, jitter: Option<u64>) {
    // So small that an answer in parts has one or two of them.
    dynamodb_idempotency::internals::set_part_bytes(20);
    dynamodb_idempotency::internals::set_entropy(|bytes| {
        with(|world| world.random_bytes(bytes));
    });
    let world = World {
        start: Instant::now(),
        phase,
        jitter,
        current: 0,
        store: Store::default(),
        callers: skews.iter().map(|&skew| Caller { skew, ..Caller::default() }).collect(),
        late: Vec::new(),
        ledger: Ledger::new(skews.len()),
        steps: BTreeMap::new(),
        handlers_continue: false,
        exchanges: KEEP_EXCHANGES.get().then(Vec::new),
    };
    WORLD.set(Some(world));
}

pub(crate) fn with<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| f(world.as_mut().expect("a simulation runs on this thread")))
}

/// The first violation.
pub(crate) fn violation() -> Option<Violation> {
    with(|world| world.ledger.violation().cloned())
}

/// A digest of everything that callers observed.
pub(crate) fn history() -> u64 {
    with(|world| digest_of(world.callers.iter().map(|caller| caller.history).collect::<Vec<_>>()))
}

impl World {
    /// The store's clock, in epoch milliseconds.
    pub(crate) fn now(&self) -> i64 {
        BEGINNING + self.phase + self.elapsed()
    }

    /// A response as it arrives, with a `Date` by the store's clock.
    pub(crate) fn arrive(&self, response: Response) -> Delivery {
        response.arrive(Some(self.now().try_into().expect("the time is after 1970")))
    }

    pub(crate) fn elapsed(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_millis()).expect("a simulation is short")
    }

    /// Adds an input to the history of a caller.
    pub(crate) fn note(&mut self, caller: usize, input: impl Hash) {
        let now = self.elapsed();
        let history = &mut self.callers[caller].history;
        *history = digest_of((*history, now, input));
    }

    /// The crate's only source of randomness. An owner id contains the caller's number; other values are
    /// jitter.
    fn random_bytes(&mut self, bytes: &mut [u8]) {
        let current = self.current;
        let caller = &mut self.callers[current];
        caller.random_values += 1;
        if bytes.len() == 16 {
            bytes[0] = 0xa0 + u8::try_from(current).expect("there are few callers");
            bytes[15] =
                u8::try_from(caller.random_values).expect("a call requests few random values");
            return;
        }
        let byte = match self.jitter {
            Some(seed) => digest_of((seed, current, caller.random_values)).to_le_bytes()[0],
            None => u8::MAX,
        };
        bytes.fill(byte);
    }

    pub(crate) fn send(
        &mut self,
        caller: usize,
        operation: Operation,
        body: Value,
    ) -> oneshot::Receiver<Delivery> {
        let (reply, delivery) = oneshot::channel();
        let digest = digest_of((caller, operation, digest(&body)));
        let request = Request { caller, operation, body, digest };
        if operation == Operation::Transact {
            self.ledger.transaction_sent(caller);
        }
        if operation != Operation::Get {
            self.ledger.write_sent(caller);
        }
        self.sweep(caller);
        let slot = self.callers[caller].parked.iter_mut().find(|slot| slot.is_none());
        *slot.expect("a caller has at most two requests in flight") =
            Some(Parked { request, reply });
        delivery
    }

    /// Requests that the caller has stopped waiting for become delayed requests.
    pub(crate) fn sweep(&mut self, caller: usize) {
        for slot in 0..SLOTS {
            let parked = &mut self.callers[caller].parked[slot];
            if let Some(Parked { request, .. }) = parked.take_if(|parked| parked.reply.is_closed())
            {
                self.ledger.unanswered(&request);
                self.delay(request);
            }
        }
        self.callers[caller].hung.retain(|reply| !reply.is_closed());
        // The handler was dropped.
        self.callers[caller].gate.take_if(|gate| gate.is_closed());
    }

    /// Whether this request can return a stale item that differs from the latest one.
    pub(crate) fn can_be_stale(&self, request: &Request) -> bool {
        is_eventual(request.operation, &request.body)
            && self.store.stale(&request.body).before
                != self.store.dry_run(request.operation, &request.body).before
    }

    /// Keeps a delayed request. A delayed read is dropped, because it changes nothing.
    pub(crate) fn delay(&mut self, request: Request) {
        if request.operation != Operation::Get {
            self.late.push(request);
        }
    }

    /// The store executes a request. `is_answered` if the caller will get the response.
    pub(crate) fn execute(&mut self, request: &Request, is_answered: bool) -> Executed {
        let executed = self.store.execute(request.operation, &request.body);
        let now = self.now();
        let answer = executed.after.as_ref().and_then(|item| self.store.answer(item));
        self.ledger.applied(now, request, &executed, is_answered, answer);
        if let Some(exchanges) = &mut self.exchanges {
            exchanges.push(Exchange {
                operation: request.operation,
                request: request.body.clone(),
                status: executed.status,
                response: executed.body.clone(),
            });
        }
        executed
    }

    /// TTL deletes the items whose retention is over.
    pub(crate) fn expire(&mut self) {
        let now = self.now();
        for item in self.store.expire(now) {
            if !item["pk"]["S"].as_str().is_some_and(is_part) {
                self.ledger.record_expired(&item);
            }
            if let Some(exchanges) = &mut self.exchanges {
                exchanges.push(Exchange {
                    operation: Operation::Delete,
                    request: json!({ "TableName": RECORDS, "Key": { "pk": item["pk"] } }),
                    status: 200,
                    response: json!({}),
                });
            }
        }
    }

    /// A call begins.
    pub(crate) fn start(&mut self, caller: usize) {
        let now = self.now();
        self.ledger.call_started(caller, now, self.store.record());
    }

    /// A handler runs a step.
    pub(crate) fn begin_step(&mut self, caller: usize, step: &str) {
        let now = self.now();
        *self.steps.entry(step.to_owned()).or_default() += 1;
        self.ledger.step_started(caller, now, step, self.store.record());
    }

    /// A handler is polled.
    pub(crate) fn polled(&mut self, caller: usize) {
        let now = self.now();
        if !self.handlers_continue {
            self.ledger.handler_polled(caller, now);
        }
    }

    /// A caller's wall clock is set, or its monotonic clock is frozen.
    pub(crate) fn change_clock(&mut self, caller: usize, jump: i64, freeze: i64) {
        let clocks = &mut self.callers[caller];
        clocks.skew += jump;
        clocks.frozen += freeze;
        self.ledger.clock_changed(caller);
        self.note(caller, (jump, freeze));
    }

    /// A handler has started. The receiver gets the end that the schedule chooses.
    pub(crate) fn enter(
        &mut self,
        caller: usize,
        execution: &Execution,
    ) -> oneshot::Receiver<HandlerEnd> {
        let (gate, end) = oneshot::channel();
        let now = self.now();
        self.ledger.handler_started(caller, now, execution, self.store.record());
        self.callers[caller].gate = Some(gate);
        end
    }
}

/// The wall clock of one caller's machine.
#[derive(Debug)]
pub(crate) struct LocalClock(pub(crate) usize);

impl TimeSource for LocalClock {
    fn now(&self) -> SystemTime {
        let millis = with(|world| world.now() + world.callers[self.0].skew);
        let millis = u64::try_from(millis).expect("the time is after 1970");
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }
}

pub(crate) fn digest_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A digest of JSON that does not depend on the order of its members.
pub(crate) fn digest(value: &Value) -> u64 {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| digest_of((name, digest(value))))
            .fold(0, u64::wrapping_add),
        Value::Array(values) => digest_of(values.iter().map(digest).collect::<Vec<_>>()),
        Value::String(text) => digest_of(text),
        Value::Bool(bool) => digest_of(bool),
        Value::Null | Value::Number(_) => digest_of(value.to_string()),
    }
}
