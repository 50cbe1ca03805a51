use super::ending::done;
use super::lease::MAX_WRITES;
use super::*;
use crate::condition::Condition;
use crate::machine::WriteResult;
use crate::policy::Outage;
use crate::record::State;
use crate::tests::{ME, OTHER, START, after, now, pending, record, rules};

fn acquisition() -> Acquisition {
    Acquisition::new(ME, Goal::Own, rules(), now())
}

#[test]
fn a_version_that_is_replaced_again_is_new_again() {
    let lease_expires_at = START.wall;
    for state in [State::Completed, State::Pending { lease_expires_at }] {
        let (mut acquisition, mut seen) = (acquisition(), record(OTHER, state));
        let mut versions = vec![seen.version()];
        for _ in 0..3 {
            acquisition.knowledge.see(Some(seen.clone()));
            let write = acquisition.superseding_write(now()).unwrap();
            assert!(write.condition.holds(Some(&seen)), "{seen:?}");
            seen = write.applied_to(Some(&seen));
            assert!(!versions.contains(&seen.version()), "{seen:?}");
            versions.push(seen.version());
        }
    }
}

#[test]
fn the_release_of_a_replaced_answer_keeps_the_number_of_the_takeover() {
    let mut acquisition = acquisition();
    acquisition.attempts.number = 2;
    let stamp = now().stamp().unwrap();
    assert_eq!(acquisition.released(stamp).attempt, 1);
    acquisition.taken_over = Some(record(OTHER, State::Completed));
    assert_eq!(acquisition.released(stamp).attempt, 2);
}

#[test]
fn a_process_that_does_not_know_store_time_reads_before_it_writes() {
    let sent = acquisition().start(now(), FirstRequest::Write);
    let Command::Send { limit, .. } = sent else { panic!("{sent:?}") };
    assert_eq!(limit, rules().request_timeout / 2);
    let unaware = Now { learned: None, ..now() };
    let read = acquisition().start(unaware, FirstRequest::Write);
    assert!(matches!(read, Command::Read { is_consistent: true, .. }), "{read:?}");
}

#[test]
fn nothing_is_sent_after_the_deadline() {
    let deadline = Some(START.plus(Duration::from_secs(1)));
    let mut acquisition = Acquisition::new(ME, Goal::Own, Rules { deadline, ..rules() }, now());
    assert!(!acquisition.is_too_late(now()));
    let late = after(Duration::from_secs(1));
    assert!(acquisition.is_too_late(late));
    let ended = acquisition.start(late, FirstRequest::Write);
    let too_late = |reason| reason == Reason::DeadlineOver;
    assert!(
        matches!(ended, Command::Return(Next::Done(CallResult::Nothing(reason, _))) if too_late(reason))
    );
}

#[test]
fn a_quarter_of_the_time_is_left_for_the_read_after_the_last_try() {
    let mut acquisition = acquisition();
    let millis = Duration::from_millis;
    assert_eq!(acquisition.tries.until, now().lasting(millis(3_750)));
    let later = after(millis(4_000));
    acquisition.step = Step::Pausing(AfterPause::ReadAgain);
    let read = acquisition.woke(later);
    assert!(matches!(read, Command::Read { .. }));
    assert_eq!(acquisition.budget(), later.lasting(millis(5_000)));
    assert_eq!(acquisition.tries.until, later.lasting(millis(3_750)));
}

#[test]
fn a_write_is_tried_again_until_the_budget_is_over() {
    let write = Write { form: Form::Put, condition: Condition::absent(), record: pending(ME) };
    let retried = |now: Now| {
        let mut acquisition = acquisition();
        acquisition.step = Step::Retrying(write.clone(), Intent::Create);
        acquisition.woke(now)
    };
    assert!(matches!(retried(after(Duration::from_secs(4))), Command::Send { .. }));
    assert!(matches!(retried(after(Duration::from_secs(5))), Command::Return(_)));
}

