//! What is committed happens with its answer, once, while the execution owns its record.

mod after;
mod bad_input;
mod conditions;
mod owners;

use dynamodb_idempotency::{Call, Error, Execution, Outcome, RunError};

use crate::support::effects::count;
use crate::support::raw::{number, status};
use crate::support::{Act, Charging, Link, Runs, Store, caller_on, executed, replayed};

type Booked = Result<Outcome<String>, RunError<Error>>;

/// Runs an operation whose handler counts the row `effect` by a commit, and answers with it.
async fn book(operation: Call, table: &str, runs: &Runs) -> Booked {
    operation.run_with_outcome(async |execution| book_in(&execution, table, runs).await).await
}

async fn book_in(execution: &Execution, table: &str, runs: &Runs) -> Result<String, Error> {
    let answer = format!("run {}, attempt {}", runs.add(), execution.attempt());
    execution.commit(&answer, [count(table, "effect")]).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_run_with_a_commit_takes_two_round_trips_and_its_repeat_one() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    assert_eq!(book(idempotency.charging(), store.table(), &runs).await.unwrap(), executed(1, 1));
    assert_eq!(link.wire.requests(), ["PutItem", "TransactWriteItems"]);
    let record = store.record("charge#k").await;
    assert_eq!((status(&record), number(&record, "attempt")), ("COMPLETED", 1));
    assert!(!record.contains_key("lease_expires_at"));
    link.wire.forget();
    assert_eq!(book(idempotency.charging(), store.table(), &runs).await.unwrap(), replayed(1, 1));
    assert_eq!(link.wire.requests(), ["PutItem"]);
    assert_eq!((runs.count(), store.counted("effect").await), (1, 1));
}

#[tokio::test]
async fn a_commit_without_items_stores_the_answer() {
    let store = Store::open().await;
    let outcome = store.idempotency().charging().run_with_outcome(async |execution| {
        execution.commit(&1, []).await?;
        Ok::<_, Error>(2)
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Executed(1));
    assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
}

#[tokio::test]
async fn a_lost_response_to_a_commit_applies_it_once() {
    for link in [Link::default(), Link::without_retries()] {
        for act in [
            Act::LoseResponse,
            Act::LoseRequest,
            Act::SERVER_ERROR,
            Act::THROTTLE,
            Act::Answer(400, "TransactionInProgressException"),
        ] {
            let (store, runs) = (Store::open().await, Runs::default());
            link.wire.next("TransactWriteItems", act);
            let outcome = book(store.over(&link).charging(), store.table(), &runs);
            assert_eq!(outcome.await.unwrap(), executed(1, 1));
            assert_eq!(store.counted("effect").await, 1);
            assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
            let requests = link.wire.requests();
            assert_eq!(requests, ["PutItem", "TransactWriteItems", "TransactWriteItems"]);
            link.wire.forget();
        }
    }
}

/// After ten minutes DynamoDB forgets the token, and the record's condition detects the repeat.
#[tokio::test]
async fn a_commit_whose_token_is_forgotten_recognises_itself() {
    let (store, link, runs, idempotency) = caller_on(Link::without_retries()).await;
    link.wire.next("TransactWriteItems", Act::LoseResponse);
    // The next try uses a new token.
    let used = Act::Answer(400, "IdempotentParameterMismatchException");
    link.wire.next("TransactWriteItems", used);
    assert_eq!(book(idempotency.charging(), store.table(), &runs).await.unwrap(), executed(1, 1));
    assert_eq!((link.wire.count("TransactWriteItems"), store.counted("effect").await), (3, 1));
}

#[tokio::test]
async fn a_conflict_is_tried_again() {
    for reasons in [
        &["None", "TransactionConflict"],
        &["TransactionConflict", "None"],
        // The record's part was not judged, so the other's condition says nothing yet.
        &["TransactionConflict", "ConditionalCheckFailed"],
        &["None", "ThrottlingError"],
        &["None", "ProvisionedThroughputExceeded"],
    ] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        link.wire.next("TransactWriteItems", Act::Cancel(reasons));
        link.wire.next("TransactWriteItems", Act::Cancel(reasons));
        let outcome = book(store.over(&link).charging(), store.table(), &runs).await;
        assert_eq!(outcome.unwrap(), executed(1, 1));
        assert_eq!((link.wire.count("TransactWriteItems"), store.counted("effect").await), (3, 1));
    }
}
