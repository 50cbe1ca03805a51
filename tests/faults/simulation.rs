//! One schedule on the crate's real code: callers are polled by hand, so nothing moves but by a
//! [`Step`].

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use dynamodb_idempotency::Idempotency;
use futures::task::AtomicWaker;
use tokio::task::unconstrained;

use crate::guarantee::{Ended, Guarantee};
use crate::network::{broken, error, response, timed_out};
use crate::scenarios::Scenario;
use crate::step::{Fate, Step};
use crate::store::{Operation, is_expired};
use crate::world::{self, Delivery, End, Parked, digest_of};

/// How a schedule begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) scenario: &'static str,
    pub(crate) skews: Vec<i64>,
    /// How far the store's clock is into a second, in ms.
    pub(crate) phase: i64,
    /// Seed of the callers' jitter; without one they wait as long as they can.
    pub(crate) jitter: Option<u64>,
}

/// How much may still go wrong.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Budget {
    pub(crate) faults: u32,
    pub(crate) failures: u32,
    pub(crate) pauses: u32,
    /// How often clocks may be set, or stand still.
    pub(crate) clocks: u32,
    pub(crate) beats: u32,
    pub(crate) fates: &'static [Fate],
}

/// No timer of a caller's is set to more: that of one that follows another's request, for three of them.
const LONGEST_WAIT: Duration = Duration::from_secs(16);

/// By how much clocks are set, in ms.
const JUMPS: [i64; 2] = [-300_000, 300_000];

type Call = Pin<Box<dyn Future<Output = Ended>>>;

pub(crate) struct Simulation {
    pub(crate) scenario: &'static Scenario,
    pub(crate) budget: Budget,
    calls: Vec<Option<Call>>,
    flags: Vec<Arc<Flag>>,
    started: usize,
    pub(crate) endings: Vec<Option<Ended>>,
    pub(crate) is_finished: bool,
    /// Time has passed and nobody's timer has gone off.
    pub(crate) is_idle: bool,
    /// Callers that nothing has overtaken since they moved last, or time did.
    fresh: Vec<bool>,
    driver: Arc<AtomicWaker>,
    /// What the callers share, if anything.
    process: Option<Idempotency>,
}

/// Whether a caller wants to be polled.
struct Flag {
    is_up: AtomicBool,
    driver: Arc<AtomicWaker>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.is_up.store(true, Ordering::Relaxed);
        self.driver.wake();
    }
}

