//! How CPU and memory of a call grow, with responses from memory: one line of JSON for each point of the
//! curves of `benches/figures.md`.
//!
//! `curves [POINTS]`: the first so many points of each curve, each in one short turn. The allocator counts, which
//! adds some percent to the CPU.

use std::alloc::System;
use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use anyhow::{Result, ensure};
use benches::at_work::AtWork;
use benches::canned::Canned;
use benches::cpu;
use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::lambda::LambdaResponse;
use dynamodb_idempotency::messages::{Message, MessageKey, events::sqs::SqsMessage};
use dynamodb_idempotency::{Idempotency, Outcome, RunError, Scope};
use lambda_http::lambda_runtime::{Context, LambdaEvent};
use lambda_http::{Body, Request, Response, service_fn};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::{Builder, Runtime};
use tower_service::Service;

#[path = "../../../tests/cost/bodies.rs"]
#[expect(
    dead_code,
    clippy::expect_used,
    reason = "the test target `cost` counts the units of the same answers"
)]
mod bodies;
#[path = "../../../tests/cost/points.rs"]
mod points;

use bodies::Kind;
use points::{ANSWERS, RECORDS, TENANTS, sqs_event};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The points of a curve are measured in turns, so that what disturbs the machine for a while disturbs all of them.
const TURNS: usize = 7;
/// The shortest turn of one point.
const TURN: Duration = Duration::from_millis(100);

const CALLS: [u32; 8] = [1, 3, 10, 30, 100, 300, 1_000, 2_000];
const ENTRIES: [u32; 7] = [0, 1, 10, 100, 1_000, 10_000, 100_000];

/// Some calls; returns their number.
type Calls = Box<dyn FnMut(&Runtime) -> Result<u32>>;

/// One point of a curve.
struct Point {
    /// The curve, the place of the point, and what is counted there.
    row: Value,
    /// What the CPU time of `calls` is called in the row.
    cpu: &'static str,
    calls: Calls,
}

fn main() -> Result<()> {
    let points = std::env::args().nth(1).map(|points| points.parse::<usize>()).transpose()?;
    let (turns, turn) = if points.is_some() { (1, Duration::ZERO) } else { (TURNS, TURN) };
    let points = points.unwrap_or(usize::MAX);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let answers = ANSWERS.into_iter().take(points);
    let answers = answers.map(|bytes| answer(&runtime, bytes)).collect::<Result<Vec<_>>>()?;
    measure(&runtime, answers.into_iter().flatten().collect(), turns, turn)?;
    for (points_of, at) in [
        (concurrent as fn(&Runtime, u32) -> Result<Point>, &CALLS[..]),
        (batch, &RECORDS),
        (cached, &ENTRIES),
        (|_, count| Ok(tenants(count)), &TENANTS),
    ] {
        let points = at.iter().take(points).map(|x| points_of(&runtime, *x));
        measure(&runtime, points.collect::<Result<_>>()?, turns, turn)?;
    }
    Ok(())
}

/// Prints the rows of a curve, with the CPU time of a call in microseconds: that of the fastest turn, because other
/// programs only slow a turn down.
fn measure(runtime: &Runtime, mut points: Vec<Point>, turns: usize, turn: Duration) -> Result<()> {
    let mut least = vec![f64::INFINITY; points.len()];
    for point in &mut points {
        // The first calls fill what the SDK and the crate keep.
        (point.calls)(runtime)?;
    }
    for _ in 0..turns {
        for (point, least) in points.iter_mut().zip(&mut least) {
            let (start, mut calls) = (cpu::of_thread(), 0);
            let taken = loop {
                calls += (point.calls)(runtime)?;
                let taken = cpu::of_thread().saturating_sub(start);
                if taken >= turn {
                    break taken;
                }
            };
            *least = least.min(taken.as_secs_f64() * 1e6 / f64::from(calls));
        }
    }
    for (mut point, least) in points.into_iter().zip(least) {
        point.row[point.cpu] = json!(least);
        println!("{}", point.row);
    }
    Ok(())
}

fn idempotency(responses: Canned) -> Idempotency {
    Idempotency::new(responses.client(), "idempotency")
}

/// A first run and a replay of a JSON answer, over HTTP, with the default policy.
fn answer(runtime: &Runtime, bytes: usize) -> Result<[Point; 2]> {
    let body = String::from_utf8(Kind::Json.bytes(bytes))?;
    let (recorded, heard) = Canned::applied().recorded();
    runtime.block_on(exchanges(recorded, &body)?(false))?;
    let point = |cpu, responses, is_replay| {
        let exchange = exchanges(responses, &body)?;
        let calls: Calls =
            Box::new(move |runtime| runtime.block_on(exchange(is_replay)).map(|()| 1));
        anyhow::Ok(Point { row: json!({ "curve": "answer", "x": bytes }), cpu, calls })
    };
    Ok([
        point("first_cpu", Canned::applied(), false)?,
        point("replay_cpu", Canned::stored(&heard.take()), true)?,
    ])
}

/// Requests to an HTTP function that answers with `body`.
fn exchanges(responses: Canned, body: &str) -> Result<impl Fn(bool) -> BoxedWork + use<>> {
    let (answer, bytes) = (body.to_owned(), body.len());
    let handler = service_fn(move |_: Request| {
        let response = Response::builder().status(201).header("content-type", "application/json");
        std::future::ready(response.body(Body::Text(answer.clone())))
    });
    let service = idempotency(responses).http("payments").wrap(handler)?;
    Ok(move |is_replay| -> BoxedWork {
        let mut service = service.clone();
        Box::pin(async move {
            let request = http::Request::post("https://api.example.com/payments");
            let request =
                request.header("idempotency-key", "k").header("content-type", "application/json");
            let response = service.call(request.body(Body::Text("{}".to_owned()))?).await?;
            let response = LambdaResponse::into_inner(response);
            let replayed = response.headers().contains_key("idempotency-replayed");
            ensure!(replayed == is_replay, "{response:?}");
            ensure!(response.body().len() == bytes, "{} bytes", response.body().len());
            Ok(())
        })
    })
}

