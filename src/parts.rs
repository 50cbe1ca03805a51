//! Answers beside their records: written before the record is completed, read after it was found to
//! be, and never changed in between.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};

use crate::clock::Timestamp;
use crate::completion::Retries;
use crate::error::{Error, ErrorKind};
use crate::idempotency::Core;
use crate::key::{PartName, RecordKey};
use crate::policy::Policy;
use crate::record::{Owner, Part};
use crate::response::parts::{Content, Digest};
use crate::response::{Answer, Draft, Manifest, Packed, Stored, TooLarge, pack, too_large};
use crate::table::{Consistency, Write};

/// Why an answer has no bytes.
enum Unread {
    /// They are not there as they were written.
    Gone(String),
    Error(Error),
}

impl Core {
    /// Gives an answer the form in which it is stored, beside `rest` bytes that its record has anyway.
    pub(crate) fn pack<'a>(
        &self,
        draft: Draft<'a>,
        rest: usize,
        (key, owner): (&RecordKey, &Owner),
        policy: &Policy,
    ) -> Result<Packed<'a>, TooLarge> {
        let longest = PartName { owner: owner.as_str(), digest: &[0; 8], number: u32::MAX };
        let has_room = key.part(&longest, self.table.schema.max_key_bytes()).is_some();
        pack(draft, rest, has_room.then_some(owner), policy)
    }

    /// Writes an answer's parts, to stay until `expires_at` in epoch seconds. Those that are confirmed
    /// are not written again.
    pub(crate) async fn write_parts(
        &self,
        key: &RecordKey,
        content: &Content<'_>,
        expires_at: i64,
        retries: &mut Retries<'_>,
    ) -> Result<(), Error> {
        let mut missing: Vec<u32> = (0..content.manifest.parts).collect();
        loop {
            let mut failed = Vec::new();
            let mut last = None;
            let mut waiting = missing.into_iter();
            let mut writes = FuturesUnordered::new();
            loop {
                let free = content.manifest.at_once().saturating_sub(writes.len());
                for number in waiting.by_ref().take(free) {
                    let limit = retries.limit();
                    let write = self.write_part(key, content, number, expires_at, limit);
                    writes.push(write.boxed());
                }
                match writes.next().await {
                    Some(Ok(())) => {}
                    Some(Err((number, error))) => {
                        failed.push(number);
                        last = Some(error);
                    }
                    None => break,
                }
            }
            let Some(error) = last else { return Ok(()) };
            if !retries.wait().await {
                return Err(error);
            }
            missing = failed;
        }
    }

    async fn write_part(
        &self,
        key: &RecordKey,
        content: &Content<'_>,
        number: u32,
        expires_at: i64,
        limit: Duration,
    ) -> Result<(), (u32, Error)> {
        let manifest = &content.manifest;
        let key = self.part_key(key, manifest, number).map_err(|error| (number, error))?;
        let bytes = content.part(number);
        let write = self.table.put_part(&key, &manifest.owner, expires_at, bytes, limit);
        match write.await.outcome {
            Write::Applied | Write::Refused(_) => Ok(()),
            Write::Conflict(error)
            | Write::Invalid(error)
            | Write::NotApplied(error)
            | Write::Unknown(error) => Err((number, error)),
        }
    }

    /// The answer that a record under `key` holds or tells of. An error if the store was not to be
    /// had; an answer that is not there, or not whole, is [`Answer::Unavailable`].
    pub(crate) async fn open(
        &self,
        stored: Stored,
        key: &RecordKey,
        policy: &Policy,
        until: Option<Timestamp>,
    ) -> Result<Answer, Error> {
        let manifest = match stored {
            Stored::Readable(answer) => return Ok(answer),
            Stored::Packed(bytes) => return Ok(bytes.open(policy.max_answer_bytes)),
            Stored::Parts(manifest) => manifest,
        };
        let bytes = manifest.bytes.max(manifest.plain_bytes);
        if bytes > policy.max_answer_bytes {
            return Ok(Answer::Unavailable(too_large(bytes, policy.max_answer_bytes)));
        }
        match self.read_parts(key, &manifest, until).await {
            Ok(bytes) => Ok(manifest.open(bytes, policy.max_answer_bytes)),
            Err(Unread::Gone(reason)) => {
                tracing::error!(
                    operation = key.operation(),
                    reason,
                    "a stored answer is not whole: repeats get an error"
                );
                Ok(Answer::Unavailable(reason))
            }
            Err(Unread::Error(error)) => Err(error),
        }
    }

    async fn read_parts(
        &self,
        key: &RecordKey,
        manifest: &Manifest,
        until: Option<Timestamp>,
    ) -> Result<Vec<u8>, Unread> {
        let mut waiting = 0..manifest.parts;
        let mut reads = FuturesOrdered::new();
        let mut bytes = Vec::with_capacity(manifest.bytes);
        loop {
            let free = manifest.at_once().saturating_sub(reads.len());
            for number in waiting.by_ref().take(free) {
                reads.push_back(self.read_part(key, manifest, number, until).boxed());
            }
            let Some(part) = reads.next().await else { break };
            let part = part?;
            if bytes.len() + part.len() > manifest.bytes {
                return Err(Unread::Gone("its parts are larger than they should be".to_owned()));
            }
            bytes.extend(part);
        }
        if bytes.len() != manifest.bytes || Digest::of([&bytes[..]]) != manifest.digest {
            return Err(Unread::Gone("its parts are not those that were written".to_owned()));
        }
        Ok(bytes)
    }

    /// A part never changes, so whatever shows it at all shows it right.
    async fn read_part(
        &self,
        key: &RecordKey,
        manifest: &Manifest,
        number: u32,
        until: Option<Timestamp>,
    ) -> Result<Vec<u8>, Unread> {
        let key = self.part_key(key, manifest, number).map_err(Unread::Error)?;
        for consistency in [Consistency::Eventual, Consistency::Strong] {
            let limit = self.time_until(until);
            let part = self.table.get_part(&key, &manifest.owner, consistency, limit).await;
            match part.map_err(Unread::Error)? {
                Some(Part::Bytes(bytes)) => return Ok(bytes),
                Some(Part::Foreign) => {
                    return Err(Unread::Gone(format!("its part {number} is another item")));
                }
                None => {}
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
        let (owner, digest) = (manifest.owner.as_str(), manifest.digest.prefix());
        let name = PartName { owner, digest, number };
        let key = key.part(&name, self.table.schema.max_key_bytes());
        key.ok_or_else(|| {
            let message = "the scope is too long for the keys of an answer's parts";
            Error::new(ErrorKind::Configuration, message)
        })
    }
}
