//! Parts that cannot be written: an answer that fits its record is stored in the record, and the
//! record is completed in time even if writing the parts fails.

use std::convert::Infallible;
use std::time::Duration;

use dynamodb_idempotency::policy::{Compression, Lease};
use dynamodb_idempotency::{Idempotency, Outcome, Policy, Reconciled, RunError};

use crate::bodies::Kind;
use crate::sizes::{KIB, parts_of};
use crate::support::raw::{self, status};
use crate::support::{Act, Charging, Gate, Link, Runs, Store};

/// What takes three parts, and fits into a record too.
const LENGTH: usize = 90 * KIB;

/// An answer that fits no record; two of its parts are in flight at a time.
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
    let operation = idempotency.charging_by(|p| p.compression(Compression::Off));
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
async fn a_hooks_answer_goes_into_its_record() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    store.put(raw::abandoned("charge#k")).await;
    link.wire.parts(DENIED);
    let operation = store.over(&link).charging();
    let operation =
        operation.reconcile(async |_| Ok::<_, Infallible>(Reconciled::Completed(answer(LENGTH))));
    let outcome =
        operation.run_with_outcome(async |_| Ok::<_, Infallible>(runs.add().to_string())).await;
    assert!(outcome.unwrap() == Outcome::Reconciled(answer(LENGTH)));
    assert!(is_in_its_record(&store, LENGTH).await);
    assert_eq!(runs.count(), 0);
}

/// A fixed lease is not extended, however long the completion takes.
#[tokio::test]
async fn a_fixed_lease_bounds_the_time_for_parts() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let lease = Lease::Fixed(Duration::from_secs(4));
    let policy = |policy: Policy| in_time(60_000)(policy).lease(lease);
    let idempotency = store.by(&link, policy);
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
    let idempotency = store.by(&link, in_time(60_000));
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

/// The threshold for parts may be larger than any record.
#[tokio::test]
async fn an_answer_that_fits_no_record_has_parts_whatever_the_threshold() {
    let (store, runs) = (Store::open().await, Runs::default());
    let above = dynamodb_idempotency::policy::LargeAnswers::InParts { above: usize::MAX };
    let policy = |policy: Policy| policy.large_answers(above);
    let idempotency = store.by(&Link::default(), policy);
    run(&idempotency, &runs, TOO_LARGE).await.unwrap();
    assert!(parts_of(&store.record("charge#k").await).is_some());
    let repeat = run(&idempotency, &runs, TOO_LARGE).await.unwrap();
    assert!(repeat == Outcome::Replayed(answer(TOO_LARGE)));
}
