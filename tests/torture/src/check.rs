//! The properties that every key must have, whatever faults the processes had.
//!
//! 1. Its record is COMPLETED, with the answer of the owner named in the record.
//! 2. Every replayed answer equals that answer, and its owner executed the operation once.
//! 3. At most one owner at a time held a live lease, and attempts count upwards.
//! 4. No attempt starts after a stored answer was returned.
//! 5. It has an effect, and so has every owner that answered. Each further effect belongs to an attempt
//!    that started after every earlier lease had expired, or whose own lease expired before it started.
//! 6. If the effect is committed with the answer, there is exactly one: that of the owner of the stored
//!    answer.
//!
//! All processes read one clock, so times are compared without a margin. The store's time, which
//! decides when a lease expires, is truncated to the second. That only delays a takeover, so it needs
//! no margin either.

mod attempt;

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Answer, Entry, Event, How};
use crate::history::{Histories, History};
use crate::job::commits_effect;

use attempt::{Attempt, Why, attempts};

/// Errors that a caller may get under these faults.
const EXPECTED: [&str; 5] = ["Handler", "InProgress", "LeaseExpired", "LeaseLost", "Unavailable"];
/// The errors of a commit that is not confirmed while the server is down.
const EXPECTED_OF_A_COMMIT: [&str; 2] = ["NothingCommitted", "OutcomeUnknown"];

#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) figures: Figures,
    /// What is wrong, by key.
    pub(crate) violations: Vec<(String, Vec<String>)>,
}

#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) keys: u64,
    pub(crate) starts: u64,
    pub(crate) takeovers: u64,
    pub(crate) failures: u64,
    pub(crate) answers: BTreeMap<How, u64>,
    /// Unconfirmed answers that are not the stored one.
    pub(crate) unconfirmed_and_lost: u64,
    pub(crate) refusals: BTreeMap<String, u64>,
    pub(crate) effects: u64,
    /// Keys whose effect is committed with its answer.
    pub(crate) committed: u64,
    pub(crate) duplicates_explained: u64,
    pub(crate) duplicates_unexplained: u64,
    /// Handlers that started after their own lease had expired, because their process was paused.
    pub(crate) late_starts: u64,
    /// Milliseconds from the expiry of a lease to the start of the attempt that took over.
    pub(crate) smallest_gap: Option<i64>,
}

pub(crate) fn check(histories: &Histories) -> Findings {
    let mut findings = Findings::default();
    for ((_, key), history) in histories {
        let mut checker = Checker {
            key,
            history,
            attempts: attempts(&history.entries),
            figures: &mut findings.figures,
            wrong: Vec::new(),
        };
        checker.check();
        let wrong = checker.wrong;
        if !wrong.is_empty() {
            findings.violations.push((key.clone(), wrong));
        }
    }
    findings
}

struct Checker<'a> {
    key: &'a str,
    history: &'a History,
    attempts: Vec<Attempt>,
    figures: &'a mut Figures,
    wrong: Vec<String>,
}

