//! The body of the writes that acquire a key or end a call: the resolution of a hook, or the answer and the
//! items of a transaction.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};

use crate::answer::{Answer, Stored, Unstorable, reason};
use crate::error::Error;
use crate::protocol::{State, Write};
use crate::run::call::CallContext;
use crate::run::core::Core;
use crate::run::driver::WriteBody;
use crate::run::hook::Resolved;
use crate::run::placement::{PartsPlan, Place};
use crate::run::transaction::items::token;
use crate::store::record::{self, Bound, OwnerId};

pub(super) struct CallBody<'a> {
    core: &'a Core,
    call: &'a CallContext,
    pub(super) owner: OwnerId,
    /// What the hook has resolved, and the size of the steps of the record that it judged, in bytes.
    resolved: Option<(Resolved, usize)>,
    /// The stored form of the answer or the failure, with its parts in the table.
    stored: Option<Stored>,
    items: Vec<TransactWriteItem>,
    /// The transaction that was sent last, and how many tokens were used.
    sent: Option<Write>,
    tokens: u32,
}

impl WriteBody for CallBody<'_> {
    async fn response(
        &mut self,
        write: &Write,
        limit: Duration,
    ) -> Result<Option<AttributeValue>, Error> {
        if !matches!(write.record.state, State::Completed | State::Failed) {
            return Ok(None);
        }
        if self.stored.is_none() {
            // Boxed: few calls run a hook.
            self.stored = Box::pin(self.place_resolution(write, limit)).await?;
        }
        Ok(self.stored.as_ref().map(Stored::attribute))
    }

    fn items(&self) -> &[TransactWriteItem] {
        &self.items
    }

    fn token_used(&mut self) {
        self.tokens += 1;
    }

    fn token(&mut self, write: &Write) -> String {
        if self.sent.as_ref() != Some(write) {
            self.tokens += 1;
            self.sent = Some(write.clone());
        }
        token(self.owner, self.tokens)
    }

    /// Replaces a hook's answer that DynamoDB rejects.
    fn replace_unstorable(&mut self, error: &Error) -> bool {
        let replacement = match self.resolved {
            Some((Resolved::Completed(_), _)) => {
                Resolved::Completed(Answer::Unavailable(reason::REJECTED.into()))
            }
            Some((Resolved::Failed(Some(_)), _)) => Resolved::Failed(None),
            Some((Resolved::Failed(None) | Resolved::Execute | Resolved::Refuse, _)) | None => {
                return false;
            }
        };
        self.resolve(replacement, 0);
        self.report_unstorable(&error.to_string());
        true
    }
}

impl<'a> CallBody<'a> {
    pub(super) const fn new(core: &'a Core, call: &'a CallContext, owner: OwnerId) -> Self {
        Self {
            core,
            call,
            owner,
            resolved: None,
            stored: None,
            items: Vec::new(),
            sent: None,
            tokens: 0,
        }
    }

    /// The next write is the hook's resolution.
    pub(super) fn resolve(&mut self, resolved: Resolved, steps_bytes: usize) {
        (self.resolved, self.stored) = (Some((resolved, steps_bytes)), None);
    }

    /// The next write is a transaction with this answer.
    pub(super) fn write_transaction(&mut self, answer: Stored, items: Vec<TransactWriteItem>) {
        (self.stored, self.items) = (Some(answer), items);
    }

    /// Returns the stored form of the hook's resolution. If its parts cannot be written and the
    /// record has no room for it, nothing is written, and the next call runs the hook again.
    async fn place_resolution(
        &self,
        write: &Write,
        limit: Duration,
    ) -> Result<Option<Stored>, Error> {
        let CallContext { key, fingerprint, policy, answers, .. } = self.call;
        let answer = match self.resolved.clone() {
            Some((Resolved::Completed(answer), _)) => answer,
            Some((Resolved::Failed(Some(failure)), steps_bytes)) => {
                let failure = answers.stored(failure);
                return Ok(self.core.place_failure(failure, steps_bytes, key, policy));
            }
            Some((Resolved::Failed(None) | Resolved::Execute | Resolved::Refuse, _)) | None => {
                return Ok(None);
            }
        };
        let (schema, of) = (&self.core.table.schema, (key, &fingerprint.to_store()));
        let item = record::item(schema, of, &write.record, Some(AttributeValue::Null(true)));
        // `limit` is half of the time that is left. The other half is for the record.
        let (owner, expires_at) = (self.owner, write.record.expires_at);
        let parts = PartsPlan { owner, expires_at, time: limit };
        match self.place(answer, record::item_bytes(&item, Bound::Upper), Some(parts)).await {
            Ok(stored) => Ok(Some(stored)),
            Err(Unstorable::PartsNotWritten(error)) => Err(error),
            Err(unstorable) => {
                self.report_unstorable(&unstorable.to_string());
                Ok(Some(unstorable.replacement()))
            }
        }
    }

    /// Places an answer in a record that has `rest` bytes without it.
    pub(super) async fn place(
        &self,
        answer: Answer,
        rest: usize,
        parts: Option<PartsPlan>,
    ) -> Result<Stored, Unstorable> {
        let CallContext { key, policy, answers, .. } = self.call;
        let place = Place { key, policy, rest, parts };
        self.core.place_answer(answers.stored(answer), place).await
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
