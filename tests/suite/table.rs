//! The table that `create_table` makes, and records in tables of other shapes.

use aws_sdk_dynamodb::types::{KeyType, TableDescription, TimeToLiveStatus};
use dynamodb_idempotency::{ErrorKind, Idempotency, TableSchema};

use crate::support::raw::{self, Item, s};
use crate::support::{
    Act, Charging, Declined, Gate, Link, Runs, Store, caller, charge, charge_held, decline,
    decline_kept, executed, handlers,
};

async fn described(store: &Store) -> TableDescription {
    let output = store.raw.describe_table().table_name(store.table()).send().await.unwrap();
    output.table.unwrap()
}

/// The attribute that DynamoDB deletes records by, if that is on.
async fn ttl(store: &Store) -> Option<String> {
    let output = store.raw.describe_time_to_live().table_name(store.table()).send().await.unwrap();
    let ttl = output.time_to_live_description?;
    let status = ttl.time_to_live_status.clone()?;
    let is_on = matches!(status, TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling);
    ttl.attribute_name.filter(|_| is_on)
}

fn keys(table: &TableDescription) -> Vec<(&str, KeyType)> {
    let keys = table.key_schema().iter();
    keys.map(|key| (key.attribute_name(), key.key_type().clone())).collect()
}

#[tokio::test]
async fn the_default_table_has_one_key_and_its_ttl_on() {
    let store = Store::open().await;
    assert_eq!(keys(&described(&store).await), [("pk", KeyType::Hash)]);
    assert_eq!(ttl(&store).await.as_deref(), Some("expires_at"));
}

#[tokio::test]
async fn making_a_table_again_changes_nothing() {
    let (store, runs, idempotency) = caller().await;
    charge(idempotency.charging(), &runs).await.unwrap();
    let before = store.record("charge#k").await;
    // A role that sets up a restored table may not create one.
    let link = Link::default();
    link.wire.every("CreateTable", Act::Answer(400, "AccessDeniedException"));
    let restorer = Idempotency::new(store.client(&link), store.table());
    assert!(!restorer.create_table().await.unwrap(), "it was there");
    assert_eq!(store.record("charge#k").await, before);
    assert_eq!(ttl(&store).await.as_deref(), Some("expires_at"));
}

#[tokio::test]
async fn a_time_to_live_on_another_attribute_is_an_error() {
    let store = Store::open().await;
    let schema = TableSchema::default().ttl_attribute("ttl");
    let client = store.client(&Link::default());
    let idempotency = Idempotency::builder(client, store.table()).schema(schema).build().unwrap();
    let error = idempotency.create_table().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("another attribute than `ttl`"), "{error}");
    assert_eq!(ttl(&store).await.as_deref(), Some("expires_at"));
}

/// The TTL attribute has a name that no placeholder of an expression can have.
fn renamed() -> TableSchema {
    TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK").ttl_attribute("ttl.until")
}

fn renamed_key(sk: &str) -> Item {
    Item::from([("PK".to_owned(), s("IDEMPOTENCY")), ("SK".to_owned(), s(sk))])
}

#[tokio::test]
async fn a_composite_key_and_other_names_hold_the_same_record() {
    let (store, runs) = (Store::with_schema(renamed()).await, Runs::default());
    assert_eq!(keys(&described(&store).await), [("PK", KeyType::Hash), ("SK", KeyType::Range)]);
    assert_eq!(ttl(&store).await.as_deref(), Some("ttl.until"));
    charge(store.idempotency().charging(), &runs).await.unwrap();
    let record = store.item_at(renamed_key("charge#k")).await.unwrap();
    let mut names: Vec<&str> = record.keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected = [
        "PK",
        "SK",
        "attempt",
        "completed_at",
        "created_at",
        "fingerprint",
        "format",
        "owner",
        "response",
        "status",
        "ttl.until",
    ];
    assert_eq!(names, expected);
    assert_eq!(raw::status(&record), "COMPLETED");
}

#[tokio::test]
async fn every_write_works_with_other_names() {
    let (store, runs) = (Store::with_schema(renamed()).await, Runs::default());
    let idempotency = store.idempotency();
    let operation = |key: &str| idempotency.operation("charge").key(key).no_payload();
    // Release, and keep a failure.
    handlers(decline(operation("a"), &runs).await);
    let released = store.item_at(renamed_key("charge#a")).await.unwrap();
    assert_eq!(raw::status(&released), "RELEASED");
    handlers(decline_kept(operation("a").replay_errors::<Declined>(), &runs).await);
    let record = store.item_at(renamed_key("charge#a")).await.unwrap();
    assert_eq!(raw::status(&record), "FAILED");
    // Create, take over, and complete late.
    let (gate, later) = (Gate::default(), store.over(&Link::later(3600)));
    let (first, ()) = tokio::join!(charge_held(operation("b"), &runs, &gate), async {
        gate.reached().await;
        let second = charge(later.operation("charge").key("b").no_payload(), &runs).await;
        assert_eq!(second.unwrap(), executed(4, 2));
        gate.open();
    });
    assert!(first.unwrap().is_replayed());
    // Replace what is past its retention.
    let after_retention = store.over(&Link::later(3 * 86_400));
    let again = charge(after_retention.operation("charge").key("b").no_payload(), &runs).await;
    assert_eq!(again.unwrap(), executed(5, 1));
}

#[tokio::test]
async fn a_record_without_the_ttl_attribute_is_an_error_that_names_it() {
    let (store, runs) = (Store::open().await, Runs::default());
    let record = raw::abandoned("charge#k");
    store.put(record.clone()).await;
    let builder = Idempotency::builder(store.client(&Link::default()), store.table());
    let schema = TableSchema::default().ttl_attribute("ttl");
    let renamed = builder.schema(schema).build().unwrap();
    let error = charge(renamed.charging(), &runs).await.unwrap_err();
    let error = error.idempotency().expect("an error of the crate");
    assert_eq!(error.kind(), ErrorKind::UnknownRecord);
    assert!(error.to_string().contains("its attribute `ttl`"), "{error}");
    assert_eq!((runs.count(), store.record("charge#k").await), (0, record));
}

#[tokio::test]
async fn a_table_of_another_application_is_not_changed() {
    let store = Store::with_schema(TableSchema::default().partition_key("id")).await;
    let client = store.client(&Link::default());
    let error = Idempotency::new(client, store.table()).create_table().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("not those of the TableSchema"), "{error}");
}
