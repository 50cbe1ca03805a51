use super::*;
use crate::condition::Condition;
use crate::condition::Term;
use crate::machine::{Cause, WriteResult};
use crate::policy::{Failure, Lease};
use crate::record::State;
use crate::tests::{ME, OTHER, START, after, now, pending, record, rules};
use crate::time::{Local, StoreTime, Uptime};
use crate::write::Kind;

fn lease_end() -> Timestamp {
    pending(ME).state.lease_expires_at().unwrap()
}

fn lasting_until(lease_expires_at: Timestamp) -> RecordMeta {
    RecordMeta { state: State::Pending { lease_expires_at }, ..pending(ME) }
}

/// An execution that holds a lease of 30 seconds, or has no record.
fn tenure(is_protected: bool) -> Tenure {
    tenure_under(rules(), is_protected)
}

fn tenure_under(rules: Rules, is_protected: bool) -> Tenure {
    let mut knowledge = Knowledge::new(ME);
    if is_protected {
        knowledge.see(Some(pending(ME)));
    }
    let attempts = Attempts { created_at: Some(START.wall), ..Attempts::FIRST };
    let grant = Grant { knowledge, taken_over: None, attempts, stamped: Vec::new() };
    let window = rules.window(now(), rules.deadline, lease_end(), None).filter(|_| is_protected);
    assert_eq!(window.is_some(), is_protected);
    Tenure::new(grant, rules, window, now())
}

fn reply(result: WriteResult<RecordMeta>) -> Reply {
    Reply { outcome: Outcome::Write(result), is_in_doubt: false, time: None }
}

fn unknown() -> Reply {
    reply(WriteResult::Unknown(Cause::Outage))
}

fn sent(command: Command) -> Write {
    let Command::Send { write, .. } = command else { panic!("{command:?}") };
    write
}

fn rejected(record: Option<RecordMeta>) -> Reply {
    reply(WriteResult::Rejected(record))
}

fn found(record: Option<RecordMeta>) -> Reply {
    Reply { outcome: Outcome::Read(ReadResult::Found(record)), ..unknown() }
}

fn completed(end: CompletionEnd) -> Command {
    Command::Return(TenureEnd::Completion(end))
}

fn failed(end: FailureEnd) -> Command {
    Command::Return(TenureEnd::Failure(end))
}

fn committed(over: Over) -> Command {
    Command::Return(TenureEnd::Commit(CommitEnd::Over(over)))
}

fn is_not_applied(command: &Command) -> bool {
    matches!(command, Command::Return(TenureEnd::Commit(CommitEnd::NotApplied(_))))
}

/// What the machine returns after this reply to the write that it sends first.
fn after_first(mut tenure: Tenure, command: Command, reply: &Reply) -> Command {
    let _ = sent(command);
    tenure.replied(now(), reply)
}

fn completed_with(mut tenure: Tenure, reply: &Reply) -> Command {
    let command = tenure.complete(now(), 0, a_second());
    after_first(tenure, command, reply)
}

fn released_with(mut tenure: Tenure, reply: &Reply) -> Command {
    let command = tenure.end(now(), Verdict::Failed);
    after_first(tenure, command, reply)
}

fn committed_with(mut tenure: Tenure, reply: &Reply) -> Command {
    let command = tenure.commit(now(), a_second());
    after_first(tenure, command, reply)
}

/// An execution without a record, one of whose commits is in doubt.
fn with_commit_in_doubt() -> Tenure {
    let mut tenure = tenure(false);
    let _ = sent(tenure.commit(now(), a_second()));
    tenure
}

fn is_pause(command: &Command) -> bool {
    matches!(command, Command::Pause { .. })
}

fn a_second() -> Deadline {
    now().lasting(Duration::from_secs(1))
}

#[test]
fn nothing_is_committed_after_the_end() {
    let mut tenure = tenure(false);
    assert_eq!(tenure.may_commit(), Ok(()));
    assert_eq!(tenure.begin_items(), Ok(()));
    assert_eq!(tenure.begin_items(), Err(NoCommit::Over(Over::Unknown)));
    tenure.items_ended(None);
    assert!(!tenure.is_over() && tenure.may_commit().is_ok());
    tenure.items_ended(Some(Over::LeaseLost));
    assert_eq!(tenure.may_commit(), Err(NoCommit::Over(Over::LeaseLost)));
    tenure.items_ended(None);
    assert!(matches!(tenure.end(now(), Verdict::Failed), Command::Send { .. }));
    assert_eq!(tenure.may_commit(), Err(NoCommit::Closed));
    assert!(tenure.is_over());
}

