//! Runs a function, an HTTP handler or any other work **once** per idempotency key.
//!
//! Every repeat gets **the same answer**. The crate needs only one DynamoDB table.
//!
//! ```
//! use dynamodb_idempotency::Idempotency;
//!
//! # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
//! let idempotency = Idempotency::new(client, "idempotency");
//! idempotency.create_table().await?;
//!
//! for attempt in ["first", "second"] {
//!     let outcome = idempotency
//!         .operation("charge")                            // the scope of the key
//!         .key("order-42")
//!         .payload(&("order-42", 1200))                   // a repeat must ask for the same
//!         .run_with_outcome(|_execution| async move {
//!             Ok::<_, std::io::Error>(format!("receipt of the {attempt} call"))
//!         })
//!         .await?;
//!     assert_eq!(outcome.is_replayed(), attempt == "second");
//!     assert_eq!(outcome.into_inner(), "receipt of the first call");
//! }
//! # Ok(()) });
//! ```
//!
//! # What a call gets
//!
//! The crate stores one item for each key, its *record*. A running call holds a *lease*, a time limit
//! in the record.
//!
//! | the record of the key | this call | function | HTTP |
//! |---|---|---|---|
//! | absent, past its retention, or released after a failure | runs | `Ok`, [`Outcome::Executed`] | the handler's response |
//! | completed | gets the stored answer | `Ok`, [`Outcome::Replayed`] | the same response and `Idempotency-Replayed: true` |
//! | belongs to a different request | is rejected | [`ErrorKind::Mismatch`] | 422 |
//! | pending, with a live lease | is rejected, or waits | [`ErrorKind::InProgress { .. }`](ErrorKind::InProgress) | 409 and `Retry-After` |
//! | pending, lease expired, by default | takes over and runs | `Ok`, [`Outcome::Executed`] | the handler's response |
//! | pending, lease expired, with a [hook](Call::reconcile) that knows the answer | gets the hook's answer | `Ok`, [`Outcome::Reconciled`] | the hook's response |
//! | pending, lease expired, takeovers forbidden | is rejected | [`ErrorKind::Abandoned`] | 409 |
//! | failed, kept by [`Policy::failure`], attempts left | runs again | `Ok`, [`Outcome::Executed`] | the handler's response |
//! | failed, kept, no attempts left | gets the failure | the stored error if you keep errors, otherwise [`ErrorKind::Failed`] | the stored response, otherwise 500 |
//! | unknown: DynamoDB cannot be reached | is rejected | [`ErrorKind::Unavailable`] | 503 |
//!
//! # Guarantees
//!
//! At most one execution of a key makes progress at any instant. A completed answer never changes, and
//! a rejected duplicate changes nothing. A crash locks a key for at most one lease, unless the
//! machine's clock jumped. A [commit](Execution::commit) is applied once or not at all. An effect outside
//! DynamoDB can happen twice: use a [`step`](Execution::step) and a [hook](Call::reconcile).
//! `docs/guide/guarantees.md` lists all guarantees and their limits.
//!
//! # HTTP
//!
//! [`Idempotency::http`] makes handlers idempotent by the `Idempotency-Key` header. Use `wrap` for
//! `lambda_http` and `layer` for `tower`. See [`mod@http`] for the rules and [`lambda`] for a complete
//! function.
//!
//! # Messages and events
//!
//! [`Idempotency::event`] makes a `lambda_runtime` handler of any JSON event idempotent; see [`event`].
//! [`Idempotency::sqs`] and similar methods consume queues, streams and topics. They report failures in
//! the form that each source expects; see [`messages`].
//!
//! # Cost
//!
//! The crate stores answers of up to 10 MiB. It [compresses](policy::Compression) them if that saves
//! write units, and [splits](policy::LargeAnswers) large ones into several items. If most requests are
//! repeats, [`FirstRequest`](policy::FirstRequest) reduces the cost. If many repeats reach the same
//! process, [`Builder::local_cache`] reduces it too. `docs/cost.md` has the figures.
//!
//! # Secrets
//!
//! An [`AnswerCodec`] encrypts answers, or transforms them in another way, before they are stored.
//!
//! # Guide
//!
//! `docs/guide/` in the source has a page for each task, and an FAQ that explains every error.
//!
//! # Features
//!
//! | feature | default | what it brings |
//! |---|---|---|
//! | `compression` | yes | compresses stored answers with zstd, a C library; a build without this feature cannot read compressed answers ([`ErrorKind::AnswerUnavailable`]) |
//! | `from-env` | yes | [`Idempotency::from_env`] and [`sdk_config_loader`], with `aws-config`; HTTPS by rustls with ring |
//! | `developer-credentials` | no | for `from-env`: credentials from IAM Identity Center (`aws sso login`) and `credential_process` |
//! | `lambda` | yes | [`lambda`]: the `lambda_http` wrapper; brings `http` and `event` |
//! | `http` | yes, by `lambda` | [`mod@http`]: the `tower` layer |
//! | `axum` | no | [`http::axum`]: `Execution` as an extractor, errors as responses; brings `http` |
//! | `webhook` | no | [`http::webhook`]: signed webhooks of Stripe, GitHub, `OpenAI` and others; brings `http` |
//! | `event` | yes, by `lambda` | [`event`]: the wrapper for `lambda_runtime` handlers of any JSON event |
//! | `messages` | no | [`messages`]: consumers of SQS, Kinesis, DynamoDB Streams, Kafka, SNS, EventBridge and S3; brings `event` |
//! | `rows` | no | [`rows`]: the writes of a commit or transaction, from your own `Serialize` types |
//! | `macros` | no | [`macro@idempotent`], an attribute for async functions |
//! | `metrics` | no | counters and histograms of [`signals`] through the crate `metrics` |
//! | `admin` | no | the hidden API of the command line in `crates/cli/`; it may change with every release |
//! | `testing` | no | [`testing`]: your own handlers with a crash at every point, and a table on an embedded DynamoDB; brings `admin` |
//!
//! Without default features, you provide the DynamoDB client. No Lambda crate or TLS stack is added.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(
        feature = "from-env",
        feature = "lambda",
        feature = "messages",
        feature = "rows",
        feature = "testing"
    )),
    allow(rustdoc::broken_intra_doc_links, reason = "the overview names every feature's items")
)]

