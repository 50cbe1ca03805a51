//! Clocks that are set or stop while an operation runs.

use std::convert::Infallible;
use std::time::Duration;

use dynamodb_idempotency::policy::{InProgress, Lease, LeaseExpired};
use dynamodb_idempotency::{ErrorKind, Outcome, RunError};

use crate::support::gate::patiently;
use crate::support::raw::{self, number};
use crate::support::{
    Act, Charging, Gate, Link, Runs, Store, charge, charge_held, executed, is_in_progress, kind,
    not_run, replayed,
};

const AN_HOUR: i64 = 3600;
const SHORTEST: Lease = Lease::Renewed(Duration::from_secs(3));

/// How long the lease in the record has left, in ms.
async fn lease_left(store: &Store) -> i64 {
    number(&store.record("charge#k").await, "lease_expires_at") - raw::now()
}

/// Takes one renewal of the shortest renewed lease, a second.
#[tokio::test]
async fn a_renewal_by_a_clock_that_was_set_forward_is_corrected() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    // Or else it would be stopped by that clock.
    let goes_on = LeaseExpired::Continue;
    let idempotency = store.by(&link, |p| p.lease(SHORTEST).lease_expired(goes_on));
    let handler = Gate::default();
    let run = charge_held(idempotency.charging(), &runs, &handler);
    let (outcome, left) = tokio::join!(run, async {
        handler.reached().await;
        let stamped = Gate::default();
        link.wire.next("UpdateItem", Act::Deliver);
        link.wire.next("UpdateItem", Act::HoldResponse(stamped.clone()));
        link.clock.advance(AN_HOUR);
        // The renewal, whose response shows that it is wrong, and what fixes it.
        stamped.reached().await;
        let left = lease_left(&store).await;
        stamped.open();
        handler.open();
        left
    });
    assert_eq!(outcome.unwrap(), executed(1, 1));
    assert!(left < 10_000, "a dead owner's key would be locked for {left} ms");
}

/// Takes two renewals of the shortest renewed lease, two seconds.
#[tokio::test]
async fn a_lease_is_renewed_though_the_clock_was_set_back() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.by(&link, |policy| policy.lease(SHORTEST));
    let handler = Gate::default();
    let run = charge_held(idempotency.charging(), &runs, &handler);
    let (outcome, ()) = tokio::join!(run, async {
        handler.reached().await;
        let first = number(&store.record("charge#k").await, "lease_expires_at");
        link.clock.advance(-AN_HOUR);
        let renewed = async {
            while number(&store.record("charge#k").await, "lease_expires_at") <= first {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        patiently("a renewal", renewed).await;
        handler.open();
    });
    assert_eq!(outcome.unwrap(), executed(1, 1));
}

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

#[tokio::test]
async fn a_wait_is_no_longer_for_a_clock_that_was_set_back() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    store.put(raw::pending("charge#k")).await;
    let wait = InProgress::Wait { timeout: Duration::from_millis(300) };
    let idempotency = store.by(&link, |p| p.in_progress(wait));
    let look = Gate::default();
    link.wire.next("GetItem", Act::HoldRequest(look.clone()));
    let call = charge(idempotency.charging(), &runs);
    let (result, ()) = tokio::join!(patiently("the end of a wait of 300 ms", call), async {
        look.reached().await;
        link.clock.advance(-AN_HOUR);
        look.open();
    });
    assert!(is_in_progress(result));
}

#[tokio::test]
async fn a_completion_is_tried_again_though_the_clock_was_set_forward() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let builder = store.builder(&link).request_timeout(Duration::from_millis(500));
    let idempotency = builder.build().unwrap();
    let completion = Gate::default();
    link.wire.next("PutItem", Act::Deliver);
    link.wire.next("PutItem", Act::HoldRequest(completion.clone()));
    let run = charge(idempotency.charging(), &runs);
    let (outcome, ()) = tokio::join!(run, async {
        completion.reached().await;
        link.clock.advance(AN_HOUR);
    });
    assert_eq!(outcome.unwrap(), executed(1, 1));
    assert_eq!(link.wire.count("PutItem"), 3);
}

#[tokio::test]
async fn a_release_gives_up_in_time_though_the_clock_was_set_back() {
    let (store, link) = (Store::open().await, Link::without_retries());
    let half_a_second = Duration::from_millis(500);
    let idempotency = store.by(&link, |p| p.completion_timeout(half_a_second));
    let release = Gate::default();
    let run = idempotency.charging().run_with_outcome(async |_| {
        link.wire.down(Act::THROTTLE);
        Err::<(), _>("declined")
    });
    let jump = async {
        release.pass().await;
        link.clock.advance(-AN_HOUR);
    };
    let (result, ()) = tokio::join!(patiently("the end of half a second of tries", run), async {
        // Once it is trying.
        link.wire.sent("UpdateItem", 1).await;
        release.open();
        jump.await;
    });
    let ended: Result<Outcome<()>, RunError<&str>> = result;
    assert!(matches!(ended, Err(RunError::Handler("declined"))));
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

/// Another has run by the time that the store gets it.
#[tokio::test]
async fn whose_completion_was_frozen_gets_the_answer_that_counts() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let held = Gate::default();
    link.wire.next("PutItem", Act::Deliver);
    link.wire.next("PutItem", Act::HoldRequest(held.clone()));
    let idempotency = store.over(&link);
    let run = charge(idempotency.charging(), &runs);
    let (first, second) = tokio::join!(run, async {
        held.reached().await;
        link.freeze(AN_HOUR);
        let other = store.over(&Link::later(AN_HOUR));
        let second = charge(other.charging(), &runs).await.unwrap();
        held.open();
        second
    });
    assert_eq!((second, first.unwrap()), (executed(2, 2), replayed(2, 2)));
}
