//! Where an answer is stored: in its record, in parts next to it, or nowhere. Parts are written before
//! the record is completed, and read after a completed record was found. Their bytes never change.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{self, Stream as _, StreamExt as _, TryStreamExt as _};

use crate::answer::split::{AnswerParts, MAX_PARTS_IN_FLIGHT, digest};
use crate::answer::{Answer, Manifest, Packed, Stored, Unstorable, pack, too_large};
use crate::call::context::CallContext;
use crate::call::core::Core;
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fault_injection::{FaultPoint, is_broken};
use crate::policy::Policy;
use crate::protocol::{MIN_LIMIT, RecordMeta, Tries};
use crate::signals;
use crate::store::key::{PartName, RecordKey};
use crate::store::record::{self, FAILED_BYTES, Item};
use crate::store::{Consistency, WriteResult};

/// The error if parts are not written in time.
fn late() -> Error {
    let message = "the parts of an answer were not written in time";
    Error::new(ErrorKind::Unavailable, message)
}

/// Why the parts of an answer cannot be read.
enum Unread {
    /// They are missing, or are not those that were written.
    Gone(String),
    Error(Error),
}

impl Core {
    /// Chooses the form of an answer of `record`, and writes its parts within `time`, if it has any. Without
    /// `time` the answer must lie in the record. If the parts are not confirmed, the answer is stored in the
    /// record if it fits. Also returns the size of the record with its answer.
    pub(crate) async fn place_answer(
        &self,
        answer: Answer,
        call: &CallContext,
        record: &RecordMeta,
        time: Option<Duration>,
    ) -> Result<(Stored, usize), Unstorable> {
        let CallContext { key, fingerprint, policy, .. } = call;
        let schema = &self.table.schema;
        let rest = record::bytes_without_answer(schema, (key, &fingerprint.to_store()), record);
        let time = time.filter(|_| key.longest_part() <= schema.max_key_bytes());
        let (owner, body_bytes) = (time.map(|_| &record.owner), answer.body().len());
        let Packed { stored, parts } = pack(answer, rest, owner, self.coding.of(key), policy)?;
        let parts_bytes = parts.as_ref().map_or(0, |parts| parts.manifest.bytes);
        let bytes = stored.bytes();
        signals::answer(key.operation(), body_bytes, bytes + parts_bytes);
        let placed = (stored, rest + bytes);
        let (Some(parts), Some(time)) = (parts, time) else { return Ok(placed) };
        if is_broken(FaultPoint::CompleteBeforeParts) {
            return Ok(placed);
        }
        // Boxed: few answers have parts.
        let writing = Box::pin(self.write_parts(key, &parts, record.expires_at, time));
        let Err(error) = writing.await else { return Ok(placed) };
        let Some(in_record) = parts.in_record() else {
            return Err(Unstorable::PartsNotWritten(error));
        };
        tracing::warn!(
            operation = key.operation(), %error,
            "an answer's parts were not confirmed: it goes into its record"
        );
        let stored = Stored::Encoded(in_record);
        let bytes = rest + stored.bytes();
        Ok((stored, bytes))
    }

    /// Returns the form of a failure that is kept; `None` if it cannot be stored. `steps` is the
    /// size of the record's steps.
    pub(crate) fn place_failure(
        &self,
        failure: Answer,
        steps: usize,
        key: &RecordKey,
        policy: &Policy,
    ) -> Option<Stored> {
        let packed = pack(failure, FAILED_BYTES + steps, None, self.coding.of(key), policy);
        let packed = packed.inspect_err(|reason| {
            tracing::error!(
                operation = key.operation(),
                reason = reason.to_string(),
                "a failure that is kept cannot be replayed"
            );
        });
        packed.ok().map(|packed| packed.stored)
    }

    /// Writes an answer's parts, to be kept until `expires_at` in epoch seconds, within `time`.
    async fn write_parts(
        &self,
        key: &RecordKey,
        parts: &AnswerParts,
        expires_at: i64,
        time: Duration,
    ) -> Result<(), Error> {
        let time = time.max(MIN_LIMIT);
        let until = self.table.clock.lasting(time);
        let writes = stream::iter(0..parts.manifest.parts)
            .map(|number| self.write_part(key, parts, number, expires_at, until).boxed());
        let writes = writes.buffer_unordered(parts.manifest.max_writes_in_flight());
        let written = self.table.clock.within(time, writes.try_collect()).await;
        written.unwrap_or_else(|| Err(late()))
    }

    /// Writes a part, and tries until it is confirmed.
    async fn write_part(
        &self,
        key: &RecordKey,
        parts: &AnswerParts,
        number: u32,
        expires_at: i64,
        until: Deadline,
    ) -> Result<(), Error> {
        let (clock, manifest) = (&self.table.clock, &parts.manifest);
        let key = &self.part_key(key, manifest, number)?;
        let put = |limit| async move {
            // `Clock::within` polls this future before its timer, so the time can be over after a freeze.
            if clock.is_over(until) {
                return WriteResult::NotApplied(late());
            }
            let bytes = parts.part(number);
            self.table.put_part(key, &manifest.owner, expires_at, bytes, limit).await.outcome
        };
        self.confirm_unchanging(until, put).await
    }

