//! What all calls of one [`Idempotency`](crate::Idempotency) share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::answer::Answer;
use crate::answer::codec::Coding;
use crate::clock::Timestamp;
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::policy::{Completed, Policy};
use crate::run::cache::{Cache, Entry, Generation};
use crate::run::transaction::items::token;
use crate::signals::Log;
use crate::store::Table;
use crate::store::key::{KeyForm, RecordKey, Scope};
use crate::store::record::{OwnerId, random_owner};

pub(crate) struct Core {
    pub(crate) table: Table,
    /// Whether idempotency is [switched off](crate::Builder::disabled): a [call](super::call::CallContext) then
    /// has no record.
    pub(crate) is_disabled: bool,
    pub(crate) policy: Policy,
    pub(crate) clock_tolerance: Duration,
    pub(crate) log: Log,
    pub(crate) coding: Coding,
    /// The number of the last transaction.
    pub(crate) transactions: AtomicU32,
    /// Completed answers that this process has seen, if it caches them.
    pub(crate) cache: Option<Cache>,
}

impl Core {
    pub(crate) fn record_key(
        &self,
        scope: &Scope,
        key: &str,
        form: KeyForm,
    ) -> Result<RecordKey, Error> {
        RecordKey::new(scope, key, form, self.table.schema.max_key_bytes())
    }

    /// A key that no other call has.
    pub(crate) fn random_key(&self, scope: &Scope) -> Result<RecordKey, Error> {
        let limit = self.table.schema.max_key_bytes();
        RecordKey::new(scope, &random_owner()?.to_string(), KeyForm::Verbatim, limit)
    }

    /// A client request token, which is the same for each try of one transaction.
    pub(crate) fn token(&self, owner: OwnerId) -> String {
        token(owner, self.transactions.fetch_add(1, Ordering::Relaxed))
    }
}

/// The cache of this process.
impl Core {
    /// Whether the cache takes an answer of so many bytes.
    pub(crate) fn is_cacheable(&self, key: &RecordKey, policy: &Policy, bytes: usize) -> bool {
        policy.completed == Completed::Replay
            && self.cache.as_ref().is_some_and(|cache| cache.has_room(key.as_str(), bytes))
    }

    /// Called before a request that may return the record. [`cache_answer`](Self::cache_answer) takes the result.
    pub(crate) fn cache_generation(&self, key: &RecordKey) -> Option<Generation> {
        self.cache.as_ref().map(|cache| cache.generation(key.as_str()))
    }

    /// Caches the answer of a record that expires at `expires_at`, in epoch seconds. Returns whether it
    /// did.
    pub(crate) fn cache_answer(
        &self,
        generation: Option<Generation>,
        (key, fingerprint): (&RecordKey, &Fingerprint),
        policy: &Policy,
        expires_at: i64,
        answer: Answer,
    ) -> bool {
        // A reason may not last: a later read may have a larger limit, or find a part that was missing.
        let is_answer = !matches!(answer, Answer::Unavailable(_));
        let (Some(cache), Some(generation)) = (&self.cache, generation) else { return false };
        if !is_answer || !self.is_cacheable(key, policy, answer.bytes()) {
            return false;
        }
        // Earlier by the tolerance, so that a wrong local clock does not extend the retention.
        let end = Timestamp::from_millis(expires_at.saturating_mul(1000));
        let until = self.table.clock.end(end.minus(self.clock_tolerance));
        cache.insert(key.as_str(), generation, Entry::new(fingerprint, until, answer))
    }

    /// Removes all answers from the cache.
    pub(crate) fn clear_cache(&self) {
        if let Some(cache) = &self.cache {
            cache.clear();
        }
    }

    /// Removes the answer of a record that this process has changed.
    pub(crate) fn invalidate_cached(&self, key: &RecordKey) {
        if let Some(cache) = &self.cache {
            cache.invalidate(key.as_str());
        }
    }
}
