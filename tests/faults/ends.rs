//! Schedules with what each caller got, and what they left in the tables. In each, a request is lost or
//! delayed, a caller is dropped, a clock is set or frozen, or an owner outlives its lease.

use std::fmt::Write as _;

use crate::guarantee::CallOutcome;
use crate::ledger::caller_name;
use crate::schedule::{Schedule, run};
use crate::simulation::{Budget, Simulation};
use crate::step::Step;
use crate::world;

/// Runs exactly these steps, and compares what they left. Then the schedule goes on as every other one,
/// and must violate nothing.
fn end(steps: &str, expected: &str) {
    let schedule: Schedule = steps.parse().expect("the schedule is valid");
    let (mut steps, mut left) = (schedule.steps.iter().copied(), None);
    let ran = run(&schedule.setup, Budget::FREE, |simulation| {
        let enabled = simulation.enabled();
        let Some(step) = steps.next() else {
            left.get_or_insert_with(|| describe(simulation));
            return enabled.first().copied();
        };
        let is_possible = enabled.contains(&step) || changes_no_call(step);
        let (left, enabled) = (describe(simulation), words(&enabled));
        assert!(
            is_possible,
            "after `{left}`, {step} is not possible in `{schedule}`, but {enabled}"
        );
        Some(step)
    });
    let violation = ran.violation.map(|violation| violation.to_string());
    assert_eq!((left.as_deref(), violation), (Some(expected), None), "SCHEDULE='{schedule}'");
}

/// Time, clocks and delayed requests may do at any time what a search leaves out as equivalent.
fn changes_no_call(step: Step) -> bool {
    matches!(step, Step::Pause(_) | Step::Jump(..) | Step::Freeze(..) | Step::Arrive(_))
}

fn words(steps: &[Step]) -> String {
    steps.iter().map(Step::to_string).collect::<Vec<_>>().join(" ")
}

/// What each call returned, with the caller whose answer it is; then the record and its attempt, the
/// caller whose effect is in the table, and how often each step ran.
fn describe(simulation: &Simulation) -> String {
    let mut text = String::new();
    for (caller, outcome) in simulation.outcomes.iter().enumerate() {
        if let Some(outcome) = outcome {
            write!(text, "{}={} ", caller_name(caller), word(outcome)).expect("it is a string");
        }
    }
    world::with(|world| {
        let Some(record) = world.store.record() else { return text + "no record" };
        let status = record["status"]["S"].as_str().unwrap_or_default();
        let attempt = record["attempt"]["N"].as_str().unwrap_or_default();
        let effect = world.store.items().values().find_map(|item| item.get("by")?["S"].as_str());
        let effect = effect.map(|by| format!(" effect({by})"));
        let steps = world.steps.iter().map(|(step, runs)| format!(" {step}*{runs}"));
        text + status + ":" + attempt + &effect.unwrap_or_default() + &steps.collect::<String>()
    })
}

fn word(outcome: &CallOutcome) -> String {
    let of = |name: &str, answer: &str| {
        let (_, caller) = answer.rsplit_once(" of ").expect("each answer names its caller");
        format!("{name}({})", caller.trim_end_matches('\u{1F980}'))
    };
    match outcome {
        CallOutcome::Executed(answer) => of("executed", answer),
        CallOutcome::Replayed(answer) => of("replayed", answer),
        CallOutcome::Reconciled(answer) => of("reconciled", answer),
        CallOutcome::NothingExecuted(answer) => of("nothing", answer),
        CallOutcome::Unconfirmed(answer) => of("unconfirmed", answer),
        CallOutcome::Unprotected(answer) => of("unprotected", answer),
        CallOutcome::HandlerError(error) if error.contains(' ') => "failed".to_owned(),
        // Of a commit.
        CallOutcome::HandlerError(kind) => format!("failed({kind})"),
        CallOutcome::Error(kind) => {
            let name = format!("{kind:?}");
            name.split([' ', '(']).next().unwrap_or_default().to_owned()
        }
        CallOutcome::Dropped => "dropped".to_owned(),
    }
}

