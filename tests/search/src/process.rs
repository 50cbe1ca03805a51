//! A process: one caller with its clocks. The caller acquires the key, and then runs its handler.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::clock::Clock;
use crate::hash::{BuildAsIs, hash};
use crate::rows::{Role, Row};
use crate::store::{Item, Wire};
use dynamodb_idempotency_protocol::time::{Deadline, Local, Timestamp};
use dynamodb_idempotency_protocol::{Acquisition, Outcome, Renewals, Rules, StepWrite, Tenure};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) clock: Clock,
    pub(crate) phase: Phase,
    /// Time has passed while the process had a request in flight, and the process has not continued since.
    pub(crate) is_stalled: bool,
}

#[expect(clippy::large_enum_variant, reason = "a state holds each process behind an `Arc`")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Ready,
    Acquiring(Acquiring),
    Executing(Execution),
    Finished(Fate),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Acquiring {
    pub(crate) machine: Acquisition,
    pub(crate) rules: Rules,
    pub(crate) task: Task,
    pub(crate) shown: Shown,
    /// The steps in the record that was shown last.
    pub(crate) seen_steps: Option<u8>,
    /// The steps in the record that the call takes over.
    pub(crate) taken_steps: u8,
}

/// What the responses have shown a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Shown {
    /// A response has shown another owner with a live lease. A stale read does not count.
    pub(crate) another_at_work: bool,
    /// The record that was shown last forbids the handler to run without a record.
    pub(crate) must_not_run: bool,
    /// A transaction was in doubt.
    pub(crate) transaction_in_doubt: bool,
    /// The last resolution that was sent is a commit.
    pub(crate) hook_commits: bool,
    /// How many replies in a row were not definite (`is_definite`), for example lost or throttled.
    pub(crate) unheard: u8,
    /// The last response was a stale read.
    pub(crate) stale: bool,
}

/// What a machine waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    Request(Request),
    Pause,
    AskHook,
    AskInstead,
}

/// A request in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) wire: Wire,
    pub(crate) sent: Local,
    /// The response, if DynamoDB has sent it.
    pub(crate) answer: Option<Answer>,
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) is_in_doubt: bool,
    /// `None` without a response, or without a `Date` in it.
    pub(crate) date: Option<Timestamp>,
    /// The steps in the record that it shows.
    pub(crate) done: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Execution {
    pub(crate) tenure: Tenure,
    pub(crate) does: Does,
    /// `None` if the lease is not renewed, or not any more.
    pub(crate) renewing: Option<Renewing>,
    pub(crate) is_protected: bool,
    /// The steps that earlier attempts have stored, and those that this one has begun. One bit each.
    pub(crate) used: u8,
    pub(crate) send: Send,
    /// The steps that are being written.
    pub(crate) writing: Vec<Writing>,
    pub(crate) commits: Vec<Committed>,
    /// Its answer is being stored.
    pub(crate) completes: bool,
    /// Its handler was stopped, or has dropped a commit in flight.
    pub(crate) is_cut_short: bool,
}

/// The request of [`Work::SendOnce`](crate::rows::Work::SendOnce).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Send {
    Unsent,
    /// The note that it is about to be sent is being written, or was not confirmed.
    Noting,
    Noted,
    Sent,
}

/// The result of a step, which is being written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Writing {
    pub(crate) number: u8,
    pub(crate) machine: StepWrite<Item>,
    /// The item of the result, unless it goes into the record.
    pub(crate) item: Option<Item>,
    /// Until when it is tried.
    pub(crate) until: Deadline,
    pub(crate) task: Task,
}

/// The renewals of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Renewing {
    pub(crate) machine: Renewals,
    pub(crate) task: Task,
}

/// A commit of a handler.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Committed {
    pub(crate) completed_at: Option<Timestamp>,
    /// Nothing of it was written, and the handler continues.
    pub(crate) is_refused: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Does {
    /// The handler is running.
    Handle,
    /// The handler waits for its commit.
    Commit(Task),
    /// The handler has returned, or was stopped.
    Finish(Task),
}

/// What the oracle needs to know about a call that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Fate {
    /// It has reported that none of its effects was applied, and none will be.
    pub(crate) nothing_completed: bool,
    /// It has run no handler, and its last reply was definite, so it must not hold the key any more.
    pub(crate) holds_nothing: bool,
    /// It is the last caller, and has reported that the operation is in progress.
    pub(crate) is_locked_out: bool,
}

