use super::*;
use crate::policy::{InProgress, Lease, Outage};
use crate::record::Status;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const LATER: Timestamp = Timestamp::from_millis(1_000_001);
const EARLIER: Timestamp = Timestamp::from_millis(999_999);

fn owner(name: &str) -> OwnerId {
    OwnerId(name.bytes().fold(0, |id, byte| id << 8 | u128::from(byte)))
}

/// A record of the owner `theirs`, in its second attempt.
fn record(state: State) -> RecordMeta {
    RecordMeta {
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

fn pending(lease_expires_at: Timestamp) -> RecordMeta {
    record(State::Pending { lease_expires_at })
}

const DEFAULT: Rules = Rules {
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
};

fn decided(record: &RecordMeta, rules: &Rules) -> Decision {
    decide(Some(record), &owner("mine"), NOW, rules)
}

fn by_default(record: &RecordMeta) -> Decision {
    decided(record, &DEFAULT)
}

/// As [`decided`], with a hook.
fn with_hook(record: &RecordMeta, rules: &Rules) -> Decision {
    decide(Some(record), &owner("mine"), NOW, &Rules { reconciles: true, ..*rules })
}

#[test]
fn no_record_is_created() {
    let decision = decide(None, &owner("mine"), NOW, &DEFAULT);
    assert_eq!(decision, Decision::Create);
}

#[test]
fn an_own_pending_record_is_acquired_with_its_lease() {
    for lease_expires_at in [LATER, EARLIER] {
        let own = RecordMeta { owner: owner("mine"), ..pending(lease_expires_at) };
        assert_eq!(by_default(&own), Decision::Acquired { lease_expires_at });
        let past = RecordMeta { expires_at: 1, ..own };
        assert_eq!(by_default(&past), Decision::Acquired { lease_expires_at });
    }
}

#[test]
fn past_retention_counts_as_absent() {
    for state in [State::Completed, State::Failed, pending(EARLIER).state, State::Released] {
        let gone = RecordMeta { expires_at: 999, ..record(state) };
        assert_eq!(by_default(&gone), Decision::Replace { attempts: 0 });
    }
}

#[test]
fn the_second_of_expiry_still_counts() {
    let at = RecordMeta { expires_at: 1000, ..record(State::Completed) };
    assert_eq!(by_default(&at), Decision::Replay);
}

#[test]
fn a_live_lease_outlives_the_retention() {
    let live = RecordMeta { expires_at: 1, ..pending(LATER) };
    assert!(matches!(by_default(&live), Decision::InProgress { .. }));
}

#[test]
fn another_payload_is_a_mismatch_in_every_state() {
    for state in [State::Completed, State::Failed, pending(EARLIER).state, pending(LATER).state] {
        let other = RecordMeta { is_same_request: false, ..record(state) };
        assert_eq!(by_default(&other), Decision::Mismatch);
    }
}

#[test]
fn completed_replays() {
    assert_eq!(by_default(&record(State::Completed)), Decision::Replay);
}

#[test]
fn an_abandoned_run_counts_as_an_attempt() {
    for (max_attempts, expected) in [(2, Decision::ReplayFailure), (3, Decision::TakeOver)] {
        let rules = Rules { failure: Failure::Retain { max_attempts }, ..DEFAULT };
        assert_eq!(decided(&pending(EARLIER), &rules), expected);
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
fn an_expired_lease_is_taken_over_unless_the_policy_rejects_it() {
    assert_eq!(by_default(&pending(EARLIER)), Decision::TakeOver);
    let rules = Rules { takeover: Takeover::Reject, ..DEFAULT };
    assert_eq!(decided(&pending(EARLIER), &rules), Decision::Abandoned);
}

#[test]
fn a_kept_failure_runs_again_until_its_attempts_are_used() {
    for (max_attempts, again) in [(1, false), (2, false), (3, true)] {
        let rules = Rules { failure: Failure::Retain { max_attempts }, ..DEFAULT };
        let expected = if again { Decision::TakeOver } else { Decision::ReplayFailure };
        assert_eq!(decided(&record(State::Failed), &rules), expected, "{max_attempts}");
    }
    let replays = Rules { failure: Failure::Replay, ..DEFAULT };
    assert_eq!(decided(&record(State::Failed), &replays), Decision::ReplayFailure);
}

#[test]
fn a_released_record_is_replaced_by_any_owner_and_request() {
    for (name, is_same_request) in [("theirs", true), ("theirs", false), ("mine", true)] {
        let released =
            RecordMeta { owner: owner(name), is_same_request, ..record(State::Released) };
        assert_eq!(by_default(&released), Decision::Replace { attempts: 2 });
        assert_eq!(released.version().status, Status::Released);
    }
}

#[test]
fn released_attempts_do_not_count_for_the_limit() {
    for (max_attempts, expected) in [(1, Decision::ReplayFailure), (2, Decision::TakeOver)] {
        let rules = Rules { failure: Failure::Retain { max_attempts }, ..DEFAULT };
        for found in [record(State::Failed), pending(EARLIER)] {
            let found = RecordMeta { released_attempts: 1, ..found };
            assert_eq!(decided(&found, &rules), expected);
        }
    }
}

#[test]
fn a_hook_replaces_the_takeover_policy() {
    for takeover in [Takeover::Execute, Takeover::Reject] {
        let rules = Rules { takeover, ..DEFAULT };
        assert_eq!(with_hook(&pending(EARLIER), &rules), Decision::Reconcile);
    }
}

#[test]
fn a_hook_judges_only_abandoned_operations() {
    let rules = DEFAULT;
    let gone = RecordMeta { expires_at: 1, ..pending(EARLIER) };
    let another = RecordMeta { is_same_request: false, ..pending(EARLIER) };
    assert_eq!(with_hook(&gone, &rules), Decision::Replace { attempts: 0 });
    assert_eq!(with_hook(&record(State::Released), &rules), Decision::Replace { attempts: 2 });
    assert_eq!(with_hook(&another, &rules), Decision::Mismatch);
    assert!(matches!(with_hook(&pending(LATER), &rules), Decision::InProgress { .. }));
    assert_eq!(with_hook(&record(State::Completed), &rules), Decision::Replay);
    assert_eq!(with_hook(&record(State::Failed), &rules), Decision::TakeOver);
}

#[test]
fn an_own_finished_record_was_written_by_this_call() {
    for state in [State::Completed, State::Failed] {
        let own = RecordMeta { owner: owner("mine"), ..record(state) };
        assert_eq!(with_hook(&own, &DEFAULT), Decision::Finished);
    }
}
