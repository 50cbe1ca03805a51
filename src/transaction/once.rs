//! A whole operation as one transaction: the record is never PENDING, and a duplicate's own
//! transaction is cancelled with the stored answer.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};

use super::preview::preview;
use super::reasons::{Refusal, Verdict, judge};
use super::{ConditionFailed, InvalidTransaction, items, token};
use crate::acquire::{Acquisition, Call, in_progress};
use crate::cache::Asked;
use crate::clock::{Backoff, End, StoreTime, Timestamp, Uptime};
use crate::completion::Retries;
use crate::error::{Error, ErrorKind};
use crate::fault_injection::{Mutant, mutant};
use crate::idempotency::Core;
use crate::parts::Written;
use crate::protocol::{Decision, Orphan, Request, decide};
use crate::record::{self, Claim, Item, Record, State, Version};
use crate::response::parts::Content;
use crate::response::{Answer, Draft, Packed, Stored, Unstorable};
use crate::signals::Ending;
use crate::table::{Guard, Reply, Sent, Transacted, Write};

/// What is stored instead of the answer when a condition of the caller's does not hold.
pub(crate) enum Instead<T> {
    Stored(T, Answer),
    /// It goes out, and nothing is stored.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP answers can be so"))]
    Unstored(T),
    Invalid(InvalidTransaction),
}

/// What a transaction has come to.
#[must_use]
pub(crate) enum Once<T> {
    /// The effect and the answer are in the tables.
    Executed,
    /// A condition did not hold, and this is the answer.
    Instead(T),
    /// There was a record: never `Acquired`.
    Found(Acquisition),
    ConditionFailed(ConditionFailed),
    Invalid(InvalidTransaction),
}

/// Writes `items` and the completed record, unless the record shows that this has been done.
pub(crate) async fn once<T>(
    core: &Arc<Core>,
    call: Call,
    draft: Draft<'_>,
    items: Vec<TransactWriteItem>,
    instead: impl FnOnce(&ConditionFailed) -> Option<Instead<T>>,
) -> Result<Once<T>, Error> {
    let mut attempt = Attempt::new(core, call)?;
    let done = attempt.once(draft, items, instead).await;
    attempt.report(&done);
    done
}

/// What the record says to a call that has nothing to write: an answer that was stored earlier, or a
/// refusal. `None` where what the call says itself counts.
pub(crate) async fn look_up(core: &Arc<Core>, call: Call) -> Result<Option<Acquisition>, Error> {
    let mut attempt = Attempt::new(core, call)?;
    let found = attempt.find().await;
    let ending = match &found {
        Ok(Some(found)) => Ending::of(found),
        Ok(None) => Some(Ending::NotWritten),
        Err(error) => Some(Ending::of_error(error)),
    };
    attempt.call.ended(ending.unwrap_or(Ending::NotWritten));
    found
}

enum Run {
    Done,
    Found(Acquisition),
    ConditionFailed(ConditionFailed),
    Invalid(InvalidTransaction),
}

struct Attempt<'a> {
    core: &'a Arc<Core>,
    call: Call,
    claim: Claim,
    started: Uptime,
    /// When all that is sent must have had its answer.
    budget: End,
    looking: Backoff,
    /// Epoch seconds.
    expires_at: i64,
    /// Tells what this call has written: no two of its contents have the same.
    completed_at: Timestamp,
    /// The record that is to be replaced; none if there must not be one.
    seen: Option<Version>,
    tokens: u32,
    /// What the caller's items have, in bytes.
    others: usize,
    written: Written,
    /// The answer as it stands in the record, once its parts could not be written.
    in_record: Option<AttributeValue>,
    /// Something was sent that may have been executed, or may yet be.
    in_doubt: bool,
    /// For the answer that the record may be found to have.
    asked: Option<Asked>,
    /// Another owner was seen at work, with so much of its lease left.
    running: Option<Duration>,
    /// Our own record is in the table.
    is_written: bool,
}

/// What one round trip asks for.
enum Step {
    Ended(Run),
    /// The record has changed: again, on what it is now.
    Anew,
    /// Another owner runs: look again.
    Look,
    /// What is in doubt asks for this very record, and the rules would end the call by it.
    InDoubt,
    /// The same again, if there is time.
    Again(Error),
}