#[test]
fn a_commit_in_doubt_is_closed_off_by_a_later_end_of_the_lease() {
    let mut tenure = tenure(true);
    let commit = sent(tenure.commit(now(), a_second()));
    assert_eq!(tenure.completed_at(), Some(START.wall));
    assert!(tenure.has_commit_in_doubt());
    assert!(commit.condition.holds(Some(&pending(ME))));
    assert!(!commit.condition.holds(Some(&lasting_until(lease_end().shifted(1)))));
    // The time for the commit is over before the reply arrives.
    let closing = sent(tenure.replied(after(Duration::from_secs(2)), &unknown()));
    assert_eq!(closing.kind, Kind::CloseOff);
    assert!(closing.condition.holds(Some(&pending(ME))));
    let moved = closing.applied_to(Some(&pending(ME)));
    assert!(!commit.condition.holds(Some(&moved)));
    let closed = tenure.replied(after(Duration::from_secs(2)), &reply(WriteResult::Applied));
    assert!(is_not_applied(&closed), "{closed:?}");
    assert!(tenure.may_commit().is_ok());
    // After the close-off, no later commit requires an end that an earlier one has required.
    let next = sent(tenure.commit(now(), a_second()));
    assert!(next.condition.holds(Some(&moved)));
    assert!(tenure.completed_at() > Some(START.wall));
}

#[test]
fn a_commit_that_a_renewal_has_overtaken_requires_the_new_end() {
    let mut tenure = tenure(true);
    let _ = sent(tenure.commit(now(), a_second()));
    let renewed = lasting_until(lease_end().shifted(5_000));
    let pause = tenure.replied(now(), &reply(WriteResult::Rejected(Some(renewed.clone()))));
    assert!(matches!(pause, Command::Pause { .. }), "{pause:?}");
    assert!(sent(tenure.woke(now())).condition.holds(Some(&renewed)));
}

#[test]
fn a_commit_without_an_answer_requires_the_end_to_which_a_renewal_has_moved_the_lease() {
    let (mut tenure, mut renewals) = renewing();
    let _ = sent(tenure.commit(now(), a_second()));
    let renewal = renewal_of(renewals.begin(&mut tenure, after(Duration::from_millis(10))));
    let renewed = renewals.replied(&mut tenure, now(), &reply(WriteResult::Applied));
    assert!(matches!(renewed, crate::Command::Return(Renewal::Next(_))), "{renewed:?}");
    assert!(is_pause(&tenure.replied(now(), &unknown())));
    let again = sent(tenure.woke(now()));
    assert!(again.condition.holds(Some(&renewal.record)));
}

#[test]
fn a_commit_whose_handler_was_stopped_is_looked_for() {
    let mut tenure = tenure(true);
    assert_eq!(tenure.expire(now()), None);
    let mut tenure = self::tenure(true);
    let _ = sent(tenure.commit(now(), a_second()));
    assert!(matches!(tenure.expire(now()), Some(Command::Read { .. })));
    let mut tenure = self::tenure(true);
    let _ = sent(tenure.commit(now(), a_second()));
    let applied = tenure.replied(now(), &reply(WriteResult::Applied));
    assert_eq!(applied, committed(Over::Committed));
    let over = Command::Return(TenureEnd::Over(Over::Committed));
    assert_eq!(tenure.expire(now()), Some(over));
}

#[test]
fn a_commit_whose_future_was_dropped_is_resolved_by_the_failure() {
    let mut tenure = tenure(true);
    assert_eq!(tenure.close(now()), None);
    let mut tenure = self::tenure(true);
    let _ = sent(tenure.commit(now(), a_second()));
    let release = sent(tenure.close(now()).unwrap());
    assert_eq!(release.record.state, State::Released);
    // An execution without a record can only read.
    let mut tenure = self::tenure(false);
    let _ = sent(tenure.commit(now(), a_second()));
    let read = tenure.close(now()).unwrap();
    assert!(matches!(read, Command::Read { .. }), "{read:?}");
}

/// The renewals of a tenure whose lease of 30 seconds is renewed.
fn renewing() -> (Tenure, Renewals) {
    let tenure = tenure(true);
    let (renewals, first) = Renewals::new(&tenure, now()).unwrap();
    assert_eq!(first, Duration::from_secs(10));
    (tenure, renewals)
}

fn renewal_of(command: crate::Command<Renewal>) -> Write {
    let crate::Command::Send { write, limit } = command else { panic!("{command:?}") };
    assert_eq!(limit, Duration::from_secs(5));
    write
}