type BoxedWork = std::pin::Pin<Box<dyn Future<Output = Result<()>>>>;

/// First runs with different keys, whose handlers are at work at the same time.
fn concurrent(runtime: &Runtime, calls: u32) -> Result<Point> {
    let idempotency = idempotency(Canned::applied());
    for _ in 0..3 {
        runtime.block_on(is_replayed(&idempotency, Scope::new("payments"), 0))?;
    }
    let mut at_work = AtWork::new(calls);
    let region = Region::new(ALLOCATOR);
    runtime.block_on(at_work.start(&idempotency))?;
    let bytes = live_bytes(&region) / calls as usize;
    runtime.block_on(at_work.finish())?;
    let work = move |runtime: &Runtime| {
        runtime.block_on(async {
            let mut at_work = AtWork::new(calls);
            at_work.start(&idempotency).await?;
            at_work.finish().await
        })?;
        Ok(calls)
    };
    let row = json!({ "curve": "concurrent", "x": calls, "bytes": bytes });
    Ok(Point { row, cpu: "cpu", calls: Box::new(work) })
}

fn live_bytes(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

/// The messages of one event from SQS, each with its own key.
fn batch(_: &Runtime, records: u32) -> Result<Point> {
    let consumer = idempotency(Canned::applied()).sqs("book").key(MessageKey::json("/order"));
    let mut service = consumer
        .handler(|_: Message<SqsMessage>, _| std::future::ready(Ok::<_, Infallible>(())))?;
    let event = sqs_event(records);
    let work = move |runtime: &Runtime| {
        let event = LambdaEvent::new(event.parse::<JsonEvent>()?, Context::default());
        let response = runtime.block_on(service.call(event))?;
        ensure!(response.batch_item_failures.is_empty(), "{response:?}");
        Ok(records)
    };
    Ok(Point { row: json!({ "curve": "batch", "x": records }), cpu: "cpu", calls: Box::new(work) })
}

/// One call with the key `order-NUMBER`, and whether its answer was stored before.
async fn is_replayed(idempotency: &Idempotency, scope: Scope, number: u32) -> Result<bool> {
    let operation = idempotency.operation(scope).key(format!("order-{number}")).no_payload();
    match operation.run_with_outcome(async |_| Ok::<_, Infallible>("paid ".repeat(40))).await {
        Ok(outcome) => Ok(matches!(outcome, Outcome::Replayed(_))),
        Err(RunError::Idempotency(error)) => Err(error.into()),
        Err(RunError::Handler(never)) => match never {},
    }
}

/// Replays from a local cache with so many answers of 200 bytes; without an entry, from a record.
fn cached(runtime: &Runtime, entries: u32) -> Result<Point> {
    let scope = || Scope::new("payments");
    let row = |bytes: Option<usize>| json!({ "curve": "cache", "x": entries, "bytes": bytes });
    if entries == 0 {
        let (recorded, heard) = Canned::applied().recorded();
        runtime.block_on(is_replayed(&idempotency(recorded), scope(), 0))?;
        let idempotency = idempotency(Canned::stored(&heard.take()));
        let work = move |runtime: &Runtime| {
            ensure!(runtime.block_on(is_replayed(&idempotency, scope(), 0))?, "it ran again");
            Ok(1)
        };
        return Ok(Point { row: row(None), cpu: "cpu", calls: Box::new(work) });
    }
    let client = Canned::applied().client();
    let region = Region::new(ALLOCATOR);
    // More than the crate expects of an entry, so that none is evicted.
    let capacity = (entries as usize * 700).max(16 << 10);
    let idempotency = Idempotency::builder(client, "idempotency").local_cache(capacity).build()?;
    runtime.block_on(async {
        for number in 0..entries {
            ensure!(!is_replayed(&idempotency, scope(), number).await?, "it did not run");
        }
        Ok(())
    })?;
    let bytes = live_bytes(&region) / entries as usize;
    let mut number = 0;
    let work = move |runtime: &Runtime| {
        runtime.block_on(async {
            for _ in 0..1_000 {
                // A prime: the entries are not read in the order in which they were made.
                number = (number + 7_919) % entries;
                ensure!(is_replayed(&idempotency, scope(), number).await?, "it ran again");
            }
            Ok(1_000)
        })
    };
    Ok(Point { row: row(Some(bytes)), cpu: "cpu", calls: Box::new(work) })
}

/// First runs with the same key, one for each tenant.
fn tenants(tenants: u32) -> Point {
    let idempotency = idempotency(Canned::applied());
    // All turns together have calls of each tenant.
    let (mut tenant, calls) = (0, tenants.min(2_000));
    let work = move |runtime: &Runtime| {
        runtime.block_on(async {
            for _ in 0..calls {
                tenant = (tenant + 1) % tenants;
                let scope = Scope::new("payments").tenant(&tenant.to_string());
                ensure!(!is_replayed(&idempotency, scope, 0).await?, "it did not run");
            }
            Ok(calls)
        })
    };
    Point { row: json!({ "curve": "tenants", "x": tenants }), cpu: "cpu", calls: Box::new(work) }
}
