use super::*;
use crate::condition::Condition;
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
