//! The search for faults: the crate's real code, through the SDK's own HTTP client, under schedules
//! that lose, repeat and delay requests, stop callers, let them die and turn their clocks.
//! `README.md` has the steps, the checks and the broken rules.
#![allow(clippy::disallowed_methods, reason = "tests own their time")]
#![allow(clippy::large_futures, reason = "a test runs a few of them")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails so")]

mod clients;
mod differential;
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
