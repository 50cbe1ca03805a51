//! A payments API: one handler, on Lambda and on a local port.
//!
//! | request | answer |
//! |---|---|
//! | `POST /payments` with `Idempotency-Key`, JSON body | 201, the payment |
//! | `POST /charges` with `Idempotency-Key`, JSON body | 201, the card network's charge |
//! | `GET /payments` | 200, the payments of the caller's `x-api-key` |
//! | `GET /payments/{id}` | 200, one of them |
//! | `POST /transfers` with `Idempotency-Key`, JSON body | 201; 402, which is stored, without funds |
//! | `GET /accounts/{name}` | 200, the balance; a new account has 10,000 |
//! | `GET /healthz` | 200 |
//!
//! A payment is committed with its answer in one DynamoDB transaction, and a transfer is one
//! transaction and nothing else: neither happens twice or half, wherever the process dies. (What the
//! card network did is another matter; here it only gives its word.)
//!
//! What the card network would say is decided by the `source`: `tok_visa` succeeds, `tok_slow` after
//! 1.5 s, `tok_declined` is refused for good (402), `tok_processing_error` may be tried again (503),
//! and `tok_crash` makes the handler panic; that of `/charges` in its first attempt only, and the next
//! one finds the charge made.

mod api;
mod charge;
mod charges;
mod payments;
mod transfers;

pub use api::service;
pub use payments::{Payment, Payments};
