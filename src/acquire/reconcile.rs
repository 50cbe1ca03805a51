//! An abandoned operation and what a hook says of it.

use std::time::Duration;

use super::{Acquirer, Acquisition, Found, Next};
use crate::clock::{StoreTime, Timestamp};
use crate::error::{Error, ErrorKind};
use crate::protocol::Orphan;
use crate::reconcile::{Abandoned, Settlement, Verdict};
use crate::record::{self, MAX_ITEM_BYTES, Version};
use crate::response::encode_unavailable;
use crate::table::{Reply, Write};

impl Acquirer<'_> {
    /// What the hook has said already of this very record.
    pub(super) fn verdict_on(&self, version: &Version) -> Option<Verdict> {
        let (_, verdict) = self.verdict.as_ref().filter(|(seen, _)| seen == version)?;
        Some(verdict.clone())
    }

    pub(super) fn put_to_hook(&mut self, orphan: Orphan, lease_ended_at: Timestamp) -> Acquisition {
        let abandoned = Abandoned::new(self.call.key.clone(), &orphan, lease_ended_at);
        self.orphan = Some(orphan);
        Acquisition::Reconcile(Box::new(abandoned))
    }

    /// Goes on after [`Acquisition::Reconcile`] with the hook's word.
    pub(crate) async fn resume(&mut self, verdict: Verdict) -> Result<Acquisition, Error> {
        let Some(orphan) = self.orphan.take() else {
            let message = "a reconcile hook answered without having been asked";
            return Err(Error::new(ErrorKind::Configuration, message));
        };
        match self.carry_out(orphan, verdict) {
            Some(next) => self.go_on(next).await,
            None => Ok(Acquisition::Abandoned),
        }
    }

    /// What the hook's word asks to send, if anything.
    pub(super) fn carry_out(&mut self, orphan: Orphan, verdict: Verdict) -> Option<Next> {
        self.verdict = Some((orphan.version.clone(), verdict.clone()));
        match verdict {
            Verdict::Settle(word) => Some(self.settling(orphan, word)),
            Verdict::Execute => Some(self.take_over(orphan)),
            Verdict::Refuse => None,
        }
    }

    /// How long a hook may take: the answer has to get out before the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        self.limit()
    }

    /// The record keeps the attempt of its last owner: a hook's word is none.
    fn settling(&mut self, orphan: Orphan, word: Settlement) -> Next {
        (self.claim.attempt, self.claim.created_at) = (orphan.attempt, orphan.created_at);
        let steps = orphan.steps.map_or(0, |steps| steps.bytes());
        let word = match word {
            Settlement::Failed(failure) => Settlement::Failed(
                failure.filter(|failure| record::fits_beside_steps(failure, steps)),
            ),
            word @ Settlement::Completed(_) => word,
        };
        Next::Reconcile(orphan.version, word)
    }

    /// Writes the hook's word over the record that it was said of.
    pub(super) async fn write_word(
        &mut self,
        seen: Version,
        word: Settlement,
    ) -> Result<(Found, Option<StoreTime>), Error> {
        let (table, claim, limit) = (&self.core.table, &self.claim, self.limit());
        let now = table.clock.store_now();
        let expires_at = now.plus(self.call.policy.retention).seconds_up();
        let Reply { outcome, time } = match word.clone() {
            Settlement::Completed(response) => {
                let item = |response| {
                    record::completed_item(&table.schema, claim, now, expires_at, response)
                };
                let mut whole = item(response);
                let bytes = record::item_bytes(&whole);
                if bytes > MAX_ITEM_BYTES {
                    self.report_unstorable(&format!("{bytes} bytes, of {MAX_ITEM_BYTES}"));
                    whole = item(encode_unavailable("it is too large for an item of DynamoDB's"));
                }
                table.settle_completed(whole, &seen, limit).await
            }
            Settlement::Failed(response) => {
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
                        Settlement::Completed(encode_unavailable("DynamoDB refused it"))
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
