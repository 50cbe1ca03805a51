//! A call that ends without an owner and without an answer, and what it leaves behind.

use std::time::Duration;

use super::{Acquirer, Acquisition, LEAST_LIMIT, Seen, in_progress};
use crate::error::{Error, ErrorKind};
use crate::execution::Execution;
use crate::policy::Outage;
use crate::reconcile::Verdict;
use crate::table::Write;

impl Acquirer<'_> {
    /// What an error leaves behind, and what becomes of the call.
    pub(super) async fn give_up(&mut self, error: Error) -> Result<Acquisition, Error> {
        let is_outage = error.kind() == ErrorKind::Unavailable;
        if let Some(seen) = self.running().filter(|_| is_outage) {
            // What was seen may be long ago, and the record ours by now.
            if self.may_hold {
                self.let_go().await;
            }
            return Ok(in_progress(seen.lease_left));
        }
        // Not where the record, or the hook's word, said that it must not.
        let may_run = matches!(self.seen, Seen::Nothing)
            && !matches!(self.verdict, Some((_, Verdict::Settle(_))));
        if is_outage && may_run && self.call.policy.outage == Outage::Open {
            tracing::error!(
                operation = self.call.key.operation(), %error,
                "DynamoDB is out of reach: the handler runs WITHOUT idempotency (Outage::Open)"
            );
            let (claim, call, steps) = (self.claim.clone(), self.call.clone(), self.steps.take());
            let execution = Execution::unprotected(self.core, claim, call, steps);
            return Ok(Acquisition::Acquired(execution));
        }
        if self.may_hold {
            self.let_go().await;
        }
        Err(error)
    }

    /// Gives a key back that we may hold and shall not use, as it was; nothing ran. If that fails, the
    /// lease frees it.
    pub(super) async fn let_go(&self) {
        match self.give_back().await {
            Write::Applied | Write::Refused(_) => {}
            Write::Conflict(error)
            | Write::Invalid(error)
            | Write::NotApplied(error)
            | Write::Unknown(error) => {
                tracing::warn!(
                    operation = self.call.key.operation(), %error,
                    "an unused lease could not be released: the key is free when it ends"
                );
            }
        }
    }

    /// Even where no time is left, long enough for one request: a machine that was frozen may be back.
    fn giving_back(&self) -> Duration {
        self.limit().max(LEAST_LIMIT)
    }

    /// Leaves the record as this call has found it: no handler has begun.
    async fn give_back(&self) -> Write {
        let (table, claim) = (&self.core.table, self.claim.not_begun());
        let now = table.clock.store_now();
        let expires_at = now.plus(self.call.policy.retention).seconds_up();
        // Nobody has run under its lease.
        table.give_back(&claim, now, expires_at, self.giving_back()).await.outcome
    }
}
