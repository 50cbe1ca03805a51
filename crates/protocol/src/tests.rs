//! Tests of what the search does not distinguish: values at their limits, and single steps of a machine.

use std::time::Duration;

use crate::acquisition::Grant;
use crate::condition::{Condition, Term};
use crate::knowledge::Knowledge;
use crate::machine::{Cause, Outcome, ReadResult, Reply, WriteResult};
use crate::owner::OwnerId;
use crate::policy::{Failure, InProgress, Lease, Outage, Takeover};
use crate::record::{Attempts, RecordMeta, State, Status};
use crate::rules::Rules;
use crate::tenure::Tenure;
use crate::time::{Known, Learned, Local, Now, StoreTime, Timestamp, Uptime};
use crate::write::{Kind, Write};

pub(crate) const ME: OwnerId = OwnerId(1);
pub(crate) const OTHER: OwnerId = OwnerId(2);
pub(crate) const START: Local =
    Local { wall: Timestamp::from_millis(1_000_000), uptime: Uptime(0) };

pub(crate) fn now() -> Now {
    Now { local: START, known: Known::Declared }
}

pub(crate) fn after(duration: Duration) -> Now {
    let uptime = Uptime(crate::time::millis(duration));
    let local = Local { wall: START.wall.plus(duration), uptime };
    Now { local, known: Known::Declared }
}

pub(crate) fn rules() -> Rules {
    Rules {
        failure: Failure::Release,
        takeover: Takeover::Execute,
        reconciles: false,
        lease: Lease::Invocation,
        in_progress: InProgress::Reject,
        outage: Outage::Closed,
        retention: Duration::from_secs(24 * 3600),
        completion_timeout: Duration::from_secs(10),
        deadline: None,
        tolerance: Duration::from_secs(1),
        request_timeout: Duration::from_secs(5),
    }
}

pub(crate) fn record(owner: OwnerId, state: State) -> RecordMeta {
    Attempts::FIRST.meta(&owner, START.wall, state, Some(START.wall), 100_000)
}

pub(crate) fn pending(owner: OwnerId) -> RecordMeta {
    record(owner, State::Pending { lease_expires_at: START.wall.plus(Duration::from_secs(30)) })
}

fn write(kind: Kind, condition: Condition, record: RecordMeta) -> Write {
    Write { kind, condition, record }
}

fn acquire() -> Write {
    write(Kind::Acquire, Condition::absent(), pending(ME))
}

fn transact() -> Write {
    write(Kind::Transact, Condition::absent(), record(ME, State::Completed))
}

fn reply(result: WriteResult<RecordMeta>, is_in_doubt: bool) -> Reply {
    Reply { outcome: Outcome::Write(result), is_in_doubt, time: None }
}

fn after_reply(write: &Write, result: WriteResult<RecordMeta>, is_in_doubt: bool) -> Knowledge {
    let mut knowledge = Knowledge::new(ME);
    knowledge.send(write);
    knowledge.learn(&reply(result, is_in_doubt), Some(write));
    knowledge
}

#[test]
fn a_key_may_be_held_while_an_acquisition_may_be_applied() {
    let mut knowledge = Knowledge::new(ME);
    assert!(!knowledge.may_hold_key());
    knowledge.send(&acquire());
    assert!(knowledge.may_hold_key() && !knowledge.may_transact());
    knowledge.see(Some(pending(ME)));
    assert!(knowledge.may_hold_key() && knowledge.is_settled());
    knowledge.see(Some(pending(OTHER)));
    assert!(!knowledge.may_hold_key());
}

#[test]
fn a_write_of_an_owner_is_forgotten_with_the_last_acquisition() {
    let mut knowledge = Knowledge::new(ME);
    knowledge.send(&acquire());
    knowledge.send(&write(Kind::Release, Condition::held_by(ME), record(ME, State::Released)));
    knowledge.see(Some(pending(OTHER)));
    assert!(knowledge.is_settled());
}

#[test]
fn a_rejected_write_may_still_be_applied_unless_it_was_the_only_try_of_a_transaction() {
    let is_settled =
        |write: &Write, result, is_in_doubt| after_reply(write, result, is_in_doubt).is_settled();
    assert!(is_settled(&transact(), WriteResult::Rejected(None), false));
    assert!(!is_settled(&transact(), WriteResult::Rejected(None), true));
    assert!(!is_settled(&acquire(), WriteResult::Rejected(None), false));
    assert!(is_settled(&acquire(), WriteResult::Conflict(Cause::Outage), false));
    assert!(!is_settled(&transact(), WriteResult::Conflict(Cause::Outage), true));
    assert!(after_reply(&transact(), WriteResult::Unknown(Cause::Outage), false).may_transact());
}

