//! If a response is lost, the call reads what the store did and never guesses.

use std::time::Duration;

use dynamodb_idempotency::policy::{Failure, Unconfirmed};
use dynamodb_idempotency::{ErrorKind, Outcome};

use crate::support::raw::{number, status};
use crate::support::{
    Act, Charging, Link, Runs, Store, charge, decline, executed, handlers, kind, raw, replayed,
};

/// The operations that one first run sends when the first acquisition meets this.
async fn requests_of_a_run(link: Link, act: Act) -> Vec<String> {
    let (store, runs) = (Store::open().await, Runs::default());
    link.wire.next("PutItem", act);
    let idempotency = store.over(&link);
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 1));
    let requests = link.wire.requests();
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), replayed(1, 1));
    requests
}

#[tokio::test]
async fn a_lost_acquire_response_and_the_sdks_retry_acquire_once() {
    let requests = requests_of_a_run(Link::default(), Act::LoseResponse).await;
    assert_eq!(requests, ["PutItem", "PutItem", "PutItem"]);
}

#[tokio::test]
async fn a_lost_acquire_response_is_read_back_when_the_sdk_does_not_retry() {
    let requests = requests_of_a_run(Link::without_retries(), Act::LoseResponse).await;
    assert_eq!(requests, ["PutItem", "GetItem", "PutItem"]);
}

#[tokio::test]
async fn a_lost_acquire_request_is_sent_again() {
    for act in [Act::LoseRequest, Act::SERVER_ERROR] {
        let requests = requests_of_a_run(Link::without_retries(), act).await;
        assert_eq!(requests, ["PutItem", "GetItem", "PutItem", "PutItem"]);
    }
}

#[tokio::test]
async fn a_lost_acquire_response_is_read_back_when_the_sdks_retries_are_throttled() {
    // The last answer says "not executed"; the first try was.
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    link.wire.next("PutItem", Act::LoseResponse);
    for _ in 1..link.tries() {
        link.wire.next("PutItem", Act::THROTTLE);
    }
    let idempotency = store.over(&link);
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 1));
    let first = usize::try_from(link.tries()).unwrap();
    assert_eq!(link.wire.requests()[first..], ["GetItem", "PutItem"]);
}

#[tokio::test]
async fn a_lost_takeover_response_does_not_count_as_two_attempts() {
    for link in [Link::default(), Link::without_retries()] {
        let (store, runs) = (Store::open().await, Runs::default());
        store.put(raw::abandoned("charge#k")).await;
        link.wire.next("UpdateItem", Act::LoseResponse);
        let idempotency = store.over(&link);
        assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 2));
        assert_eq!(number(&store.record("charge#k").await, "attempt"), 2);
    }
}

#[tokio::test]
async fn a_lost_completion_response_is_confirmed_and_never_released() {
    for link in [Link::default(), Link::without_retries()] {
        for act in [Act::LoseResponse, Act::LoseRequest, Act::SERVER_ERROR, Act::THROTTLE] {
            let (store, runs) = (Store::open().await, Runs::default());
            link.wire.next("PutItem", Act::Deliver);
            link.wire.next("PutItem", act);
            let idempotency = store.over(&link);
            assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 1));
            assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
            assert_eq!((link.wire.count("PutItem"), link.wire.count("UpdateItem")), (3, 0));
            link.wire.forget();
        }
    }
}

/// Runs with a store that is cut off once the handler has run; the result, and the store.
async fn cut_off(policy: Unconfirmed, act: Act) -> (Result<Outcome<String>, ErrorKind>, Store) {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let timeout = Duration::from_millis(300);
    let builder = store.builder(&link).request_timeout(timeout);
    let builder = builder.policy(|default| default.unconfirmed(policy).completion_timeout(timeout));
    let idempotency = builder.build().unwrap();
    let operation = idempotency.charging();
    let result = operation
        .run_with_outcome(async |_| {
            link.wire.down(act.clone());
            Ok::<_, String>(format!("run {}", runs.add()))
        })
        .await;
    assert_eq!((runs.count(), link.wire.count("UpdateItem")), (1, 0));
    assert!(link.wire.count("PutItem") > 3, "it is tried again: {:?}", link.wire.requests());
    (result.map_err(|error| kind::<(), _>(Err(error))), store)
}

#[tokio::test]
async fn an_answer_that_cannot_be_confirmed_goes_out_and_its_key_stays_locked() {
    for act in [Act::LoseRequest, Act::SERVER_ERROR, Act::THROTTLE] {
        let (result, store) = cut_off(Unconfirmed::Answer, act).await;
        assert_eq!(result, Ok(Outcome::Unconfirmed("run 1".to_owned())));
        assert_eq!(status(&store.record("charge#k").await), "PENDING");
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_confirmed_is_an_error_by_choice() {
    let (result, store) = cut_off(Unconfirmed::Error, Act::LoseRequest).await;
    assert_eq!(result, Err(ErrorKind::OutcomeUnknown));
    assert_eq!(status(&store.record("charge#k").await), "PENDING");
}

/// Takes about a second and a half: what a caller with a deadline has left.
#[tokio::test]
async fn an_unconfirmed_answer_goes_out_before_the_deadline() {
    let (store, link) = (Store::open().await, Link::default());
    let minute = Duration::from_secs(60);
    let idempotency = store.by(&link, |policy| policy.completion_timeout(minute));
    let deadline = link.clock.in_secs(2);
    let operation = idempotency.charging().deadline(deadline);
    let outcome = operation.run_with_outcome(async |_| {
        link.wire.down(Act::LoseRequest);
        Ok::<_, String>(())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Unconfirmed(()));
    assert!(link.clock.in_secs(0) < deadline, "the caller can still answer");
}

#[tokio::test]
async fn an_unconfirmed_completion_that_did_arrive_is_replayed() {
    let (result, store) = cut_off(Unconfirmed::Answer, Act::LoseResponse).await;
    assert_eq!(result, Ok(Outcome::Unconfirmed("run 1".to_owned())));
    let (idempotency, runs) = (store.idempotency(), Runs::default());
    let repeat = charge(idempotency.charging(), &runs).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("run 1".to_owned()));
}

#[tokio::test]
async fn a_lost_release_response_leaves_the_key_free() {
    for link in [Link::default(), Link::without_retries()] {
        for act in [Act::LoseResponse, Act::LoseRequest, Act::SERVER_ERROR, Act::THROTTLE] {
            let (store, runs) = (Store::open().await, Runs::default());
            link.wire.next("UpdateItem", act);
            let idempotency = store.over(&link);
            handlers(decline(idempotency.charging(), &runs).await);
            assert!(store.is_released("charge#k").await);
        }
    }
}

#[tokio::test]
async fn a_lost_response_to_a_kept_failure_counts_it_once() {
    for link in [Link::default(), Link::without_retries()] {
        let (store, runs) = (Store::open().await, Runs::default());
        let idempotency = store.over(&link);
        let retain = Failure::Retain { max_attempts: 2 };
        let operation = || idempotency.charging_by(|policy| policy.failure(retain));
        link.wire.next("UpdateItem", Act::LoseResponse);
        handlers(decline(operation(), &runs).await);
        let record = store.record("charge#k").await;
        assert_eq!((status(&record), number(&record, "attempt")), ("FAILED", 1));
        assert_eq!(charge(operation(), &runs).await.unwrap(), executed(2, 2));
    }
}
