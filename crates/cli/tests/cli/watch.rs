//! `idempotency watch`

use std::process::Stdio;
use std::time::Duration;

use dynamodb_idempotency::signals::hashed_key;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStdout;

use crate::support::{Store, abandoned, completed, n, pending, program, with};

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Value {
    let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
    let line = line.expect("a line in time").expect("a pipe").expect("a line");
    serde_json::from_str(&line).expect("JSON")
}

#[tokio::test]
async fn each_change_is_a_line_until_the_operation_has_ended() {
    let store = Store::open().await;
    let args = ["--json", "watch", "payments", "k", "--interval", "100ms"];
    let target = ["--endpoint-url", &store.endpoint, "--table", &store.table];
    let mut watch = program(&[&target[..], &args].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();

    assert_eq!(next(&mut lines).await["status"], Value::Null);
    store.put(pending("payments#k")).await;
    assert_eq!(next(&mut lines).await["attempt"], 1);
    store.put(abandoned("payments#k", 5)).await;
    assert!(next(&mut lines).await["abandoned_for_s"].is_number());
    store.put(with(pending("payments#k"), "attempt", n(2))).await;
    assert_eq!(next(&mut lines).await["attempt"], 2);
    store.put(completed("payments#k")).await;
    assert_eq!(next(&mut lines).await["status"], "COMPLETED");
    let ended = tokio::time::timeout(Duration::from_secs(60), watch.wait()).await;
    assert!(ended.expect("it ends").unwrap().success());
}

#[tokio::test]
async fn people_get_words() {
    let store = Store::open().await;
    store.put(completed("payments#k")).await;
    let seen = store.run(&["watch", "payments", "k"]).await;
    assert!(seen.out.contains("attempt 1: COMPLETED, done"), "{seen:?}");
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_up() {
    let store = Store::open().await;
    store.put(pending("payments#k")).await;
    let watch = ["watch", "payments", "k", "--timeout", "300ms", "--interval", "100ms"];
    let seen = store.run(&watch).await;
    assert!(seen.error(7).contains("has not ended"), "{seen:?}");
    assert!(seen.out.contains(&hashed_key("payments#k")), "{seen:?}");
    let for_programs = store.run(&[&["--json"], &watch[..]].concat()).await;
    assert_eq!(for_programs.code, 7, "{for_programs:?}");
    let error: Value = serde_json::from_str(&for_programs.err).unwrap();
    assert_eq!(error["error"]["kind"], "time_up");
}

/// An absent record is reported at once; watching continues, since it may be created later.
#[tokio::test]
async fn watching_an_absent_key_reports_it_and_exits_with_3() {
    let store = Store::open().await;
    let seen = store.run(&["watch", "payments", "k", "--timeout", "200ms"]).await;
    assert!(seen.out.contains("there is no record `payments#k`"), "{seen:?}");
    assert!(seen.error(3).contains("there is no record"), "{seen:?}");
}

#[tokio::test]
async fn with_follow_it_ends_by_its_time_too() {
    let store = Store::open().await;
    store.put(completed("payments#k")).await;
    let args = ["watch", "payments", "k", "--follow", "--timeout", "200ms"];
    let seen = store.run(&args).await;
    assert_eq!(seen.code, 0, "{seen:?}");
    assert!(seen.out.contains("COMPLETED"), "{seen:?}");
}
