//! Decides which message of a batch runs when, without I/O, clock or tasks.
//!
//! The driver calls [`next`](Schedule::next) while it has room for another message, reports each
//! result with [`ended`](Schedule::ended), and may call [`stop`](Schedule::stop) at any time. When
//! no message is running and `next` returns none, every message has its [`Verdict`].
//!
//! 1. The messages of a group run one at a time, in order. After a message that is not done, the rest
//!    of its group is held.
//! 2. Messages with the same key never run at once. Of those that also have the same fingerprint
//!    (twins), one runs, and the others get its verdict.
//! 3. Otherwise messages start in the order of the batch.
//!
//! A batch has up to 10,000 messages, which may all have the same key. So the cost of a message
//! must not grow with their number, except for the logarithm of a sorted set.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::fingerprint::Fingerprint;

/// The properties of a message that decide when it may run.
#[derive(Clone, Debug)]
pub(crate) struct Constraints {
    /// The name of its order group, if any.
    pub(crate) group: Option<String>,
    /// Its key and fingerprint, if it has a key.
    pub(crate) identity: Option<(String, Fingerprint)>,
}

/// The result of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is done and need not be delivered again.
    Done,
    /// It ran or was rejected, without success.
    Failed,
    /// An earlier message of its group is not done.
    Held,
    /// No time was left to run it.
    NoTurn,
    /// It was running when the time was over.
    CutOff,
}

#[derive(Debug)]
struct Entry {
    /// The index of its group.
    group: usize,
    /// The index of its request, if it has a key.
    request: Option<usize>,
    /// `NoTurn` until it starts, then `CutOff` until it ends.
    verdict: Verdict,
}

/// The messages of one key.
#[derive(Debug, Default)]
struct Lane {
    is_running: bool,
    /// The messages that could have started while another one ran.
    waiting: BTreeSet<usize>,
}

/// The messages of one key and fingerprint, which are twins.
#[derive(Debug, Default)]
struct Request {
    /// The index of its key.
    lane: usize,
    /// The verdict of the message that ran.
    ended: Option<Verdict>,
    /// The twins that wait.
    waiting: Vec<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    entries: Vec<Entry>,
    /// The remaining messages of each group, in order; a message without a group is its own group.
    groups: Vec<VecDeque<usize>>,
    lanes: Vec<Lane>,
    requests: Vec<Request>,
    /// The messages that may start.
    ready: BTreeSet<usize>,
    /// How many times a message was examined.
    #[cfg(test)]
    looks: usize,
}

impl Schedule {
    pub(crate) fn new(messages: impl IntoIterator<Item = Constraints>) -> Self {
        let (mut group_by_name, mut lane_by_key) = (HashMap::new(), HashMap::new());
        let mut request_by_fingerprint = HashMap::new();
        let mut schedule = Self::default();
        let Self { entries, groups, lanes, requests, ready, .. } = &mut schedule;
        for (index, Constraints { group, identity }) in messages.into_iter().enumerate() {
            let group = match group {
                Some(name) => *group_by_name.entry(name).or_insert(groups.len()),
                None => groups.len(),
            };
            if group == groups.len() {
                groups.push(VecDeque::new());
                ready.insert(index);
            }
            groups[group].push_back(index);
            let request = identity.map(|(key, fingerprint)| {
                let lane = *lane_by_key.entry(key).or_insert(lanes.len());
                if lane == lanes.len() {
                    lanes.push(Lane::default());
                }
                *request_by_fingerprint.entry((lane, fingerprint)).or_insert_with(|| {
                    requests.push(Request { lane, ..Request::default() });
                    requests.len() - 1
                })
            });
            entries.push(Entry { group, request, verdict: Verdict::NoTurn });
        }
        schedule
    }

    /// Returns the next message to run, if one may start now.
    pub(crate) fn next(&mut self) -> Option<usize> {
        while let Some(index) = self.ready.pop_first() {
            self.look();
            if self.entries[index].verdict != Verdict::NoTurn {
                // Its twin has ended meanwhile, so this message already has a verdict.
                continue;
            }
            if let Some(request) = self.entries[index].request {
                let request = &mut self.requests[request];
                let lane = &mut self.lanes[request.lane];
                if let Some(verdict) = request.ended {
                    self.conclude(index, verdict);
                    continue;
                }
                if lane.is_running {
                    lane.waiting.insert(index);
                    request.waiting.push(index);
                    continue;
                }
                lane.is_running = true;
            }
            self.entries[index].verdict = Verdict::CutOff;
            return Some(index);
        }
        None
    }

    /// Records whether a message that ran is done.
    pub(crate) fn ended(&mut self, index: usize, is_done: bool) {
        let verdict = if is_done { Verdict::Done } else { Verdict::Failed };
        self.conclude(index, verdict);
        let Some(request) = self.entries[index].request else { return };
        let request = &mut self.requests[request];
        request.ended = Some(verdict);
        let twins = std::mem::take(&mut request.waiting);
        let lane = &mut self.lanes[request.lane];
        lane.is_running = false;
        for twin in &twins {
            lane.waiting.remove(twin);
        }
        // Only one of the waiting messages can run; its end makes the next one ready.
        self.ready.extend(lane.waiting.pop_first());
        for twin in twins {
            self.look();
            // A twin that became ready meanwhile may be listed more than once.
            if self.entries[twin].verdict == Verdict::NoTurn {
                self.conclude(twin, verdict);
            }
        }
    }

    #[cfg(test)]
    fn look(&mut self) {
        self.looks += 1;
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the tests' one counts")]
    const fn look(&self) {}

    /// Records a verdict and its consequences for the group.
    fn conclude(&mut self, index: usize, verdict: Verdict) {
        self.entries[index].verdict = verdict;
        let group = &mut self.groups[self.entries[index].group];
        group.pop_front();
        if verdict == Verdict::Done {
            self.ready.extend(group.front());
        } else {
            for held in group.drain(..) {
                self.entries[held].verdict = Verdict::Held;
            }
        }
    }

    /// Lets no further message start.
    pub(crate) fn stop(&mut self) {
        self.ready.clear();
        self.groups.iter_mut().for_each(VecDeque::clear);
        self.lanes.iter_mut().for_each(|lane| lane.waiting.clear());
        self.requests.iter_mut().for_each(|request| request.waiting.clear());
    }

    /// Returns the verdict of each message if the batch ends now. A message that has not started is
    /// `NoTurn`, so it is delivered again.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.entries.iter().map(|entry| entry.verdict)
    }
}

#[cfg(test)]
mod tests;
