//! A state of the whole world (the table, the network, the processes and their clocks), and the states
//! that can follow it.
//!
//! Three faults need no move. A dead process makes no further move. A lost request is a delayed one that
//! never arrives. A request whose reply is lost is a delayed request that arrives at once.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::clock::{Clock, TICK, date, store_time};
use crate::handler;
use crate::oracle::Ledger;
use crate::process::{Acquiring, Answer, Phase, Place, Process, Slot, Task};
use crate::rows::{MAX_CALLERS, Role, Row, Ttl};
use crate::store::{Sender, Store, Stored, Wire, outcome};
use crate::turn::Turn;
use dynamodb_idempotency_protocol::OwnerId;
use dynamodb_idempotency_protocol::{
    Cause, Condition, Form, Outcome, ReadResult, RecordMeta, Resolution, State as Stands,
    WriteResult, released_until,
};

/// The callers, and one more caller that begins when the others have ended.
pub(crate) const SEATS: usize = MAX_CALLERS + 1;

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) tick: u8,
    /// How many more faults there may be.
    pub(crate) faults: u8,
    pub(crate) store: Store,
    pub(crate) ledger: Ledger,
    pub(crate) slots: [Arc<Slot>; SEATS],
    pub(crate) violation: Option<&'static str>,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { tick, faults, store, ledger, slots, violation } = self;
        (tick, faults, store, ledger).hash(state);
        slots[..MAX_CALLERS].iter().for_each(|slot| slot.hash(state));
        violation.is_some().hash(state);
    }
}

/// A move from one state to the next, in the words of the schedules of `tests/faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) who: Option<usize>,
    pub(crate) what: &'static str,
    pub(crate) number: Option<i64>,
}

impl Move {
    pub(crate) const PAUSE: Self = Self::of_all("pause", Some(TICK));

    const fn of_all(what: &'static str, number: Option<i64>) -> Self {
        Self { who: None, what, number }
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(letter) = self.who.and_then(|who| "ABCZ".chars().nth(who)) {
            write!(f, "{letter}.")?;
        }
        f.write_str(self.what)?;
        self.number.map_or(Ok(()), |number| write!(f, ":{number}"))
    }
}

/// Receives the states that can follow.
pub(crate) type Emit<'a> = dyn FnMut(Move, State) + 'a;

impl State {
    pub(crate) fn new(row: &Row) -> Self {
        let slots = std::array::from_fn(|seat| {
            let process = match row.roles().get(seat) {
                Some(role) => Process::new(row, role),
                None => Process::finished(crate::process::Fate::default()),
            };
            Slot::of(process)
        });
        Self {
            tick: 0,
            faults: row.faults,
            store: Store::new(),
            ledger: Ledger::default(),
            slots,
            violation: None,
        }
    }

    pub(crate) fn process(&self, seat: usize) -> &Process {
        &self.slots[seat].process
    }

    pub(crate) fn is_over(&self) -> bool {
        self.slots.iter().all(|slot| slot.process.is_over())
    }

    pub(crate) fn violate(&mut self, what: &'static str) {
        self.violation.get_or_insert(what);
    }

    pub(crate) fn successors(&self, row: &Row, emit: &mut Emit<'_>) {
        if self.violation.is_some() {
            return;
        }
        let mut emit = |by: Move, mut state: Self| {
            state.check(row);
            emit(by, state);
        };
        if self.tick < row.ticks && !self.is_over() {
            self.stall().into_iter().for_each(|stalled| emit(Move::PAUSE, stalled.older(row)));
        }
        self.arrivals(row, &mut emit);
        self.expiry(row, &mut emit);
        self.operator(row, &mut emit);
        for seat in 0..row.callers {
            self.moves_of(seat, row, &mut emit);
            self.clock_faults(seat, row, &mut emit);
        }
    }

    /// This state, in which every process with a request in flight is stalled, so that time can pass. A
    /// newly stalled process (stopped, dead, or with a slow network) costs a fault. `None` if too few are left.
    fn stall(&self) -> Option<Self> {
        let mut stalled = self.clone();
        for slot in &mut stalled.slots {
            let process = &slot.process;
            let is_caught = Place::ALL.iter().any(|place| process.request(*place).is_some());
            if is_caught && !process.is_stalled {
                stalled.faults = stalled.faults.checked_sub(1)?;
                *slot = Slot::of(Process { is_stalled: true, ..process.clone() });
            }
        }
        Some(stalled)
    }

