//! Clocks that are set or stop while an operation runs.

use std::convert::Infallible;
use std::time::Duration;

use dynamodb_idempotency::ErrorKind;
use dynamodb_idempotency::policy::{Lease, LeaseExpired};

use crate::support::raw::{self, number};
use crate::support::{Charging, Gate, Link, Runs, Store, charge, kind, not_run, replayed};

const AN_HOUR: i64 = 3600;
#[tokio::test]
async fn an_answer_outlives_its_lease_and_its_retention_though_the_clock_was_set_back() {
    let (store, link) = (Store::open().await, Link::default());
    let minute = Duration::from_secs(60);
    let idempotency = store.by(&link, |p| p.retention(minute).lease(Lease::Fixed(minute)));
    let run = idempotency.charging().run(async |_| {
        link.clock.advance(-AN_HOUR);
        Ok::<_, Infallible>(())
    });
    let before = raw::now();
    run.await.unwrap();
    let record = store.record("charge#k").await;
    assert!(number(&record, "completed_at") >= before - 1_000);
    assert!(number(&record, "expires_at") * 1000 >= before + 59_000);
}

#[tokio::test]
async fn no_step_starts_under_a_lease_that_is_over_by_either_clock() {
    let length = Duration::from_secs(60);
    let frozen = |link: &Link| link.freeze(70);
    let set_back = |link: &Link| {
        link.clock.advance(-AN_HOUR);
        link.clock.live(70);
    };
    for pass in [&frozen as &dyn Fn(&Link), &set_back] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let goes_on = LeaseExpired::Continue;
        let lease = Lease::Fixed(length);
        let idempotency = store.by(&link, |p| p.lease(lease).lease_expired(goes_on));
        let run = idempotency.charging().run(async |execution| {
            pass(&link);
            let work = async {
                runs.add();
                Ok::<_, Infallible>(())
            };
            let step = execution.step("charge", work).await;
            not_run(step.expect_err("the step is not started"));
            Ok::<_, Infallible>(())
        });
        run.await.unwrap();
        assert_eq!(runs.count(), 0);
    }
}

/// The machine is stopped in the middle of a handler, and goes on three hours later.
#[tokio::test]
async fn a_handler_in_a_snapshot_goes_no_further_and_its_key_is_anothers() {
    let (store, link, runs, after) =
        (Store::open().await, Link::default(), Runs::default(), Runs::default());
    let idempotency = store.builder(&link).local_cache(1 << 20).build().unwrap();
    let (hooks, handler) = (idempotency.snapshot_hooks(), Gate::default());
    let run = idempotency.charging().run(async |_| {
        handler.pass().await;
        after.add();
        Ok::<_, Infallible>("late".to_owned())
    });
    let (stopped, ()) = tokio::join!(run, async {
        handler.reached().await;
        hooks.before_snapshot().unwrap();
        let other = store.over(&Link::later(3 * AN_HOUR));
        charge(other.charging(), &runs).await.unwrap();
        link.freeze(3 * AN_HOUR);
        hooks.after_restore().await;
        handler.open();
    });
    assert_eq!((kind(stopped), after.count()), (ErrorKind::LeaseExpired, 0));
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), replayed(1, 2));
}
