use super::*;
use crate::condition::Condition;
use crate::condition::Term;
use crate::machine::{Cause, WriteResult};
use crate::record::State;
use crate::tests::{ME, OTHER, START, after, now, pending, record, rules};
use crate::time::{Local, StoreTime, Uptime};
use crate::write::Kind;

fn lease_end() -> Timestamp {
    pending(ME).state.lease_expires_at().unwrap()
}

fn lasting_until(lease_expires_at: Timestamp) -> Header {
    Header { state: State::Pending { lease_expires_at }, ..pending(ME) }
}

/// An execution that holds a lease of 30 seconds, or has no record.
fn finish(is_protected: bool) -> Finish {
    finish_under(rules(), is_protected)
}

fn finish_under(rules: Rules, is_protected: bool) -> Finish {
    let mut knowledge = Knowledge::new(ME);
    if is_protected {
        knowledge.see(Some(pending(ME)));
    }
    let attempts = Attempts { created_at: Some(START.wall), ..Attempts::FIRST };
    let grant = Grant { knowledge, taken_over: None, attempts };
    let window = rules.window(now(), rules.deadline, lease_end(), None).filter(|_| is_protected);
    assert_eq!(window.is_some(), is_protected);
    Finish::new(grant, rules, window, now())
}

fn reply(result: WriteResult<Header>) -> Reply {
    Reply { outcome: Outcome::Write(result), is_in_doubt: false, time: None }
}

fn unknown() -> Reply {
    reply(WriteResult::Unknown(Cause::Outage))
}

fn sent(command: Command) -> Write {
    let Command::Send { write, .. } = command else { panic!("{command:?}") };
    write
}

fn rejected(record: Option<Header>) -> Reply {
    reply(WriteResult::Rejected(record))
}

fn found(record: Option<Header>) -> Reply {
    Reply { outcome: Outcome::Read(ReadResult::Found(record)), ..unknown() }
}

/// What the machine returns after this reply to the write that it sends first.
fn after_first(mut finish: Finish, command: Command, reply: &Reply) -> Command {
    let _ = sent(command);
    finish.replied(now(), reply)
}

fn completed_with(mut finish: Finish, reply: &Reply) -> Command {
    let command = finish.complete(now(), 0, a_second());
    after_first(finish, command, reply)
}

fn released_with(mut finish: Finish, reply: &Reply) -> Command {
    let command = finish.fail(now(), EndWrite::Release);
    after_first(finish, command, reply)
}

fn committed_with(mut finish: Finish, reply: &Reply) -> Command {
    let command = finish.commit(now(), a_second());
    after_first(finish, command, reply)
}

/// An execution without a record, one of whose commits is in doubt.
fn with_commit_in_doubt() -> Finish {
    let mut finish = finish(false);
    let _ = sent(finish.commit(now(), a_second()));
    finish
}

fn returns(result: FinishResult) -> Command {
    Command::Return(result)
}

fn is_pause(command: &Command) -> bool {
    matches!(command, Command::Pause { .. })
}

fn a_second() -> Deadline {
    now().lasting(Duration::from_secs(1))
}

#[test]
fn nothing_is_committed_after_the_end() {
    let mut finish = finish(false);
    assert_eq!(finish.may_commit(), Ok(()));
    assert_eq!(finish.begin_items(), Ok(()));
    assert_eq!(finish.begin_items(), Err(NoCommit::Over(FinishResult::Unknown)));
    finish.items_ended(None);
    assert!(!finish.is_over() && finish.may_commit().is_ok());
    finish.items_ended(Some(FinishResult::LeaseLost));
    assert_eq!(finish.may_commit(), Err(NoCommit::Over(FinishResult::LeaseLost)));
    finish.items_ended(None);
    assert!(matches!(finish.fail(now(), EndWrite::Release), Command::Send { .. }));
    assert_eq!(finish.may_commit(), Err(NoCommit::Closed));
    assert!(finish.is_over());
}

#[test]
fn a_commit_in_doubt_is_closed_off_by_a_later_end_of_the_lease() {
    let mut finish = finish(true);
    let commit = sent(finish.commit(now(), a_second()));
    assert_eq!(finish.completed_at(), Some(START.wall));
    assert!(finish.has_commit_in_doubt());
    assert!(commit.condition.holds(Some(&pending(ME))));
    assert!(!commit.condition.holds(Some(&lasting_until(lease_end().shifted(1)))));
    // The time for the commit is over before the reply arrives.
    let closing = sent(finish.replied(after(Duration::from_secs(2)), &unknown()));
    assert_eq!(closing.kind, Kind::CloseOff);
    assert!(closing.condition.holds(Some(&pending(ME))));
    let moved = closing.applied_to(Some(&pending(ME)));
    assert!(!commit.condition.holds(Some(&moved)));
    let closed = finish.replied(after(Duration::from_secs(2)), &reply(WriteResult::Applied));
    assert!(matches!(closed, Command::Return(FinishResult::NotCommitted(_))), "{closed:?}");
    assert!(finish.may_commit().is_ok());
    // No later commit requires an end that an earlier one has required.
    let next = sent(finish.commit(now(), a_second()));
    assert!(next.condition.holds(Some(&moved)));
    assert!(finish.completed_at() > Some(START.wall));
}

