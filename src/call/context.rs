//! One call of an operation: what it asks for, and the time that it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::answer::{Answer, AnswerRules, Replay};
use crate::call::core::Core;
use crate::call::steps::StepItems;
use crate::clock::{Clock, Deadline};
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::policy::{Completed, Policy};
use crate::protocol::{COMPLETION_MARGIN, Rules};
use crate::signals::{Ending, Signals};
use crate::store::key::{RecordKey, Scope};

/// The end of a call whose result is not what its handler or hook has returned.
#[derive(Debug, derive_more::From)]
pub(crate) enum End {
    /// The answer that the handler has committed, and until when it is stored, in epoch seconds, if that is known.
    Committed(Answer, Option<i64>),
    /// The answer of another execution.
    Replayed(Replay),
    /// The failure of an earlier execution, if it is available.
    FailureReplayed(Option<Replay>),
    /// No answer, for this reason.
    #[from]
    NoAnswer(Error),
}

/// One call of an operation. Shared, so that the futures of a call and its execution have one copy.
#[derive(Clone)]
pub(crate) struct CallContext {
    /// Whether a record is read and written. Without one, the handler runs with an unprotected
    /// [`Execution`](crate::Execution).
    pub(crate) has_record: bool,
    /// Without a record, only derived keys and the log use it.
    pub(crate) key: RecordKey,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) policy: Arc<Policy>,
    /// When the caller's time is over.
    pub(crate) deadline: Option<Deadline>,
    pub(crate) answers: AnswerRules,
    pub(crate) signals: Signals,
    /// Whether the call has run nothing and waits for another call's answer. `None` if the adapter does
    /// not use it.
    pub(crate) is_waiting: Option<Arc<AtomicBool>>,
    /// The items of the record's steps, as far as the call knows them.
    pub(crate) step_items: Arc<StepItems>,
}

impl CallContext {
    /// `identity` is the call's key and fingerprint, or why the call is rejected. While idempotency is
    /// switched off, no call has a record, and none is rejected.
    pub(crate) fn new<E>(
        core: &Core,
        scope: &Scope,
        identity: Result<(RecordKey, Fingerprint), E>,
        policy: Arc<Policy>,
        deadline: Option<Deadline>,
        answers: AnswerRules,
    ) -> Result<Arc<Self>, E> {
        if !core.is_disabled {
            let (key, fingerprint) = identity?;
            let call = Self::without_record(core, key, policy, deadline, answers);
            return Ok(Arc::new(Self { has_record: true, fingerprint, ..call }));
        }
        let operation = scope.operation();
        tracing::warn!(operation, "a call runs WITHOUT idempotency: it is switched off");
        let key = identity.map(|(key, _)| key);
        let key = key.or_else(|error| core.random_key(scope).map_err(|_| error))?;
        Ok(Arc::new(Self::without_record(core, key, policy, deadline, answers)))
    }

    /// A call that no record protects.
    pub(crate) fn without_record(
        core: &Core,
        key: RecordKey,
        policy: Arc<Policy>,
        deadline: Option<Deadline>,
        answers: AnswerRules,
    ) -> Self {
        let (signals, fingerprint) = (Signals::new(&key, core.log), Fingerprint::empty());
        Self {
            has_record: false,
            key,
            fingerprint,
            policy,
            deadline,
            answers,
            signals,
            is_waiting: None,
            step_items: Arc::default(),
        }
    }

    pub(crate) fn note_wait(&self, begins: bool) {
        if let Some(is_waiting) = &self.is_waiting {
            is_waiting.store(begins, Ordering::Relaxed);
        }
    }

    /// Signals the ending of the call, with the attempt if one was counted.
    pub(crate) fn ended(&self, ending: Ending, attempt: Option<u32>) {
        self.signals.ended(self.key.operation(), ending, attempt);
    }

    /// When the last round trip has to end, so that the answer is returned before the deadline.
    pub(crate) fn answer_by(&self) -> Option<Deadline> {
        self.deadline.map(|deadline| deadline.minus(COMPLETION_MARGIN))
    }

    /// Runs `work`, which precedes the first write, until the deadline at the latest. A write after the
    /// deadline would be too late.
    pub(crate) async fn prepare<F: Future>(
        &self,
        clock: &Clock,
        work: F,
    ) -> Result<F::Output, Error> {
        let Some(deadline) = self.deadline else { return Ok(work.await) };
        clock.until(|| Some(deadline), work).await.ok_or_else(|| {
            let message =
                "the deadline of the operation came before its transaction: nothing was written";
            Error::new(ErrorKind::DeadlineExceeded, message)
        })
    }

    /// The rules that this call follows.
    pub(crate) fn rules(&self, core: &Core, reconciles: bool) -> Rules {
        let policy = &self.policy;
        Rules {
            failure: policy.failure,
            takeover: policy.takeover,
            reconciles,
            lease: policy.lease,
            in_progress: policy.in_progress,
            outage: policy.outage,
            retention: policy.retention,
            completion_timeout: policy.completion_timeout,
            deadline: self.deadline,
            tolerance: core.clock_tolerance,
            request_timeout: core.table.request_timeout,
        }
    }

    /// An error if the policy stores no answer, because then `what` has nothing to be stored with.
    pub(crate) fn stores_answers(&self, what: &str) -> Result<(), Error> {
        if self.policy.completed != Completed::Release {
            return Ok(());
        }
        let message = format!(
            "{what} needs a record that stays, and Completed::Release keeps none: nothing was run. Use \
             Completed::Replay"
        );
        Err(Error::new(ErrorKind::InvalidUse, message))
    }

    /// Whether the cache of this process takes an answer of so many bytes.
    pub(crate) fn is_cacheable(&self, core: &Core, bytes: usize) -> bool {
        core.cache.as_ref().is_some_and(|cache| cache.has_room(self.key.as_str(), bytes))
    }

    /// The call's answer, if this process keeps it.
    pub(crate) fn cached(&self, core: &Core) -> Option<Replay> {
        core.cache.as_ref()?.get(self.key.as_str(), &self.fingerprint, &core.table.clock)
    }
}
