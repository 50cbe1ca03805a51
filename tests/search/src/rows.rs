//! The policies that are searched, one per row.

use std::time::Duration;

use crate::clock::TICK;
use dynamodb_idempotency_protocol::Rules;
use dynamodb_idempotency_protocol::policy::{
    Completed, Failure, FirstRequest, InProgress, Lease, Outage, Takeover,
};

/// A lease that expires after one tick.
const LEASE: Duration = Duration::from_millis(3_300);

/// A lease that expires after two ticks.
const LONG_LEASE: Duration = Duration::from_secs(7);

/// A lease that expires after three ticks.
const LONGER_LEASE: Duration = Duration::from_secs(10);

/// By how much a local clock may differ from store time.
const TOLERANCE: Duration = Duration::from_secs(1);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Longer than the retention, in ms.
const OVER_A_DAY: i64 = 25 * 60 * 60 * 1000;

/// The limit of waits, requests and completions: more than a tick, and less than two.
const PATIENCE: Duration = Duration::from_secs(6);

/// The error of a wrong clock, in ms.
const WRONG: i64 = 40_000;

/// The most callers that a search has.
pub(crate) const MAX_CALLERS: usize = 3;

/// What a caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// A handler that returns its answer.
    Run,
    /// A handler that commits its answer with an effect.
    Commit,
    /// A handler that stores steps, one after the other.
    Steps,
    /// The same, and each result has an item of its own.
    StepItems,
    /// A handler that stores several steps at once.
    StepsAtOnce,
    /// A handler whose step sends a request at most once. Its look-up never knows whether the request takes effect.
    SendOnce,
    /// The whole operation in one transaction.
    Transact,
    /// Reads the answer, if there is one.
    LookUp,
}

/// One caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Role {
    pub(crate) work: Work,
    /// Whether a success is stored, or releases the key.
    pub(crate) completed: Completed,
    pub(crate) rules: Rules,
    pub(crate) first: FirstRequest,
    /// How long after the start of the call its deadline is.
    pub(crate) deadline: Option<Duration>,
    /// Which request it makes.
    pub(crate) request: u8,
    /// How far its wall clock is ahead of the store's, in ms.
    pub(crate) skew: i64,
    /// Whether its process has had no response yet.
    pub(crate) is_new: bool,
}

/// Whether TTL deletes records that are past their retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ttl {
    /// Within the time that is searched, no retention ends.
    Never,
    /// At any time, once no delayed request can arrive any more, as with a retention of an hour or more.
    AfterDelays,
    /// At any time. Delayed requests arrive later.
    AnyTime,
    /// Never, although retentions end. Delayed requests arrive after the retention of a record.
    TooLate,
}

/// A policy, and what may happen under it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) roles: [Role; MAX_CALLERS],
    pub(crate) callers: usize,
    pub(crate) faults: u8,
    pub(crate) ticks: u8,
    /// Whether clocks fail.
    pub(crate) clocks_fail: bool,
    /// How far a wall clock jumps, in ms.
    pub(crate) jump: i64,
    pub(crate) ttl: Ttl,
    /// Whether an operator deletes and releases records. Each time counts as a fault.
    pub(crate) has_operator: bool,
    /// Whether responses have a `Date`. Otherwise the user has declared that none has one.
    pub(crate) has_dates: bool,
    /// How many faults are searched completely for each change: with two callers, and with three.
    pub(crate) bound: (u8, u8),
    /// The same once a week. Rows for which this is more than `bound` have millions of states more.
    pub(crate) weekly: (u8, u8),
}

impl Row {
    pub(crate) fn with(&self, callers: usize, faults: u8) -> Self {
        Self { callers, faults, ..*self }
    }

    /// Whether a read may be stale.
    pub(crate) fn reads_stale(&self) -> bool {
        let stale = FirstRequest::Read;
        self.roles().iter().any(|role| role.first == stale)
    }

    /// Whether single responses may lack a `Date`. Only a wrong clock makes a difference then.
    pub(crate) fn may_lack_dates(&self) -> bool {
        let has_wrong_clock = self.clocks_fail || self.roles().iter().any(|role| role.skew != 0);
        self.has_dates && has_wrong_clock
    }

    pub(crate) fn has_equal_requests(&self) -> bool {
        self.roles().iter().all(|role| role.request == self.roles[0].request)
    }

    pub(crate) fn expires(&self) -> bool {
        self.ttl != Ttl::Never
    }

    pub(crate) fn roles(&self) -> &[Role] {
        &self.roles[..self.callers]
    }
}

const BASE: Rules = Rules {
    failure: Failure::Release,
    takeover: Takeover::Execute,
    reconciles: false,
    lease: Lease::Fixed(LEASE),
    in_progress: InProgress::Reject,
    outage: Outage::Closed,
    retention: DAY,
    completion_timeout: PATIENCE,
    deadline: None,
    tolerance: TOLERANCE,
    request_timeout: PATIENCE,
};

