//! The simulated world of one schedule: the store's clock, the requests on their way, and where
//! each caller is. One a thread, since the SDK wants `Send` of what reaches it.

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::client::result::ConnectorError;
use dynamodb_idempotency::Execution;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::guarantee::Violation;
use crate::ledger::Ledger;
use crate::store::{Executed, Operation, RECORDS, Store, is_eventual, is_part, pk};

/// When every simulation begins, in epoch milliseconds.
const BEGINNING: i64 = 1_900_000_000_000;

/// How many requests one caller can have on their way: one of its own, and a renewal beside it.
pub(crate) const SLOTS: usize = 2;

pub(crate) type Delivery = Result<HttpResponse, ConnectorError>;

/// One request, on its way or late.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) caller: usize,
    pub(crate) operation: Operation,
    pub(crate) body: Value,
    pub(crate) digest: u64,
}

impl Request {
    /// Whether it is about a part of an answer.
    pub(crate) fn is_of_a_part(&self) -> bool {
        pk(self.operation, &self.body).is_some_and(is_part)
    }
}

/// What the store was asked, and what it answered.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) operation: Operation,
    pub(crate) request: Value,
    pub(crate) status: u16,
    pub(crate) response: Value,
}

/// A request that somebody still waits for.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) request: Request,
    pub(crate) reply: oneshot::Sender<Delivery>,
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Succeed,
    Fail,
    /// It says that it has executed nothing, and refuses.
    Decline,
}

#[derive(Debug, Default)]
pub(crate) struct Caller {
    /// How far its wall clock is ahead of the store's, in ms.
    pub(crate) skew: i64,
    /// For how long its monotonic clock has stood still, in ms.
    pub(crate) frozen: i64,
    /// All that ever reached it, and when: with the code, this is its whole state.
    pub(crate) history: u64,
    pub(crate) parked: [Option<Parked>; SLOTS],
    /// Of requests that will never be answered.
    pub(crate) hung: Vec<oneshot::Sender<Delivery>>,
    /// Open while its handler runs.
    pub(crate) gate: Option<oneshot::Sender<End>>,
    draws: u64,
}

impl Caller {
    /// Whether only time brings it on.
    pub(crate) fn sleeps(&self) -> bool {
        !self.hung.is_empty() || (!self.waits() && self.gate.is_none())
    }

    /// Whether a request of its is on its way.
    pub(crate) fn waits(&self) -> bool {
        self.parked.iter().any(Option::is_some)
    }
}

#[derive(Debug)]
pub(crate) struct World {
    start: Instant,
    phase: i64,
    jitter: Option<u64>,
    /// Who is being polled.
    pub(crate) current: usize,
    pub(crate) store: Store,
    pub(crate) callers: Vec<Caller>,
    /// Requests that nobody waits for and that can still arrive.
    pub(crate) late: Vec<Request>,
    pub(crate) ledger: Ledger,
    /// Whether handlers go on after their leases.
    pub(crate) handlers_go_on: bool,
    /// All that the store did, where somebody wants to know.
    pub(crate) exchanges: Option<Vec<Exchange>>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    static KEEP_EXCHANGES: Cell<bool> = const { Cell::new(false) };
}

/// What the store does in a simulation of this thread.
pub(crate) fn exchanges(simulate: impl FnOnce()) -> Vec<Exchange> {
    KEEP_EXCHANGES.set(true);
    simulate();
    KEEP_EXCHANGES.set(false);
    with(|world| world.exchanges.take()).unwrap_or_default()
}

/// Begins a new world on this thread.
pub(crate) fn begin(skews: &[i64], phase: i64, jitter: Option<u64>) {
    // Those answers that are stored in parts have one or two.
    dynamodb_idempotency::fault_injection::set_part_bytes(20);
    dynamodb_idempotency::fault_injection::set_entropy(|bytes| with(|world| world.draw(bytes)));
    let world = World {
        start: Instant::now(),
        phase,
        jitter,
        current: 0,
        store: Store::default(),
        callers: skews.iter().map(|&skew| Caller { skew, ..Caller::default() }).collect(),
        late: Vec::new(),
        ledger: Ledger::new(skews.len()),
        handlers_go_on: false,
        exchanges: KEEP_EXCHANGES.get().then(Vec::new),
    };
    WORLD.set(Some(world));
}

pub(crate) fn with<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| f(world.as_mut().expect("a simulation runs on this thread")))
}

/// The first guarantee that was broken.
pub(crate) fn violation() -> Option<Violation> {
    with(|world| world.ledger.violation().cloned())
}

/// What happened, in the eyes of the callers and of the table.
pub(crate) fn history() -> u64 {
    with(|world| digest_of(world.callers.iter().map(|caller| caller.history).collect::<Vec<_>>()))
}

