//! Answers in parts: where they are stored, what a failure between two parts leaves, and which calls can
//! still read them.

use std::convert::Infallible;
use std::time::Duration;

use dynamodb_idempotency::policy::{Compression, Failure, FirstRequest, LargeAnswers};
use dynamodb_idempotency::{
    Error, ErrorKind, Idempotency, Outcome, Policy, Reconciled, RunError, TableSchema, Transaction,
};

use crate::bodies::Kind;
use crate::sizes::{KIB, parts_of};
use crate::support::effects::count;
use crate::support::raw::{self, Item, number, status, text};
use crate::support::{Act, Charging, Gate, Link, Runs, Store, caller, caller_on, kind};

/// What takes three parts.
const LENGTH: usize = 90 * KIB;

/// What no record has room for.
const TOO_LARGE: usize = 700 * KIB;

const AN_HOUR: i64 = 3600;

/// So many letters that do not compress, another text for each number.
fn answer(number: u32, length: usize) -> String {
    let letters = Kind::Random.bytes(length + usize::try_from(number).unwrap());
    let letters = letters.into_iter().skip(usize::try_from(number).unwrap());
    letters.map(|byte| char::from(b'0' + byte % 64)).collect()
}

type Ran = Result<Outcome<String>, RunError<Infallible>>;

/// Runs an operation whose answer has three parts and contains the number of the run.
async fn run(idempotency: &Idempotency, runs: &Runs) -> Ran {
    run_for(idempotency, runs, LENGTH).await
}

async fn run_for(idempotency: &Idempotency, runs: &Runs, length: usize) -> Ran {
    let operation = idempotency.charging_by(|p| p.compression(Compression::Off));
    operation.run_with_outcome(async |_| Ok(answer(runs.add(), length))).await
}

/// All items of the table that are parts.
async fn parts(store: &Store) -> Vec<Item> {
    let scan = store.raw.scan().table_name(store.table()).consistent_read(true);
    let mut items = scan.into_paginator().items().send();
    let mut parts = Vec::new();
    while let Some(item) = items.next().await {
        let item = item.unwrap();
        if text(&item, "pk").contains("/%p/") {
            parts.push(item);
        }
    }
    parts
}

#[tokio::test]
async fn parts_carry_their_owner_and_go_with_their_record() {
    let (store, runs) = (Store::open().await, Runs::default());
    run(&store.idempotency(), &runs).await.unwrap();
    let record = store.record("charge#k").await;
    let parts = parts(&store).await;
    assert_eq!((parts.len(), parts_of(&record)), (3, Some(3)));
    for part in parts {
        let owner = text(&record, "owner");
        assert!(text(&part, "pk").starts_with(&format!("charge/%p/{owner}#")));
        assert_eq!(text(&part, "owner"), owner);
        assert_eq!(number(&part, "expires_at"), number(&record, "expires_at"));
        assert!(!part.contains_key("status") && part["response"].as_b().is_ok());
    }
}

#[tokio::test]
async fn parts_lie_in_tables_of_other_shapes_too() {
    let schema = TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK");
    let (store, runs) = (Store::with_schema(schema).await, Runs::default());
    for is_replay in [false, true] {
        let outcome = run(&store.idempotency(), &runs).await.unwrap();
        assert_eq!(outcome.is_replayed(), is_replay);
        assert!(outcome.into_inner() == answer(1, LENGTH));
    }
}