#[test]
fn a_commit_that_a_renewal_has_overtaken_requires_the_new_end() {
    let mut finish = finish(true);
    let _ = sent(finish.commit(now(), a_second()));
    let renewed = lasting_until(lease_end().shifted(5_000));
    let pause = finish.replied(now(), &reply(WriteResult::Rejected(Some(renewed.clone()))));
    assert!(matches!(pause, Command::Pause { .. }), "{pause:?}");
    assert!(sent(finish.woke(now())).condition.holds(Some(&renewed)));
}

#[test]
fn a_commit_whose_handler_was_stopped_is_looked_for() {
    let mut finish = finish(true);
    assert_eq!(finish.expire(now()), None);
    let mut finish = self::finish(true);
    let _ = sent(finish.commit(now(), a_second()));
    assert!(matches!(finish.expire(now()), Some(Command::Read { .. })));
    let mut finish = self::finish(true);
    let _ = finish.over(FinishResult::Stored);
    assert_eq!(finish.expire(now()), Some(Command::Return(FinishResult::Stored)));
}

#[test]
fn a_commit_whose_future_was_dropped_is_resolved_by_the_failure() {
    let mut finish = finish(true);
    assert_eq!(finish.close(now(), EndWrite::Release), None);
    let mut finish = self::finish(true);
    let _ = sent(finish.commit(now(), a_second()));
    let release = sent(finish.close(now(), EndWrite::Release).unwrap());
    assert_eq!(release.record.state, State::Released);
    // An execution without a record can only read.
    let mut finish = self::finish(false);
    let _ = sent(finish.commit(now(), a_second()));
    let read = finish.close(now(), EndWrite::Release).unwrap();
    assert!(matches!(read, Command::Read { .. }), "{read:?}");
}

#[test]
fn a_lease_is_renewed_until_it_is_lost_or_over() {
    let at = after(Duration::from_secs(10));
    let mut finish = finish(true);
    let renewal = finish.renewal(at).unwrap();
    assert!(renewal.condition.holds(Some(&pending(ME))));
    assert!(!renewal.condition.holds(Some(&renewal.record)));
    let end = renewal.record.state.lease_expires_at();
    assert_eq!(finish.renewed(at, &renewal, &reply(WriteResult::Applied)), Renewal::Renewed);
    assert_eq!(finish.window().map(|window| window.lease_expires_at), end);
    let shown = |finish: &mut Finish, record| {
        finish.renewed(at, &renewal, &reply(WriteResult::Rejected(Some(record))))
    };
    assert_eq!(shown(&mut finish, renewal.record.clone()), Renewal::Renewed);
    assert_eq!(shown(&mut finish, record(ME, State::Completed)), Renewal::Ended);
    assert_eq!(finish.renewed(at, &renewal, &unknown()), Renewal::Failed);
    assert!(!finish.is_lost());
    assert_eq!(shown(&mut finish, pending(OTHER)), Renewal::Lost);
    assert!(finish.is_lost());
    // A write that ends the record is in flight.
    let mut finish = self::finish(true);
    let _ = sent(finish.commit(now(), a_second()));
    assert_eq!(shown(&mut finish, pending(OTHER)), Renewal::Ended);
    finish.stop();
    assert_eq!((finish.window(), finish.renewal(at)), (None, None));
}

#[test]
fn a_wrong_end_of_the_lease_is_corrected_to_one_that_was_never_stamped() {
    let mut finish = finish(true);
    let wrong = lease_end().shifted(-20_000);
    let correction = finish.restamp(now(), wrong).unwrap();
    assert!(correction.condition.holds(Some(&lasting_until(wrong))));
    assert!(!correction.condition.holds(Some(&pending(ME))));
    assert!(correction.record.state.lease_expires_at() >= Some(lease_end()));
    let again = finish.restamp(now(), lease_end()).unwrap();
    assert!(again.record.state.lease_expires_at() > Some(lease_end()));
}

