//! What happens while DynamoDB is out of reach.

use std::time::Duration;

use dynamodb_idempotency::policy::{Failure, FirstRequest, InProgress, LargeAnswers, Outage};
use dynamodb_idempotency::{
    ErrorKind, Execution, Idempotency, Outcome, RunError, TableSchema, Transaction,
};

use crate::support::raw::{self, n, with};
use crate::support::{Act, Charging, Gate, Link, Runs, Store, charge, is_in_progress, kind};

fn open(store: &Store, link: &Link) -> Idempotency {
    let builder = store.builder(link).request_timeout(Duration::from_secs(30));
    builder.policy(|policy| policy.outage(Outage::Open)).build().unwrap()
}

const OUTAGES: [Act; 4] =
    [Act::LoseRequest, Act::SERVER_ERROR, Act::THROTTLE, Act::Answer(503, "ServiceUnavailable")];

#[tokio::test]
async fn closed_is_the_default_and_runs_nothing() {
    for act in OUTAGES {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        link.wire.down(act);
        let result = charge(store.over(&link).charging(), &runs).await;
        let error = result.unwrap_err();
        let error = error.idempotency().unwrap();
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true));
        assert!(std::error::Error::source(error).is_some(), "the cause is kept");
        assert_eq!((runs.count(), store.item("charge#k").await), (0, None));
    }
}

#[tokio::test]
async fn open_runs_unprotected_and_stores_nothing() {
    for act in OUTAGES {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        link.wire.down(act);
        let idempotency = open(&store, &link);
        for run in [1, 2] {
            let outcome = idempotency.charging().run_with_outcome(async |execution| {
                assert!(!execution.is_protected());
                Ok::<_, String>(runs.add())
            });
            assert_eq!(outcome.await.unwrap(), Outcome::Unprotected(run));
        }
        assert_eq!(store.item("charge#k").await, None);
    }
}

/// Handlers give their calls a timeout within `lease_remaining`, also when no record has a lease.
#[tokio::test]
async fn without_a_record_the_time_left_is_that_to_the_deadline() {
    let (store, link) = (Store::open().await, Link::default());
    link.wire.down(Act::LoseRequest);
    let off = store.builder(&link).disabled().build().unwrap();
    for idempotency in [open(&store, &link), off] {
        let operation = || idempotency.charging();
        let left = async |execution: Execution| Ok::<_, String>(execution.lease_remaining());
        assert_eq!(operation().run(left).await.unwrap(), Duration::from_secs(366 * 24 * 3600));
        let deadline = link.clock.in_secs(900);
        let limited = operation().deadline(deadline).run(left).await.unwrap();
        assert!(limited > Duration::from_secs(800) && limited <= Duration::from_secs(900));
        let over = operation().deadline(deadline).run(async |execution| {
            link.let_pass(901);
            left(execution).await
        });
        assert_eq!(over.await.unwrap(), Duration::ZERO);
    }
}

/// A system that fences refuses an execution without a number once it has seen one with a number.
#[tokio::test]
async fn an_execution_without_a_record_has_no_attempt_number() {
    let (store, link) = (Store::open().await, Link::without_retries());
    let idempotency = open(&store, &link);
    let retain = Failure::Retain { max_attempts: 9 };
    let mut numbers = Vec::new();
    for is_down in [false, false, true, false] {
        if is_down {
            link.wire.down(Act::LoseRequest);
        }
        let operation = idempotency.charging_by(|p| p.failure(retain));
        let run = operation.run(async |execution| Err::<u32, _>(execution.attempt()));
        let Err(RunError::Handler(attempt)) = run.await else { panic!("the handler's error") };
        numbers.push(attempt);
        link.wire.up();
    }
    assert_eq!(numbers, [1, 2, 0, 3]);
}

#[tokio::test]
async fn open_never_runs_beside_an_owner_that_was_seen() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    store.put(raw::pending("charge#k")).await;
    let wait = InProgress::Wait { timeout: Duration::from_millis(300) };
    let idempotency = store.by(&link, |p| p.outage(Outage::Open).in_progress(wait));
    link.wire.every("GetItem", Act::LoseRequest);
    assert!(is_in_progress(charge(idempotency.charging(), &runs).await));
    assert_eq!(runs.count(), 0);
}

