//! How an execution ends: its answer is stored, its failure kept, or its key released.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::clock::{Backoff, End, Timestamp};
use crate::error::{Error, ErrorKind};
use crate::execution::{Execution, Inner};
use crate::fault_injection::{Mutant, mutant};
use crate::idempotency::Core;
use crate::parts::Written;
use crate::policy::{COMPLETION_MARGIN, Failure, Policy};
use crate::record::{self, Claim, Item, Record, State};
use crate::response::parts::Content;
use crate::response::{Answer, Draft, Packed, Stored, Unstorable, is_unavailable, unavailable};
use crate::signals::Ending;
use crate::table::{Guard, Reply, Write};

/// How long an execution without a record tries to leave its answer behind after all.
const UNPROTECTED_TIMEOUT: Duration = Duration::from_secs(1);

/// How a completion ended.
#[derive(Debug)]
#[must_use]
pub(crate) enum Completion {
    /// The answer is in the record.
    Stored,
    /// There was no record to write to: the execution ran unprotected.
    Unprotected,
    /// A commit of this execution's has, with this answer.
    Landed(Answer),
    /// Another owner has the key; with its answer, if it has completed.
    LeaseLost(Option<Answer>),
    /// The store was not heard of in time.
    Unconfirmed(Error),
}

/// A finished record's changing parts.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) completed_at: Timestamp,
    /// Epoch seconds.
    pub(crate) expires_at: i64,
    pub(crate) response: AttributeValue,
}

impl Execution {
    /// Stores the answer. Tried again until it is confirmed, refused, or out of time; what was
    /// executed is never given up for an answer that cannot be stored. Boxed: the callers' own futures
    /// stay small.
    pub(crate) fn complete<'a>(&'a self, draft: Draft<'a>) -> BoxFuture<'a, Completion> {
        self.see_completed(draft).boxed()
    }

    async fn see_completed(&self, draft: Draft<'_>) -> Completion {
        self.begin_ending();
        let table = &self.inner.core.table;
        let completed_at = self.inner.commits.next_completion(table.clock.store_now()).await;
        let claim = &self.inner.claim;
        let mut unstorable = false;
        let mut retries = self.retries();
        let Inner { core, policy, answers, .. } = &*self.inner;
        let changed = answers.stored(&draft);
        let draft = changed.as_ref().map_or(draft, Answer::draft);
        let is_kept = core.remembers(&claim.key, policy, draft.bytes());
        let kept = is_kept.then(|| Arc::new(draft.to_answer()));
        let (mut response, in_parts) = self.put_away(draft, completed_at, &retries).await;
        let mut attempt = claim.attempt;
        loop {
            // The lease may be renewed between two tries, and no record expires before it ends.
            let expires_at = in_parts.unwrap_or_else(|| self.expires_at(completed_at));
            let asked = core.ask(&claim.key);
            let finished = Finished { completed_at, expires_at, response: response.clone() };
            let whole = self.finished_item(attempt, finished);
            let Reply { outcome, .. } = if self.inner.commits.were_sent() {
                // A commit may land late, and its answer must not be overwritten.
                let guard = Guard::FreeOrHeld(&claim.owner, attempt);
                table.put_guarded(whole, guard, retries.limit()).await
            } else {
                table.complete(&claim.owner, attempt, whole, retries.limit()).await
            };
            let error = match outcome {
                Write::Applied => {
                    // Only what repeats will get: not where the record has a reason in its place.
                    let kept = kept.filter(|_| !is_unavailable(&response));
                    let request = (&claim.key, &self.inner.fingerprint);
                    if !kept.is_some_and(|answer| {
                        core.remember(asked, request, policy, expires_at, &answer)
                    }) {
                        core.forget(&claim.key);
                    }
                    return self.stored();
                }
                Write::Refused(Some(item)) => match self.released_attempt(&item) {
                    // In nobody's hands after all, and what was told of it stays told.
                    Some(later) if later > attempt => {
                        attempt = later;
                        continue;
                    }
                    Some(_) | None => return self.refused(item, completed_at).await,
                },
                Write::Refused(None) => {
                    match table.get(&claim.key, retries.limit()).await.outcome {
                        Ok(Some(item)) => return self.refused(item, completed_at).await,
                        Ok(None) => {
                            Error::new(ErrorKind::Unavailable, "the record changes too fast")
                        }
                        Err(error) => error,
                    }
                }
                Write::Invalid(error) if !unstorable => {
                    // The store took the pending record, so it is the answer that it does not take.
                    self.report_unstorable(&error.to_string());
                    response = unavailable("DynamoDB refused it");
                    unstorable = true;
                    continue;
                }
                Write::Invalid(error)
                | Write::Conflict(error)
                | Write::NotApplied(error)
                | Write::Unknown(error) => error,
            };
            // Without a record there is no lease to beat either.
            if !self.is_protected() || !retries.wait().await {
                return self.unconfirmed(error);
            }
        }
    }