#[test]
fn a_response_shortens_the_window_if_a_clock_has_stopped() {
    let mut finish = finish(true);
    let before = finish.window().unwrap();
    // The monotonic clock has missed twenty seconds.
    let received = Local { wall: START.wall.plus(Duration::from_secs(20)), uptime: Uptime(0) };
    finish.heard(Some(StoreTime { date: received.wall, sent: received, received }));
    assert!(finish.window().unwrap().end.uptime < before.end.uptime);
    finish.is_lost = true;
    assert!(finish.is_lost());
}

#[test]
fn a_lease_that_a_commit_has_required_is_not_stamped_again() {
    let mut finish = finish(true);
    let end = |finish: &Finish| finish.renewal(now()).unwrap().record.state.lease_expires_at();
    assert_eq!(end(&finish), Some(lease_end()));
    let _ = sent(finish.commit(now(), a_second()));
    assert_eq!(end(&finish), Some(lease_end().shifted(1)));
}

#[test]
fn a_write_that_is_not_confirmed_in_time_is_unknown_only_if_a_commit_is_in_doubt() {
    let late = after(Duration::from_secs(20));
    let mut finish = finish(true);
    let _ = sent(finish.complete(now(), 0, a_second()));
    assert_eq!(finish.replied(late, &unknown()), returns(FinishResult::Unconfirmed));
    let mut finish = with_commit_in_doubt();
    let _ = sent(finish.complete(now(), 0, a_second()));
    assert_eq!(finish.replied(late, &unknown()), returns(FinishResult::Unknown));
}

#[test]
fn only_the_holder_of_a_record_tries_its_completion_again() {
    assert!(is_pause(&completed_with(finish(true), &unknown())));
    let result = completed_with(finish(false), &unknown());
    assert_eq!(result, returns(FinishResult::Unconfirmed));
    assert!(is_pause(&committed_with(finish(false), &unknown())));
}

#[test]
fn a_failure_is_written_where_no_record_is_left() {
    let written = returns(FinishResult::FailureWritten);
    assert_eq!(released_with(finish(true), &reply(WriteResult::Applied)), written);
    assert_eq!(released_with(finish(true), &rejected(None)), written);
    let doubtful = returns(FinishResult::Unknown);
    assert_eq!(released_with(with_commit_in_doubt(), &rejected(None)), doubtful);
    let read = completed_with(finish(true), &rejected(None));
    assert!(matches!(read, Command::Read { .. }), "{read:?}");
}

#[test]
fn a_commit_that_can_never_be_accepted_is_given_up_unless_an_earlier_try_is_in_doubt() {
    let denied = reply(WriteResult::NotApplied(Cause::Other));
    let given_up = committed_with(finish(true), &denied);
    assert!(matches!(given_up, Command::Return(FinishResult::NotCommitted(_))), "{given_up:?}");
    let doubtful = Reply { is_in_doubt: true, ..denied.clone() };
    assert!(is_pause(&committed_with(finish(true), &doubtful)));
    assert!(is_pause(&completed_with(finish(true), &denied)));
}

#[test]
fn an_own_completed_record_is_the_completion_or_a_commit_if_one_was_sent() {
    let completed = record(ME, State::Completed);
    let another = Header { completed_at: Some(START.wall.shifted(1)), ..completed.clone() };
    let shown = |record: &Header| rejected(Some(record.clone()));
    let stored = returns(FinishResult::Stored);
    assert_eq!(completed_with(finish(true), &shown(&completed)), stored);
    let committed = returns(FinishResult::Committed);
    assert_eq!(completed_with(finish(true), &shown(&another)), committed);
    let own_error = returns(FinishResult::FailureWritten);
    assert_eq!(released_with(finish(true), &shown(&completed)), own_error);
    let mut finish = finish(true);
    finish.completed_at = Some(START.wall);
    assert_eq!(released_with(finish, &shown(&completed)), committed);
}

#[test]
fn a_completion_is_lost_to_another_owner_and_tried_again_where_no_record_is_left() {
    let lost = returns(FinishResult::LeaseLost);
    for finish in [finish(true), finish(true)] {
        let shown = rejected(Some(pending(OTHER)));
        assert_eq!(completed_with(finish.clone(), &shown), lost);
        assert_eq!(released_with(finish.clone(), &shown), lost);
        assert_eq!(committed_with(finish, &shown), lost);
    }
    let mut finish = finish(true);
    let _ = sent(finish.complete(now(), 0, a_second()));
    let _ = finish.replied(now(), &rejected(None));
    assert!(is_pause(&finish.replied(now(), &found(None))));
}

