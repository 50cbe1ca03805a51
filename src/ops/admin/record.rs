//! A record as plain data.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::answer::StoredAnswer;
use super::copy::write_units;
use super::json;
use crate::answer::Stored;
use crate::answer::codec::Coder;
use crate::call::core::Core;
use crate::call::steps::StepItems;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind};
use crate::signals::hashed_key;
use crate::store::key::RecordKey;
use crate::store::record::{Item, Record, State, StoredSteps, Version, sent_by};

/// A record as it was when it was read.
///
/// ```
/// # doc_examples::run(async |sandbox, idempotency| {
/// use dynamodb_idempotency::{Fingerprint, Scope};
///
/// let charge = idempotency.operation("payments").key("order-42").payload(&1200);
/// charge.run(async |_| Ok::<_, std::io::Error>("re_1".to_owned())).await?;
/// let record = sandbox.record("payments", "order-42").read().await?.expect("a record");
/// assert_eq!(Scope::from_encoded(&record.scope)?, Scope::new("payments"));
/// assert_eq!((record.key.as_str(), record.attempt), ("order-42", 1));
/// assert_eq!(record.fingerprint[1..], Fingerprint::of(&1200)?.as_bytes()[..]);
/// assert_eq!(record.raw()["pk"]["S"], "payments#order-42");
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredRecord {
    /// The scope, encoded; [`Scope::from_encoded`](crate::Scope::from_encoded) reads it.
    pub scope: String,
    /// The key in its stored form: with [`KeyForm::Sha256`](crate::policy::KeyForm::Sha256), the hash.
    pub key: String,
    /// The state of its operation.
    pub state: StoredState,
    /// How many times the operation was started; 0 if the key was released before the first handler
    /// ran.
    pub attempt: u32,
    /// The id of the last attempt's owner.
    pub owner: String,
    /// The fingerprint of the request, as stored: the number of its recipe, and 32 bytes of
    /// SHA-256.
    pub fingerprint: Vec<u8>,
    /// When the operation was first started, by DynamoDB's clock.
    pub created_at: SystemTime,
    /// When its retention ends, by DynamoDB's clock.
    pub expires_at: SystemTime,
    /// The results of the completed steps, by name; `None` if no step was ever stored. `NAME~sent~ATTEMPT` is
    /// the note of a [step that is sent at most once](crate::Execution::step_at_most_once).
    pub steps: Option<BTreeMap<String, StoredAnswer>>,
    /// The time of the read, by DynamoDB's clock.
    pub seen_at: SystemTime,
    pub(super) record_key: RecordKey,
    pub(super) version: Version,
    item: Item,
}

/// The state of an operation.
///
/// ```
/// # doc_examples::run(async |sandbox, _| {
/// use std::time::Duration;
///
/// use dynamodb_idempotency::testing::StoredState;
///
/// let pending = sandbox.record("payments", "order-42");
/// pending.pending(Duration::from_secs(30)).await?;
/// let record = pending.read().await?.expect("a record");
/// match record.state {
///     StoredState::Pending { lease_expires_at } => assert!(lease_expires_at > record.seen_at),
///     other => panic!("{other:?}"),
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredState {
    /// An owner is running the operation, or stopped without completing it.
    Pending {
        /// When the owner's lease expires, by DynamoDB's clock.
        lease_expires_at: SystemTime,
    },
    /// The operation completed.
    Completed {
        /// When it completed.
        completed_at: Option<SystemTime>,
        /// What repeats get.
        answer: StoredAnswer,
    },
    /// The operation failed, and the failure is kept.
    Failed {
        /// When it failed.
        failed_at: Option<SystemTime>,
        /// What repeats get, if the failure can be replayed.
        answer: Option<StoredAnswer>,
    },
    /// No call owns the record: the next request runs the operation, whatever its payload.
    Released,
    /// An operator has blocked the key: the record has the fingerprint of no request, all zeros, so
    /// every request is a mismatch until the record expires or is released.
    Blocked,
}

/// A reason why releasing a record can do harm.
///
/// ```
/// # doc_examples::run(async |sandbox, _| {
/// use dynamodb_idempotency::admin::Danger;
///
/// let payment = sandbox.record("payments", "order-42");
/// payment.pending(std::time::Duration::from_secs(30)).await?;
/// assert_eq!(payment.read().await?.expect("a record").dangers(), [Danger::LiveLease]);
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Danger {
    /// The owner's lease is live: the operation would run twice at the same time.
    LiveLease,
    /// The operation completed: it would run again.
    Completed,
    /// Some of its steps have completed, or [may have been sent](crate::Execution::step_at_most_once): they would run
    /// again.
    Steps,
    /// An operator has blocked the key, because its effect has happened: it would happen again.
    Blocked,
}

