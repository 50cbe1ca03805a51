//! The fault search runs the crate's real code and the SDK, over a simulated network, under schedules that lose,
//! repeat and delay requests, stop and drop callers, and change their clocks. `README.md` describes the
//! steps, the checks and the broken rules.
#![allow(clippy::disallowed_methods, reason = "tests control their time")]
#![allow(clippy::large_futures, reason = "a test runs few futures")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "how a test fails")]

mod clients;
mod differential;
mod ends;
mod exhaustive;
mod expression;
mod guarantee;
mod known;
mod ledger;
mod mutants;
mod network;
mod random;
mod replay;
mod scenarios;
mod schedule;
mod simulation;
mod step;
mod store;
mod world;
