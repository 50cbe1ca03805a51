use super::*;
use crate::policy::Policy;
use crate::protocol::{Rules, Status};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const LATER: Timestamp = Timestamp::from_millis(1_000_001);
const EARLIER: Timestamp = Timestamp::from_millis(999_999);

fn owner(name: &str) -> Owner {
    Owner::named(name)
}

/// A record of owner `theirs`, second attempt, retained for long.
fn record(state: State) -> Header {
    Header {
        owner: owner("theirs"),
        state,
        attempt: 2,
        released_attempts: 0,
        created_at: Timestamp::from_millis(5),
        completed_at: None,
        expires_at: 100_000,
        steps: None,
        is_same_request: true,
    }
}

fn pending(lease_expires_at: Timestamp) -> Header {
    record(State::Pending { lease_expires_at })
}

fn rules(policy: &Policy, reconciles: bool) -> Rules {
    policy.rules(None, (reconciles, false), (Duration::from_secs(1), Duration::from_secs(5)))
}

fn decided(record: &Header, policy: &Policy) -> Decision {
    decide(Some(record), &owner("mine"), NOW, &rules(policy, false))
}

fn by_default(record: &Header) -> Decision {
    decided(record, &Policy::default())
}

/// As [`decided`], with a hook that is there to be asked.
fn with_hook(record: &Header, policy: &Policy) -> Decision {
    decide(Some(record), &owner("mine"), NOW, &rules(policy, true))
}

#[test]
fn no_record_is_created() {
    let decision = decide(None, &owner("mine"), NOW, &rules(&Policy::default(), false));
    assert_eq!(decision, Decision::Create);
}

#[test]
fn ones_own_pending_record_is_acquired_with_the_lease_that_it_carries() {
    for lease_expires_at in [LATER, EARLIER] {
        let own = Header { owner: owner("mine"), ..pending(lease_expires_at) };
        assert_eq!(by_default(&own), Decision::Acquired { lease_expires_at });
        let past = Header { expires_at: 1, ..own };
        assert_eq!(by_default(&past), Decision::Acquired { lease_expires_at });
    }
}

#[test]
fn past_retention_counts_as_absent() {
    for state in [State::Completed, State::Failed, pending(EARLIER).state, State::Released] {
        let gone = Header { expires_at: 999, ..record(state) };
        assert_eq!(by_default(&gone), Decision::Replace { attempts: 0 });
    }
}

#[test]
fn the_second_of_expiry_still_counts() {
    let at = Header { expires_at: 1000, ..record(State::Completed) };
    assert_eq!(by_default(&at), Decision::Replay);
}

#[test]
fn a_live_lease_outlives_the_retention() {
    let live = Header { expires_at: 1, ..pending(LATER) };
    assert!(matches!(by_default(&live), Decision::InProgress { .. }));
}

#[test]
fn another_payload_is_a_mismatch_in_every_state() {
    for state in [State::Completed, State::Failed, pending(EARLIER).state, pending(LATER).state] {
        let other = Header { is_same_request: false, ..record(state) };
        assert_eq!(by_default(&other), Decision::Mismatch);
    }
}

#[test]
fn completed_replays_or_runs_again() {
    let completed = record(State::Completed);
    assert_eq!(by_default(&completed), Decision::Replay);
    let policy = Policy::default().completed(Completed::Execute);
    assert_eq!(decided(&completed, &policy), Decision::TakeOver);
    // What says no to a repeat under `Replay` says no here too.
    assert!(matches!(decided(&pending(LATER), &policy), Decision::InProgress { .. }));
    let other = Header { is_same_request: false, ..completed };
    assert_eq!(decided(&other, &policy), Decision::Mismatch);
}

#[test]
fn a_run_whose_owner_died_is_one_of_those_allowed() {
    for (max_attempts, expected) in [(2, Decision::ReplayFailure), (3, Decision::TakeOver)] {
        let policy = Policy::default().failure(Failure::Retain { max_attempts });
        assert_eq!(decided(&pending(EARLIER), &policy), expected);
    }
}

#[test]
fn a_live_lease_is_in_progress_to_its_last_millisecond() {
    for (lease, left) in [(NOW, 0), (LATER, 1)] {
        let lease_left = Duration::from_millis(left);
        assert_eq!(by_default(&pending(lease)), Decision::InProgress { lease_left });
    }
}

#[test]
fn an_expired_lease_is_taken_over_unless_that_is_refused() {
    assert_eq!(by_default(&pending(EARLIER)), Decision::TakeOver);
    let policy = Policy::default().takeover(Takeover::Reject);
    assert_eq!(decided(&pending(EARLIER), &policy), Decision::Abandoned);
}

#[test]
fn a_kept_failure_runs_again_until_its_attempts_are_used() {
    for (max_attempts, again) in [(1, false), (2, false), (3, true)] {
        let policy = Policy::default().failure(Failure::Retain { max_attempts });
        let expected = if again { Decision::TakeOver } else { Decision::ReplayFailure };
        assert_eq!(decided(&record(State::Failed), &policy), expected, "{max_attempts}");
    }
    let replays = Policy::default().failure(Failure::Replay);
    assert_eq!(decided(&record(State::Failed), &replays), Decision::ReplayFailure);
}

#[test]
fn a_released_record_is_replaced_whoever_comes_with_whatever_request() {
    for (whose, is_same_request) in [("theirs", true), ("theirs", false), ("mine", true)] {
        let released = Header { owner: owner(whose), is_same_request, ..record(State::Released) };
        assert_eq!(by_default(&released), Decision::Replace { attempts: 2 });
        assert_eq!(released.version().status, Status::Released);
    }
}

#[test]
fn released_attempts_do_not_count_for_the_limit() {
    for (max_attempts, expected) in [(1, Decision::ReplayFailure), (2, Decision::TakeOver)] {
        let policy = Policy::default().failure(Failure::Retain { max_attempts });
        for found in [record(State::Failed), pending(EARLIER)] {
            let found = Header { released_attempts: 1, ..found };
            assert_eq!(decided(&found, &policy), expected);
        }
    }
}

#[test]
fn a_hook_judges_an_abandoned_operation_whatever_the_policy_of_takeover() {
    for takeover in [Takeover::Execute, Takeover::Reject] {
        let policy = Policy::default().takeover(takeover);
        assert_eq!(with_hook(&pending(EARLIER), &policy), Decision::Reconcile);
    }
}

#[test]
fn a_hook_is_asked_about_nothing_else() {
    let policy = Policy::default();
    let gone = Header { expires_at: 1, ..pending(EARLIER) };
    let another = Header { is_same_request: false, ..pending(EARLIER) };
    assert_eq!(with_hook(&gone, &policy), Decision::Replace { attempts: 0 });
    assert_eq!(with_hook(&record(State::Released), &policy), Decision::Replace { attempts: 2 });
    assert_eq!(with_hook(&another, &policy), Decision::Mismatch);
    assert!(matches!(with_hook(&pending(LATER), &policy), Decision::InProgress { .. }));
    assert_eq!(with_hook(&record(State::Completed), &policy), Decision::Replay);
    assert_eq!(with_hook(&record(State::Failed), &policy), Decision::TakeOver);
}

#[test]
fn ones_own_finished_record_is_what_this_call_wrote() {
    for state in [State::Completed, State::Failed] {
        let own = Header { owner: owner("mine"), ..record(state) };
        assert_eq!(with_hook(&own, &Policy::default()), Decision::Finished);
    }
}
