use std::collections::HashMap;

use super::*;
use crate::history::gather;
use crate::store::{Effect, Stored};

const KEY: &str = "k1";

fn entry(at: i64, event: Event) -> Entry {
    Entry { at, process: "w0-1".into(), key: KEY.into(), event }
}

fn started(at: i64, owner: &str, attempt: u32, lease_ends: i64) -> Entry {
    entry(at, Event::Started { owner: owner.into(), attempt, lease_ends })
}

fn answered(at: i64, how: How, owner: &str, attempt: u32) -> Entry {
    let answer = Answer { key: KEY.into(), owner: owner.into(), attempt };
    entry(at, Event::Answered { how, answer })
}

fn effect(started: i64, owner: &str, attempt: u32, lease_ends: i64) -> Effect {
    Effect { key: KEY.into(), owner: owner.into(), attempt, started, lease_ends }
}

/// A stops after its effect, B takes over and completes, C gets the answer.
fn taken_over() -> History {
    let answer = format!("{{\"key\":\"{KEY}\",\"owner\":\"B\",\"attempt\":2}}");
    History {
        entries: vec![
            started(1_000, "A", 1, 3_000),
            started(3_400, "B", 2, 5_400),
            answered(3_900, How::Executed, "B", 2),
            answered(4_000, How::Replayed, "B", 2),
        ],
        effects: vec![effect(1_000, "A", 1, 3_000), effect(3_400, "B", 2, 5_400)],
        record: Some(Stored {
            status: "COMPLETED".into(),
            owner: "B".into(),
            attempt: 2,
            answer: Some(answer),
        }),
    }
}

fn checked(history: History) -> Findings {
    let records = history.record.map(|record| (KEY.to_owned(), record)).into_iter().collect();
    check(&gather([KEY.to_owned()], history.entries, history.effects, records))
}

/// The violation that the check must report, and the change of the history that causes it.
type Case = (&'static str, fn(&mut History));

#[test]
fn a_takeover_explains_the_second_effect() {
    let Findings { figures, violations } = checked(taken_over());
    assert!(violations.is_empty(), "{violations:?}");
    assert_eq!((figures.takeovers, figures.duplicates_explained), (1, 1));
    assert_eq!((figures.duplicates_unexplained, figures.smallest_gap), (0, Some(400)));
}

#[test]
fn every_violation_is_found() {
    let cases: [Case; 17] = [
        ("it has no record", |h| h.record = None),
        ("its record is PENDING", |h| h.record.as_mut().unwrap().status = "PENDING".into()),
        ("has the answer None", |h| h.record.as_mut().unwrap().answer = Some("{}".into())),
        ("has the answer Some", |h| h.record.as_mut().unwrap().owner = "A".into()),
        ("got another answer", |h| h.entries.push(answered(9_000, How::Replayed, "A", 1))),
        ("calls reported that they executed it", |h| {
            h.entries.push(answered(4_100, How::Executed, "B", 2));
        }),
        ("got the error Mismatch", |h| {
            h.entries.push(entry(4_100, Event::Refused { kind: "Mismatch".into() }));
        }),
        ("while A held one until 3401", |h| h.entries[0] = started(1_000, "A", 1, 3_401)),
        ("while A held one until 4000", |h| {
            h.entries.push(entry(2_000, Event::Renewed { owner: "A".into(), lease_ends: 4_000 }));
        }),
        ("attempt 1 started after attempt 1", |h| h.entries[1] = started(3_400, "B", 1, 5_400)),
        ("started after an answer was returned", |h| {
            h.entries.push(started(6_000, "C", 3, 8_000));
        }),
        ("it has no effect", |h| h.effects.clear()),
        ("B returned an answer without an effect", |h| drop(h.effects.pop())),
        ("C returned an answer without an effect", |h| {
            h.entries.push(answered(2_900, How::Unconfirmed, "C", 1));
        }),
        ("nothing explains the effect of D", |h| h.effects.push(effect(7_000, "D", 3, 9_000))),
        ("nothing explains the effect of B", |h| h.entries[0] = started(1_000, "A", 1, 3_401)),
        ("nothing explains the effect of A", |h| drop(h.entries.remove(0))),
    ];
    for (expected, spoil) in cases {
        let mut history = taken_over();
        spoil(&mut history);
        let violations = checked(history).violations;
        let said = violations.iter().flat_map(|(_, wrong)| wrong).any(|w| w.contains(expected));
        assert!(said, "{expected}: {violations:?}");
    }
}

#[test]
fn after_a_failure_the_next_attempt_may_start_at_once() {
    let mut history = taken_over();
    history.entries[0] = started(3_300, "A", 1, 5_300);
    history.entries.push(entry(3_350, Event::Failing { owner: "A".into() }));
    history.entries[1] = started(3_400, "B", 2, 5_400);
    history.effects.remove(0);
    assert!(checked(history).violations.is_empty());
}

#[test]
fn a_handler_that_started_after_its_lease_is_not_an_owner() {
    let mut history = taken_over();
    history.entries[0] = started(5_000, "A", 1, 5_000);
    history.effects[0] = effect(5_000, "A", 1, 5_000);
    let Findings { figures, violations } = checked(history);
    assert!(violations.is_empty(), "{violations:?}");
    assert_eq!((figures.late_starts, figures.duplicates_explained), (1, 1));
}

#[test]
fn an_unconfirmed_answer_need_not_be_the_stored_one() {
    let mut history = taken_over();
    history.entries.push(answered(2_900, How::Unconfirmed, "A", 1));
    let Findings { figures, violations } = checked(history);
    assert!(violations.is_empty(), "{violations:?}");
    assert_eq!(figures.unconfirmed_and_lost, 1);
}

#[test]
fn a_key_without_a_record_is_a_violation() {
    let findings = check(&gather(["k7".to_owned()], vec![], vec![], HashMap::new()));
    assert_eq!(findings.violations.len(), 1);
}

/// The same history under a key whose effects are committed, where a second effect is a violation.
#[test]
fn two_committed_effects_are_found() {
    let committed = |history: History| {
        let text = serde_json::to_string(&history.entries).unwrap().replace("k1", "k2");
        let entries: Vec<Entry> = serde_json::from_str(&text).unwrap();
        let effects = history.effects.into_iter();
        let effects = effects.map(|effect| Effect { key: "k2".into(), ..effect }).collect();
        let record = history.record.map(|mut record| {
            record.answer = record.answer.map(|answer| answer.replace("k1", "k2"));
            ("k2".to_owned(), record)
        });
        check(&gather(["k2".to_owned()], entries, effects, record.into_iter().collect()))
    };
    let found = committed(taken_over()).violations;
    assert!(found[0].1.iter().any(|wrong| wrong == "2 effects were committed"), "{found:?}");
    let mut once = taken_over();
    once.effects.remove(0);
    let Findings { figures, violations } = committed(once);
    assert!(violations.is_empty() && figures.committed == 1, "{violations:?}");
}