/// In so long a scope no part has a key: such an answer stays in its record.
#[tokio::test]
async fn a_scope_without_room_for_parts_keeps_answers_in_records() {
    let (_store, runs, idempotency) = caller().await;
    let scope = "s".repeat(2000);
    for (length, is_stored) in [(20 * KIB, true), (700 * KIB, false)] {
        let run = async || {
            let operation =
                idempotency.operation(scope.as_str()).key(length.to_string()).no_payload();
            operation.run(async |_| Ok::<_, Infallible>(answer(runs.add(), length))).await
        };
        let first = run().await.unwrap();
        match run().await {
            Ok(repeat) => assert!(is_stored && repeat == first, "{length}"),
            repeat => assert!(!is_stored && kind(repeat) == ErrorKind::AnswerUnavailable),
        }
    }
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_part_that_fails_is_written_again_and_no_other() {
    for act in [Act::THROTTLE, Act::SERVER_ERROR, Act::LoseRequest, Act::LoseResponse] {
        let (_store, link, runs, idempotency) = caller_on(Link::without_retries()).await;
        link.wire.next("PutItem", Act::Deliver);
        link.wire.next("PutItem", Act::Deliver);
        link.wire.next("PutItem", act);
        run(&idempotency, &runs).await.unwrap();
        assert_eq!(link.wire.requests(), ["PutItem"; 6], "acquire, 3 parts, 1 again, complete");
        assert!(run(&idempotency, &runs).await.unwrap().into_inner() == answer(1, LENGTH));
    }
}

#[tokio::test]
async fn a_completion_that_is_tried_again_does_not_write_its_parts_again() {
    let (_store, link, runs, idempotency) = caller_on(Link::without_retries()).await;
    for _ in 0..4 {
        link.wire.next("PutItem", Act::Deliver);
    }
    link.wire.next("PutItem", Act::LoseResponse);
    link.wire.next("PutItem", Act::THROTTLE);
    run(&idempotency, &runs).await.unwrap();
    assert_eq!(link.wire.requests(), ["PutItem"; 7], "acquire, 3 parts, complete 3 times");
    assert!(run(&idempotency, &runs).await.unwrap().into_inner() == answer(1, LENGTH));
}

/// A completed operation must never be reported as not executed.
#[tokio::test]
async fn an_answer_whose_parts_are_denied_completes_with_the_reason() {
    let (store, link, runs, idempotency) = caller_on(Link::without_retries()).await;
    link.wire.parts(Act::Answer(400, "AccessDeniedException"));
    assert!(matches!(run_for(&idempotency, &runs, TOO_LARGE).await, Ok(Outcome::Executed(_))));
    // Acquire, complete, and of the parts at most those that are written at once.
    assert!((3..=4).contains(&link.wire.requests().len()), "{:?}", link.wire.requests());
    link.wire.up();
    let record = store.record("charge#k").await;
    assert_eq!(status(&record), "COMPLETED");
    assert_eq!(record["response"], raw::answer("unavailable", "its parts could not be written"));
    assert_eq!(kind(run(&idempotency, &runs).await), ErrorKind::AnswerUnavailable);
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn an_owner_that_dies_after_its_parts_leaves_nothing_but_garbage() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let gate = Gate::default();
    for _ in 0..4 {
        link.wire.next("PutItem", Act::Deliver);
    }
    link.wire.next("PutItem", Act::HoldRequest(gate.clone()));
    let dying = tokio::spawn({
        let (idempotency, runs) = (store.over(&link), runs.clone());
        async move { run(&idempotency, &runs).await }
    });
    gate.reached().await;
    dying.abort();
    assert!(dying.await.unwrap_err().is_cancelled());
    let left = parts(&store).await;
    assert_eq!((left.len(), status(&store.record("charge#k").await)), (3, "PENDING"));
    assert!(left.iter().all(|part| number(part, "expires_at") > raw::now() / 1000));
    // The next owner's answer has separate parts.
    let taker = store.over(&Link::later(AN_HOUR));
    assert!(run(&taker, &runs).await.unwrap() == Outcome::Executed(answer(2, LENGTH)));
    assert!(run(&taker, &runs).await.unwrap() == Outcome::Replayed(answer(2, LENGTH)));
    assert_eq!(parts(&store).await.len(), 6);
}

#[tokio::test]
async fn an_owner_that_lost_its_lease_after_its_parts_gets_the_others_answer() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let gate = Gate::default();
    for _ in 0..4 {
        link.wire.next("PutItem", Act::Deliver);
    }
    link.wire.next("PutItem", Act::HoldRequest(gate.clone()));
    let (late, other) = (store.over(&link), store.over(&Link::later(AN_HOUR)));
    let (first, ()) = tokio::join!(run(&late, &runs), async {
        gate.reached().await;
        assert!(run(&other, &runs).await.unwrap() == Outcome::Executed(answer(2, LENGTH)));
        gate.open();
    });
    assert!(first.unwrap() == Outcome::Replayed(answer(2, LENGTH)));
}

/// One call that commits its answer, and one that is a transaction.
async fn committed(
    store: &Store,
    link: &Link,
    length: usize,
    acquire: FirstRequest,
) -> Outcome<String> {
    let idempotency = store.over(link);
    let outcome = idempotency.charging_by(|policy| policy.first_request(acquire)).run_with_outcome(
        async |execution| {
            execution.commit(&answer(1, length), [count(store.table(), "effect")]).await?;
            Ok::<_, Error>(answer(1, length))
        },
    );
    outcome.await.unwrap()
}

async fn transacted(
    store: &Store,
    link: &Link,
    length: usize,
    acquire: FirstRequest,
) -> Result<Outcome<String>, RunError<Infallible>> {
    let idempotency = store.over(link);
    let operation = idempotency
        .operation("pay")
        .policy(|policy| policy.first_request(acquire))
        .unwrap()
        .key("k")
        .no_payload();
    let outcome = operation.run_transaction_with_outcome(async || {
        let transaction = Transaction::new(answer(1, length));
        Ok::<_, Infallible>(transaction.items([count(store.table(), "effect")]))
    });
    outcome.await
}

const READ_FIRST: FirstRequest = FirstRequest::Read;