#[test]
fn a_lease_is_renewed_until_it_is_lost_or_over() {
    use crate::Command::Return;
    let next = |seconds| Return(Renewal::Next(Duration::from_secs(seconds)));
    let at = after(Duration::from_secs(10));
    let fixed = Rules { lease: Lease::Fixed(Duration::from_secs(30)), ..rules() };
    assert!(Renewals::new(&tenure_under(fixed, true), now()).is_none());
    assert!(Renewals::new(&tenure(false), now()).is_none());
    let (mut tenure, mut renewals) = renewing();
    let renewal = renewal_of(renewals.begin(&mut tenure, at));
    assert!(renewal.condition.holds(Some(&pending(ME))));
    assert!(!renewal.condition.holds(Some(&renewal.record)));
    let end = renewal.record.state.lease_expires_at();
    let renewed = renewals.replied(&mut tenure, at, &reply(WriteResult::Applied));
    assert_eq!(renewed, next(10));
    assert_eq!(tenure.window().map(|window| window.lease_expires_at), end);
    let shown = |tenure: &mut Tenure, record: RecordMeta| {
        let mut renewals = Renewals::new(tenure, at).unwrap().0;
        let _ = renewal_of(renewals.begin(tenure, at));
        renewals.replied(tenure, at, &rejected(Some(record)))
    };
    assert_eq!(shown(&mut tenure, renewal.record.clone()), next(10));
    let ended = Return(Renewal::Ended);
    assert_eq!(shown(&mut tenure, record(ME, State::Completed)), ended);
    let _ = renewal_of(renewals.begin(&mut tenure, at));
    let failed = renewals.replied(&mut tenure, at, &unknown());
    assert_eq!(failed, Return(Renewal::Next(Duration::from_millis(1_250))));
    assert!(!tenure.is_lost() && tenure.runs_until().is_some());
    assert_eq!(shown(&mut tenure, pending(OTHER)), Return(Renewal::Lost));
    assert!(tenure.is_lost() && tenure.runs_until().is_none());
    // A write that ends the record is in flight.
    let (mut tenure, _) = renewing();
    let _ = sent(tenure.commit(now(), a_second()));
    assert_eq!(shown(&mut tenure, pending(OTHER)), ended);
    tenure.stop();
    assert_eq!((tenure.window(), renewals.begin(&mut tenure, at)), (None, ended));
}

#[test]
fn a_renewal_with_a_wrong_end_is_corrected_once_and_then_tried_again() {
    let (mut tenure, mut renewals) = renewing();
    let renewal = renewal_of(renewals.begin(&mut tenure, now()));
    let wrong = lease_end().shifted(3_600_000);
    let shown = rejected(Some(lasting_until(wrong)));
    let correction = renewal_of(renewals.replied(&mut tenure, now(), &shown));
    assert_eq!((renewal.kind, correction.kind), (Kind::Renew, Kind::StampAgain));
    assert!(correction.condition.holds(Some(&lasting_until(wrong))));
    let again = renewals.replied(&mut tenure, now(), &shown);
    assert_eq!(again, crate::Command::Return(Renewal::Next(Duration::from_millis(1_250))));
}

#[test]
fn a_wrong_end_of_the_lease_is_corrected_to_one_that_was_never_stamped() {
    let mut tenure = tenure(true);
    let wrong = lease_end().shifted(-20_000);
    tenure.recorded_lease = wrong;
    let correction = tenure.restamp(now()).unwrap();
    assert!(correction.condition.holds(Some(&lasting_until(wrong))));
    assert!(!correction.condition.holds(Some(&pending(ME))));
    assert!(correction.record.state.lease_expires_at() >= Some(lease_end()));
    tenure.recorded_lease = lease_end();
    let again = tenure.restamp(now()).unwrap();
    assert!(again.record.state.lease_expires_at() > Some(lease_end()));
}

#[test]
fn a_response_shortens_the_window_if_a_clock_has_stopped() {
    let mut tenure = tenure(true);
    let before = tenure.window().unwrap();
    // The monotonic clock has missed twenty seconds.
    let received = Local { wall: START.wall.plus(Duration::from_secs(20)), uptime: Uptime(0) };
    tenure.heard(Some(StoreTime { date: received.wall, sent: received, received }));
    assert!(tenure.window().unwrap().end.uptime < before.end.uptime);
    tenure.is_lost = true;
    assert!(tenure.is_lost());
}

#[test]
fn an_end_of_the_lease_that_a_write_has_required_is_not_stamped_again() {
    let mut tenure = tenure(true);
    let end = |tenure: &mut Tenure| tenure.renewal(now()).unwrap().record.state.lease_expires_at();
    assert_eq!(end(&mut tenure), Some(lease_end().shifted(1)));
    tenure.recorded_lease = lease_end().shifted(1);
    let _ = sent(tenure.commit(now(), a_second()));
    tenure.recorded_lease = lease_end();
    assert_eq!(end(&mut tenure), Some(lease_end().shifted(2)));
}

#[test]
fn a_delayed_renewal_does_not_restore_an_end_that_was_corrected() {
    // The wall clock has jumped.
    let wall = START.wall.plus(Duration::from_secs(3));
    let jumped = Now { local: Local { wall, ..now().local }, ..now() };
    let mut tenure = tenure(true);
    let renewal = tenure.renewal(jumped).unwrap();
    let wrong = renewal.record.state.lease_expires_at().unwrap();
    tenure.recorded_lease = wrong;
    let correction = tenure.restamp(now()).unwrap();
    assert!(correction.record.state.lease_expires_at() < Some(wrong));
    assert!(renewal.condition.holds(Some(&pending(ME))));
    assert!(!renewal.condition.holds(Some(&correction.record)));
    // Nor one that a commit in doubt has required.
    let _ = sent(tenure.commit(now(), a_second()));
    let closing = tenure.closing_write();
    assert!(closing.condition.holds(Some(&renewal.record)));
    assert!(!closing.condition.holds(Some(&correction.record)));
    assert!(!renewal.condition.holds(Some(&closing.record)));
}

