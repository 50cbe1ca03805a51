//! Runs one call: drives the machines of `crates/protocol`, calls the handler under its lease, and stores
//! its answer.

pub(crate) mod acquiring;
pub(crate) mod at_most_once;
pub(crate) mod cache;
pub(crate) mod commit;
pub(crate) mod context;
pub(crate) mod core;
pub(crate) mod errors;
pub(crate) mod execution;
pub(crate) mod handler;
pub(crate) mod hook;
pub(crate) mod kill_switch;
pub(crate) mod parts;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod step;
pub(crate) mod step_items;
pub(crate) mod steps;
pub(crate) mod transaction;
pub(crate) mod user_code;
