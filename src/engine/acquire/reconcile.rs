//! An abandoned operation and what a hook says of it.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Acquirer, Acquisition, Carried};
use crate::answer::{Answer, Packed};
use crate::engine::driver::Unsent;
use crate::engine::parts::Written;
use crate::engine::reconcile::{Abandoned, Settlement, Verdict};
use crate::engine::steps::Checkpoints;
use crate::error::Error;
use crate::protocol::{Resolution, Write};
use crate::record;

/// What a hook has said, to be put into the record.
pub(super) struct Resolved {
    settlement: Settlement,
    /// Its form in the record, made once, with its parts in the table.
    response: Option<AttributeValue>,
    /// What the steps of the record take that the hook judged, in bytes.
    steps_bytes: usize,
}

impl Acquirer<'_> {
    pub(super) fn put_to_hook(&mut self) -> Result<Acquisition, Error> {
        let Some(record) = &self.wire.last else { return Err(self.wire.take_error()) };
        let (coding, key) = (self.core.coding.clone(), self.call.key.clone());
        Ok(Acquisition::Reconcile(Box::new(Abandoned::new(coding, key, record))))
    }

    /// Goes on after [`Acquisition::Reconcile`] with the hook's word.
    pub(crate) async fn resume(&mut self, verdict: Verdict) -> Result<Acquisition, Error> {
        let steps = self.wire.last.as_ref().and_then(|record| record.steps.as_ref());
        let steps_bytes = steps.map_or(0, Checkpoints::bytes);
        let (resolution, settlement) = match verdict {
            Verdict::Settle(settled @ Settlement::Completed(_)) => {
                (Resolution::Completed, Some(settled))
            }
            Verdict::Settle(settled @ Settlement::Failed(_)) => (Resolution::Failed, Some(settled)),
            Verdict::Execute => (Resolution::Execute, None),
            Verdict::Refuse => (Resolution::Refuse, None),
        };
        let resolved = |settlement| Resolved { settlement, response: None, steps_bytes };
        self.carried.resolved = settlement.map(resolved);
        let command = self.machine.resolved(self.core.table.clock.moment(), resolution);
        self.go_on(command).await
    }

    /// How long a hook may take: the answer has to get out before the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        self.core.time_until(self.call.answer_by())
    }
}

impl Carried<'_> {
    /// The form of what the hook has said. Where the parts of an answer cannot be written it goes into
    /// the record; where that has no room for it nothing is written, and the next call asks the hook
    /// again.
    pub(super) async fn resolution(
        &mut self,
        write: &Write,
        limit: Duration,
    ) -> Result<Option<AttributeValue>, Unsent> {
        let Some(resolved) = &self.resolved else { return Ok(None) };
        if resolved.response.is_some() {
            return Ok(resolved.response.clone());
        }
        let response = match resolved.settlement.clone() {
            Settlement::Completed(answer) => Some(self.completed(&answer, write, limit).await?),
            Settlement::Failed(None) => None,
            Settlement::Failed(Some(failure)) => self.failed(&failure, resolved.steps_bytes),
        };
        if let Some(resolved) = &mut self.resolved {
            resolved.response.clone_from(&response);
        }
        Ok(response)
    }

    fn failed(&self, failure: &Answer, steps_bytes: usize) -> Option<AttributeValue> {
        let changed = self.call.answers.stored(&failure.draft());
        let failure = changed.as_ref().unwrap_or(failure).draft();
        self.core.pack_failure(failure, steps_bytes, &self.call.key, &self.call.policy)
    }

    async fn completed(
        &self,
        answer: &Answer,
        write: &Write,
        limit: Duration,
    ) -> Result<AttributeValue, Error> {
        let (core, key, policy) = (self.core, &self.call.key, &self.call.policy);
        let changed = self.call.answers.stored(&answer.draft());
        let answer = changed.as_ref().unwrap_or(answer);
        let of = (key, &self.call.fingerprint.to_store());
        let item =
            record::item(&core.table.schema, of, &write.record, Some(AttributeValue::Null(true)));
        let rest = record::item_bytes(&item);
        match core.pack(answer.draft(), rest, (key, &self.owner), policy) {
            Ok(Packed { response, parts: None }) => Ok(response),
            Ok(Packed { response, parts: Some(parts) }) => {
                let mut written = Written::default();
                let until = write.record.expires_at;
                // What is left of the time is for the record.
                let writing = core.write_parts(key, &parts, until, limit, &mut written);
                match writing.await {
                    Ok(()) => Ok(response),
                    Err(error) => parts.in_record().ok_or(error),
                }
            }
            Err(unstorable) => {
                self.report_unstorable(&unstorable.to_string());
                Ok(unstorable.in_place())
            }
        }
    }

    /// What takes the place of an answer that DynamoDB does not take.
    pub(super) fn lesser(&mut self, error: &Error) -> bool {
        let Some(resolved) = &mut self.resolved else { return false };
        let lesser = match resolved.settlement {
            Settlement::Completed(_) => {
                let reason = "DynamoDB refused it".to_owned();
                Settlement::Completed(Arc::new(Answer::Unavailable(reason)))
            }
            Settlement::Failed(Some(_)) => Settlement::Failed(None),
            Settlement::Failed(None) => return false,
        };
        (resolved.settlement, resolved.response) = (lesser, None);
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
