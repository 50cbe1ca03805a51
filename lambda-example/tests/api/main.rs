//! The contract of the payments API, as a client sees it: over a local port, and as a Lambda
//! function behind the Runtime API.
//!
//! Runs on an embedded DynamoDB, or on the one that `DYNAMODB_ENDPOINT` names.

#![allow(unreachable_pub, reason = "a test binary has no users")]
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod charges;
mod dynamodb;
mod encrypted_answers;
mod every_crash;
mod function;
mod http;
mod payment_events;
mod payments;
mod playground;
mod server;
mod transfers;
