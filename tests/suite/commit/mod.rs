//! What is committed happens with its answer, once, while the execution owns its record.

use std::panic::AssertUnwindSafe;

use dynamodb_idempotency::policy::{Failure, Lease, Outage};
use dynamodb_idempotency::{
    Call, Error, ErrorKind, Execution, MAX_TRANSACTION_ITEMS, Outcome, RunError,
};
use futures::FutureExt;

use crate::faq::invalid;
use crate::support::effects::{check, count, credit, debit, delete, put, row};
use crate::support::raw::{self, number, status};
use crate::support::{
    Act, Declined, Gate, Link, Runs, Store, charge, commit_kind, decline, executed, handlers,
    in_record, kind, replayed,
};

/// By when every lease of a present owner is over.
const AN_HOUR: i64 = 3600;

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
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let first = book(idempotency.operation("charge").key("k"), store.table(), &runs).await;
    assert_eq!(first.unwrap(), executed(1, 1));
    assert_eq!(link.wire.requests(), ["PutItem", "TransactWriteItems"]);
    let record = store.record("charge#k").await;
    assert_eq!((status(&record), number(&record, "attempt")), ("COMPLETED", 1));
    assert!(!record.contains_key("lease_expires_at"));
    link.wire.forget();
    let repeat = book(idempotency.operation("charge").key("k"), store.table(), &runs).await;
    assert_eq!(repeat.unwrap(), replayed(1, 1));
    assert_eq!(link.wire.requests(), ["PutItem"]);
    assert_eq!((runs.count(), store.counted("effect").await), (1, 1));
}

#[tokio::test]
async fn a_commit_without_items_stores_the_answer() {
    let store = Store::open().await;
    let idempotency = store.idempotency();
    let outcome = idempotency.operation("charge").key("k").run_with_outcome(async |execution| {
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
            let idempotency = store.over(&link);
            let outcome = book(idempotency.operation("charge").key("k"), store.table(), &runs);
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
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    link.wire.next("TransactWriteItems", Act::LoseResponse);
    // The next try uses a new token.
    let used = Act::Answer(400, "IdempotentParameterMismatchException");
    link.wire.next("TransactWriteItems", used);
    let idempotency = store.over(&link);
    let outcome = book(idempotency.operation("charge").key("k"), store.table(), &runs).await;
    assert_eq!(outcome.unwrap(), executed(1, 1));
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
        let idempotency = store.over(&link);
        let outcome = book(idempotency.operation("charge").key("k"), store.table(), &runs).await;
        assert_eq!(outcome.unwrap(), executed(1, 1));
        assert_eq!((link.wire.count("TransactWriteItems"), store.counted("effect").await), (3, 1));
    }
}

#[tokio::test]
async fn an_owner_that_was_taken_over_never_commits_and_gets_the_new_owners_answer() {
    let (store, gate, runs) = (Store::open().await, Gate::default(), Runs::default());
    let (owner, taker) = (store.idempotency(), store.over(&Link::later(AN_HOUR)));
    let first = owner.operation("charge").key("k").run_with_outcome(async |execution| {
        gate.pass().await;
        let result = book_in(&execution, store.table(), &runs).await;
        assert_eq!(commit_kind(&result), ErrorKind::LeaseLost);
        // Neither another try nor another commit gets through.
        let again = execution.commit("again", [count(store.table(), "effect")]).await;
        assert_eq!(commit_kind(&again), ErrorKind::LeaseLost);
        result
    });
    let (first, before) = tokio::join!(first, async {
        gate.reached().await;
        let second = book(taker.operation("charge").key("k"), store.table(), &runs).await;
        assert_eq!(second.unwrap(), executed(1, 2));
        let before = store.record("charge#k").await;
        gate.open();
        before
    });
    assert_eq!(first.unwrap(), replayed(1, 2));
    assert_eq!(store.record("charge#k").await, before);
    assert_eq!(store.counted("effect").await, 1);
}

/// The new owner leaves its own record, a retained failure, no record, or one of another request.
#[tokio::test]
async fn an_owner_that_lost_its_record_never_commits() {
    for case in ["runs", "failed", "released", "another request", "no record of ours"] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let idempotency = store.over(&link);
        let theirs = match case {
            "runs" => Some(raw::pending("charge#k")),
            "failed" => Some(raw::failed("charge#k")),
            "released" => None,
            "another request" => Some(raw::with(
                raw::completed("charge#k", "\"theirs\""),
                "fingerprint",
                aws_sdk_dynamodb::types::AttributeValue::B(vec![1; 32].into()),
            )),
            _ => Some(row("charge#k", "something else")),
        };
        let result = idempotency.operation("charge").key("k").run(async |execution| {
            match theirs.clone() {
                Some(item) => store.put(item).await,
                None => store.delete("charge#k").await,
            }
            book_in(&execution, store.table(), &runs).await
        });
        assert_eq!(kind(result.await), ErrorKind::LeaseLost, "{case}");
        assert_eq!(store.item("charge#k").await, theirs, "{case}");
        assert_eq!(store.counted("effect").await, 0, "{case}");
        assert_eq!(link.wire.count("UpdateItem"), 0, "{case}");
    }
}