const RUN: Role = Role {
    work: Work::Run,
    completed: Completed::Replay,
    rules: BASE,
    first: FirstRequest::Write,
    deadline: None,
    request: 0,
    skew: 0,
    is_new: false,
};

/// A call that is the first of its process.
const NEW: Role = Role { is_new: true, ..RUN };
const COMMIT: Role = Role { work: Work::Commit, ..RUN };
const TRANSACT: Role = Role { work: Work::Transact, ..RUN };
const RELEASE: Role = Role { completed: Completed::Release, ..RUN };

const ROW: Row = Row {
    name: "default",
    roles: [RUN; MAX_CALLERS],
    callers: 2,
    faults: 1,
    ticks: 3,
    clocks_fail: false,
    jump: 2 * TICK,
    ttl: Ttl::Never,
    has_operator: false,
    has_dates: true,
    bound: (2, 1),
    weekly: (3, 1),
};

/// A row of equal callers. Transactions have few states, so three faults are searched for each change.
const fn row(name: &'static str, role: Role) -> Row {
    let faults = if matches!(role.work, Work::Transact) { 3 } else { 2 };
    Row { name, roles: [role; MAX_CALLERS], bound: (faults, 1), ..ROW }
}

/// A row with so many states that there is time for only two faults with two callers, and for no fault with three.
const fn heavy(name: &'static str, role: Role) -> Row {
    Row { bound: (1, 0), weekly: (2, 0), ..row(name, role) }
}

/// A row with even more states: one fault with two callers, and no fault with three.
const fn heaviest(name: &'static str, role: Role) -> Row {
    Row { bound: (1, 0), weekly: (1, 0), ..row(name, role) }
}

/// A row with one more tick, for leases that expire after two ticks.
const fn long(row: &Row) -> Row {
    Row { ticks: 4, ..*row }
}

const fn with(rules: Rules) -> Role {
    Role { rules, ..RUN }
}

const fn keeping(failure: Failure) -> Rules {
    Rules { failure, ..BASE }
}

const WAITING: Rules = Rules { in_progress: InProgress::Wait { timeout: PATIENCE }, ..BASE };
const OPEN: Rules = Rules { outage: Outage::Open, ..BASE };
const RENEWED: Rules = Rules { lease: Lease::Renewed(LONG_LEASE), ..BASE };
const LONGER: Rules = Rules { lease: Lease::Renewed(LONGER_LEASE), ..BASE };
const HOOKED: Rules = Rules { reconciles: true, ..BASE };
const REJECTING: Rules = Rules { takeover: Takeover::Reject, ..BASE };
const SHORT: Rules = Rules { retention: Duration::from_secs(1), ..LONG };
const HALF_USED: Rules = Rules { lease: Lease::Fixed(Duration::from_secs(15)), ..BASE };
const INVOKED: Rules = Rules { lease: Lease::Invocation, ..BASE };
const LONG: Rules = Rules { lease: Lease::Fixed(LONG_LEASE), ..BASE };
const STALE: FirstRequest = FirstRequest::Read;
const CONSISTENT: FirstRequest = FirstRequest::ConsistentRead;

