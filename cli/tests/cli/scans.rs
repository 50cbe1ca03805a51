//! `idempotency stuck` and `idempotency stats`

use serde_json::json;

use crate::support::{Store, abandoned, completed, n, pending, s, with};

async fn filled() -> Store {
    let store = Store::open().await;
    for item in [
        abandoned("payments#old", 7_300),
        with(abandoned("payments/tenant-7#young", 120), "attempt", n(3)),
        with(abandoned("payments#gone", 7_200), "expires_at", n(1_000_000_000)),
        pending("payments#live"),
        completed("payments#done"),
        with(with(completed("refunds#failed"), "status", s("FAILED")), "attempt", n(2)),
    ] {
        store.put(item).await;
    }
    store
}

#[tokio::test]
async fn stuck_lists_what_nobody_holds_the_longest_first() {
    let store = filled().await;
    let stuck = store.json(&["stuck"]).await;
    let keys: Vec<_> = stuck.as_array().unwrap().iter().map(|one| &one["key"]).collect();
    assert_eq!(keys, ["old", "young"]);
    assert_eq!(stuck[1]["scope"], "payments/tenant-7");
    assert_eq!(stuck[1]["attempt"], 3);

    let older = store.json(&["stuck", "--older-than", "1h"]).await;
    assert_eq!(older.as_array().unwrap().len(), 1);

    let text = store.run(&["stuck"]).await.out;
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("SCOPE"), "{text}");
    assert!(lines.next().unwrap().contains("2 h"), "{text}");
    assert!(text.contains("2 operations are stuck"), "{text}");
}

#[tokio::test]
async fn nothing_stuck_is_said() {
    let store = Store::open().await;
    let text = store.run(&["stuck"]).await;
    assert_eq!((text.code, text.out.starts_with("0 operations are stuck")), (0, true), "{text:?}");
    assert_eq!(store.json(&["stuck"]).await, json!([]));
}

#[tokio::test]
async fn stats_count_every_record_once() {
    let store = filled().await;
    let stats = store.json(&["stats"]).await;
    let payments = json!({
        "in_progress": 1, "abandoned": 2, "completed": 1, "failed": 0, "expired": 1, "retried": 1,
    });
    assert_eq!(stats["operations"]["payments"], payments);
    assert_eq!(stats["operations"]["refunds"]["failed"], 1);
    assert_eq!((&stats["items"], &stats["unreadable"]), (&json!(6), &json!(0)));
    assert!(stats["read_units"].as_f64().unwrap() > 0.0);

    let scopes = store.json(&["stats", "--scopes"]).await;
    assert_eq!(scopes["operations"]["payments/tenant-7"]["abandoned"], 1);
    let text = store.run(&["stats"]).await.out;
    assert!(text.contains("OPERATION") && text.contains("6 items were read"), "{text}");
}

/// More than one page of 1 MB, in any number of parts, within any limit.
#[tokio::test]
async fn a_large_table_is_read_to_its_end() {
    let store = Store::open().await;
    let filler = s(&"x".repeat(150_000));
    for number in 0..16 {
        store.put(with(abandoned(&format!("payments#{number}"), 60), "note", filler.clone())).await;
    }
    for options in [&["--parts", "1"][..], &["--parts", "7"], &["--max-units", "0"]] {
        let stats = store.json(&[&["stats"], options].concat()).await;
        assert_eq!(stats["operations"]["payments"]["abandoned"], 16, "{options:?}");
        let stuck = store.json(&[&["stuck"], options].concat()).await;
        assert_eq!(stuck.as_array().unwrap().len(), 16, "{options:?}");
    }
}

#[tokio::test]
async fn what_is_no_record_is_told_and_not_counted() {
    let store = filled().await;
    store.put([("pk".to_owned(), s("somebody's"))].into()).await;
    store.put(with(pending("payments#newer"), "format", n(9))).await;
    let stats = store.run(&["stats", "--json"]).await;
    assert_eq!((stats.code, &stats.json()["unreadable"]), (0, &json!(2)), "{stats:?}");
    assert!(stats.err.contains("format 9") && stats.err.contains("somebody's"), "{stats:?}");
    let stuck = store.run(&["stuck"]).await;
    assert!(stuck.err.contains("warning: `payments#newer` is not counted"), "{stuck:?}");
}