    /// One tick later. The retention of a row that [expires](Row::expires) is shorter than a tick.
    fn older(&self, row: &Row) -> Self {
        let mut later = self.later();
        if row.ttl == Ttl::AfterDelays {
            later.store.late.clear();
        }
        later
    }

    pub(crate) fn later(&self) -> Self {
        Self { tick: self.tick + 1, ..self.clone() }
    }

    pub(crate) fn faulty(&self) -> Self {
        Self { faults: self.faults - 1, ..self.clone() }
    }

    /// A delayed request arrives. One that is rejected is the same as one that never arrives.
    fn arrivals(&self, row: &Row, emit: &mut Emit<'_>) {
        for (place, (caller, wire)) in self.store.late.iter().enumerate() {
            let seat = usize::from(*caller);
            if self.store.takes(wire) {
                let mut next = self.clone();
                next.store.late.remove(place);
                next.execute(row, seat, wire);
                let number = i64::try_from(place).ok();
                emit(Move { who: Some(seat), what: "arrive", number }, next);
            }
        }
    }

    /// TTL deletes a record that is past its retention.
    fn expiry(&self, row: &Row, emit: &mut Emit<'_>) {
        let now = store_time(self.tick);
        let is_garbage = |record: &crate::store::Stored| record.meta.is_past_retention(now);
        let is_time = match row.ttl {
            Ttl::Never | Ttl::TooLate => false,
            Ttl::AfterDelays => self.store.late.is_empty(),
            Ttl::AnyTime => true,
        };
        if is_time && self.store.record.as_ref().is_some_and(is_garbage) {
            let mut next = self.clone();
            next.store.record = None;
            next.ledger.reset();
            emit(Move::of_all("expire", None), next);
        }
    }

    /// An operator deletes the record, or releases it. Both begin a new life of the key.
    fn operator(&self, row: &Row, emit: &mut Emit<'_>) {
        let Some(record) = &self.store.record else { return };
        if !row.has_operator || self.faults == 0 {
            return;
        }
        let owner = record.meta.owner;
        let mut deleted = self.faulty();
        deleted.store.before = deleted.store.record.take();
        deleted.ledger.removed(owner);
        // Not promised: a delayed acquisition of the earlier life locks the key. See the page about the guarantees.
        deleted.store.late.retain(|(_, wire)| !(asks_for_none(wire) && takes_key(wire)));
        emit(Move::of_all("delete", None), deleted);
        if record.meta.state == Stands::Released {
            return;
        }
        let mut released = self.faulty();
        let meta = RecordMeta {
            // No call has this id, and no two releases by hand have the same one.
            owner: OwnerId(1_000 + u128::from(self.faults)),
            state: Stands::Released,
            completed_at: None,
            expires_at: released_until(store_time(self.tick), store_time(self.tick)),
            steps: None,
            ..record.meta.clone()
        };
        let after = Stored { meta, done: 0, noted: 0, ..record.clone() };
        released.store.before = released.store.record.replace(after);
        released.ledger.removed(owner);
        emit(Move::of_all("release", None), released);
    }

    /// DynamoDB executes a request.
    pub(crate) fn execute(&mut self, row: &Row, seat: usize, wire: &Wire) -> Outcome {
        let sender = sender(row, seat);
        let is_taken = self.store.takes(wire);
        let found = self.store.seen_by(sender.request);
        if is_taken {
            let before = self.store.record.clone();
            self.store.apply(sender, wire);
            if !matches!(wire, Wire::Item(_)) {
                self.applied(row, seat, before.as_ref(), wire);
            }
            if !row.reads_stale() {
                self.store.before = None;
            }
        }
        outcome(wire, is_taken, found)
    }

