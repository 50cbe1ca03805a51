//! Support for all tests: a store, a connection to it that can be interrupted, clocks that can be wrong, and
//! records written by hand.
//!
//! - [`Store`] is one table of the engine under test: DynamoDB Local at `DYNAMODB_ENDPOINT`, or
//!   else an embedded engine inside the test's own runtime.
//! - [`Link`] is how one caller reaches it: its [`Wire`] counts requests and can lose, delay or
//!   answer them; its [`LocalClock`] can be wrong.
//! - [`made_up_time`] advances time only while no task can make progress.
//! - [`Gate`] blocks a request or a handler until the test opens it.
//! - [`panicking`] has user code that panics.
//! - [`raw`] has the record layout of `docs/protocol.md`, without the crate's code.

pub(crate) mod access;
pub(crate) mod effects;
pub(crate) mod gate;
#[cfg(feature = "metrics")]
pub(crate) mod listener;
pub(crate) mod local_clock;
pub(crate) mod made_up_time;
pub(crate) mod panicking;
pub(crate) mod raw;
pub(crate) mod store;
pub(crate) mod wire;
pub(crate) mod work;

pub(crate) use self::gate::Gate;
pub(crate) use self::local_clock::LocalClock;
pub(crate) use self::store::{Link, Store};
pub(crate) use self::wire::{Act, Wire};
pub(crate) use self::work::{
    Declined, Runs, charge, charge_held, commit_kind, crates, decline, decline_kept, executed,
    handlers, in_record, is_in_progress, kind, not_run, not_stored, replayed,
};
