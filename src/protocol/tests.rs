use aws_sdk_dynamodb::types::AttributeValue;

use super::*;
use crate::clock::Timestamp;
use crate::policy::{Completed, Failure};
use crate::record::{Record, State, Status};
use crate::response::Answer;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const LATER: Timestamp = Timestamp::from_millis(1_000_001);
const EARLIER: Timestamp = Timestamp::from_millis(999_999);

fn fingerprint(of: &str) -> Fingerprint {
    Fingerprint::builder().bytes(of.as_bytes()).finish()
}

fn owner(name: &str) -> Owner {
    Owner::named(name)
}

/// A record of owner `theirs`, second attempt, retained for long.
fn record(state: State) -> Record {
    Record {
        owner: owner("theirs"),
        attempt: 2,
        fingerprint: fingerprint("same").to_store(),
        created_at: Timestamp::from_millis(5),
        expires_at: 100_000,
        state,
        steps: None,
        released_attempts: 0,
    }
}

fn pending(lease_expires_at: Timestamp) -> Record {
    record(State::Pending { lease_expires_at })
}

fn completed() -> Record {
    record(State::Completed { answer: Stored::Readable(Answer::Json("1".into())) })
}

fn failed() -> Record {
    record(State::Failed {
        answer: Some(Stored::Readable(Answer::Json("2".into()))),
        response: None,
    })
}

fn decided(record: Record, policy: &Policy) -> Decision {
    let (owner, fingerprint) = (owner("mine"), fingerprint("same"));
    let request = Request { owner: &owner, fingerprint: &fingerprint, policy, reconciles: false };
    decide(Some(record), NOW, request)
}

fn by_default(record: Record) -> Decision {
    decided(record, &Policy::default())
}

#[test]
fn no_record_is_created() {
    let (owner, fingerprint) = (owner("mine"), fingerprint("same"));
    let policy = Policy::default();
    let request =
        Request { owner: &owner, fingerprint: &fingerprint, policy: &policy, reconciles: false };
    assert!(matches!(decide(None, NOW, request), Decision::Create));
}

#[test]
fn ones_own_pending_record_is_acquired_with_the_lease_that_it_carries() {
    for lease in [LATER, EARLIER] {
        let own = Record { owner: owner("mine"), ..pending(lease) };
        let Decision::Acquired { attempt: 2, lease_expires_at, .. } = by_default(own) else {
            panic!("not acquired");
        };
        assert_eq!(lease_expires_at, lease);
    }
}

#[test]
fn ones_own_record_is_acquired_even_past_its_retention() {
    let own = Record { owner: owner("mine"), expires_at: 1, ..pending(EARLIER) };
    assert!(matches!(by_default(own), Decision::Acquired { .. }));
}

#[test]
fn past_retention_counts_as_absent_and_is_compared_with_what_was_seen() {
    for state in [completed().state, failed().state, pending(EARLIER).state, State::Released] {
        let gone = Record { expires_at: 999, ..record(state) };
        let seen = gone.version();
        let Decision::Replace { version, attempts: 0 } = by_default(gone) else {
            panic!("not replaced")
        };
        assert_eq!(version, seen);
    }
}

#[test]
fn the_second_of_expiry_still_counts() {
    let at = Record { expires_at: 1000, ..completed() };
    assert!(matches!(by_default(at), Decision::Replay { .. }));
}

#[test]
fn a_live_lease_outlives_the_retention() {
    let live = Record { expires_at: 1, ..pending(LATER) };
    assert!(matches!(by_default(live), Decision::InProgress { .. }));
}

#[test]
fn another_payload_is_a_mismatch_in_every_state() {
    for state in [completed().state, failed().state, pending(EARLIER).state, pending(LATER).state] {
        let other = Record { fingerprint: fingerprint("other").to_store(), ..record(state) };
        assert!(matches!(by_default(other), Decision::Mismatch));
    }
}

#[test]
fn completed_replays() {
    assert!(
        matches!(by_default(completed()), Decision::Replay { answer: Stored::Readable(Answer::Json(text)), expires_at: 100_000 } if text == "1")
    );
}

#[test]
fn completed_can_run_again_by_compare_and_set() {
    let policy = Policy::default().completed(Completed::Execute);
    let Decision::TakeOver(Orphan { version, attempt: 2, .. }) = decided(completed(), &policy)
    else {
        panic!("not taken over");
    };
    assert_eq!((version.owner, version.status), (owner("theirs"), Status::Completed));
    // What says no to a repeat under `Replay` says no here too.
    assert!(matches!(decided(pending(LATER), &policy), Decision::InProgress { .. }));
    let other = Record { fingerprint: fingerprint("other").to_store(), ..completed() };
    assert!(matches!(decided(other, &policy), Decision::Mismatch));
}