#[test]
fn a_commit_is_lost_with_its_record_and_needs_none_without_protection() {
    let read = |mut finish: Finish| {
        let _ = sent(finish.commit(now(), a_second()));
        let _ = finish.replied(now(), &rejected(None));
        finish.replied(now(), &found(None))
    };
    assert_eq!(read(finish(true)), returns(FinishResult::LeaseLost));
    assert!(is_pause(&read(finish(false))));
}

#[test]
fn a_commit_in_doubt_that_meets_another_owner_is_unknown_unless_it_can_no_longer_be_applied() {
    let doubtful = |finish: Finish, record: Header| {
        let shown = Reply { is_in_doubt: true, ..rejected(Some(record)) };
        committed_with(finish, &shown)
    };
    // Each owner has taken over from the one before, so the commit was not applied.
    let taken_over = Header { attempt: 2, ..pending(OTHER) };
    assert_eq!(doubtful(finish(true), taken_over.clone()), returns(FinishResult::LeaseLost));
    // The commit may have been applied, and its record removed.
    for record in [
        pending(OTHER),
        record(OTHER, State::Released),
        Header { created_at: START.wall.shifted(1), ..taken_over.clone() },
    ] {
        assert_eq!(doubtful(finish(true), record), returns(FinishResult::Unknown));
    }
    // The commit may still be applied, once the other owner has released the record.
    assert_eq!(doubtful(finish(false), taken_over), returns(FinishResult::Unknown));
    let shown = rejected(Some(pending(OTHER)));
    let unknown = returns(FinishResult::Unknown);
    assert_eq!(completed_with(with_commit_in_doubt(), &shown), unknown);
}

#[test]
fn a_commit_that_is_closed_off_by_another_end_of_the_lease_was_not_applied() {
    let mut finish = finish(true);
    let _ = sent(finish.commit(now(), a_second()));
    let _ = sent(finish.replied(after(Duration::from_secs(2)), &unknown()));
    let renewed = lasting_until(lease_end().shifted(5_000));
    let closed = finish.replied(now(), &rejected(Some(renewed)));
    assert!(matches!(closed, Command::Return(FinishResult::NotCommitted(_))), "{closed:?}");
}

#[test]
fn an_execution_without_a_record_is_created_later_than_the_record_it_has_seen() {
    let mut owner = finish(false);
    let released = record(OTHER, State::Released);
    owner.knowledge.see(Some(released.clone()));
    let write = sent(owner.commit(now(), a_second()));
    assert!(write.record.created_at > released.created_at, "{write:?}");
}

#[test]
fn a_completion_keeps_the_later_attempt_after_which_the_key_was_released() {
    let later =
        Header { attempt: 2, created_at: START.wall.shifted(1), ..record(OTHER, State::Released) };
    let mut owner = finish(true);
    let first = sent(owner.complete(now(), 0, a_second()));
    assert!(first.condition.holds(Some(&record(OTHER, State::Released))));
    assert!(!first.condition.holds(Some(&later)));
    let again = sent(owner.replied(now(), &rejected(Some(later.clone()))));
    assert!(again.condition.holds(Some(&later)));
    let Header { attempt, created_at, .. } = later.clone();
    assert_eq!(again.record, Header { attempt, created_at, ..first.record.clone() });
    let over = |seen: Header| {
        let mut finish = finish(true);
        finish.knowledge.see(Some(seen));
        finish.completion_over_released(Some(&first))
    };
    assert!(over(record(OTHER, State::Released)).is_none());
    assert!(over(Header { attempt: 2, ..record(OTHER, State::Completed) }).is_none());
}

#[test]
fn a_release_in_doubt_was_applied_if_another_call_owns_the_record_before_the_lease_expires() {
    for (seconds, expected) in [(5, FinishResult::FailureWritten), (31, FinishResult::LeaseLost)] {
        let mut finish = finish(true);
        let _ = sent(finish.fail(now(), EndWrite::Release));
        assert!(is_pause(&finish.replied(now(), &unknown())));
        let _ = sent(finish.woke(now()));
        let at = after(Duration::from_secs(seconds));
        assert_eq!(finish.replied(at, &rejected(Some(pending(OTHER)))), returns(expected));
    }
}

#[test]
fn an_undone_attempt_that_a_handler_has_seen_is_counted_as_released() {
    let mut finish = finish(true);
    finish.attempts.number = 2;
    finish.taken_over = Some(record(OTHER, State::Failed));
    let undone = sent(finish.fail(now(), EndWrite::Undo));
    assert_eq!(undone.condition, Condition::held_by(ME));
    let Header { state, attempt, released_attempts, .. } = undone.record;
    assert_eq!((state, attempt, released_attempts), (State::Failed, 2, 1));
}

