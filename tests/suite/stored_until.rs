//! Until when an answer is stored: what a caller gets is the `expires_at` in the table.

use std::convert::Infallible;
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dynamodb_idempotency::policy::{Completed, Lease, Outage};
use dynamodb_idempotency::{Call, Execution, Outcome, Reconciled, RunError, Transaction};

use crate::support::effects::count;
use crate::support::raw::{self, number};
use crate::support::{Act, Charging, Gate, Link, Store, caller_on};

type Answered = (Outcome<String>, Option<SystemTime>);

const AN_HOUR: i64 = 3600;

/// When the record expires.
async fn expiry(store: &Store) -> Option<SystemTime> {
    let seconds = number(&store.record("charge#k").await, "expires_at");
    Some(UNIX_EPOCH + Duration::from_secs(seconds.try_into().unwrap()))
}

async fn run(call: Call) -> Answered {
    call.run_with_expiry(async |_| Ok::<_, Infallible>("paid".to_owned())).await.unwrap()
}

async fn commit(call: Call, table: &str) -> Answered {
    let committing = async |execution: Execution| {
        execution.commit("paid", [count(table, "effect")]).await?;
        Ok::<_, dynamodb_idempotency::Error>(String::new())
    };
    call.run_with_expiry(committing).await.unwrap()
}

fn paid(outcome: fn(String) -> Outcome<String>) -> Outcome<String> {
    outcome("paid".to_owned())
}

fn nothing<E: Debug>(answered: Result<Answered, RunError<E>>) -> Outcome<String> {
    let (outcome, until) = answered.unwrap();
    assert_eq!(until, None, "{outcome:?}");
    outcome
}

/// A response that is lost makes the call find its own write.
#[tokio::test]
async fn of_a_new_answer_and_of_its_replay_it_is_that_of_the_record() {
    for act in [Act::Deliver, Act::LoseResponse, Act::LoseRequest, Act::THROTTLE] {
        for has_cache in [false, true] {
            let (store, link) = (Store::open().await, Link::without_retries());
            let builder = store.builder(&link);
            let builder = if has_cache { builder.local_cache(1 << 20) } else { builder };
            let idempotency = builder.build().unwrap();
            let call = || idempotency.charging();
            link.wire.next("PutItem", Act::Deliver);
            link.wire.next("PutItem", act.clone());
            let first = run(call()).await;
            assert_eq!(first, (paid(Outcome::Executed), expiry(&store).await), "{act:?}");
            link.wire.forget();
            // The second replay can be from the cache only.
            for _ in 0..2 {
                let replay = run(call()).await;
                assert_eq!(replay, (paid(Outcome::Replayed), expiry(&store).await), "{act:?}");
            }
            assert_eq!(link.wire.requests().is_empty(), has_cache, "{act:?}");
        }
    }
}

#[tokio::test]
async fn of_an_answer_that_another_process_stored_it_is_the_same_from_the_cache() {
    let store = Store::open().await;
    run(store.idempotency().charging()).await;
    let link = Link::default();
    let idempotency = store.builder(&link).local_cache(1 << 20).build().unwrap();
    for _ in 0..2 {
        let replay = run(idempotency.charging()).await;
        assert_eq!(replay, (paid(Outcome::Replayed), expiry(&store).await));
    }
    assert_eq!(link.wire.requests().len(), 1);
}

#[tokio::test]
async fn of_a_commit_and_a_transaction_it_is_that_of_the_record() {
    for act in [Act::Deliver, Act::LoseResponse, Act::LoseRequest] {
        for commits in [true, false] {
            let (store, link, _, idempotency) = caller_on(Link::without_retries()).await;
            let call = || idempotency.charging();
            link.wire.next("TransactWriteItems", act.clone());
            let answered = async || {
                if commits {
                    return commit(call(), store.table()).await;
                }
                let transaction = Transaction::new("paid".to_owned());
                let build =
                    async || Ok::<_, Infallible>(transaction.item(count(store.table(), "effect")));
                call().run_transaction_with_expiry(build).await.unwrap()
            };
            let first = answered().await;
            assert_eq!(first, (paid(Outcome::Executed), expiry(&store).await), "{act:?}");
            let replay = answered().await;
            assert_eq!(replay, (paid(Outcome::Replayed), expiry(&store).await), "{act:?}");
        }
    }
}

#[tokio::test]
async fn of_a_commit_whose_future_was_dropped_it_is_that_of_the_record() {
    let (store, link, gate) = (Store::open().await, Link::default(), Gate::default());
    link.wire.next("TransactWriteItems", Act::HoldResponse(gate.clone()));
    let answered = store.over(&link).charging().run_with_expiry(async |execution| {
        tokio::select! {
            biased;
            committed = execution.commit("paid", [count(store.table(), "effect")]) => {
                panic!("too early: {committed:?}")
            }
            () = gate.reached() => {}
        }
        Ok::<_, Infallible>(String::new())
    });
    let answered = answered.await.unwrap();
    assert_eq!(answered, (paid(Outcome::Executed), expiry(&store).await));
}

