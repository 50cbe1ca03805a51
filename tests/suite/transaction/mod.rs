//! A whole operation as one transaction: it happens once, with its answer, in one round trip.

mod bad_input;
mod conditions;
mod given_up;
mod records;

use dynamodb_idempotency::{Call, ErrorKind, Outcome, RunError, Transaction};
use futures::future::join_all;

use crate::support::effects::count;
use crate::support::raw::{number, status};
use crate::support::{Act, Charging, Declined, Link, Runs, Store, caller_on, charge, kind};

type Transferred = Result<Outcome<String>, RunError<Declined>>;

/// Counts the row `effect`; the answer contains the number of the call.
async fn transfer(operation: Call, table: &str, runs: &Runs) -> Transferred {
    operation
        .run_transaction_with_outcome(async || {
            let answer = format!("run {}", runs.add());
            Ok(Transaction::new(answer).items([count(table, "effect")]))
        })
        .await
}

fn ran(run: u32) -> Outcome<String> {
    Outcome::Executed(format!("run {run}"))
}

#[tokio::test]
async fn it_takes_one_round_trip_and_its_repeat_one() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    let transfers = || idempotency.calling("transfers");
    assert_eq!(transfer(transfers(), store.table(), &runs).await.unwrap(), ran(1));
    assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
    let record = store.record("transfers#k").await;
    assert_eq!((status(&record), number(&record, "attempt")), ("COMPLETED", 1));
    link.wire.forget();
    let repeat = transfer(transfers(), store.table(), &runs).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("run 1".to_owned()));
    assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
    assert_eq!(store.counted("effect").await, 1);
    // And `run` knows it as well.
    let runs = Runs::default();
    let repeat = charge(transfers(), &runs).await.unwrap();
    assert_eq!((repeat, runs.count()), (Outcome::Replayed("run 1".to_owned()), 0));
}

#[tokio::test]
async fn of_many_at_once_one_happens_and_all_get_its_answer() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.builder(&Link::default()).build().unwrap();
    let callers = (0..32).map(|_| transfer(idempotency.calling("transfers"), store.table(), &runs));
    let outcomes: Vec<_> = join_all(callers).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|outcome| !outcome.is_replayed()).count(), 1);
    let first = outcomes[0].clone().into_inner();
    assert!(outcomes.into_iter().all(|outcome| outcome.into_inner() == first));
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn another_request_under_the_key_is_refused() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    let transfers = |amount: u32| idempotency.operation("transfers").key("k").payload(&amount);
    transfer(transfers(1), store.table(), &runs).await.unwrap();
    link.wire.forget();
    assert_eq!(kind(transfer(transfers(2), store.table(), &runs).await), ErrorKind::Mismatch);
    assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn a_lost_response_applies_it_once() {
    for link in [Link::default(), Link::without_retries()] {
        for act in [
            Act::LoseResponse,
            Act::LoseRequest,
            Act::SERVER_ERROR,
            Act::THROTTLE,
            Act::Answer(400, "TransactionInProgressException"),
            Act::Cancel(&["None", "TransactionConflict"]),
            Act::Cancel(&["TransactionConflict", "ConditionalCheckFailed"]),
        ] {
            let (store, runs) = (Store::open().await, Runs::default());
            link.wire.next("TransactWriteItems", act);
            let idempotency = store.over(&link);
            let transfers = || idempotency.calling("transfers");
            assert_eq!(transfer(transfers(), store.table(), &runs).await.unwrap(), ran(1));
            assert_eq!(store.counted("effect").await, 1);
            assert_eq!(link.wire.requests(), ["TransactWriteItems", "TransactWriteItems"]);
            link.wire.forget();
        }
    }
}

/// DynamoDB forgets the token after ten minutes.
#[tokio::test]
async fn one_whose_token_is_forgotten_recognises_itself() {
    let (store, link, runs, idempotency) = caller_on(Link::without_retries()).await;
    link.wire.next("TransactWriteItems", Act::LoseResponse);
    let used = Act::Answer(400, "IdempotentParameterMismatchException");
    link.wire.next("TransactWriteItems", used);
    let outcome = transfer(idempotency.calling("transfers"), store.table(), &runs).await;
    assert_eq!(outcome.unwrap(), ran(1));
    assert_eq!(store.counted("effect").await, 1);
}