    /// Drops delayed requests that can never be applied. A request that requires an absent record is dropped
    /// if there is a record and TTL does not delete it. A request that requires its sender's PENDING record
    /// is dropped if the sender neither holds the key nor can still acquire it.
    pub(crate) fn drop_dead_copies(&mut self, row: &Row) {
        if self.store.late.is_empty() {
            return;
        }
        let mut late = std::mem::take(&mut self.store.late);
        let is_there = self.store.record.is_some() && !row.expires() && !row.has_operator;
        late.retain(|(_, wire)| !(is_there && asks_for_none(wire)));
        late.retain(|(_, wire)| !matches!(wire, Wire::Item(_)) || self.store.takes(wire));
        let takers: Vec<_> =
            late.iter().filter(|(_, wire)| takes_key(wire)).map(|late| late.0).collect();
        late.retain(|(caller, wire)| {
            let owner = owner(usize::from(*caller));
            let record = self.store.record.as_ref();
            let is_held = record.is_some_and(|record| record.meta.is_pending_of(&owner));
            let may_take = takers.contains(caller) || !self.process(usize::from(*caller)).is_over();
            is_held || may_take || !requires_holder(wire, &owner)
        });
        self.store.late = late;
    }

    /// The next moves of this process, and of DynamoDB with its request.
    pub(crate) fn moves_of(&self, seat: usize, row: &Row, emit: &mut Emit<'_>) {
        let mut put = |what, turn: Turn<'_>| {
            emit(Move { who: Some(seat), what, number: None }, turn.done());
        };
        match &self.process(seat).phase {
            Phase::Finished(_) => {}
            Phase::Ready => {
                if !self.is_not_yet(seat, row) {
                    put("start", Turn::of(row, self.clone(), seat).start());
                }
            }
            Phase::Acquiring(Acquiring { task, .. }) => match task {
                Task::Request(_) => self.request_moves(seat, Place::Main, row, &mut put),
                Task::Pause => put("wake", Turn::of(row, self.clone(), seat).wake()),
                Task::AskHook => {
                    for (what, resolution) in RESOLUTIONS {
                        put(what, Turn::of(row, self.clone(), seat).resolved(resolution));
                    }
                }
                Task::AskInstead => {
                    put("instead", Turn::of(row, self.clone(), seat).instead(true));
                    put("no-instead", Turn::of(row, self.clone(), seat).instead(false));
                }
            },
            Phase::Executing(execution) => handler::moves(self, execution, seat, row, &mut put),
        }
    }

    /// Equal callers are interchangeable, so they start in order.
    fn is_not_yet(&self, seat: usize, row: &Row) -> bool {
        let earlier = row.roles().get(..seat).unwrap_or_default();
        let is_first = |(other, role): (usize, &Role)| {
            Some(role) == row.roles.get(seat) && self.process(other).phase == Phase::Ready
        };
        earlier.iter().enumerate().any(is_first)
    }

    /// The possible outcomes of a request.
    pub(crate) fn request_moves<'a>(
        &self,
        seat: usize,
        place: Place,
        row: &'a Row,
        put: &mut dyn FnMut(&'static str, Turn<'a>),
    ) {
        let Some(request) = self.process(seat).request(place) else { return };
        let turn = |state: Self| Turn::of(row, state, seat);
        if let Some(answer) = &request.answer {
            return put("hear", turn(self.clone()).hear(place, answer.clone()));
        }
        let wire = &request.wire;
        let (mut done, steps) = (self.clone(), self.store.done());
        let outcome = done.execute(row, seat, wire);
        let date = row.has_dates.then(|| date(self.tick));
        let answer = Answer { outcome, is_in_doubt: false, date, done: steps };
        put("deliver", turn(done.clone()).hear(place, answer.clone()));
        if self.faults == 0 {
            return;
        }
        if row.may_lack_dates() {
            let undated = Answer { date: None, ..answer.clone() };
            put("undated", turn(done.faulty()).hear(place, undated));
        }
        let late = |mut state: Self| {
            state.store.add_late(u8::try_from(seat).unwrap_or(u8::MAX), wire.clone());
            state
        };
        let failed = |outcome, is_in_doubt| Answer { outcome, is_in_doubt, date, done: steps };
        let (unknown, throttled) = failures(wire);
        let lost = Answer { outcome: unknown, is_in_doubt: true, date: None, done: 0 };
        put("late", turn(late(self.faulty())).hear(place, lost));
        put("throttle", turn(self.faulty()).hear(place, failed(throttled.clone(), false)));
        put("slow", turn(done.faulty()).answered(place, answer.clone()));
        if wire.is_read() {
            if *wire == (Wire::Read { is_consistent: false })
                && self.store.before != self.store.record
            {
                let role = row.roles[seat.min(MAX_CALLERS - 1)];
                let stale = ReadResult::Stale(self.store.before_seen_by(role.request));
                let before = self.store.before.as_ref().map_or(0, |stored| stored.done);
                let stale = Answer { done: before, ..failed(Outcome::Read(stale), false) };
                put("stale", turn(self.faulty()).hear(place, stale));
            }
            return;
        }
        let twice = Answer { is_in_doubt: true, ..answer };
        put("twice", turn(late(done.faulty())).hear(place, twice));
        put("late-throttle", turn(late(self.faulty())).hear(place, failed(throttled, true)));
        let conflict = Outcome::Write(WriteResult::Conflict(Cause::Outage));
        put("conflict", turn(self.faulty()).hear(place, failed(conflict, false)));
        if may_refuse_items(wire) && self.store.takes(wire) {
            let rejected = Outcome::Write(WriteResult::ItemsRejected(()));
            put("items", turn(self.faulty()).hear(place, failed(rejected, false)));
        }
    }

    /// Clocks fail only where the machine reads them.
    fn clock_faults(&self, seat: usize, row: &Row, emit: &mut Emit<'_>) {
        let looks = match &self.process(seat).phase {
            Phase::Ready | Phase::Finished(_) => false,
            Phase::Acquiring(_) => true,
            Phase::Executing(execution) => execution.runs(),
        };
        if !row.clocks_fail || self.faults == 0 || !looks {
            return;
        }
        let fault = |what, number| Move { who: Some(seat), what, number: Some(number) };
        for by in [-row.jump, row.jump] {
            emit(fault("jump", by), self.faulty().with_clock(seat, |clock| clock.jump(by)));
        }
        if self.tick < row.ticks
            && let Some(stalled) = self.faulty().stall()
        {
            emit(fault("freeze", TICK), stalled.older(row).with_clock(seat, Clock::freeze));
        }
    }

    fn with_clock(mut self, seat: usize, change: impl FnOnce(&mut Clock)) -> Self {
        let mut process = self.process(seat).clone();
        change(&mut process.clock);
        self.slots[seat] = Slot::of(process);
        self
    }
}

