//! Answers of any size, and what they cost: on DynamoDB Local at `DYNAMODB_ENDPOINT`, or else an
//! embedded engine.
#![allow(clippy::disallowed_methods, reason = "tests own their time")]
#![allow(clippy::large_futures, reason = "a test runs a few of them")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails so")]

/// Counts what the program holds.
#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

use test_support as support;

mod bodies;
mod curves;
mod damage;
mod hot_keys;
mod memory;
mod parts;
mod points;
mod sizes;
mod steps;
mod strategies;
mod table;
mod unwritten_parts;
