//! The running execution: what the handler sees of it, its lease, and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;

use crate::answer::{Answer, Replay, Stored};
use crate::call::context::{CallContext, End};
use crate::call::core::Core;
use crate::call::errors::{commit_unknown, lease_lost, outcome_unknown};
use crate::call::session::{Session, SessionKind, report_unstorable};
use crate::call::steps::Steps;
use crate::clock;
use crate::error::Error;
use crate::fault_injection::{FaultPoint, is_broken};
use crate::policy::{Completed, Policy, Unconfirmed};
use crate::protocol::{
    Acquisition, CompletionEnd, FailureEnd, Goal, Grant, Left, State, Tenure, Verdict, Window,
};
use crate::signals::Ending;
#[cfg(feature = "http")]
use crate::store::key::RecordKey;
use crate::store::key::derived::DerivedKey;
use crate::store::record::{OwnerId, Record, RecordMeta, completed_meta, random_owner};

/// The running operation, as its handler sees it.
///
/// A clone is the same execution. HTTP handlers find it in the extensions of the request.
///
/// ```
/// use std::time::Duration;
///
/// use dynamodb_idempotency::Execution;
///
/// async fn import(execution: Execution, rows: &[u32]) -> Result<usize, String> {
///     if rows.is_empty() {
///         execution.discard(); // rejected: the key stays free
///         return Err("no rows".to_owned());
///     }
///     println!("attempt {} by {}", execution.attempt(), execution.owner());
///     for row in rows {
///         // The handler is stopped when the lease expires.
///         if execution.lease_remaining() < Duration::from_secs(1) {
///             return Err("no time left".to_owned());
///         }
///         println!("{row}"); // your business here
///     }
///     if !execution.is_protected() {
///         println!("this run had no record: DynamoDB was out of reach");
///     }
///     Ok(rows.len())
/// }
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Execution {{ operation: {:?}, attempt: {}, .. }}", self.operation(), self.attempt())]
pub struct Execution {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) core: Arc<Core>,
    pub(crate) call: Arc<CallContext>,
    pub(crate) me: OwnerId,
    pub(crate) attempt: u32,
    /// The text form of the owner, once it was asked for.
    owner: OnceLock<String>,
    /// The machine that holds the lease and ends the record.
    pub(crate) tenure: Mutex<Tenure>,
    /// Locked by a commit and by the end of the execution, so that only one of them runs at a
    /// time.
    pub(crate) last_commit: tokio::sync::Mutex<Option<Box<LastCommit>>>,
    /// Wakes the task that drives the handler.
    pub(crate) handler: AtomicWaker,
    discarded: AtomicBool,
    pub(crate) steps: Steps,
    /// The stored failure of the record that was taken over.
    pub(crate) failure: Option<Box<Stored>>,
    /// Whether the execution holds a verified lease. It holds none if DynamoDB is out of reach
    /// (`Outage::Open`), even if a delayed write of its call creates the record.
    is_protected: bool,
    /// The ending if the answer is stored.
    success: Ending,
    /// The ending so far.
    ending: Mutex<Ending>,
}

/// The last commit that was sent, or is about to be sent.
#[derive(Debug)]
pub(crate) struct LastCommit {
    /// What its caller gets.
    pub(crate) answer: Answer,
    /// Until when it is stored, in epoch seconds; `None` if it is not stored, or if that is unknown.
    pub(crate) stored_until: Option<i64>,
}