/// One of the requests of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Main,
    Renewal,
    /// That of a step.
    Step(usize),
}

impl Place {
    pub(crate) const ALL: [Self; 4] = [Self::Main, Self::Renewal, Self::Step(0), Self::Step(1)];
}

impl Process {
    pub(crate) fn new(row: &Row, role: &Role) -> Self {
        let clock = match (row.has_dates, role.is_new) {
            (false, _) => Clock::declared(role.skew),
            (true, true) => Clock::new(role.skew),
            (true, false) => Clock::warm(role.skew),
        };
        Self { clock, phase: Phase::Ready, is_stalled: false }
    }

    pub(crate) const fn finished(fate: Fate) -> Self {
        Self { clock: Clock::new(0), phase: Phase::Finished(fate), is_stalled: false }
    }

    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Finished(_))
    }

    /// Whether its handler got a rejection of this commit.
    pub(crate) fn was_refused(&self, completed_at: Option<Timestamp>) -> bool {
        let Phase::Executing(execution) = &self.phase else { return false };
        let mut commits = execution.commits.iter();
        commits.any(|commit| commit.is_refused && commit.completed_at == completed_at)
    }

    pub(crate) const fn fate(&self) -> Option<Fate> {
        match self.phase {
            Phase::Finished(fate) => Some(fate),
            _ => None,
        }
    }

    pub(crate) fn request(&self, place: Place) -> Option<&Request> {
        match (&self.phase, place) {
            (Phase::Executing(execution), Place::Step(index)) => {
                match &execution.writing.get(index)?.task {
                    Task::Request(request) => Some(request),
                    _ => None,
                }
            }
            (Phase::Executing(execution), Place::Renewal) => {
                match &execution.renewing.as_ref()?.task {
                    Task::Request(request) => Some(request),
                    _ => None,
                }
            }
            (Phase::Acquiring(Acquiring { task: Task::Request(request), .. }), Place::Main) => {
                Some(request)
            }
            (Phase::Executing(execution), Place::Main) => match &execution.does {
                Does::Commit(Task::Request(request)) | Does::Finish(Task::Request(request)) => {
                    Some(request)
                }
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn request_mut(&mut self, place: Place) -> Option<&mut Request> {
        match (&mut self.phase, place) {
            (Phase::Executing(execution), Place::Step(index)) => {
                match &mut execution.writing.get_mut(index)?.task {
                    Task::Request(request) => Some(request),
                    _ => None,
                }
            }
            (Phase::Executing(execution), Place::Renewal) => {
                match &mut execution.renewing.as_mut()?.task {
                    Task::Request(request) => Some(request),
                    _ => None,
                }
            }
            (Phase::Acquiring(Acquiring { task: Task::Request(request), .. }), Place::Main) => {
                Some(request)
            }
            (Phase::Executing(execution), Place::Main) => match &mut execution.does {
                Does::Commit(Task::Request(request)) | Does::Finish(Task::Request(request)) => {
                    Some(request)
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl Execution {
    /// Whether its handler makes progress that belongs to its operation.
    pub(crate) fn runs(&self) -> bool {
        // A commit that the handler has dropped may have ended the operation.
        let may_have_ended = self.is_cut_short;
        let runs = matches!(self.does, Does::Handle);
        runs && !self.tenure.is_over() && !may_have_ended
    }
}

/// A process with its hash, shared by the states that have it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) process: Process,
    hash: u64,
}

/// How many slots a thread keeps to share them.
const MAX_KEPT: usize = 1 << 16;

thread_local! {
    static KEPT: RefCell<HashMap<u64, Arc<Slot>, BuildAsIs>> = RefCell::default();
}

impl Slot {
    /// Few processes are new: most states differ from others only in how they combine them.
    pub(crate) fn of(process: Process) -> Arc<Self> {
        let hash = hash(&process);
        KEPT.with_borrow_mut(|kept| {
            if kept.len() == MAX_KEPT {
                kept.clear();
            }
            let slot = kept.entry(hash).or_insert_with(|| Arc::new(Self { process, hash }));
            Arc::clone(slot)
        })
    }
}

impl Hash for Slot {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}