#[test]
fn a_write_that_is_not_confirmed_in_time_is_unknown_only_if_a_commit_is_in_doubt() {
    let late = after(Duration::from_secs(20));
    let mut tenure = tenure(true);
    let _ = sent(tenure.complete(now(), 0, a_second()));
    assert_eq!(tenure.replied(late, &unknown()), completed(CompletionEnd::Unconfirmed));
    let mut tenure = with_commit_in_doubt();
    let _ = sent(tenure.complete(now(), 0, a_second()));
    assert_eq!(tenure.replied(late, &unknown()), completed(CompletionEnd::Unknown));
}

#[test]
fn only_the_holder_of_a_record_tries_its_completion_again() {
    assert!(is_pause(&completed_with(tenure(true), &unknown())));
    let result = completed_with(tenure(false), &unknown());
    assert_eq!(result, completed(CompletionEnd::Unconfirmed));
    assert!(is_pause(&committed_with(tenure(false), &unknown())));
}

#[test]
fn a_failure_is_written_where_no_record_is_left() {
    let written = failed(FailureEnd::Written(Left::Free));
    assert_eq!(released_with(tenure(true), &reply(WriteResult::Applied)), written);
    assert_eq!(released_with(tenure(true), &rejected(None)), written);
    let doubtful = failed(FailureEnd::Unknown);
    assert_eq!(released_with(with_commit_in_doubt(), &rejected(None)), doubtful);
    let read = completed_with(tenure(true), &rejected(None));
    assert!(matches!(read, Command::Read { .. }), "{read:?}");
}

#[test]
fn an_execution_without_a_record_does_not_commit_again_after_a_dropped_commit() {
    for (is_protected, expected) in [(true, Ok(())), (false, Err(NoCommit::Over(Over::Unknown)))] {
        let mut tenure = tenure(is_protected);
        assert_eq!(tenure.may_commit(), Ok(()));
        let _ = sent(tenure.commit(now(), a_second()));
        // The future is dropped.
        assert_eq!(tenure.may_commit(), expected);
    }
}

#[test]
fn an_answer_beside_a_commit_in_doubt_is_unknown() {
    let unknown = completed(CompletionEnd::Unknown);
    let mut tenure = tenure(false);
    let commit = sent(tenure.commit(now(), a_second()));
    tenure.knowledge.mark_unknown(&commit);
    assert_eq!(completed_with(tenure, &reply(WriteResult::Applied)), unknown);
    let lost = released_with(with_commit_in_doubt(), &rejected(Some(pending(OTHER))));
    assert_eq!(lost, failed(FailureEnd::Unknown));
}

#[test]
fn only_a_commit_without_a_record_is_applied_over_a_later_attempt_that_was_released() {
    let later = RecordMeta { attempt: 2, ..record(OTHER, State::Released) };
    let mut unprotected = tenure(false);
    let _ = sent(unprotected.commit(now(), a_second()));
    let again = sent(unprotected.replied(now(), &rejected(Some(later.clone()))));
    assert_eq!((again.kind, again.record.attempt), (Kind::Commit, 2));
    assert!(again.condition.holds(Some(&later)));
    // It may have been applied, and its record released by hand.
    let mut in_doubt = tenure(false);
    let _ = sent(in_doubt.commit(now(), a_second()));
    assert!(is_pause(&in_doubt.replied(now(), &unknown())));
    let _ = sent(in_doubt.woke(now()));
    let end = in_doubt.replied(now(), &rejected(Some(later.clone())));
    assert_eq!(end, committed(Over::Unknown));
    let lost = committed_with(tenure(true), &rejected(Some(later.clone())));
    assert_eq!(lost, committed(Over::LeaseLost));
    let lost = released_with(tenure(false), &rejected(Some(later)));
    assert_eq!(lost, failed(FailureEnd::LeaseLost));
}

#[test]
fn near_its_end_a_lease_is_renewed_after_half_of_what_is_left() {
    let (at, tenure) = (after(Duration::from_secs(24)), tenure(true));
    let left = at.left(tenure.runs_until().unwrap());
    assert!(!left.is_zero() && left < Duration::from_secs(10));
    assert_eq!(Renewals::new(&tenure, at).unwrap().1, left / 2);
}

#[test]
fn a_tenure_has_the_attempt_of_its_grant_and_does_not_wait_for_another_owner() {
    let mut tenure = tenure(true);
    tenure.attempts.number = 2;
    assert_eq!(tenure.attempt(), 2);
    assert!(!tenure.is_waiting());
}

#[test]
fn the_item_of_a_step_is_kept_a_week_longer_than_its_record() {
    assert_eq!(STEP_ITEM_MARGIN.as_secs(), 604_800);
}

