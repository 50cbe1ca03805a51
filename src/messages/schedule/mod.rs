//! Decides which message of a batch runs when, without I/O, clock or tasks.
//!
//! The driver calls [`next`](Schedule::next) while it has room for another message, reports each
//! result with [`ended`](Schedule::ended), and may call [`stop`](Schedule::stop) at any time. When
//! no message is running and `next` returns none, every message has its [`Verdict`].
//!
//! 1. The messages of a group run one at a time, in order. After one that is not done, the rest of
//!    its group is held.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Over(Verdict),
}

#[derive(Debug)]
struct Entry {
    /// The index of its group.
    group: usize,
    /// The index of its key and of its request.
    request_index: Option<RequestIndex>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
struct RequestIndex {
    lane: usize,
    request: usize,
}

/// The messages of one key.
#[derive(Debug, Default)]
struct Lane {
    is_running: bool,
    /// The requests with this key; twins share one.
    requests: Vec<Request>,
    /// The messages that could have started while another one ran.
    waiting: BTreeSet<usize>,
}

#[derive(Debug, Default)]
struct Request {
    /// The verdict of the message that ran.
    ended: Option<Verdict>,
    /// The twins that wait.
    waiting: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct Schedule {
    entries: Vec<Entry>,
    /// The remaining messages of each group, in order; a message without a group is its own group.
    groups: Vec<VecDeque<usize>>,
    lanes: Vec<Lane>,
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
        let (mut groups, mut lanes) = (Vec::<VecDeque<usize>>::new(), Vec::<Lane>::new());
        let mut entries = Vec::new();
        for (index, constraints) in messages.into_iter().enumerate() {
            let group = match constraints.group {
                Some(name) => *group_by_name.entry(name).or_insert(groups.len()),
                None => groups.len(),
            };
            if group == groups.len() {
                groups.push(VecDeque::new());
            }
            groups[group].push_back(index);
            let request_index = constraints.identity.map(|(key, fingerprint)| {
                let lane = *lane_by_key.entry(key).or_insert_with(|| {
                    lanes.push(Lane::default());
                    lanes.len() - 1
                });
                let requests = &mut lanes[lane].requests;
                let request =
                    *request_by_fingerprint.entry((lane, fingerprint)).or_insert_with(|| {
                        requests.push(Request::default());
                        requests.len() - 1
                    });
                RequestIndex { lane, request }
            });
            entries.push(Entry { group, request_index, state: State::Waiting });
        }
        let ready = groups.iter().filter_map(|group| group.front().copied()).collect();
        Self {
            entries,
            groups,
            lanes,
            ready,
            #[cfg(test)]
            looks: 0,
        }
    }

    /// Returns the next message to run, if one may start now.
    pub(crate) fn next(&mut self) -> Option<usize> {
        while let Some(index) = self.ready.pop_first() {
            self.look();
            if self.entries[index].state != State::Waiting {
                // A twin of it has ended meanwhile, so it has a verdict.
                continue;
            }
            let Some(RequestIndex { lane, request }) = self.entries[index].request_index else {
                return Some(self.start(index));
            };
            let lane = &mut self.lanes[lane];
            let request = &mut lane.requests[request];
            if let Some(verdict) = request.ended {
                self.conclude(index, verdict);
            } else if lane.is_running {
                lane.waiting.insert(index);
                request.waiting.push(index);
            } else {
                lane.is_running = true;
                return Some(self.start(index));
            }
        }
        None
    }

    fn start(&mut self, index: usize) -> usize {
        self.entries[index].state = State::Running;
        index
    }

    /// Records whether a message that ran is done.
    pub(crate) fn ended(&mut self, index: usize, is_done: bool) {
        let verdict = if is_done { Verdict::Done } else { Verdict::Failed };
        self.conclude(index, verdict);
        let Some(RequestIndex { lane, request }) = self.entries[index].request_index else {
            return;
        };
        let lane = &mut self.lanes[lane];
        lane.is_running = false;
        let request = &mut lane.requests[request];
        request.ended = Some(verdict);
        let twins = std::mem::take(&mut request.waiting);
        for twin in &twins {
            lane.waiting.remove(twin);
        }
        // Only one can run; its end wakes the next.
        self.ready.extend(lane.waiting.pop_first());
        for twin in twins {
            self.look();
            // A twin that became ready meanwhile may be listed more than once.
            if self.entries[twin].state == State::Waiting {
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
        self.entries[index].state = State::Over(verdict);
        let group = &mut self.groups[self.entries[index].group];
        group.pop_front();
        if verdict == Verdict::Done {
            self.ready.extend(group.front());
        } else {
            for held in group.drain(..) {
                self.entries[held].state = State::Over(Verdict::Held);
            }
        }
    }

    /// Lets no further message start.
    pub(crate) fn stop(&mut self) {
        self.ready.clear();
        self.groups.iter_mut().for_each(VecDeque::clear);
        for lane in &mut self.lanes {
            lane.waiting.clear();
            lane.requests.iter_mut().for_each(|request| request.waiting.clear());
        }
        self.end_all(State::Waiting, Verdict::NoTurn);
    }

    /// Lets no further message start, and abandons those that run.
    pub(crate) fn cut_off(&mut self) {
        self.stop();
        self.end_all(State::Running, Verdict::CutOff);
    }

    fn end_all(&mut self, state: State, verdict: Verdict) {
        for entry in self.entries.iter_mut().filter(|entry| entry.state == state) {
            entry.state = State::Over(verdict);
        }
    }

    /// Returns the verdict of each message. A message without one would be forgotten, so it is
    /// delivered again.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.entries.iter().map(|entry| match entry.state {
            State::Over(verdict) => verdict,
            State::Waiting => Verdict::NoTurn,
            State::Running => Verdict::CutOff,
        })
    }
}

#[cfg(test)]
mod tests;
