//! A cache of completed answers in this process's memory, limited in bytes. `quick_cache` chooses which
//! answers to evict. This module returns an answer only to the same request, and only until one of the
//! two clocks shows that its retention is over.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quick_cache::sync::{Cache as Lru, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::answer::{Answer, Replay};
use crate::clock::{Clock, Deadline};
use crate::error::{Error, ErrorKind};
use crate::fault_injection::{FaultPoint, is_broken};
use crate::fingerprint::Fingerprint;

/// An estimate of the size of an entry without its key and its answer.
const ENTRY_BYTES: usize = 256;
/// A typical size of an entry, from which follows the number of entries that `quick_cache` expects.
const TYPICAL_ENTRY_BYTES: usize = 2048;

/// The number of counters in [`Cache::generations`]. If a key is invalidated, answers to requests in flight
/// are not cached, neither for this key nor for others with the same counter.
const STRIPES: usize = 64;

#[derive(Debug)]
pub(crate) struct Cache {
    entries: Lru<Box<str>, Entry, EntryWeighter>,
    /// How often keys were invalidated, one counter for each stripe of hashes. A counter is locked while an
    /// entry of its stripe is inserted or invalidated.
    generations: [Mutex<u64>; STRIPES],
    hasher: RandomState,
}

/// The counter of a key before a request that may return its record. The answer is cached only if the key
/// was not invalidated since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generation(u64);

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) until: Deadline,
    /// When the record expires by DynamoDB's clock, in seconds since 1970.
    pub(crate) expires_at: i64,
    pub(crate) answer: Answer,
}

#[derive(Clone)]
struct EntryWeighter;

impl Weighter<Box<str>, Entry> for EntryWeighter {
    fn weight(&self, pk: &Box<str>, entry: &Entry) -> u64 {
        entry_bytes(pk, entry.answer.bytes()) as u64
    }
}

impl Cache {
    pub(crate) fn new(max_bytes: usize) -> Result<Self, Error> {
        // One shard, so that an answer may take up to a quarter of the whole cache.
        let options = OptionsBuilder::new()
            .shards(1)
            .weight_capacity(max_bytes as u64)
            .estimated_items_capacity(max_bytes / TYPICAL_ENTRY_BYTES)
            .build()
            .map_err(|error| {
                Error::new(ErrorKind::Configuration, "`local_cache` must be at least 1 byte")
                    .with_source(error)
            })?;
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Ok(Self {
            entries: Lru::with_options(options, EntryWeighter, hasher, lifecycle),
            generations: std::array::from_fn(|_| Mutex::new(0)),
            hasher: RandomState::new(),
        })
    }