/// Reads succeed and return no record.
#[tokio::test]
async fn a_store_that_takes_no_writes_is_out_of_reach() {
    for act in [Act::SERVER_ERROR, Act::Answer(503, "SlowDown"), Act::LoseRequest] {
        let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
        link.wire.every("PutItem", act);
        let result = charge(store.over(&link).charging(), &runs).await;
        assert_eq!((kind(result), runs.count()), (ErrorKind::Unavailable, 0));
        let outcome = charge(open(&store, &link).charging(), &runs).await;
        assert!(matches!(outcome, Ok(Outcome::Unprotected(_))), "{outcome:?}");
        let left = store.item("charge#k").await;
        assert!(left.is_none_or(|record| raw::status(&record) == "RELEASED"));
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test]
async fn a_missing_table_is_an_error_even_when_open() {
    let store = Store::without_table(TableSchema::default()).await;
    let (link, runs) = (Link::default(), Runs::default());
    let result = charge(open(&store, &link).charging(), &runs).await;
    assert_eq!((kind(result), runs.count()), (ErrorKind::Configuration, 0));
}

#[tokio::test]
async fn a_request_without_an_answer_ends_at_its_timeout() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let never = Gate::default();
    link.wire.down(Act::HoldRequest(never));
    let timeout = Duration::from_millis(100);
    let idempotency = store.builder(&link).request_timeout(timeout).build().unwrap();
    let call = charge(idempotency.charging(), &runs);
    // A hundred times as long as the two requests may take.
    let result = tokio::time::timeout(Duration::from_secs(20), call).await.expect("it ends");
    assert_eq!((kind(result), runs.count()), (ErrorKind::Unavailable, 0));
}

const TIMEOUT: Duration = Duration::from_secs(5);

/// A process whose requests are never answered.
async fn unanswered(outage: Outage, acquire: FirstRequest) -> (Store, Link, Idempotency) {
    let (store, link) = (Store::open().await, Link::without_retries());
    link.wire.down(Act::HoldRequest(Gate::default()));
    let builder = store.builder(&link).request_timeout(TIMEOUT);
    let idempotency = builder.policy(|policy| policy.outage(outage).first_request(acquire)).build();
    (store, link, idempotency.unwrap())
}

#[tokio::test]
async fn an_outage_costs_a_call_one_request_timeout_whatever_it_sends() {
    for acquire in [FirstRequest::Write, FirstRequest::ConsistentRead] {
        for outage in [Outage::Closed, Outage::Open] {
            let (_store, _link, idempotency) = unanswered(outage, acquire).await;
            let start = tokio::time::Instant::now();
            let ran = idempotency.charging().run(async |_| Ok::<_, String>(start.elapsed())).await;
            assert_eq!(ran.is_ok(), outage == Outage::Open, "{acquire:?}: {ran:?}");
            let took = ran.unwrap_or_else(|_| start.elapsed());
            assert!(took <= TIMEOUT, "{acquire:?}, {outage:?}: {took:?}");
        }
    }
}

#[tokio::test]
async fn an_outage_costs_a_transaction_one_request_timeout() {
    let (_store, _link, idempotency) = unanswered(Outage::Closed, FirstRequest::Write).await;
    let start = tokio::time::Instant::now();
    let operation = idempotency.charging();
    let ran = operation.run_transaction(async || Ok::<_, String>(Transaction::new(1_u32))).await;
    let took = start.elapsed();
    assert_eq!(kind(ran), ErrorKind::OutcomeUnknown);
    assert!(took <= TIMEOUT, "{took:?}");
}

/// Each of its writes is late; the first of them arrives when the call has lost its patience.
#[tokio::test]
async fn a_call_that_gives_up_gives_back_what_has_arrived_late() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let (late, release) = (Gate::default(), Gate::default());
    link.wire.every("PutItem", Act::ArriveLate(late.clone()));
    link.wire.next("UpdateItem", Act::HoldRequest(release.clone()));
    let idempotency =
        store.builder(&link).request_timeout(Duration::from_secs(60)).build().unwrap();
    let arrival = async {
        release.reached().await;
        late.open();
        link.wire.late_arrivals(8).await;
        release.open();
    };
    let call = charge(idempotency.charging(), &runs);
    let (refused, ()) = tokio::join!(call, arrival);
    assert_eq!(kind(refused), ErrorKind::Unavailable);
    let left = store.item("charge#k").await;
    assert!(left.is_none_or(|record| raw::status(&record) != "PENDING"), "it is locked");
}

