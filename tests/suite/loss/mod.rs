//! Requests and responses that are lost or late, a store that is out of reach, and callers that are
//! dropped or killed.

pub(crate) mod commit_doubt;
#[cfg(feature = "from-env")]
mod dead_connections;
pub(crate) mod dropped;
mod dropped_commits;
mod hiccups;
#[cfg(feature = "lambda")]
mod killed;
mod outage;
mod retries;
