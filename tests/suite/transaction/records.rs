//! The record of an earlier call decides.

use std::time::Duration;

use dynamodb_idempotency::policy::{Failure, InProgress, Takeover};
use dynamodb_idempotency::{ErrorKind, Outcome, RunError, Transaction};

use super::{Transferred, ran, transfer};
use crate::support::effects::row;
use crate::support::raw::{number, status};
use crate::support::{
    Charging, Declined, Gate, Link, Runs, Store, caller, charge_held, executed, kind, raw, replayed,
};

pub(super) const AN_HOUR: i64 = 3600;

#[tokio::test]
async fn a_live_lease_is_respected_and_waited_for() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let gate = Gate::default();
    let (owner, idempotency) = (store.idempotency(), store.over(&link));
    let transfers = || idempotency.calling("transfers");
    let first = charge_held(owner.calling("transfers"), &runs, &gate);
    let wait = InProgress::Wait { timeout: Duration::from_secs(60) };
    let (first, waited) = tokio::join!(first, async {
        gate.reached().await;
        let refused = kind(transfer(transfers(), store.table(), &Runs::default()).await);
        assert!(matches!(refused, ErrorKind::InProgress { .. }), "{refused:?}");
        assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
        let waiting = idempotency.operation("transfers").policy(|policy| policy.in_progress(wait));
        let waiting = waiting.unwrap().key("k").no_payload();
        let unused = Runs::default();
        let (waited, ()) = tokio::join!(transfer(waiting, store.table(), &unused), async {
            link.wire.sent("GetItem", 1).await;
            gate.open();
        });
        waited
    });
    assert_eq!(first.unwrap(), executed(1, 1));
    assert_eq!(waited.unwrap(), replayed(1, 1));
    assert_eq!(store.counted("effect").await, 0);
}

#[tokio::test]
async fn a_lease_that_is_over_is_taken_over_and_its_owner_gets_the_answer() {
    let (store, gate, runs) = (Store::open().await, Gate::default(), Runs::default());
    let link = Link::later(AN_HOUR);
    let (owner, taker) = (store.idempotency(), store.over(&link));
    let first = charge_held(owner.calling("transfers"), &runs, &gate);
    let (first, ()) = tokio::join!(first, async {
        gate.reached().await;
        let transfers = taker.calling("transfers");
        assert_eq!(transfer(transfers, store.table(), &Runs::default()).await.unwrap(), ran(1));
        assert_eq!(link.wire.requests(), ["TransactWriteItems", "TransactWriteItems"]);
        gate.open();
    });
    assert_eq!(first.unwrap(), Outcome::Replayed("run 1".to_owned()));
    assert_eq!(number(&store.record("transfers#k").await, "attempt"), 2);
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn records_of_earlier_runs_are_met_by_the_policy() {
    let retain = |max_attempts| Failure::Retain { max_attempts };
    for (case, record, failure, takeover, expected) in [
        (
            "abandoned",
            raw::abandoned("o#k"),
            retain(9),
            Takeover::Reject,
            Err(ErrorKind::Abandoned),
        ),
        ("failed", raw::failed("o#k"), retain(2), Takeover::Execute, Ok(2)),
        (
            "failed for good",
            raw::failed("o#k"),
            retain(1),
            Takeover::Execute,
            Err(ErrorKind::Failed),
        ),
        ("failed before", raw::failed("o#k"), Failure::Release, Takeover::Execute, Ok(2)),
        (
            "past its retention",
            raw::with(raw::completed("o#k", "1"), "expires_at", raw::n(raw::now() / 1000 - 60)),
            Failure::Release,
            Takeover::Execute,
            Ok(1),
        ),
        (
            "not a record",
            row("o#k", "something else"),
            Failure::Release,
            Takeover::Execute,
            Err(ErrorKind::UnknownRecord),
        ),
    ] {
        let (store, runs, idempotency) = caller().await;
        store.put(record.clone()).await;
        let operation = idempotency
            .operation("o")
            .policy(|policy| policy.failure(failure).takeover(takeover))
            .unwrap()
            .key("k")
            .no_payload();
        let result = transfer(operation, store.table(), &runs).await;
        let after = store.record("o#k").await;
        match expected {
            Ok(attempt) => {
                assert_eq!(result.unwrap(), ran(1), "{case}");
                assert_eq!((status(&after), number(&after, "attempt")), ("COMPLETED", attempt));
                assert_eq!(store.counted("effect").await, 1, "{case}");
            }
            Err(expected) => {
                assert_eq!(kind(result), expected, "{case}");
                assert_eq!((after, store.counted("effect").await), (record, 0), "{case}");
            }
        }
    }
}

#[tokio::test]
async fn a_kept_error_is_replayed() {
    let store = Store::open().await;
    let json = serde_json::to_string(&Declined { run: 7 }).unwrap();
    store.put(raw::with(raw::failed("o#k"), "response", raw::answer("json", &json))).await;
    let operation = store.idempotency().calling("o").replay_errors::<Declined>();
    let transaction = async || Ok(Transaction::new("paid".to_owned()));
    let result = operation.run_transaction(transaction).await;
    assert!(matches!(result, Err(RunError::Handler(Declined { run: 7 }))), "{result:?}");
}

/// Whatever `build` makes of a repeat, by what has changed since: it has an answer already.
#[tokio::test]
async fn a_repeat_that_would_be_refused_by_now_gets_the_answer() {
    let (store, runs, idempotency) = caller().await;
    let keyed = || idempotency.operation("charge").key("k");
    let operation = || keyed().payload("mine");
    assert_eq!(transfer(operation(), store.table(), &runs).await.unwrap(), ran(1));
    let refused = async || Ok::<_, Declined>(Transaction::discard("paid already".to_owned()));
    let failed = async || Err(Declined { run: 2 });
    let replayed = Outcome::Replayed("run 1".to_owned());
    let repeat = operation().run_transaction_with_outcome(refused).await;
    assert_eq!(repeat.unwrap(), replayed);
    let repeat: Transferred = operation().run_transaction_with_outcome(failed).await;
    assert_eq!(repeat.unwrap(), replayed);
    let other = keyed().payload("other").run_transaction_with_outcome(refused).await;
    assert_eq!(kind(other), ErrorKind::Mismatch);
    assert_eq!(store.counted("effect").await, 1);
}