#[tokio::test]
async fn an_owner_whose_lease_is_merely_over_commits() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let fixed = Lease::Fixed(std::time::Duration::from_secs(10));
    let goes_on = dynamodb_idempotency::policy::LeaseExpired::Continue;
    let operation = idempotency
        .operation("charge")
        .policy(|policy| policy.lease(fixed).lease_expired(goes_on))
        .unwrap()
        .key("k");
    let outcome = operation.run_with_outcome(async |execution| {
        link.let_pass(AN_HOUR);
        assert!(execution.lease_remaining().is_zero());
        book_in(&execution, store.table(), &runs).await
    });
    assert_eq!(outcome.await.unwrap(), executed(1, 1));
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn a_failed_condition_comes_with_its_item_and_leaves_the_record_owned() {
    let store = Store::open().await;
    let (idempotency, table) = (store.idempotency(), store.table());
    store.deposit("alice", 3).await;
    let outcome = idempotency.operation("charge").key("k").run_with_outcome(async |execution| {
        let items =
            [count(table, "effect"), debit(table, "alice", 5), check(table, "missing account")];
        let result = execution.commit("paid", items).await;
        assert_eq!(commit_kind(&result), ErrorKind::ConditionFailed);
        let error = result.unwrap_err();
        let failed = error.condition_failed().expect("the condition");
        assert_eq!(failed.index(), 1);
        assert_eq!(number(failed.item().unwrap(), "count"), 3);
        let all: Vec<_> = failed.all().map(|(index, item)| (index, item.is_some())).collect();
        assert_eq!(all, [(1, true), (2, false)]);
        assert_eq!(status(&store.record("charge#k").await), "PENDING");
        Ok::<_, Error>("insufficient funds".to_owned())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Executed("insufficient funds".to_owned()));
    assert_eq!((store.counted("effect").await, store.counted("alice").await), (0, 3));
    let runs = Runs::default();
    let repeat = charge(idempotency.operation("charge").key("k"), &runs).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("insufficient funds".to_owned()));
}

#[tokio::test]
async fn another_commit_may_follow_one_whose_condition_failed() {
    let (store, link) = (Store::open().await, Link::default());
    let (idempotency, table) = (store.over(&link), store.table());
    store.deposit("alice", 3).await;
    let outcome = idempotency.operation("charge").key("k").run_with_outcome(async |execution| {
        let first = execution.commit("5", [debit(table, "alice", 5)]).await;
        assert_eq!(commit_kind(&first), ErrorKind::ConditionFailed);
        execution.commit("3", [debit(table, "alice", 3)]).await?;
        Ok::<_, Error>(String::new())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::Executed("3".to_owned()));
    assert_eq!(store.counted("alice").await, 0);
    assert_eq!(link.wire.requests(), ["PutItem", "TransactWriteItems", "TransactWriteItems"]);
}

#[tokio::test]
async fn a_failed_condition_that_the_handler_fails_with_frees_the_key() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    let result = idempotency.operation("charge").key("k").run(async |execution| {
        execution.commit("paid", [debit(store.table(), "alice", 5)]).await?;
        Ok::<_, Error>(String::new())
    });
    assert_eq!(handlers(result.await).kind(), ErrorKind::ConditionFailed);
    assert!(store.is_released("charge#k").await);
    let next = book(idempotency.operation("charge").key("k"), store.table(), &runs).await;
    assert_eq!(next.unwrap(), executed(1, 2));
}