impl Execution {
    /// Returns the number of this attempt: 1 for the first start of the operation.
    ///
    /// As long as the record lives, no two executions of a key get the same number, and a later one gets a
    /// higher number. Another system can therefore use it for fencing: it refuses lower numbers than the
    /// highest that it has seen. A record lives for its retention; a released record lives for an hour.
    ///
    /// An execution without a record ([`is_protected`](Self::is_protected) is `false`) has the number 0,
    /// which is lower than all others. Two such executions are indistinguishable.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::policy::Failure;
    ///
    /// let retain = Failure::Retain { max_attempts: 3 };
    /// let charge = idempotency.operation("charge").policy(|policy| policy.failure(retain))?;
    /// let call = charge.key("order-42").payload(&1200);
    /// let first = call.clone().run(async |_| Err::<u32, _>(std::io::Error::other("declined"))).await;
    /// assert!(first.is_err());
    /// let attempt = call.run(async |execution| Ok::<_, std::io::Error>(execution.attempt())).await?;
    /// assert_eq!(attempt, 2);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn attempt(&self) -> u32 {
        if self.is_protected() { self.inner.attempt } else { 0 }
    }

    /// Returns the random, unique id of this attempt: 32 hex digits.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// let operation = idempotency.operation("charge").key("order-42").payload(&1200);
    /// let owner = operation
    ///     .run(async |execution| Ok::<_, std::io::Error>(execution.owner().to_owned()))
    ///     .await?;
    /// assert_eq!(owner.len(), 32);
    /// let record = sandbox.record("charge", "order-42").read().await?.expect("a record");
    /// assert_eq!(record.owner, owner);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn owner(&self) -> &str {
        self.inner.owner.get_or_init(|| self.inner.me.to_string())
    }

    /// Returns how much of the lease is left.
    ///
    /// It is zero once the lease has expired or is lost, and once a commit or the handler's return has ended
    /// the execution. An execution without a record ([`is_protected`](Self::is_protected) is `false`) has no
    /// lease: the result is the time until the [deadline](crate::Call::deadline), or 366 days without one.
    /// Adding the result to `Instant::now()` does not overflow.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::policy::Lease;
    ///
    /// let left = idempotency
    ///     .operation("charge")
    ///     .policy(|policy| policy.lease(Lease::Fixed(Duration::from_secs(60))))?
    ///     .key("order-42")
    ///     .payload(&1200)
    ///     .run(async |execution| Ok::<_, std::io::Error>(execution.lease_remaining()))
    ///     .await?;
    /// assert!(left > Duration::from_secs(30) && left <= Duration::from_secs(60));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn lease_remaining(&self) -> Duration {
        let clock = &self.inner.core.table.clock;
        if !self.is_protected() {
            return self.inner.call.deadline.map_or(clock::MAX_AHEAD, |end| clock.left(end));
        }
        if self.tenure().is_over() { Duration::ZERO } else { self.lease_left() }
    }

    /// As [`lease_remaining`](Self::lease_remaining), but not zero while the completion is written.
    pub(crate) fn lease_left(&self) -> Duration {
        let clock = &self.inner.core.table.clock;
        self.lease_ends().map_or(Duration::ZERO, |end| clock.left(end))
    }

    /// Whether it runs for `key` in the table of `core`.
    #[cfg(feature = "http")]
    pub(crate) fn is_of(&self, core: &Arc<Core>, key: &RecordKey) -> bool {
        Arc::ptr_eq(&self.inner.core, core) && self.inner.call.key == *key
    }

    /// Returns whether a renewal, a step or a commit found that this execution no longer owns the key.
    ///
    /// By default ([`LeaseExpired::Stop`](crate::policy::LeaseExpired::Stop)) the handler is stopped then,
    /// so only tasks that it has spawned see `true`. A handler without renewals, steps and commits always
    /// sees `false`, and can use [`lease_remaining`](Self::lease_remaining).
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::policy::LeaseExpired;
    /// use dynamodb_idempotency::ErrorKind;
    ///
    /// let record = sandbox.record("charge", "order-42").payload(&1200);
    /// let ran = idempotency
    ///     .operation("charge")
    ///     .policy(|policy| policy.lease_expired(LeaseExpired::Continue))?
    ///     .key("order-42")
    ///     .payload(&1200)
    ///     .run(async |execution| {
    ///         record.pending(Duration::from_secs(30)).await?; // another call has the key now
    ///         let step = execution.step("charge", async { Ok::<_, std::io::Error>(()) }).await;
    ///         assert!(step.is_err() && execution.is_lease_lost());
    ///         Ok::<_, dynamodb_idempotency::Error>(())
    ///     })
    ///     .await;
    /// assert_eq!(ran.unwrap_err().idempotency().unwrap().kind(), ErrorKind::LeaseLost);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn is_lease_lost(&self) -> bool {
        self.tenure().is_lost()
    }

    /// Returns whether a record protects this execution. The result is `false` if DynamoDB is out
    /// of reach under [`Outage::Open`](crate::policy::Outage::Open), if a message has no key, or
    /// while idempotency is [switched off](crate::Builder::disabled).
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let operation = idempotency.operation("charge").key("order-42").payload(&1200);
    /// operation
    ///     .run(async |execution| {
    ///         assert!(execution.is_protected());
    ///         Ok::<_, std::io::Error>(())
    ///     })
    ///     .await?;
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.inner.is_protected
    }

    /// Derives a key for a call to another service, to send as its `Idempotency-Key`. The key is the same in
    /// every attempt of this operation, and different for each label and each operation. [`DerivedKey`]
    /// explains how long that protects.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let cancel = idempotency.operation("cancel").key("order-42").no_payload();
    /// cancel
    ///     .run(async |execution| {
    ///         let refund = execution.derive_key("refund").uuid();
    ///         assert_eq!(refund, execution.derive_key("refund").uuid());
    ///         Ok::<_, std::io::Error>(())
    ///     })
    ///     .await?;
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn derive_key(&self, label: &str) -> DerivedKey {
        DerivedKey::child(&self.inner.call.key, label)
    }

    /// Marks this execution as having changed nothing, for example after it rejected an invalid request.
    ///
    /// The caller gets the handler's answer, but it is not stored. The record is released, so a request with
    /// the same key may have another payload. If an earlier attempt left a kept failure, an expired lease or
    /// [steps](Self::step), that record is put back instead, and the key stays reserved for the same request.
    /// The next attempt gets the next higher number, but [`Failure::Retain`](crate::policy::Failure::Retain)
    /// does not count this attempt. If this execution has stored steps, the record is kept, and the next
    /// attempt skips them.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::Outcome;
    ///
    /// let outcome = idempotency
    ///     .operation("charge")
    ///     .key("order-42")
    ///     .payload(&1200)
    ///     .run_with_outcome(async |execution| {
    ///         execution.discard();
    ///         Ok::<_, std::io::Error>("the amount is negative".to_owned())
    ///     })
    ///     .await?;
    /// assert!(matches!(outcome, Outcome::NothingExecuted(_)));
    /// let record = sandbox.record("charge", "order-42").read().await?.expect("a free record");
    /// assert_eq!(record.status(), "RELEASED");
    /// # Ok(()) });
    /// ```
    pub fn discard(&self) {
        self.inner.discarded.store(true, Ordering::Relaxed);
    }
}

