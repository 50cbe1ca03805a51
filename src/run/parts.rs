//! The parts of large answers: written before the record is completed, read once a completed record
//! was found, and never changed in between.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{self, Stream as _, StreamExt as _, TryStreamExt as _};

use crate::answer::split::{AnswerParts, MAX_PARTS_IN_FLIGHT, digest};
use crate::answer::{Answer, Manifest, Stored, too_large};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind};
use crate::policy::Policy;
use crate::protocol::{MIN_LIMIT, Tries};
use crate::run::core::Core;
use crate::store::key::{PartName, RecordKey};
use crate::store::record;
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
    /// Writes an answer's parts, to be kept until `expires_at` in epoch seconds, within `time`. Tries until each
    /// one is confirmed.
    pub(crate) async fn write_parts(
        &self,
        key: &RecordKey,
        parts: &AnswerParts,
        expires_at: i64,
        time: Duration,
    ) -> Result<(), Error> {
        let time = time.max(MIN_LIMIT);
        let clock = &self.table.clock;
        let until = clock.lasting(time);
        let mut tries = Tries::until(until);
        let mut missing: Vec<u32> = (0..parts.manifest.parts).collect();
        let writing = async {
            loop {
                let writes = stream::iter(std::mem::take(&mut missing)).map(|number| {
                    let written = async move {
                        // The timer is checked only after this future is polled.
                        if clock.is_over(until) {
                            return Err(late());
                        }
                        let limit = self.time_until(Some(until));
                        self.write_part(key, parts, number, expires_at, limit).await
                    };
                    written.map(move |written| (number, written)).boxed()
                });
                let mut writes = writes.buffer_unordered(parts.manifest.max_writes_in_flight());
                let mut failed = None;
                while let Some((number, written)) = writes.next().await {
                    match written {
                        Ok(()) => {}
                        // A later try would fail as well.
                        Err(error) if error.kind() == ErrorKind::Configuration => {
                            return Err(error);
                        }
                        Err(error) => {
                            missing.push(number);
                            failed.get_or_insert(error);
                        }
                    }
                }
                let Some(error) = failed else { return Ok(()) };
                if !clock.wait(&mut tries).await {
                    return Err(error);
                }
            }
        };
        clock.within(time, writing).await.unwrap_or_else(|| Err(late()))
    }

    async fn write_part(
        &self,
        key: &RecordKey,
        parts: &AnswerParts,
        number: u32,
        expires_at: i64,
        limit: Duration,
    ) -> Result<(), Error> {
        let manifest = &parts.manifest;
        let key = self.part_key(key, manifest, number)?;
        let bytes = parts.part(number);
        let write = self.table.put_part(&key, &manifest.owner, expires_at, bytes, limit);
        match write.await.outcome {
            WriteResult::Applied | WriteResult::Rejected(_) => Ok(()),
            WriteResult::Conflict(error)
            | WriteResult::TokenUsed(error)
            | WriteResult::Invalid(error)
            | WriteResult::NotApplied(error)
            | WriteResult::Unknown(error) => Err(error),
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
            // The last parts may arrive at once. They are copied when all have arrived, so that an answer of few
            // parts needs no buffer while they are in flight.
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

    /// Reads a part. A part never changes, so an eventually consistent read that finds it is correct.
    async fn read_part(
        &self,
        key: &RecordKey,
        manifest: &Manifest,
        number: u32,
        until: Option<Deadline>,
    ) -> Result<Vec<u8>, Unread> {
        let key = self.part_key(key, manifest, number).map_err(Unread::Error)?;
        for consistency in [Consistency::Eventual, Consistency::Strong] {
            let limit = self.time_until(until);
            let read = self.table.read(&key, consistency, limit).await;
            if let Some(item) = read.outcome.map_err(Unread::Error)? {
                let part = record::part_bytes(&self.table.schema, item, &manifest.owner);
                return part
                    .ok_or_else(|| Unread::Gone(format!("its part {number} is another item")));
            }
        }
        Err(Unread::Gone(format!("its part {number} of {} is missing", manifest.parts)))
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
