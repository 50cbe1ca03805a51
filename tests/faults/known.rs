//! Schedules that once violated a guarantee. Each is named after the fact that holds now.

use crate::schedule::Schedule;

fn holds(text: &str) {
    let schedule: Schedule = text.parse().expect("the schedule is valid");
    let violation = schedule.replay(|_, _| {}).violation;
    assert!(violation.is_none(), "{}\nSCHEDULE='{text}'", violation.unwrap());
}

macro_rules! known {
    ($($name:ident: $first:literal $(, $more:literal)*;)*) => {
        $(#[test]
        fn $name() {
            holds($first);
            $(holds($more);)*
        })*
    };
}

known! {
    an_owner_that_lost_its_lease_gets_no_expired_answer:
        "shared_retention skews=0,0,0,0 phase=193 jitter=4313892772847063117: A.start B.start A.deliver tick A.succeed B.deliver B.deliver C.start tick tick D.start expire C.wake A.wake D.deliver tick D.succeed expire arrive:1 D.deliver",
        "shared_retention skews=0,0,0,0,0 phase=142 jitter=7302063188210333327: A.start A.deliver A.succeed A.late B.start C.start C.lose pause:1137 B.hang D.start A.wake A.deliver D.die tick expire E.start E.deliver B.wake tick expire arrive:0 E.succeed E.deliver";
    a_stale_read_alone_reports_no_operation_in_progress:
        "read_first skews=0,0,0 phase=808 jitter=14072365310470862980: A.start A.conflict A.deliver A.succeed A.deliver pause:402 B.start B.stale B.conflict B.conflict",
        "read_first skews=0,0,0,0 phase=670 jitter=14604479644190885931: A.start B.start B.throttle C.start B.deliver B.succeed C.hang B.deliver tick D.start D.stale D.throttle",
        "read_first_open skews=0,0,0,0,0 phase=395 jitter=17320781981649999372: A.start B.start A.deliver C.start A.deliver A.succeed A.deliver D.start C.hang tick E.start E.stale E.5xx E.5xx E.deliver";
    parts_of_a_hooks_answer_and_of_a_handlers_answer_are_not_mixed:
        "parts_reconcile skews=0,0 phase=250: A.start pause:33000 B.start A.deliver B.deliver A.deliver B.deliver B.deliver tick B.wake B.deliver B.succeed B.deliver B.deliver+ B.deliver";
    the_response_of_a_renewal_is_read_before_the_handler_is_polled:
        "clocks_renewed skews=0,0,0,0,0 phase=694 jitter=12406738766052037805: A.start A.deliver A.freeze:9000 A.jump:-300000 A.wake A.deliver";
    a_delayed_correction_of_a_lease_replaces_the_wrong_lease_of_a_dropped_owner:
        "clocks_go_on skews=0,0,0,0,0 phase=724 jitter=9142281301703550785: A.start A.deliver A.jump:300000 A.freeze:33000 A.wake A.twice A.die pause:11907 arrive:1 B.start B.deliver B.deliver";
    a_commit_that_was_given_up_does_not_count_as_a_success:
        "commit_retain skews=0,0,0,0,0 phase=815 jitter=13156619298749941378: A.start pause:14016 A.wake B.start C.start C.deliver B.conflict C.succeed pause:25454 D.start C.wake C.lose-reply B.wake D.die E.start E.deliver E.deliver E.succeed E.deliver tick C.wake C.deliver A.deliver finish",
        "commit_retain skews=0,0,0 phase=382 jitter=4830500671717595417: A.start B.start B.deliver B.succeed B.throttle tick B.wake B.lose pause:36636 B.deliver B.deliver",
        "clocks_commit skews=0,0,0,0,0 phase=837 jitter=10924503184642491812: A.start B.start B.deliver B.succeed B.5xx tick B.wake B.5xx B.lose-reply pause:34890 B.wake B.deliver",
        "commit_renewed skews=0,0,0,0 phase=561 jitter=11576047324386918099: A.start B.start B.hang tick B.wake B.deliver B.deliver B.succeed pause:849 B.wake B.late pause:6379 B.wake arrive:2 B.deliver+";
    an_owner_whose_lease_expired_is_not_reported_as_in_progress:
        "in_progress_wait skews=0,0,0,0 phase=674 jitter=14654778272572256266: A.start A.deliver tick tick B.start B.deliver pause:754 B.wake B.deliver pause:34926 B.wake B.deliver arrive:0 B.deliver B.deliver",
        "in_progress_wait skews=0,0,0,0 phase=160 jitter=3799220352445797275: A.start B.start A.die arrive:0 B.deliver pause:34576 B.wake B.deliver pause:37463 B.wake B.deliver B.deliver";
    an_owner_that_has_released_is_not_reported_as_in_progress:
        "in_progress_wait skews=0,0,0,0 phase=1 jitter=2977233627709383802: A.start A.deliver A.fail B.start B.deliver C.start D.start D.deliver A.deliver tick D.wake D.deliver pause:5901 D.wake D.deliver arrive:0 D.deliver D.deliver";
    // The search of every state does not detect when these rules are broken.
    a_released_record_stays_until_no_delayed_request_can_arrive:
        "commit skews=0,0 phase=250: A.start A.twice A.succeed A.hang tick A.wake A.deliver expire arrive:0 arrive:0";
    the_attempt_never_decreases:
        "release skews=0,0 phase=250: A.start A.deliver A.succeed pause:33000 B.start B.deliver B.deliver B.fail B.deliver A.deliver";
    a_renewal_is_verified:
        "clocks_go_on skews=0,0 phase=250: A.start A.deliver A.jump:300000 tick A.wake A.deliver A.jump:-300000 A.deliver A.die";
    an_attempt_that_was_taken_over_stays_counted:
        "decline_retain skews=0,0 phase=250: A.start A.deliver A.fail A.deliver B.start B.deliver B.deliver B.decline B.deliver";
}