impl Execution {
    /// Creates an execution. `window` is its verified lease. Without one, no record protects it, although an
    /// earlier write of the call may still be applied. `taken` is the record that the call took over, or
    /// tried to take over. Its steps are not run again.
    pub(crate) fn new(
        core: &Arc<Core>,
        call: Arc<CallContext>,
        grant: Grant,
        window: Option<Window>,
        taken: Option<Box<Record>>,
        success: Ending,
    ) -> Self {
        let is_protected = window.is_some();
        let (steps, failure) = taken.map_or((None, None), |taken| {
            let failure = taken.answer.filter(|_| taken.meta.state == State::Failed);
            (taken.steps, failure.map(Box::new))
        });
        let (me, attempt) = (*grant.knowledge.me(), grant.attempts.number);
        let rules = call.rules(core, false);
        let inner = Inner {
            core: Arc::clone(core),
            call,
            owner: OnceLock::new(),
            me,
            attempt,
            tenure: Mutex::new(Tenure::new(grant, rules, window, core.table.clock.moment())),
            last_commit: tokio::sync::Mutex::default(),
            handler: AtomicWaker::new(),
            discarded: AtomicBool::new(false),
            steps: Steps::new(steps),
            failure,
            is_protected,
            success,
            ending: Mutex::new(Ending::DROPPED),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Creates the execution of a call without a record.
    pub(crate) fn unprotected(core: &Arc<Core>, call: Arc<CallContext>) -> Result<Self, Error> {
        let (rules, now) = (call.rules(core, false), core.table.clock.moment());
        let grant = Acquisition::new(random_owner()?, Goal::Own, rules, now).grant();
        Ok(Self::new(core, call, grant, None, None, Ending::UNPROTECTED))
    }

    /// Never hold the lock across an await, nor while user code runs.
    pub(crate) fn tenure(&self) -> MutexGuard<'_, Tenure> {
        // Nothing panics while the lock is held.
        self.inner.tenure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the handler is stopped. `None` if there is no lease, or if it is lost.
    pub(crate) fn lease_ends(&self) -> Option<clock::Deadline> {
        self.tenure().runs_until()
    }

    /// Until when a write or read of this execution that begins now is tried.
    pub(crate) fn tries_until(&self) -> clock::Deadline {
        self.tenure().tries_until(self.inner.core.table.clock.moment())
    }

    /// A new session for the writes of this execution.
    pub(crate) fn session(&self) -> Session<'_> {
        let Inner { core, call, me, .. } = &*self.inner;
        Session::new(core, call, *me, SessionKind::Execution)
    }

    pub(crate) fn operation(&self) -> &str {
        self.inner.call.key.operation()
    }

    pub(crate) fn has_record(&self) -> bool {
        self.inner.call.has_record
    }

    /// Whether no time is left for a handler: its answer must be stored before the deadline. A call that
    /// reads no record has no such limit.
    pub(crate) fn is_too_late(&self) -> bool {
        let Inner { core, call, .. } = &*self.inner;
        self.has_record() && call.answer_by().is_some_and(|by| core.table.clock.is_over(by))
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.inner.call.policy
    }

    /// Sets the ending to signal. A later one replaces it.
    pub(crate) fn ended_as(&self, ending: Ending) {
        *self.inner.ending.lock().unwrap_or_else(PoisonError::into_inner) = ending;
    }

    /// Sets the ending of a success.
    pub(crate) fn succeeded(&self) {
        self.ended_as(self.inner.success);
    }

    /// Signals the ending, once.
    pub(crate) fn report(&self) {
        let ending = *self.inner.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = self.is_protected().then(|| self.attempt());
        self.inner.call.ended(ending, attempt);
    }

    pub(crate) fn is_discarded(&self) -> bool {
        self.inner.discarded.load(Ordering::Relaxed)
    }
}

/// Whether a handler's answer was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Until then, in epoch seconds. `None` if that is unknown, or if the record has a reason instead of the
    /// answer.
    Stored(Option<i64>),
    /// The handler succeeded, and the key was released instead (`Completed::Release`).
    Released,
    /// The answer is a failure, or the handler executed nothing.
    NotStored,
    /// The answer is a hook's, and is stored as in `Stored`.
    Reconciled(Option<i64>),
    /// No record protected the run.
    Unprotected,
    /// DynamoDB did not confirm the write in time.
    Unconfirmed,
}