/// The note that an attempt is about to send the request of a
/// [step that is sent at most once](crate::Execution::step_at_most_once).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct SentNote<'a> {
    /// The name of the step.
    pub step: &'a str,
    /// The attempt.
    pub attempt: u32,
    /// The time of the note, by DynamoDB's clock; `None` if it cannot be read, for example without the
    /// [`AnswerCodec`](crate::AnswerCodec) that encoded it.
    pub at: Option<SystemTime>,
}

impl StoredRecord {
    /// Reads an answer that is stored in parts, and the results of steps that are in items.
    pub(super) async fn read_parts(&mut self, core: &Core) -> Result<(), Error> {
        let record = Record::decode(&core.table.schema, self.item.clone())?;
        if let Some(mut steps) = record.steps {
            // An operator sees results of any size.
            let limits = (usize::MAX, None);
            let items = StepItems::default();
            core.read_step_items(&self.record_key, &mut steps, &items, limits).await?;
            self.steps = Some(step_answers(&steps, core.coding.of(&self.record_key)));
        }
        if let Some(stored @ Stored::Parts(_)) = record.answer
            && let StoredState::Completed { answer, .. } = &mut self.state
            && !matches!(answer, StoredAnswer::Encoded { .. })
        {
            *answer = core.open(stored, &self.record_key, &core.policy, None).await?.into();
        }
        Ok(())
    }

    pub(super) fn read(
        core: &Core,
        record_key: RecordKey,
        item: Item,
        seen_at: Timestamp,
    ) -> Result<Self, Error> {
        let most = core.policy.max_answer_bytes;
        let Record { meta, fingerprint, answer, steps } =
            Record::decode(&core.table.schema, item.clone())?;
        let coder = core.coding.of(&record_key);
        let finished_at = meta.completed_at.map(Timestamp::to_system);
        let answer = answer.map(|answer| StoredAnswer::in_record(answer, most, coder));
        Ok(Self {
            scope: record_key.scope().to_owned(),
            key: record_key.key().to_owned(),
            state: match meta.state {
                State::Pending { .. } | State::Completed | State::Failed
                    if fingerprint.is_blocker() =>
                {
                    StoredState::Blocked
                }
                State::Pending { lease_expires_at } => {
                    StoredState::Pending { lease_expires_at: lease_expires_at.to_system() }
                }
                State::Completed => StoredState::Completed {
                    completed_at: finished_at,
                    answer: answer.ok_or_else(no_answer)?,
                },
                State::Failed => StoredState::Failed { failed_at: finished_at, answer },
                State::Released => StoredState::Released,
            },
            attempt: meta.attempt,
            owner: meta.owner.to_string(),
            fingerprint: fingerprint.encode().to_vec(),
            created_at: meta.created_at.to_system(),
            expires_at: Timestamp::from_seconds(meta.expires_at).to_system(),
            steps: steps.map(|steps| step_answers(&steps, coder)),
            seen_at: seen_at.to_system(),
            record_key,
            version: meta.version(),
            item,
        })
    }

    /// Returns the write units that writing the record consumes, at most, without the parts of its answer.
    #[doc(hidden)]
    #[must_use]
    pub fn write_units(&self) -> u64 {
        write_units(&self.item)
    }

    /// `expires_at` as stored, in epoch seconds.
    pub(super) fn epoch_expiry(&self) -> i64 {
        Timestamp::from_system(self.expires_at).millis() / 1000
    }

    /// The lease of an owner. A blocker has no owner.
    fn lease_expires_at(&self) -> Option<SystemTime> {
        match self.state {
            StoredState::Pending { lease_expires_at } => Some(lease_expires_at),
            StoredState::Completed { .. }
            | StoredState::Failed { .. }
            | StoredState::Released
            | StoredState::Blocked => None,
        }
    }

