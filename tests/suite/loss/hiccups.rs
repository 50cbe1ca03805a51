//! A store that fails or hangs for a moment costs no answer, no lease and no more time than there is.

use std::time::Duration;

use dynamodb_idempotency::policy::Lease;
use dynamodb_idempotency::{ErrorKind, Outcome, RunError};
use serde::{Deserialize, Serialize, Serializer};

use crate::support::raw::status;
use crate::support::{
    Act, Charging, Gate, Link, Runs, Store, caller, caller_on, charge, decline, executed, handlers,
    is_in_progress, kind, replayed,
};

const EXPIRED_TOKEN: Act = Act::Answer(400, "ExpiredTokenException");
const DENIED: Act = Act::Answer(400, "AccessDeniedException");

#[tokio::test]
async fn expired_credentials_at_the_completion_cost_no_answer() {
    for hiccup in [EXPIRED_TOKEN, DENIED] {
        let (_store, link, runs, idempotency) = caller_on(Link::without_retries()).await;
        for act in [Act::Deliver, hiccup.clone(), hiccup] {
            link.wire.next("PutItem", act);
        }
        assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 1));
        assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), replayed(1, 1));
    }
}

#[tokio::test]
async fn expired_credentials_at_the_release_leave_no_locked_key() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    link.wire.next("UpdateItem", EXPIRED_TOKEN);
    handlers(decline(store.over(&link).charging(), &runs).await);
    assert!(store.is_released("charge#k").await);
}

/// As above, with a completion that hangs for longer than the lease.
#[tokio::test]
async fn a_lease_is_renewed_until_its_completion_is_confirmed() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let hanging = Gate::default();
    link.wire.next("PutItem", Act::Deliver);
    link.wire.next("PutItem", Act::HoldRequest(hanging.clone()));
    let lease = Lease::Renewed(Duration::from_secs(3));
    let rival = store.idempotency();
    let run = charge(store.by(&link, |policy| policy.lease(lease)).charging(), &runs);
    let (outcome, ()) = tokio::join!(run, async {
        hanging.reached().await;
        for _ in 0..9 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(is_in_progress(charge(rival.charging(), &runs).await));
        }
        hanging.open();
    });
    assert_eq!(outcome.unwrap(), executed(1, 1));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn an_answer_gets_out_before_the_deadline_though_the_store_hangs() {
    let (_store, link, runs, idempotency) = caller_on(Link::without_retries()).await;
    link.wire.next("PutItem", Act::Deliver);
    link.wire.every("PutItem", Act::HoldRequest(Gate::default()));
    link.wire.every("UpdateItem", Act::HoldRequest(Gate::default()));
    let deadline = link.clock.in_secs(3);
    let operation = idempotency.charging().deadline(deadline);
    assert!(matches!(charge(operation, &runs).await.unwrap(), Outcome::Unconfirmed(_)));
    assert!(link.clock.in_secs(0) < deadline);

    link.wire.next("PutItem", Act::Deliver);
    let deadline = link.clock.in_secs(3);
    let operation = idempotency.operation("charge").key("other").no_payload().deadline(deadline);
    handlers(decline(operation, &runs).await);
    assert!(link.clock.in_secs(0) < deadline);
}

/// Takes about a second and a half: what a caller with a deadline has left.
#[tokio::test]
async fn an_unconfirmed_answer_goes_out_before_the_deadline() {
    let (store, link) = (Store::open().await, Link::default());
    let minute = Duration::from_secs(60);
    let idempotency = store.by(&link, |policy| policy.completion_timeout(minute));
    let deadline = link.clock.in_secs(2);
    let outcome = idempotency.charging().deadline(deadline).run_with_outcome(async |_| {
        link.wire.down(Act::LoseRequest);
        Ok::<_, String>(())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Unconfirmed(()));
    assert!(link.clock.in_secs(0) < deadline, "the caller can still answer");
}

#[tokio::test]
async fn an_acquisition_is_given_up_before_the_deadline() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    link.wire.down(Act::HoldRequest(Gate::default()));
    let deadline = link.clock.in_secs(3);
    let result = charge(store.over(&link).charging().deadline(deadline), &runs).await;
    assert_eq!((kind(result), runs.count()), (ErrorKind::Unavailable, 0));
    assert!(link.clock.in_secs(0) < deadline);
}

/// A result whose serialization panics.
#[derive(Debug, Deserialize)]
struct Grenade;

impl Serialize for Grenade {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("pulled")
    }
}

#[tokio::test]
async fn a_result_whose_serialization_panics_is_completed_without_its_answer() {
    let (store, runs, idempotency) = caller().await;
    let run = || {
        idempotency.charging().run(async |_| {
            runs.add();
            Ok::<_, String>(Grenade)
        })
    };
    assert!(run().await.is_ok());
    assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
    let repeat = run().await;
    assert!(matches!(repeat, Err(RunError::Idempotency(error))
        if error.kind() == ErrorKind::AnswerUnavailable));
    assert_eq!(runs.count(), 1);
}