impl<'a> Attempt<'a> {
    fn new(core: &'a Arc<Core>, call: Call) -> Result<Self, Error> {
        let clock = &core.table.clock;
        let now = clock.store_now();
        // No lease is taken, but a call that is too late must write nothing.
        core.term(&call.policy, call.deadline)?;
        let expires_at = now.plus(call.policy.retention).seconds_up();
        let claim = Claim::first(call.key.clone(), call.fingerprint, now)?;
        Ok(Self {
            core,
            started: clock.now().uptime,
            budget: clock.lasting(core.table.request_timeout),
            looking: Backoff::new(Duration::from_millis(50), Duration::from_secs(1)),
            expires_at,
            completed_at: now,
            seen: None,
            tokens: 1,
            others: 0,
            written: Written::default(),
            in_record: None,
            in_doubt: false,
            asked: None,
            running: None,
            is_written: false,
            call,
            claim,
        })
    }

    async fn once<T>(
        &mut self,
        draft: Draft<'_>,
        mut items: Vec<TransactWriteItem>,
        instead: impl FnOnce(&ConditionFailed) -> Option<Instead<T>>,
    ) -> Result<Once<T>, Error> {
        if let Some(answer) = self.core.cached(&self.call) {
            return Ok(Once::Found(Acquisition::Replay(answer)));
        }
        let changed = self.call.answers.stored(&draft);
        let draft = changed.as_ref().map_or(draft, Answer::draft);
        let packed = match self.pack(draft) {
            Ok(packed) => packed,
            // Nothing is sent, but it may have been executed long ago.
            Err(unstorable) => {
                let found = self.find().await?;
                return Ok(found.map_or_else(|| Once::Invalid(unstorable.into()), Once::Found));
            }
        };
        let record = self.record(packed.response.clone());
        match items::prepare(&self.core.table, &self.claim.key, &record, &mut items) {
            Ok(bytes) => self.others = bytes,
            Err(invalid) => return Ok(Once::Invalid(invalid)),
        }
        let answer = match self.run(&packed, Some(&items)).await? {
            Run::Done => return Ok(self.executed(Once::Executed)),
            Run::Found(found) => return Ok(Once::Found(found)),
            Run::Invalid(invalid) => Once::Invalid(invalid),
            Run::ConditionFailed(failed) => match instead(&failed) {
                None => Once::ConditionFailed(failed),
                Some(Instead::Unstored(answer)) => Once::Instead(answer),
                Some(Instead::Invalid(invalid)) => Once::Invalid(invalid),
                // Under the same guard: it lands, or an earlier try of the transaction has.
                Some(Instead::Stored(answer, response)) => {
                    return self.instead(answer, response).await;
                }
            },
        };
        self.unless_landed(answer).await
    }

    /// "Nothing was written", once that is so: an earlier try may have landed.
    async fn unless_landed<T>(&mut self, answer: Once<T>) -> Result<Once<T>, Error> {
        Ok(match self.settle().await? {
            None => answer,
            Some(Landed::This) => {
                self.is_written = true;
                self.executed(Once::Executed)
            }
            Some(Landed::Other(found)) => Once::Found(found),
        })
    }

    fn executed<T>(&self, executed: Once<T>) -> Once<T> {
        self.core.forget(&self.claim.key);
        executed
    }

    async fn find(&mut self) -> Result<Option<Acquisition>, Error> {
        if let Some(answer) = self.core.cached(&self.call) {
            return Ok(Some(Acquisition::Replay(answer)));
        }
        loop {
            match self.look().await? {
                Step::Look => {}
                Step::Ended(Run::Found(found)) => return Ok(Some(found)),
                Step::Ended(_) | Step::Anew | Step::InDoubt => return Ok(None),
                Step::Again(error) => return Err(error),
            }
        }
    }

