//! Parts that cannot be written: an answer that its record has room for stands in the record, and the
//! record is completed in time whatever becomes of the parts.

use std::convert::Infallible;
use std::time::Duration;

use dynamodb_idempotency::{
    CommitError, Compression, ErrorKind, Idempotency, Lease, Outcome, Policy, Reconciled, RunError,
    Transaction, TransactionError,
};

use crate::bodies::Kind;
use crate::sizes::{KIB, parts_of};
use crate::support::effects::{count, debit};
use crate::support::raw::{self, status};
use crate::support::{Act, Gate, Link, Runs, Store};

/// What takes three parts, and fits into a record too.
const LENGTH: usize = 90 * KIB;

/// What no record has room for, in parts of which two are under way at once.
const TOO_LARGE: usize = 700 * KIB;

const DENIED: Act = Act::Answer(400, "AccessDeniedException");

/// So many letters that do not compress.
fn answer(length: usize) -> String {
    Kind::Random.bytes(length).into_iter().map(|byte| char::from(b'0' + byte % 64)).collect()
}

async fn run(
    idempotency: &Idempotency,
    runs: &Runs,
    length: usize,
) -> Result<Outcome<String>, RunError<Infallible>> {
    let operation =
        idempotency.operation("charge").key("k").policy(|p| p.compression(Compression::Off));
    let handler = async |_| {
        runs.add();
        Ok(answer(length))
    };
    operation.run_with_outcome(handler).await
}

fn in_time(timeout: u64) -> impl Fn(Policy) -> Policy {
    move |policy| policy.completion_timeout(Duration::from_millis(timeout))
}

/// Whether the record of `k` has the answer in it, and a caller without faults gets it.
async fn is_in_its_record(store: &Store, length: usize) -> bool {
    let record = store.record("charge#k").await;
    let repeat = run(&store.idempotency(), &Runs::default(), length).await.unwrap();
    parts_of(&record).is_none()
        && status(&record) == "COMPLETED"
        && repeat == Outcome::Replayed(answer(length))
}

#[tokio::test]
async fn a_completion_goes_into_its_record() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    link.wire.parts(DENIED);
    let first = run(&store.over(&link), &runs, LENGTH).await.unwrap();
    assert!(first == Outcome::Executed(answer(LENGTH)));
    // Acquire, complete, and what is denied is not tried again.
    assert!((3..=5).contains(&link.wire.requests().len()), "{:?}", link.wire.requests());
    assert!(is_in_its_record(&store, LENGTH).await);
}

#[tokio::test]
async fn a_commit_goes_into_its_record() {
    let (store, link) = (Store::open().await, Link::without_retries());
    link.wire.parts(DENIED);
    let operation = store.over(&link);
    let operation = operation.operation("charge").key("k");
    let outcome = operation.run_with_outcome(async |execution| {
        execution.commit(&answer(LENGTH), [count(store.table(), "effect")]).await?;
        Ok::<_, CommitError>(answer(LENGTH))
    });
    assert!(outcome.await.unwrap() == Outcome::Executed(answer(LENGTH)));
    assert!(is_in_its_record(&store, LENGTH).await);
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn a_transaction_goes_into_its_record() {
    let (store, link) = (Store::open().await, Link::without_retries());
    link.wire.parts(DENIED);
    let run = async |length| {
        let idempotency = store.over(&link);
        let operation = idempotency.operation("charge").key("k");
        let transaction = operation.run_transaction_with_outcome(async || {
            let transaction = Transaction::new(answer(length));
            Ok::<_, Infallible>(transaction.items([count(store.table(), "effect")]))
        });
        transaction.await
    };
    let large = run(TOO_LARGE).await;
    assert!(matches!(
        large,
        Err(dynamodb_idempotency::TransactionError::Idempotency(error))
            if error.kind() == ErrorKind::Configuration
    ));
    assert!(run(LENGTH).await.unwrap() == Outcome::Executed(answer(LENGTH)));
    assert!(is_in_its_record(&store, LENGTH).await);
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn a_hooks_answer_goes_into_its_record() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    store.put(raw::abandoned("charge#k")).await;
    link.wire.parts(DENIED);
    let idempotency = store.over(&link);
    let operation = idempotency.operation("charge").key("k");
    let operation =
        operation.reconcile(async |_| Ok::<_, Infallible>(Reconciled::Completed(answer(LENGTH))));
    let outcome =
        operation.run_with_outcome(async |_| Ok::<_, Infallible>(runs.add().to_string())).await;
    assert!(outcome.unwrap() == Outcome::Reconciled(answer(LENGTH)));
    assert!(is_in_its_record(&store, LENGTH).await);
    assert_eq!(runs.count(), 0);
}

/// A lease that nobody renews is no longer than it is, however long the completion may take.
#[tokio::test]
async fn a_fixed_lease_bounds_the_time_for_parts() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let lease = Lease::Fixed(Duration::from_secs(4));
    let policy = |policy: Policy| in_time(60_000)(policy).lease(lease);
    let idempotency = store.builder(&link).policy(policy).build().unwrap();
    link.wire.parts(Act::HoldRequest(Gate::default()));
    run(&idempotency, &runs, LENGTH).await.unwrap();
    // Half of the lease is less than one request may take: none of them is sent again.
    assert_eq!(link.wire.requests(), ["PutItem"; 5], "acquire, 3 parts, complete");
    assert!(is_in_its_record(&store, LENGTH).await);
}

