//! The built program, against DynamoDB Local at `DYNAMODB_ENDPOINT`, or else an embedded engine.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails so")]

mod bad_input;
mod block;
mod copy;
mod doctor;
mod manual;
#[cfg(unix)]
mod pages;
mod release;
mod scans;
mod show;
mod support;
mod sweep;
mod watch;