/// A delayed copy can be applied to the version after it was seen, and what it left can be removed.
#[test]
fn a_transaction_in_doubt_is_not_ruled_out_by_the_version_that_it_requires() {
    let required = pending(OTHER);
    let condition = Condition::unchanged(&required.version());
    let commit = write(Kind::ResolveByCommit, condition.clone(), record(ME, State::Completed));
    let mut knowledge = after_reply(&commit, WriteResult::Unknown(Cause::Outage), false);
    knowledge.see(Some(required));
    knowledge.see(Some(RecordMeta { owner: OwnerId(9), ..record(OTHER, State::Released) }));
    assert!(knowledge.is_settled() && knowledge.no_transaction().is_none());
    knowledge.rule_out(&condition);
    assert!(knowledge.no_transaction().is_some());
}

#[test]
fn a_reply_shows_a_record_of_this_call_or_one_that_it_has_put() {
    let mut knowledge = Knowledge::new(ME);
    knowledge.see(Some(record(OTHER, State::Released)));
    let applied = reply(WriteResult::Applied, false);
    assert!(knowledge.shown_by(&applied, true).is_some());
    assert!(knowledge.shown_by(&applied, false).is_none());
    knowledge.see(Some(record(ME, State::Completed)));
    assert!(knowledge.shown_by(&applied, false).is_some());
    let rejected = reply(WriteResult::Rejected(Some(record(ME, State::Completed))), false);
    assert!(knowledge.shown_by(&rejected, false).is_some());
    assert!(knowledge.shown_by(&reply(WriteResult::Rejected(None), false), false).is_none());
}

#[test]
fn only_final_results_are_not_tried_again() {
    let outcome = |result: WriteResult<RecordMeta>| Outcome::Write(result);
    assert!(outcome(WriteResult::Unknown(Cause::Outage)).is_unknown());
    assert!(!outcome(WriteResult::Applied).is_unknown());
    assert!(!Outcome::Read(ReadResult::Found(None)).is_unknown());
    assert!(WriteResult::<RecordMeta>::Invalid(Cause::Other).is_final());
    assert!(WriteResult::<RecordMeta>::NotApplied(Cause::Other).is_final());
    assert!(!WriteResult::<RecordMeta>::NotApplied(Cause::Outage).is_final());
    let found = Outcome::Read(ReadResult::Found(Some(pending(OTHER))));
    assert_eq!(found.record(), Some(&pending(OTHER)));
    assert!(Outcome::Read(ReadResult::Stale(Some(pending(OTHER)))).record().is_none());
}

#[test]
fn a_comparison_does_not_include_its_limit() {
    let holds = |term| Condition::all(&[term]).holds(Some(&pending(OTHER)));
    for (shift, expected) in [(-1, false), (0, false), (1, true)] {
        let lease = pending(OTHER).state.lease_expires_at().unwrap().shifted(shift);
        assert_eq!(holds(Term::LeaseExpiresBefore(lease)), expected);
        assert_eq!(holds(Term::ExpiresBefore(100_000 + shift)), expected);
    }
    let stepped = RecordMeta { steps: Some(1), ..pending(OTHER) };
    assert_eq!(
        [1, 2].map(|steps| Condition::all(&[Term::Steps(steps)]).holds(Some(&stepped))),
        [true, false]
    );
    assert!(Condition::held_by(ME).accepts_holder(&ME));
    assert!(!Condition::unchanged(&pending(OTHER).version()).accepts_holder(&ME));
}

#[test]
fn what_is_stored_has_these_names() {
    let statuses = [Status::Pending, Status::Completed, Status::Failed, Status::Released];
    let names = statuses.map(Status::as_str);
    assert_eq!(names, ["PENDING", "COMPLETED", "FAILED", "RELEASED"]);
    assert_eq!(format!("{:?}", OwnerId(0xab)), format!("OwnerId({:032x})", 0xab));
    assert!(!record(ME, State::Failed).is_completed());
}

#[test]
fn leases_are_renewed_by_their_policy() {
    let (minute, margin) = (Duration::from_secs(60), Duration::from_secs(2));
    let deadline = Some(START.plus(minute));
    for (lease, deadline, slack, renewed) in [
        (Lease::Invocation, deadline, 2, None),
        (Lease::Invocation, None, 10, Some(30)),
        (Lease::Fixed(minute), deadline, 20, None),
        (Lease::Renewed(minute), deadline, 20, Some(60)),
    ] {
        assert_eq!(lease.slack(deadline, margin), Duration::from_secs(slack), "{lease:?}");
        assert_eq!(lease.renewed(deadline), renewed.map(Duration::from_secs), "{lease:?}");
    }
    assert_eq!(Lease::Fixed(minute).name(), "Lease::Fixed");
    assert_eq!(Lease::Renewed(minute).chosen_length(), Some(minute));
    assert_eq!(Lease::Invocation.chosen_length(), None);
    assert!(Failure::Replay.is_kept() && !Failure::Release.is_kept());
}