const RESOLUTIONS: [(&str, Resolution); 5] = [
    ("executes", Resolution::Execute),
    ("completed", Resolution::Completed),
    ("commits", Resolution::Committed),
    ("failed", Resolution::Failed),
    ("refuses", Resolution::Refuse),
];

pub(crate) fn owner(seat: usize) -> OwnerId {
    OwnerId(seat as u128)
}

pub(crate) fn sender(row: &Row, seat: usize) -> Sender {
    Sender { owner: owner(seat), request: row.roles[seat.min(MAX_CALLERS - 1)].request }
}

fn asks_for_none(wire: &Wire) -> bool {
    matches!(wire, Wire::Write(write) if write.0.condition == Condition::absent())
}

/// Whether the request would make the record PENDING, owned by the sender.
fn takes_key(wire: &Wire) -> bool {
    matches!(wire, Wire::Write(write) if write.0.record.state.lease_expires_at().is_some())
}

/// Whether the request requires the sender's PENDING record.
fn requires_holder(wire: &Wire, sender: &OwnerId) -> bool {
    match wire {
        Wire::Read { .. } | Wire::Item(_) => false,
        Wire::Write(write) => write.0.condition.requires_holder(sender),
    }
}

/// The outcomes of a request without a response, and of one that DynamoDB throttles.
fn failures(wire: &Wire) -> (Outcome, Outcome) {
    let outage = Cause::Outage;
    if wire.is_read() {
        let failed = Outcome::Read(ReadResult::Failed(outage));
        return (failed.clone(), failed);
    }
    (Outcome::Write(WriteResult::Unknown(outage)), Outcome::Write(WriteResult::NotApplied(outage)))
}

fn may_refuse_items(wire: &Wire) -> bool {
    matches!(wire, Wire::Write(write) if write.0.form() == Form::Transaction)
}
