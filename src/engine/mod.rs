//! Drives the machines of `protocol/`: sends what they ask for, waits, and gives in what came of it.

pub(crate) mod driver;
