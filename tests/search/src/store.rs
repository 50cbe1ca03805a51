//! The table: one record, and the delayed requests that may still arrive.

use crate::clock::Clock;
use std::sync::Arc;

use dynamodb_idempotency_protocol::OwnerId;
use dynamodb_idempotency_protocol::time::Timestamp;
use dynamodb_idempotency_protocol::{Outcome, ReadResult, RecordMeta, State, Write, WriteResult};

/// The record in the table, with its request. Each caller compares the record's request with its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) meta: RecordMeta,
    /// Its request.
    pub(crate) request: u8,
    /// The steps in it, one bit each.
    pub(crate) done: u8,
    /// The items that it notes: a set of [`Item`].
    pub(crate) noted: u64,
}

impl Stored {
    pub(crate) fn is_completed(&self) -> bool {
        self.meta.state == State::Completed
    }

    /// The owner whose lease is live at `now` in store time.
    pub(crate) fn live_owner(&self, now: Timestamp) -> Option<OwnerId> {
        let ends = self.meta.state.lease_expires_at()?;
        (now <= ends).then_some(self.meta.owner)
    }

    fn seen_by(&self, request: u8) -> RecordMeta {
        RecordMeta { is_same_request: self.request == request, ..self.meta.clone() }
    }
}

/// The item of a step: its writer's seat, and the step's number. No two attempts have the same result, so their
/// items differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Item {
    pub(crate) seat: u8,
    pub(crate) number: u8,
}

impl Item {
    /// Its bit in a set.
    const fn bit(self) -> u64 {
        1 << (self.seat * 8 + self.number)
    }
}

/// What a process sends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Wire {
    Read {
        is_consistent: bool,
    },
    Write(Arc<WireWrite>),
    /// Puts the item of a step, unless it is there.
    Item(Item),
}

/// A [`Write`], and whether a clock had failed when it was stamped. The flag is always `false` for a renewal.
/// The number is that of the step that it stores, or 0, and the item is the one that it notes. Writes have an order, because the delayed requests are
/// kept sorted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WireWrite(
    pub(crate) Write,
    pub(crate) bool,
    pub(crate) u8,
    pub(crate) Option<Item>,
);

impl PartialOrd for WireWrite {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WireWrite {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        crate::hash::hash(self).cmp(&crate::hash::hash(other))
    }
}

impl Wire {
    pub(crate) fn write(write: Write, clock: &Clock) -> Self {
        Self::Write(Arc::new(WireWrite(write, clock.has_failed(), 0, None)))
    }

    /// A renewal. A wrong clock makes the renewed lease longer by the margin at most, which the checks allow.
    pub(crate) fn renewal(write: Write) -> Self {
        Self::Write(Arc::new(WireWrite(write, false, 0, None)))
    }

    /// The result of a step, or the note of its item.
    pub(crate) fn step(write: Write, number: u8, item: Option<Item>) -> Self {
        Self::Write(Arc::new(WireWrite(write, false, number, item)))
    }

    pub(crate) const fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. })
    }
}

/// The sender: its owner id and its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) owner: OwnerId,
    pub(crate) request: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) record: Option<Stored>,
    /// The record before the last write, for stale reads.
    pub(crate) before: Option<Stored>,
    /// The items of steps: a set of [`Item`].
    items: u64,
    /// Delayed requests and their senders. Sorted.
    pub(crate) late: Vec<(u8, Wire)>,
    /// The hashes of the transactions that were applied. Only in rows with an operator.
    transactions: Vec<u64>,
}

impl Store {
    pub(crate) const fn new() -> Self {
        Self { record: None, before: None, items: 0, late: Vec::new(), transactions: Vec::new() }
    }

    /// Notes that this transaction was applied. Returns whether it is the first time.
    pub(crate) fn note_transaction(&mut self, transaction: &Write) -> bool {
        let hash = crate::hash::hash(transaction);
        let is_new = !self.transactions.contains(&hash);
        if is_new {
            self.transactions.push(hash);
        }
        is_new
    }

    pub(crate) fn seen_by(&self, request: u8) -> Option<RecordMeta> {
        self.record.as_ref().map(|stored| stored.seen_by(request))
    }

    pub(crate) fn before_seen_by(&self, request: u8) -> Option<RecordMeta> {
        self.before.as_ref().map(|stored| stored.seen_by(request))
    }

    /// The steps in the record.
    pub(crate) fn done(&self) -> u8 {
        self.record.as_ref().map_or(0, |stored| stored.done)
    }

    /// Whether the record notes an item that is not there.
    pub(crate) fn misses_item(&self) -> bool {
        self.record.as_ref().is_some_and(|stored| stored.noted & !self.items != 0)
    }

    /// Whether the request would change the record, or put an item.
    pub(crate) fn takes(&self, wire: &Wire) -> bool {
        let meta = self.record.as_ref().map(|stored| &stored.meta);
        match wire {
            Wire::Read { .. } => false,
            Wire::Write(write) => write.0.condition.holds(meta),
            Wire::Item(item) => self.items & item.bit() == 0,
        }
    }

    /// Applies a request.
    pub(crate) fn apply(&mut self, sender: Sender, wire: &Wire) {
        if let Wire::Item(item) = wire {
            self.items |= item.bit();
            return;
        }
        let before = self.record.take();
        let meta = before.as_ref().map(|stored| &stored.meta);
        let after = match wire {
            Wire::Read { .. } | Wire::Item(_) => before.clone(),
            Wire::Write(write) => {
                let mut meta = RecordMeta { is_same_request: true, ..write.0.applied_to(meta) };
                let is_new = !keeps_request(&write.0);
                let request = before.as_ref().filter(|_| !is_new).map(|stored| stored.request);
                let (mut done, mut noted) =
                    before.as_ref().map_or((0, 0), |stored| (stored.done, stored.noted));
                if write.2 > 0 {
                    done |= 1 << write.2;
                    noted |= write.3.map_or(0, Item::bit);
                    meta.steps = Some(done.count_ones() as usize);
                }
                if meta.steps.is_none() {
                    (done, noted) = (0, 0);
                }
                let request = request.unwrap_or(sender.request);
                Some(Stored { meta, request, done, noted })
            }
        };
        self.before = before;
        self.record = after;
    }

    pub(crate) fn add_late(&mut self, caller: u8, wire: Wire) {
        if wire.is_read() {
            return;
        }
        let copy = (caller, wire);
        let place = self.late.binary_search(&copy).unwrap_or_else(|place| place);
        self.late.insert(place, copy);
    }
}

/// Whether a write keeps the request of the record.
const fn keeps_request(write: &Write) -> bool {
    use dynamodb_idempotency_protocol::Form;
    matches!(
        write.form(),
        Form::Update | Form::UpdateWithoutSteps | Form::Stamp | Form::Touch | Form::Step
    )
}

/// The outcome of a request that was executed.
pub(crate) fn outcome(wire: &Wire, is_taken: bool, found: Option<RecordMeta>) -> Outcome {
    match wire {
        Wire::Read { is_consistent: true } => Outcome::Read(ReadResult::Found(found)),
        Wire::Read { is_consistent: false } => Outcome::Read(ReadResult::Stale(found)),
        // An item that is there is as good as one that was put.
        Wire::Item(_) => Outcome::Write(WriteResult::Applied),
        Wire::Write(_) if is_taken => Outcome::Write(WriteResult::Applied),
        Wire::Write(_) => Outcome::Write(WriteResult::Rejected(found)),
    }
}
