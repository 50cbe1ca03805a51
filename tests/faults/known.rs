//! Schedules that once violated something, each by the name of what holds since.

use crate::schedule::Schedule;

fn holds(text: &str) {
    let schedule: Schedule = text.parse().expect("it is a schedule");
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
    whoever_lost_its_lease_gets_no_answer_past_its_retention:
        "shared_retention skews=0,0,0,0 phase=193 jitter=4313892772847063117: A.start B.start A.deliver tick A.succeed B.deliver B.deliver C.start tick tick D.start expire C.wake A.wake D.deliver tick D.succeed expire arrive:1 D.deliver",
        "shared_retention skews=0,0,0,0,0 phase=142 jitter=7302063188210333327: A.start A.deliver A.succeed A.late B.start C.start C.lose pause:1137 B.hang D.start A.wake A.deliver D.die tick expire E.start E.deliver B.wake tick expire arrive:0 E.succeed E.deliver";
    nobody_is_told_of_an_owner_that_a_stale_read_has_shown:
        "read_first skews=0,0,0 phase=808 jitter=14072365310470862980: A.start A.conflict A.deliver A.succeed A.deliver pause:402 B.start B.stale B.conflict B.conflict",
        "read_first skews=0,0,0,0 phase=670 jitter=14604479644190885931: A.start B.start B.throttle C.start B.deliver B.succeed C.hang B.deliver tick D.start D.stale D.throttle",
        "read_first_open skews=0,0,0,0,0 phase=395 jitter=17320781981649999372: A.start B.start A.deliver C.start A.deliver A.succeed A.deliver D.start C.hang tick E.start E.stale E.5xx E.5xx E.deliver";
    parts_of_a_resolution_and_of_an_own_answer_are_told_apart:
        "parts_reconcile skews=0,0 phase=250: A.start pause:33000 B.start A.deliver B.deliver A.deliver B.deliver B.deliver tick B.wake B.deliver B.succeed B.deliver B.deliver+ B.deliver";
}
