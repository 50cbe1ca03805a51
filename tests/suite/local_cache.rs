//! A process that keeps answers never gives out one that it has itself made void.

use std::convert::Infallible;

use dynamodb_idempotency::policy::Completed;
use dynamodb_idempotency::{Call, ErrorKind, Idempotency, Outcome, Transaction};

use crate::support::effects::count;
use crate::support::{Act, Gate, Link, Runs, Store, charge, executed, kind, replayed};

fn keeping(store: &Store, link: &Link) -> Idempotency {
    store.builder(link).local_cache(1 << 20).build().unwrap()
}

fn on(idempotency: &Idempotency) -> Call {
    idempotency.operation("charge").key("k")
}

fn again(idempotency: &Idempotency) -> Call {
    let again = idempotency.operation("charge").policy(|p| p.completed(Completed::Execute));
    again.unwrap().key("k")
}

#[tokio::test]
async fn an_answer_is_forgotten_when_its_operation_runs_again() {
    let (store, runs) = (Store::open().await, Runs::default());
    let process = keeping(&store, &Link::default());
    assert_eq!(charge(on(&process), &runs).await.unwrap(), executed(1, 1));
    assert_eq!(charge(on(&process), &runs).await.unwrap(), replayed(1, 1));
    assert_eq!(charge(again(&process), &runs).await.unwrap(), executed(2, 2));
    assert_eq!(charge(on(&process), &runs).await.unwrap(), replayed(2, 2));
}

#[tokio::test]
async fn an_answer_is_forgotten_when_a_transaction_takes_its_place() {
    let (store, runs) = (Store::open().await, Runs::default());
    let process = keeping(&store, &Link::default());
    assert_eq!(charge(on(&process), &runs).await.unwrap(), executed(1, 1));
    let transaction = again(&process).run_transaction_with_outcome(async || {
        let transaction = Transaction::new("second".to_owned());
        Ok::<_, Infallible>(transaction.items([count(store.table(), "effect")]))
    });
    assert_eq!(transaction.await.unwrap(), Outcome::Executed("second".to_owned()));
    let repeat = charge(on(&process), &runs).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("second".to_owned()));
}

/// Before its end is known.
#[tokio::test]
async fn an_answer_is_forgotten_as_soon_as_its_operation_is_taken_over() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let process = keeping(&store, &link);
    charge(on(&process), &runs).await.unwrap();
    let failing = again(&process).run(async |_| {
        assert!(matches!(
            kind(charge(on(&process), &runs).await),
            dynamodb_idempotency::ErrorKind::InProgress { .. }
        ));
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
            assert_eq!(charge(again(&process), &runs).await.unwrap(), executed(2, 2), "{slow}");
            gate.open();
        });
        assert_eq!(heard, "run 1, attempt 1", "{slow}");
        assert_eq!(charge(on(&process), &runs).await.unwrap(), replayed(2, 2), "{slow}");
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
    assert_eq!(charge(again(&idempotency).payload("one"), &runs).await.unwrap(), executed(2, 2));
    assert_eq!(charge(operation(), &runs).await.unwrap(), replayed(2, 2));
    let tenants = idempotency.operation("charge").segment("t").key("k").payload("one");
    assert_eq!(charge(tenants, &runs).await.unwrap(), executed(3, 1));
}
