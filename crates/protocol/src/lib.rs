//! The state machines of [`dynamodb-idempotency`](https://docs.rs/dynamodb-idempotency). They decide
//! which request a call sends next and what the call returns. A machine never waits, sends a request,
//! reads a clock or generates a random number. The library does these things, and passes the results to
//! the machine.
//!
//! [`Acquisition`] acquires a key. [`Tenure`] accompanies the handler, which usually holds the key, and ends its
//! record. Each returns [`Command`]s, and decides by its [`Knowledge`]. The program in `tests/search` explores every
//! state that the machines can reach.
//!
//! Read [`decide`](decide()) first, then [`Condition`], [`Knowledge`], [`Acquisition`], [`Tenure`], [`Renewals`] and
//! [`StepWrite`].
//! `docs/protocol.md` defines the words and the rules.
//!
//! This crate is not an interface for users, and it is not stable.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    rustdoc::private_intra_doc_links,
    reason = "not an interface for users"
)]

mod acquisition;
mod condition;
mod decide;
pub mod fault_point;
mod knowledge;
mod lease;
mod machine;
mod owner;
pub mod policy;
mod record;
mod retention;
mod rules;
mod tenure;
pub mod time;
mod tries;
mod write;

pub use self::acquisition::{Acquisition, CallResult, Goal, Grant, Next, Reason, Resolution};
pub use self::condition::{Condition, Term};
pub use self::decide::{Decision, decide};
pub use self::knowledge::{Knowledge, NoCompletion};
pub use self::lease::{LeaseTerm, Window};
pub use self::machine::{Cause, Command, Machine, Outcome, ReadResult, Reply, WriteResult};
pub use self::owner::OwnerId;
pub use self::record::{Attempts, RecordMeta, State, Status, Version};
pub use self::retention::released_until;
pub use self::rules::{COMPLETION_MARGIN, DATE_RESOLUTION, MIN_LIMIT, Rules};
pub use self::tenure::{
    CommitEnd, CompletionEnd, FailureEnd, Left, NoCommit, Over, Renewal, Renewals,
    STEP_ITEM_MARGIN, StepCommand, StepResult, StepWrite, Tenure, TenureEnd, Verdict,
};
pub use self::tries::{Backoff, Tries};
pub use self::write::{Form, Kind, Write};

#[cfg(test)]
mod tests;
