//! What the crate costs, beside bare SDK calls that put the same bytes on the wire.
//!
//! [`cases`] has each thing that a call can come to twice: with the crate, and as the SDK calls that
//! somebody would write by hand. Both talk to [`canned`] answers in the same process, so that what
//! differs is the crate alone. `measure/` runs the binaries and writes `benches/figures.md` (`cargo xtask bench`).

pub mod canned;
pub mod cases;
pub mod order;
pub mod raw;
