//! Checks every event of a schedule against the guarantees. The ledger observes the store's items and
//! the results that callers get. It never reads the crate's own state.

mod handler;
mod item;
mod outcome;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use crate::guarantee::{Guarantee, Violation};
use crate::world::digest_of;

/// What the handler of a call has done, as far as the ledger knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Work {
    #[default]
    NotStarted,
    Running,
    /// The handler succeeded and the call has not returned.
    Succeeded,
    /// The call was dropped or could not confirm its completion, so its effect may have happened.
    Unconfirmed,
    Failed,
    /// The call returned.
    Ended,
    /// The call returned without running a handler.
    EndedUnstarted,
}

impl Work {
    /// The state after the call has returned.
    fn ended(self) -> Self {
        if self == Self::NotStarted { Self::EndedUnstarted } else { Self::Ended }
    }
}

/// What the ledger knows of one call.
#[derive(Debug, Default, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct Call {
    work: Work,
    is_protected: bool,
    /// When the lease expires that the store has confirmed to the call, epoch milliseconds.
    lease: Option<i64>,
    /// How often its clocks were set or frozen since its lease was confirmed.
    clock_faults: u32,
    /// When a response confirmed its lease, and how often its clocks were set or frozen until then: a
    /// handler that waits for the response is polled to receive it.
    faults_until: Option<(i64, u32)>,
    /// The lease in its last record in the table, confirmed or not.
    written_lease: Option<i64>,
    /// Its answer is in the table.
    has_completed: bool,
    /// How many of its applied writes changed an item and were answered.
    changes: u32,
    /// Its last write was answered.
    is_write_answered: bool,
    /// A try of its transaction was not answered. If the transaction required an absent record, nothing but its
    /// own record shows the outcome.
    has_unanswered_try: bool,
    /// The last record that a response showed to it was its own.
    saw_itself: bool,
    /// The last record that a response showed to it was stale.
    saw_stale: bool,
    /// The last record that a response showed to it was held by another owner.
    saw_owner: bool,
    /// The last record that a response showed to it was RELEASED.
    saw_released: bool,
    /// Another owner held the record at some time during the call.
    met_owner: bool,
    /// When the call started, epoch milliseconds.
    started: i64,
    /// How many writes it has sent.
    writes: u32,
    transaction: TransactionState,
}

/// The transaction of a call that commits its effect with its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum TransactionState {
    #[default]
    None,
    Sent,
    /// The call reported that the transaction was not applied and never will be.
    ReportedRejected,
}

impl Call {
    /// Drops what no later check reads, so that equivalent states are equal.
    fn forget(&mut self) {
        let Self { work, is_protected, lease, has_completed, transaction, .. } = *self;
        *self = Self { work, transaction, ..Self::default() };
        if work == Work::Unconfirmed {
            self.is_protected = is_protected;
            self.lease = lease;
            self.has_completed = has_completed;
        }
    }

    /// Whether a confirmed lease still protects the effect of this call.
    fn is_live(&self, now: i64) -> bool {
        self.is_protected
            && !self.has_completed
            && matches!(self.work, Work::Running | Work::Succeeded | Work::Unconfirmed)
            && self.lease.is_some_and(|lease| now <= lease)
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    calls: Vec<Call>,
    /// Handlers that succeeded, since the record was created.
    successes: u32,
    /// Transactions that were applied, since the record was created.
    effects: u32,
    /// The highest attempt that a handler received, since the record was created.
    attempts: i64,
    /// How many handlers have started under a record, since it was created. Those that reported that they
    /// executed nothing do not count.
    executions: u32,
    /// How many executions the policy allows.
    pub(crate) max_attempts: Option<u32>,
    /// Steps whose results were stored, since the record was created.
    steps: BTreeSet<String>,
    /// After some events the handler may run a second time.
    may_repeat: bool,
    /// When an owner last released or finished the record, epoch milliseconds.
    owner_left: Option<i64>,
    /// Every answer that was ever stored, with the end of its retention in epoch seconds.
    answers: BTreeMap<String, i64>,
    /// Every failure that was ever stored.
    failures: BTreeSet<String>,
    violation: Option<Violation>,
}

impl Ledger {
    pub(crate) fn new(callers: usize) -> Self {
        Self {
            calls: (0..callers).map(|_| Call::default()).collect(),
            successes: 0,
            effects: 0,
            attempts: 0,
            executions: 0,
            max_attempts: None,
            steps: BTreeSet::new(),
            may_repeat: false,
            owner_left: None,
            answers: BTreeMap::new(),
            failures: BTreeSet::new(),
            violation: None,
        }
    }

    pub(crate) fn add_caller(&mut self) {
        self.calls.push(Call::default());
    }

    /// A digest of everything that later checks depend on.
    pub(crate) fn digest(&self) -> u64 {
        let Self { calls, successes, effects, attempts, steps, may_repeat, .. } = self;
        let life = (successes, effects, attempts, self.executions, steps);
        digest_of((calls, life, may_repeat, &self.answers, &self.failures))
    }

    /// The first violation.
    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(crate) fn check(&mut self, holds: bool, guarantee: Guarantee, detail: impl Into<String>) {
        if !holds && self.violation.is_none() {
            self.violation = Some(Violation { guarantee, detail: detail.into() });
        }
    }
}

/// The letter of a caller in a schedule.
pub(crate) fn caller_name(caller: usize) -> char {
    char::from(b'A' + u8::try_from(caller).expect("there are few callers"))
}
