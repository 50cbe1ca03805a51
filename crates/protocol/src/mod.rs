//! The protocol, pure: what a call knows, what it sends next, and what may be told. Nothing here waits,
//! sends, draws lots or asks a clock; `engine/` does, and gives in what came of it.
//!
//! Two machines stand on one [`Knowledge`]: [`Acquire`] on its way to a key, and [`End`] of an
//! execution. `search/` looks at every state that they can come to.

mod acquire;
mod decide;
mod end;
mod knowledge;
mod lease;
mod record;
mod rules;
pub(crate) mod time;
mod tries;
mod write;

#[cfg(feature = "admin")]
pub(crate) use self::acquire::released_until;
pub(crate) use self::acquire::{Acquire, First, Goal, Granted, Reason, Resolution, Stop, Told};
#[cfg(feature = "fuzzing")]
pub(crate) use self::decide::{Decision, decide};
pub(crate) use self::end::{End, Ended, Leaving, NoCommit, Renewal};
pub(crate) use self::lease::Window;
pub(crate) use self::record::{Header, State, Status, Version};
pub(crate) use self::rules::{COMPLETION_MARGIN, MIN_LIMIT, Rules};
pub(crate) use self::tries::Tries;
pub(crate) use self::write::{Cause, Command, Form, Guard, Machine, Outcome, Reply, Write};