/// A handler's end after its commit.
#[derive(Clone, Copy, Debug)]
enum End {
    Other,
    Err,
    NothingExecuted,
}

#[tokio::test]
async fn the_committed_answer_stands_whatever_the_handler_returns() {
    for failure in [Failure::Release, Failure::Retain { max_attempts: 3 }, Failure::Replay] {
        for end in [End::Other, End::Err, End::NothingExecuted] {
            let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
            let idempotency = store.over(&link);
            let operation =
                || idempotency.operation("charge").policy(|p| p.failure(failure)).unwrap().key("k");
            let outcome = operation().run_with_outcome(async |execution| {
                book_in(&execution, store.table(), &runs).await.unwrap();
                match end {
                    End::Other => Ok("another".to_owned()),
                    End::Err => Err(Declined { run: 1 }),
                    End::NothingExecuted => {
                        execution.discard();
                        Ok("nothing".to_owned())
                    }
                }
            });
            assert_eq!(outcome.await.unwrap(), executed(1, 1), "{end:?}");
            assert_eq!(link.wire.requests(), ["PutItem", "TransactWriteItems"], "{end:?}");
            assert_eq!(charge(operation(), &runs).await.unwrap(), replayed(1, 1), "{end:?}");
            assert_eq!(store.counted("effect").await, 1);
        }
    }
}

#[tokio::test]
async fn a_panic_after_the_commit_goes_on_and_the_answer_stands() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let running = idempotency.operation("charge").key("k").run(async |execution| {
        book_in(&execution, store.table(), &runs).await?;
        assert!(runs.count() == 0, "after the commit");
        Ok::<_, Error>(String::new())
    });
    let panic = AssertUnwindSafe(running).catch_unwind().await.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"after the commit"));
    assert_eq!(link.wire.requests(), ["PutItem", "TransactWriteItems"]);
    let repeat = charge(idempotency.operation("charge").key("k"), &runs).await.unwrap();
    assert_eq!(repeat, replayed(1, 1));
}

#[tokio::test]
async fn a_second_commit_is_an_error() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let outcome = idempotency.operation("charge").key("k").run_with_outcome(async |execution| {
        let answer = book_in(&execution, store.table(), &runs).await?;
        let again = book_in(&execution, store.table(), &runs).await;
        assert_eq!(commit_kind(&again), ErrorKind::AlreadyCommitted);
        Ok::<_, Error>(answer)
    });
    assert_eq!(outcome.await.unwrap(), executed(1, 1));
    assert_eq!((link.wire.count("TransactWriteItems"), store.counted("effect").await), (1, 1));
}

#[tokio::test]
async fn of_two_commits_at_once_one_is_an_error() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let outcome = idempotency.operation("charge").key("k").run_with_outcome(async |execution| {
        let clone = execution.clone();
        let (one, other) = tokio::join!(
            book_in(&execution, store.table(), &runs),
            book_in(&clone, store.table(), &runs)
        );
        assert_eq!(commit_kind(&other), ErrorKind::AlreadyCommitted);
        one
    });
    assert_eq!(outcome.await.unwrap(), executed(1, 1));
    assert_eq!((link.wire.count("TransactWriteItems"), store.counted("effect").await), (1, 1));
}

#[tokio::test]
async fn a_commit_after_the_handler_has_returned_is_an_error() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let mut kept = None;
    let answer = idempotency.operation("charge").key("k").run(async |execution| {
        kept = Some(execution);
        Ok::<_, Error>("answered".to_owned())
    });
    assert_eq!(answer.await.unwrap(), "answered");
    let late = book_in(&kept.unwrap(), store.table(), &runs).await;
    assert_eq!(commit_kind(&late), ErrorKind::InvalidUse);
    assert_eq!((link.wire.count("TransactWriteItems"), store.counted("effect").await), (0, 0));
}