#[test]
fn the_parts_of_an_answer_do_not_expire_before_its_record() {
    let mut finish = finish(true);
    let kept_until = finish.parts_expire_at(now().stamp().unwrap());
    // Writing the parts has taken five seconds.
    let at = after(Duration::from_secs(5));
    let completion = sent(finish.complete(at, kept_until, a_second()));
    assert_eq!(completion.record.expires_at, kept_until);
}

#[test]
fn a_commit_after_a_dropped_one_that_may_have_been_applied_and_replaced_is_unknown() {
    let mut finish = finish(true);
    // The handler drops the first commit's future.
    let _ = sent(finish.commit(now(), a_second()));
    let again = finish.commit(now(), a_second());
    let shown = rejected(Some(pending(OTHER)));
    assert_eq!(after_first(finish, again, &shown), returns(FinishResult::Unknown));
}

/// The results of a step's write, after this reply to its first request.
fn step_after(tenure: &mut Finish, reply: &Reply, has_step: bool) -> crate::Command<StepResult> {
    let (mut step, first) = StepWrite::start(tenure, now(), a_second());
    assert!(matches!(first, crate::Command::Send { .. }), "{first:?}");
    step.replied(tenure, now(), reply, has_step)
}

#[test]
fn a_step_is_stored_once_for_its_owner() {
    let returns = crate::Command::Return;
    let stepped = Header { steps: Some(1), ..pending(ME) };
    for (reply, has_step, expected) in [
        (reply(WriteResult::Applied), false, StepResult::Stored),
        // An earlier try was applied, and its response was lost.
        (rejected(Some(stepped.clone())), true, StepResult::Stored),
        (reply(WriteResult::Invalid(Cause::Other)), false, StepResult::Invalid),
        (rejected(Some(pending(OTHER))), false, StepResult::Lost),
        (rejected(Some(record(ME, State::Failed))), false, StepResult::Over),
    ] {
        let mut tenure = finish(true);
        assert_eq!(step_after(&mut tenure, &reply, has_step), returns(expected));
        assert_eq!(tenure.is_lost(), expected == StepResult::Lost);
        assert_eq!(tenure.undo(), EndWrite::Keep);
    }
}

#[test]
fn a_step_that_meets_the_map_of_another_is_added_to_it() {
    let mut tenure = finish(true);
    let (mut step, first) = StepWrite::start(&mut tenure, now(), a_second());
    let crate::Command::Send { write, .. } = first else { panic!("{first:?}") };
    assert_eq!(write.condition, Condition::held_by(ME).and(Term::NoSteps));
    let stepped = Header { steps: Some(1), ..pending(ME) };
    let again = step.replied(&mut tenure, now(), &rejected(Some(stepped.clone())), false);
    let crate::Command::Send { write, .. } = again else { panic!("{again:?}") };
    assert_eq!(write.condition, Condition::held_by(ME));
    // It is rejected although it is held: the record changes too fast, so a pause follows.
    let paused = step.replied(&mut tenure, now(), &rejected(Some(stepped)), false);
    assert!(matches!(paused, crate::Command::Pause { .. }), "{paused:?}");
}

#[test]
fn a_step_without_an_answer_is_tried_again_until_its_time_is_over() {
    let mut tenure = finish(true);
    let (mut step, _) = StepWrite::start(&mut tenure, now(), a_second());
    let paused = step.replied(&mut tenure, now(), &unknown(), false);
    assert!(matches!(paused, crate::Command::Pause { .. }), "{paused:?}");
    assert!(matches!(step.woke(&mut tenure, now()), crate::Command::Send { .. }));
    let read = step.replied(&mut tenure, now(), &rejected(None), false);
    assert!(matches!(read, crate::Command::Read { is_consistent: true, .. }), "{read:?}");
    let gone = step.clone().replied(&mut tenure.clone(), now(), &found(None), false);
    assert_eq!(gone, crate::Command::Return(StepResult::Lost));
    let late = after(Duration::from_secs(2));
    let ended = step.replied(&mut tenure, late, &unknown(), false);
    assert_eq!(ended, crate::Command::Return(StepResult::Unconfirmed));
}

#[test]
fn a_record_that_may_have_steps_is_kept() {
    let mut tenure = finish(true);
    assert_eq!((tenure.failure(false), tenure.undo()), (EndWrite::Release, EndWrite::Undo));
    assert_eq!(tenure.failure(true), EndWrite::Keep);
    tenure.steps.have_map = true;
    // Steps of earlier attempts are put back by an undo.
    assert_eq!((tenure.failure(false), tenure.undo()), (EndWrite::Keep, EndWrite::Undo));
}