#[test]
fn a_call_answers_and_waits_until_half_a_second_before_its_deadline() {
    let minute = Duration::from_secs(60);
    let in_progress = InProgress::Wait { timeout: minute };
    let waits = Rules { in_progress, deadline: Some(START.plus(minute)), ..rules() };
    let left = Duration::from_millis(59_500);
    assert_eq!(waits.answer_by(), Some(START.plus(left)));
    assert_eq!(waits.wait_left(now(), START.uptime), left);
    assert_eq!(waits.time_until_answer(now()), left);
    let free = Rules { deadline: None, ..waits };
    assert_eq!(free.wait_left(after(minute / 4), START.uptime), minute / 4 * 3);
    assert_eq!(rules().wait_left(now(), START.uptime), Duration::ZERO);
}

#[test]
fn the_parts_of_an_answer_outlive_the_tries_of_its_completion_and_a_renewal() {
    let grant = || {
        let mut knowledge = Knowledge::new(ME);
        knowledge.see(Some(pending(ME)));
        Grant { knowledge, taken_over: None, attempts: Attempts::FIRST, stamped: Vec::new() }
    };
    let lease_expires_at = START.wall.plus(Duration::from_secs(30));
    let window = rules().window(now(), None, lease_expires_at, None);
    assert!(window.is_some());
    let tenure = Tenure::new(grant(), rules(), window, now());
    assert!(!tenure.is_over());
    let stamp = now().stamp().unwrap();
    // A day for the answer, 10 s for the completion, 30 s for a renewal.
    let expected = START.wall.millis() / 1000 + 24 * 3600;
    assert!(tenure.parts_expire_at(stamp) >= expected);
    let short = Rules { retention: Duration::ZERO, ..rules() };
    let tenure = Tenure::new(grant(), short, window, now());
    assert_eq!(tenure.parts_expire_at(stamp), START.wall.millis() / 1000 + 40);
}

#[test]
fn an_update_keeps_what_it_does_not_set() {
    let created_at = Timestamp::from_millis(7);
    let before =
        RecordMeta { steps: Some(2), created_at, is_same_request: false, ..pending(OTHER) };
    let of = |kind, record| write(kind, Condition::held_by(OTHER), record);
    let after = of(Kind::Keep, record(ME, State::Failed)).applied_to(Some(&before));
    assert_eq!(
        (after.steps, after.created_at, after.is_same_request),
        (Some(2), created_at, false)
    );
    assert_eq!((after.owner, after.state), (ME, State::Failed));
    let later = State::Pending { lease_expires_at: START.wall.plus(Duration::from_secs(60)) };
    let renewed = of(Kind::Renew, RecordMeta { expires_at: 200_000, ..record(ME, later) });
    let expected = RecordMeta { state: later, expires_at: 200_000, ..before.clone() };
    assert_eq!(renewed.applied_to(Some(&before)), expected);
    let touched = of(Kind::CloseOff, RecordMeta { expires_at: 200_000, ..record(ME, later) });
    let expected = RecordMeta { owner: ME, state: later, ..before.clone() };
    assert_eq!(touched.applied_to(Some(&before)), expected);
}

#[test]
fn an_earlier_bound_of_store_time_is_valid_until_a_clock_jumps() {
    let at = |wall, uptime| Local { wall: Timestamp::from_millis(wall), uptime: Uptime(uptime) };
    let shown =
        |date, sent, received| StoreTime { date: Timestamp::from_millis(date), sent, received };
    let slow = shown(50_000, at(40_000, 0), at(40_500, 500));
    assert_eq!(slow.bounds(), (9_500, 9_500 + 999 + 500));
    let first = Learned::observe(None, shown(50_000, at(50_000, 0), at(50_000, 0)));
    assert_eq!((first.offset, first.least), (0, 0));
    let next = |received| Learned::observe(Some(first), shown(51_000, received, received));
    assert_eq!(next(at(51_900, 1_900)).least, 0);
    assert_eq!(next(at(51_900, 900)).least, -900);
}

#[test]
fn each_kind_of_write_has_its_own_name() {
    let names: std::collections::BTreeSet<_> = Kind::ALL.map(Kind::name).into();
    assert_eq!(names.len(), Kind::ALL.len());
}

#[test]
fn a_step_adds_one_to_those_in_the_record() {
    let step = write(Kind::Step, Condition::held_by(ME), pending(ME));
    for (before, after) in [(None, 1), (Some(2), 3)] {
        let before = RecordMeta { steps: before, ..pending(ME) };
        assert_eq!(step.applied_to(Some(&before)).steps, Some(after));
    }
}

#[test]
fn a_condition_has_the_terms_of_all_its_alternatives() {
    let terms: Vec<_> = Condition::held_by_or_absent(ME).terms().copied().collect();
    assert_eq!(terms, [Term::Owner(ME), Term::Status(Status::Pending), Term::Absent]);
}

#[test]
fn an_acquisition_without_a_response_may_still_be_applied() {
    let mut knowledge = Knowledge::new(ME);
    knowledge.send(&acquire());
    let outcome = Outcome::Write(WriteResult::Unknown(Cause::Outage));
    knowledge.learn(&Reply { outcome, is_in_doubt: false, time: None }, Some(&acquire()));
    assert!(knowledge.may_hold_key() && !knowledge.is_settled());
}