    fn report<T>(&self, done: &Result<Once<T>, Error>) {
        let ending = match done {
            Ok(Once::Executed | Once::Instead(_)) if self.core.table.is_disabled => {
                Ending::Unprotected
            }
            Ok(Once::Executed | Once::Instead(_)) if self.is_written => match &self.seen {
                Some(seen) if seen.lease_expires_at.is_some() => Ending::Takeover,
                Some(_) if self.claim.attempt > 1 => Ending::Retry,
                Some(_) | None => Ending::First,
            },
            Ok(Once::Found(found)) => Ending::of(found).unwrap_or(Ending::NotWritten),
            Ok(_) => Ending::NotWritten,
            Err(error) => Ending::of_error(error),
        };
        let attempt = self.is_written.then_some(self.claim.attempt);
        self.call.signals.ended(self.claim.key.operation(), ending, attempt);
    }

    /// Gives an answer its form beside what else is in the record.
    fn pack<'d>(&self, draft: Draft<'d>) -> Result<Packed<'d>, Unstorable> {
        let rest = record::item_bytes(&self.record(AttributeValue::Null(true)));
        let whose = (&self.claim.key, &self.claim.owner);
        self.core.pack(draft, rest, whose, &self.call.policy)
    }

    /// Writes the answer under the record's guard: with the caller's items, or alone.
    async fn run(
        &mut self,
        answer: &Packed<'_>,
        items: Option<&[TransactWriteItem]>,
    ) -> Result<Run, Error> {
        let core = Arc::clone(self.core);
        let mut retries = self.retries(&core);
        let mut changes = 0;
        // Parts are dear: none are written before it is clear that they are needed.
        let mut step = match answer.parts {
            Some(_) => self.look_ahead(items).await?,
            None => self.send(answer, items, &retries).await?,
        };
        loop {
            let error = match step {
                Step::Ended(run) => {
                    self.is_written = matches!(run, Run::Done);
                    return Ok(run);
                }
                // However long the other one ran: the time for tries is that after it.
                Step::Look => {
                    step = self.look().await?;
                    retries = self.retries(&core);
                    continue;
                }
                Step::InDoubt => {
                    step = match self.settle().await? {
                        Some(landed) => Step::Ended(landed.into()),
                        // Its version is another one now, and what it says is the same.
                        None => self.look().await?,
                    };
                    continue;
                }
                Step::Again(error) => error,
                // In a race, who has lost twice waits a little.
                Step::Anew => {
                    changes += 1;
                    if changes <= 2 {
                        step = self.send(answer, items, &retries).await?;
                        continue;
                    }
                    Error::new(ErrorKind::Unavailable, "the record changes too fast")
                }
            };
            if !retries.wait().await {
                return self.out_of_time(error).await;
            }
            step = self.send(answer, items, &retries).await?;
        }
    }

    /// Looks at the record, and at what the transaction would be refused for.
    async fn look_ahead(&mut self, items: Option<&[TransactWriteItem]>) -> Result<Step, Error> {
        let step = self.look().await?;
        let (Step::Anew, Some(items)) = (&step, items) else { return Ok(step) };
        let schema = &self.core.table.schema;
        let is_seen = |found: Option<&Item>| {
            let found = found.map(|item| Record::decode(schema, item.clone())).transpose();
            found.is_ok_and(|found| found.as_ref().map(Record::version) == self.seen)
        };
        let record = self.record(AttributeValue::Null(true));
        let refused = preview(self.core, record, items, self.limit() / 4, is_seen).await;
        Ok(match refused {
            Some(Refusal::ConditionFailed(failed)) => Step::Ended(Run::ConditionFailed(failed)),
            Some(Refusal::Invalid(invalid)) => Step::Ended(Run::Invalid(invalid)),
            None => step,
        })
    }

    /// Stores another answer than the transaction's.
    async fn instead<T>(&mut self, answer: T, stored: Answer) -> Result<Once<T>, Error> {
        let now = self.core.table.clock.store_now();
        self.completed_at = now.max(self.completed_at.shifted(1));
        (self.others, self.in_record) = (0, None);
        self.written = Written::default();
        let stored = self.call.answers.stored(&stored.draft()).unwrap_or(stored);
        let packed = match self.pack(stored.draft()) {
            Ok(packed) => packed,
            Err(unstorable) => return self.unless_landed(Once::Invalid(unstorable.into())).await,
        };
        match self.run(&packed, None).await? {
            Run::Done => Ok(self.executed(Once::Instead(answer))),
            Run::Found(found) => Ok(Once::Found(found)),
            Run::ConditionFailed(failed) => Ok(Once::ConditionFailed(failed)),
            Run::Invalid(invalid) => Ok(Once::Invalid(invalid)),
        }
    }

    fn record(&self, response: AttributeValue) -> Item {
        let schema = &self.core.table.schema;
        record::completed_item(schema, &self.claim, self.completed_at, self.expires_at, response)
    }

    async fn send(
        &mut self,
        answer: &Packed<'_>,
        items: Option<&[TransactWriteItem]>,
        retries: &Retries<'_>,
    ) -> Result<Step, Error> {
        if let Some(parts) = &answer.parts
            && let Err(error) = self.put_away(parts, retries.limit().min(self.limit())).await
        {
            return match error.kind() {
                ErrorKind::Configuration if !self.in_doubt => Err(error),
                _ => Ok(Step::Again(error)),
            };
        }
        let (table, limit) = (&self.core.table, retries.limit().min(self.limit()));
        let guard = self.seen.as_ref().map_or(Guard::Absent, Guard::Version);
        let record = self.record(self.in_record.as_ref().unwrap_or(&answer.response).clone());
        self.asked = self.core.ask(&self.claim.key);
        let Some(items) = items else {
            let reply = table.put_guarded(record, guard, limit).await;
            return self.written(reply).await;
        };
        let token = token(self.claim.owner.as_str(), self.tokens);
        let sent = table.transact(record, guard, items, &token, limit).await;
        self.transacted(sent).await
    }

    /// Sees to it that the answer's parts are in the table for as long as the record will be; or that
    /// the record has the answer, where it has the room.
    async fn put_away(&mut self, parts: &Content<'_>, time: Duration) -> Result<(), Error> {
        if self.in_record.is_some() {
            return Ok(());
        }
        let (core, key, until) = (self.core, &self.claim.key, self.expires_at);
        let Err(error) = core.write_parts(key, parts, until, time, &mut self.written).await else {
            return Ok(());
        };
        let fits = |response: &AttributeValue| {
            items::fit(&self.record(response.clone()), self.others).is_ok()
        };
        self.in_record = parts.in_record().filter(fits);
        if self.in_record.is_some() { Ok(()) } else { Err(error) }
    }

    async fn transacted(&mut self, sent: Sent) -> Result<Step, Error> {
        let was_in_doubt = self.in_doubt;
        self.in_doubt |= sent.in_doubt && !mutant(Mutant::ForgetDoubt);
        Ok(match sent.outcome {
            Transacted::Applied => Step::Ended(Run::Done),
            Transacted::Canceled(reasons) => match judge(reasons) {
                Verdict::Record(Some(item)) => self.decide(Some(item), sent.time).await?,
                Verdict::Record(None) => self.look().await?,
                Verdict::ConditionFailed(failed) => Step::Ended(Run::ConditionFailed(failed)),
                Verdict::Invalid(invalid) => Step::Ended(Run::Invalid(invalid)),
                Verdict::Retry(error) => Step::Again(error),
            },
            Transacted::TokenUsed(error) => {
                // The record's condition keeps it from landing twice, whatever its token.
                self.tokens += 1;
                Step::Again(error)
            }
            Transacted::Invalid(message) => {
                Step::Ended(Run::Invalid(InvalidTransaction::Refused { index: None, message }))
            }
            Transacted::NotApplied(error)
                if error.kind() == ErrorKind::Configuration && !was_in_doubt && !self.in_doubt =>
            {
                return Err(error);
            }
            Transacted::NotApplied(error) | Transacted::Unknown(error) => Step::Again(error),
        })
    }

    async fn written(&mut self, reply: Reply<Write>) -> Result<Step, Error> {
        Ok(match reply.outcome {
            Write::Applied => Step::Ended(Run::Done),
            Write::Refused(Some(item)) => self.decide(Some(item), reply.time).await?,
            Write::Refused(None) => self.look().await?,
            Write::Invalid(error) | Write::NotApplied(error)
                if error.kind() == ErrorKind::Configuration && !self.in_doubt =>
            {
                return Err(error);
            }
            Write::Invalid(error) | Write::Conflict(error) | Write::NotApplied(error) => {
                Step::Again(error)
            }
            Write::Unknown(error) => {
                self.in_doubt = true;
                Step::Again(error)
            }
        })
    }

    /// Reads the record and decides by it, as long as another owner runs and the policy waits.
    async fn look(&mut self) -> Result<Step, Error> {
        if let Some(lease_left) = self.running
            && !self.wait().await
        {
            return Ok(Step::Ended(Run::Found(in_progress(lease_left))));
        }
        self.asked = self.core.ask(&self.claim.key);
        let Reply { outcome, time } = self.core.table.get(&self.claim.key, self.limit()).await;
        match outcome {
            Ok(item) => self.decide(item, time).await,
            // Somebody runs it: one failed look is no reason to stop waiting.
            Err(_) if self.running.is_some() => Ok(Step::Look),
            Err(error) => Ok(Step::Again(error)),
        }
    }

    /// What the record says: the rules of `run`, with a transaction in the place of a lease.
    async fn decide(&mut self, item: Option<Item>, time: Option<StoreTime>) -> Result<Step, Error> {
        let table = &self.core.table;
        let written = item.as_ref().and_then(|item| record::completed_at(&table.schema, item));
        let record = item.map(|item| Record::decode(&table.schema, item)).transpose()?;
        // No version of a record is seen twice: what asks for another one than this can land no more.
        let found_version = record.as_ref().map(Record::version);
        self.in_doubt &= found_version == self.seen;
        let found = |acquisition| Ok(Step::Ended(Run::Found(acquisition)));
        let record = match record {
            // An earlier try of ours, whose response was lost: of this content, or of another.
            Some(Record { owner, state: State::Completed { answer }, .. })
                if owner == self.claim.owner =>
            {
                if written == Some(self.completed_at) {
                    return Ok(Step::Ended(Run::Done));
                }
                return found(Acquisition::Replay(Arc::new(self.open(answer).await?)));
            }
            other => other,
        };
        let request = Request {
            owner: &self.claim.owner,
            fingerprint: &self.call.fingerprint,
            policy: &self.call.policy,
            reconciles: false,
        };
        let now = table.clock.judging_time(time, self.core.clock_tolerance);
        let decision = decide(record, now, request);
        self.running = None;
        match decision {
            Decision::Create => self.on(None, 1, table.clock.store_now()),
            Decision::Replace { version, attempts } => {
                self.on(Some(version), attempts.saturating_add(1), table.clock.store_now());
            }
            Decision::TakeOver(Orphan { version, attempt, created_at, .. }) => {
                self.on(Some(version), attempt.saturating_add(1), created_at);
            }
            Decision::ReplayFailure(_)
            | Decision::Mismatch
            | Decision::Abandoned
            | Decision::InProgress { .. }
                if self.in_doubt =>
            {
                return Ok(Step::InDoubt);
            }
            Decision::InProgress { lease_left } => {
                self.running = Some(lease_left);
                return Ok(Step::Look);
            }
            Decision::Replay { answer, expires_at } => {
                let answer = Arc::new(self.open(answer).await?);
                let Call { key, fingerprint, policy, .. } = &self.call;
                self.core.remember(self.asked, (key, fingerprint), policy, expires_at, &answer);
                return found(Acquisition::Replay(answer));
            }
            Decision::ReplayFailure(failure) => {
                let failure = match failure {
                    Some(failure) => self.open(failure).await?.if_to_be_had(),
                    None => None,
                };
                return found(Acquisition::ReplayFailure(failure));
            }
            Decision::Mismatch => return found(Acquisition::Mismatch),
            Decision::Abandoned => return found(Acquisition::Abandoned),
            Decision::Acquired { .. } | Decision::Reconciled | Decision::Reconcile { .. } => {
                let message = "the record is one that this owner has never written";
                return Err(Error::new(ErrorKind::UnknownRecord, message));
            }
        }
        Ok(Step::Anew)
    }

    async fn open(&self, stored: Stored) -> Result<Answer, Error> {
        let Call { key, policy, .. } = &self.call;
        let until = self.call.answer_by().map_or(self.budget, |by| by.or(self.budget));
        self.core.open(stored, key, policy, Some(until)).await
    }

    /// The next write is for this state of the record, and another request than the one before.
    fn on(&mut self, seen: Option<Version>, attempt: u32, created_at: Timestamp) {
        self.seen = seen;
        // The retention begins with what is written now, however long the call has waited.
        let retained = self.core.table.clock.store_now().plus(self.call.policy.retention);
        self.expires_at = self.expires_at.max(retained.seconds_up());
        (self.claim.attempt, self.claim.created_at) = (attempt, created_at);
        self.tokens += 1;
    }

    /// The tries that there is time for: a quarter of it is for the look after the last one.
    fn retries<'c>(&self, core: &'c Core) -> Retries<'c> {
        let tries = core.table.clock.left(self.budget) / 4 * 3;
        let longest = self.call.policy.completion_timeout.min(tries);
        Retries::new(core, longest, self.call.deadline)
    }

    /// How long a request may last: half of what is left; and the answer has to get out before the
    /// deadline.
    fn limit(&self) -> Duration {
        let half = self.core.table.clock.left(self.budget) / 2;
        half.min(self.core.time_until(self.call.answer_by()))
    }

    /// Waits for the next look at a running operation; `false` when policy or time say no more.
    async fn wait(&mut self) -> bool {
        let table = &self.core.table;
        let waited = self.call.wait(&table.clock, self.started, &mut self.looking).await;
        if waited {
            self.budget = table.clock.lasting(table.request_timeout);
        }
        waited
    }

    /// No more tries: what is in doubt is put beyond it.
    async fn out_of_time(&mut self, error: Error) -> Result<Run, Error> {
        self.running = None;
        match self.settle().await {
            Ok(None) => Err(error),
            Ok(Some(landed)) => Ok(landed.into()),
            Err(unknown) => {
                tracing::error!(
                    operation = self.claim.key.operation(), %error,
                    "a transaction was not confirmed in time: it has happened as a whole or not \
                     at all"
                );
                Err(unknown)
            }
        }
    }

    /// Finds out whether a try of ours has landed, and sees to it that none does any more: the record that
    /// it asks for is put out of its way. DynamoDB orders the two, and whichever comes second is refused.
    /// `None` where nothing was written.
    async fn settle(&mut self) -> Result<Option<Landed>, Error> {
        let core = Arc::clone(self.core);
        let mut retries =
            Retries::new(&core, core.table.clock.left(self.budget), self.call.deadline);
        while self.in_doubt && !mutant(Mutant::DoubtLeftOpen) {
            if core.table.is_disabled {
                // What is sent without a record, no record keeps from landing.
                return Err(unknown());
            }
            let limit = retries.limit().min(self.limit());
            self.asked = core.ask(&self.claim.key);
            let displaced = core.table.displace(&self.claim, self.seen.as_ref(), limit).await;
            let step = match displaced.outcome {
                Write::Applied => {
                    self.in_doubt = false;
                    break;
                }
                Write::Refused(Some(item)) => self.decide(Some(item), displaced.time).await?,
                Write::Refused(None) | Write::Conflict(_) | Write::Unknown(_) => {
                    self.look().await?
                }
                Write::Invalid(error) | Write::NotApplied(error)
                    if error.kind() == ErrorKind::Configuration =>
                {
                    return Err(unknown());
                }
                Write::Invalid(error) | Write::NotApplied(error) => Step::Again(error),
            };
            match step {
                Step::Ended(Run::Done) => return Ok(Some(Landed::This)),
                Step::Ended(Run::Found(found)) => return Ok(Some(Landed::Other(found))),
                Step::Ended(Run::ConditionFailed(_) | Run::Invalid(_))
                | Step::Anew
                | Step::Look
                | Step::InDoubt
                | Step::Again(_) => {}
            }
            if self.in_doubt && !retries.wait().await {
                return Err(unknown());
            }
        }
        Ok(None)
    }
}

/// What stands in the record that a doubt was about.
enum Landed {
    /// The very transaction.
    This,
    Other(Acquisition),
}

impl From<Landed> for Run {
    fn from(landed: Landed) -> Self {
        match landed {
            Landed::This => Self::Done,
            Landed::Other(found) => Self::Found(found),
        }
    }
}

fn unknown() -> Error {
    let message = "the transaction could not be confirmed: it has happened as a whole or not at \
                   all, ask again with the same key";
    Error::new(ErrorKind::OutcomeUnknown, message)
}
