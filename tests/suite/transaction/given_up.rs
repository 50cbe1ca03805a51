//! Tries that are lost, late or given up.

use std::time::Duration;

use dynamodb_idempotency::policy::LeaseExpired;
use dynamodb_idempotency::{ErrorKind, Idempotency};

use super::records::AN_HOUR;
use super::{ran, transfer};
use crate::loss::commit_doubt::remove;
use crate::support::raw::{Item, number, status};
use crate::support::{Act, Charging, Gate, Link, Runs, Store, charge_held, executed, kind, raw};

fn hasty(store: &Store, link: &Link) -> Idempotency {
    let timeout = Duration::from_millis(300);
    store.by(link, |policy| policy.completion_timeout(timeout))
}

/// It was applied, and then its record is deleted (by hand or by TTL) or released by force.
#[tokio::test]
async fn one_whose_record_was_deleted_or_released_is_unknown() {
    for is_deleted in [true, false] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let timeout = Duration::from_millis(300);
        let builder = store.builder(&link).request_timeout(timeout);
        let builder = builder.policy(|policy| policy.completion_timeout(timeout));
        let (idempotency, lost) = (builder.build().unwrap(), Gate::default());
        link.wire.next("TransactWriteItems", Act::HoldResponse(lost.clone()));
        link.wire.every("TransactWriteItems", Act::LoseRequest);
        let operation = idempotency.calling("o");
        let transferring = transfer(operation, store.table(), &runs);
        let (result, ()) = tokio::join!(transferring, remove(&store, "o", &lost, is_deleted));
        assert_eq!(kind(result), ErrorKind::OutcomeUnknown, "{is_deleted}");
        assert_eq!(store.counted("effect").await, 1);
    }
}

/// What a call finds, and what its transaction becomes there once DynamoDB is reached again.
struct Before {
    case: &'static str,
    record: Option<Item>,
    attempt: i64,
}

impl Before {
    fn found(case: &'static str, record: Item, attempt: i64) -> Self {
        Self { case, record: Some(record), attempt }
    }

    /// The transaction's requests arrive after its call has given it up, and `fault` meets the write by
    /// which the call makes sure that they change nothing.
    async fn is_left_as_it_was(&self, fault: Option<Act>) {
        let Self { case, record: planted, attempt } = self;
        let (store, link) = (Store::open().await, Link::without_retries());
        let (idempotency, runs) = (hasty(&store, &link), Runs::default());
        if let Some(planted) = planted {
            store.put(planted.clone()).await;
            // This one finds it.
            link.wire.next("TransactWriteItems", Act::Deliver);
        }
        let gate = Gate::default();
        link.wire.every("TransactWriteItems", Act::ArriveLate(gate.clone()));
        if let Some(fault) = fault {
            link.wire.next(if planted.is_some() { "UpdateItem" } else { "PutItem" }, fault);
        }
        let operation = || idempotency.calling("o");
        let result = transfer(operation(), store.table(), &runs).await;
        // If no record is required, the transaction may have been applied and its record deleted.
        let is_known = planted.is_some();
        let expected = if is_known { ErrorKind::Unavailable } else { ErrorKind::OutcomeUnknown };
        assert_eq!(kind(result), expected, "{case}");
        let left = store.record("o#k").await;
        let late = link.wire.count("TransactWriteItems") - usize::from(planted.is_some());
        gate.open();
        link.wire.late_arrivals(u32::try_from(late).unwrap()).await;
        assert_eq!(store.record("o#k").await, left, "{case}");
        assert_eq!(store.counted("effect").await, 0, "{case}");
        // An answer that is past its retention is replaced like an absent record.
        let kept = planted.as_ref().filter(|planted| status(planted) != "COMPLETED");
        assert_eq!(status(&left), kept.map_or("RELEASED", status), "{case}");
        assert_eq!(left.get("response"), kept.and_then(|kept| kept.get("response")), "{case}");
        link.wire.up();
        let next = transfer(operation(), store.table(), &runs).await;
        assert_eq!(next.unwrap(), ran(2), "{case}");
        assert_eq!(number(&store.record("o#k").await, "attempt"), *attempt, "{case}");
        assert_eq!(store.counted("effect").await, 1, "{case}");
    }
}