/// Takes a second: until the first renewal.
#[tokio::test]
async fn a_renewal_that_meets_the_commit_has_lost_nothing() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let lease = Lease::Renewed(std::time::Duration::from_secs(3));
    let operation =
        idempotency.operation("charge").policy(|policy| policy.lease(lease)).unwrap().key("k");
    let gate = Gate::default();
    link.wire.next("UpdateItem", Act::HoldResponse(gate.clone()));
    let outcome = operation.run_with_outcome(async |execution| {
        let answer = book_in(&execution, store.table(), &runs).await?;
        gate.reached().await;
        gate.open();
        // Its answer reaches the owner meanwhile.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert!(!execution.is_lease_lost());
        Ok::<_, Error>(answer)
    });
    assert_eq!(outcome.await.unwrap(), executed(1, 1));
    assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    let (store, link) = (Store::open().await, Link::default());
    let (idempotency, table) = (store.over(&link), store.table().to_owned());
    let big = put(&table, row("a", &"x".repeat(400 * 1024)));
    let arn = format!("arn:aws:dynamodb:us-east-1:000000000000:table/{table}");
    let many = |number: usize| (0..number).map(|i| count(&table, &format!("row{i}"))).collect();
    let own = || raw::key("charge#k");
    let none = aws_sdk_dynamodb::types::TransactWriteItem::builder().build();
    let mut two = count(&table, "a");
    two.delete = delete(&table, "b").delete;
    let cases: Vec<(&str, Vec<_>, &str)> = vec![
        ("a hundred", many(MAX_TRANSACTION_ITEMS + 1), "100 items are more than the 99 that fit"),
        (
            "no operation",
            vec![count(&table, "a"), none],
            "item 1 must be one put, update, delete or condition check",
        ),
        ("two operations", vec![two], "item 0 must be one put, update, delete or condition check"),
        (
            "one key twice",
            vec![count(&table, "a"), count(&table, "b"), delete(&table, "a")],
            "items 0 and 2 are about the same item of a table",
        ),
        (
            "one key twice, once by ARN",
            vec![count(&table, "a"), check(&arn, "a")],
            "items 0 and 1 are about the same item of a table",
        ),
        (
            "two puts on one key",
            vec![put(&table, row("a", "1")), put(&table, row("a", "2"))],
            "items 0 and 1 are about the same item of a table",
        ),
        (
            "two puts on one key of a table whose key another item names",
            vec![put("t", row("a", "1")), put("t", row("a", "2")), check("t", "b")],
            "items 0 and 1 are about the same item of a table",
        ),
        (
            "a put and a delete on one key",
            vec![put("t", row("a", "1")), delete("t", "a")],
            "items 0 and 1 are about the same item of a table",
        ),
        (
            "the own record",
            vec![count(&table, "a"), delete(&table, "charge#k")],
            "item 1 is about the operation's own record",
        ),
        (
            "the own record by ARN",
            vec![put(&arn, own())],
            "item 0 is about the operation's own record",
        ),
        ("an item over 400 KB", vec![big], "item 0 has 409607 bytes, more than DynamoDB's 400 KB"),
    ];
    for (case, items, expected) in cases {
        let result = idempotency.operation("charge").key("k").run(async |execution| {
            link.wire.forget();
            let result = execution.commit("paid", items).await;
            assert_eq!(link.wire.requests(), [""; 0], "{case}");
            result
        });
        assert_eq!(invalid(&handlers(result.await)), expected, "{case}");
    }
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_the_record_stays_owned() {
    let (store, link) = (Store::open().await, Link::default());
    let idempotency = store.builder(&link).policy(in_record).build().unwrap();
    let table = store.table();
    let big = |pk: &str| put(table, row(pk, &"x".repeat(380 * 1024)));
    let most = || (0..MAX_TRANSACTION_ITEMS).map(|i| count(table, &format!("row{i}")));
    let result = idempotency.operation("charge").key("k").run(async |execution| {
        let items: Vec<_> = (0..11).map(|i| big(&format!("row{i}"))).collect();
        let result = execution.commit("paid", items).await;
        let error = invalid(&result.unwrap_err());
        let bytes = error.strip_prefix("the items have ").and_then(|rest| {
            rest.strip_suffix(" bytes, more than DynamoDB's 4 MB")?.parse::<usize>().ok()
        });
        assert!(bytes.is_some_and(|bytes| bytes > 4 << 20), "{error}");
        let result = execution.commit(&"x".repeat(400 * 1024), []).await;
        let error = invalid(&result.unwrap_err());
        let bytes =
            error.strip_prefix("the answer, or the record with it, has ").and_then(|rest| {
                rest.split_once(" bytes of at most 409600: ")?.0.parse::<usize>().ok()
            });
        assert!(bytes.is_some_and(|bytes| bytes > 400 << 10), "{error}");
        let no_json = std::collections::HashMap::from([(vec![1], 1)]);
        let result = execution.commit(&no_json, []).await;
        let error = invalid(&result.unwrap_err());
        assert!(error.starts_with("the answer cannot be serialized: "), "{error}");
        assert_eq!(link.wire.requests(), ["PutItem"]);
        execution.commit("paid", most()).await?;
        Ok::<_, Error>(String::new())
    });
    assert_eq!(result.await.unwrap(), "paid");
    assert_eq!(store.counted("row98").await, 1);
}