#[test]
fn an_outage_is_reported_by_what_was_seen_before() {
    let end = |goal, outage, cause, seen: Option<u64>, now| {
        let mut acquisition = Acquisition::new(ME, goal, Rules { outage, ..rules() }, now);
        if let Some(left) = seen {
            let left = Duration::from_secs(left);
            acquisition.obstacle = Obstacle::Running(ObservedLease { left, at: START.uptime });
        }
        acquisition.give_up(now, Reason::TimedOut, cause)
    };
    let nothing = |reason| done(CallResult::Nothing(reason, NoCompletion::without_completions()));
    let timed_out = nothing(Reason::TimedOut);
    let later = after(Duration::from_secs(4));
    let (closed, open, outage) = (Outage::Closed, Outage::Open, Cause::Outage);
    assert_eq!(end(Goal::Own, closed, outage, None, later), timed_out);
    assert_eq!(end(Goal::Own, open, outage, None, later), Command::Return(Next::RunUnprotected));
    assert_eq!(end(Goal::Own, open, Cause::Other, None, later), timed_out);
    assert_eq!(end(Goal::LookUp, open, outage, None, later), timed_out);
    let in_progress = nothing(Reason::InProgress { lease_left: Duration::from_secs(6) });
    assert_eq!(end(Goal::Own, open, outage, Some(10), later), in_progress);
    assert_eq!(end(Goal::Own, open, outage, Some(3), later), timed_out);
    assert_eq!(end(Goal::LookUp, open, outage, Some(10), later), timed_out);
}

#[test]
fn writes_pause_from_the_third_on_and_end_after_the_eighth() {
    let mut acquisition = acquisition();
    let mut pauses = Vec::new();
    for number in 1..=8 {
        let mut command = acquisition.write(now(), Intent::Create);
        if let Command::Pause { .. } = command {
            pauses.push(number);
            command = acquisition.woke(now());
        }
        assert!(matches!(command, Command::Send { .. }), "{number}: {command:?}");
    }
    assert_eq!(pauses, [3, 4, 5, 6, 7, 8]);
    let last = acquisition.write(now(), Intent::Create);
    assert!(matches!(last, Command::Pause { .. }), "{last:?}");
    // No other call was seen to write, so DynamoDB fails, and the acquisition is undone.
    assert!(matches!(acquisition.woke(now()), Command::Send { .. }));
    assert!(matches!(acquisition.step, Step::Undoing(_, Reason::Error)), "{:?}", acquisition.step);
}

#[test]
fn a_key_at_which_other_calls_keep_writing_is_in_progress() {
    let mut acquisition = acquisition();
    acquisition.is_contended = true;
    acquisition.writes = MAX_WRITES + 1;
    let ended = acquisition.send(now(), Intent::Create);
    let reason = Reason::InProgress { lease_left: Duration::ZERO };
    assert_eq!(ended, done(CallResult::Nothing(reason, NoCompletion::without_completions())));
}

#[test]
fn a_resolution_in_doubt_is_not_written_on_another_version() {
    let unknown = Outcome::Write(WriteResult::Unknown(Cause::Outage));
    let reply = |outcome, is_in_doubt| Reply { outcome, is_in_doubt, time: None };
    let resolving = |outcome: Outcome, intent, is_in_doubt| {
        let mut acquisition = acquisition();
        let seen = pending(OTHER);
        acquisition.resolution = Some((seen.version(), Resolution::Completed));
        let write = Write { form: Form::Put, condition: Condition::absent(), record: seen.clone() };
        acquisition.note_doubt(&reply(outcome, is_in_doubt), &Step::Writing { write, intent });
        acquisition.knowledge.see(Some(seen));
        let same = acquisition.may_have_resolved_another();
        acquisition.knowledge.see(Some(record(OTHER, State::Completed)));
        (same, acquisition.may_have_resolved_another())
    };
    let resolve = Intent::Resolve(Resolution::Completed);
    assert_eq!(resolving(unknown.clone(), resolve, false), (false, true));
    let rejected = Outcome::Write(WriteResult::Rejected(None));
    assert_eq!(resolving(rejected.clone(), resolve, true), (false, true));
    assert_eq!(resolving(rejected, resolve, false), (false, false));
    assert_eq!(resolving(unknown, Intent::TakeOver, false), (false, false));
}