/// The rows. Within the bounds of a change, they take three minutes on two idle cores.
pub(crate) const ALL: &[Row] = &[
    row("default", RUN),
    row("retain", with(keeping(Failure::Retain { max_attempts: 2 }))),
    row("keep-failure", with(keeping(Failure::Replay))),
    row("reject-takeover", with(REJECTING)),
    row("reconcile", with(HOOKED)),
    row("release", RELEASE),
    Row {
        bound: (2, 0),
        ..row("release-wait", Role { completed: Completed::Release, ..with(WAITING) })
    },
    row("read-first", Role { first: CONSISTENT, ..RUN }),
    row("read-first-stale", Role { first: STALE, ..RUN }),
    row("open", with(OPEN)),
    row("open-read-first-stale", Role { first: STALE, ..with(OPEN) }),
    Row { bound: (2, 0), ..row("wait", with(WAITING)) },
    row("commit", COMMIT),
    row(
        "commit-retain",
        Role { work: Work::Commit, ..with(keeping(Failure::Retain { max_attempts: 2 })) },
    ),
    row("commit-open", Role { work: Work::Commit, ..with(OPEN) }),
    row("transaction", TRANSACT),
    row(
        "transaction-deadline",
        Role { work: Work::Transact, deadline: Some(Duration::from_secs(3)), ..NEW },
    ),
    Row { roles: [TRANSACT, RELEASE, TRANSACT], ..row("transaction-beside-release", TRANSACT) },
    Row { roles: [COMMIT, RELEASE, COMMIT], ..row("commit-beside-release", RUN) },
    Row {
        roles: [Role { work: Work::Steps, ..RUN }, RELEASE, Role { work: Work::Steps, ..RUN }],
        ..row("steps-beside-release", RUN)
    },
    Row {
        roles: [Role { first: STALE, ..TRANSACT }, TRANSACT, Role { first: STALE, ..TRANSACT }],
        ..row("transaction-read-first", TRANSACT)
    },
    row("transaction-wait", Role { work: Work::Transact, ..with(WAITING) }),
    Row { roles: [TRANSACT, COMMIT, TRANSACT], ..row("transaction-beside-commit", TRANSACT) },
    Row { roles: [TRANSACT, RUN, TRANSACT], ..row("transaction-beside-run", TRANSACT) },
    long(&heavy("renewed", with(RENEWED))),
    long(&heaviest("commit-renewed", Role { work: Work::Commit, ..with(RENEWED) })),
    Row { roles: [RUN, RELEASE, RUN], ..row("one-releases", RUN) },
    Row {
        roles: [RUN, with(keeping(Failure::Retain { max_attempts: 2 })), with(HOOKED)],
        ..row("mixed", RUN)
    },
    Row { roles: [RUN, Role { request: 1, ..RUN }, RUN], ..row("mismatch", RUN) },
    Row {
        roles: [TRANSACT, Role { request: 1, ..TRANSACT }, RUN],
        ..row("transaction-mismatch", TRANSACT)
    },
    row("steps", Role { work: Work::Steps, ..RUN }),
    row("step-items", Role { work: Work::StepItems, ..RUN }),
    Row {
        bound: (2, 0),
        weekly: (2, 0),
        ..row("steps-at-once", Role { work: Work::StepsAtOnce, ..RUN })
    },
    row("send-once", Role { work: Work::SendOnce, ..RUN }),
    Row { roles: [RUN, Role { work: Work::LookUp, ..RUN }, RUN], ..row("look-up", RUN) },
    Row { clocks_fail: true, ..row("clocks", RUN) },
    Row { clocks_fail: true, ..row("clocks-commit", COMMIT) },
    Row { clocks_fail: true, ..long(&heavy("clocks-renewed", with(RENEWED))) },
    // A wall clock that jumps forward by less than a lease makes a renewed lease too long.
    Row {
        clocks_fail: true,
        jump: 3_000,
        ..heaviest("clocks-commit-renewed", Role { work: Work::Commit, ..with(LONGER) })
    },
    row("fast-clock", Role { skew: WRONG, ..NEW }),
    row("slow-clock", Role { skew: -WRONG, ..NEW }),
    Row { roles: [RUN, Role { skew: WRONG, ..NEW }, RUN], ..row("fast-taker", RUN) },
    long(&heaviest("slow-clock-renewed", Role { skew: -WRONG, is_new: true, ..with(RENEWED) })),
    row("slow-clock-transaction", Role { work: Work::Transact, skew: -WRONG, ..NEW }),
    row("slow-clock-commit", Role { work: Work::Commit, skew: -WRONG, is_new: true, ..with(OPEN) }),
    row("first-call", NEW),
    Row { clocks_fail: true, ..row("clocks-transaction", TRANSACT) },
    // With three faults, a clock jumps twice about one response: the record that is stamped between the jumps stays
    // wrong. Not promised.
    Row { clocks_fail: true, jump: OVER_A_DAY, weekly: (2, 1), ..row("clocks-retention", RUN) },
    Row { clocks_fail: true, jump: OVER_A_DAY, ..row("clocks-retention-transaction", TRANSACT) },
    Row { has_operator: true, ..row("operator", RUN) },
    Row { has_operator: true, ..row("operator-commit", COMMIT) },
    Row { has_operator: true, ..row("operator-transaction", TRANSACT) },
    Row { has_operator: true, ..row("operator-reconcile", with(HOOKED)) },
    Row {
        has_operator: true,
        roles: [TRANSACT, COMMIT, RUN],
        ..row("operator-transaction-beside-commit", RUN)
    },
    Row {
        has_operator: true,
        ..row("operator-commit-open", Role { work: Work::Commit, ..with(OPEN) })
    },
    Row { ttl: Ttl::AfterDelays, ..long(&row("short-retention", with(SHORT))) },
    Row { ttl: Ttl::AnyTime, ..long(&row("late-after-ttl", with(SHORT))) },
    Row {
        ttl: Ttl::TooLate,
        ..long(&row("late-past-retention", Role { work: Work::Transact, ..with(SHORT) }))
    },
    // With three faults, a completion returns after its retention, and a dropped commit that counts as not applied is
    // applied to what follows it. Not promised with a retention of less than half an hour.
    Row {
        ttl: Ttl::TooLate,
        weekly: (2, 1),
        ..long(&row("late-past-retention-commit", Role { work: Work::Commit, ..with(SHORT) }))
    },
    long(&row("invocation", Role { deadline: Some(Duration::from_secs(5)), ..with(INVOKED) })),
    Row { has_dates: false, ..row("no-date", NEW) },
    Row { ticks: 2, ..row("half-used", with(HALF_USED)) },
    long(&row("long-lease", with(LONG))),
    long(&row("long-lease-commit", Role { work: Work::Commit, ..with(LONG) })),
];

pub(crate) fn named(name: &str) -> Option<&'static Row> {
    ALL.iter().find(|row| row.name == name)
}