    /// Returns the stored status: `PENDING`, `COMPLETED`, `FAILED` or `RELEASED`.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// let payment = sandbox.record("payments", "order-42");
    /// payment.completed("re_1").await?;
    /// assert_eq!(payment.read().await?.expect("a record").status(), "COMPLETED");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn status(&self) -> &'static str {
        self.version.status.as_str()
    }

    /// Returns how much of the owner's lease was left at the read; `None` without a live lease.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// use std::time::Duration;
    ///
    /// let payment = sandbox.record("payments", "order-42");
    /// payment.pending(Duration::from_secs(30)).await?;
    /// let record = payment.read().await?.expect("a record");
    /// assert!(record.lease_left().is_some_and(|left| left <= Duration::from_secs(31)));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn lease_left(&self) -> Option<Duration> {
        self.lease_expires_at()?.duration_since(self.seen_at).ok()
    }

    /// Returns how long the owner's lease had been expired at the read.
    ///
    /// `None` if the lease is live, or if the operation has ended or is blocked. The next request takes
    /// over an abandoned operation, if its policy allows that.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// use std::time::Duration;
    ///
    /// let pending = sandbox.record("payments", "order-42");
    /// pending.pending(Duration::from_secs(30)).await?;
    /// let record = pending.read().await?.expect("a record");
    /// assert_eq!(record.abandoned_for(), None); // its lease is live
    /// pending.abandoned().await?;
    /// let record = pending.read().await?.expect("a record");
    /// assert!(record.abandoned_for().is_some_and(|over| over > Duration::from_secs(30)));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn abandoned_for(&self) -> Option<Duration> {
        let over = self.seen_at.duration_since(self.lease_expires_at()?).ok();
        over.filter(|over| !over.is_zero())
    }

    /// Returns whether the record's retention has ended. The record then counts as absent, even before
    /// DynamoDB deletes it.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// use std::time::Duration;
    ///
    /// let payment = sandbox.record("payments", "order-42");
    /// payment.completed("re_1").await?;
    /// assert!(!payment.read().await?.expect("a record").is_expired());
    /// sandbox.clock().advance(Duration::from_secs(25 * 3600));
    /// assert!(payment.read().await?.expect("a record").is_expired());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.lease_left().is_none() && self.seen_at > self.expires_at
    }

    /// Returns the harm that a [`release`](super::Admin::release) could do.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// use dynamodb_idempotency::admin::Danger;
    ///
    /// let payment = sandbox.record("payments", "order-42");
    /// payment.completed("re_1").await?;
    /// assert_eq!(payment.read().await?.expect("a record").dangers(), [Danger::Completed]);
    /// payment.expired().await?;
    /// assert!(payment.read().await?.expect("a record").dangers().is_empty());
    /// # Ok(()) });
    /// ```
    #[must_use]
    #[doc(hidden)]
    pub fn dangers(&self) -> Vec<Danger> {
        if self.is_expired() {
            return Vec::new();
        }
        let applies = |danger: &Danger| match danger {
            Danger::LiveLease => self.lease_left().is_some(),
            Danger::Completed => matches!(self.state, StoredState::Completed { .. }),
            Danger::Steps => self.steps.as_ref().is_some_and(|steps| !steps.is_empty()),
            Danger::Blocked => self.state == StoredState::Blocked,
        };
        let all = [Danger::LiveLease, Danger::Completed, Danger::Steps, Danger::Blocked];
        all.into_iter().filter(applies).collect()
    }

    /// Returns the note that is stored under this name in [`steps`](Self::steps); `None` if the name is that of a
    /// step.
    #[must_use]
    #[doc(hidden)]
    pub fn note<'a>(&self, name: &'a str) -> Option<SentNote<'a>> {
        let note = self.steps.as_ref()?.get(name)?;
        let (step, attempt) = sent_by(name)?;
        let at = match note {
            StoredAnswer::Json(millis) => millis.parse().ok().map(Timestamp::from_millis),
            StoredAnswer::Http { .. }
            | StoredAnswer::InParts { .. }
            | StoredAnswer::Unavailable(_)
            | StoredAnswer::Encoded { .. } => None,
        };
        Some(SentNote { step, attempt, at: at.map(Timestamp::to_system) })
    }

    /// Returns the last note of each step whose request may have been sent and whose result is not stored.
    #[must_use]
    #[doc(hidden)]
    pub fn may_have_sent(&self) -> Vec<SentNote<'_>> {
        let mut last = BTreeMap::new();
        for note in self.steps.iter().flatten().filter_map(|(name, _)| self.note(name)) {
            let known = last.entry(note.step).or_insert(note);
            if note.attempt > known.attempt {
                *known = note;
            }
        }
        last.retain(|step, _| !self.steps.as_ref().is_some_and(|steps| steps.contains_key(*step)));
        last.into_values().collect()
    }

    /// Returns the form of its key in log lines: [`hashed_key`](crate::signals::hashed_key).
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// let payment = sandbox.record("payments", "order-42");
    /// payment.completed("re_1").await?;
    /// assert_eq!(payment.read().await?.expect("a record").key_hash(), "84732e2b3cfd95c4");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn key_hash(&self) -> String {
        hashed_key(self.record_key.as_str())
    }

    /// Returns the item in DynamoDB's JSON.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// let payment = sandbox.record("payments", "order-42");
    /// payment.completed("re_1").await?;
    /// let record = payment.read().await?.expect("a record");
    /// assert_eq!(record.raw()["pk"]["S"], "payments#order-42");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn raw(&self) -> Value {
        json::item(&self.item)
    }
}

fn step_answers(steps: &StoredSteps, coder: Coder<'_>) -> BTreeMap<String, StoredAnswer> {
    let answers =
        steps.iter().map(|(name, step)| (name.clone(), StoredAnswer::of_step(name, step, coder)));
    answers.collect()
}

fn no_answer() -> Error {
    let message = "the record is corrupt: it is COMPLETED without an answer";
    Error::new(ErrorKind::UnknownRecord, message)
}
