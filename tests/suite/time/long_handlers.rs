//! A lease that is renewed is kept for as long as its handler runs, whatever its machine's clocks do.

use std::time::Duration;

use dynamodb_idempotency::policy::{Lease, LeaseExpired};
use dynamodb_idempotency::{Outcome, Policy};

use crate::support::raw::{self, number};
use crate::support::{Charging, Gate, Link, Runs, Store, charge, is_in_progress};

const AN_HOUR: i64 = 3600;

/// Runs a handler for ten minutes and calls `each` every three seconds. No other owner runs meanwhile,
/// the record does not expire before its lease, and a crash would not lock the key for long.
async fn ten_minutes(policy: fn(Policy) -> Policy, each: impl Fn(&Link, u32)) {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let handler = Gate::default();
    let renewed = |default: Policy| policy(default.lease(Lease::Renewed(Duration::from_secs(30))));
    let rival = store.idempotency();
    let run = store.by(&link, renewed).charging().run_with_outcome(async |_| {
        runs.add();
        handler.pass_at_last().await;
        Ok::<_, String>("done".to_owned())
    });
    let (outcome, ()) = tokio::join!(run, async {
        handler.reached().await;
        for tick in 0..200 {
            each(&link, tick);
            tokio::time::sleep(Duration::from_secs(3)).await;
            let result = charge(rival.charging(), &runs).await;
            assert!(is_in_progress(result), "tick {tick}");
            let record = store.record("charge#k").await;
            let lease = number(&record, "lease_expires_at");
            assert!(number(&record, "expires_at") * 1000 >= lease, "tick {tick}: {record:?}");
            assert!(lease - raw::now() < 40_000, "tick {tick}: {} ms", lease - raw::now());
        }
        handler.open();
    });
    assert_eq!((outcome.unwrap(), runs.count()), (Outcome::Executed("done".to_owned()), 1));
}

/// Or else it would be stopped by such a clock.
fn goes_on(policy: Policy) -> Policy {
    policy.lease_expired(LeaseExpired::Continue)
}

#[tokio::test]
async fn by_right_clocks_and_with_a_retention_that_is_shorter_than_the_lease() {
    ten_minutes(|policy| policy.retention(Duration::from_secs(10)), |_, _| {}).await;
}

#[tokio::test]
async fn by_a_wall_clock_that_stands_still() {
    let stop = |link: &Link, tick| {
        if tick == 1 {
            link.clock.stop();
        }
    };
    ten_minutes(|policy| policy, stop).await;
}

#[tokio::test]
async fn by_a_wall_clock_that_is_set_to_and_fro() {
    ten_minutes(goes_on, |link, tick| {
        link.clock.advance(if tick % 2 == 0 { AN_HOUR } else { -AN_HOUR });
    })
    .await;
}

#[tokio::test]
async fn by_a_wall_clock_that_runs_at_another_speed() {
    for by in [3, -2] {
        ten_minutes(goes_on, move |link, _| link.clock.advance(by)).await;
    }
}
