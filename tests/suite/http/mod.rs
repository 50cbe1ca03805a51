//! The rules of HTTP, in each place that the crate works in.
//!
//! - [`everywhere`](site::everywhere) has a test run around a `service_fn` and around an axum `Router`,
//!   both by way of real Lambda events, and as a layer of a server that listens on a socket.
//! - [`Api::check`](site::Api::check) sends requests and compares each response's
//!   [`outcome`](message::outcome), such as `201 replay` or `422 Mismatch`.
//! - [`Function`](function::Function) takes an event's JSON and gives the answer's.
//! - [`Kind`](event::Kind) makes events of requests, as each of Lambda's HTTP services does.

use std::time::Duration;

mod client;
mod event;
pub(crate) mod function;
pub(crate) mod message;
mod multipart;
pub(crate) mod site;

mod answered_by;
mod axum_layers;
mod axum_router;
mod axum_types;
mod commit;
mod configuration;
mod cut_off;
mod dropped;
mod executions;
mod failures;
mod fingerprints;
mod gone_clients;
mod grpc;
mod hooks;
mod in_progress;
mod keys;
mod lambda_events;
mod leases;
mod long_lived_server;
mod openapi;
mod outcomes;
mod own_errors;
mod panics;
mod payload;
mod places;
mod problems;
mod reconcile;
mod replays;
mod sizes;
mod streaming;
mod switched_off;
mod tenants;
mod transactions;
#[cfg(feature = "webhook")]
mod webhooks;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(600);
