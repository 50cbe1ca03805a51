//! The guarantees of `docs/protocol.md`, in modules, on a real table: DynamoDB Local at
//! `DYNAMODB_ENDPOINT`, or else an embedded engine.
#![allow(clippy::disallowed_methods, reason = "tests own their time")]
#![allow(clippy::large_futures, reason = "a test runs a few of them")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails so")]

use test_support as support;

#[cfg(feature = "admin")]
mod admin;
mod answer_codec;
mod answers;
mod bad_input;
mod brought_client;
#[cfg(all(feature = "lambda", feature = "messages", feature = "metrics"))]
mod canaries;
#[cfg(feature = "http")]
mod capacity;
mod commit;
#[cfg(feature = "internals")]
mod conditions;
mod deployment;
mod derived_keys;
#[cfg(all(unix, feature = "developer-credentials"))]
mod developer_credentials;
mod events;
mod failures;
mod faq;
#[cfg(feature = "internals")]
mod fuzz_corpus;
#[cfg(feature = "lambda")]
mod hook_commits;
mod http;
mod keys;
mod kill_switch;
mod local_cache;
mod loss;
#[cfg(feature = "messages")]
mod messages;
mod mismatch;
mod odd_answers;
mod one_winner;
mod panics;
mod powertools;
mod preflight;
mod read_first;
mod reconcile;
mod release_on_success;
mod replay;
mod restoring;
mod round_trips;
#[cfg(feature = "rows")]
mod rows;
#[cfg(feature = "testing")]
mod sandbox;
#[cfg(all(feature = "lambda", feature = "messages", feature = "metrics"))]
mod signals;
mod snapshots;
mod steps;
mod stored_until;
mod table;
mod time;
mod transaction;
mod untouched;
mod waiting;
#[cfg(feature = "internals")]
mod writes;