impl World {
    /// The store's clock, in epoch milliseconds.
    pub(crate) fn now(&self) -> i64 {
        BEGINNING + self.phase + self.elapsed()
    }

    pub(crate) fn elapsed(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_millis()).expect("it is short")
    }

    /// Notes down what reaches a caller.
    pub(crate) fn note(&mut self, caller: usize, input: impl Hash) {
        let now = self.elapsed();
        let history = &mut self.callers[caller].history;
        *history = digest_of((*history, now, input));
    }

    /// The only randomness of the crate: owners that tell whose they are, and jitter.
    fn draw(&mut self, bytes: &mut [u8]) {
        let current = self.current;
        let caller = &mut self.callers[current];
        caller.draws += 1;
        if bytes.len() == 16 {
            bytes[0] = 0xa0 + u8::try_from(current).expect("there are few callers");
            bytes[15] = u8::try_from(caller.draws).expect("a call draws little");
            return;
        }
        let byte = match self.jitter {
            Some(seed) => digest_of((seed, current, caller.draws)).to_le_bytes()[0],
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
            self.ledger.transacts(caller);
        }
        if operation != Operation::Get {
            self.ledger.writes(caller);
        }
        self.sweep(caller);
        let slot = self.callers[caller].parked.iter_mut().find(|slot| slot.is_none());
        *slot.expect("a caller sends no third request at once") = Some(Parked { request, reply });
        delivery
    }

    /// Whatever request of the caller's nobody waits for any more stays on its way.
    pub(crate) fn sweep(&mut self, caller: usize) {
        for slot in 0..SLOTS {
            let parked = &mut self.callers[caller].parked[slot];
            if let Some(Parked { request, .. }) = parked.take_if(|parked| parked.reply.is_closed())
            {
                self.ledger.unheard(&request);
                self.delay(request);
            }
        }
        self.callers[caller].hung.retain(|reply| !reply.is_closed());
        // Of a handler that was dropped.
        self.callers[caller].gate.take_if(|gate| gate.is_closed());
    }

    /// Whether a stale answer to this request differs from a fresh one.
    pub(crate) fn can_be_stale(&self, request: &Request) -> bool {
        is_eventual(request.operation, &request.body)
            && self.store.stale(&request.body).before
                != self.store.dry_run(request.operation, &request.body).before
    }

    /// Keeps a request that nobody waits for; a late read changes nothing.
    pub(crate) fn delay(&mut self, request: Request) {
        if request.operation != Operation::Get {
            self.late.push(request);
        }
    }

    /// The store gets a request; its answer will be heard, or not.
    pub(crate) fn execute(&mut self, request: &Request, is_heard: bool) -> Executed {
        let executed = self.store.execute(request.operation, &request.body);
        let now = self.now();
        let answer = executed.after.as_ref().and_then(|item| self.store.answer(item));
        self.ledger.applied(now, request, &executed, is_heard, answer);
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

    /// TTL deletes what is past its retention.
    pub(crate) fn expire(&mut self) {
        let now = self.now();
        for item in self.store.expire(now) {
            if !item["pk"]["S"].as_str().is_some_and(is_part) {
                self.ledger.expired(&item);
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
        self.ledger.started(caller, now, self.store.record());
    }

    /// A handler does the work of a step.
    pub(crate) fn begin_step(&mut self, caller: usize, step: &str) {
        let now = self.now();
        self.ledger.step_started(caller, now, step, self.store.record());
    }

    /// A handler is polled.
    pub(crate) fn polled(&mut self, caller: usize) {
        let now = self.now();
        if !self.handlers_go_on {
            self.ledger.polled(caller, now);
        }
    }

    /// A clock of a caller's is set, or stands still.
    pub(crate) fn turn_clock(&mut self, caller: usize, jump: i64, freeze: i64) {
        let turned = &mut self.callers[caller];
        turned.skew += jump;
        turned.frozen += freeze;
        self.ledger.clock_turned(caller);
        self.note(caller, (jump, freeze));
    }

    /// A handler has begun; it ends when the scheduler says how.
    pub(crate) fn enter(&mut self, caller: usize, execution: &Execution) -> oneshot::Receiver<End> {
        let (gate, end) = oneshot::channel();
        let now = self.now();
        self.ledger.handler_started(caller, now, execution, self.store.record());
        self.callers[caller].gate = Some(gate);
        end
    }
}

/// The clock of one caller's machine.
#[derive(Debug)]
pub(crate) struct LocalClock(pub(crate) usize);

impl TimeSource for LocalClock {
    fn now(&self) -> SystemTime {
        let millis = with(|world| world.now() + world.callers[self.0].skew);
        let millis = u64::try_from(millis).expect("it is after 1970");
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }
}

pub(crate) fn digest_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Of JSON, whatever the order of its members.
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
