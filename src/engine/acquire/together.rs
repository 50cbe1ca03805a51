//! Calls of one request in one process: each is the leader of the others, or follows one.

use std::sync::Arc;
use std::time::Duration;

use super::{Acquirer, Acquisition, in_progress};
use crate::clock::{Backoff, Uptime, drawn};
use crate::engine::sharing::{Role, SharedCalls, SharedOutcome};
use crate::error::{Error, ErrorKind};
use crate::mutant::{Mutant, mutant};
use crate::policy::{InProgress, Outage};
use crate::protocol::{Cause, ObservedLease};

/// How many leaders a call follows that come to nothing, before it asks by itself.
const MAX_LEADERS: u32 = 4;

impl Acquirer<'_> {
    /// Asks the store, or is told what another call of the same request was told.
    pub(super) async fn together(&mut self, shared: &SharedCalls) -> Result<Acquisition, Error> {
        let core = self.core;
        let clock = &core.table.clock;
        let mut pauses = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        let (mut leaders, mut failed, mut pause) = (0, None, None);
        while leaders < MAX_LEADERS {
            let follower =
                match shared.join(&self.call.key, &self.call.fingerprint, &self.call.policy) {
                    Role::Leader(leader) => {
                        // One pauses, for all of them.
                        if let Some(pause) = pause {
                            clock.sleep(self.patience().min(pause)).await;
                        }
                        let told = self.ask().await;
                        let observed = self.machine.observed();
                        let seen = observed.map_or_else(|| clock.now().uptime, |seen| seen.at);
                        leader.tell(|| shared_outcome(&told, seen));
                        return told;
                    }
                    Role::Follower(follower) => follower,
                };
            match clock.within(self.patience(), follower.outcome()).await {
                Some(SharedOutcome::Replay(answer)) => return Ok(Acquisition::Replay(answer)),
                Some(SharedOutcome::ReplayFailure(failure)) => {
                    return Ok(Acquisition::ReplayFailure(failure));
                }
                Some(SharedOutcome::Mismatch) => return Ok(Acquisition::Mismatch),
                Some(SharedOutcome::Abandoned) => return Ok(Acquisition::Abandoned),
                // It may have ended before this call began.
                Some(SharedOutcome::InProgress(seen)) if seen.at < self.machine.began() => {
                    leaders += 1
                }
                Some(SharedOutcome::InProgress(seen)) => {
                    if self.machine.patience(clock.moment()).0.is_zero() {
                        return Ok(in_progress(seen.left));
                    }
                    // One of those that wait looks for all of them.
                    self.machine.note(seen);
                }
                Some(SharedOutcome::Gone) => leaders += 1,
                Some(SharedOutcome::Failed(ErrorKind::Unavailable, reason)) => {
                    leaders += 1;
                    failed = Some((ErrorKind::Unavailable, reason));
                    pause = Some(drawn(pauses.next()));
                }
                Some(SharedOutcome::Failed(kind, reason)) => {
                    return self.failed(kind, &reason).await;
                }
                None => match self.machine.observed() {
                    Some(seen) => return Ok(in_progress(seen.left)),
                    None if mutant(Mutant::RefuseUnasked) => {
                        return Ok(in_progress(Duration::ZERO));
                    }
                    None => {
                        // Whoever waits for an owner has had its own time for that.
                        if matches!(self.call.policy.in_progress, InProgress::Wait { .. }) {
                            self.machine.begin_budget(clock.moment());
                        }
                        break;
                    }
                },
            }
        }
        match failed {
            // Whoever runs without protection has asked by itself.
            Some((kind, reason)) if self.call.policy.outage == Outage::Closed => {
                self.failed(kind, &reason).await
            }
            Some(_) | None => self.ask().await,
        }
    }

    /// Asks the store by itself.
    async fn ask(&mut self) -> Result<Acquisition, Error> {
        match self.machine.observed() {
            None => self.acquire().await,
            Some(seen) => {
                let command = self.machine.observing(self.core.table.clock.moment(), seen);
                self.go_on(command).await
            }
        }
    }

    /// The store has failed another call in this one's place.
    async fn failed(&mut self, kind: ErrorKind, reason: &Arc<str>) -> Result<Acquisition, Error> {
        self.wire.error = Some(Error::new(kind, reason.to_string()));
        let cause = match kind {
            ErrorKind::Unavailable => Cause::Outage,
            _ => Cause::Other,
        };
        let command = self.machine.failed_elsewhere(self.core.table.clock.moment(), cause);
        self.go_on(command).await
    }

    /// How long this call follows another one. As long as nobody is known to run the operation, the
    /// policy for waiting has no say: finding that out takes its time whoever asks.
    fn patience(&self) -> Duration {
        let (wait_left, limit) = self.machine.patience(self.core.table.clock.moment());
        if self.machine.observed().is_some() || mutant(Mutant::RefuseUnasked) {
            return wait_left;
        }
        limit.max(wait_left)
    }
}

/// What a call was told, as far as it holds for the others; it was seen `at` some time.
fn shared_outcome(told: &Result<Acquisition, Error>, at: Uptime) -> SharedOutcome {
    match told {
        Ok(Acquisition::Replay(answer)) => SharedOutcome::Replay(Arc::clone(answer)),
        Ok(Acquisition::ReplayFailure(failure)) => SharedOutcome::ReplayFailure(failure.clone()),
        Ok(Acquisition::Mismatch) => SharedOutcome::Mismatch,
        Ok(Acquisition::Abandoned) => SharedOutcome::Abandoned,
        Ok(Acquisition::InProgress { retry_after }) => {
            SharedOutcome::InProgress(ObservedLease { left: *retry_after, at })
        }
        Ok(Acquisition::Acquired(execution)) if execution.is_protected() => {
            SharedOutcome::InProgress(ObservedLease { left: execution.lease_remaining(), at })
        }
        Ok(Acquisition::Acquired(_) | Acquisition::Reconcile(_) | Acquisition::Reconciled) => {
            SharedOutcome::Gone
        }
        Err(error) => match error.kind() {
            kind @ (ErrorKind::Unavailable
            | ErrorKind::Configuration
            | ErrorKind::NewerRecord
            | ErrorKind::StepsUnreadable
            | ErrorKind::UnknownRecord) => SharedOutcome::Failed(kind, error.to_string().into()),
            // The call's own: its deadline, say.
            _ => SharedOutcome::Gone,
        },
    }
}