/// After the call reports that nothing was written, none of its tries is applied, whatever record they
/// require.
#[tokio::test]
async fn one_that_was_given_up_never_lands() {
    let failed = || raw::failed("o#k");
    let over = raw::n(raw::now() / 1000 - 60);
    let expired = |record| raw::with(record, "expires_at", over.clone());
    for before in [
        Before { case: "none", record: None, attempt: 1 },
        Before::found("released", raw::with(failed(), "status", raw::s("RELEASED")), 2),
        Before::found("failed", failed(), 2),
        Before::found("a failure past its retention", expired(failed()), 1),
        Before::found("an answer past its retention", expired(raw::completed("o#k", "1")), 1),
        Before::found("abandoned", raw::abandoned("o#k"), 2),
    ] {
        for fault in [None, Some(Act::LoseResponse), Some(Act::LoseRequest)] {
            before.is_left_as_it_was(fault).await;
        }
    }
}

/// A slow owner can still complete its record after a transaction of another call was rejected.
#[tokio::test]
async fn one_that_was_given_up_leaves_a_slow_owner_its_record() {
    let (store, gate, runs) = (Store::open().await, Gate::default(), Runs::default());
    let link = Link::later(AN_HOUR);
    let (owner, taker) = (store.idempotency(), hasty(&store, &link));
    link.wire.next("TransactWriteItems", Act::Deliver);
    link.wire.every("TransactWriteItems", Act::LoseRequest);
    let first = owner
        .operation("transfers")
        .policy(|policy| policy.lease_expired(LeaseExpired::Continue))
        .unwrap()
        .key("k")
        .no_payload();
    let first = charge_held(first, &runs, &gate);
    let (first, ()) = tokio::join!(first, async {
        gate.reached().await;
        let second = transfer(taker.calling("transfers"), store.table(), &runs).await;
        assert_eq!(kind(second), ErrorKind::Unavailable);
        gate.open();
    });
    assert_eq!(first.unwrap(), executed(1, 1));
    assert_eq!(store.counted("effect").await, 0);
}

#[tokio::test]
async fn one_that_never_gets_through_has_not_happened() {
    for act in [Act::THROTTLE, Act::Cancel(&["TransactionConflict", "None"])] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let idempotency = hasty(&store, &link);
        link.wire.every("TransactWriteItems", act);
        let result = transfer(idempotency.calling("o"), store.table(), &runs).await;
        assert_eq!(kind(result), ErrorKind::Unavailable);
        assert_eq!(store.item("o#k").await, None);
    }
}

/// A try may be in flight when the call finds another request's record. The try requires that no record
/// exists, and the record exists for as long as the try can be delayed.
#[tokio::test]
async fn a_try_in_doubt_can_land_no_more_once_a_record_was_seen() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = hasty(&store, &link);
    let operation = || idempotency.operation("charge").key("k").payload("mine");
    store.put(raw::pending("charge#k")).await;
    link.wire.next("TransactWriteItems", Act::LoseRequest);
    assert_eq!(kind(transfer(operation(), store.table(), &runs).await), ErrorKind::OutcomeUnknown);
    assert_eq!(kind(transfer(operation(), store.table(), &runs).await), ErrorKind::Mismatch);
    store.put(raw::completed("charge#k", "1")).await;
    link.wire.next("TransactWriteItems", Act::LoseRequest);
    assert_eq!(kind(transfer(operation(), store.table(), &runs).await), ErrorKind::OutcomeUnknown);
    assert_eq!(store.counted("effect").await, 0);
}