    fn lock_generation(&self, pk: &str) -> MutexGuard<'_, u64> {
        let stripe = self.hasher.hash_one(pk) % STRIPES as u64;
        let stripe = usize::try_from(stripe).unwrap_or_default();
        self.generations[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn generation(&self, pk: &str) -> Generation {
        Generation(*self.lock_generation(pk))
    }

    pub(crate) fn invalidate(&self, pk: &str) {
        let mut generation = self.lock_generation(pk);
        *generation = generation.wrapping_add(1);
        self.entries.remove(pk);
    }

    /// Whether an answer of this size is kept. If not, the caller makes no copy of it.
    pub(crate) fn has_room(&self, pk: &str, bytes: usize) -> bool {
        entry_bytes(pk, bytes) as u64 <= self.entries.capacity() / 4
    }

    /// The answer to this very request, if it is kept and its retention is not over.
    pub(crate) fn get(&self, pk: &str, fingerprint: &Fingerprint, clock: &Clock) -> Option<Replay> {
        let entry = self.entries.get(pk)?;
        if clock.is_over(entry.until) && !is_broken(FaultPoint::CachePastRetention) {
            // Another call may have replaced the entry by a younger one.
            self.entries.remove_if(pk, |kept| clock.is_over(kept.until));
            return None;
        }
        let is_same_request =
            entry.fingerprint == *fingerprint || is_broken(FaultPoint::CacheAnyFingerprint);
        let Entry { answer, expires_at, .. } = entry;
        is_same_request.then_some(Replay { answer, expires_at })
    }

    pub(crate) fn clear(&self) {
        self.entries.clear();
    }

    /// Inserts an answer, unless its key was invalidated after [`generation`](Self::generation). Returns
    /// whether it did.
    pub(crate) fn insert(&self, pk: &str, generation: Generation, entry: Entry) -> bool {
        let current = self.lock_generation(pk);
        let is_valid = *current == generation.0;
        if is_valid {
            self.entries.insert(pk.into(), entry);
        }
        is_valid
    }
}

fn entry_bytes(pk: &str, answer: usize) -> usize {
    ENTRY_BYTES + pk.len() + answer
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::{Duration, SystemTime};

    use aws_smithy_async::time::{SharedTimeSource, TimeSource};

    use super::*;
    use crate::answer::AnswerRules;
    use crate::call::context::CallContext;
    use crate::call::core::Core;
    use crate::call::session::{Session, SessionKind};
    use crate::fault_injection::ClockShift;
    use crate::policy::Policy;
    use crate::protocol::time::Timestamp;
    use crate::store::key::RecordKey;
    use crate::store::record::OwnerId;

    const LATER: i64 = 1_000;

    /// A wall clock that is set by hand, in seconds.
    #[derive(Clone, Debug, Default)]
    struct Wall(Arc<AtomicI64>);

    impl TimeSource for Wall {
        fn now(&self) -> SystemTime {
            Timestamp::from_millis(self.0.load(Ordering::Relaxed) * 1000).to_system()
        }
    }

    struct Kit {
        cache: Cache,
        clock: Clock,
        wall: Wall,
    }

    fn kit(max_bytes: usize) -> Kit {
        let wall = Wall::default();
        let clock = Clock::new(SharedTimeSource::new(wall.clone()), ClockShift::default());
        Kit { cache: Cache::new(max_bytes).unwrap(), clock, wall }
    }

    fn fingerprint(of: &str) -> Fingerprint {
        Fingerprint::builder().bytes(of.as_bytes()).finish()
    }

    fn answer(bytes: usize) -> Answer {
        Answer::Json("x".repeat(bytes).into())
    }

    impl Kit {
        fn keep(&self, pk: &str, bytes: usize) {
            let until = self.clock.end(Timestamp::from_millis(LATER * 1000));
            let (fingerprint, answer) = (fingerprint("f"), answer(bytes));
            let entry = Entry { fingerprint, until, expires_at: 0, answer };
            assert!(self.cache.insert(pk, self.cache.generation(pk), entry));
        }

        pub(crate) fn get(&self, pk: &str, of: &str) -> Option<Answer> {
            self.cache.get(pk, &fingerprint(of), &self.clock).map(|kept| kept.answer)
        }

        fn has(&self, pk: &str) -> bool {
            self.get(pk, "f").is_some()
        }

        fn is_empty(&self) -> bool {
            (self.cache.entries.weight(), self.cache.entries.len()) == (0, 0)
        }
    }

    #[test]
    fn an_answer_is_kept_for_its_own_request_and_to_the_end_of_its_retention() {
        let kit = kit(100_000);
        kit.keep("a", 10);
        kit.wall.0.store(LATER - 1, Ordering::Relaxed);
        assert_eq!(kit.get("a", "f"), Some(answer(10)));
        assert_eq!(kit.get("a", "g"), None);
        assert_eq!(kit.get("b", "f"), None);
        kit.wall.0.store(LATER, Ordering::Relaxed);
        assert!(!kit.has("a") && kit.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_that_is_set_back_keeps_nothing_for_longer() {
        let kit = kit(100_000);
        kit.keep("a", 10);
        kit.wall.0.store(-LATER, Ordering::Relaxed);
        assert!(kit.has("a"));
        tokio::time::advance(Duration::from_secs(LATER.unsigned_abs() + 1)).await;
        assert!(!kit.has("a") && kit.is_empty());
    }

    #[test]
    fn an_entry_without_further_reads_is_evicted() {
        let kit = kit(4 * (ENTRY_BYTES + 1 + 1000));
        for pk in ["a", "b", "c", "d"] {
            kit.keep(pk, 1000);
        }
        assert!(kit.has("a"));
        kit.keep("e", 1000);
        let left = ["a", "b", "c", "d", "e"].map(|pk| kit.has(pk));
        assert_eq!(left.iter().filter(|left| **left).count(), 4, "{left:?}");
        assert!(left[0] && left[4], "asked for again, and new: {left:?}");
    }

    /// A scan over many keys does not evict the ones that are read often.
    #[test]
    fn what_is_asked_for_again_and_again_stays() {
        let kit = kit(20 * (ENTRY_BYTES + 4 + 1000));
        kit.keep("busy", 1000);
        for number in 0..1000 {
            assert!(kit.has("busy"), "{number}");
            kit.keep(&number.to_string(), 1000);
        }
    }

    #[test]
    fn it_never_has_more_bytes_than_it_may() {
        let kit = kit(10_000);
        for index in 0..1000_usize {
            let (pk, bytes) = ((index % 37).to_string(), index * 7 % 3000);
            if kit.cache.has_room(&pk, bytes) {
                kit.keep(&pk, bytes);
            }
            let kept: usize = kit
                .cache
                .entries
                .iter()
                .map(|(pk, kept)| entry_bytes(&pk, kept.answer.bytes()))
                .sum();
            assert!(kept <= 10_000 && kit.cache.entries.weight() == kept as u64, "{kept}");
        }
    }

    fn core() -> Core {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .build();
        let client = aws_sdk_dynamodb::Client::from_conf(config);
        let built = crate::Idempotency::builder(client, "table").local_cache(10_000).build();
        Arc::into_inner(built.unwrap().core).unwrap()
    }

    #[test]
    fn what_is_too_large_or_no_answer_is_not_kept() {
        let (core, replay) = (core(), Policy::default());
        let reason = Answer::Unavailable("why".into());
        for (policy, answer, is_kept) in
            [(&replay, answer(1), true), (&replay, answer(2500), false), (&replay, reason, false)]
        {
            let key = RecordKey::new(&"scope".into(), "key", policy.key_form, 2048).unwrap();
            let cache = core.cache.as_ref().unwrap();
            let call = CallContext::new(
                &core,
                &"scope".into(),
                Ok::<_, Error>((key.clone(), fingerprint("f"))),
                Arc::new(policy.clone()),
                None,
                AnswerRules::FUNCTION,
            );
            let call = call.unwrap();
            let mut session = Session::new(&core, &call, OwnerId(1), SessionKind::Acquisition);
            session.note_generation();
            assert_eq!(session.cache(i64::MAX, answer.clone()), is_kept);
            let found = cache.get(key.as_str(), &fingerprint("f"), &core.table.clock);
            assert_eq!(found.is_some(), is_kept, "{answer:?}");
            core.invalidate_cached(&key);
            assert_eq!(cache.entries.weight(), 0);
        }
    }
}