#[tokio::test]
async fn what_only_dynamodb_can_refuse_is_an_error_of_the_items() {
    let (store, runs) = (Store::open().await, Runs::default());
    let (idempotency, table) = (store.idempotency(), store.table());
    let outcome = idempotency.operation("charge").key("k").run_with_outcome(async |execution| {
        let mut wrong = credit(table, "a", 1);
        wrong.update.as_mut().unwrap().update_expression = "ADD".to_owned();
        let result = execution.commit("paid", [wrong]).await;
        let error = invalid(&result.unwrap_err());
        assert!(error.starts_with("DynamoDB refuses the transaction: "), "{error}");
        let result = execution.commit("paid", [count("no-such-table", "a")]).await;
        assert_eq!(commit_kind(&result), ErrorKind::Configuration);
        book_in(&execution, table, &runs).await
    });
    assert_eq!(outcome.await.unwrap(), executed(1, 1));
    assert_eq!(store.counted("effect").await, 1);
}

/// DynamoDB does not say which table is missing.
#[tokio::test]
async fn a_missing_table_of_a_transaction_is_among_those_that_are_named() {
    let (store, runs) = (Store::open().await, Runs::default());
    let operation = store.idempotency();
    let operation = operation.operation("charge").key("k");
    let error = handlers(book(operation, "no-such-table", &runs).await).to_string();
    for table in [store.table(), "no-such-table"] {
        assert!(error.contains(&format!("`{table}`")), "{error}");
    }
}

#[tokio::test]
async fn a_missing_permission_is_reported_at_once() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    link.wire.next("TransactWriteItems", Act::Answer(400, "AccessDeniedException"));
    let result = book(idempotency.operation("charge").key("k"), store.table(), &runs).await;
    let error = handlers(result);
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("ConditionCheckItem"), "{error}");
    assert!(store.is_released("charge#k").await);
}

#[tokio::test]
async fn an_execution_without_a_record_commits_at_most_once() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let operation =
        || idempotency.operation("charge").policy(|p| p.outage(Outage::Open)).unwrap().key("k");
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        link.wire.down(Act::SERVER_ERROR);
        let outcome = operation().run_with_outcome(async |execution| {
            assert!(!execution.is_protected());
            link.wire.up();
            book_in(&execution, store.table(), &runs).await
        });
        outcomes.push(outcome.await.unwrap());
    }
    assert_eq!(outcomes, [executed(1, 0), replayed(1, 0)]);
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn an_execution_without_a_record_does_not_commit_beside_an_owner() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    link.wire.down(Act::SERVER_ERROR);
    let operation =
        idempotency.operation("charge").policy(|p| p.outage(Outage::Open)).unwrap().key("k");
    let result = operation.run(async |execution| {
        link.wire.up();
        store.put(raw::pending("charge#k")).await;
        book_in(&execution, store.table(), &runs).await
    });
    assert_eq!(kind(result.await), ErrorKind::LeaseLost);
    assert_eq!(store.counted("effect").await, 0);
}

#[tokio::test]
async fn a_failure_of_another_run_does_not_undo_a_commit() {
    let (store, gate, runs) = (Store::open().await, Gate::default(), Runs::default());
    let (owner, taker) = (store.idempotency(), store.over(&Link::later(AN_HOUR)));
    let first = owner.operation("charge").key("k").run_with_outcome(async |execution| {
        gate.pass().await;
        execution.commit("late", [count(store.table(), "effect")]).await?;
        Ok::<_, Error>(String::new())
    });
    let (first, ()) = tokio::join!(first, async {
        gate.reached().await;
        handlers(decline(taker.operation("charge").key("k"), &runs).await);
        gate.open();
    });
    // The taker has released the record: nothing fences the commit, so it does not land.
    assert_eq!(kind(first), ErrorKind::LeaseLost);
    assert_eq!(store.counted("effect").await, 0);
}
