//! Idempotency that is switched off: handlers run as without it, and no record is asked or written.

use std::convert::Infallible;

use dynamodb_idempotency::policy::Failure;
use dynamodb_idempotency::{
    AnswerCodec, CodecError, Error, ErrorKind, Idempotency, Outcome, Reconciled, Severity,
    Transaction,
};

use crate::support::effects::{count, debit};
use crate::support::raw::{self, Item};
use crate::support::{
    Act, Charging, Declined, Link, Runs, Store, charge, commit_kind, decline, decline_kept,
    handlers, kind,
};

fn off(store: &Store, link: &Link) -> Idempotency {
    store.builder(link).disabled().build().unwrap()
}

fn nothing_was_sent(link: &Link) {
    assert_eq!(link.wire.requests(), [""; 0]);
}

#[tokio::test]
async fn every_repeat_runs_and_nothing_is_sent() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = off(&store, &link);
    for run in [1, 2, 3] {
        let outcome = charge(idempotency.operation("charge").key("k").payload(&run), &runs).await;
        assert_eq!(outcome.unwrap(), Outcome::Unprotected(format!("run {run}, attempt 0")));
    }
    let outcome = idempotency.charging().run(async |execution| {
        assert!(!execution.is_protected() && !execution.is_lease_lost());
        execution.step("reserve", async { Ok::<_, Infallible>(1) }).await.unwrap();
        Ok::<_, Infallible>(1)
    });
    outcome.await.unwrap();
    nothing_was_sent(&link);
}

#[tokio::test]
async fn what_is_stored_is_neither_replayed_nor_changed() {
    let store = Store::open().await;
    for item in
        [raw::pending("charge#k"), raw::abandoned("charge#k"), raw::completed("charge#k", "1")]
    {
        let (link, runs) = (Link::default(), Runs::default());
        store.put(item.clone()).await;
        let idempotency = off(&store, &link);
        charge(idempotency.charging(), &runs).await.unwrap();
        let hook = async |_| Ok::<_, Infallible>(Reconciled::<String, Infallible>::Refuse);
        let reconciled = idempotency.charging().reconcile(hook);
        reconciled.run(async |_| Ok::<_, Infallible>(format!("run {}", runs.add()))).await.unwrap();
        assert_eq!((runs.count(), store.record("charge#k").await), (2, item));
        nothing_was_sent(&link);
    }
}

#[tokio::test]
async fn failures_are_the_handlers_own_and_leave_nothing() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = off(&store, &link);
    for failure in [Failure::Release, Failure::Replay, Failure::Retain { max_attempts: 1 }] {
        for _ in 0..2 {
            let operation = idempotency.charging_by(|p| p.failure(failure));
            handlers(decline(operation, &runs).await);
        }
    }
    assert_eq!(runs.count(), 6);
    nothing_was_sent(&link);
}

#[tokio::test]
async fn nothing_is_refused_for_its_key_or_its_payload() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = off(&store, &link);
    let charging = || idempotency.operation("charge");
    let no_json = std::collections::HashMap::from([((1, 2), 3)]);
    let long = "k".repeat(4096);
    for operation in [
        charging().key("").no_payload(),
        charging().key(long).no_payload(),
        charging().key("k").payload(&no_json),
    ] {
        assert!(matches!(charge(operation, &runs).await, Ok(Outcome::Unprotected(_))));
    }
    assert_eq!(runs.count(), 3);
    // A programming error is still reported.
    let error = charge(idempotency.operation("").key("k").no_payload(), &runs).await.unwrap_err();
    assert_eq!(error.idempotency().unwrap().kind(), ErrorKind::Configuration);
    nothing_was_sent(&link);
}

/// A deadline limits what is asked of the record, and no record is asked.
#[tokio::test]
async fn a_deadline_that_is_over_refuses_nothing() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = off(&store, &link);
    let operation = || idempotency.charging().deadline(link.clock.in_secs(-5));
    assert!(matches!(charge(operation(), &runs).await, Ok(Outcome::Unprotected(_))));
    nothing_was_sent(&link);
    let commit = operation().run(async |execution| {
        execution.commit("done", [count(store.table(), "effect")]).await?;
        Ok::<_, Error>("done".to_owned())
    });
    assert_eq!(commit.await.unwrap(), "done");
    let transaction = operation().run_transaction_with_outcome(async || {
        Ok::<_, Infallible>(Transaction::new(7).items([count(store.table(), "effect")]))
    });
    assert_eq!(transaction.await.unwrap(), Outcome::Unprotected(7));
    assert_eq!((store.counted("effect").await, runs.count()), (2, 1));
}

