//! What a call sends first, what it may answer by that, and what a process keeps.

use std::convert::Infallible;

use dynamodb_idempotency::policy::{Failure, FirstRequest};
use dynamodb_idempotency::{Call, ErrorKind, Idempotency, Policy};

use crate::support::raw::{self, n, with};
use crate::support::{
    Act, Charging, Link, Runs, Store, caller_on, charge, executed, kind, replayed,
};

const READ_FIRST: FirstRequest = FirstRequest::Read;
const CONSISTENT: FirstRequest = FirstRequest::ConsistentRead;

fn by(acquire: FirstRequest) -> impl Fn(Policy) -> Policy + Clone {
    move |policy| policy.first_request(acquire)
}

fn on(idempotency: &Idempotency, acquire: FirstRequest) -> Call {
    idempotency.charging_by(by(acquire))
}

#[tokio::test]
async fn reading_first_a_replay_writes_nothing_and_a_first_run_reads_once() {
    for acquire in [READ_FIRST, CONSISTENT] {
        let (_store, link, runs, idempotency) = caller_on(Link::default()).await;
        assert_eq!(charge(on(&idempotency, acquire), &runs).await.unwrap(), executed(1, 1));
        assert_eq!(link.wire.requests(), ["GetItem", "PutItem", "PutItem"]);
        link.wire.forget();
        link.wire.measure();
        // An engine that is behind may need the write after all.
        while link.wire.requests().last().map(String::as_str) != Some("GetItem") {
            link.wire.forget();
            assert_eq!(charge(on(&idempotency, acquire), &runs).await.unwrap(), replayed(1, 1));
        }
        assert_eq!(runs.count(), 1);
    }
}

/// What a read that need not be consistent shows may be over by now.
#[tokio::test]
async fn an_eventually_consistent_read_answers_only_with_a_completed_operation() {
    let expired =
        with(raw::completed("charge#k", "\"old\""), "expires_at", n(raw::now() / 1000 - 60));
    let foreign = with(raw::key("charge#k"), "text", raw::s("foreign"));
    for (record, payload) in [
        (raw::pending("charge#k"), ""),
        (raw::abandoned("charge#k"), ""),
        (raw::failed("charge#k"), ""),
        (expired, ""),
        (raw::completed("charge#k", "\"another\""), "mine"),
        (foreign, ""),
    ] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        store.put(record.clone()).await;
        let replays = |policy: Policy| policy.first_request(READ_FIRST).failure(Failure::Replay);
        let operation = store.over(&link).operation("charge").policy(replays).unwrap().key("k");
        let operation =
            if payload.is_empty() { operation.no_payload() } else { operation.payload(payload) };
        // Whatever it comes to, the write has its say.
        let outcome = charge(operation, &runs).await;
        assert_eq!(link.wire.requests()[..2], ["GetItem", "PutItem"], "{record:?}: {outcome:?}");
    }
}

/// Whether it is the error that is expected.
type Fits = fn(ErrorKind) -> bool;

#[tokio::test]
async fn a_consistent_read_answers_whatever_it_finds() {
    let is_mismatch = |kind| kind == ErrorKind::Mismatch;
    let is_failed = |kind| kind == ErrorKind::Failed;
    let runs_elsewhere = |kind| matches!(kind, ErrorKind::InProgress { .. });
    let cases: [(_, _, Fits); 3] = [
        (raw::pending("charge#k"), "", runs_elsewhere),
        (raw::failed("charge#k"), "", is_failed),
        (raw::completed("charge#k", "\"another\""), "mine", is_mismatch),
    ];
    for (record, payload, fits) in cases {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        store.put(record).await;
        let replays = |policy: Policy| policy.first_request(CONSISTENT).failure(Failure::Replay);
        let operation = store.over(&link).operation("charge").policy(replays).unwrap().key("k");
        let operation =
            if payload.is_empty() { operation.no_payload() } else { operation.payload(payload) };
        assert!(fits(kind(charge(operation, &runs).await)));
        assert_eq!(link.wire.requests(), ["GetItem"]);
    }
}

#[tokio::test]
async fn a_read_that_fails_leaves_it_to_the_write() {
    for act in [Act::SERVER_ERROR, Act::THROTTLE, Act::LoseRequest] {
        for acquire in [READ_FIRST, CONSISTENT] {
            let (store, link) = (Store::open().await, Link::without_retries());
            link.wire.next("GetItem", act.clone());
            let outcome = charge(on(&store.over(&link), acquire), &Runs::default()).await;
            assert_eq!(outcome.unwrap(), executed(1, 1));
            assert_eq!(link.wire.requests(), ["GetItem", "PutItem", "PutItem"]);
        }
    }
}

fn with_cache(store: &Store, link: &Link) -> Idempotency {
    store.builder(link).local_cache(1 << 20).build().unwrap()
}

#[tokio::test]
async fn a_process_that_keeps_answers_sends_nothing_for_a_repeat() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let (writer, reader) = (with_cache(&store, &Link::default()), with_cache(&store, &link));
    assert_eq!(charge(writer.charging(), &runs).await.unwrap(), executed(1, 1));
    for _ in 0..3 {
        let repeat = charge(reader.charging(), &runs).await.unwrap();
        assert_eq!(repeat, replayed(1, 1));
    }
    assert_eq!(link.wire.requests(), ["PutItem"], "by whom it was replayed");
    link.wire.forget();
    charge(reader.operation("charge").key("own").no_payload(), &runs).await.unwrap();
    let repeat = charge(reader.operation("charge").key("own").no_payload(), &runs).await.unwrap();
    assert_eq!(
        (repeat, link.wire.requests().len()),
        (replayed(2, 1), 2),
        "by whom it was executed"
    );
}

#[tokio::test]
async fn what_is_kept_answers_no_other_request_and_not_past_its_retention() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = with_cache(&store, &link);
    let operation = || idempotency.charging();
    charge(operation(), &runs).await.unwrap();
    let another = idempotency.operation("charge").key("k").payload("another");
    assert_eq!(kind(charge(another, &runs).await), ErrorKind::Mismatch);
    link.let_pass(24 * 3600 + 5);
    assert_eq!(charge(operation(), &runs).await.unwrap(), executed(2, 1));
}

#[tokio::test]
async fn an_answer_that_could_not_be_stored_is_not_kept() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = with_cache(&store, &Link::default());
    let run = async || {
        let operation = idempotency.charging_by(|policy| policy.max_answer_bytes(1024));
        operation
            .run(async |_| {
                runs.add();
                Ok::<_, Infallible>("x".repeat(2000))
            })
            .await
    };
    assert_eq!(run().await.unwrap().len(), 2000);
    assert_eq!(kind(run().await), ErrorKind::AnswerUnavailable);
    assert_eq!(runs.count(), 1);
}
