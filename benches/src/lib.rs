//! The cost of the crate, compared with plain SDK calls that send the same bytes.
//!
//! [`cases`] has each outcome of a call twice: with the crate, and as SDK calls written by hand. Both
//! get [`canned`] responses in the same process, so that only the crate differs. `measure/` runs the
//! binaries and writes `benches/figures.md` (`cargo xtask bench`).

pub mod at_work;
pub mod canned;
pub mod cases;
pub mod cpu;
pub mod order;
pub mod raw;
