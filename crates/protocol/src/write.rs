//! A conditional write of a record as a plain value. `acquisition/replies.rs` and `finish/replies.rs`
//! handle its result.

use crate::condition::Condition;
use crate::record::Header;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    pub form: Form,
    pub condition: Condition,
    /// The values. `form` says which are written.
    pub record: Header,
}

/// Which attributes a write sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The whole record.
    Put,
    /// The attributes that the machines change. The steps, the fingerprint, `created_at` and unknown
    /// attributes stay. If there is no record, the whole record is written.
    Update,
    /// `expires_at`, and the lease if the record has one.
    Stamp,
    /// The attributes of the version: the owner, the lease, and `expires_at` of a completed record. The
    /// record keeps its meaning, but DynamoDB rejects a delayed write that requires the earlier version.
    Touch,
    /// The whole record, together with the caller's items.
    Transaction,
}

impl Write {
    /// Whether the write only changes how long a finished or released record is kept.
    pub fn is_extension(&self) -> bool {
        self.form == Form::Stamp && self.record.state.lease_expires_at().is_none()
    }

    /// The record after the write was applied to `record`.
    pub fn applied_to(&self, record: Option<&Header>) -> Header {
        match (self.form, record) {
            (Form::Put | Form::Transaction, _) | (_, None) => self.record.clone(),
            (Form::Update, Some(before)) => Header {
                steps: before.steps,
                created_at: before.created_at,
                is_same_request: before.is_same_request,
                ..self.record.clone()
            },
            (Form::Touch, Some(before)) => Header {
                owner: self.record.owner,
                state: self.record.state,
                expires_at: if self.record.is_completed() {
                    self.record.expires_at
                } else {
                    before.expires_at
                },
                ..before.clone()
            },
            (Form::Stamp, Some(before)) => Header {
                state: self.record.state,
                expires_at: self.record.expires_at,
                ..before.clone()
            },
        }
    }
}
