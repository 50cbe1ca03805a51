//! Allocations of each case, and the memory of a call that waits, as JSON.
//!
//! `allocations [CALLS]`: so many of each case, and so many that wait.

use std::alloc::System;

use anyhow::{Context, Result};
use benches::at_work::AtWork;
use benches::canned::Canned;
use benches::cases::{self, Prepare};
use dynamodb_idempotency::Idempotency;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Calls per measurement.
const TIMES: u32 = 50;
/// Calls that wait at the same time.
const WAITING: u32 = 10_000;

fn main() -> Result<()> {
    let calls = std::env::args().nth(1).map(|calls| calls.parse::<u32>()).transpose()?;
    let (times, waiting) = (calls.unwrap_or(TIMES), calls.unwrap_or(WAITING));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut rows = Vec::new();
    for case in runtime.block_on(cases::all())? {
        let (ours, bare) =
            (count(&runtime, &case.ours, times)?, count(&runtime, &case.bare, times)?);
        rows.push(json!({ "name": case.name, "ours": ours, "bare": bare }));
    }
    let waiting = runtime.block_on(wait(waiting))?;
    println!("{}", json!({ "cases": rows, "bytes_per_waiting_call": waiting }));
    Ok(())
}

/// Per call: how often memory is asked for, and for how much.
fn count(runtime: &Runtime, prepare: &Prepare, times: u32) -> Result<Value> {
    for _ in 0..3 {
        runtime.block_on(prepare())?;
    }
    let (mut calls, mut bytes) = (0, 0);
    for _ in 0..times {
        let work = prepare();
        let region = Region::new(ALLOCATOR);
        runtime.block_on(work)?;
        let change = region.change();
        calls += change.allocations + change.reallocations;
        bytes += change.bytes_allocated;
    }
    let times = times as usize;
    Ok(json!({ "allocations": calls / times, "bytes": bytes / times }))
}

/// Bytes for each of many calls with keys of their own whose handlers are at work: the task, the
/// future in it, and all that the call holds.
async fn wait(waiting: u32) -> Result<usize> {
    let idempotency = Idempotency::new(Canned::applied().client(), "idempotency");
    let mut calls = AtWork::new(waiting);
    let region = Region::new(ALLOCATOR);
    calls.start(&idempotency).await?;
    let change = region.change();
    let live = (change.bytes_allocated - change.bytes_deallocated)
        .checked_div(waiting as usize)
        .context("no call waits")?;
    calls.finish().await?;
    Ok(live)
}