#[tokio::test]
async fn no_part_is_begun_once_the_time_for_parts_is_over() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let gate = Gate::default();
    let idempotency = store.builder(&link).policy(in_time(60_000)).build().unwrap();
    link.wire.parts(Act::HoldResponse(gate.clone()));
    let (first, ()) = tokio::join!(run(&idempotency, &runs, TOO_LARGE), async {
        gate.reached_by(2).await;
        // More than the half of a minute, and less than the whole.
        link.let_pass(40);
        gate.open();
    });
    assert!(first.unwrap() == Outcome::Executed(answer(TOO_LARGE)));
    assert_eq!(link.wire.requests(), ["PutItem"; 4], "acquire, 2 parts of 9, complete");
    let record = store.record("charge#k").await;
    assert_eq!(record["response"], raw::answer("unavailable", "its parts could not be written"));
}

/// The parts of a transaction that are in the table stay there, whatever else is tried again.
#[tokio::test]
async fn a_transaction_writes_no_confirmed_part_again() {
    let (store, link) = (Store::open().await, Link::without_retries());
    let idempotency = store.builder(&link).policy(in_time(6_000)).build().unwrap();
    // Nine parts; the last one fails for longer than the first time for parts.
    (0..8).for_each(|_| link.wire.next("PutItem", Act::Deliver));
    (0..9).for_each(|_| link.wire.next("PutItem", Act::THROTTLE));
    let operation = idempotency.operation("charge").key("k");
    let operation = operation.policy(|policy| policy.compression(Compression::Off));
    let transaction = operation.run_transaction_with_outcome(async || {
        let transaction = Transaction::new(answer(TOO_LARGE));
        Ok::<_, Infallible>(transaction.items([count(store.table(), "effect")]))
    });
    assert!(transaction.await.unwrap() == Outcome::Executed(answer(TOO_LARGE)));
    assert_eq!(link.wire.count("PutItem"), 8 + 9 + 1);
    assert_eq!(store.counted("effect").await, 1);
}

/// Nobody asks for parts above what no record can hold.
#[tokio::test]
async fn an_answer_that_fits_no_record_has_parts_whatever_the_threshold() {
    let (store, runs) = (Store::open().await, Runs::default());
    let above = dynamodb_idempotency::LargeAnswers::InParts { above: usize::MAX };
    let policy = |policy: Policy| policy.large_answers(above);
    let idempotency = store.builder(&Link::default()).policy(policy).build().unwrap();
    run(&idempotency, &runs, TOO_LARGE).await.unwrap();
    assert!(parts_of(&store.record("charge#k").await).is_some());
    let repeat = run(&idempotency, &runs, TOO_LARGE).await.unwrap();
    assert!(repeat == Outcome::Replayed(answer(TOO_LARGE)));
}

/// How many parts there are of whatever answers.
async fn parts_in(store: &Store) -> usize {
    let all = store.raw.scan().table_name(store.table()).send().await.unwrap().items.unwrap();
    all.iter().filter(|item| raw::text(item, "pk").contains("/%p/")).count()
}

/// A client that can have a condition fail would have ten megabytes written as often as it likes.
#[tokio::test]
async fn a_refused_effect_leaves_no_parts() {
    let (store, link) = (Store::open().await, Link::default());
    let idempotency = store.builder(&link);
    let idempotency =
        idempotency.policy(|policy| policy.compression(Compression::Off)).build().unwrap();
    store.deposit("alice", 3).await;
    let items = || [count(store.table(), "effect"), debit(store.table(), "alice", 5)];
    let commit = async || {
        let operation = idempotency.operation("charge").key("k");
        let run = operation.run_with_outcome(async |execution| {
            execution.commit(&answer(LENGTH), items()).await?;
            Ok(answer(LENGTH))
        });
        run.await
    };
    let transaction = async || {
        let operation = idempotency.operation("pay").key("k");
        let run = operation.run_transaction_with_outcome(async || {
            Ok::<_, Infallible>(Transaction::new(answer(LENGTH)).items(items()))
        });
        run.await
    };
    for _ in 0..3 {
        match commit().await.unwrap_err() {
            RunError::Handler(CommitError::ConditionFailed(failed)) => {
                assert_eq!(failed.index(), 1);
            }
            other => panic!("{other:?}"),
        }
        match transaction().await.unwrap_err() {
            TransactionError::ConditionFailed(failed) => assert_eq!(failed.index(), 1),
            other => panic!("{other:?}"),
        }
        assert_eq!(parts_in(&store).await, 0);
    }
    store.deposit("alice", 10).await;
    assert!(commit().await.unwrap() == Outcome::Executed(answer(LENGTH)));
    assert!(transaction().await.unwrap() == Outcome::Executed(answer(LENGTH)));
    assert_eq!((store.counted("effect").await, parts_in(&store).await), (2, 6));
    // A repeat's condition fails by now, and its record decides.
    assert!(commit().await.unwrap() == Outcome::Replayed(answer(LENGTH)));
    assert!(transaction().await.unwrap() == Outcome::Replayed(answer(LENGTH)));
}
