//! Searches every state of a row breadth-first, so the first violation is a shortest one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::hash::{BuildAsIs, hash};
use crate::liveness;
use crate::model::{Move, State};
use crate::rows::Row;
use dynamodb_idempotency_protocol::fault_point::FaultPoint;
#[cfg(feature = "internals")]
use dynamodb_idempotency_protocol::fault_point::set_broken;

const THREADS: usize = 2;

/// How many states a thread handles at once.
const CHUNK: usize = 256;

/// Of the states in which no fault is left, one in this many is followed to its end. A search for broken
/// rules follows none, so that the first violation is a shortest one.
const SAMPLE: u64 = 128;

/// Maps each state's hash to the hash of the state from which it was first reached. The map is divided into
/// shards, so that two threads seldom wait for each other.
struct Seen {
    shards: Vec<Mutex<HashMap<u64, u64, BuildAsIs>>>,
}

impl Seen {
    fn new() -> Self {
        Self { shards: (0..256).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, state: u64) -> &Mutex<HashMap<u64, u64, BuildAsIs>> {
        &self.shards[usize::from(state.to_le_bytes()[0])]
    }

    /// Whether the state is new.
    fn insert(&self, state: u64, parent: u64) -> bool {
        let mut shard = self.shard(state).lock().unwrap_or_else(PoisonError::into_inner);
        match shard.entry(state) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(parent);
                true
            }
        }
    }

    fn parent(&self, state: u64) -> Option<u64> {
        let shard = self.shard(state).lock().unwrap_or_else(PoisonError::into_inner);
        shard.get(&state).copied()
    }

    fn len(&self) -> usize {
        let len = |shard: &Mutex<HashMap<u64, u64, BuildAsIs>>| {
            shard.lock().unwrap_or_else(PoisonError::into_inner).len()
        };
        self.shards.iter().map(len).sum()
    }
}

/// The result of a search.
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) depth: usize,
    pub(crate) took: Duration,
    /// Whether every state was visited.
    pub(crate) is_whole: bool,
    pub(crate) violation: Option<Violation>,
}

pub(crate) struct Violation {
    pub(crate) what: &'static str,
    pub(crate) steps: Vec<(Move, State)>,
}

impl Violation {
    /// The steps in one line.
    pub(crate) fn schedule(&self) -> String {
        let steps: Vec<_> = self.steps.iter().map(|(step, _)| step.to_string()).collect();
        steps.join(" ")
    }
}

struct Level {
    states: Vec<State>,
    /// The violation whose state has the least hash, so that each run of a search finds the same violation.
    worst: Option<(u64, &'static str)>,
}

/// Searches until `limit`, with these rules of the protocol broken.
pub(crate) fn search(row: &Row, limit: Duration, broken: &'static [FaultPoint]) -> Found {
    let (start, initial) = (Instant::now(), State::new(row));
    set_broken(broken);
    let seen = Seen::new();
    seen.insert(hash(&initial), 0);
    let mut level = vec![initial];
    let (mut depth, mut is_whole, mut worst) = (0, true, None);
    while !level.is_empty() && worst.is_none() {
        if start.elapsed() > limit {
            is_whole = false;
            break;
        }
        let next = expand(&level, row, &seen, broken, (start, limit));
        is_whole &= next.1;
        (level, worst) = (next.0.states, next.0.worst);
        depth += 1;
    }
    let took = start.elapsed();
    let violation = worst.map(|(last, what)| Violation { what, steps: path(row, &seen, last) });
    set_broken(&[]);
    Found { states: seen.len(), depth, took, is_whole, violation }
}

/// The new states that follow from those of one level, and whether there was time for all.
fn expand(
    level: &[State],
    row: &Row,
    seen: &Seen,
    broken: &'static [FaultPoint],
    (start, limit): (Instant, Duration),
) -> (Level, bool) {
    let next = AtomicUsize::new(0);
    let work = || {
        set_broken(broken);
        let mut new = Level { states: Vec::new(), worst: None };
        let mut is_whole = true;
        loop {
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            if from >= level.len() {
                return (new, is_whole);
            }
            if start.elapsed() > limit {
                is_whole = false;
                continue;
            }
            for state in &level[from..level.len().min(from + CHUNK)] {
                follow(state, row, seen, broken, &mut new);
            }
        }
    };
    if level.len() < 4 * CHUNK {
        return work();
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS).map(|_| scope.spawn(work)).collect();
        let (mut all, mut is_whole) = work();
        for other in others {
            let (level, was_whole) =
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.states.extend(level.states);
            all.worst = [all.worst, level.worst].into_iter().flatten().min();
            is_whole &= was_whole;
        }
        (all, is_whole)
    })
}

fn follow(state: &State, row: &Row, seen: &Seen, broken: &[FaultPoint], new: &mut Level) {
    let parent = hash(state);
    state.successors(row, &mut |_, mut next| {
        let child = hash(&next);
        if !seen.insert(child, parent) {
            return;
        }
        if broken.is_empty() && next.violation.is_none() && next.faults == 0 && child % SAMPLE == 0
        {
            next.violation = liveness::fails(&next, row, &mut |_, _| {});
        }
        match next.violation {
            Some(what) => {
                let this = (child, what);
                new.worst = Some(new.worst.map_or(this, |worst| worst.min(this)));
            }
            None => new.states.push(next),
        }
    });
}

/// Computes the states on the path to the violation again, because only their hashes are kept.
fn path(row: &Row, seen: &Seen, last: u64) -> Vec<(Move, State)> {
    let up = |at: &u64| seen.parent(*at).filter(|parent| *parent != 0);
    let mut way: Vec<_> = std::iter::successors(Some(last), up).collect();
    way.pop();
    let mut state = State::new(row);
    let mut steps = Vec::new();
    for at in way.into_iter().rev() {
        let mut reached = None;
        state.successors(row, &mut |step, next| {
            if hash(&next) == at && reached.is_none() {
                reached = Some((step, next));
            }
        });
        let Some((step, next)) = reached else { break };
        state = next.clone();
        steps.push((step, next));
    }
    if state.violation.is_none() {
        // `liveness::fails` has found the violation, in a state that follows this one without a fault.
        liveness::fails(&state, row, &mut |step, next| steps.push((step, next.clone())));
    }
    steps
}

/// Without the feature `internals`, no rule is broken.
#[cfg(not(feature = "internals"))]
const fn set_broken(_: &'static [FaultPoint]) {}
