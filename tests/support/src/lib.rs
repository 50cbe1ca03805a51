//! Support for integration tests: a store, a connection to it that can be interrupted, clocks that can be wrong, and
//! records written by hand.
//!
//! - [`Store`] is one table of the engine under test: DynamoDB Local at `DYNAMODB_ENDPOINT`, or
//!   else an embedded engine inside the test's own runtime.
//! - [`Link`] is one caller's connection to it. Its [`Wire`] counts requests and can lose, delay or
//!   answer them. Its [`LocalClock`] can be wrong.
//! - [`made_up_time`] advances time only while no task can make progress.
//! - [`Gate`] blocks a request or a handler until the test opens it.
//! - [`panicking`] has user code that panics.
//! - [`raw`] has the record layout of `docs/protocol.md`, without the crate's code.
//!
//! Only integration tests can use this crate. It depends on the library, so a unit test would link two
//! copies of it, whose types differ.
#![allow(clippy::disallowed_methods, reason = "tests own their time")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails so")]
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "only the tests of this workspace call it"
)]

pub mod access;
pub mod effects;
pub mod gate;
pub mod listener;
mod local_clock;
pub mod made_up_time;
pub mod panicking;
pub mod raw;
mod store;
pub mod wire;
pub mod work;

pub use self::gate::Gate;
pub use self::local_clock::LocalClock;
pub use self::store::{Link, Store, endpoint};
pub use self::wire::{Act, Wire};
pub use self::work::{
    Charging, Declined, Runs, caller, caller_on, charge, charge_held, commit_kind, crates, decline,
    decline_kept, executed, handlers, in_record, is_in_progress, kind, not_run, not_stored,
    replayed,
};
