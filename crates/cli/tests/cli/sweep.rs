//! `idempotency sweep`

use dynamodb_idempotency::TableSchema;
use serde_json::json;

use crate::support::{Item, Store, abandoned, completed, n, now, pending, s, with};

/// `item`, whose retention ended so long ago.
fn expired(item: Item, minutes: i64) -> Item {
    with(item, "expires_at", n(now() / 1000 - minutes * 60))
}

/// A part of a large answer.
fn part(pk: &str) -> Item {
    let mut item = completed(pk);
    item.retain(|name, _| ["pk", "owner", "expires_at", "format"].contains(&name.as_str()));
    item
}

/// What may go, and what may not.
fn items() -> (Vec<Item>, Vec<Item>) {
    let gone = vec![
        expired(completed("payments#done"), 61),
        expired(with(completed("payments/%t/acme#failed"), "status", s("FAILED")), 90),
        expired(with(completed("payments#released"), "status", s("RELEASED")), 61),
        expired(abandoned("payments#abandoned", 90_000), 61),
        expired(part("payments/%p/0a#1f/0"), 61),
    ];
    let stay = vec![
        expired(completed("payments#expired recently"), 59),
        completed("payments#kept"),
        abandoned("payments#stuck", 90_000),
        // Whatever wrote that: its owner may be at work.
        expired(pending("payments#live"), 61),
        expired(part("payments/%p/0a#1f/1"), 59),
        // Not ours to judge.
        expired(with(completed("payments#newer"), "format", n(2)), 61),
        expired(with(part("payments/%p/0a#1f/2"), "format", n(2)), 61),
        expired(part("foreign"), 61),
        expired(part("some#body's"), 61),
    ];
    (gone, stay)
}

#[tokio::test]
async fn what_is_long_expired_goes_and_nothing_else() {
    let store = Store::open().await;
    let (gone, stay) = items();
    for item in gone.iter().chain(&stay) {
        store.put(item.clone()).await;
    }
    let counted = store.json(&["sweep"]).await;
    assert_eq!((&counted["expired"], &counted["deleted"]), (&json!(5), &json!(0)));
    for item in &gone {
        assert!(store.item(item["pk"].as_s().unwrap()).await.is_some());
    }

    let swept = store.json(&["sweep", "--delete"]).await;
    assert_eq!((&swept["expired"], &swept["deleted"]), (&json!(5), &json!(5)));
    assert_eq!(swept["read"]["items"], 14);
    for item in &gone {
        assert_eq!(store.item(item["pk"].as_s().unwrap()).await, None);
    }
    for item in &stay {
        assert_eq!(store.item(item["pk"].as_s().unwrap()).await.as_ref(), Some(item));
    }

    let again = store.run(&["sweep", "--delete"]).await;
    assert_eq!(again.code, 0);
    assert!(again.out.starts_with("0 items have been expired for more than an hour"), "{again:?}");
    assert!(again.err.contains("`payments#newer` is not counted"), "{again:?}");
}

#[tokio::test]
async fn a_sweep_keeps_to_its_scope() {
    let store = Store::open().await;
    for pk in ["payments#k", "payments/%t/acme#k", "payments/%p/0a#1f/0", "refunds#k"] {
        let item = if pk.contains("%p") { part(pk) } else { completed(pk) };
        store.put(expired(item, 120)).await;
    }
    let swept = store.json(&["sweep", "--delete", "--scope", "payments"]).await;
    assert_eq!(swept["deleted"], 3);
    assert!(store.item("refunds#k").await.is_some());
}

#[tokio::test]
async fn a_partition_is_swept_and_the_rest_of_the_table_left_alone() {
    let schema = TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK");
    let store = Store::with_schema(schema).await;
    let at = |partition: &str| {
        let mut item = expired(completed("payments#k"), 120);
        let own = item.remove("pk").expect("a key");
        with(with(item, "SK", own), "PK", s(partition))
    };
    for partition in ["IDEMPOTENCY", "ORDERS"] {
        store.put(at(partition)).await;
    }
    let keys = ["--composite-key", "PK=IDEMPOTENCY,SK"];
    let swept = store.json(&[&["sweep", "--delete"], &keys[..]].concat()).await;
    assert_eq!(swept["deleted"], 1);
    let left = store.client.scan().table_name(&store.table).send().await.unwrap();
    let left: Vec<_> = left.items().iter().map(|item| &item["PK"]).collect();
    assert_eq!(left, [&s("ORDERS")]);
}
