use std::sync::Mutex;

use super::*;
use crate::condition::Condition;
use crate::machine::{ReadResult, WriteResult};
use crate::policy::{InProgress, Outage};
use crate::record::State;
use crate::tests::{ME, OTHER, START, after, now, pending, record, rules};
use crate::time::Known;
use crate::write::Kind;

fn acquisition() -> Acquisition {
    Acquisition::new(ME, Goal::Own, rules(), now())
}

fn transaction() -> Acquisition {
    Acquisition::new(ME, Goal::Transact, rules(), now())
}

fn reply(result: WriteResult<RecordMeta>) -> Reply {
    Reply { outcome: Outcome::Write(result), is_in_doubt: false, time: None }
}

fn nothing(reason: Reason) -> Command {
    done(CallResult::Nothing(reason, NoCompletion::without_completions()))
}

fn sent(command: Command) -> Write {
    let Command::Send { write, .. } = command else { panic!("{command:?}") };
    write
}

/// A transaction in doubt. It required the version of `seen`, or an absent record.
fn in_doubt(seen: Option<RecordMeta>) -> Acquisition {
    let mut acquisition = transaction();
    acquisition.knowledge.see(seen);
    let write = sent(acquisition.transact(now(), Intent::TakeOver));
    acquisition.knowledge.mark_unknown(&write);
    acquisition
}

