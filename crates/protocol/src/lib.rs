//! The state machines of [`dynamodb-idempotency`](https://docs.rs/dynamodb-idempotency): what a call
//! knows, what it sends next and what it returns. Nothing here waits, sends requests, reads a clock or
//! generates random numbers; the library does that and passes in the results.
//!
//! Two machines share one [`Knowledge`]: [`Acquire`] obtains a key, and [`End`] ends an execution. The
//! project's search explores every state that they can reach.
//!
//! This crate is not an interface for users, and makes no promise of stability.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    rustdoc::private_intra_doc_links,
    reason = "not an interface for users"
)]

mod acquire;
mod condition;
mod decide;
mod end;
mod knowledge;
mod lease;
mod owner;
pub mod policy;
mod record;
mod rules;
pub mod time;
mod tries;
mod write;

pub use self::acquire::{
    Acquire, First, Goal, Granted, NothingHappened, Reason, Resolution, Stop, Told, released_until,
};
pub use self::condition::{Condition, Term};
pub use self::decide::{Decision, decide};
pub use self::end::{End, Ended, Leaving, NoCommit, Renewal};
pub use self::knowledge::Knowledge;
pub use self::lease::{LeaseTerm, Window};
pub use self::owner::OwnerId;
pub use self::record::{Header, State, Status, Version};
pub use self::rules::{COMPLETION_MARGIN, DATE_RESOLUTION, MIN_LIMIT, Rules, TooLate};
pub use self::tries::Tries;
pub use self::write::{Cause, Command, Form, Machine, Outcome, Reply, Write};
