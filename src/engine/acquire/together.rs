//! Calls of one request in one process: each is the leader of the others, or follows one.

use std::sync::Arc;
use std::time::Duration;

use super::{Acquirer, Acquisition, in_progress};
use crate::clock::{Backoff, drawn};
use crate::engine::sharing::{Flights, Joined, Landing};
use crate::error::{Error, ErrorKind};
use crate::mutant::{Mutant, mutant};
use crate::policy::{InProgress, Outage};
use crate::protocol::Cause;

/// How many leaders a call follows that come to nothing, before it asks by itself.
const MOST_LEADERS: u32 = 4;

impl Acquirer<'_> {
    /// Asks the store, or is told what another call of the same request was told.
    pub(super) async fn together(&mut self, flights: &Flights) -> Result<Acquisition, Error> {
        let core = self.core;
        let clock = &core.table.clock;
        let mut pauses = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        let (mut leaders, mut failed, mut pause) = (0, None, None);
        while leaders < MOST_LEADERS {
            let follower = match flights.join(self.call) {
                Joined::Leader(flight) => {
                    // One pauses, for all of them.
                    if let Some(pause) = pause {
                        clock.sleep(self.patience().min(pause)).await;
                    }
                    let told = self.ask().await;
                    let observed = self.machine.observed();
                    let seen = observed.map_or_else(|| clock.now().uptime, |seen| seen.at);
                    flight.land(&told, seen);
                    return told;
                }
                Joined::Follower(follower) => follower,
            };
            match clock.within(self.patience(), follower.landing()).await {
                Some(Landing::Replay(answer)) => return Ok(Acquisition::Replay(answer)),
                Some(Landing::ReplayFailure(failure)) => {
                    return Ok(Acquisition::ReplayFailure(failure));
                }
                Some(Landing::Mismatch) => return Ok(Acquisition::Mismatch),
                Some(Landing::Abandoned) => return Ok(Acquisition::Abandoned),
                // It may have ended before this call began.
                Some(Landing::InProgress(seen)) if seen.at < self.machine.began() => leaders += 1,
                Some(Landing::InProgress(seen)) => {
                    if self.machine.patience(clock.moment()).0.is_zero() {
                        return Ok(in_progress(seen.left));
                    }
                    // One of those that wait looks for all of them.
                    self.machine.note(seen);
                }
                Some(Landing::Gone) => leaders += 1,
                Some(Landing::Failed(ErrorKind::Unavailable, reason)) => {
                    leaders += 1;
                    failed = Some((ErrorKind::Unavailable, reason));
                    pause = Some(drawn(pauses.next()));
                }
                Some(Landing::Failed(kind, reason)) => {
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