impl Simulation {
    pub(crate) fn begin(setup: &Setup, scenario: &'static Scenario, budget: Budget) -> Self {
        world::begin(&setup.skews, setup.phase, setup.jitter);
        world::with(|world| {
            world.handlers_go_on = scenario.handlers_go_on;
            world.ledger.max_attempts = scenario.max_attempts;
        });
        let mut simulation = Self {
            scenario,
            budget,
            calls: Vec::new(),
            flags: Vec::new(),
            started: 0,
            endings: Vec::new(),
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
        let flag = Flag { is_up: AtomicBool::new(false), driver: Arc::clone(&self.driver) };
        self.flags.push(Arc::new(flag));
        self.fresh.resize(caller + 1, true);
        self.calls
            .push(Some(Box::pin(unconstrained(self.scenario.begin(caller, self.process.clone())))));
        self.endings.push(None);
    }

    fn is_up(&self, caller: usize) -> bool {
        self.flags[caller].is_up.load(Ordering::Relaxed)
    }

    fn runs(&self, caller: usize) -> bool {
        caller < self.started && self.endings[caller].is_none()
    }

    /// Every step that can come next; the first one is the way without faults.
    pub(crate) fn enabled(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(32);
        let running: Vec<usize> = (0..self.started).filter(|&caller| self.runs(caller)).collect();
        world::with(|world| {
            for &caller in &running {
                let state = &world.callers[caller];
                for (slot, _) in
                    state.parked.iter().enumerate().filter(|(_, parked)| parked.is_some())
                {
                    steps.push(Step::Request(caller, slot, Fate::Deliver));
                }
                if self.is_up(caller) && (!state.waits() || self.budget.faults > 0) {
                    steps.push(Step::Wake(caller));
                }
                if state.gate.is_some() {
                    steps.push(Step::Handler(caller, End::Succeed));
                }
            }
            // Callers are alike: who starts first is called A.
            if self.started < self.calls.len() {
                steps.push(Step::Start(self.started));
            }
            if self.may_tick(world, &running) {
                steps.push(Step::Tick);
            }
            if running.is_empty() && self.started == self.calls.len() {
                steps.push(Step::Finish);
            }
            for (index, late) in world.late.iter().enumerate() {
                let is_new = world.late[..index].iter().all(|other| other.digest != late.digest);
                // One that changes nothing is as good as one that never arrives.
                let executed = world.store.dry_run(late.operation, &late.body);
                if is_new && executed.before != executed.after {
                    steps.push(Step::Arrive(index));
                }
            }
            if world.store.record().is_some_and(|item| is_expired(item, world.now())) {
                steps.push(Step::Expire);
            }
            self.mishaps(world, &running, &mut steps);
        });
        steps
    }

    fn mishaps(&self, world: &world::World, running: &[usize], steps: &mut Vec<Step>) {
        for &caller in running {
            if world.callers[caller].gate.is_some() && self.budget.failures > 0 {
                steps.extend(self.scenario.ends.iter().map(|&end| Step::Handler(caller, end)));
            }
            if self.budget.faults > 0 {
                for (slot, parked) in world.callers[caller].parked.iter().enumerate() {
                    let Some(parked) = parked else { continue };
                    let is_read = parked.request.operation == Operation::Get;
                    let fates = self.budget.fates.iter().copied();
                    let fates = fates.filter(|fate| !is_read || fate.concerns_reads());
                    let can_be_stale = world.can_be_stale(&parked.request);
                    let fates = fates.filter(|fate| *fate != Fate::Stale || can_be_stale);
                    steps.extend(fates.map(|fate| Step::Request(caller, slot, fate)));
                }
                steps.push(Step::Die(caller));
            }
            let may_turn = self.budget.clocks > 0 && self.scenario.clocks > 0;
            if may_turn && self.budget.faults > 0 && world.callers[caller].gate.is_some() {
                steps.extend(JUMPS.map(|millis| Step::Jump(caller, millis)));
                steps.push(Step::Freeze(caller, self.scenario.pause));
            }
        }
        if self.budget.faults > 0 && self.budget.pauses > 0 && self.started > 0 {
            steps.push(Step::Pause(self.scenario.pause));
        }
    }

    /// The steps that a search needs to look at: of equivalent orders, one.
    ///
    /// A step that touches neither table nor clock can as well be done before what others do at the
    /// same instant. So it comes at once or never, until time passes. Callers in one process touch what
    /// they share with each step.
    pub(crate) fn canonical(&self) -> Vec<Step> {
        let mut steps = self.enabled();
        let sleeps = |caller: usize| world::with(|world| !world.callers[caller].waits());
        let woken = steps.iter().find_map(|step| match *step {
            Step::Wake(caller) if sleeps(caller) => Some(caller),
            _ => None,
        });
        steps.retain(|step| match step.caller() {
            None => woken.is_none(),
            Some(caller) => {
                let is_due = self.scenario.shared || !step.is_local() || self.fresh[caller];
                is_due && woken.is_none_or(|woken| woken == caller)
            }
        });
        steps
    }

    /// Bit by bit, who can still do a local step.
    pub(crate) fn freshness(&self) -> u8 {
        let bits = self.fresh.iter().enumerate();
        bits.fold(0, |mask, (caller, &fresh)| {
            mask | u8::from(fresh && self.endings[caller].is_none()) << caller
        })
    }

    fn refresh(&mut self, step: Step) {
        match step.caller() {
            Some(_) if step.is_local() => {}
            Some(_) => self.fresh.fill(false),
            None => {
                let passes = matches!(step, Step::Tick | Step::Pause(_) | Step::Freeze(..));
                self.fresh.fill(passes);
            }
        }
        if let Some(caller) = step.caller() {
            self.fresh[caller] = true;
        }
    }

    /// Time passes by itself while somebody sleeps, and a little while handlers run.
    fn may_tick(&self, world: &world::World, running: &[usize]) -> bool {
        let wakes = |&caller: &usize| self.is_up(caller) && !world.callers[caller].waits();
        let all_quiet = !running.iter().any(wakes);
        let beats = self.budget.beats > 0
            && running.iter().any(|&caller| world.callers[caller].gate.is_some());
        all_quiet && (beats || running.iter().any(|&caller| world.callers[caller].sleeps()))
    }

    pub(crate) async fn apply(&mut self, step: Step) {
        self.refresh(step);
        match step {
            Step::Start(caller) => {
                self.started = caller + 1;
                world::with(|world| world.start(caller));
                self.reach(caller, "start");
            }
            Step::Request(caller, slot, fate) => self.request(caller, slot, fate),
            Step::Handler(caller, end) => self.end_handler(caller, end),
            Step::Wake(caller) => {
                if world::with(|world| world.callers[caller].waits()) {
                    self.budget.faults -= 1;
                }
                self.reach(caller, "wake");
            }
            Step::Die(caller) => {
                self.budget.faults -= 1;
                self.calls[caller] = None;
                self.close(caller, Ended::Died);
            }
            Step::Jump(caller, millis) => {
                self.budget.faults -= 1;
                self.budget.clocks -= 1;
                world::with(|world| world.turn_clock(caller, millis, 0));
            }
            Step::Freeze(caller, millis) => {
                self.budget.faults -= 1;
                self.budget.clocks -= 1;
                world::with(|world| world.turn_clock(caller, 0, millis));
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
            let Parked { request, reply } = parked.expect("there is a request");
            let now = world.now();
            if matches!(fate, Fate::Deliver | Fate::Twice | Fate::LoseReply) {
                let executed = world.execute(&request, fate != Fate::LoseReply);
                if fate != Fate::LoseReply {
                    world.ledger.heard(now, &request, &executed);
                    if fate == Fate::Twice {
                        world.delay(request);
                    }
                    world.note(caller, (slot, world::digest(&executed.body)));
                    return (reply, Some(Ok(response(executed.status, &executed.body, now))));
                }
                world.ledger.unheard(&request);
            } else if fate == Fate::Stale {
                let executed = world.store.stale(&request.body);
                world.ledger.heard(now, &request, &executed);
                world.ledger.heard_stale(&request);
                world.note(caller, (slot, world::digest(&executed.body)));
                return (reply, Some(Ok(response(executed.status, &executed.body, now))));
            } else if matches!(fate, Fate::Late | Fate::Hang) {
                world.ledger.unheard(&request);
                world.delay(request);
            } else {
                world.ledger.unheard(&request);
            }
            world.note(caller, (slot, fate.heard()));
            let delivery = mishap(fate, now);
            if delivery.is_none() {
                world.callers[caller].hung.push(reply);
                return (tokio::sync::oneshot::channel().0, None);
            }
            (reply, delivery)
        });
        if let Some(delivery) = delivery {
            // Nobody listens any more only if the caller has timed out, and then it is not parked.
            let _ = reply.send(delivery);
            self.poll(caller);
        }
    }

    fn end_handler(&mut self, caller: usize, end: End) {
        if end != End::Succeed {
            self.budget.failures -= 1;
        }
        let gate = world::with(|world| world.callers[caller].gate.take());
        let _ = gate.expect("its handler runs").send(end);
        self.reach(caller, end);
    }

    fn reach(&mut self, caller: usize, input: impl std::hash::Hash) {
        world::with(|world| world.note(caller, input));
        self.poll(caller);
    }

    fn poll(&mut self, caller: usize) {
        world::with(|world| world.current = caller);
        let flag = &self.flags[caller];
        let waker = Waker::from(Arc::clone(flag));
        let call = self.calls[caller].as_mut().expect("it runs");
        let polled = loop {
            flag.is_up.store(false, Ordering::Relaxed);
            let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() || !flag.is_up.load(Ordering::Relaxed) {
                break polled;
            }
        };
        world::with(|world| world.sweep(caller));
        if let Poll::Ready(ended) = polled {
            self.calls[caller] = None;
            self.close(caller, ended);
        }
    }

    fn close(&mut self, caller: usize, ended: Ended) {
        self.flags[caller].is_up.store(false, Ordering::Relaxed);
        world::with(|world| {
            world.sweep(caller);
            let state = &mut world.callers[caller];
            state.gate = None;
            state.hung.clear();
            world.note(caller, format!("{ended:?}"));
            let now = world.now();
            match ended {
                Ended::Died => world.ledger.died(caller),
                ref ended => world.ledger.ended(caller, now, ended),
            }
        });
        self.endings[caller] = Some(ended);
    }

    /// Lets time pass until somebody's timer goes off.
    async fn tick(&mut self) {
        let sleeps = |caller: usize| world::with(|world| world.callers[caller].sleeps());
        let waits = |caller: usize| self.runs(caller) && !self.is_up(caller) && sleeps(caller);
        let waited_for = (0..self.started).any(waits);
        self.budget.beats = self.budget.beats.saturating_sub(u32::from(!waited_for));
        // Those that are up stay so until they are woken: only a new ring counts.
        let up: Vec<bool> = (0..self.flags.len()).map(|caller| self.is_up(caller)).collect();
        let flags = self.flags.iter().zip(up).filter_map(|(flag, up)| (!up).then_some(flag));
        let flags: Vec<_> = flags.collect();
        let rings = std::future::poll_fn(|cx| {
            self.driver.register(cx.waker());
            let rings = flags.iter().any(|flag| flag.is_up.load(Ordering::Relaxed));
            if rings { Poll::Ready(()) } else { Poll::Pending }
        });
        let rang = tokio::time::timeout(LONGEST_WAIT, rings).await.is_ok();
        self.is_idle = !rang;
        world::with(|world| {
            let now = world.now();
            world.ledger.time_passed(now);
            let rang = rang || !waited_for;
            world.ledger.check(rang, Guarantee::OutcomeFits, "a call waits for nothing");
        });
    }

    /// Once all is over: a lease and a margin later somebody else must get an answer.
    pub(crate) async fn close_down(&mut self) {
        pass(self.scenario.margin).await;
        let last = self.calls.len();
        world::with(|world| {
            world.late.clear();
            world.callers.push(world::Caller::default());
            world.ledger.add_party();
        });
        self.add(last);
        self.budget.beats = u32::MAX;
        self.apply(Step::Start(last)).await;
        while self.endings[last].is_none() && world::violation().is_none() {
            let step = world::with(|world| {
                let state = &world.callers[last];
                if let Some(slot) = state.parked.iter().position(Option::is_some) {
                    Step::Request(last, slot, Fate::Deliver)
                } else if state.gate.is_some() {
                    Step::Handler(last, End::Succeed)
                } else if self.is_up(last) {
                    Step::Wake(last)
                } else {
                    Step::Tick
                }
            });
            self.apply(step).await;
        }
        let ended = self.endings[last].clone();
        world::with(|world| {
            let answered = matches!(
                ended,
                Some(Ended::Executed(_) | Ended::Replayed(_) | Ended::Reconciled(_))
            );
            let fits = answered || ended.as_ref().is_some_and(self.scenario.may_end);
            let detail = format!("the last caller ended with {ended:?}");
            world.ledger.check(fits, Guarantee::KeyComesFree, detail);
            world.ledger.closing(answered, self.scenario.commits);
        });
    }

    /// All that the rest of the schedule depends on.
    pub(crate) fn state(&self) -> u64 {
        let up: Vec<bool> = (0..self.calls.len()).map(|caller| self.is_up(caller)).collect();
        world::with(|world| {
            let items: Vec<u64> = world
                .store
                .items()
                .values()
                .map(|item| {
                    item.iter()
                        .map(|(name, value)| digest_of((name, world::digest(value))))
                        .fold(0, u64::wrapping_add)
                })
                .collect();
            // What an ended caller went through matters to nobody any more, but in its own process.
            let is_over = |ended: &Option<Ended>| ended.is_some() && !self.scenario.shared;
            let callers: Vec<u64> = (world.callers.iter().zip(&self.endings))
                .map(|(caller, ended)| if is_over(ended) { 0 } else { caller.history })
                .collect();
            // Only where somebody may be shown it.
            let earlier: Vec<u64> = (world.store.earlier())
                .filter(|_| self.scenario.reads_stale)
                .map(|(key, item)| {
                    digest_of((
                        key,
                        item.as_ref().map(|item| {
                            item.iter()
                                .map(|(name, value)| digest_of((name, world::digest(value))))
                                .fold(0, u64::wrapping_add)
                        }),
                    ))
                })
                .collect();
            let mut late: Vec<u64> = world.late.iter().map(|request| request.digest).collect();
            late.sort_unstable();
            digest_of((
                up,
                (items, earlier),
                callers,
                late,
                world.elapsed(),
                self.budget,
                world.ledger.digest(),
            ))
        })
    }
}

/// What a caller hears of a request that was not answered; `None`: nothing at all.
fn mishap(fate: Fate, now: i64) -> Option<Delivery> {
    match fate {
        Fate::LoseReply | Fate::Late => Some(Err(timed_out())),
        Fate::Lose => Some(Err(broken())),
        Fate::Throttle => {
            Some(Ok(response(400, &error("ProvisionedThroughputExceededException"), now)))
        }
        Fate::ServerError => Some(Ok(response(500, &error("InternalServerError"), now))),
        Fate::Conflict => Some(Ok(response(400, &error("TransactionConflictException"), now))),
        Fate::Hang | Fate::Deliver | Fate::Twice | Fate::Stale => None,
    }
}

async fn pass(millis: i64) {
    let millis = u64::try_from(millis).expect("time passes forwards");
    tokio::time::sleep(Duration::from_millis(millis)).await;
    world::with(|world| {
        let now = world.now();
        world.ledger.time_passed(now);
    });
}