/// Every write loses the race against another owner: contention, not an outage.
#[tokio::test]
async fn a_contended_key_is_tried_with_growing_pauses_and_never_run_unprotected() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let record_of_other = |attempt: u32| {
        let record = with(raw::abandoned("charge#k"), "attempt", n(attempt));
        with(record, "owner", raw::s(&format!("{attempt:032}")))
    };
    store.put(record_of_other(1)).await;
    let gates: Vec<Gate> = (0..20).map(|_| Gate::default()).collect();
    for gate in &gates {
        link.wire.next("UpdateItem", Act::HoldRequest(gate.clone()));
    }
    let idempotency = open(&store, &link);
    let churn = async {
        for (attempt, gate) in (2..).zip(&gates) {
            gate.reached().await;
            store.put(record_of_other(attempt)).await;
            gate.open();
        }
    };
    let start = tokio::time::Instant::now();
    tokio::select! {
        result = charge(idempotency.charging(), &runs) => {
            assert_eq!(runs.count(), 0, "{result:?}");
            assert!(is_in_progress(result));
        }
        () = churn => panic!("20 writes and no end"),
    }
    // A pause never ends early: of 50, 100, … 800, 1000 and 1000 ms, at least a half each.
    assert!(start.elapsed() >= Duration::from_millis(1_775), "{:?}", start.elapsed());
}

#[tokio::test]
async fn what_was_seen_to_be_completed_never_runs_for_want_of_its_answer() {
    let (store, runs) = (Store::open().await, Runs::default());
    let run = async |idempotency: &Idempotency| {
        let in_parts = LargeAnswers::InParts { above: 0 };
        let operation = idempotency.operation("charge");
        let operation = operation.policy(|policy| policy.large_answers(in_parts)).unwrap();
        operation.key("k").no_payload().run(async |_| Ok::<_, String>(runs.add())).await
    };
    run(&store.idempotency()).await.unwrap();
    for outage in [Outage::Closed, Outage::Open] {
        let link = Link::without_retries();
        link.wire.parts(Act::SERVER_ERROR);
        let open = store.by(&link, |policy| policy.outage(outage));
        assert_eq!(kind(run(&open).await), ErrorKind::Unavailable);
    }
    assert_eq!(runs.count(), 1);
}

/// The record that a read has shown may be completed, in words that this version does not read.
#[tokio::test]
async fn a_record_that_cannot_be_read_is_never_run_unprotected() {
    for first in [FirstRequest::ConsistentRead, FirstRequest::Read] {
        let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
        store.put(with(raw::completed("charge#k", "1"), "format", n(2))).await;
        link.wire.every("PutItem", Act::THROTTLE);
        let builder = store.builder(&link);
        let builder = builder.policy(|policy| policy.outage(Outage::Open).first_request(first));
        let idempotency = builder.build().unwrap();
        let ran = charge(idempotency.charging(), &runs).await;
        assert!(ran.is_err(), "{first:?}: {ran:?}");
        assert_eq!(runs.count(), 0, "{first:?}");
    }
}

/// Without the record, the steps that it has would run again.
#[tokio::test]
async fn an_operation_whose_stored_steps_were_read_is_never_run_unprotected() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let steps = raw::map("reserve", raw::s("\"reserved\""));
    store.put(with(raw::abandoned("charge#k"), "steps", steps)).await;
    let first = FirstRequest::Read;
    let builder = store.builder(&link);
    let builder = builder.policy(|policy| policy.outage(Outage::Open).first_request(first));
    let idempotency = builder.build().unwrap();
    idempotency.warm().await.unwrap();
    link.wire.every("PutItem", Act::THROTTLE);
    link.wire.every("UpdateItem", Act::THROTTLE);
    let ran = charge(idempotency.charging(), &runs).await;
    assert_eq!((kind(ran), runs.count()), (ErrorKind::Unavailable, 0));
}
