//! What operators do with a table: checks at a start, and tools on records.

#[cfg(feature = "admin")]
pub mod admin;
pub(crate) mod preflight;