#[tokio::test]
async fn of_a_hooks_answer_it_is_that_of_the_record() {
    for act in [Act::Deliver, Act::LoseResponse] {
        for commits in [false, true] {
            let (store, link) = (Store::open().await, Link::without_retries());
            store.put(raw::abandoned("charge#k")).await;
            let call = store.over(&link).charging();
            let call = call.reconcile(async |_| {
                let answer = "paid".to_owned();
                let write = if commits { "TransactWriteItems" } else { "PutItem" };
                link.wire.next(write, act.clone());
                Ok::<_, Infallible>(if commits {
                    let items = vec![count(store.table(), "effect")];
                    Reconciled::Commit { answer, items }
                } else {
                    Reconciled::Completed(answer)
                })
            });
            let answered = call.run_with_expiry(async |_| Ok::<_, Infallible>(String::new()));
            let answered = answered.await.unwrap();
            let expected = (paid(Outcome::Reconciled), expiry(&store).await);
            assert_eq!(answered, expected, "{act:?} {commits}");
        }
    }
}

/// The machine was frozen and its clock set back, so the first write of the answer expires too early. A second
/// write corrects that.
#[tokio::test]
async fn of_a_record_whose_time_was_corrected_it_is_the_correct_one() {
    for is_known in [true, false] {
        let (store, link) = (Store::open().await, Link::without_retries());
        let seconds = Duration::from_secs;
        let builder = store.builder(&link).local_cache(1 << 20).policy(|policy| {
            let policy = policy.retention(seconds(200)).completion_timeout(seconds(1));
            policy.lease(Lease::Fixed(seconds(100)))
        });
        let idempotency = builder.build().unwrap();
        let call = || idempotency.charging();
        let answered = call().run_with_expiry(async |_| {
            link.freeze(70);
            link.clock.advance(-AN_HOUR);
            if !is_known {
                link.wire.every("UpdateItem", Act::LoseResponse);
            }
            Ok::<_, Infallible>("paid".to_owned())
        });
        let (outcome, until) = answered.await.unwrap();
        assert_eq!(outcome, paid(Outcome::Executed));
        assert!(link.wire.count("UpdateItem") > 0, "{is_known}");
        assert_eq!(until, expiry(&store).await.filter(|_| is_known));
        let replay = run(call()).await;
        assert_eq!(replay, (paid(Outcome::Replayed), expiry(&store).await), "{is_known}");
    }
}

#[tokio::test]
async fn of_an_answer_that_is_not_stored_there_is_none() {
    let (store, link, _, idempotency) = caller_on(Link::without_retries()).await;
    let call = |key: &str| idempotency.operation("charge").key(key).no_payload();
    let handler = async |_| Ok::<_, Infallible>("paid".to_owned());

    let discarded = call("a").run_with_expiry(async |execution| {
        execution.discard();
        Ok::<_, Infallible>("paid".to_owned())
    });
    assert_eq!(nothing(discarded.await), paid(Outcome::NothingExecuted));

    let releasing = idempotency.operation("charge").policy(|p| p.completed(Completed::Release));
    let released = releasing.unwrap().key("b").no_payload().run_with_expiry(handler).await;
    assert_eq!(nothing(released), paid(Outcome::Executed));

    let off = store.builder(&link).disabled().build().unwrap();
    let off = off.operation("charge").key("c").no_payload().run_with_expiry(handler).await;
    assert_eq!(nothing(off), paid(Outcome::Unprotected));

    let short = Duration::from_secs(1);
    let unconfirmed = idempotency.operation("charge").policy(|p| p.completion_timeout(short));
    let unconfirmed = unconfirmed.unwrap().key("d").no_payload().run_with_expiry(async |_| {
        link.wire.every("PutItem", Act::LoseResponse);
        Ok::<_, Infallible>("paid".to_owned())
    });
    assert_eq!(nothing(unconfirmed.await), paid(Outcome::Unconfirmed));

    let down = Link::without_retries();
    for action in ["PutItem", "GetItem", "UpdateItem"] {
        down.wire.every(action, Act::LoseRequest);
    }
    let open = store.builder(&down).request_timeout(short).policy(|p| p.outage(Outage::Open));
    let open = open.build().unwrap();
    let outage = open.operation("charge").key("e").no_payload().run_with_expiry(handler).await;
    assert_eq!(nothing(outage), paid(Outcome::Unprotected));

    let small = store.by(&Link::default(), |policy| policy.max_answer_bytes(1024));
    let large = small
        .operation("charge")
        .key("f")
        .no_payload()
        .run_with_expiry(async |_| Ok::<_, Infallible>("x".repeat(2000)));
    assert!(matches!(nothing(large.await), Outcome::Executed(_)));
}