#[test]
fn a_failure_whose_record_was_deleted_leaves_nothing() {
    let mut tenure = tenure(true);
    tenure.steps.were_sent = true;
    assert_eq!(sent(tenure.end(now(), Verdict::Failed)).kind, Kind::Keep);
    let written = failed(FailureEnd::Written(Left::Free));
    assert_eq!(tenure.replied(now(), &rejected(None)), written);
}

#[test]
fn an_undo_recognizes_what_an_earlier_try_has_left() {
    let mut tenure = tenure(true);
    tenure.attempts.number = 2;
    tenure.taken_over = Some(Box::new(pending(OTHER)));
    let undo = sent(tenure.end(now(), Verdict::NothingExecuted));
    assert_eq!(undo.record.owner, ME.alternate());
    let written = failed(FailureEnd::Written(Left::Free));
    assert_eq!(tenure.replied(now(), &rejected(Some(undo.record))), written);
}

#[test]
fn a_commit_that_can_never_be_accepted_is_given_up_unless_an_earlier_try_is_in_doubt() {
    let denied = reply(WriteResult::NotApplied(Cause::Other));
    let given_up = committed_with(tenure(true), &denied);
    assert!(is_not_applied(&given_up), "{given_up:?}");
    let doubtful = Reply { is_in_doubt: true, ..denied.clone() };
    assert!(is_pause(&committed_with(tenure(true), &doubtful)));
    assert!(is_pause(&completed_with(tenure(true), &denied)));
}

#[test]
fn an_own_completed_record_is_the_completion_if_it_has_its_time_and_else_a_commit() {
    let completed_record = record(ME, State::Completed);
    let another =
        RecordMeta { completed_at: Some(START.wall.shifted(1)), ..completed_record.clone() };
    let shown = |record: &RecordMeta| rejected(Some(record.clone()));
    let stored = completed(CompletionEnd::Stored);
    assert_eq!(completed_with(tenure(true), &shown(&completed_record)), stored);
    let committed = completed(CompletionEnd::Committed);
    assert_eq!(completed_with(tenure(true), &shown(&another)), committed);
    let own_error = failed(FailureEnd::Written(Left::Free));
    assert_eq!(released_with(tenure(true), &shown(&completed_record)), own_error);
    let mut tenure = tenure(true);
    tenure.completed_at = Some(START.wall);
    let earlier = failed(FailureEnd::Committed);
    assert_eq!(released_with(tenure, &shown(&completed_record)), earlier);
}

#[test]
fn a_completion_is_lost_to_another_owner_and_tried_again_where_no_record_is_left() {
    for tenure in [tenure(true), tenure(true)] {
        let shown = rejected(Some(pending(OTHER)));
        let lost = completed(CompletionEnd::LeaseLost);
        assert_eq!(completed_with(tenure.clone(), &shown), lost);
        assert_eq!(released_with(tenure.clone(), &shown), failed(FailureEnd::LeaseLost));
        assert_eq!(committed_with(tenure, &shown), committed(Over::LeaseLost));
    }
    let mut tenure = tenure(true);
    let _ = sent(tenure.complete(now(), 0, a_second()));
    let _ = tenure.replied(now(), &rejected(None));
    assert!(is_pause(&tenure.replied(now(), &found(None))));
}

#[test]
fn a_commit_is_lost_with_its_record_and_needs_none_without_protection() {
    let read = |mut tenure: Tenure| {
        let _ = sent(tenure.commit(now(), a_second()));
        let _ = tenure.replied(now(), &rejected(None));
        tenure.replied(now(), &found(None))
    };
    assert_eq!(read(tenure(true)), committed(Over::LeaseLost));
    assert!(is_pause(&read(tenure(false))));
}

#[test]
fn a_commit_in_doubt_that_meets_another_owner_is_unknown_unless_it_can_no_longer_be_applied() {
    let doubtful = |tenure: Tenure, record: RecordMeta| {
        let shown = Reply { is_in_doubt: true, ..rejected(Some(record)) };
        committed_with(tenure, &shown)
    };
    // Each owner has taken over from the one before, so the commit was not applied.
    let taken_over = RecordMeta { attempt: 2, ..pending(OTHER) };
    assert_eq!(doubtful(tenure(true), taken_over.clone()), committed(Over::LeaseLost));
    // The commit may have been applied, and its record removed.
    for record in [
        pending(OTHER),
        record(OTHER, State::Released),
        RecordMeta { created_at: START.wall.shifted(1), ..taken_over.clone() },
    ] {
        assert_eq!(doubtful(tenure(true), record), committed(Over::Unknown));
    }
    // The commit may still be applied, once the other owner has released the record.
    assert_eq!(doubtful(tenure(false), taken_over), committed(Over::Unknown));
    let shown = rejected(Some(pending(OTHER)));
    let unknown = completed(CompletionEnd::Unknown);
    assert_eq!(completed_with(with_commit_in_doubt(), &shown), unknown);
}

