//! Calls of one request in one process: each is the leader of the others, or follows one.

use std::sync::Arc;
use std::time::Duration;

use super::{Acquirer, Acquisition, in_progress};
use crate::clock::{Backoff, Uptime, drawn};
use crate::engine::call::Call;
use crate::engine::sharing::{Role, SharedCalls, SharedOutcome};
use crate::error::{Error, ErrorKind};
use crate::mutant::{Mutant, mutant};
use crate::policy::{InProgress, Outage};
use crate::protocol::{Cause, ObservedLease};

/// How many leaders a call follows that come to nothing, before it asks by itself.
const MAX_LEADERS: u32 = 4;

/// What a call has heard of those that it followed.
struct Following {
    /// How many leaders came to nothing.
    leaders: u32,
    failed: Option<(ErrorKind, Arc<str>)>,
    pauses: Backoff,
    pause: Option<Duration>,
}

/// What a call does next that has followed another one.
enum Next {
    Return(Acquisition),
    Fail(ErrorKind, Arc<str>),
    JoinAgain,
    AskAlone,
}

impl Acquirer<'_> {
    /// Asks the store, or is told what another call of the same request was told.
    pub(super) async fn together(&mut self, shared: &SharedCalls) -> Result<Acquisition, Error> {
        let core = self.core;
        let clock = &core.table.clock;
        let pauses = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        let mut following = Following { leaders: 0, failed: None, pauses, pause: None };
        while following.leaders < MAX_LEADERS {
            let Call { key, fingerprint, policy, .. } = self.call;
            let follower = match shared.join(key, fingerprint, policy) {
                Role::Leader(leader) => {
                    // One pauses, for all of them.
                    if let Some(pause) = following.pause {
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
            let told = clock.within(self.patience(), follower.outcome()).await;
            match self.followed(told, &mut following) {
                Next::Return(acquisition) => return Ok(acquisition),
                Next::Fail(kind, reason) => return self.failed(kind, &reason).await,
                Next::JoinAgain => {}
                Next::AskAlone => break,
            }
        }
        match following.failed {
            // Whoever runs without protection has asked by itself.
            Some((kind, reason)) if self.call.policy.outage == Outage::Closed => {
                self.failed(kind, &reason).await
            }
            Some(_) | None => self.ask().await,
        }
    }

    fn followed(&mut self, told: Option<SharedOutcome>, following: &mut Following) -> Next {
        let now = self.core.table.clock.moment();
        match told {
            Some(SharedOutcome::Replay(answer)) => Next::Return(Acquisition::Replay(answer)),
            Some(SharedOutcome::ReplayFailure(failure)) => {
                Next::Return(Acquisition::ReplayFailure(failure))
            }
            Some(SharedOutcome::Mismatch) => Next::Return(Acquisition::Mismatch),
            Some(SharedOutcome::Abandoned) => Next::Return(Acquisition::Abandoned),
            Some(SharedOutcome::InProgress(seen)) if seen.at < self.machine.began() => {
                // It may have ended before this call began.
                following.leaders += 1;
                Next::JoinAgain
            }
            Some(SharedOutcome::InProgress(seen)) => {
                if self.machine.patience(now).0.is_zero() {
                    return Next::Return(in_progress(seen.left));
                }
                // One of those that wait looks for all of them.
                self.machine.note(seen);
                Next::JoinAgain
            }
            Some(SharedOutcome::Gone) => {
                following.leaders += 1;
                Next::JoinAgain
            }
            Some(SharedOutcome::Failed(ErrorKind::Unavailable, reason)) => {
                following.leaders += 1;
                following.failed = Some((ErrorKind::Unavailable, reason));
                following.pause = Some(drawn(following.pauses.next()));
                Next::JoinAgain
            }
            Some(SharedOutcome::Failed(kind, reason)) => Next::Fail(kind, reason),
            None => match self.machine.observed() {
                Some(seen) => Next::Return(in_progress(seen.left)),
                None if mutant(Mutant::RefuseUnasked) => Next::Return(in_progress(Duration::ZERO)),
                None => {
                    // Whoever waits for an owner has had its own time for that.
                    if matches!(self.call.policy.in_progress, InProgress::Wait { .. }) {
                        self.machine.begin_budget(now);
                    }
                    Next::AskAlone
                }
            },
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