impl Checker<'_> {
    fn check(&mut self) {
        self.figures.keys += 1;
        self.record();
        self.answers();
        self.refusals();
        self.owners();
        self.numbers();
        self.starts_after_the_answer();
        self.effects();
    }

    fn wrong(&mut self, what: impl Into<String>) {
        self.wrong.push(what.into());
    }

    fn stored(&self) -> Option<Answer> {
        let text = self.history.record.as_ref()?.answer.as_ref()?;
        serde_json::from_str(text).ok()
    }

    fn record(&mut self) {
        let Some(record) = &self.history.record else { return self.wrong("it has no record") };
        if record.status != "COMPLETED" {
            return self.wrong(format!("its record is {}", record.status));
        }
        match self.stored() {
            Some(Answer { key, owner, attempt })
                if key == self.key && owner == record.owner && attempt == record.attempt => {}
            other => self.wrong(format!("its record has the answer {other:?}")),
        }
    }

    fn answers(&mut self) {
        let stored = self.stored();
        let mut executed = 0;
        for Entry { event, process, .. } in &self.history.entries {
            let Event::Answered { how, answer } = event else { continue };
            *self.figures.answers.entry(*how).or_default() += 1;
            executed += u64::from(*how == How::Executed);
            let is_stored = stored.as_ref() == Some(answer);
            if *how == How::Unconfirmed {
                self.figures.unconfirmed_and_lost += u64::from(!is_stored);
            } else if !is_stored {
                self.wrong.push(format!("{process} got another answer: {answer:?}"));
            }
        }
        if executed > 1 {
            self.wrong(format!("{executed} calls reported that they executed it"));
        }
    }

    fn refusals(&mut self) {
        for Entry { event, process, .. } in &self.history.entries {
            let Event::Refused { kind } = event else { continue };
            *self.figures.refusals.entry(kind.clone()).or_default() += 1;
            let of_a_commit =
                commits_effect(self.key) && EXPECTED_OF_A_COMMIT.contains(&kind.as_str());
            if !of_a_commit && !EXPECTED.contains(&kind.as_str()) {
                self.wrong.push(format!("{process} got the error {kind}"));
            }
        }
    }

    /// No two attempts overlap.
    fn owners(&mut self) {
        for (at, later) in self.attempts.iter().enumerate() {
            self.figures.starts += 1;
            self.figures.failures += u64::from(later.failing.is_some());
            self.figures.late_starts += u64::from(later.is_late());
            let mut is_takeover = false;
            for earlier in &self.attempts[..at] {
                match later.apart_from(earlier) {
                    Some(Why::LeaseOver { gap }) => {
                        is_takeover = true;
                        let smallest = self.figures.smallest_gap.get_or_insert(gap);
                        *smallest = gap.min(*smallest);
                    }
                    Some(Why::Failed | Why::Late) => {}
                    None => self.wrong.push(format!(
                        "{} started at {} under a lease while {} held one until {}",
                        later.owner, later.started, earlier.owner, earlier.lease_ends
                    )),
                }
            }
            self.figures.takeovers += u64::from(is_takeover);
        }
    }

    /// Attempts increase.
    fn numbers(&mut self) {
        let on_time: Vec<&Attempt> = self.attempts.iter().filter(|one| !one.is_late()).collect();
        for (at, later) in on_time.iter().enumerate() {
            let highest = on_time[..at].iter().map(|one| one.number).max().unwrap_or(0);
            if later.number <= highest {
                let number = later.number;
                self.wrong.push(format!("attempt {number} started after attempt {highest}"));
            }
        }
    }

    fn starts_after_the_answer(&mut self) {
        let stored = self.history.entries.iter().find(|entry| {
            matches!(entry.event, Event::Answered { how: How::Executed | How::Replayed, .. })
        });
        let Some(stored) = stored else { return };
        let after = |one: &&Attempt| !one.is_late() && one.started > stored.at;
        if let Some(again) = self.attempts.iter().find(after) {
            let owner = &again.owner;
            self.wrong.push(format!("{owner} started after an answer was returned as stored"));
        }
    }

    fn effects(&mut self) {
        let effects = &self.history.effects;
        self.figures.effects += effects.len() as u64;
        if effects.is_empty() {
            return self.wrong("it has no effect");
        }
        let given = self.history.entries.iter().filter_map(|entry| match &entry.event {
            Event::Answered { answer, .. } => Some(answer.owner.clone()),
            _ => None,
        });
        let stored = self.stored().map(|answer| answer.owner);
        for owner in given.chain(stored).collect::<BTreeSet<_>>() {
            if !effects.iter().any(|effect| effect.owner == owner) {
                self.wrong.push(format!("{owner} returned an answer without an effect"));
            }
        }
        if commits_effect(self.key) {
            self.figures.committed += 1;
            if effects.len() > 1 {
                self.wrong(format!("{} effects were committed", effects.len()));
            }
        }
        let mut acted: Vec<&Attempt> = Vec::new();
        for effect in effects {
            let attempt = self.attempts.iter().find(|one| {
                (&one.owner, one.number, one.started)
                    == (&effect.owner, effect.attempt, effect.started)
            });
            let explained = attempt.is_some_and(|attempt| {
                acted.iter().all(|earlier| attempt.apart_from(earlier).is_some())
            });
            if !explained {
                self.wrong.push(format!("nothing explains the effect of {}", effect.owner));
            }
            if effect != &effects[0] {
                let count = if explained {
                    &mut self.figures.duplicates_explained
                } else {
                    &mut self.figures.duplicates_unexplained
                };
                *count += 1;
            }
            acted.extend(attempt);
        }
    }
}

#[cfg(test)]
mod tests;
