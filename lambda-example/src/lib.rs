//! Two Lambda functions: a payments API, and a consumer of payment events.
//!
//! # The payments API
//!
//! One handler, on Lambda (`src/main.rs`) and on a local port (`examples/local/`).
//!
//! | request | answer |
//! |---|---|
//! | `POST /payments` with `Idempotency-Key`, JSON body | 201, the payment |
//! | `POST /charges` with `Idempotency-Key`, JSON body | 201, the card network's charge |
//! | `GET /payments` | 200, the payments of the caller's `x-api-key` |
//! | `GET /payments/{id}` | 200, one of them |
//! | `POST /transfers` with `Idempotency-Key`, JSON body | 201, or a stored 402 if the balance is too low |
//! | `GET /accounts/{name}` | 200, the balance; a new account has 10,000 |
//! | `GET /healthz` | 200 |
//!
//! A payment is committed with its answer in one DynamoDB transaction. A transfer is one transaction as a
//! whole. Neither happens twice or partly, wherever the process crashes.
//!
//! The `source` in the body determines the card network's decision. `tok_visa` succeeds, `tok_slow`
//! succeeds after 1.5 s, `tok_stuck` never responds, `tok_declined` is declined (402),
//! `tok_processing_error` may be retried (503), and `tok_crash` makes the handler panic. The handler of
//! `/charges` panics only in its first attempt, and the next attempt finds the charge.
//!
//! # The consumer
//!
//! [`payment_events`] books each event of an SQS queue into a [`Ledger`]. `src/bin/payment_events.rs` runs
//! it as a Lambda function. `examples/local-queue.rs` feeds it with duplicates, reorderings and crashes.

mod api;
mod charge;
mod charges;
mod dynamodb;
mod ledger;
mod logs;
mod payment_events;
mod payments;
mod transfers;

pub use api::{PAYMENTS_SCOPE, TRANSFERS_SCOPE, service};
pub use ledger::{Entry, Ledger};
pub use logs::{logs, write_logs};
pub use payment_events::{PAYMENT_EVENTS_SCOPE, book, payment_events};
pub use payments::{Payment, Payments};