/// Other services may still know the request by it.
#[tokio::test]
async fn derived_keys_stay_the_same() {
    let store = Store::open().await;
    let derived = async |idempotency: &Idempotency| {
        let key = idempotency.charging().run(async |execution| {
            execution.discard();
            Ok::<_, Infallible>(execution.derive_key("card").uuid())
        });
        key.await.unwrap()
    };
    let off = off(&store, &Link::default());
    assert_eq!(derived(&off).await, derived(&store.idempotency()).await);
}

#[tokio::test]
async fn a_second_commit_is_refused() {
    let store = Store::open().await;
    let idempotency = off(&store, &Link::default());
    let run = idempotency.charging().run(async |execution| {
        execution.commit("first", [count(store.table(), "effect")]).await?;
        let second = execution.commit("second", [count(store.table(), "effect")]).await;
        assert_eq!(commit_kind(&second), ErrorKind::AlreadyCommitted);
        Ok::<_, Error>("second".to_owned())
    });
    assert_eq!((run.await.unwrap().as_str(), store.counted("effect").await), ("first", 1));
}

/// It may be applied after all.
#[tokio::test]
async fn the_outcome_of_a_dropped_commit_is_unknown() {
    let (store, link) = (Store::open().await, Link::default());
    let idempotency = off(&store, &link);
    let run = idempotency.charging().run(async |execution| {
        let commit = execution.commit("done", [count(store.table(), "effect")]);
        drop(futures::poll!(std::pin::pin!(commit)));
        Ok::<_, Error>("done".to_owned())
    });
    assert_eq!(run.await.unwrap_err().idempotency().unwrap().kind(), ErrorKind::OutcomeUnknown);
}

/// The business's own writes, and no record with them.
#[tokio::test]
async fn commits_write_the_effect_each_time_and_no_record() {
    let (store, link) = (Store::open().await, Link::default());
    let idempotency = off(&store, &link);
    for _ in 0..2 {
        let run = idempotency.charging().run_with_outcome(async |execution| {
            execution.commit("done", [count(store.table(), "effect")]).await?;
            Ok::<_, Error>("done".to_owned())
        });
        assert_eq!(run.await.unwrap().into_inner(), "done");
    }
    let empty = idempotency.charging().run(async |execution| {
        execution.commit("done", []).await?;
        Ok::<_, Error>("done".to_owned())
    });
    empty.await.unwrap();
    assert_eq!((store.counted("effect").await, store.item("charge#k").await), (2, None));
    assert_eq!(link.wire.requests(), ["TransactWriteItems", "TransactWriteItems"]);
}

/// There is no record, so nothing of it can be in the way.
#[tokio::test]
async fn no_codec_is_asked_and_no_answer_is_too_large() {
    /// Counts how often it is asked.
    struct Broken(Runs);
    impl AnswerCodec for Broken {
        fn encode(&self, _: &str, _: Vec<u8>) -> Result<Vec<u8>, CodecError> {
            self.0.add();
            Err("its keys are gone".into())
        }
        fn decode(&self, pk: &str, stored: Vec<u8>) -> Result<Vec<u8>, CodecError> {
            self.encode(pk, stored)
        }
    }
    let (store, runs, asked) = (Store::open().await, Runs::default(), Runs::default());
    let builder = store.builder(&Link::default()).disabled();
    let builder = builder.answer_codec(Broken(asked.clone()));
    let idempotency = builder.policy(|policy| policy.max_answer_bytes(1024)).build().unwrap();
    let (operation, long) = (|| idempotency.charging(), "x".repeat(2048));
    charge(operation(), &runs).await.unwrap();
    let committed = operation().run(async |execution| {
        execution.commit(&long, [count(store.table(), "effect")]).await?;
        Ok::<_, Error>(long.clone())
    });
    assert_eq!(committed.await.unwrap(), long);
    let transaction = operation().run_transaction(async || {
        let items = [count(store.table(), "effect")];
        Ok::<_, Infallible>(Transaction::new(long.clone()).items(items))
    });
    assert_eq!(transaction.await.unwrap(), long);
    handlers(decline_kept(operation().replay_errors::<Declined>(), &runs).await);
    assert_eq!((store.counted("effect").await, store.item("charge#k").await), (2, None));
    assert_eq!(asked.count(), 0);
}

