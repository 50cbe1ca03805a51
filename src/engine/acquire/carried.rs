//! What goes out with the writes of a call that acquires: the resolution of a hook.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::answer::{Answer, Packed};
use crate::engine::call::Call;
use crate::engine::core::Core;
use crate::engine::driver::Contents;
use crate::engine::hook::Settlement;
use crate::engine::parts::Written;
use crate::error::Error;
use crate::protocol::{State, Write};
use crate::record::{self, OwnerId};

/// What a call's writes bring with them.
pub(super) struct Carried<'a> {
    pub(super) core: &'a Core,
    pub(super) call: &'a Call,
    pub(super) owner: OwnerId,
    /// What a hook has said, in the form in which it is stored.
    pub(super) resolved: Option<Resolved>,
}

/// What a hook has said, to be put into the record.
pub(super) struct Resolved {
    pub(super) settlement: Settlement,
    /// Its form in the record, made once, with its parts in the table.
    pub(super) response: Option<AttributeValue>,
    /// What the steps of the record take that the hook judged, in bytes.
    pub(super) steps_bytes: usize,
}

impl Contents for Carried<'_> {
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

    fn lessen(&mut self, error: &Error) -> bool {
        self.lesser(error)
    }
}

impl Carried<'_> {
    /// The form of what the hook has said. Where the parts of an answer cannot be written it goes into
    /// the record; where that has no room for it nothing is written, and the next call asks the hook
    /// again.
    async fn resolution(
        &mut self,
        write: &Write,
        limit: Duration,
    ) -> Result<Option<AttributeValue>, Error> {
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
        match core.pack(answer.draft(), rest, (key, Some(&self.owner)), policy) {
            Ok(Packed { response, parts: None }) => Ok(response.attribute()),
            Ok(Packed { response, parts: Some(parts) }) => {
                let mut written = Written::default();
                let until = write.record.expires_at;
                // What is left of the time is for the record.
                let writing = core.write_parts(key, &parts, until, limit, &mut written);
                match writing.await {
                    Ok(()) => Ok(response.attribute()),
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
    fn lesser(&mut self, error: &Error) -> bool {
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
