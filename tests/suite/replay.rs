//! A completed operation gives its answer again, byte for byte, and runs no more.

use crate::support::raw::{self, number, status, text};
use crate::support::{Charging, Runs, Store, caller, charge};
use dynamodb_idempotency::Outcome;

#[tokio::test]
async fn a_repeat_gets_the_first_answer_and_does_not_run() {
    let (_store, runs, idempotency) = caller().await;
    let first = charge(idempotency.charging(), &runs).await.unwrap();
    assert_eq!(first, Outcome::Executed("run 1, attempt 1".to_owned()));
    for _ in 0..3 {
        let repeat = charge(idempotency.charging(), &runs).await.unwrap();
        assert!(repeat.is_replayed());
        assert_eq!(repeat.into_inner(), "run 1, attempt 1");
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn the_stored_record_has_the_documented_layout() {
    let (store, runs) = (Store::open().await, Runs::default());
    let before = raw::now();
    charge(store.idempotency().charging(), &runs).await.unwrap();
    let record = store.record("charge#k").await;
    let mut names: Vec<&str> = record.keys().map(String::as_str).collect();
    names.sort_unstable();
    let documented = [
        "attempt",
        "completed_at",
        "created_at",
        "expires_at",
        "fingerprint",
        "format",
        "owner",
        "pk",
        "response",
        "status",
    ];
    assert_eq!(names, documented);
    assert_eq!((status(&record), text(&record, "owner").len()), ("COMPLETED", 32));
    assert_eq!((number(&record, "attempt"), number(&record, "format")), (1, 1));
    assert_eq!(record["fingerprint"], raw::pending("charge#k")["fingerprint"]);
    assert_eq!(record["response"], raw::answer("json", "\"run 1, attempt 1\""));
    let tolerance = 2_000;
    assert!((number(&record, "created_at") - before).abs() < tolerance + 60_000);
    assert!(number(&record, "completed_at") >= number(&record, "created_at") - tolerance);
}
