//! A call that ends without an owner and without an answer, and what it leaves behind.

use std::time::Duration;

use super::{Acquirer, Acquisition, LEAST_LIMIT, Seen, in_progress};
use crate::error::{Error, ErrorKind};
use crate::execution::Execution;
use crate::policy::Outage;
use crate::reconcile::Verdict;
use crate::record::Claim;
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

    /// Leaves a record that was taken over as failed as it was, or with its lease over; any other in
    /// nobody's hands.
    async fn give_back(&self) -> Write {
        let (core, limit) = (self.core, self.giving_back());
        let now = core.table.clock.store_now();
        // The attempt that nobody has made does not count.
        let claim = &Claim { attempt: self.claim.attempt.saturating_sub(1), ..self.claim.clone() };
        let Some(taken) = &self.taken else {
            // Nobody has run under its lease.
            return core.table.release(claim, now, limit).await.outcome;
        };
        if let Some(end) = taken.lease_expires_at {
            return core.table.end_lease(claim, end, limit).await.outcome;
        }
        let expires_at = now.plus(self.call.policy.retention).seconds_up();
        core.table.keep_failure(claim, now, expires_at, None, limit).await.outcome
    }
}
