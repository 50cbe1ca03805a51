//! Where an answer is stored: in its record, in parts next to it, or nowhere.

use std::time::Duration;

use crate::answer::{Answer, Packed, Stored, Unstorable, pack};
use crate::fault_injection::{FaultPoint, is_broken};
use crate::policy::Policy;
use crate::run::core::Core;
use crate::signals;
use crate::store::key::RecordKey;
use crate::store::record::{FAILED_BYTES, OwnerId};

/// The record for an answer.
pub(crate) struct Place<'a> {
    pub(crate) key: &'a RecordKey,
    pub(crate) policy: &'a Policy,
    /// The size of the record without the answer.
    pub(crate) rest: usize,
    /// How parts are written; `None` if the answer must lie in the record.
    pub(crate) parts: Option<PartsPlan>,
}

/// Whose parts are written, and how.
pub(crate) struct PartsPlan {
    pub(crate) owner: OwnerId,
    /// Until when the parts are kept, in epoch seconds.
    pub(crate) expires_at: i64,
    /// How long writing them may take.
    pub(crate) time: Duration,
}

impl Core {
    /// Chooses the form of an answer and writes its parts, if it has any. If they are not confirmed,
    /// the answer goes into the record.
    pub(crate) async fn place_answer(
        &self,
        answer: Answer,
        place: Place<'_>,
    ) -> Result<Stored, Unstorable> {
        let Place { key, policy, rest, parts: plan } = place;
        let plan = plan.filter(|_| key.longest_part() <= self.table.schema.max_key_bytes());
        let (owner, body_bytes) = (plan.as_ref().map(|plan| &plan.owner), answer.body().len());
        let Packed { stored, parts } = pack(answer, rest, owner, self.coding.of(key), policy)?;
        let parts_bytes = parts.as_ref().map_or(0, |parts| parts.manifest.bytes);
        signals::answer(key.operation(), body_bytes, stored.bytes() + parts_bytes);
        let (Some(parts), Some(plan)) = (parts, plan) else { return Ok(stored) };
        if is_broken(FaultPoint::CompleteBeforeParts) {
            return Ok(stored);
        }
        // Boxed: few answers have parts.
        let writing = Box::pin(self.write_parts(key, &parts, plan.expires_at, plan.time));
        let Err(error) = writing.await else { return Ok(stored) };
        let Some(in_record) = parts.in_record() else {
            return Err(Unstorable::PartsNotWritten(error));
        };
        tracing::warn!(
            operation = key.operation(), %error,
            "an answer's parts were not confirmed: it goes into its record"
        );
        Ok(Stored::Encoded(in_record))
    }

    /// Returns the form of a failure that is kept, if it can be stored next to so many bytes of
    /// steps.
    pub(crate) fn place_failure(
        &self,
        failure: Answer,
        steps: usize,
        key: &RecordKey,
        policy: &Policy,
    ) -> Option<Stored> {
        let packed = pack(failure, FAILED_BYTES + steps, None, self.coding.of(key), policy);
        let packed = packed.inspect_err(|reason| {
            tracing::error!(
                operation = key.operation(), %reason,
                "a failure that is kept cannot be replayed"
            );
        });
        packed.ok().map(|packed| packed.stored)
    }
}
