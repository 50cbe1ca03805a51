//! A process that keeps answers never gives out one that it has itself made void.

use std::convert::Infallible;

use dynamodb_idempotency::{Call, ErrorKind, Idempotency, Outcome, Transaction};

use crate::support::effects::count;
use crate::support::{
    Act, Charging, Gate, Link, Runs, Store, charge, executed, kind, raw, replayed,
};

fn keeping(store: &Store, link: &Link) -> Idempotency {
    store.builder(link).local_cache(1 << 20).build().unwrap()
}

fn on(idempotency: &Idempotency) -> Call {
    idempotency.charging()
}

/// Another request under the same key. It runs once an operator has released the key.
fn other(idempotency: &Idempotency) -> Call {
    idempotency.operation("charge").key("k").payload("another")
}

/// An operator releases the key by another process.
async fn release_by_hand(store: &Store) {
    let released = raw::with(store.record("charge#k").await, "status", raw::s("RELEASED"));
    let mut released = raw::with(released, "owner", raw::s(raw::ANOTHER));
    released.remove("response");
    store.put(released).await;
}

#[tokio::test]
async fn an_answer_is_forgotten_when_its_key_is_used_for_another_request() {
    let (store, runs) = (Store::open().await, Runs::default());
    let process = keeping(&store, &Link::default());
    assert_eq!(charge(on(&process), &runs).await.unwrap(), executed(1, 1));
    assert_eq!(charge(on(&process), &runs).await.unwrap(), replayed(1, 1));
    release_by_hand(&store).await;
    assert_eq!(charge(other(&process), &runs).await.unwrap(), executed(2, 2));
    assert_eq!(kind(charge(on(&process), &runs).await), ErrorKind::Mismatch);
}

#[tokio::test]
async fn an_answer_is_forgotten_when_a_transaction_takes_its_place() {
    let (store, runs) = (Store::open().await, Runs::default());
    let process = keeping(&store, &Link::default());
    assert_eq!(charge(on(&process), &runs).await.unwrap(), executed(1, 1));
    release_by_hand(&store).await;
    let transaction = other(&process).run_transaction_with_outcome(async || {
        let transaction = Transaction::new("second".to_owned());
        Ok::<_, Infallible>(transaction.items([count(store.table(), "effect")]))
    });
    assert_eq!(transaction.await.unwrap(), Outcome::Executed("second".to_owned()));
    assert_eq!(kind(charge(on(&process), &runs).await), ErrorKind::Mismatch);
}

/// Before its end is known.
#[tokio::test]
async fn an_answer_is_forgotten_as_soon_as_its_key_is_acquired_again() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let process = keeping(&store, &link);
    charge(on(&process), &runs).await.unwrap();
    release_by_hand(&store).await;
    let failing = other(&process).run(async |_| {
        assert_eq!(kind(charge(on(&process), &runs).await), ErrorKind::Mismatch);
        Err::<String, _>("it fails")
    });
    failing.await.unwrap_err();
    assert_eq!(charge(on(&process), &runs).await.unwrap(), executed(2, 3));
}

/// A delayed read does not put an answer back into the cache after another call of the process has
/// replaced it: by a replay, a transaction or a completion.
#[tokio::test]
async fn what_is_void_when_it_is_heard_is_not_kept() {
    for slow in ["replay", "transaction", "completion"] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let (process, gate) = (keeping(&store, &link), Gate::default());
        let held = || Act::HoldResponse(gate.clone());
        if slow == "completion" {
            link.wire.next("PutItem", Act::Deliver);
        } else {
            charge(on(&store.idempotency()), &runs).await.unwrap();
        }
        link.wire
            .next(if slow == "transaction" { "TransactWriteItems" } else { "PutItem" }, held());
        let hearing = async {
            if slow == "transaction" {
                let nothing = async || Ok::<_, Infallible>(Transaction::new("none".to_owned()));
                on(&process).run_transaction(nothing).await.unwrap()
            } else {
                charge(on(&process), &runs).await.unwrap().into_inner()
            }
        };
        let (heard, ()) = tokio::join!(hearing, async {
            gate.reached().await;
            release_by_hand(&store).await;
            assert_eq!(charge(other(&process), &runs).await.unwrap(), executed(2, 2), "{slow}");
            gate.open();
        });
        assert_eq!(heard, "run 1, attempt 1", "{slow}");
        assert_eq!(kind(charge(on(&process), &runs).await), ErrorKind::Mismatch, "{slow}");
    }
}

#[tokio::test]
async fn an_answer_is_given_to_no_other_request_type_or_scope() {
    let (store, runs) = (Store::open().await, Runs::default());
    let builder = store.builder(&Link::default()).local_cache(1 << 20);
    let idempotency = builder.build().unwrap();
    let operation = || idempotency.operation("charge").key("k").payload("one");
    charge(operation(), &runs).await.unwrap();
    assert_eq!(charge(operation(), &runs).await.unwrap(), replayed(1, 1));
    let other = idempotency.operation("charge").key("k").payload("two");
    assert_eq!(kind(charge(other, &runs).await), ErrorKind::Mismatch);
    let typed = operation().run(async |_| Ok::<u64, Infallible>(7)).await;
    assert_eq!(kind(typed), ErrorKind::AnswerUnreadable);
    let tenants = idempotency.operation("charge").segment("t").key("k").payload("one");
    assert_eq!(charge(tenants, &runs).await.unwrap(), executed(2, 1));
}