#[tokio::test]
async fn a_failed_condition_of_a_commit_has_its_own_index() {
    let store = Store::open().await;
    store.deposit("empty", 0).await;
    let idempotency = off(&store, &Link::default());
    let run = idempotency.charging().run(async |execution| {
        let items = [count(store.table(), "effect"), debit(store.table(), "empty", 5)];
        execution.commit("done", items).await?;
        Ok("done".to_owned())
    });
    let error: Error = handlers(run.await);
    assert_eq!(error.kind(), ErrorKind::ConditionFailed);
    assert_eq!(error.condition_failed().expect("the condition").index(), 1);
    assert_eq!(store.counted("effect").await, 0);
}

#[tokio::test]
async fn a_transaction_is_written_each_time_without_its_record() {
    let (store, link) = (Store::open().await, Link::default());
    let idempotency = off(&store, &link);
    for _ in 0..2 {
        let run = idempotency.charging().run_transaction_with_outcome(async || {
            Ok::<_, Infallible>(Transaction::new(7).items([count(store.table(), "effect")]))
        });
        assert_eq!(run.await.unwrap(), Outcome::Unprotected(7));
    }
    assert_eq!((store.counted("effect").await, store.item("charge#k").await), (2, None));

    store.deposit("empty", 0).await;
    let poor = idempotency.charging().run_transaction_with_outcome(async || {
        Ok::<_, Infallible>(
            Transaction::new(7)
                .items([debit(store.table(), "empty", 5)])
                .on_condition_failed(|failed| Some(if failed.index() == 0 { 8 } else { 9 })),
        )
    });
    assert_eq!(poor.await.unwrap(), Outcome::Unprotected(8));
    assert_eq!(store.item("charge#k").await, None);
}

/// Without a record, a delayed request may still be applied, so the outcome is unknown.
#[tokio::test]
async fn an_effect_that_is_not_confirmed_is_unknown() {
    let (store, link) = (Store::open().await, Link::without_retries());
    let idempotency = off(&store, &link);
    link.wire.every("TransactWriteItems", Act::LoseResponse);
    let run = idempotency.charging().run(async |execution| {
        execution.commit("done", [count(store.table(), "effect")]).await?;
        Ok::<_, Error>("done".to_owned())
    });
    assert_eq!(run.await.unwrap_err().idempotency().unwrap().kind(), ErrorKind::OutcomeUnknown);
    let operation =
        idempotency.charging_by(|p| p.completion_timeout(std::time::Duration::from_secs(1)));
    let run = operation.run_transaction(async || {
        Ok::<_, Infallible>(Transaction::new(7).items([count(store.table(), "other")]))
    });
    assert_eq!(kind(run.await), ErrorKind::OutcomeUnknown);
    // However often it was sent, one token makes it one.
    assert_eq!((store.counted("effect").await, store.counted("other").await), (1, 1));
}

#[tokio::test]
async fn preflight_asks_nothing_and_says_so() {
    let (store, link) = (Store::open().await, Link::default());
    let findings = off(&store, &link).preflight(["charge"]).await.unwrap();
    let [finding] = &findings[..] else { panic!("one: {findings:?}") };
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.to_string().contains("IDEMPOTENCY_DISABLED"), "{finding}");
    nothing_was_sent(&link);
}

#[tokio::test]
async fn on_again_everything_is_as_before() {
    let (store, runs) = (Store::open().await, Runs::default());
    charge(off(&store, &Link::default()).charging(), &runs).await.unwrap();
    let items: Vec<Item> =
        store.raw.scan().table_name(store.table()).send().await.unwrap().items.unwrap_or_default();
    assert_eq!(items, []);
    let on = store.idempotency();
    charge(on.charging(), &runs).await.unwrap();
    assert!(charge(on.charging(), &runs).await.unwrap().is_replayed());
    assert_eq!(runs.count(), 2);
}
