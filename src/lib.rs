//! Idempotency for Rust on AWS Lambda, with DynamoDB conditional writes.
#![forbid(unsafe_code)]

mod acquire;
mod clock;
mod error;
mod execution;
mod fingerprint;
#[cfg(feature = "from-env")]
mod from_env;
#[cfg(feature = "http")]
pub mod http;
mod idempotency;
mod key;
#[cfg(feature = "lambda")]
pub mod lambda;
#[cfg(feature = "http")]
mod lambda_deadline;
mod operation;
mod policy;
mod protocol;
mod record;
mod response;
mod schema;
mod table;

pub use crate::error::{Error, ErrorKind, RunError};
pub use crate::execution::Execution;
pub use crate::fingerprint::{Fingerprint, FingerprintBuilder};
#[cfg(feature = "from-env")]
pub use crate::from_env::TABLE_VARIABLE;
pub use crate::idempotency::{Builder, Idempotency};
pub use crate::key::{KeyForm, Scope};
pub use crate::operation::{ErrorReplay, ForgetErrors, Operation, Outcome, ReplayErrors};
pub use crate::policy::{Failure, InProgress, Lease, Outage, Policy, Takeover, Unconfirmed};
pub use crate::schema::{Attribute, TableSchema};
