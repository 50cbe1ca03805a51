//! A payments API: one handler, on Lambda and on a local port.
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

mod api;
mod charge;
mod payments;

pub use api::service;
pub use payments::{Payment, Payments};