    /// What stands in the record for an answer whose parts, if it has any, are in the table; and until
    /// when they stay there. An answer that cannot be stored leaves the reason.
    async fn put_away(
        &self,
        draft: Draft<'_>,
        completed_at: Timestamp,
        retries: &Retries<'_>,
    ) -> (AttributeValue, Option<i64>) {
        let Packed { response, parts } = match self.pack(draft, completed_at) {
            Ok(packed) => packed,
            Err(unstorable) => {
                self.report_unstorable(&unstorable.to_string());
                return (unstorable.in_place(), None);
            }
        };
        let Some(parts) = parts else { return (response, None) };
        if mutant(Mutant::CompleteBeforeParts) {
            return (response, None);
        }
        let expires_at = self.parts_expire_at(completed_at);
        match self.write_parts(&parts, expires_at, retries).await {
            Ok(()) => (response, Some(expires_at)),
            Err(error) => {
                let Some(response) = parts.in_record() else {
                    self.report_unstorable(&format!("its parts were not confirmed: {error}"));
                    return (unavailable("its parts could not be written"), None);
                };
                tracing::warn!(
                    operation = self.operation(), %error,
                    "an answer's parts were not confirmed: it goes into its record"
                );
                (response, None)
            }
        }
    }

    /// Gives an answer its form beside what else is in the finished record.
    pub(crate) fn pack<'d>(
        &self,
        draft: Draft<'d>,
        completed_at: Timestamp,
    ) -> Result<Packed<'d>, Unstorable> {
        let Inner { core, claim, policy, .. } = &*self.inner;
        let expires_at = self.expires_at(completed_at);
        let rest = record::completed_bytes(&core.table.schema, claim, completed_at, expires_at);
        core.pack(draft, rest, (&claim.key, &claim.owner), policy)
    }

    /// Writes an answer's parts in half of the time that there is, and that the lease has left where
    /// nothing renews it: the other half is for the record, which says that the operation has
    /// happened even if its answer cannot be stored.
    pub(crate) async fn write_parts(
        &self,
        parts: &Content<'_>,
        expires_at: i64,
        retries: &Retries<'_>,
    ) -> Result<(), Error> {
        let Inner { core, claim, policy, deadline, .. } = &*self.inner;
        let is_renewed = policy.lease.renewed(*deadline).is_some();
        let time = if self.is_protected() && !is_renewed {
            retries.limit().min(self.lease_remaining())
        } else {
            retries.limit()
        };
        let mut written = Written::default();
        core.write_parts(&claim.key, parts, expires_at, time / 2, &mut written).await
    }

    /// The finished record, as it stands in the table.
    pub(crate) fn finished_item(&self, attempt: u32, finished: Finished) -> Item {
        let (schema, claim) = (&self.inner.core.table.schema, &self.inner.claim);
        let Finished { completed_at, expires_at, response } = finished;
        let mut item = record::completed_item(schema, claim, completed_at, expires_at, response);
        if attempt != claim.attempt {
            record::set_attempt(schema, &mut item, attempt);
        }
        item
    }

    /// The attempt of a record that is in nobody's hands.
    pub(crate) fn released_attempt(&self, item: &Item) -> Option<u32> {
        let record = Record::decode(&self.inner.core.table.schema, item.clone()).ok()?;
        match record.state {
            State::Released => Some(record.attempt),
            State::Pending { .. } | State::Completed { .. } | State::Failed { .. } => None,
        }
    }

    /// As [`expires_at`](Self::expires_at), for a record whose answer has parts: they are written once,
    /// and must stay for as long as it does, however long its lease is renewed meanwhile.
    pub(crate) fn parts_expire_at(&self, ended_at: Timestamp) -> i64 {
        let Policy { lease, completion_timeout, .. } = self.inner.policy;
        let renewed = lease.renewed(self.inner.deadline).unwrap_or_default();
        let longest = ended_at.plus(completion_timeout).plus(renewed).seconds_up();
        self.expires_at(ended_at).max(longest)
    }

    /// When the table may delete the finished record, in epoch seconds: not before the lease ends,
    /// even where the retention is shorter. A completion that arrives late is then no sooner gone
    /// than the time in which nobody else may run.
    pub(crate) fn expires_at(&self, ended_at: Timestamp) -> i64 {
        let retained = ended_at.plus(self.inner.policy.retention);
        retained.max(self.lease_expires_at()).seconds_up()
    }

    pub(crate) fn report_unstorable(&self, reason: &str) {
        tracing::error!(
            operation = self.operation(),
            reason,
            "an operation completed and its answer cannot be stored: repeats get an error"
        );
    }

    fn stored(&self) -> Completion {
        self.succeeded();
        if self.is_protected() { Completion::Stored } else { Completion::Unprotected }
    }

    /// Refused means that the record is another owner's, or was completed by a commit of ours, or by an
    /// earlier try of this very completion.
    async fn refused(&self, item: Item, completed_at: Timestamp) -> Completion {
        if let Some(answer) = self.own_stored(&item) {
            let schema = &self.inner.core.table.schema;
            if record::completed_at(schema, &item) == Some(completed_at) {
                return self.stored();
            }
            self.succeeded();
            Completion::Landed(self.own(answer).await)
        } else if self.is_protected() {
            self.came_to(Ending::LeaseLost);
            Completion::LeaseLost(self.others(item).await)
        } else {
            self.came_to(Ending::FailOpen);
            Completion::Unprotected
        }
    }

    fn unconfirmed(&self, error: Error) -> Completion {
        if !self.is_protected() {
            self.came_to(Ending::FailOpen);
            return Completion::Unprotected;
        }
        self.came_to(Ending::Unconfirmed);
        tracing::error!(
            operation = self.operation(), attempt = self.attempt(), %error,
            "the handler ran and its completion could not be confirmed: it may run again once \
             the lease is over"
        );
        Completion::Unconfirmed(error)
    }

    /// The answer in a record that this execution has completed.
    fn own_stored(&self, item: &Item) -> Option<Stored> {
        let record = Record::decode(&self.inner.core.table.schema, item.clone()).ok()?;
        match record.state {
            State::Completed { answer } if record.owner == self.inner.claim.owner => Some(answer),
            State::Completed { .. }
            | State::Pending { .. }
            | State::Failed { .. }
            | State::Released => None,
        }
    }

    /// Whether it is this execution's own, and pending.
    pub(crate) fn holds(&self, item: &Item) -> bool {
        let record = Record::decode(&self.inner.core.table.schema, item.clone());
        record.is_ok_and(|record| {
            record.owner == self.inner.claim.owner && matches!(record.state, State::Pending { .. })
        })
    }

    fn owns(&self, item: &Item) -> bool {
        record::owner(&self.inner.core.table.schema, item) == Some(self.owner())
    }

    /// What was found to be this execution's answer. It is stored, even where it cannot be read now.
    pub(crate) async fn own(&self, stored: Stored) -> Answer {
        let unread = |error| Answer::Unavailable(format!("it could not be read back: {error}"));
        self.open(stored).await.unwrap_or_else(unread)
    }

    async fn open(&self, stored: Stored) -> Result<Answer, Error> {
        let Inner { core, claim, policy, deadline, .. } = &*self.inner;
        let until = deadline.map(|deadline| deadline.minus(COMPLETION_MARGIN));
        core.open(stored, &claim.key, policy, until).await
    }

    /// The answer of the owner that we lost to, if it has completed the same request.
    pub(crate) async fn others(&self, item: Item) -> Option<Answer> {
        tracing::error!(
            operation = self.operation(),
            attempt = self.attempt(),
            "the lease was lost before the answer could be stored: the handler may have run twice"
        );
        let Inner { core, fingerprint, .. } = &*self.inner;
        let record = Record::decode(&core.table.schema, item).ok()?;
        let now = core.table.clock.judging_time(None, core.clock_tolerance);
        match record.state {
            // A late copy of a completion can bring back what TTL has deleted.
            _ if record.is_past_retention(now) => None,
            State::Completed { answer } if fingerprint.matches(&record.fingerprint) => {
                // Whoever cannot read it now can ask again.
                self.open(answer).await.ok()
            }
            State::Completed { .. }
            | State::Pending { .. }
            | State::Failed { .. }
            | State::Released => None,
        }
    }

    /// Leaves behind what the policy wants of a failure. Whatever becomes of it, the handler's own
    /// error is the caller's answer.
    pub(crate) async fn fail(&self, response: Option<Draft<'_>>) {
        match self.inner.policy.failure {
            Failure::Release => self.release().await,
            Failure::Retain { .. } | Failure::Replay => self.keep_failure(response).await,
        }
    }

    /// Leaves the pending record in nobody's hands: the key is free. With steps it is kept as a failed
    /// one, and the next attempt goes on with it.
    async fn release(&self) {
        let ended = self.end(&self.released()).await;
        self.note(ended).await;
    }

    /// Leaves the record as this execution has found it, which has executed nothing: what there was before
    /// it stays counted, and it does not count. Steps of its own are something: with them it has failed.
    pub(crate) async fn give_back(&self) {
        let leaving = if self.inner.steps.were_sent() {
            self.failed(None)
        } else {
            let claim = self.inner.claim.executed_nothing();
            let expires_at = self.expires_at(self.inner.core.table.clock.store_now());
            Leaving::GiveBack { claim: Box::new(claim), expires_at }
        };
        let ended = self.end(&leaving).await;
        self.note(ended).await;
    }

    /// Gives the record up as a failure would, so that a commit under way can never land: it asks for a
    /// pending record, and this one never is pending again in these hands.
    pub(crate) async fn give_up(&self) -> Ended {
        let leaving = match self.inner.policy.failure {
            Failure::Release => self.released(),
            Failure::Retain { .. } | Failure::Replay => self.failed(None),
        };
        self.end(&leaving).await
    }

    /// What is left of a release: the record as a failed one if its steps must stay.
    fn released(&self) -> Leaving {
        if self.inner.steps.may_be_stored() { self.failed(None) } else { Leaving::Release }
    }

    /// A failure that meets its own execution's commit has come too late: the commit stands.
    async fn note(&self, ended: Ended) {
        if !self.inner.commits.were_sent() {
            return;
        }
        let landed = match &ended {
            Ended::Refused(Some(item)) => self.own_stored(item),
            Ended::Applied | Ended::Refused(None) | Ended::Unknown => None,
        };
        match landed {
            Some(answer) => self.inner.commits.landed(self.own(answer).await).await,
            // Without a record nothing keeps a late commit from landing where there is none.
            None if matches!(ended, Ended::Unknown) || !self.is_protected() => {
                self.inner.commits.unfinished().await;
            }
            None => {}
        }
    }

    async fn keep_failure(&self, response: Option<Draft<'_>>) {
        let ended = self.end(&self.failed(response)).await;
        self.note(ended).await;
    }

    fn failed(&self, failure: Option<Draft<'_>>) -> Leaving {
        let failed_at = self.inner.core.table.clock.store_now();
        let expires_at = self.expires_at(failed_at);
        let Inner { core, claim, policy, steps, answers, .. } = &*self.inner;
        let response = failure.and_then(|failure| {
            let changed = answers.stored(&failure);
            let failure = changed.as_ref().map_or(failure, Answer::draft);
            core.pack_failure(failure, steps.bytes(), &claim.key, policy)
        });
        Leaving::Keep { failed_at, expires_at, response }
    }

    /// Sends a failure's write until it is confirmed, refused, or out of time.
    async fn end(&self, leaving: &Leaving) -> Ended {
        self.begin_ending();
        let (table, claim) = (&self.inner.core.table, &self.inner.claim);
        let mut retries = self.retries();
        let mut in_doubt = false;
        loop {
            let limit = retries.limit();
            let Reply { outcome, .. } = match leaving {
                Leaving::Release => table.release(claim, self.lease_expires_at(), limit).await,
                Leaving::GiveBack { claim, expires_at } => {
                    let lease_expires_at = self.lease_expires_at();
                    table.give_back(claim, lease_expires_at, *expires_at, limit).await
                }
                Leaving::Keep { failed_at, expires_at, response } => {
                    let (at, until) = (*failed_at, *expires_at);
                    table.keep_failure(claim, at, until, response.clone(), limit).await
                }
            };
            let error = match outcome {
                Write::Applied => {
                    self.came_to(leaving.ending());
                    return Ended::Applied;
                }
                Write::Refused(item) => {
                    let is_ours = item.as_ref().is_none_or(|item| self.owns(item));
                    // Within the lease nobody has taken the record but after an earlier try.
                    let is_done = in_doubt && !self.lease_remaining().is_zero();
                    self.came_to(match is_ours || is_done {
                        true => leaving.ending(),
                        false if self.is_protected() => Ending::LeaseLost,
                        false => Ending::FailOpen,
                    });
                    return Ended::Refused(item);
                }
                Write::Unknown(error) => {
                    in_doubt = true;
                    error
                }
                Write::Conflict(error) | Write::Invalid(error) | Write::NotApplied(error) => error,
            };
            if !self.is_protected() || !retries.wait().await {
                self.came_to(Ending::Unconfirmed);
                tracing::error!(
                    operation = self.operation(), ?leaving, %error,
                    "the record of a failed operation could not be changed: its key is free when \
                     the lease ends"
                );
                return Ended::Unknown;
            }
        }
    }

    pub(crate) fn retries(&self) -> Retries<'_> {
        let longest = if self.is_protected() {
            self.inner.policy.completion_timeout
        } else {
            UNPROTECTED_TIMEOUT
        };
        Retries::new(&self.inner.core, longest, self.inner.deadline)
    }
}

