//! A read that need not be consistent, and what it has shown when the store is gone after it.

use std::time::Duration;

use dynamodb_idempotency::policy::{Failure, FirstRequest, Outage, Takeover};
use dynamodb_idempotency::{ErrorKind, Idempotency, Policy};

use crate::support::raw::{self, Item, OTHER_OWNER, text};
use crate::support::{Act, Link, Runs, Store, charge, kind};

fn open(policy: Policy) -> Policy {
    policy
        .first_request(FirstRequest::Read)
        .outage(Outage::Open)
        .failure(Failure::Replay)
        .takeover(Takeover::Reject)
}

/// A store with this record, which eventually consistent reads show by now.
async fn with_record(record: Item) -> Store {
    let store = Store::open().await;
    store.put(record).await;
    let shows = async || {
        let get = store.raw.get_item().table_name(store.table());
        let item = get.set_key(Some(raw::key("charge#k"))).send().await.unwrap().item;
        item.is_some_and(|item| text(&item, "owner") == OTHER_OWNER)
    };
    while !shows().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    store
}

fn gone_after_a_read(store: &Store, link: &Link) -> Idempotency {
    link.wire.next("GetItem", Act::Deliver);
    link.wire.every("GetItem", Act::LoseRequest);
    link.wire.every("PutItem", Act::LoseRequest);
    store.by(link, open)
}

#[tokio::test]
async fn no_call_runs_unprotected_after_its_read_showed_a_finished_record() {
    for (record, payload) in [
        (raw::failed("charge#k"), ""),
        (raw::abandoned("charge#k"), ""),
        (raw::completed("charge#k", "1"), "another"),
    ] {
        let (link, runs) = (Link::without_retries(), Runs::default());
        let store = with_record(record).await;
        let process = gone_after_a_read(&store, &link);
        let operation = process.operation("charge").key("k");
        let operation =
            if payload.is_empty() { operation.no_payload() } else { operation.payload(payload) };
        assert_eq!(kind(charge(operation, &runs).await), ErrorKind::Unavailable);
        assert_eq!(runs.count(), 0);
    }
}
