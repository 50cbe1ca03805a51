//! Runs one schedule on the crate's real code. The callers' futures are polled by hand, so every event is a
//! [`Step`].

mod choices;
mod state;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use aws_smithy_runtime_api::client::result::ConnectorError;
use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::testing::transport::Response;
use futures::task::AtomicWaker;
use tokio::task::unconstrained;

use crate::guarantee::{CallOutcome, Guarantee};
use crate::network::{broken, timed_out};
use crate::scenarios::Scenario;
use crate::step::{Fate, Step};
use crate::world::{self, HandlerEnd, Parked};

/// The start of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) scenario: &'static str,
    pub(crate) skews: Vec<i64>,
    /// Where in its second the store's clock starts, in ms.
    pub(crate) phase: i64,
    /// Seed of the callers' jitter. Without a seed, each delay is the longest that jitter allows.
    pub(crate) jitter: Option<u64>,
}

/// How many faults are still allowed.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Budget {
    pub(crate) faults: u32,
    pub(crate) failures: u32,
    pub(crate) pauses: u32,
    /// How often clocks may be set or frozen.
    pub(crate) clocks: u32,
    /// How often timers may fire while a handler runs.
    pub(crate) handler_timers: u32,
    pub(crate) fates: &'static [Fate],
}

/// The longest delay that a caller waits for.
const LONGEST_WAIT: Duration = Duration::from_secs(16);

type Call = Pin<Box<dyn Future<Output = CallOutcome>>>;

pub(crate) struct Simulation {
    pub(crate) scenario: &'static Scenario,
    pub(crate) budget: Budget,
    calls: Vec<Option<Call>>,
    wake_flags: Vec<Arc<WakeFlag>>,
    started: usize,
    pub(crate) outcomes: Vec<Option<CallOutcome>>,
    pub(crate) is_finished: bool,
    /// Time has passed and no timer has fired.
    pub(crate) is_idle: bool,
    /// Callers whose local steps need no other order: no other caller has taken a step since their last one.
    fresh: Vec<bool>,
    driver: Arc<AtomicWaker>,
    /// The instance that all callers share, in a scenario with one process.
    process: Option<Idempotency>,
}

/// Whether a caller's waker was called.
struct WakeFlag {
    is_set: AtomicBool,
    driver: Arc<AtomicWaker>,
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.is_set.store(true, Ordering::Relaxed);
        self.driver.wake();
    }
}

impl Simulation {
    pub(crate) fn begin(setup: &Setup, scenario: &'static Scenario, budget: Budget) -> Self {
        world::begin(&setup.skews, setup.phase, setup.jitter);
        world::with(|world| {
            world.handlers_continue = scenario.handlers_continue;
            world.ledger.max_attempts = scenario.max_attempts;
        });
        let mut simulation = Self {
            scenario,
            budget,
            calls: Vec::new(),
            wake_flags: Vec::new(),
            started: 0,
            outcomes: Vec::new(),
            is_finished: false,
            is_idle: false,
            fresh: vec![true; setup.skews.len()],
            driver: Arc::default(),
            process: scenario.process(),
        };
        (0..setup.skews.len()).for_each(|caller| simulation.add(caller));
        simulation
    }

    fn add(&mut self, caller: usize) {
        let flag = WakeFlag { is_set: AtomicBool::new(false), driver: Arc::clone(&self.driver) };
        self.wake_flags.push(Arc::new(flag));
        self.fresh.resize(caller + 1, true);
        self.calls
            .push(Some(Box::pin(unconstrained(self.scenario.begin(caller, self.process.clone())))));
        self.outcomes.push(None);
    }

    fn is_woken(&self, caller: usize) -> bool {
        self.wake_flags[caller].is_set.load(Ordering::Relaxed)
    }

    fn runs(&self, caller: usize) -> bool {
        caller < self.started && self.outcomes[caller].is_none()
    }

