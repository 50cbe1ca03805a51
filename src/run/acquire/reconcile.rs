//! An abandoned operation, and the hook's resolution of it.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::hook_body::Resolved;
use super::{AcquireResult, Acquirer};
use crate::error::Error;
use crate::protocol::Resolution;
use crate::run::hook::{Abandoned, Settlement, Verdict};
use crate::store::record::Checkpoints;

impl Acquirer<'_> {
    pub(super) fn hook_call(&mut self) -> Result<AcquireResult, Error> {
        let Some(record) = &self.session.last else { return Err(self.session.take_error()) };
        let (coding, key) = (self.core.coding.clone(), self.call.key.clone());
        Ok(AcquireResult::Reconcile(Box::new(Abandoned::new(coding, key, record))))
    }

    /// Continues after [`AcquireResult::Reconcile`] with the hook's resolution.
    pub(crate) fn resume(
        &mut self,
        verdict: Verdict,
    ) -> BoxFuture<'_, Result<AcquireResult, Error>> {
        let steps = self.session.last.as_ref().and_then(|record| record.steps.as_ref());
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
        self.body.resolved = settlement.map(resolved);
        let command = self.machine.resolved(self.core.table.clock.moment(), resolution);
        self.proceed(command).boxed()
    }

    /// How long a hook may take, so that the answer is returned before the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        self.core.time_until(self.call.answer_by())
    }
}
