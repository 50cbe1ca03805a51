//! An abandoned operation and what a hook says of it.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::carried::Resolved;
use super::{Acquirer, Acquisition};
use crate::engine::hook::{Abandoned, Settlement, Verdict};
use crate::error::Error;
use crate::protocol::Resolution;
use crate::record::Checkpoints;

impl Acquirer<'_> {
    pub(super) fn put_to_hook(&mut self) -> Result<Acquisition, Error> {
        let Some(record) = &self.wire.last else { return Err(self.wire.take_error()) };
        let (coding, key) = (self.core.coding.clone(), self.call.key.clone());
        Ok(Acquisition::Reconcile(Box::new(Abandoned::new(coding, key, record))))
    }

    /// Goes on after [`Acquisition::Reconcile`] with the hook's resolution.
    pub(crate) fn resume(&mut self, verdict: Verdict) -> BoxFuture<'_, Result<Acquisition, Error>> {
        let steps = self.wire.last.as_ref().and_then(|record| record.steps.as_ref());
        let steps_bytes = steps.map_or(0, Checkpoints::bytes);
        let (resolution, settlement) = match verdict {
            Verdict::Settle(settled @ Settlement::Completed(_)) => {
                (Resolution::Completed, Some(settled))
            }
            Verdict::Settle(settled @ Settlement::Failed(_)) => (Resolution::Failed, Some(settled)),
            Verdict::Execute => (Resolution::Execute, None),
            Verdict::Refuse => (Resolution::Refuse, None),
        };
        let resolved = |settlement| Resolved { settlement, stored: None, steps_bytes };
        self.carried.resolved = settlement.map(resolved);
        let command = self.machine.resolved(self.core.table.clock.moment(), resolution);
        self.go_on(command).boxed()
    }

    /// How long a hook may take: the answer has to get out before the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        self.core.time_until(self.call.answer_by())
    }
}