    pub(crate) async fn apply(&mut self, step: Step) {
        self.refresh(step);
        match step {
            Step::Start(caller) => {
                self.started = caller + 1;
                world::with(|world| world.start(caller));
                self.resume(caller, "start");
            }
            Step::Request(caller, slot, fate) => self.request(caller, slot, fate),
            Step::Handler(caller, end) => self.end_handler(caller, end),
            Step::Wake(caller) => {
                if world::with(|world| world.callers[caller].waits()) {
                    self.budget.faults -= 1;
                }
                self.resume(caller, "wake");
            }
            Step::Die(caller) => {
                self.budget.faults -= 1;
                self.calls[caller] = None;
                self.end_call(caller, CallOutcome::Dropped);
            }
            Step::Jump(caller, millis) => {
                self.budget.faults -= 1;
                self.budget.clocks -= 1;
                world::with(|world| world.change_clock(caller, millis, 0));
            }
            Step::Freeze(caller, millis) => {
                self.budget.faults -= 1;
                self.budget.clocks -= 1;
                world::with(|world| world.change_clock(caller, 0, millis));
                pass(millis).await;
            }
            Step::Tick => self.tick().await,
            Step::Pause(millis) => {
                self.budget.faults -= 1;
                self.budget.pauses -= 1;
                pass(millis).await;
            }
            Step::Arrive(index) => world::with(|world| {
                let request = world.late.remove(index);
                world.execute(&request, false);
            }),
            Step::Expire => world::with(world::World::expire),
            Step::Finish => self.is_finished = true,
        }
    }

    fn request(&mut self, caller: usize, slot: usize, fate: Fate) {
        if fate != Fate::Deliver {
            self.budget.faults -= 1;
        }
        let (reply, delivery) = world::with(|world| {
            let parked = world.callers[caller].parked[slot].take();
            let Parked { request, reply } = parked.expect("the request is parked");
            let now = world.now();
            if matches!(fate, Fate::Deliver | Fate::Twice | Fate::LoseReply) {
                let executed = world.execute(&request, fate != Fate::LoseReply);
                if fate != Fate::LoseReply {
                    world.ledger.answered(now, &request, &executed);
                    if fate == Fate::Twice {
                        world.delay(request);
                    }
                    world.note(caller, (slot, world::digest(&executed.body)));
                    return (reply, Some(world.arrive(executed.response())));
                }
                world.ledger.unanswered(&request);
            } else if fate == Fate::Stale {
                let executed = world.store.stale(&request.body);
                world.ledger.answered(now, &request, &executed);
                world.ledger.answered_stale(&request);
                world.note(caller, (slot, world::digest(&executed.body)));
                return (reply, Some(world.arrive(executed.response())));
            } else if matches!(fate, Fate::Late | Fate::Hang) {
                world.ledger.unanswered(&request);
                world.delay(request);
            } else {
                world.ledger.unanswered(&request);
            }
            world.note(caller, (slot, fate.observed()));
            let delivery = fault_response(fate).map(|fault| fault.and_then(|it| world.arrive(it)));
            if delivery.is_none() {
                world.callers[caller].hung.push(reply);
                return (tokio::sync::oneshot::channel().0, None);
            }
            (reply, delivery)
        });
        if let Some(delivery) = delivery {
            // The receiver exists: a request whose caller has timed out is not parked.
            let _ = reply.send(delivery);
            self.poll(caller);
        }
    }

    fn end_handler(&mut self, caller: usize, end: HandlerEnd) {
        if end != HandlerEnd::Succeed {
            self.budget.failures -= 1;
        }
        let gate = world::with(|world| world.callers[caller].gate.take());
        let _ = gate.expect("the handler runs").send(end);
        self.resume(caller, end);
    }

    fn resume(&mut self, caller: usize, input: impl std::hash::Hash) {
        world::with(|world| world.note(caller, input));
        self.poll(caller);
    }

    fn poll(&mut self, caller: usize) {
        world::with(|world| world.current = caller);
        let flag = &self.wake_flags[caller];
        let waker = Waker::from(Arc::clone(flag));
        let call = self.calls[caller].as_mut().expect("the call has not returned");
        let polled = loop {
            flag.is_set.store(false, Ordering::Relaxed);
            let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() || !flag.is_set.load(Ordering::Relaxed) {
                break polled;
            }
        };
        world::with(|world| world.sweep(caller));
        if let Poll::Ready(outcome) = polled {
            self.calls[caller] = None;
            self.end_call(caller, outcome);
        }
    }