/// The end of an execution: its answer is stored, its failure is kept, or its key is released.
impl Execution {
    /// Stores the answer. Retries until the write is confirmed or rejected, or the time is over. If the
    /// answer cannot be stored, the record is completed with the reason. Boxed, so that the futures of
    /// callers stay small.
    pub(crate) fn complete(&self, answer: Answer) -> BoxFuture<'_, Result<Storage, End>> {
        let completing = async move {
            let Inner { core, call, .. } = &*self.inner;
            let until = self.tries_until();
            let answer = call.answers.stored(answer);
            let copy = call.is_cacheable(core, answer.bytes()).then(|| answer.detached());
            let (response, in_parts) = self.place(answer, until).await;
            let now = core.table.clock.moment();
            let command = self.tenure().complete(now, in_parts.unwrap_or_default(), until);
            let mut session = self.session();
            (session.answer, session.is_replaceable) = (Some(response), true);
            let ended = session.drive(&mut &self.inner.tenure, command).await;
            match CompletionEnd::from(ended) {
                CompletionEnd::Stored => {
                    // If the record has a reason instead of the answer, repeats get the reason.
                    let stored_until = session.stored_until();
                    let copy = copy.zip(stored_until);
                    if !copy.is_some_and(|(answer, until)| session.cache(until, answer)) {
                        core.invalidate_cached(&call.key);
                    }
                    self.succeeded();
                    let is_protected = self.is_protected();
                    let stored = Storage::Stored(stored_until);
                    Ok(if is_protected { stored } else { Storage::Unprotected })
                }
                CompletionEnd::Committed => {
                    self.succeeded();
                    Err(self.own_completion(&mut session).await)
                }
                CompletionEnd::LeaseLost if self.is_protected() => {
                    Err(self.lost_lease(&mut session).await)
                }
                CompletionEnd::LeaseLost | CompletionEnd::Unconfirmed => {
                    self.unconfirmed(session.take_error()).await
                }
                // The operation's answer may be the committed one.
                CompletionEnd::Unknown => {
                    self.report_unconfirmed(&session.take_error());
                    Err(commit_unknown().into())
                }
            }
        };
        completing.boxed()
    }

    /// Places the answer, or the reason why it cannot be stored. If the answer has parts, also returns until
    /// when they are kept, in epoch seconds.
    async fn place(&self, answer: Answer, until: clock::Deadline) -> (Stored, Option<i64>) {
        let Inner { core, call, .. } = &*self.inner;
        // While DynamoDB's time is not known, no part can be written.
        let stamp = core.table.clock.moment().stamp();
        let in_parts = stamp.map(|stamp| self.tenure().parts_expire_at(stamp));
        let time = in_parts.map(|_| self.time_for_parts(until));
        let mut record = self.completed_meta();
        record.expires_at = in_parts.unwrap_or(record.expires_at);
        let stored = match core.place_answer(answer, call, &record, time).await {
            Ok((stored, _)) => stored,
            Err(unstorable) => {
                self.report_unstorable(&unstorable.to_string());
                unstorable.replacement()
            }
        };
        let in_parts = in_parts.filter(|_| matches!(stored, Stored::Parts(_)));
        (stored, in_parts)
    }

    /// An estimate of the completed record, to compute its size.
    pub(crate) fn completed_meta(&self) -> RecordMeta {
        let Inner { core, me, attempt, .. } = &*self.inner;
        let (completed_at, expires_at) = self.tenure().estimate(core.table.clock.moment());
        completed_meta(*me, *attempt, completed_at, expires_at)
    }

    /// How long writing parts may take: half of the time that is left, or of an unrenewed lease that ends
    /// sooner. The other half is for the record, which must be completed even if its answer cannot be stored.
    fn time_for_parts(&self, until: clock::Deadline) -> Duration {
        let Inner { core, call, .. } = &*self.inner;
        let is_renewed = call.policy.lease.renewed(call.deadline).is_some();
        let time = core.time_until(Some(until));
        let of_lease = self.is_protected() && !is_renewed;
        (if of_lease { time.min(self.lease_left()) } else { time }) / 2
    }

    pub(crate) fn report_unstorable(&self, reason: &str) {
        report_unstorable(SessionKind::Execution, self.operation(), reason);
    }

    async fn unconfirmed(&self, error: Error) -> Result<Storage, End> {
        self.report_unconfirmed(&error);
        if !self.is_protected() {
            return Ok(Storage::Unprotected);
        }
        if is_broken(FaultPoint::ReleaseAfterUnconfirmed) {
            self.undo().await;
        }
        match self.policy().unconfirmed {
            Unconfirmed::Error => Err(outcome_unknown(error).into()),
            Unconfirmed::Answer => Ok(Storage::Unconfirmed),
        }
    }

    fn report_unconfirmed(&self, error: &Error) {
        if !self.is_protected() {
            return self.ended_as(Ending::FAIL_OPEN);
        }
        self.ended_as(Ending::UNCONFIRMED);
        tracing::error!(
            operation = self.operation(), attempt = self.attempt(), %error,
            "the handler ran and its completion could not be confirmed: it may run again once the lease is \
             over"
        );
    }

    /// The end of a call whose commit has completed the record.
    pub(crate) async fn own_completion(&self, session: &mut Session<'_>) -> End {
        let stored_until = session.stored_until();
        End::Committed(self.own_answer(session).await, stored_until)
    }

    /// The answer in this execution's own record. `Unavailable` if it cannot be read now.
    async fn own_answer(&self, session: &mut Session<'_>) -> Answer {
        let unread =
            |error| Answer::Unavailable(format!("it could not be read back: {error}").into());
        let record = session.last.take().filter(|record| record.meta.owner == self.inner.me);
        match record.and_then(|record| record.answer) {
            Some(stored) => self.open(stored).await.unwrap_or_else(unread),
            None => unread(session.take_error()),
        }
    }

    async fn open(&self, stored: Stored) -> Result<Answer, Error> {
        let Inner { core, call, .. } = &*self.inner;
        core.open(stored, &call.key, &call.policy, call.answer_by()).await
    }

    /// The answer stored by the owner that took over, if it completed the same request, or the error.
    pub(crate) async fn lost_lease(&self, session: &mut Session<'_>) -> End {
        self.ended_as(Ending::LEASE_LOST);
        tracing::error!(
            operation = self.operation(),
            attempt = self.attempt(),
            "the lease was lost before the answer could be stored: the handler may have run twice"
        );
        let Inner { core, call, .. } = &*self.inner;
        let now = core.table.clock.judging_time(None, core.clock_tolerance);
        // Checks the retention too: a delayed completion can bring back a record that TTL has deleted.
        let is_answer = |record: &Record| {
            record.meta.state == State::Completed
                && now.is_some_and(|now| !record.meta.is_past_retention(now))
                && call.fingerprint.matches(&record.fingerprint)
        };
        let Some(Record { meta, answer: Some(stored), .. }) = session.last.take().filter(is_answer)
        else {
            return lease_lost().into();
        };
        // If the answer cannot be read now, the caller gets the error and can retry.
        match self.open(stored).await {
            Ok(answer) => End::Replayed(Replay { answer, expires_at: meta.expires_at }),
            Err(_) => lease_lost().into(),
        }
    }

    /// Ends a failed execution by the policy. The caller gets the handler's error, whatever the result of
    /// this write. Only a commit's result replaces that error; [`close`](Self::close) returns it.
    pub(crate) async fn fail(&self, failure: Option<Answer>) {
        let Inner { core, call, steps, .. } = &*self.inner;
        // The lock is not held while the user's codec runs.
        let steps_bytes = steps.lock().bytes;
        let failure = failure.filter(|_| call.policy.failure.is_kept()).and_then(|failure| {
            let failure = call.answers.stored(failure);
            core.place_failure(failure, steps_bytes, &call.key, &call.policy)
        });
        self.end_without_answer(Verdict::Failed, failure).await;
    }

    /// Puts the previous record back, because nothing was executed. An execution that has sent a step
    /// has executed something: its record is kept as FAILED.
    pub(crate) async fn undo(&self) {
        self.end_without_answer(Verdict::NothingExecuted, None).await;
    }

    /// Whether a success releases the key instead of storing the answer.
    pub(crate) fn releases_success(&self) -> bool {
        self.policy().completed == Completed::Release
    }

    /// Releases the key after a success. The caller gets the handler's answer, whatever the result of this
    /// write. An execution without a record writes nothing.
    pub(crate) async fn release_success(&self) -> Storage {
        if self.is_protected() {
            self.end_without_answer(Verdict::Succeeded, None).await;
            Storage::Released
        } else {
            self.ended_as(Ending::FAIL_OPEN);
            Storage::Unprotected
        }
    }

    /// Retries the write until it is confirmed or rejected, or the time is over. Boxed, as
    /// [`acquire`](crate::call::acquiring::acquire) is.
    fn end_without_answer(&self, verdict: Verdict, failure: Option<Stored>) -> BoxFuture<'_, ()> {
        let ending = async move {
            let command = self.tenure().end(self.inner.core.table.clock.moment(), verdict);
            let mut session = self.session();
            (session.answer, session.failure) = (failure, self.inner.failure.as_deref());
            let ended = FailureEnd::from(session.drive(&mut &self.inner.tenure, command).await);
            match (ended, verdict) {
                // The record may belong to another owner, so there is nothing to release.
                (FailureEnd::Written(_) | FailureEnd::LeaseLost, Verdict::Succeeded) => {
                    self.succeeded();
                }
                (FailureEnd::Written(Left::Free), _) => self.ended_as(Ending::RELEASED),
                (FailureEnd::Written(Left::Failed), _) => self.ended_as(Ending::FAILED),
                (FailureEnd::LeaseLost, _) if self.is_protected() => {
                    self.ended_as(Ending::LEASE_LOST);
                }
                (FailureEnd::LeaseLost, _) => self.ended_as(Ending::FAIL_OPEN),
                // `close` returns its answer.
                (FailureEnd::Committed, _) => {}
                (FailureEnd::Unconfirmed | FailureEnd::Unknown, Verdict::Succeeded) => {
                    self.succeeded();
                    let error = session.take_error();
                    tracing::warn!(
                        operation = self.operation(), %error,
                        "an operation succeeded and its key could not be released: the key is free when \
                         the lease ends"
                    );
                }
                (FailureEnd::Unconfirmed | FailureEnd::Unknown, _) => {
                    self.ended_as(Ending::UNCONFIRMED);
                    let error = session.take_error();
                    tracing::error!(
                        operation = self.operation(), ?verdict, %error,
                        "the record of a failed operation could not be changed: its key is free when \
                         the lease ends"
                    );
                }
            }
        };
        ending.boxed()
    }
}
