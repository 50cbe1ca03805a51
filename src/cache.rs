//! Completed answers in this process's memory: bounded in bytes, each to the end of its retention, and
//! for the request that it is the answer to.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::acquire::Call;
use crate::clock::Timestamp;
use crate::fault_injection::{Mutant, mutant};
use crate::fingerprint::Fingerprint;
use crate::idempotency::Core;
use crate::policy::{Completed, Policy};
use crate::record::Claim;
use crate::response::Answer;

/// What an entry takes beside its key and its answer, about.
const ENTRY_BYTES: usize = 256;

pub(crate) struct Cache {
    most_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    bytes: usize,
    by_key: HashMap<Arc<str>, Entry>,
    /// Keys in the order in which they were used.
    by_use: BTreeMap<u64, Arc<str>>,
    uses: u64,
}

struct Entry {
    fingerprint: Fingerprint,
    /// Epoch seconds.
    expires_at: i64,
    answer: Answer,
    bytes: usize,
    used: u64,
}

impl Cache {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, kept: Mutex::default() }
    }

    /// The answer to this very request, if it is kept and its retention is not over at `now`.
    fn get(&self, pk: &str, fingerprint: &Fingerprint, now: Timestamp) -> Option<Answer> {
        let mut kept = self.kept();
        let (key, entry) = kept.by_key.get_key_value(pk)?;
        let (key, used) = (Arc::clone(key), entry.used);
        if now.millis() > entry.expires_at.saturating_mul(1000) {
            kept.remove(pk);
            return None;
        }
        if entry.fingerprint != *fingerprint && !mutant(Mutant::CacheAnyFingerprint) {
            return None;
        }
        let answer = entry.answer.clone();
        kept.by_use.remove(&used);
        let used = kept.next_use(&key);
        if let Some(entry) = kept.by_key.get_mut(pk) {
            entry.used = used;
        }
        Some(answer)
    }

    fn insert(&self, pk: &str, fingerprint: Fingerprint, expires_at: i64, answer: Answer) {
        let bytes = ENTRY_BYTES + 2 * pk.len() + answer.bytes();
        if bytes > self.most_bytes / 4 {
            return;
        }
        let mut kept = self.kept();
        kept.remove(pk);
        while kept.bytes + bytes > self.most_bytes {
            let Some((_, oldest)) = kept.by_use.first_key_value() else { break };
            let oldest = Arc::clone(oldest);
            kept.remove(&oldest);
        }
        let key: Arc<str> = pk.into();
        let used = kept.next_use(&key);
        kept.bytes += bytes;
        kept.by_key.insert(key, Entry { fingerprint, expires_at, answer, bytes, used });
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing in here panics half-way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn next_use(&mut self, key: &Arc<str>) -> u64 {
        self.uses += 1;
        self.by_use.insert(self.uses, Arc::clone(key));
        self.uses
    }

    fn remove(&mut self, pk: &str) {
        if let Some(entry) = self.by_key.remove(pk) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

/// Neither keys nor answers.
impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("most_bytes", &self.most_bytes).finish_non_exhaustive()
    }
}

impl Core {
    /// The call's answer, if this process keeps it.
    pub(crate) fn cached(&self, call: &Call) -> Option<Answer> {
        let cache = self.cache.as_ref()?;
        if call.policy.completed != Completed::Replay {
            return None;
        }
        // Never past the retention, whatever this clock may be off by.
        let now = self.table.clock.store_now().plus(self.clock_tolerance);
        cache.get(call.key.as_str(), &call.fingerprint, now)
    }

    /// Keeps an answer that a record was found to have.
    pub(crate) fn remember(&self, call: &Call, expires_at: i64, answer: impl FnOnce() -> Answer) {
        if let Some(cache) = &self.cache {
            cache.keep(call.key.as_str(), &call.fingerprint, &call.policy, expires_at, answer());
        }
    }

    /// Keeps the answer that an owner has stored.
    pub(crate) fn remember_own(
        &self,
        claim: &Claim,
        policy: &Policy,
        expires_at: i64,
        answer: Answer,
    ) {
        if let Some(cache) = &self.cache {
            cache.keep(claim.key.as_str(), &claim.fingerprint, policy, expires_at, answer);
        }
    }
}

impl Cache {
    fn keep(
        &self,
        pk: &str,
        fingerprint: &Fingerprint,
        policy: &Policy,
        expires_at: i64,
        answer: Answer,
    ) {
        match (answer, policy.completed) {
            // A reason may go: another reader's limit is larger, a part is restored.
            (Answer::Unavailable(_), _) | (_, Completed::Execute) => {}
            (answer, Completed::Replay) => self.insert(pk, *fingerprint, expires_at, answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: i64 = 1_000;

    fn fingerprint(of: &str) -> Fingerprint {
        Fingerprint::builder().bytes(of.as_bytes()).finish()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn answer(bytes: usize) -> Answer {
        Answer::Json("x".repeat(bytes))
    }

    fn keep(cache: &Cache, pk: &str, bytes: usize) {
        cache.keep(pk, &fingerprint("f"), &Policy::default(), LATER, answer(bytes));
    }

    fn has(cache: &Cache, pk: &str) -> bool {
        cache.get(pk, &fingerprint("f"), at(1)).is_some()
    }

    #[test]
    fn an_answer_is_kept_for_its_own_request_and_to_the_end_of_its_retention() {
        let cache = Cache::new(100_000);
        keep(&cache, "a", 10);
        assert_eq!(cache.get("a", &fingerprint("f"), at(LATER)), Some(answer(10)));
        assert_eq!(cache.get("a", &fingerprint("g"), at(1)), None);
        assert_eq!(cache.get("b", &fingerprint("f"), at(1)), None);
        assert_eq!(cache.get("a", &fingerprint("f"), at(LATER + 1)), None);
        let kept = cache.kept();
        assert_eq!((kept.bytes, kept.by_use.len()), (0, 0));
    }

    #[test]
    fn the_least_recently_used_makes_room() {
        let cache = Cache::new(4 * (ENTRY_BYTES + 2 + 1000));
        for pk in ["a", "b", "c", "d"] {
            keep(&cache, pk, 1000);
        }
        assert!(has(&cache, "a"));
        keep(&cache, "e", 1000);
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(|pk| has(&cache, pk)),
            [true, false, true, true, true]
        );
    }

    #[test]
    fn it_never_has_more_bytes_than_it_may() {
        let cache = Cache::new(10_000);
        for index in 0..1000_usize {
            keep(&cache, &(index % 37).to_string(), index * 7 % 3000);
            let kept = cache.kept();
            let bytes: usize = kept.by_key.values().map(|entry| entry.bytes).sum();
            assert_eq!((kept.bytes, kept.by_use.len()), (bytes, kept.by_key.len()));
            assert!(bytes <= 10_000);
        }
    }

    #[test]
    fn what_is_too_large_or_no_answer_or_may_run_again_is_not_kept() {
        let cache = Cache::new(10_000);
        keep(&cache, "large", 2500);
        let reason = Answer::Unavailable("why".to_owned());
        cache.keep("none", &fingerprint("f"), &Policy::default(), LATER, reason);
        let again = Policy::default().completed(Completed::Execute);
        cache.keep("again", &fingerprint("f"), &again, LATER, answer(1));
        assert_eq!(["large", "none", "again"].map(|pk| has(&cache, pk)), [false; 3]);
    }
}