    fn end_call(&mut self, caller: usize, outcome: CallOutcome) {
        self.wake_flags[caller].is_set.store(false, Ordering::Relaxed);
        world::with(|world| {
            world.sweep(caller);
            let state = &mut world.callers[caller];
            state.gate = None;
            state.hung.clear();
            world.note(caller, format!("{outcome:?}"));
            let now = world.now();
            match outcome {
                CallOutcome::Dropped => world.ledger.call_dropped(caller),
                ref outcome => world.ledger.call_ended(caller, now, outcome),
            }
        });
        self.outcomes[caller] = Some(outcome);
    }

    /// Lets time pass until a caller's timer fires.
    async fn tick(&mut self) {
        let sleeps = |caller: usize| world::with(|world| world.callers[caller].sleeps());
        let waits = |caller: usize| self.runs(caller) && !self.is_woken(caller) && sleeps(caller);
        let waited_for = (0..self.started).any(waits);
        self.budget.handler_timers =
            self.budget.handler_timers.saturating_sub(u32::from(!waited_for));
        // A caller that is woken already stays so until its `wake` step; only newly woken callers count.
        let woken: Vec<bool> =
            (0..self.wake_flags.len()).map(|caller| self.is_woken(caller)).collect();
        let flags = self.wake_flags.iter().zip(woken);
        let flags = flags.filter_map(|(flag, is_woken)| (!is_woken).then_some(flag));
        let flags: Vec<_> = flags.collect();
        let new_wake = std::future::poll_fn(|cx| {
            self.driver.register(cx.waker());
            let is_woken = flags.iter().any(|flag| flag.is_set.load(Ordering::Relaxed));
            if is_woken { Poll::Ready(()) } else { Poll::Pending }
        });
        let fired = tokio::time::timeout(LONGEST_WAIT, new_wake).await.is_ok();
        self.is_idle = !fired;
        world::with(|world| {
            let now = world.now();
            world.ledger.time_passed(now);
            let fits = fired || !waited_for;
            world.ledger.check(fits, Guarantee::OutcomeFits, "a call waits without a timer");
        });
    }

    /// After the schedule has ended, waits for a lease and a margin. Then another caller must get an answer.
    pub(crate) async fn run_last_caller(&mut self) {
        pass(self.scenario.margin).await;
        let last = self.calls.len();
        world::with(|world| {
            world.late.clear();
            world.callers.push(world::Caller::default());
            world.ledger.add_caller();
        });
        self.add(last);
        self.budget.handler_timers = u32::MAX;
        self.apply(Step::Start(last)).await;
        while self.outcomes[last].is_none() && world::violation().is_none() {
            let step = world::with(|world| {
                let state = &world.callers[last];
                if let Some(slot) = state.parked.iter().position(Option::is_some) {
                    Step::Request(last, slot, Fate::Deliver)
                } else if state.gate.is_some() {
                    Step::Handler(last, HandlerEnd::Succeed)
                } else if self.is_woken(last) {
                    Step::Wake(last)
                } else {
                    Step::Tick
                }
            });
            self.apply(step).await;
        }
        let outcome = self.outcomes[last].clone();
        world::with(|world| {
            let answered = matches!(
                outcome,
                Some(
                    CallOutcome::Executed(_)
                        | CallOutcome::Replayed(_)
                        | CallOutcome::Reconciled(_)
                )
            );
            let fits = answered || outcome.as_ref().is_some_and(self.scenario.may_end);
            let detail = format!("the last caller ended with {outcome:?}");
            world.ledger.check(fits, Guarantee::KeyComesFree, detail);
            world.ledger.check_end(answered, self.scenario.commits);
        });
    }
}

/// What the client returns for a request with a fault. `None` if it never returns.
fn fault_response(fate: Fate) -> Option<Result<Response, ConnectorError>> {
    let error = |status, name| Some(Ok(Response::error(status, name, "simulated")));
    match fate {
        Fate::LoseReply | Fate::Late => Some(Err(timed_out())),
        Fate::Lose => Some(Err(broken())),
        Fate::Throttle => error(400, "ProvisionedThroughputExceededException"),
        Fate::ServerError => error(500, "InternalServerError"),
        Fate::Conflict => error(400, "TransactionConflictException"),
        Fate::Hang | Fate::Deliver | Fate::Twice | Fate::Stale => None,
    }
}

async fn pass(millis: i64) {
    let millis = u64::try_from(millis).expect("time only moves forward");
    tokio::time::sleep(Duration::from_millis(millis)).await;
    world::with(|world| {
        let now = world.now();
        world.ledger.time_passed(now);
    });
}
