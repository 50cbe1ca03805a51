//! A conditional write of a record as a plain value.

use crate::condition::Condition;
use crate::record::RecordMeta;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    pub kind: Kind,
    pub condition: Condition,
    /// The values. The form of `kind` says which are written.
    pub record: RecordMeta,
}

/// What a write is for. The table *States* of `docs/protocol.md` has a row for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Acquires an absent key.
    Acquire,
    /// Acquires a key whose record is RELEASED or past its retention.
    Replace,
    /// Takes over an abandoned record, or runs a failed operation again.
    TakeOver,
    /// Corrects the end of the own lease.
    StampAgain,
    Renew,
    /// Moves the end of the own lease, so that a commit in doubt is applied before this write or never.
    CloseOff,
    /// Stores the result of a step.
    Step,
    Complete,
    Commit,
    /// A whole operation in one transaction.
    Transact,
    /// The answer of an operation whose transaction was rejected for its items.
    AnswerWithoutItems,
    /// Keeps a failure.
    Keep,
    Release,
    /// Releases the key after a success, under `Completed::Release`.
    ReleaseSucceeded,
    /// Puts back the record that was there before an acquisition that executed nothing.
    Undo,
    /// The hook has found that an abandoned operation completed.
    ResolveCompleted,
    /// The hook completes an abandoned operation, together with its items.
    ResolveByCommit,
    /// The hook has found that an abandoned operation failed.
    ResolveFailed,
    /// Replaces a version, so that a delayed write of this call that requires it is rejected.
    Supersede,
    /// Like `Supersede`, for a delayed write that requires an absent record, or a COMPLETED one whose
    /// retention is over.
    SupersedeByRelease,
    /// Extends the retention of a finished or RELEASED record.
    Extend,
}

/// Which attributes a write sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The whole record. Of the record that it replaces it keeps what [`Attempts`](crate::record::Attempts) has.
    Put,
    /// The attributes that the machines change. The steps, the fingerprint, `created_at` and unknown
    /// attributes stay. If there is no record, the whole record is written.
    Update,
    /// Like `Update`, and the steps are removed.
    UpdateWithoutSteps,
    /// `expires_at`, and the lease if the record has one.
    Stamp,
    /// The owner, and the lease if the record has one. The record keeps its meaning, but DynamoDB rejects a
    /// delayed write that requires the earlier version.
    Touch,
    /// One member of the map of steps, or a new map.
    Step,
    /// The whole record, together with the caller's items.
    Transaction,
}

impl Kind {
    pub const ALL: [Self; 21] = [
        Self::Acquire,
        Self::Replace,
        Self::TakeOver,
        Self::StampAgain,
        Self::Renew,
        Self::CloseOff,
        Self::Step,
        Self::Complete,
        Self::Commit,
        Self::Transact,
        Self::AnswerWithoutItems,
        Self::Keep,
        Self::Release,
        Self::ReleaseSucceeded,
        Self::Undo,
        Self::ResolveCompleted,
        Self::ResolveByCommit,
        Self::ResolveFailed,
        Self::Supersede,
        Self::SupersedeByRelease,
        Self::Extend,
    ];

    /// The name in the table *States* of `docs/protocol.md`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Replace => "replace",
            Self::TakeOver => "take over",
            Self::StampAgain => "stamp again",
            Self::Renew => "renew",
            Self::CloseOff => "close off",
            Self::Step => "step",
            Self::Complete => "complete",
            Self::Commit => "commit",
            Self::Transact => "transact",
            Self::AnswerWithoutItems => "answer without items",
            Self::Keep => "keep",
            Self::Release => "release",
            Self::ReleaseSucceeded => "release after success",
            Self::Undo => "undo",
            Self::ResolveCompleted => "resolve as completed",
            Self::ResolveByCommit => "resolve by commit",
            Self::ResolveFailed => "resolve as failed",
            Self::Supersede => "supersede",
            Self::SupersedeByRelease => "supersede by release",
            Self::Extend => "extend",
        }
    }

    pub const fn form(self) -> Form {
        match self {
            Self::Acquire
            | Self::Replace
            | Self::Complete
            | Self::AnswerWithoutItems
            | Self::ResolveCompleted
            | Self::SupersedeByRelease => Form::Put,
            Self::TakeOver | Self::Keep | Self::Release | Self::Undo | Self::ResolveFailed => {
                Form::Update
            }
            Self::ReleaseSucceeded => Form::UpdateWithoutSteps,
            Self::StampAgain | Self::Renew | Self::Extend => Form::Stamp,
            Self::CloseOff | Self::Supersede => Form::Touch,
            Self::Step => Form::Step,
            Self::Commit | Self::Transact | Self::ResolveByCommit => Form::Transaction,
        }
    }
}

impl Write {
    pub const fn form(&self) -> Form {
        self.kind.form()
    }

    /// Whether this record is the version that the write leaves. If the record has rejected the write, an earlier try of
    /// it was applied, or the same write of another call.
    pub(crate) fn has_left(&self, record: &RecordMeta) -> bool {
        record.version() == self.record.version()
    }

    /// The record after the write was applied to `record`.
    pub fn applied_to(&self, record: Option<&RecordMeta>) -> RecordMeta {
        match (self.form(), record) {
            (Form::Put | Form::Transaction, _) | (_, None) => self.record.clone(),
            (form @ (Form::Update | Form::UpdateWithoutSteps), Some(before)) => RecordMeta {
                steps: before.steps.filter(|_| form == Form::Update),
                created_at: before.created_at,
                is_same_request: before.is_same_request,
                ..self.record.clone()
            },
            (Form::Touch, Some(before)) => {
                RecordMeta { owner: self.record.owner, state: self.record.state, ..before.clone() }
            }
            // If the record has no step of this name.
            (Form::Step, Some(before)) => {
                RecordMeta { steps: Some(before.steps.unwrap_or(0) + 1), ..before.clone() }
            }
            (Form::Stamp, Some(before)) => RecordMeta {
                state: self.record.state,
                expires_at: self.record.expires_at,
                ..before.clone()
            },
        }
    }
}
