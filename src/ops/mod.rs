//! What operators do with a table: checks at the start of a process, and tools for records.

#[cfg(feature = "admin")]
pub mod admin;
pub(crate) mod preflight;
