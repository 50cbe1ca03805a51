use super::*;
use crate::policy::{Completed, Failure, InProgress, Lease, Outage, Takeover};
use crate::record::State;
use crate::time::{Learned, Local};

const NOW: Local = Local { wall: Timestamp::from_millis(1_000_000), uptime: Uptime(0) };

fn now() -> Now {
    Now { local: NOW, learned: Some(Learned::undated(NOW)) }
}

fn acquisition() -> Acquisition {
    let rules = Rules {
        completed: Completed::Execute,
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
    Acquisition::new(OwnerId(1), Goal::Own, rules, now())
}

fn record(state: State) -> Header {
    Header::of(&OwnerId(2), state, (1, 0), (NOW.wall, Some(NOW.wall), 100_000))
}

#[test]
fn a_version_that_is_replaced_again_is_new_again() {
    let lease_expires_at = NOW.wall;
    for state in [State::Completed, State::Pending { lease_expires_at }] {
        let (mut acquisition, mut seen) = (acquisition(), record(state));
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
    acquisition.taken_over = Some(record(State::Completed));
    assert_eq!(acquisition.released(stamp).attempt, 2);
}
