//! How requests and units grow. `cargo xtask bench --curves` reads the rows that the ignored tests print.

use std::time::Duration;

use dynamodb_idempotency::messages::{Message, MessageKey, events::sqs::SqsMessage};
use dynamodb_idempotency::policy::InProgress;
use dynamodb_idempotency::{Policy, Scope};
use futures::future::join_all;
use lambda_http::lambda_runtime::{Context, LambdaEvent};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::bodies::Kind;
use crate::points::{ANSWERS, RECORDS, TENANTS, sqs_event};
use crate::steps;
use crate::support::{Gate, Link, Runs, Store, charge, executed, replayed};
use crate::table::{Bench, Cost, WRITE_FIRST};

const STEPS: [u32; 8] = [1, 2, 5, 10, 20, 50, 100, 200];
const WAITING: [u32; 7] = [1, 3, 10, 30, 100, 300, 1_000];

/// Messages and tenants that are counted: the engine takes minutes for more.
const COUNTED: u32 = 1_000;
/// How long the handler runs that others wait for.
const RUNNING: Duration = Duration::from_secs(2);

fn print_row(curve: &str, x: impl Into<Value>, mut row: Value) {
    (row["curve"], row["x"]) = (curve.into(), x.into());
    println!("curve {row}");
}

fn requests(link: &Link) -> u32 {
    u32::try_from(link.wire.requests().len()).unwrap()
}

fn counted(all: &[u32]) -> impl Iterator<Item = u32> {
    all.iter().copied().filter(|number| *number <= COUNTED)
}

/// Prints the first `points` of each curve.
async fn print(points: usize) {
    for steps in STEPS.into_iter().take(points) {
        let steps::Cost { all, renewal, repeat, requests } = steps::cost(steps).await;
        let row = json!({
            "writes": all, "requests": requests, "renewal": renewal, "repeat": repeat,
        });
        print_row("steps", steps, row);
    }
    let bench = Bench { store: Store::open().await };
    for bytes in ANSWERS.into_iter().take(points) {
        let row = bench.row(WRITE_FIRST, Kind::Json, bytes).await;
        let (Cost { requests, writes, .. }, replay) = (row.first, row.replay.unwrap());
        let row = json!({
            "first_requests": requests, "first_writes": writes,
            "replay_requests": replay.requests, "replay_writes": replay.writes, "replay_reads": replay.reads,
        });
        print_row("answer", bytes, row);
    }
    for callers in WAITING.into_iter().take(points) {
        let requests = waiting(callers).await;
        let row = json!({
            "requests": requests, "requests_each": f64::from(requests) / f64::from(callers),
        });
        print_row("waiting", callers, row);
    }
    for records in counted(&RECORDS).take(points) {
        let requests = batch(records).await;
        let row = json!({
            "requests": requests, "requests_each": f64::from(requests) / f64::from(records),
        });
        print_row("batch", records, row);
    }
    for tenants in counted(&TENANTS).take(points) {
        let requests = each_tenant(tenants).await;
        print_row(
            "tenants",
            tenants,
            json!({ "requests": f64::from(requests) / f64::from(tenants) }),
        );
    }
}

/// The requests of callers in one process that wait for a handler in another one.
async fn waiting(callers: u32) -> u32 {
    let (store, link, runs, gate) =
        (Store::open().await, Link::default(), Runs::default(), Gate::default());
    let (owner, process) = (store.idempotency(), store.over(&link));
    let wait = |policy: Policy| policy.in_progress(InProgress::Wait { timeout: RUNNING * 10 });
    let running = async {
        let operation = owner.operation("charge").key("k").no_payload();
        let run = operation.run(async |_| {
            gate.pass().await;
            tokio::time::sleep(RUNNING).await;
            Ok::<_, std::convert::Infallible>(format!("run {}, attempt 1", runs.add()))
        });
        run.await.unwrap()
    };
    let (_, outcomes) = tokio::join!(running, async {
        gate.reached().await;
        gate.open();
        let call = || process.operation("charge").policy(wait).unwrap().key("k").no_payload();
        join_all((0..callers).map(|_| charge(call(), &runs))).await
    });
    assert!(outcomes.into_iter().all(|outcome| outcome.unwrap() == replayed(1, 1)));
    requests(&link)
}

/// The requests for an event with so many messages, each with its own key.
async fn batch(records: u32) -> u32 {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let ran = runs.clone();
    let consumer = store.over(&link).sqs("book").key(MessageKey::json("/order"));
    let service = consumer.handler(move |_: Message<SqsMessage>, _| {
        ran.add();
        std::future::ready(Ok::<_, String>(()))
    });
    let event = LambdaEvent::new(sqs_event(records).parse().unwrap(), Context::default());
    let response = service.unwrap().oneshot(event).await.unwrap();
    assert_eq!((response.batch_item_failures.len(), runs.count()), (0, records));
    requests(&link)
}

/// The requests of first runs with the same key, one for each tenant.
async fn each_tenant(tenants: u32) -> u32 {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    for tenant in 0..tenants {
        let scope = Scope::new("charge").tenant(&tenant.to_string());
        let outcome = charge(idempotency.operation(scope).key("k").no_payload(), &runs).await;
        assert_eq!(outcome.unwrap(), executed(tenant + 1, 1));
    }
    requests(&link)
}

#[tokio::test]
#[ignore = "prints the rows"]
async fn print_all_points() {
    print(usize::MAX).await;
}

#[tokio::test]
#[ignore = "prints the rows"]
async fn print_first_points() {
    print(2).await;
}
