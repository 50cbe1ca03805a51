//! The two functions as Lambda runs them: their binaries under the Lambda Runtime Interface Emulator,
//! raw events on one side and DynamoDB Local on the other.
//!
//! `cargo xtask e2e` prepares what a deployment would: the tables and the settings of the functions,
//! by the SAM template. Without it these tests cannot run, so they are ignored by `cargo test`.
//!
//! No test asserts how long something takes. What has to happen first is waited for, with a bound
//! that only a broken function meets.

#![allow(unreachable_pub, reason = "a test binary has no users")]
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod alarms;
mod deadlines;
mod deployment;
#[path = "../support/dynamodb.rs"]
mod dynamodb;
mod emulator;
mod event;
mod filter;
mod http;
mod line;
mod managed_instances;
mod owners;
mod page;
mod pages;
mod process;
mod project;
mod queue;
mod restore;
mod runtime_api;
mod settings;
mod snapshot;

use std::time::Duration;

/// Longer than anything takes here; only what is broken meets it.
const PATIENCE: Duration = Duration::from_secs(60);
