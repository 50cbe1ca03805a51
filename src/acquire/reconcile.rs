//! An abandoned operation and what a hook says of it.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Acquirer, Acquisition, Found, Next, Word};
use crate::clock::{StoreTime, Timestamp};
use crate::error::{Error, ErrorKind};
use crate::parts::Written;
use crate::protocol::Orphan;
use crate::reconcile::{Abandoned, Settlement, Verdict};
use crate::record::{self, Item, Version};
use crate::response::{Answer, Packed};
use crate::steps::Checkpoints;
use crate::table::{Reply, Write};

impl Acquirer<'_> {
    /// What the hook has said already of this very record.
    pub(super) fn verdict_on(&self, version: &Version) -> Option<Verdict> {
        let (_, verdict) = self.verdict.as_ref().filter(|(seen, _)| seen == version)?;
        Some(verdict.clone())
    }

    pub(super) fn put_to_hook(&mut self, orphan: Orphan, lease_ended_at: Timestamp) -> Acquisition {
        let abandoned = Abandoned::new(
            self.core.coding.clone(),
            self.call.key.clone(),
            &orphan,
            lease_ended_at,
        );
        self.orphan = Some(orphan);
        Acquisition::Reconcile(Box::new(abandoned))
    }

    /// Goes on after [`Acquisition::Reconcile`] with the hook's word.
    pub(crate) async fn resume(&mut self, verdict: Verdict) -> Result<Acquisition, Error> {
        let Some(orphan) = self.orphan.take() else {
            let message = "a reconcile hook answered without having been asked";
            return Err(Error::new(ErrorKind::Configuration, message));
        };
        self.word = None;
        self.begin_budget();
        match self.carry_out(orphan, verdict) {
            Ok(Some(next)) => self.go_on(next).await,
            Ok(None) => Ok(Acquisition::Abandoned),
            Err(error) => self.give_up(error).await,
        }
    }

    /// What the hook's word asks to send, if anything.
    pub(super) fn carry_out(
        &mut self,
        orphan: Orphan,
        verdict: Verdict,
    ) -> Result<Option<Next>, Error> {
        self.verdict = Some((orphan.version.clone(), verdict.clone()));
        self.steps_bytes = orphan.steps.as_ref().map_or(0, Checkpoints::bytes);
        match verdict {
            Verdict::Settle(word) => Ok(Some(self.settling(orphan, word))),
            Verdict::Execute => self.take_over(orphan).map(Some),
            Verdict::Refuse => Ok(None),
        }
    }

    /// How long a hook may take: the answer has to get out before the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        self.core.time_until(self.call.answer_by())
    }

    /// The record keeps the attempt of its last owner: a hook's word is none.
    fn settling(&mut self, orphan: Orphan, word: Settlement) -> Next {
        (self.claim.attempt, self.claim.created_at) = (orphan.attempt, orphan.created_at);
        Next::Reconcile(orphan.version, word)
    }

    /// The form of the hook's answer, made once, with its parts in the table. Where they cannot be
    /// written it goes into the record; where that has no room for it nothing is written, and the
    /// next call asks the hook again.
    async fn word(&mut self, answer: &Answer) -> Result<Word, Error> {
        if let Some(word) = &self.word {
            return Ok(word.clone());
        }
        let (core, claim, policy) = (self.core, &self.claim, &self.call.policy);
        let changed = self.call.answers.stored(&answer.draft());
        let answer = changed.as_ref().unwrap_or(answer);
        let completed_at = core.table.clock.store_now();
        let expires_at = completed_at.plus(policy.retention).seconds_up();
        let mut word = Word { completed_at, expires_at, response: AttributeValue::Null(true) };
        let rest = record::item_bytes(&self.settled_item(word.clone()));
        match core.pack(answer.draft(), rest, (&claim.key, &claim.owner), policy) {
            Ok(Packed { response, parts }) => {
                word.response = response;
                if let Some(parts) = parts {
                    // The other half is for the record.
                    let half = self.limit();
                    let mut written = Written::default();
                    let key = &claim.key;
                    let writing = core.write_parts(key, &parts, expires_at, half, &mut written);
                    if let Err(error) = writing.await {
                        word.response = parts.in_record().ok_or(error)?;
                    }
                }
            }
            Err(unstorable) => {
                self.report_unstorable(&unstorable.to_string());
                word.response = unstorable.in_place();
            }
        }
        self.word = Some(word.clone());
        Ok(word)
    }

    fn settled_item(&self, word: Word) -> Item {
        let Word { completed_at, expires_at, response } = word;
        let schema = &self.core.table.schema;
        record::completed_item(schema, &self.claim, completed_at, expires_at, response)
    }

    /// Writes the hook's word over the record that it was said of.
    pub(super) async fn write_word(
        &mut self,
        seen: Version,
        word: Settlement,
    ) -> Result<(Found, Option<StoreTime>), Error> {
        let Reply { outcome, time } = match &word {
            Settlement::Completed(answer) => {
                let word = self.word(answer).await?;
                let (item, limit) = (self.settled_item(word), self.limit());
                self.core.table.settle_completed(item, &seen, limit).await
            }
            Settlement::Failed(failure) => {
                let (table, claim, limit) = (&self.core.table, &self.claim, self.limit());
                let policy = &self.call.policy;
                let now = table.clock.store_now();
                let expires_at = now.plus(policy.retention).seconds_up();
                let response = failure.as_deref().and_then(|failure| {
                    let changed = self.call.answers.stored(&failure.draft());
                    let failure = changed.as_ref().unwrap_or(failure).draft();
                    self.core.pack_failure(failure, self.steps_bytes, &claim.key, policy)
                });
                table.settle_failed(claim, now, expires_at, response, &seen, limit).await
            }
        };
        let found = match outcome {
            Write::Applied => Found::Reconciled,
            Write::Refused(Some(item)) => Found::Record(Some(item)),
            // Look: where the record is still the same, it is written again.
            Write::Refused(None) | Write::Conflict(_) | Write::Unknown(_) => Found::Nothing,
            Write::Invalid(error) => {
                self.report_unstorable(&error.to_string());
                let lesser = match word {
                    Settlement::Completed(_) => {
                        self.word = None;
                        let reason = "DynamoDB refused it".to_owned();
                        Settlement::Completed(Arc::new(Answer::Unavailable(reason)))
                    }
                    Settlement::Failed(Some(_)) => Settlement::Failed(None),
                    Settlement::Failed(None) => return Err(error),
                };
                self.verdict = Some((seen, Verdict::Settle(lesser)));
                Found::Nothing
            }
            Write::NotApplied(error) => return Err(error),
        };
        Ok((found, time))
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
