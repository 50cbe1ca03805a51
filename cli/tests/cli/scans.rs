//! `idempotency stuck` and `idempotency stats`

use dynamodb_idempotency::{Compression, LargeAnswers, Policy};
use serde_json::json;

use crate::support::{Store, abandoned, completed, n, pending, s, with};

async fn filled() -> Store {
    let store = Store::open().await;
    for item in [
        abandoned("payments#old", 7_300),
        with(abandoned("payments/%t/acme#young", 120), "attempt", n(3)),
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
    assert_eq!(stuck[1]["scope"], "payments/%t/acme");
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
    assert_eq!(scopes["operations"]["payments/%t/acme"]["abandoned"], 1);
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

/// Nothing but what was asked for: the bar is for who watches.
#[tokio::test]
async fn who_does_not_watch_sees_no_progress() {
    let store = filled().await;
    for command in ["stats", "stuck"] {
        let ended = store.run(&[command]).await;
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{command}: {ended:?}");
        assert!(!ended.out.contains(['\r', '\u{1b}']), "{command}: {ended:?}");
    }
}

/// The other way round: on a terminal something is drawn, and gone at the end.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_watches_sees_progress() {
    let store = filled().await;
    let ended = store.run_on_a_terminal(&["stats"], "").await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains('\u{1b}') && ended.out.contains("6 items were read"), "{ended:?}");
}

/// The items beside a record are read, and are none themselves.
#[tokio::test]
async fn the_parts_of_an_answer_are_no_records() {
    let store = Store::open().await;
    let in_parts = |policy: Policy| {
        let policy = policy.compression(Compression::Off);
        policy.large_answers(LargeAnswers::InParts { above: 1024 })
    };
    store.done(store.builder().policy(in_parts), "large", &"x".repeat(70_000)).await;
    store.put(abandoned("payments#dead", 60)).await;
    let parts = store.items().await.len() - 2;
    assert!(parts >= 2, "{parts}");

    let stats = store.json(&["stats"]).await;
    let payments = json!({
        "in_progress": 0, "abandoned": 1, "completed": 1, "failed": 0, "expired": 0, "retried": 0,
    });
    assert_eq!(stats["operations"], json!({ "payments": payments }));
    assert_eq!((&stats["items"], &stats["unreadable"]), (&json!(parts + 2), &json!(0)));
    let by_scope = store.json(&["stats", "--scopes"]).await;
    assert_eq!(by_scope["operations"], json!({ "payments": payments }));

    let stuck = store.run(&["stuck"]).await;
    assert!(stuck.out.contains("dead") && stuck.out.contains("1 operation is stuck"), "{stuck:?}");
    assert_eq!(stuck.err, "");
}