#[test]
fn a_commit_that_is_closed_off_by_another_end_of_the_lease_was_not_applied() {
    let mut tenure = tenure(true);
    let _ = sent(tenure.commit(now(), a_second()));
    let _ = sent(tenure.replied(after(Duration::from_secs(2)), &unknown()));
    let renewed = lasting_until(lease_end().shifted(5_000));
    let closed = tenure.replied(now(), &rejected(Some(renewed)));
    assert!(is_not_applied(&closed), "{closed:?}");
}

#[test]
fn an_execution_without_a_record_is_created_later_than_the_record_it_has_seen() {
    let mut owner = tenure(false);
    let released = record(OTHER, State::Released);
    owner.knowledge.see(Some(released.clone()));
    let write = sent(owner.commit(now(), a_second()));
    assert!(write.record.created_at > released.created_at, "{write:?}");
}

#[test]
fn a_completion_keeps_the_later_attempt_after_which_the_key_was_released() {
    let later = RecordMeta {
        attempt: 2,
        created_at: START.wall.shifted(1),
        ..record(OTHER, State::Released)
    };
    let mut owner = tenure(true);
    let first = sent(owner.complete(now(), 0, a_second()));
    assert!(first.condition.holds(Some(&record(OTHER, State::Released))));
    assert!(!first.condition.holds(Some(&later)));
    let again = sent(owner.replied(now(), &rejected(Some(later.clone()))));
    assert!(again.condition.holds(Some(&later)));
    let RecordMeta { attempt, created_at, .. } = later.clone();
    assert_eq!(again.record, RecordMeta { attempt, created_at, ..first.record.clone() });
    let over = |seen: RecordMeta| {
        let mut tenure = tenure(true);
        tenure.knowledge.see(Some(seen));
        tenure.completion_over_released(Some(&first))
    };
    assert!(over(record(OTHER, State::Released)).is_none());
    assert!(over(RecordMeta { attempt: 2, ..record(OTHER, State::Completed) }).is_none());
}

#[test]
fn a_release_in_doubt_was_applied_if_another_call_owns_the_record_before_the_lease_expires() {
    for (seconds, expected) in [(5, FailureEnd::Written(Left::Free)), (31, FailureEnd::LeaseLost)] {
        let mut tenure = tenure(true);
        let _ = sent(tenure.end(now(), Verdict::Failed));
        assert!(is_pause(&tenure.replied(now(), &unknown())));
        let _ = sent(tenure.woke(now()));
        let at = after(Duration::from_secs(seconds));
        assert_eq!(tenure.replied(at, &rejected(Some(pending(OTHER)))), failed(expected));
    }
}

#[test]
fn an_undone_attempt_that_a_handler_has_seen_is_counted_as_released() {
    let mut tenure = tenure(true);
    tenure.attempts.number = 2;
    tenure.taken_over = Some(Box::new(record(OTHER, State::Failed)));
    let undone = sent(tenure.end(now(), Verdict::NothingExecuted));
    assert_eq!(undone.condition, Condition::held_by(ME));
    let RecordMeta { state, attempt, released_attempts, .. } = undone.record;
    assert_eq!((state, attempt, released_attempts), (State::Failed, 2, 1));
}

#[test]
fn the_parts_of_an_answer_do_not_expire_before_its_record() {
    let mut tenure = tenure(true);
    let kept_until = tenure.parts_expire_at(now().stamp().unwrap());
    // Writing the parts has taken five seconds.
    let at = after(Duration::from_secs(5));
    let completion = sent(tenure.complete(at, kept_until, a_second()));
    assert_eq!(completion.record.expires_at, kept_until);
}

#[test]
fn a_commit_after_a_dropped_one_that_may_have_been_applied_and_replaced_is_unknown() {
    let mut tenure = tenure(true);
    // The handler drops the first commit's future.
    let _ = sent(tenure.commit(now(), a_second()));
    let again = tenure.commit(now(), a_second());
    let shown = rejected(Some(pending(OTHER)));
    assert_eq!(after_first(tenure, again, &shown), committed(Over::Unknown));
}

/// The results of a step's write, after this reply to its first request.
fn step_after(tenure: &mut Tenure, reply: &Reply, has_step: bool) -> crate::Command<StepResult> {
    let (mut step, first) = StepWrite::start(tenure, now(), a_second(), NO_ITEM);
    assert!(matches!(of_record(first), crate::Command::Send { .. }));
    of_record(step.replied(tenure, now(), reply, has_step))
}

const NO_ITEM: Option<()> = None;

/// A command that is not the put of an item.
fn of_record<I: std::fmt::Debug>(command: StepCommand<I>) -> crate::Command<StepResult> {
    let StepCommand::Record(command) = command else { panic!("{command:?}") };
    command
}