#[test]
fn a_run_whose_owner_died_is_one_of_those_allowed() {
    for (max_attempts, again) in [(2, false), (3, true)] {
        let policy = Policy::default().failure(Failure::Retain { max_attempts });
        let decision = decided(pending(EARLIER), &policy);
        match decision {
            Decision::TakeOver(Orphan { attempt: 2, .. }) => assert!(again),
            Decision::ReplayFailure(None) => assert!(!again),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_live_lease_is_in_progress_to_its_last_millisecond() {
    assert!(matches!(by_default(pending(NOW)), Decision::InProgress { lease_left }
        if lease_left == Duration::ZERO));
    assert!(matches!(by_default(pending(LATER)), Decision::InProgress { lease_left }
        if lease_left == Duration::from_millis(1)));
}

#[test]
fn an_expired_lease_is_taken_over_by_compare_and_set() {
    let Decision::TakeOver(Orphan { version, attempt, created_at, .. }) =
        by_default(pending(EARLIER))
    else {
        panic!("not taken over");
    };
    assert_eq!(version.owner, owner("theirs"));
    assert_eq!(version.status, Status::Pending);
    assert_eq!(version.lease_expires_at, Some(EARLIER));
    assert_eq!((attempt, created_at), (2, Timestamp::from_millis(5)));
}

#[test]
fn takeover_can_be_refused() {
    let policy = Policy::default().takeover(Takeover::Reject);
    assert!(matches!(decided(pending(EARLIER), &policy), Decision::Abandoned));
}

#[test]
fn a_kept_failure_runs_again_until_its_attempts_are_used() {
    for (max_attempts, again) in [(1, false), (2, false), (3, true)] {
        let policy = Policy::default().failure(Failure::Retain { max_attempts });
        match decided(failed(), &policy) {
            Decision::TakeOver(Orphan { attempt: 2, version, .. }) if again => {
                assert_eq!(version.status, Status::Failed);
            }
            Decision::ReplayFailure(Some(Stored::Readable(Answer::Json(text)))) if !again => {
                assert_eq!(text, "2");
            }
            other => panic!("max_attempts {max_attempts}: {other:?}"),
        }
    }
}

#[test]
fn a_released_record_is_replaced_whoever_comes_with_whatever_request() {
    for (whose, of) in [("theirs", "same"), ("theirs", "other"), ("mine", "same")] {
        let released = Record {
            owner: owner(whose),
            fingerprint: fingerprint(of).to_store(),
            ..record(State::Released)
        };
        let seen = released.version();
        let Decision::Replace { version, attempts: 2 } = by_default(released) else {
            panic!("not replaced: {whose}, {of}")
        };
        assert_eq!((&version, version.status), (&seen, Status::Released));
    }
}

#[test]
fn released_attempts_do_not_count_for_the_limit() {
    for (max_attempts, again) in [(1, false), (2, true)] {
        let policy = Policy::default().failure(Failure::Retain { max_attempts });
        for found in [failed(), pending(EARLIER)] {
            let found = Record { released_attempts: 1, ..found };
            let is_run = matches!(decided(found, &policy), Decision::TakeOver(_));
            assert_eq!(is_run, again);
        }
    }
}

#[test]
fn a_failure_to_replay_never_runs_again() {
    let policy = Policy::default().failure(Failure::Replay);
    assert!(matches!(decided(failed(), &policy), Decision::ReplayFailure(Some(_))));
}

fn steps() -> Option<Checkpoints> {
    let stored = AttributeValue::M([("one".to_owned(), AttributeValue::S("1".into()))].into());
    Checkpoints::decode(stored)
}

/// As [`decided`], with a hook that is there to be asked.
fn with_hook(record: Record, policy: &Policy) -> Decision {
    let (owner, fingerprint) = (owner("mine"), fingerprint("same"));
    let request = Request { owner: &owner, fingerprint: &fingerprint, policy, reconciles: true };
    decide(Some(record), NOW, request)
}

#[test]
fn who_goes_on_gets_the_steps() {
    let found = |state| Record { steps: steps(), ..record(state) };
    for state in [pending(EARLIER).state, failed().state] {
        let Decision::TakeOver(orphan) = by_default(found(state)) else { panic!("not taken over") };
        assert_eq!((orphan.steps, orphan.version.steps), (steps(), Some(1)));
    }
    let own = Record { owner: owner("mine"), ..found(pending(LATER).state) };
    assert!(matches!(by_default(own), Decision::Acquired { steps: Some(_), .. }));
}

#[test]
fn a_hook_judges_an_abandoned_operation_whatever_the_policy_of_takeover() {
    for takeover in [Takeover::Execute, Takeover::Reject] {
        let policy = Policy::default().takeover(takeover);
        let abandoned = Record { steps: steps(), ..pending(EARLIER) };
        let seen = abandoned.version();
        let Decision::Reconcile { orphan, lease_ended_at } = with_hook(abandoned, &policy) else {
            panic!("the hook is not asked");
        };
        assert_eq!((orphan.version, orphan.attempt, orphan.steps), (seen, 2, steps()));
        assert_eq!(lease_ended_at, EARLIER);
    }
}

#[test]
fn a_hook_is_asked_about_nothing_else() {
    let policy = Policy::default();
    let gone = Record { expires_at: 1, ..pending(EARLIER) };
    let another = Record { fingerprint: fingerprint("other").to_store(), ..pending(EARLIER) };
    assert!(matches!(with_hook(gone, &policy), Decision::Replace { .. }));
    assert!(matches!(with_hook(record(State::Released), &policy), Decision::Replace { .. }));
    assert!(matches!(with_hook(another, &policy), Decision::Mismatch));
    assert!(matches!(with_hook(pending(LATER), &policy), Decision::InProgress { .. }));
    assert!(matches!(with_hook(completed(), &policy), Decision::Replay { .. }));
    assert!(matches!(with_hook(failed(), &policy), Decision::TakeOver(_)));
}

#[test]
fn ones_own_finished_record_is_what_the_hook_said() {
    for state in [completed().state, failed().state] {
        let own = Record { owner: owner("mine"), ..record(state) };
        assert!(matches!(with_hook(own, &Policy::default()), Decision::Reconciled));
    }
}
