use super::*;
use crate::machine::{Cause, WriteResult};
use crate::record::State;
use crate::tests::{ME, OTHER, START, after, now, pending, record, rules};
use crate::time::{Local, StoreTime, Uptime};
use crate::write::Form;

fn lease_end() -> Timestamp {
    pending(ME).state.lease_expires_at().unwrap()
}

fn lasting_until(lease_expires_at: Timestamp) -> Header {
    Header { state: State::Pending { lease_expires_at }, ..pending(ME) }
}

/// An execution that holds a lease of 30 seconds, or has no record.
fn finish(is_protected: bool) -> Finish {
    let mut knowledge = Knowledge::new(ME);
    if is_protected {
        knowledge.see(Some(pending(ME)));
    }
    let grant = Grant { knowledge, taken_over: None, attempts: Attempts::FIRST };
    let window = rules().window(now(), lease_end(), None).filter(|_| is_protected);
    assert_eq!(window.is_some(), is_protected);
    Finish::new(grant, rules(), window, now())
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
    assert!(matches!(finish.fail(now(), FailureWrite::Release), Command::Send { .. }));
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
    // Its time is over before the reply.
    let closing = sent(finish.replied(after(Duration::from_secs(2)), &unknown()));
    assert_eq!(closing.form, Form::Touch);
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
    assert_eq!(finish.close(now(), FailureWrite::Release), None);
    let mut finish = self::finish(true);
    let _ = sent(finish.commit(now(), a_second()));
    let release = sent(finish.close(now(), FailureWrite::Release).unwrap());
    assert_eq!(release.record.state, State::Released);
    // Without a record there is none to fail.
    let mut finish = self::finish(false);
    let _ = sent(finish.commit(now(), a_second()));
    let read = finish.close(now(), FailureWrite::Release).unwrap();
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
    // Twenty seconds that the monotonic clock has missed.
    let received = Local { wall: START.wall.plus(Duration::from_secs(20)), uptime: Uptime(0) };
    finish.heard(Some(StoreTime { date: received.wall, sent: received, received }));
    assert!(finish.window().unwrap().end.uptime < before.end.uptime);
    finish.lose();
    assert!(finish.is_lost());
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
