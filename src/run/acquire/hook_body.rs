//! The body of an acquisition's writes: the resolution of a hook.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::answer::{Answer, Stored, reason};
use crate::error::Error;
use crate::protocol::{State, Write};
use crate::run::call::CallContext;
use crate::run::core::Core;
use crate::run::driver::WriteBody;
use crate::run::hook::Settlement;
use crate::run::placement::{PartsPlan, Place, Unplaced};
use crate::store::record::{self, OwnerId};

/// The body of the writes of an acquisition.
pub(super) struct HookBody<'a> {
    pub(super) core: &'a Core,
    pub(super) call: &'a CallContext,
    pub(super) owner: OwnerId,
    /// The hook's resolution.
    pub(super) resolved: Option<Resolved>,
}

/// The resolution of a hook, which is written to the record.
pub(super) struct Resolved {
    pub(super) settlement: Settlement,
    /// Its stored form, with its parts in the table.
    pub(super) stored: Option<Stored>,
    /// The size of the steps of the record that the hook judged, in bytes.
    pub(super) steps_bytes: usize,
}

impl WriteBody for HookBody<'_> {
    async fn response(
        &mut self,
        write: &Write,
        limit: Duration,
    ) -> Result<Option<AttributeValue>, Error> {
        match write.record.state {
            // Boxed: few calls ask a hook.
            State::Completed | State::Failed => Box::pin(self.resolution(write, limit)).await,
            State::Pending { .. } | State::Released => Ok(None),
        }
    }

    fn replace_unstorable(&mut self, error: &Error) -> bool {
        self.replace_rejected(error)
    }
}

impl HookBody<'_> {
    /// Returns the stored form of the hook's resolution. If its parts cannot be written and the
    /// record has no room for it, nothing is written, and the next call runs the hook again.
    async fn resolution(
        &mut self,
        write: &Write,
        limit: Duration,
    ) -> Result<Option<AttributeValue>, Error> {
        let Some(resolved) = &self.resolved else { return Ok(None) };
        if resolved.stored.is_none() {
            let stored = match resolved.settlement.clone() {
                Settlement::Completed(answer) => Some(self.completed(answer, write, limit).await?),
                Settlement::Failed(failure) => {
                    failure.and_then(|failure| self.failed(failure, resolved.steps_bytes))
                }
            };
            if let Some(resolved) = &mut self.resolved {
                resolved.stored = stored;
            }
        }
        let stored = self.resolved.as_ref().and_then(|resolved| resolved.stored.as_ref());
        Ok(stored.map(Stored::attribute))
    }

    fn failed(&self, failure: Answer, steps_bytes: usize) -> Option<Stored> {
        let CallContext { key, policy, answers, .. } = self.call;
        self.core.place_failure(answers.stored(failure), steps_bytes, key, policy)
    }

    async fn completed(
        &self,
        answer: Answer,
        write: &Write,
        limit: Duration,
    ) -> Result<Stored, Error> {
        let CallContext { key, fingerprint, policy, answers, .. } = self.call;
        let (schema, of) = (&self.core.table.schema, (key, &fingerprint.to_store()));
        let item = record::item(schema, of, &write.record, Some(AttributeValue::Null(true)));
        let rest = record::item_bytes(&item);
        // `limit` is half of the time that is left. The other half is for the record.
        let (owner, expires_at) = (self.owner, write.record.expires_at);
        let parts = Some(PartsPlan { owner, expires_at, time: limit });
        let place = Place { key, policy, rest, parts };
        match self.core.place_answer(answers.stored(answer), place).await {
            Err(Unplaced::PartsNotWritten(error)) => Err(error),
            Err(unplaced @ Unplaced::Unstorable(_)) => {
                self.report_unstorable(&unplaced.to_string());
                Ok(unplaced.instead())
            }
            Ok(stored) => Ok(stored),
        }
    }

    /// Replaces an answer that DynamoDB rejects.
    fn replace_rejected(&mut self, error: &Error) -> bool {
        let Some(resolved) = &mut self.resolved else { return false };
        let replacement = match resolved.settlement {
            Settlement::Completed(_) => {
                Settlement::Completed(Answer::Unavailable(reason::REJECTED.into()))
            }
            Settlement::Failed(Some(_)) => Settlement::Failed(None),
            Settlement::Failed(None) => return false,
        };
        (resolved.settlement, resolved.stored) = (replacement, None);
        self.report_unstorable(&error.to_string());
        true
    }

    fn report_unstorable(&self, reason: &str) {
        let operation = self.call.key.operation();
        tracing::error!(
            operation,
            reason,
            "a reconcile hook's answer cannot be stored: repeats get an error"
        );
    }
}