#[cfg(feature = "macros")]
#[doc(hidden)]
#[path = "macros.rs"]
pub mod __macros;
mod answer;
mod builder;
mod call;
mod clock;
mod error;
#[cfg(feature = "event")]
pub mod event;
mod fault_injection;
mod fingerprint;
#[cfg(feature = "from-env")]
mod from_env;
#[cfg(all(
    doctest,
    feature = "axum",
    feature = "from-env",
    feature = "lambda",
    feature = "messages",
    feature = "rows",
    feature = "testing",
    feature = "webhook"
))]
mod guide;
#[cfg(feature = "http")]
pub mod http;
mod idempotency;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
#[cfg(feature = "event")]
mod invocation;
mod json;
#[cfg(feature = "event")]
mod json_event;
#[cfg(feature = "lambda")]
pub mod lambda;
#[cfg(feature = "http")]
mod lambda_event;
#[cfg(feature = "messages")]
pub mod messages;
#[cfg(feature = "from-env")]
mod new_pool;
mod operation;
mod ops;
pub mod policy;
#[cfg(feature = "rows")]
pub mod rows;
pub mod signals;
mod store;
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "macros")]
pub use crate::__macros::idempotent;
use dynamodb_idempotency_protocol as protocol;

pub use crate::answer::codec::{AnswerCodec, CodecError};
pub use crate::builder::Builder;
pub use crate::call::at_most_once::{EarlierSend, LookUp};
pub use crate::call::execution::Execution;
pub use crate::call::hook::{Abandoned, Reconciled};
pub use crate::call::kill_switch::DISABLED_ENV;
pub use crate::call::snapshot::SnapshotHooks;
pub use crate::call::transaction::Transaction;
pub use crate::error::{
    ConditionFailed, Error, ErrorKind, MAX_TRANSACTION_ITEMS, MismatchedRecord, RunError,
};
pub use crate::fingerprint::{Fingerprint, FingerprintBuilder};
#[cfg(feature = "from-env")]
pub use crate::from_env::{TABLE_ENV, sdk_config_loader};
pub use crate::idempotency::Idempotency;
#[cfg(any(feature = "event", feature = "http"))]
pub use crate::json::JsonKey;
pub use crate::operation::{Call, CallNeedsPayload, Operation, Outcome, Unset};
#[cfg(feature = "admin")]
#[doc(hidden)]
pub use crate::ops::admin;
pub use crate::ops::preflight::finding::{Finding, Severity};
pub use crate::policy::Policy;
pub use crate::store::key::Scope;
pub use crate::store::key::derived::{DerivedKey, derive_key};
pub use crate::store::schema::TableSchema;