/// What became of a failure's write.
#[derive(Debug)]
#[must_use]
pub(crate) enum Ended {
    Applied,
    /// An earlier try did it, or the record is not ours, or not pending, any more.
    Refused(Option<Item>),
    /// The store was not heard of in time.
    Unknown,
}

/// What a failed operation leaves behind.
enum Leaving {
    Release,
    /// What was there before, with nothing executed.
    GiveBack {
        claim: Box<Claim>,
        expires_at: i64,
    },
    Keep {
        failed_at: Timestamp,
        expires_at: i64,
        response: Option<AttributeValue>,
    },
}

impl Leaving {
    const fn ending(&self) -> Ending {
        match self {
            Self::Release | Self::GiveBack { .. } => Ending::Released,
            Self::Keep { .. } => Ending::Failed,
        }
    }
}

impl fmt::Debug for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Release => "Release",
            Self::GiveBack { .. } => "GiveBack",
            Self::Keep { .. } => "Keep",
        })
    }
}

/// The pauses between tries of a write that must get through, up to a point in time.
pub(crate) struct Retries<'a> {
    core: &'a Core,
    until: End,
    backoff: Backoff,
}

impl<'a> Retries<'a> {
    /// Tries for at most `longest`, and in time for a `deadline`.
    pub(crate) fn new(core: &'a Core, longest: Duration, deadline: Option<End>) -> Self {
        let mut until = core.table.clock.lasting(longest);
        if let Some(deadline) = deadline {
            until = until.or(deadline.minus(COMPLETION_MARGIN));
        }
        let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        Self { core, until, backoff }
    }

    /// How long the next try may last.
    pub(crate) fn limit(&self) -> Duration {
        self.core.time_until(Some(self.until))
    }

    pub(crate) fn are_over(&self) -> bool {
        self.core.table.clock.is_over(self.until)
    }

    /// Waits for the next try; `false` when there is no time for one.
    pub(crate) async fn wait(&mut self) -> bool {
        let clock = &self.core.table.clock;
        let pause = self.backoff.next();
        if pause >= clock.left(self.until) {
            return false;
        }
        clock.sleep(pause).await;
        true
    }
}