#[test]
fn a_version_that_is_replaced_again_is_new_again() {
    let lease_expires_at = START.wall;
    let (mut acquisition, state) = (acquisition(), State::Pending { lease_expires_at });
    let mut seen = record(OTHER, state);
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

/// Nothing of an answer is kept after its retention.
#[test]
fn an_answer_past_its_retention_is_replaced_like_an_absent_record() {
    for seen in [None, Some(record(OTHER, State::Completed))] {
        let mut acquisition = in_doubt(seen.clone());
        let write = sent(acquisition.end(now(), Reason::TimedOut));
        assert!(write.condition.holds(seen.as_ref()));
        let RecordMeta { owner, state, attempt, .. } = write.record;
        assert_eq!((owner, state, attempt), (ME.alternate(), State::Released, 0));
        let ended = acquisition.replied(now(), &reply(WriteResult::Applied));
        // If the record was absent, the transaction may have been applied and then deleted.
        let unknown = done(CallResult::Unknown);
        assert_eq!(ended, if seen.is_some() { nothing(Reason::TimedOut) } else { unknown });
    }
}

#[test]
fn a_process_that_does_not_know_store_time_reads_before_it_writes() {
    let sent = acquisition().start(now(), FirstRequest::Write);
    let Command::Send { limit, .. } = sent else { panic!("{sent:?}") };
    assert_eq!(limit, rules().request_timeout / 2);
    let unaware = Now { known: Known::Nothing, ..now() };
    let read = acquisition().start(unaware, FirstRequest::Write);
    assert!(matches!(read, Command::Read { is_consistent: true, .. }), "{read:?}");
}

#[test]
fn a_process_that_learns_no_store_time_reads_three_times() {
    let unaware = Now { known: Known::Nothing, ..now() };
    let mut acquisition = acquisition();
    let mut command = acquisition.start(unaware, FirstRequest::Write);
    for _ in 0..3 {
        assert!(matches!(command, Command::Read { .. }), "{command:?}");
        let outcome = Outcome::Read(ReadResult::Found(Some(pending(OTHER))));
        command = acquisition.replied(unaware, &Reply { outcome, is_in_doubt: false, time: None });
    }
    assert_eq!(command, nothing(Reason::NoStoreTime));
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
    acquisition.waiting = Waiting::Pausing(AfterPause::ReadAgain);
    let read = acquisition.woke(later);
    assert!(matches!(read, Command::Read { .. }));
    assert_eq!(acquisition.budget(), later.lasting(millis(5_000)));
    assert_eq!(acquisition.tries.until, later.lasting(millis(3_750)));
}

#[test]
fn a_write_is_tried_again_until_the_budget_is_over() {
    let write = Write { kind: Kind::Acquire, condition: Condition::absent(), record: pending(ME) };
    let retried = |now: Now| {
        let mut acquisition = acquisition();
        acquisition.waiting = Waiting::Retrying(write.clone(), Intent::Create);
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
        assert!(matches!(acquisition.waiting, Waiting::Writing { .. }), "{number}");
    }
    assert_eq!(pauses, [3, 4, 5, 6, 7, 8]);
    let last = acquisition.write(now(), Intent::Create);
    assert!(matches!(last, Command::Pause { .. }), "{last:?}");
    // No other call was seen to write, so DynamoDB itself is failing, and the acquisition is undone.
    assert!(matches!(acquisition.woke(now()), Command::Send { .. }));
    assert!(
        matches!(acquisition.waiting, Waiting::Undoing(_, Reason::Error)),
        "{:?}",
        acquisition.waiting
    );
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
        let write =
            Write { kind: Kind::Acquire, condition: Condition::absent(), record: seen.clone() };
        acquisition.note_doubt(&reply(outcome, is_in_doubt), &Waiting::Writing { write, intent });
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

#[test]
fn nothing_is_written_once_the_deadline_is_over() {
    let second = Duration::from_secs(1);
    let deadline = Some(START.plus(second));
    let mut acquisition = Acquisition::new(ME, Goal::Own, Rules { deadline, ..rules() }, now());
    let ended = acquisition.send(after(second), Intent::Create);
    assert_eq!(ended, nothing(Reason::DeadlineOver));
    let goal = Goal::Transact;
    let mut acquisition = Acquisition::new(ME, goal, Rules { deadline, ..rules() }, now());
    let ended = acquisition.send(after(second), Intent::Create);
    assert_eq!(ended, nothing(Reason::DeadlineOver));
}

#[test]
fn a_failed_first_read_is_followed_by_the_write() {
    let after_failure = |goal, now, cause, is_first| {
        let mut acquisition = Acquisition::new(ME, goal, rules(), now);
        acquisition.waiting = Waiting::Reading { is_first };
        let outcome = Outcome::Read(ReadResult::Failed(cause));
        let command = acquisition.replied(now, &Reply { outcome, is_in_doubt: false, time: None });
        (command, acquisition.obstacle)
    };
    let (outage, other) = (Cause::Outage, Cause::Other);
    for (cause, obstacle) in [(outage, Obstacle::Nothing), (other, Obstacle::MustNotRun)] {
        let (command, shown) = after_failure(Goal::Own, now(), cause, true);
        assert_eq!(sent(command).condition, Condition::absent());
        assert_eq!(shown, obstacle);
    }
    // Without a write, or without store time for one, the read is tried again.
    let unaware = Now { known: Known::Nothing, ..now() };
    for (goal, now) in [(Goal::LookUp, now()), (Goal::Own, unaware)] {
        let (again, _) = after_failure(goal, now, outage, true);
        assert!(matches!(again, Command::Read { is_consistent: true, .. }), "{goal:?} {again:?}");
        assert_eq!(after_failure(goal, now, other, true).0, nothing(Reason::Error));
        assert_eq!(after_failure(goal, now, outage, false).0, nothing(Reason::Error));
    }
}

#[test]
fn the_first_read_of_a_process_is_tried_again_after_an_outage() {
    let unaware = Now { known: Known::Nothing, ..now() };
    let mut acquisition = acquisition();
    let _ = acquisition.start(unaware, FirstRequest::Write);
    let outcome = Outcome::Read(ReadResult::Failed(Cause::Outage));
    let again = acquisition.replied(unaware, &Reply { outcome, is_in_doubt: false, time: None });
    assert!(matches!(again, Command::Read { .. }), "{again:?}");
}

#[test]
fn a_record_that_cannot_be_judged_forbids_a_run_without_a_record() {
    let unaware = Now { known: Known::Nothing, ..now() };
    let open = Rules { outage: Outage::Open, ..rules() };
    for (record, is_run) in [(Some(pending(OTHER)), false), (None, true)] {
        let mut acquisition = Acquisition::new(ME, Goal::Own, open, unaware);
        let _ = acquisition.start(unaware, FirstRequest::Write);
        for result in [ReadResult::Found(record), ReadResult::Failed(Cause::Outage)] {
            let outcome = Outcome::Read(result);
            let reply = Reply { outcome, is_in_doubt: false, time: None };
            let command = acquisition.replied(unaware, &reply);
            let runs = command == Command::Return(Next::RunUnprotected);
            assert_eq!(
                runs,
                is_run && reply.outcome == Outcome::Read(ReadResult::Failed(Cause::Outage))
            );
        }
    }
}

#[test]
fn an_outage_after_a_stale_read_of_steps_forbids_a_run_without_a_record() {
    let minute = after(Duration::from_secs(60));
    for (steps, obstacle) in [(None, Obstacle::Nothing), (Some(1), Obstacle::MustNotRun)] {
        let mut acquisition = Acquisition::new(ME, Goal::Own, rules(), minute);
        let abandoned = RecordMeta { steps, ..pending(OTHER) };
        let write = acquisition.after_stale_read(minute, Some(&abandoned));
        assert_eq!(sent(write).condition, Condition::absent());
        assert_eq!(acquisition.obstacle, obstacle);
    }
}

#[test]
fn a_failed_read_does_not_end_the_wait_for_another_owner() {
    let after_failure = |goal, in_progress, cause| {
        let mut acquisition = Acquisition::new(ME, goal, Rules { in_progress, ..rules() }, now());
        let left = Duration::from_secs(10);
        if goal == Goal::Own {
            acquisition.obstacle = Obstacle::Running(ObservedLease { left, at: START.uptime });
        }
        acquisition.after_failed_read(now(), cause)
    };
    let transact = Goal::Transact;
    let wait = InProgress::Wait { timeout: Duration::from_secs(10) };
    let (reject, outage, other) = (InProgress::Reject, Cause::Outage, Cause::Other);
    let is_pause = |command| matches!(command, Command::Pause { .. });
    assert!(is_pause(after_failure(Goal::Own, wait, other)));
    assert_eq!(after_failure(Goal::Own, reject, other), nothing(Reason::Error));
    assert!(is_pause(after_failure(transact, reject, outage)));
    assert_eq!(after_failure(transact, reject, other), nothing(Reason::Error));
}

#[test]
fn an_acquisition_that_was_applied_runs_without_another_request() {
    let mut acquisition = acquisition();
    let _ = sent(acquisition.start(now(), FirstRequest::Write));
    let run = acquisition.replied(now(), &reply(WriteResult::Applied));
    assert!(matches!(run, Command::Return(Next::Run(_))), "{run:?}");
    // An earlier write may still change the lease.
    acquisition.knowledge.send(&Write {
        kind: Kind::StampAgain,
        condition: acquisition.held(),
        record: pending(ME),
    });
    let lease_expires_at = acquisition.stamped[0];
    let restamp = sent(acquisition.verify_lease(now(), lease_expires_at));
    assert_eq!(restamp.kind, Kind::StampAgain);
}

#[test]
fn only_a_rejected_replacement_shows_that_other_calls_write() {
    let rejected = WriteResult::Rejected(Some(pending(OTHER)));
    let is_contended = |intents: &[Intent]| {
        let mut acquisition = acquisition();
        for intent in intents {
            acquisition.knowledge.see(Some(pending(OTHER)));
            let _ = acquisition.after_write(now(), &rejected, *intent);
        }
        acquisition.is_contended
    };
    assert!(!is_contended(&[Intent::Create]));
    assert!(is_contended(&[Intent::TakeOver]));
    assert!(is_contended(&[Intent::TakeOver, Intent::Create]));
}

#[test]
fn a_second_resolution_ends_the_call_as_contended() {
    let in_progress = nothing(Reason::InProgress { lease_left: Duration::ZERO });
    let mut acquisition = acquisition();
    acquisition.knowledge.see(Some(record(OTHER, State::Released)));
    acquisition.doubtful_resolution = Some(pending(OTHER).version());
    assert_eq!(acquisition.write(now(), Intent::TakeOver), in_progress);
}

#[test]
fn a_call_distinguishes_its_last_transaction_from_an_earlier_one_by_its_time() {
    let completed = record(ME, State::Completed);
    let later = Some(START.wall.shifted(1));
    for (last, expected) in
        [(completed.completed_at, CallResult::Executed), (later, CallResult::Replay)]
    {
        let mut acquisition = transaction();
        let mut transact = Transact::new();
        transact.completed_at = last;
        acquisition.work = Work::Transact(transact);
        acquisition.knowledge.see(Some(completed.clone()));
        assert_eq!(acquisition.decide(now()), done(expected));
        assert_eq!(acquisition.end(now(), Reason::TimedOut), done(expected));
    }
}

#[test]
fn a_finished_record_whose_retention_was_extended_is_not_replaced() {
    for state in [State::Completed, State::Failed] {
        let over = RecordMeta { expires_at: 1, ..record(OTHER, state) };
        let mut acquisition = acquisition();
        acquisition.knowledge.see(Some(over.clone()));
        let replacement = sent(acquisition.decide(now()));
        assert_eq!(replacement.kind, Kind::Replace);
        assert!(replacement.condition.holds(Some(&over)));
        let extended = RecordMeta { expires_at: 2, ..over };
        assert!(!replacement.condition.holds(Some(&extended)));
    }
}

#[test]
fn a_hook_judges_each_version_once() {
    let mut acquisition = acquisition();
    acquisition.knowledge.see(Some(pending(OTHER)));
    assert_eq!(acquisition.run_hook(now()), Command::Return(Next::RunHook));
    let _ = acquisition.resolved(now(), Resolution::Completed);
    assert_eq!(sent(acquisition.run_hook(now())).record.state, State::Completed);
    acquisition.knowledge.see(Some(RecordMeta { steps: Some(1), ..pending(OTHER) }));
    assert_eq!(acquisition.run_hook(now()), Command::Return(Next::RunHook));
}

#[test]
fn an_answer_without_the_items_is_sent_at_once() {
    let mut acquisition = transaction();
    let _ = sent(acquisition.start(now(), FirstRequest::Write));
    let ask = acquisition.replied(now(), &reply(WriteResult::ItemsRejected(())));
    assert_eq!(ask, Command::Return(Next::AnswerForFailedCondition));
    let answer = sent(acquisition.answer_without_items(now()));
    assert_eq!(answer.kind, Kind::AnswerWithoutItems);
    assert_eq!(answer.record.completed_at, Some(START.wall.shifted(1)));
}

#[test]
fn no_second_transaction_and_no_answer_follow_one_whose_record_was_removed() {
    // It was applied, its response was lost, and the record was deleted or released by hand.
    let in_doubt = |result| Reply { is_in_doubt: true, ..reply(result) };
    let first = || {
        let mut acquisition = transaction();
        let _ = sent(acquisition.start(now(), FirstRequest::Write));
        acquisition
    };
    let released = record(OTHER, State::Released);
    let after = first().replied(now(), &in_doubt(WriteResult::Rejected(Some(released))));
    assert_eq!(after, done(CallResult::Unknown));
    let mut acquisition = first();
    let after = acquisition.replied(now(), &in_doubt(WriteResult::ItemsRejected(())));
    assert_eq!(sent(after).kind, Kind::SupersedeByRelease);
    assert_eq!(acquisition.replied(now(), &reply(WriteResult::Applied)), done(CallResult::Unknown));
}

#[test]
fn a_read_that_ends_a_transaction_begins_no_other_write() {
    let mut acquisition = in_doubt(None);
    let _ = sent(acquisition.end(now(), Reason::TimedOut));
    let read = acquisition.replied(now(), &reply(WriteResult::Rejected(None)));
    assert!(matches!(read, Command::Read { .. }), "{read:?}");
    let outcome = Outcome::Read(ReadResult::Found(None));
    let pause = acquisition.replied(now(), &Reply { outcome, is_in_doubt: false, time: None });
    assert!(matches!(pause, Command::Pause { .. }), "{pause:?}");
}

#[test]
fn a_version_that_is_not_confirmed_as_replaced_in_time_leaves_the_transaction_unknown() {
    let mut acquisition = in_doubt(None);
    let _ = sent(acquisition.end(now(), Reason::TimedOut));
    let late = after(Duration::from_secs(20));
    let end = acquisition.replied(late, &reply(WriteResult::Rejected(None)));
    assert_eq!(end, done(CallResult::Unknown));
}

#[test]
fn an_absent_record_leaves_a_transaction_in_doubt() {
    let mut acquisition = in_doubt(Some(record(OTHER, State::Failed)));
    acquisition.knowledge.see(None);
    assert!(acquisition.knowledge.no_completion().is_none());
}

#[test]
fn the_version_that_a_hooks_commit_in_doubt_requires_is_replaced() {
    let minute = after(Duration::from_secs(60));
    let rules = Rules { reconciles: true, ..rules() };
    let mut acquisition = Acquisition::new(ME, Goal::Own, rules, minute);
    acquisition.knowledge.see(Some(pending(OTHER)));
    let commit = sent(acquisition.resolved(minute, Resolution::Committed));
    assert_eq!(commit.kind, Kind::ResolveByCommit);
    acquisition.knowledge.mark_unknown(&commit);
    let write = sent(acquisition.end(minute, Reason::TimedOut));
    assert_eq!(write.kind, Kind::Supersede);
}

#[test]
fn a_call_waits_during_the_pause_for_another_owner_if_it_cannot_hold_the_key() {
    let in_progress = InProgress::Wait { timeout: Duration::from_secs(10) };
    let rules = Rules { in_progress, ..rules() };
    let mut acquisition = Acquisition::new(ME, Goal::Own, rules, now());
    assert!(!acquisition.is_waiting());
    let create = sent(acquisition.start(now(), FirstRequest::Write));
    assert!(!acquisition.is_waiting());
    let rejected = reply(WriteResult::Rejected(Some(pending(OTHER))));
    assert!(matches!(acquisition.replied(now(), &rejected), Command::Pause { .. }));
    assert!(acquisition.is_waiting());
    assert!((&Mutex::new(acquisition.clone())).is_waiting());
    acquisition.knowledge.see(None);
    acquisition.knowledge.send(&create);
    assert!(!acquisition.is_waiting());
    assert!(!(&Mutex::new(acquisition)).is_waiting());
}

#[test]
fn a_record_that_was_removed_before_its_takeover_is_not_continued() {
    let mut acquisition = acquisition();
    let create = sent(acquisition.start(now(), FirstRequest::Write));
    let _ = acquisition.replied(now(), &reply(WriteResult::Unknown(Cause::Outage)));
    // Another owner's record, whose lease has expired.
    let created_at = START.wall.shifted(-60_000);
    let state = State::Pending { lease_expires_at: START.wall.shifted(-30_000) };
    let others = RecordMeta { created_at, steps: Some(2), attempt: 5, ..record(OTHER, state) };
    let found = Outcome::Read(ReadResult::Found(Some(others)));
    let found = Reply { outcome: found, is_in_doubt: false, time: None };
    assert_eq!(sent(acquisition.replied(now(), &found)).kind, Kind::TakeOver);
    assert!(acquisition.grant().taken_over.is_some());
    // It was deleted, and the delayed first write was applied.
    let rejected = reply(WriteResult::Rejected(Some(create.record)));
    let run = acquisition.replied(now(), &rejected);
    assert!(matches!(run, Command::Return(Next::Run(_)) | Command::Send { .. }), "{run:?}");
    let grant = acquisition.grant();
    assert_eq!((grant.taken_over, grant.attempts.number), (None, 1));
}

#[test]
fn a_transaction_that_cannot_be_accepted_is_tried_again_only_while_an_earlier_try_is_in_doubt() {
    for result in [WriteResult::Invalid(Cause::Other), WriteResult::NotApplied(Cause::Other)] {
        let mut acquisition = transaction();
        let _ = sent(acquisition.start(now(), FirstRequest::Write));
        assert_eq!(acquisition.replied(now(), &reply(result.clone())), nothing(Reason::Error));
        let mut acquisition = transaction();
        let _ = sent(acquisition.start(now(), FirstRequest::Write));
        let after = Reply { is_in_doubt: true, ..reply(result) };
        assert!(matches!(acquisition.replied(now(), &after), Command::Pause { .. }));
    }
}

#[test]
fn the_version_that_a_transaction_in_doubt_requires_is_replaced_until_that_is_confirmed() {
    let replaced = record(OTHER, State::Failed);
    let timed_out = nothing(Reason::TimedOut);
    let mut acquisition = in_doubt(Some(replaced.clone()));
    let write = sent(acquisition.end(now(), Reason::TimedOut));
    assert_eq!(write.record, RecordMeta { owner: ME.alternate(), ..replaced.clone() });
    let unknown = reply(WriteResult::Unknown(Cause::Outage));
    let pause = acquisition.replied(now(), &unknown);
    assert!(matches!(pause, Command::Pause { .. }), "{pause:?}");
    assert_eq!(sent(acquisition.woke(now())), write);
    // Only these prove that the transaction was not applied.
    let finish = |result| acquisition.clone().replied(now(), &reply(result));
    assert_eq!(finish(WriteResult::Applied), timed_out);
    assert_eq!(finish(WriteResult::Rejected(Some(write.record.clone()))), timed_out);
    let taken_over = RecordMeta { attempt: 2, ..pending(OTHER) };
    assert_eq!(finish(WriteResult::Rejected(Some(taken_over.clone()))), timed_out);
    for shown in [
        pending(OTHER),
        RecordMeta { created_at: START.wall.shifted(1), ..taken_over },
        record(OTHER, State::Released),
    ] {
        let ended = finish(WriteResult::Rejected(Some(shown.clone())));
        assert_eq!(ended, done(CallResult::Unknown), "{shown:?}");
    }
}

#[test]
fn a_record_that_replaces_none_has_no_owner_and_no_attempt() {
    let mut acquisition = in_doubt(None);
    acquisition.attempts.number = 3;
    let write = sent(acquisition.end(now(), Reason::TimedOut));
    assert_eq!((write.kind, &write.condition), (Kind::SupersedeByRelease, &Condition::absent()));
    assert_eq!(write.record.owner, ME.alternate());
    assert_eq!((write.record.state, write.record.attempt), (State::Released, 0));
    for state in [State::Failed, State::Released] {
        let mut acquisition = in_doubt(Some(record(OTHER, state)));
        let write = sent(acquisition.end(now(), Reason::TimedOut));
        assert_eq!(write.record, record(ME.alternate(), state));
    }
}

#[test]
fn only_a_record_that_this_call_has_put_is_kept_for_longer() {
    // The response shows that the clock was a day behind.
    let date = START.wall.plus(Duration::from_secs(24 * 3600));
    let time = Some(StoreTime { date, sent: START, received: START });
    let applied = Reply { time, ..reply(WriteResult::Applied) };
    let mut acquisition = in_doubt(None);
    let _ = sent(acquisition.end(now(), Reason::TimedOut));
    assert_eq!(sent(acquisition.replied(now(), &applied)).kind, Kind::Extend);
    let mut acquisition = in_doubt(Some(record(OTHER, State::Failed)));
    let _ = sent(acquisition.end(now(), Reason::TimedOut));
    assert_eq!(acquisition.replied(now(), &applied), nothing(Reason::TimedOut));
}

#[test]
fn an_undo_that_meets_another_record_ends_after_the_third_try() {
    let mut acquisition = acquisition();
    let _ = sent(acquisition.start(now(), FirstRequest::Write));
    let undone = sent(acquisition.end(now(), Reason::TimedOut));
    assert_eq!((undone.record.state, undone.record.attempt), (State::Released, 0));
    // The undo has returned no record, so the call ends, although the acquisition may still be applied.
    let ended = |result| acquisition.clone().replied(now(), &reply(result));
    assert_eq!(ended(WriteResult::Rejected(None)), nothing(Reason::TimedOut));
    assert_eq!(ended(WriteResult::Unknown(Cause::Outage)), nothing(Reason::TimedOut));
    // Once another call's record was seen, the acquisition can no longer be applied.
    assert_eq!(ended(WriteResult::Rejected(Some(pending(OTHER)))), nothing(Reason::TimedOut));
    let own = WriteResult::Rejected(Some(pending(ME)));
    for _ in 0..2 {
        let again = sent(acquisition.replied(now(), &reply(own.clone())));
        assert_eq!(again.condition, acquisition.held());
    }
    assert_eq!(acquisition.replied(now(), &reply(own)), nothing(Reason::TimedOut));
}

#[test]
fn an_undo_restores_a_failure_without_the_attempt_that_executed_nothing() {
    let mut acquisition = acquisition();
    acquisition.knowledge.see(Some(record(OTHER, State::Failed)));
    let taken = sent(acquisition.write(now(), Intent::TakeOver));
    assert_eq!((taken.record.attempt, taken.kind), (2, Kind::TakeOver));
    let undone = sent(acquisition.end(now(), Reason::TimedOut));
    assert_eq!((undone.record.state, undone.record.attempt), (State::Failed, 1));
}

#[test]
fn a_call_that_owns_the_key_may_correct_its_lease_after_its_budget() {
    let late = after(Duration::from_secs(6));
    let mut acquisition = acquisition();
    assert_eq!(acquisition.send(late, Intent::Create), nothing(Reason::TimedOut));
    let restamp = acquisition.send(late, Intent::Restamp { lease_expires_at: START.wall });
    assert_eq!(sent(restamp).kind, Kind::StampAgain);
}

#[test]
fn attempts_that_have_left_nothing_do_not_count() {
    let mut acquisition = acquisition();
    acquisition.knowledge.see(Some(record(OTHER, State::Failed)));
    let _ = sent(acquisition.send(now(), Intent::TakeOver));
    assert!(acquisition.taken_over.is_some());
    acquisition.knowledge.see(Some(record(OTHER, State::Released)));
    let write = sent(acquisition.send(now(), Intent::Replace { attempts: 2 }));
    assert_eq!((write.record.attempt, write.record.released_attempts), (3, 2));
    assert_eq!(acquisition.taken_over, None);
}
