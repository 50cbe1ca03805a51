//! How often a body is copied, beyond what the same calls by hand copy.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails so")]

use std::alloc::System;

use benches::cases::{self, Case, Prepare};
use benches::order;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The bytes that one call asks for.
fn bytes(runtime: &Runtime, prepare: &Prepare) -> usize {
    const CALLS: usize = 10;
    for _ in 0..3 {
        runtime.block_on(prepare()).unwrap();
    }
    let calls = (0..CALLS).map(|_| {
        let work = prepare();
        let region = Region::new(ALLOCATOR);
        runtime.block_on(work).unwrap();
        region.change().bytes_allocated
    });
    calls.sum::<usize>() / CALLS
}

/// Nothing else runs in this process: what is counted is the call's.
#[test]
fn a_json_body_is_copied_once_and_an_answer_never() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cases = runtime.block_on(cases::all()).unwrap();
    let own = |name: &str| {
        let case: &Case = cases.iter().find(|case| case.name == name).expect(name);
        bytes(&runtime, &case.ours).checked_signed_diff(bytes(&runtime, &case.bare)).unwrap()
    };
    let length = |bytes| isize::try_from(order::text(bytes).len()).unwrap();
    let longer = length(100 * 1024) - length(10 * 1024);
    // The canonical form of the request's JSON is one copy. The handler creates its answer, and
    // `lambda_http` copies it into another body.
    for (call, copies) in [("HTTP first run", 3), ("HTTP replay", 1)] {
        let more = own(&format!("{call}, 100 KB")) - own(&format!("{call}, 10 KB"));
        let of_a_copy = more * 100 / longer;
        println!("{call}: {more} bytes more for a body that is {longer} longer");
        assert!(of_a_copy < copies * 100 + 10, "{call}: {of_a_copy} % of a copy");
    }
}
