//! Leases, clocks and retention: what may happen when, whatever the callers' clocks say.

mod clocks;
mod expired_leases;
mod jumps;
mod late_owner;
mod leases;
mod long_handlers;
mod retention;