#[tokio::test]
async fn a_committed_answer_is_in_its_record_and_has_no_parts() {
    let (store, link) = (Store::open().await, Link::default());
    let first = FirstRequest::Write;
    assert!(committed(&store, &link, LENGTH, first).await == Outcome::Executed(answer(1, LENGTH)));
    assert_eq!(link.wire.requests(), ["PutItem", "TransactWriteItems"]);
    link.wire.forget();
    let transaction = transacted(&store, &link, LENGTH, first).await.unwrap();
    assert!(transaction == Outcome::Executed(answer(1, LENGTH)));
    assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
    assert!(parts(&store).await.is_empty());
    for acquire in [first, READ_FIRST] {
        let repeats = [
            committed(&store, &link, LENGTH, acquire).await,
            transacted(&store, &link, LENGTH, acquire).await.unwrap(),
        ];
        assert!(repeats.iter().all(|one| *one == Outcome::Replayed(answer(1, LENGTH))));
    }
    assert_eq!(store.counted("effect").await, 2);
}

#[tokio::test]
async fn a_transaction_that_reads_first_writes_nothing_for_a_repeat() {
    let (store, link) = (Store::open().await, Link::default());
    let first = transacted(&store, &link, LENGTH, READ_FIRST).await.unwrap();
    assert!(first == Outcome::Executed(answer(1, LENGTH)));
    assert_eq!(link.wire.requests(), ["GetItem", "TransactWriteItems"]);
    link.wire.forget();
    let repeat = transacted(&store, &link, LENGTH, READ_FIRST).await.unwrap();
    assert!(repeat == Outcome::Replayed(answer(1, LENGTH)));
    assert_eq!(link.wire.requests(), ["GetItem"]);
}

#[tokio::test]
async fn a_committed_answer_that_fits_no_record_is_an_error_before_anything_is_written() {
    let is_refused = |error: &Error| {
        let text = error.to_string();
        assert!(text.contains("of at most 409600: ") && text.contains("reference"), "{text}");
        error.kind() == ErrorKind::InvalidTransaction
    };
    let (store, link) = (Store::open().await, Link::default());
    let done = store.over(&link).charging().run(async |execution| {
        link.wire.forget();
        let large = answer(1, TOO_LARGE);
        let large = execution.commit(&large, [count(store.table(), "effect")]).await;
        assert!(is_refused(&large.unwrap_err()));
        assert_eq!(link.wire.requests(), [""; 0]);
        execution.commit("small", [count(store.table(), "effect")]).await?;
        Ok::<_, Error>("small".to_owned())
    });
    assert_eq!(done.await.unwrap(), "small");
    link.wire.forget();
    let large = transacted(&store, &link, TOO_LARGE, FirstRequest::Write).await;
    assert!(is_refused(large.unwrap_err().idempotency().expect("the transaction is invalid")));
    assert_eq!(link.wire.requests(), ["GetItem"], "an earlier call may have completed");
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn a_hooks_answer_and_a_failure_may_be_large() {
    let (store, runs, idempotency) = caller().await;
    store.put(raw::abandoned("charge#k")).await;
    let found = answer(7, LENGTH);
    for expected in [Outcome::Reconciled(found.clone()), Outcome::Replayed(found.clone())] {
        let operation = idempotency.charging();
        let operation = operation
            .reconcile(async |_| Ok::<_, Infallible>(Reconciled::Completed(found.clone())));
        let outcome =
            operation.run_with_outcome(async |_| Ok::<_, Infallible>(answer(runs.add(), 1))).await;
        assert!(outcome.unwrap() == expected);
    }
    for _ in 0..2 {
        let operation =
            idempotency.operation("charge").key("failed").no_payload().replay_errors::<String>();
        let failed = operation.run(async |_| {
            runs.add();
            Err::<(), _>("the reason ".repeat(100 * KIB))
        });
        let Err(RunError::Handler(failure)) = failed.await else { panic!("another outcome") };
        assert_eq!(failure.len(), 1100 * KIB);
    }
    assert_eq!(runs.count(), 1);
}

/// A record whose lease is renewed while it is completed expires no sooner than its lease ends; its
/// parts, which are written once, stay for as long.
#[tokio::test]
async fn parts_of_a_renewed_lease_stay_as_long_as_their_record() {
    let (store, runs) = (Store::open().await, Runs::default());
    let policy = |policy: Policy| {
        let lease = dynamodb_idempotency::policy::Lease::Renewed(Duration::from_secs(600));
        policy.lease(lease).retention(Duration::from_secs(10)).failure(Failure::Release)
    };
    let idempotency = store.by(&Link::default(), policy);
    run(&idempotency, &runs).await.unwrap();
    let record = store.record("charge#k").await;
    for part in parts(&store).await {
        assert_eq!(number(&part, "expires_at"), number(&record, "expires_at"));
    }
    assert!(number(&record, "expires_at") >= raw::now() / 1000 + 600);
}

#[tokio::test]
async fn an_answer_in_parts_is_found_by_a_call_that_stores_answers_in_records() {
    let (store, runs) = (Store::open().await, Runs::default());
    run(&store.idempotency(), &runs).await.unwrap();
    let policy = |policy: Policy| policy.large_answers(LargeAnswers::InRecord);
    let other = store.by(&Link::default(), policy);
    assert!(run(&other, &runs).await.unwrap() == Outcome::Replayed(answer(1, LENGTH)));
}