#[test]
fn a_step_is_stored_once_for_its_owner() {
    let returns = crate::Command::Return;
    let stepped = RecordMeta { steps: Some(1), ..pending(ME) };
    for (reply, has_step, expected) in [
        (reply(WriteResult::Applied), false, StepResult::Stored),
        // An earlier try was applied, and its response was lost.
        (rejected(Some(stepped.clone())), true, StepResult::Stored),
        (reply(WriteResult::Invalid(Cause::Other)), false, StepResult::Invalid),
        (rejected(Some(pending(OTHER))), false, StepResult::Lost),
        (rejected(Some(record(ME, State::Failed))), false, StepResult::Over),
    ] {
        let mut tenure = tenure(true);
        assert_eq!(step_after(&mut tenure, &reply, has_step), returns(expected));
        assert_eq!(tenure.is_lost(), expected == StepResult::Lost);
        assert_eq!(tenure.undo_write(), EndWrite::Keep);
    }
}

#[test]
fn a_step_that_meets_the_map_of_another_is_added_to_it() {
    let mut tenure = tenure(true);
    let (mut step, first) = StepWrite::start(&mut tenure, now(), a_second(), NO_ITEM);
    let crate::Command::Send { write, .. } = of_record(first.clone()) else { panic!("{first:?}") };
    assert_eq!(write.condition, Condition::held_by(ME).and(Term::NoSteps));
    let stepped = RecordMeta { steps: Some(1), ..pending(ME) };
    let again = step.replied(&mut tenure, now(), &rejected(Some(stepped.clone())), false);
    let crate::Command::Send { write, .. } = of_record(again.clone()) else { panic!("{again:?}") };
    assert_eq!(write.condition, Condition::held_by(ME));
    // It is rejected although it is held: the record changes too fast, so a pause follows.
    let paused = of_record(step.replied(&mut tenure, now(), &rejected(Some(stepped)), false));
    assert!(matches!(paused, crate::Command::Pause { .. }), "{paused:?}");
}

#[test]
fn a_step_beside_the_one_that_created_the_map_does_not_wait() {
    let mut tenure = tenure(true);
    let (mut creator, _) = StepWrite::start(&mut tenure, now(), a_second(), NO_ITEM);
    let (mut other, _) = StepWrite::start(&mut tenure, now(), a_second(), NO_ITEM);
    let stored = creator.replied(&mut tenure, now(), &reply(WriteResult::Applied), false);
    assert_eq!(of_record(stored), crate::Command::Return(StepResult::Stored));
    // The reply to the other step arrives later.
    let stepped = RecordMeta { steps: Some(1), ..pending(ME) };
    let again = of_record(other.replied(&mut tenure, now(), &rejected(Some(stepped)), false));
    let crate::Command::Send { write, .. } = again else { panic!("{again:?}") };
    assert_eq!(write.condition, Condition::held_by(ME));
}

#[test]
fn a_step_without_an_answer_is_tried_again_until_its_time_is_over() {
    let mut tenure = tenure(true);
    let (mut step, _) = StepWrite::start(&mut tenure, now(), a_second(), NO_ITEM);
    let paused = of_record(step.replied(&mut tenure, now(), &unknown(), false));
    assert!(matches!(paused, crate::Command::Pause { .. }), "{paused:?}");
    assert!(matches!(of_record(step.woke(&mut tenure, now())), crate::Command::Send { .. }));
    let read = of_record(step.replied(&mut tenure, now(), &rejected(None), false));
    assert!(matches!(read, crate::Command::Read { is_consistent: true, .. }), "{read:?}");
    let gone = of_record(step.clone().replied(&mut tenure.clone(), now(), &found(None), false));
    assert_eq!(gone, crate::Command::Return(StepResult::Lost));
    let late = after(Duration::from_secs(2));
    let ended = of_record(step.replied(&mut tenure, late, &unknown(), false));
    assert_eq!(ended, crate::Command::Return(StepResult::Unconfirmed));
}

/// The put of an item.
fn item_put(command: &StepCommand<()>) -> (i64, Duration) {
    let StepCommand::PutItem { item: (), expires_at, limit } = command else {
        panic!("{command:?}")
    };
    (*expires_at, *limit)
}

#[test]
fn a_step_is_noted_once_its_item_is_confirmed() {
    let mut tenure = tenure(true);
    let (mut step, first) = StepWrite::start(&mut tenure, now(), a_second(), Some(()));
    let (expires_at, limit) = item_put(&first);
    // The other half is for the record.
    assert_eq!(limit, Duration::from_millis(500));
    let lease = tenure.lease_expires_at();
    assert!(expires_at >= lease.plus(tenure.rules.retention + STEP_ITEM_MARGIN).seconds_up());
    assert_eq!(tenure.undo_write(), EndWrite::Keep, "the work has run");
    for unconfirmed in [unknown(), rejected(None)] {
        let paused = of_record(step.replied(&mut tenure, now(), &unconfirmed, true));
        assert!(matches!(paused, crate::Command::Pause { .. }), "{paused:?}");
        assert_eq!(item_put(&step.woke(&mut tenure, now())), (expires_at, limit));
    }
    let confirmed = reply(WriteResult::Applied);
    let noted = of_record(step.replied(&mut tenure, now(), &confirmed, false));
    let crate::Command::Send { write, limit } = noted else { panic!("{noted:?}") };
    assert_eq!((write.kind, limit), (Kind::Step, Duration::from_secs(1)));
    let stored = step.replied(&mut tenure, now(), &reply(WriteResult::Applied), false);
    assert_eq!(of_record(stored), crate::Command::Return(StepResult::Stored));
}