macro_rules! ends {
    ($($name:ident: $($steps:literal => $expected:literal,)*)*) => {
        $(#[test]
        fn $name() {
            $(end($steps, $expected);)*
        })*
    };
}

ends! {
    // A write that arrives after its sender gave it up changes nothing that came after it.
    a_late_acquisition_of_ones_own_is_acquired_once:
        "release: A.start A.late A.deliver arrive:0 A.deliver A.succeed A.deliver" => "A=executed(A) COMPLETED:1",
    a_late_release_does_not_free_the_next_owners_key:
        "release: A.start A.deliver A.fail A.late tick A.wake A.deliver B.start B.deliver B.deliver arrive:0" => "A=failed PENDING:2",
    a_late_kept_failure_does_not_fail_the_next_attempt:
        "retain: A.start A.deliver A.fail A.late tick A.wake A.deliver B.start B.deliver B.deliver arrive:0" => "A=failed PENDING:2",
    a_late_completion_of_ones_own_changes_nothing:
        "release: A.start A.deliver A.succeed A.late tick A.wake A.deliver arrive:0" => "A=executed(A) COMPLETED:1",
    a_late_renewal_does_not_shorten_the_lease:
        "renewed: A.start A.deliver tick A.wake A.late tick A.wake A.deliver arrive:0 pause:4500 B.start B.deliver" => "B=InProgress PENDING:1",

    // If a response is lost, the call reads what the store did and never guesses.
    a_lost_acquisition_acquires_once:
        "sdk_retries: A.start A.lose-reply A.deliver A.succeed A.deliver B.start B.deliver" => "A=executed(A) B=replayed(A) COMPLETED:1",
        "sdk_retries: A.start A.lose-reply A.throttle A.deliver A.succeed A.deliver B.start B.deliver" => "A=executed(A) B=replayed(A) COMPLETED:1",
        "release: A.start A.lose-reply A.deliver A.succeed A.deliver B.start B.deliver" => "A=executed(A) B=replayed(A) COMPLETED:1",
        "release: A.start A.lose A.deliver A.deliver A.succeed A.deliver B.start B.deliver" => "A=executed(A) B=replayed(A) COMPLETED:1",
        "release: A.start A.5xx A.deliver A.deliver A.succeed A.deliver B.start B.deliver" => "A=executed(A) B=replayed(A) COMPLETED:1",
    a_lost_takeover_does_not_count_as_two_attempts:
        "release: A.start A.deliver A.die pause:33000 B.start B.deliver B.lose-reply B.deliver B.succeed B.deliver" => "A=dropped B=executed(B) COMPLETED:2",
        "sdk_retries: A.start A.deliver A.die pause:33000 B.start B.deliver B.lose-reply B.deliver B.succeed B.deliver" => "A=dropped B=executed(B) COMPLETED:2",
    a_lost_completion_is_confirmed_and_never_released:
        "release: A.start A.deliver A.succeed A.lose-reply tick A.wake A.deliver" => "A=executed(A) COMPLETED:1",
        "release: A.start A.deliver A.succeed A.lose tick A.wake A.deliver" => "A=executed(A) COMPLETED:1",
        "release: A.start A.deliver A.succeed A.5xx tick A.wake A.deliver" => "A=executed(A) COMPLETED:1",
        "release: A.start A.deliver A.succeed A.throttle tick A.wake A.deliver" => "A=executed(A) COMPLETED:1",
        "sdk_retries: A.start A.deliver A.succeed A.lose-reply A.deliver" => "A=executed(A) COMPLETED:1",
        "sdk_retries: A.start A.deliver A.succeed A.lose A.deliver" => "A=executed(A) COMPLETED:1",
        "sdk_retries: A.start A.deliver A.succeed A.throttle A.deliver" => "A=executed(A) COMPLETED:1",
    an_answer_that_cannot_be_confirmed_is_returned_and_its_key_stays_locked:
        "release: A.start A.deliver A.succeed A.hang tick A.wake" => "A=unconfirmed(A) PENDING:1",
        "release: A.start A.deliver A.succeed A.5xx tick A.wake A.5xx" => "A=unconfirmed(A) PENDING:1",
        "release: A.start A.deliver A.succeed A.throttle tick A.wake A.throttle" => "A=unconfirmed(A) PENDING:1",
        "release: A.start A.deliver A.succeed A.hang tick A.wake arrive:0 B.start B.deliver" => "A=unconfirmed(A) B=replayed(A) COMPLETED:1",
        "unconfirmed_error: A.start A.deliver A.succeed A.hang tick A.wake" => "A=OutcomeUnknown PENDING:1",
    a_lost_release_leaves_the_key_free:
        "release: A.start A.deliver A.fail A.lose-reply tick A.wake A.deliver" => "A=failed RELEASED:1",
        "release: A.start A.deliver A.fail A.lose tick A.wake A.deliver" => "A=failed RELEASED:1",
        "release: A.start A.deliver A.fail A.5xx tick A.wake A.deliver" => "A=failed RELEASED:1",
        "release: A.start A.deliver A.fail A.throttle tick A.wake A.deliver" => "A=failed RELEASED:1",
    a_lost_response_to_a_kept_failure_counts_it_once:
        "retain: A.start A.deliver A.fail A.lose-reply tick A.wake A.deliver B.start B.deliver B.deliver B.succeed B.deliver" => "A=failed B=executed(B) COMPLETED:2",
    an_acquisition_in_doubt_is_released_before_the_error:
        "release: A.start A.lose-reply A.5xx A.deliver" => "A=Unavailable RELEASED:0",

    // A former owner changes nothing of a record that another call holds, completed or failed.
    a_late_completion_gets_the_new_owners_answer:
        "lease_goes_on: A.start A.deliver pause:33000 B.start B.deliver B.deliver B.succeed B.deliver A.succeed A.deliver" => "A=replayed(B) B=executed(B) COMPLETED:2",
        "release: A.start A.deliver A.succeed A.freeze:33000 B.start B.deliver B.deliver B.succeed B.deliver A.deliver" => "A=replayed(B) B=executed(B) COMPLETED:2",
    a_late_completion_while_the_new_owner_runs_is_a_lost_lease:
        "lease_goes_on: A.start A.deliver pause:33000 B.start B.deliver B.deliver A.succeed A.deliver" => "A=LeaseLost PENDING:2",
    a_late_completion_does_not_revive_a_kept_failure:
        "retain: A.start A.deliver A.succeed pause:33000 B.start B.deliver B.deliver B.fail B.deliver A.deliver" => "A=LeaseLost B=failed FAILED:2",
    a_late_failure_changes_nothing_whatever_it_would_leave_behind:
        "lease_goes_on: A.start A.deliver pause:33000 B.start B.deliver B.deliver B.succeed B.deliver A.fail A.deliver" => "A=failed B=executed(B) COMPLETED:2",
        "lease_goes_on: A.start A.deliver pause:33000 B.start B.deliver B.deliver A.fail A.deliver" => "A=failed PENDING:2",
        "retain: A.start A.deliver A.fail pause:33000 B.start B.deliver B.deliver B.succeed B.deliver A.deliver" => "A=failed B=executed(B) COMPLETED:2",
        "retain: A.start A.deliver A.fail pause:33000 B.start B.deliver B.deliver A.deliver" => "A=failed PENDING:2",
        "replay_errors: A.start A.deliver A.fail pause:33000 B.start B.deliver B.deliver B.succeed B.deliver A.deliver" => "A=failed B=executed(B) COMPLETED:2",
        "replay_errors: A.start A.deliver A.fail pause:33000 B.start B.deliver B.deliver A.deliver" => "A=failed PENDING:2",
    an_owner_whose_record_was_released_by_another_stores_its_answer_under_the_later_attempt:
        "lease_goes_on: A.start A.deliver pause:33000 B.start B.deliver B.deliver B.fail B.deliver A.succeed A.deliver A.deliver" => "A=executed(A) B=failed COMPLETED:2",

    // A lease.
    a_dropped_handler_locks_its_key_until_the_lease_ends:
        "release: A.start A.deliver A.die B.start B.deliver" => "A=dropped B=InProgress PENDING:1",
        "release: A.start A.deliver A.die pause:33000 B.start B.deliver B.deliver B.succeed B.deliver" => "A=dropped B=executed(B) COMPLETED:2",
    an_abandoned_operation_is_not_run_again_when_the_policy_rejects:
        "reject_takeover: A.start A.deliver A.die pause:33000 B.start B.deliver" => "A=dropped B=Abandoned PENDING:1",
        "reject_takeover: A.start A.deliver pause:33000 A.wake B.start B.deliver" => "A=LeaseExpired B=Abandoned PENDING:1",
    an_abandoned_operation_is_completed_by_its_hook:
        "reconcile: A.start A.deliver pause:33000 A.wake B.start B.deliver B.deliver" => "A=LeaseExpired B=reconciled(B) COMPLETED:1",
    a_lease_that_was_renewed_meanwhile_is_not_taken_over:
        "renewed_goes_on: A.start A.deliver pause:9000 B.start B.deliver A.wake A.deliver B.deliver" => "B=InProgress PENDING:1",
    an_operation_that_completed_meanwhile_is_not_taken_over:
        "lease_goes_on: A.start A.deliver pause:33000 B.start B.deliver A.succeed A.deliver B.deliver" => "A=executed(A) B=replayed(A) COMPLETED:1",
    a_lease_that_expired_in_flight_and_was_taken_over_is_not_run_under:
        "release: A.start pause:33000 A.deliver B.start B.deliver B.deliver A.deliver" => "A=InProgress PENDING:2",
    a_renewal_that_hangs_does_not_lose_the_lease:
        "renewed: A.start A.deliver tick A.wake A.hang tick A.wake tick A.wake A.deliver pause:4500 B.start B.deliver" => "B=InProgress PENDING:1",
    a_renewed_lease_that_cannot_be_renewed_stops_its_handler:
        "renewed: A.start A.deliver tick A.wake A.hang pause:6000 A.wake" => "A=LeaseExpired PENDING:1",
    an_owner_whose_renewal_finds_the_lease_taken_has_lost_it:
        "renewed_goes_on: A.start A.deliver pause:9000 B.start B.deliver B.deliver A.wake A.deliver A.succeed A.deliver" => "A=LeaseLost PENDING:2",

    a_waiting_call_gets_what_the_running_one_leaves:
        "in_progress_wait: A.start A.deliver B.start B.deliver tick B.wake A.succeed A.deliver B.deliver" => "A=executed(A) B=replayed(A) COMPLETED:1",
        "in_progress_wait: A.start A.deliver B.start B.deliver tick B.wake A.fail A.deliver B.deliver B.deliver B.succeed B.deliver" => "A=failed B=executed(B) COMPLETED:2",
        "in_progress_wait: A.start A.deliver A.die B.start B.deliver pause:33000 B.wake B.deliver B.deliver B.succeed B.deliver" => "A=dropped B=executed(B) COMPLETED:2",
        "in_progress_wait: A.start A.deliver B.start B.deliver tick B.wake B.deliver" => "B=InProgress PENDING:1",
    an_attempt_that_failed_meanwhile_counts:
        "retain skews=0,0,0: A.start A.deliver A.fail A.deliver B.start B.deliver C.start C.deliver C.deliver C.fail C.deliver B.deliver" => "A=failed B=Failed C=failed FAILED:2",
    a_retained_failure_may_be_followed_by_a_success:
        "retain skews=0,0,0: A.start A.deliver A.fail A.deliver B.start B.deliver B.deliver B.succeed B.deliver C.start C.deliver" => "A=failed B=executed(B) C=replayed(B) COMPLETED:2",
    an_answer_of_a_hook_whose_write_was_lost_is_written_once:
        "reconcile: A.start A.deliver A.die pause:33000 B.start B.deliver B.lose-reply B.deliver" => "A=dropped B=reconciled(B) COMPLETED:1",
        "reconcile: A.start A.deliver A.die pause:33000 B.start B.deliver B.lose B.deliver tick B.wake B.deliver" => "A=dropped B=reconciled(B) COMPLETED:1",
        "reconcile: A.start A.deliver A.die pause:33000 B.start B.deliver B.5xx B.deliver tick B.wake B.deliver" => "A=dropped B=reconciled(B) COMPLETED:1",

    // Whoever continues finds what the last owner stored.
    an_owner_that_dies_is_followed_at_the_first_step_that_is_not_stored:
        "steps: A.start A.deliver A.die pause:33000 B.start B.deliver B.deliver B.deliver B.deliver B.succeed B.deliver" => "A=dropped B=executed(B) COMPLETED:2 one*2 two*1",
        "steps: A.start A.deliver A.deliver A.die pause:33000 B.start B.deliver B.deliver B.deliver B.succeed B.deliver" => "A=dropped B=executed(B) COMPLETED:2 one*1 two*2",
        "steps: A.start A.deliver A.deliver A.deliver A.die pause:33000 B.start B.deliver B.deliver B.succeed B.deliver" => "A=dropped B=executed(B) COMPLETED:2 one*1 two*1",
        "steps: A.start A.deliver A.deliver A.deliver A.succeed A.die pause:33000 B.start B.deliver B.deliver B.succeed B.deliver" => "A=dropped B=executed(B) COMPLETED:2 one*1 two*1",
    a_failure_keeps_a_record_with_steps:
        "steps: A.start A.deliver A.deliver A.deliver A.fail A.deliver B.start B.deliver B.deliver B.succeed B.deliver" => "A=failed B=executed(B) COMPLETED:2 one*1 two*1",
    a_late_step_changes_nothing_of_a_record_that_another_holds:
        "steps: A.start A.deliver A.hang pause:33000 B.start B.deliver B.deliver B.deliver arrive:0 B.deliver B.succeed B.deliver" => "B=executed(B) COMPLETED:2 one*2 two*1",
    an_owner_never_misses_a_step_that_was_stored_before_it_took_over:
        "steps: A.start A.deliver A.hang pause:33000 A.wake B.start B.deliver arrive:0 B.deliver tick B.wake B.deliver B.deliver B.succeed B.deliver" => "A=LeaseExpired B=executed(B) COMPLETED:2 one*1 two*1",

    // A handler goes no further than its lease, by whichever clock that is over first.
    a_handler_is_stopped_when_its_lease_is_over_by_either_clock:
        "release: A.start A.deliver tick tick A.wake" => "A=LeaseExpired PENDING:1",
        "clocks: A.start A.deliver A.jump:300000 A.succeed" => "A=LeaseExpired PENDING:1",
        "clocks: A.start A.deliver A.jump:-300000 pause:33000 A.wake" => "A=LeaseExpired PENDING:1",
        "clocks: A.start A.deliver A.freeze:33000 A.wake" => "A=LeaseExpired PENDING:1",
    a_policy_lets_a_handler_continue_past_its_lease:
        "lease_goes_on: A.start A.deliver A.jump:300000 A.succeed A.deliver" => "A=executed(A) COMPLETED:1",
        "lease_goes_on: A.start A.deliver A.jump:-300000 pause:33000 A.succeed A.deliver" => "A=executed(A) COMPLETED:1",
        "lease_goes_on: A.start A.deliver A.freeze:33000 A.succeed A.deliver" => "A=executed(A) COMPLETED:1",
    no_two_executions_make_progress_at_once:
        "clocks: A.start A.deliver A.freeze:33000 B.start B.deliver B.deliver B.succeed B.deliver A.wake" => "A=LeaseExpired B=executed(B) COMPLETED:2",
    a_handler_that_has_returned_completes_though_its_lease_ends_meanwhile:
        "release: A.start A.deliver A.succeed pause:33000 A.deliver" => "A=executed(A) COMPLETED:1",
    a_commit_in_flight_when_the_lease_expires_is_the_answer_if_it_was_applied:
        "commit: A.start A.deliver A.succeed A.lose-reply pause:33000 A.wake A.deliver" => "A=executed(A) COMPLETED:1 effect(A)",
        "commit: A.start A.deliver A.succeed pause:33000 A.wake A.deliver" => "A=LeaseExpired PENDING:1",
        "commit: A.start A.deliver A.succeed A.hang pause:33000 A.wake A.deliver arrive:0 B.start B.deliver" => "A=LeaseExpired B=replayed(A) COMPLETED:1 effect(A)",
        "commit: A.start A.deliver A.succeed A.hang pause:33000 A.wake A.deliver B.start B.deliver B.deliver arrive:0" => "A=LeaseExpired PENDING:2",

    // Clocks that are set or stop while an operation runs.
    a_renewal_by_a_clock_that_was_set_forward_is_corrected:
        "clocks_go_on: A.start A.deliver A.jump:300000 tick A.wake A.deliver A.deliver A.die pause:9000 B.start B.deliver B.deliver" => "A=dropped PENDING:2",
    a_lease_is_renewed_though_the_clock_was_set_back:
        "clocks_go_on: A.start A.deliver A.jump:-300000 tick A.wake A.deliver A.deliver pause:4500 B.start B.deliver" => "B=InProgress PENDING:1",
    a_wait_is_no_longer_for_a_clock_that_was_set_back:
        "in_progress_wait: A.start A.deliver B.start B.deliver B.jump:-300000 tick B.wake B.deliver" => "B=InProgress PENDING:1",
    a_completion_is_tried_again_though_the_clock_was_set_forward:
        "release: A.start A.deliver A.succeed A.jump:3600000 A.lose tick A.wake A.deliver" => "A=executed(A) COMPLETED:1",
    a_release_is_given_up_in_time_though_the_clock_was_set_back:
        "release: A.start A.deliver A.fail A.jump:-300000 A.hang tick A.wake" => "A=failed PENDING:1",
    a_fast_clock_and_a_crash_in_the_first_round_trip_lock_no_key_for_longer_than_the_lease:
        "owner_fast skews=300000,0: A.start A.deliver A.lose-reply A.die pause:33000 B.start B.deliver B.deliver" => "A=dropped PENDING:2",
    the_stores_time_decides_whatever_the_takers_clock_says:
        "taker_fast skews=0,300000: A.start A.deliver B.start B.deliver" => "B=InProgress PENDING:1",
        "taker_slow skews=0,-300000: A.start A.deliver A.die pause:33000 B.start B.deliver B.deliver" => "A=dropped PENDING:2",

    // A commit that DynamoDB does not confirm: the reported result stays true, whatever arrives late.
    a_commit_that_was_applied_is_found_to_be:
        "commit: A.start A.deliver A.succeed A.lose-reply tick A.wake A.deliver" => "A=executed(A) COMPLETED:1 effect(A)",
        "commit_sdk_retries: A.start A.deliver A.succeed A.lose-reply A.deliver" => "A=executed(A) COMPLETED:1 effect(A)",
    a_late_request_of_a_commit_that_was_given_up_is_rejected:
        "commit: A.start A.deliver A.succeed A.late tick A.wake A.late A.deliver A.deliver arrive:0 arrive:0" => "A=failed(Unavailable) RELEASED:1",
    a_commit_that_was_given_up_counts_as_an_attempt_where_attempts_count:
        "commit_retain: A.start A.deliver A.succeed A.hang tick A.wake A.deliver A.deliver B.start B.deliver B.deliver B.succeed B.deliver" => "A=failed(Unavailable) B=executed(B) COMPLETED:2 effect(B)",
    a_commit_of_which_nothing_is_known_is_an_error_that_says_so_and_stores_nothing:
        "commit: A.start A.deliver A.succeed A.hang tick A.wake A.hang tick A.wake" => "A=OutcomeUnknown PENDING:1",
    no_late_acquisition_lets_a_commit_be_applied_that_was_given_up:
        "commit: A.start A.late A.deliver A.deliver A.succeed A.late tick A.wake A.late A.deliver A.deliver arrive:0 arrive:0 arrive:0" => "A=failed(Unavailable) RELEASED:1",
    no_commit_that_was_given_up_is_applied_after_another_owner_has_failed:
        "commit: A.start A.late A.deliver A.deliver A.succeed A.late tick A.wake A.late A.deliver A.deliver B.start B.deliver B.deliver B.fail B.deliver arrive:0 arrive:0 arrive:0" => "A=failed(Unavailable) B=failed RELEASED:2",
    the_attempt_that_takes_over_commits_once_for_both:
        "commit: A.start A.deliver A.succeed A.hang A.die pause:33000 B.start B.deliver B.deliver B.succeed B.deliver arrive:0" => "A=dropped B=executed(B) COMPLETED:2 effect(B)",
    a_transaction_that_was_applied_is_found_to_be:
        "transaction: A.start A.lose-reply tick A.wake A.deliver" => "A=executed(A) COMPLETED:1 effect(A)",
        "transaction: A.start A.late tick A.wake A.deliver arrive:0" => "A=executed(A) COMPLETED:1 effect(A)",
    a_transaction_of_which_nothing_is_known_is_an_error_that_says_so:
        "transaction: A.start A.hang tick A.wake A.deliver arrive:0" => "A=OutcomeUnknown RELEASED:0",
        "transaction: A.start A.hang tick A.wake A.deliver B.start B.deliver B.deliver" => "A=OutcomeUnknown B=executed(B) COMPLETED:1 effect(B)",

    // An outage.
    a_store_that_is_out_of_reach_runs_nothing:
        "release: A.start A.lose A.lose A.lose" => "A=Unavailable no record",
        "release: A.start A.throttle" => "A=Unavailable no record",
        "release: A.start A.5xx A.5xx A.5xx" => "A=Unavailable no record",
    an_unprotected_answer_is_stored_when_the_store_is_back_in_time:
        "fail_open: A.start A.lose A.lose A.succeed A.deliver B.start B.deliver" => "A=unprotected(A) B=replayed(A) COMPLETED:1",
        "fail_open: A.start A.lose-reply A.lose A.succeed A.deliver B.start B.deliver" => "A=unprotected(A) B=replayed(A) COMPLETED:1",
        "fail_open: A.start A.lose A.lose A.succeed A.lose" => "A=unprotected(A) no record",
    an_unprotected_failure_leaves_nothing_behind:
        "fail_open: A.start A.lose A.lose A.fail A.deliver" => "A=failed no record",
        "fail_open: A.start A.lose-reply A.lose A.fail A.deliver" => "A=failed RELEASED:1",
    no_call_runs_unprotected_after_its_read_showed_an_owner:
        "read_first_open: A.start A.deliver A.deliver B.start B.deliver B.lose B.lose B.lose" => "B=Unavailable PENDING:1",
    a_transaction_in_the_way_is_no_outage:
        "fail_open: A.start A.deliver B.start B.conflict B.deliver" => "B=InProgress PENDING:1",
}