    /// Tries a write of an item whose content never changes, until it is confirmed. A rejection means that the item
    /// is as it should be.
    pub(super) async fn confirm_unchanging<F>(
        &self,
        until: Deadline,
        write: impl Fn(Duration) -> F,
    ) -> Result<(), Error>
    where
        F: Future<Output = WriteResult>,
    {
        let clock = &self.table.clock;
        let mut tries = Tries::until(until);
        loop {
            let error = match write(tries.limit(clock.moment())).await {
                WriteResult::Applied | WriteResult::Rejected(_) => return Ok(()),
                WriteResult::Conflict(error)
                | WriteResult::TokenUsed(error)
                | WriteResult::Invalid(error)
                | WriteResult::NotApplied(error)
                | WriteResult::Unknown(error) => error,
            };
            // After an error of the configuration, a later try would fail as well.
            if error.kind() == ErrorKind::Configuration || !clock.wait(&mut tries).await {
                return Err(error);
            }
        }
    }

    /// Reads the answer of a record, with its parts. An error if DynamoDB does not answer. An answer that is
    /// missing or not whole is [`Answer::Unavailable`].
    pub(crate) async fn open(
        &self,
        stored: Stored,
        key: &RecordKey,
        policy: &Policy,
        until: Option<Deadline>,
    ) -> Result<Answer, Error> {
        let coder = self.coding.of(key);
        let manifest = match stored.in_record(policy.max_answer_bytes, coder) {
            Ok(answer) => return Ok(answer),
            Err(manifest) => manifest,
        };
        let bytes = manifest.bytes.max(manifest.plain_bytes);
        if bytes > policy.max_answer_bytes {
            return Ok(Answer::Unavailable(too_large(bytes, policy.max_answer_bytes).into()));
        }
        match self.read_parts(key, &manifest, until).await {
            Ok(bytes) => Ok(manifest.open(bytes, policy.max_answer_bytes, coder)),
            Err(Unread::Gone(reason)) => {
                tracing::error!(
                    operation = key.operation(),
                    reason,
                    "a stored answer is not whole: repeats get an error"
                );
                Ok(Answer::Unavailable(reason.into()))
            }
            Err(Unread::Error(error)) => Err(error),
        }
    }

    async fn read_parts(
        &self,
        key: &RecordKey,
        manifest: &Manifest,
        until: Option<Deadline>,
    ) -> Result<Vec<u8>, Unread> {
        let reads = stream::iter(0..manifest.parts)
            .map(|number| self.read_part(key, manifest, number, until).boxed());
        let mut reads = reads.buffered(MAX_PARTS_IN_FLIGHT);
        let (mut parts, mut found, mut bytes) = (Vec::new(), 0_usize, Vec::new());
        while let Some(part) = reads.try_next().await? {
            found += part.len();
            if found > manifest.bytes {
                return Err(Unread::Gone("its parts are larger than they should be".to_owned()));
            }
            parts.push(part);
            // The last `MAX_PARTS_IN_FLIGHT` parts are kept until all have arrived, and are then copied
            // together. The parts before them are copied as they arrive.
            if reads.size_hint().0 < MAX_PARTS_IN_FLIGHT {
                continue;
            }
            bytes.reserve_exact(manifest.bytes - bytes.len());
            for part in parts.drain(..) {
                bytes.extend(part);
            }
        }
        bytes.reserve_exact(found - bytes.len());
        for part in parts {
            bytes.extend(part);
        }
        if bytes.len() != manifest.bytes || digest([&bytes[..]]) != manifest.digest {
            return Err(Unread::Gone("its parts are not those that were written".to_owned()));
        }
        Ok(bytes)
    }

    /// Reads a part.
    async fn read_part(
        &self,
        key: &RecordKey,
        manifest: &Manifest,
        number: u32,
        until: Option<Deadline>,
    ) -> Result<Vec<u8>, Unread> {
        let key = self.part_key(key, manifest, number).map_err(Unread::Error)?;
        let Some(item) = self.read_unchanging(&key, until).await.map_err(Unread::Error)? else {
            let missing = format!("its part {number} of {} is missing", manifest.parts);
            return Err(Unread::Gone(missing));
        };
        let part = record::part_bytes(item, &manifest.owner);
        part.ok_or_else(|| Unread::Gone(format!("its part {number} is another item")))
    }

    /// Reads an item whose content never changes, so an eventually consistent read that finds it is correct.
    pub(super) async fn read_unchanging(
        &self,
        key: &RecordKey,
        until: Option<Deadline>,
    ) -> Result<Option<Item>, Error> {
        for consistency in [Consistency::Eventual, Consistency::Strong] {
            let limit = self.time_until(until);
            let found = self.table.read(key, consistency, limit).await.outcome?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn part_key(
        &self,
        key: &RecordKey,
        manifest: &Manifest,
        number: u32,
    ) -> Result<RecordKey, Error> {
        let (owner, digest) = (manifest.owner, &manifest.digest[..8]);
        let name = PartName { owner, digest, number };
        let key = key.part(&name, self.table.schema.max_key_bytes());
        key.ok_or_else(|| {
            let message = "the scope is too long for the keys of an answer's parts";
            Error::new(ErrorKind::Configuration, message)
        })
    }
}
