//! Two Lambda functions: a payments API, and a consumer of payment events.
//!
//! # The payments API
//!
//! One handler, on Lambda (`src/main.rs`) and on a local port (`examples/local.rs`).
//!
//! | request | answer |
//! |---|---|
//! | `POST /payments` with `Idempotency-Key`, JSON body | 201, the payment |
//! | `GET /payments` | 200, the payments of the caller's `x-api-key` |
//! | `GET /payments/{id}` | 200, one of them |
//! | `GET /healthz` | 200 |
//!
//! What the card network would say is decided by the `source`: `tok_visa` succeeds, `tok_slow` after
//! 1.5 s, `tok_declined` is refused for good (402), `tok_processing_error` may be tried again (503),
//! and `tok_crash` makes the handler panic.
//!
//! # The consumer
//!
//! [`payment_events`] books each event of an SQS queue into a [`Ledger`]: as a Lambda function
//! (`src/bin/payment_events.rs`), and fed with duplicates, reorderings and crashes by
//! `examples/local-queue.rs`.

mod api;
mod charge;
mod ledger;
mod payment_events;
mod payments;

pub use api::service;
pub use ledger::{Entry, Ledger};
pub use payment_events::{book, payment_events};
pub use payments::{Payment, Payments};
