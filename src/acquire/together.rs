//! Calls of one request in one process: each is the leader of the others, or follows one.

use std::sync::Arc;
use std::time::Duration;

use super::{Acquirer, Acquisition, Seen, in_progress};
use crate::clock::Backoff;
use crate::error::{Error, ErrorKind};
use crate::fault_injection::{Mutant, mutant};
use crate::flight::{Flights, Joined, Landing};
use crate::policy::Outage;

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
            let follower = match flights.join(&self.call) {
                Joined::Leader(flight) => {
                    // One pauses, for all of them.
                    if let Some(pause) = pause {
                        clock.sleep(self.patience().min(pause)).await;
                    }
                    let told = self.ask().await;
                    let seen = self.running().map_or_else(|| clock.now().uptime, |seen| seen.at);
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
                Some(Landing::InProgress(seen)) if seen.at < self.started => leaders += 1,
                Some(Landing::InProgress(seen)) => {
                    if self.call.wait_left(clock, self.started).is_zero() {
                        return Ok(in_progress(seen.lease_left));
                    }
                    // One of those that wait looks for all of them.
                    self.seen = Seen::Running(seen);
                }
                Some(Landing::Gone) => leaders += 1,
                Some(Landing::Failed(ErrorKind::Unavailable, reason)) => {
                    leaders += 1;
                    failed = Some((ErrorKind::Unavailable, reason));
                    pause = Some(pauses.next());
                }
                Some(Landing::Failed(kind, reason)) => {
                    return self.give_up(leaders_error(kind, &reason)).await;
                }
                None => match self.running() {
                    Some(seen) => return Ok(in_progress(seen.lease_left)),
                    None if mutant(Mutant::RefuseUnasked) => {
                        return Ok(in_progress(Duration::ZERO));
                    }
                    None => {
                        // Whoever waits for an owner has had its own time for that.
                        if self.call.is_waiting() {
                            self.begin_budget();
                        }
                        break;
                    }
                },
            }
        }
        match failed {
            // Whoever runs without protection has asked by itself.
            Some((kind, reason)) if self.call.policy.outage == Outage::Closed => {
                self.give_up(leaders_error(kind, &reason)).await
            }
            Some(_) | None => self.ask().await,
        }
    }

    /// Asks the store by itself.
    async fn ask(&mut self) -> Result<Acquisition, Error> {
        match self.running() {
            None => self.acquire().await,
            Some(seen) => self.wait_for(seen).await,
        }
    }

    /// How long this call follows another one. As long as nobody is known to run the operation, the
    /// policy for waiting has no say: finding that out takes its time whoever asks.
    fn patience(&self) -> Duration {
        let wait_left = self.call.wait_left(&self.core.table.clock, self.started);
        if self.running().is_some() || mutant(Mutant::RefuseUnasked) {
            return wait_left;
        }
        self.limit().max(wait_left)
    }
}

fn leaders_error(kind: ErrorKind, reason: &Arc<str>) -> Error {
    Error::new(kind, reason.to_string())
}