#[test]
fn an_item_that_is_not_confirmed_in_half_of_the_time_is_not_noted() {
    let fails =
        [reply(WriteResult::Invalid(Cause::Other)), reply(WriteResult::NotApplied(Cause::Other))];
    let late = after(Duration::from_millis(500));
    for (now, failed) in fails.map(|failed| (now(), failed)).into_iter().chain([(late, unknown())])
    {
        let mut tenure = tenure(true);
        let (mut step, first) =
            StepWrite::start(&mut tenure, crate::tests::now(), a_second(), Some(()));
        item_put(&first);
        let ended = of_record(step.replied(&mut tenure, now, &failed, false));
        assert_eq!(ended, crate::Command::Return(StepResult::ItemUnconfirmed));
    }
}

#[test]
fn an_unrenewed_lease_bounds_the_time_for_an_item() {
    let mut tenure = tenure(true);
    tenure.rules.lease = crate::policy::Lease::Fixed(Duration::from_secs(30));
    let left = now().left(tenure.window.unwrap().end);
    let (_, first) = StepWrite::start(&mut tenure, now(), now().lasting(left * 3), Some(()));
    assert_eq!(item_put(&first).1, left / 2);
    tenure.rules.lease = crate::policy::Lease::Renewed(left);
    let (_, first) = StepWrite::start(&mut tenure, now(), now().lasting(left * 3), Some(()));
    let (expires_at, limit) = item_put(&first);
    assert_eq!(limit, left * 3 / 2);
    // The lease can be renewed while the item is written.
    let renewed = tenure.lease_expires_at().plus(left);
    let record_expires_at = renewed.plus(tenure.rules.retention + STEP_ITEM_MARGIN).seconds_up();
    assert_eq!(expires_at, record_expires_at);
}

#[test]
fn a_record_that_may_have_steps_is_kept() {
    let writes = |tenure: &Tenure| (tenure.failure_write(), tenure.undo_write());
    let mut released = tenure(true);
    assert_eq!(writes(&released), (EndWrite::Release, EndWrite::Undo));
    let kept = tenure_under(Rules { failure: Failure::Replay, ..rules() }, true);
    assert_eq!(writes(&kept), (EndWrite::Keep, EndWrite::Undo));
    released.steps.have_map = true;
    // Steps of earlier attempts are put back by an undo.
    assert_eq!(writes(&released), (EndWrite::Keep, EndWrite::Undo));
}

#[test]
fn the_retention_of_a_kept_failure_is_corrected_whatever_steps_it_has() {
    let mut tenure = tenure(true);
    let (mut step, _) = StepWrite::<()>::start(&mut tenure, now(), a_second(), None);
    let _ = step.replied(&mut tenure, now(), &reply(WriteResult::Applied), false);
    let write = sent(tenure.end(now(), Verdict::Failed));
    let kept = write.applied_to(Some(&RecordMeta { steps: Some(1), ..pending(ME) }));
    assert_eq!((kept.state, kept.steps), (State::Failed, Some(1)));
    // Both clocks have stood still for a day: the response shows that the record expires too early.
    let received = now().local;
    let date = received.wall.plus(Duration::from_secs(24 * 60 * 60));
    let time = Some(StoreTime { date, sent: received, received });
    let applied = Reply { time, ..reply(WriteResult::Applied) };
    let extension = sent(tenure.replied(now(), &applied));
    assert_eq!(extension.kind, Kind::Extend);
    assert!(extension.condition.holds(Some(&kept)));
    assert!(!extension.condition.holds(Some(&pending(ME))));
}

#[test]
fn a_failed_read_that_looks_for_a_commit_is_tried_again() {
    let mut tenure = tenure(false);
    let _ = sent(tenure.commit(now(), a_second()));
    let late = after(Duration::from_secs(1));
    assert!(matches!(tenure.replied(late, &unknown()), crate::Command::Read { .. }));
    let failed = Outcome::Read(ReadResult::Failed(Cause::Outage));
    let failed = Reply { outcome: failed, is_in_doubt: false, time: None };
    let paused = tenure.replied(late, &failed);
    assert!(matches!(paused, crate::Command::Pause { .. }), "{paused:?}");
    assert!(matches!(tenure.woke(late), crate::Command::Read { .. }));
    let unknown = CommitEnd::Over(Over::Unknown);
    let ended = tenure.replied(after(Duration::from_secs(9)), &failed);
    assert_eq!(ended, crate::Command::Return(TenureEnd::Commit(unknown)));
}
