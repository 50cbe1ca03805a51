//! The end of an execution: its answer is stored, its failure is kept, or its key is released.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::answer::{Answer, Stored};
use crate::clock::Deadline;
use crate::error::Error;
use crate::fault_injection::{FaultPoint, is_broken};
use crate::policy::{Completed, Unconfirmed};
use crate::protocol::{CompletionEnd, FailureEnd, Left, State, Verdict};
use crate::run::call::{CallContext, End, Replay};
use crate::run::driver::{Session, SessionKind, report_unstorable};
use crate::run::errors::{commit_unknown, lease_lost, outcome_unknown};
use crate::run::execution::{Execution, Inner};
use crate::signals::Ending;
use crate::store::record::{Header, Record, completed_header};

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

impl Execution {
    /// Stores the answer. Retries until the write is confirmed or rejected, or the time is over. If the
    /// answer cannot be stored, the record is completed with the reason. Boxed, so that the futures of
    /// callers stay small.
    pub(crate) fn complete(&self, answer: Answer) -> BoxFuture<'_, Result<Storage, End>> {
        let completing = async move {
            let Inner { core, call, .. } = &*self.inner;
            let now = core.table.clock.moment();
            let until = self.tenure().tries_until(now);
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
    async fn place(&self, answer: Answer, until: Deadline) -> (Stored, Option<i64>) {
        let Inner { core, call, .. } = &*self.inner;
        // While DynamoDB's time is not known, no part can be written.
        let stamp = core.table.clock.moment().stamp();
        let in_parts = stamp.map(|stamp| self.tenure().parts_expire_at(stamp));
        let time = in_parts.map(|_| self.time_for_parts(until));
        let mut record = self.completed_header();
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
    pub(crate) fn completed_header(&self) -> Header {
        let Inner { core, me, attempt, .. } = &*self.inner;
        let (completed_at, expires_at) = self.tenure().estimate(core.table.clock.moment());
        completed_header(*me, *attempt, completed_at, expires_at)
    }

    /// How long writing parts may take: half of the time that is left, or of an unrenewed lease that ends
    /// sooner. The other half is for the record, which must be completed even if its answer cannot be stored.
    fn time_for_parts(&self, until: Deadline) -> Duration {
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
        let record = session.last.take().filter(|record| record.header.owner == self.inner.me);
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
        let Inner { core, call: CallContext { fingerprint, .. }, .. } = &*self.inner;
        let now = core.table.clock.judging_time(None, core.clock_tolerance);
        // Checks the retention too: a delayed completion can bring back a record that TTL has deleted.
        let is_answer = |record: &Record| {
            record.header.state == State::Completed
                && now.is_some_and(|now| !record.header.is_past_retention(now))
                && fingerprint.matches(&record.fingerprint)
        };
        let Some(Record { header, answer: Some(stored), .. }) =
            session.last.take().filter(is_answer)
        else {
            return lease_lost().into();
        };
        // If the answer cannot be read now, the caller gets the error and can retry.
        match self.open(stored).await {
            Ok(answer) => End::Replayed(Replay { answer, expires_at: header.expires_at }),
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
    /// [`acquire`](crate::run::caller::acquire) is.
    fn end_without_answer(&self, verdict: Verdict, failure: Option<Stored>) -> BoxFuture<'_, ()> {
        let ending = async move {
            let command = self.tenure().end(self.inner.core.table.clock.moment(), verdict);
            let mut session = self.session();
            (session.answer, session.failure) = (failure, self.inner.failure.clone());
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
