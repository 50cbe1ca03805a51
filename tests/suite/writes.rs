//! A write leaves in the table what the machines believe: for each kind of write, on generated records,
//! the item is compared with `Write::applied_to`, attribute by attribute.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::internals;
use dynamodb_idempotency_protocol::time::Timestamp;
use dynamodb_idempotency_protocol::{Condition, Form, Kind, OwnerId, RecordMeta, State, Write};

use crate::support::caller;
use crate::support::raw::{self, Item, n, s};

const ME: OwnerId = OwnerId(1);
const OTHER: OwnerId = OwnerId(2);

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

const LEASES: [i64; 2] = [1_000, 2_000];

fn pending() -> Vec<State> {
    LEASES.map(|lease| State::Pending { lease_expires_at: at(lease) }).to_vec()
}

/// Records in these states that differ in every field.
fn records(owner: OwnerId, states: &[State], steps: &[Option<usize>]) -> Vec<RecordMeta> {
    let mut records = Vec::new();
    for state in states {
        for steps in steps {
            for (number, is_same_request) in [(0, true), (1, true), (2, false)] {
                let is_finished = matches!(state, State::Completed | State::Failed);
                let seen = i64::from(number) + 7 * i64::from(steps.is_some());
                records.push(RecordMeta {
                    owner,
                    state: *state,
                    attempt: number + 1,
                    // A COMPLETED record has no such attribute.
                    released_attempts: if *state == State::Completed { 0 } else { number },
                    created_at: at(10 + seen),
                    completed_at: is_finished.then(|| at(20 + seen)),
                    expires_at: 4_000_000_000 + seen,
                    steps: *steps,
                    is_same_request,
                });
            }
        }
    }
    records
}

const NO_STEPS: &[Option<usize>] = &[None];
const ANY_STEPS: &[Option<usize>] = &[None, Some(0), Some(2)];

/// The records that a write of this kind can meet, and the records that it can write.
fn cases(kind: Kind) -> (Vec<Option<RecordMeta>>, Vec<RecordMeta>) {
    let some = |records: Vec<RecordMeta>| records.into_iter().map(Some).collect::<Vec<_>>();
    let held = || some(records(ME, &pending(), ANY_STEPS));
    let others = |states: &[State]| some(records(OTHER, states, ANY_STEPS));
    let unowned = || others(&[State::Completed, State::Failed, State::Released]);
    let abandoned = || others(&pending());
    let own = |states: &[State]| {
        let written = records(ME, states, NO_STEPS).into_iter();
        // A call writes for its own request.
        written.map(|record| RecordMeta { is_same_request: true, ..record }).collect::<Vec<_>>()
    };
    match kind {
        Kind::Acquire => (vec![None], own(&pending())),
        Kind::Replace => ([unowned(), abandoned()].concat(), own(&pending())),
        Kind::TakeOver => ([others(&[State::Failed]), abandoned()].concat(), own(&pending())),
        Kind::StampAgain | Kind::Renew | Kind::CloseOff => (held(), own(&pending())),
        Kind::Complete => {
            ([vec![None], held(), others(&[State::Released])].concat(), own(&[State::Completed]))
        }
        Kind::Commit => (held(), own(&[State::Completed])),
        Kind::Transact | Kind::AnswerWithoutItems => {
            ([vec![None], unowned(), abandoned()].concat(), own(&[State::Completed]))
        }
        Kind::Keep => (held(), own(&[State::Failed])),
        Kind::Release | Kind::ReleaseSucceeded => (held(), own(&[State::Released])),
        Kind::Undo => {
            let states = [pending(), vec![State::Failed, State::Released]].concat();
            ([vec![None], held()].concat(), own(&states))
        }
        Kind::ResolveCompleted | Kind::ResolveByCommit => (abandoned(), own(&[State::Completed])),
        Kind::ResolveFailed => (abandoned(), own(&[State::Failed])),
        Kind::SupersedeByRelease => {
            ([vec![None], others(&[State::Completed])].concat(), own(&[State::Released]))
        }
        Kind::Step => (held(), Vec::new()),
        // These two keep the state of the record that they meet.
        Kind::Supersede => {
            let met = [others(&[State::Failed, State::Released]), abandoned()].concat();
            (met, Vec::new())
        }
        Kind::Extend => (unowned(), Vec::new()),
    }
}

/// What a write of this kind writes to a record, if that depends on the record.
fn derived(kind: Kind, before: &RecordMeta) -> Option<RecordMeta> {
    let later = RecordMeta { expires_at: before.expires_at + 1, ..before.clone() };
    match (kind, before.state) {
        (Kind::Extend, _) => Some(later),
        (Kind::Step, _) => Some(before.clone()),
        (Kind::Supersede, State::Pending { lease_expires_at }) => {
            let state = State::Pending { lease_expires_at: lease_expires_at.shifted(1) };
            Some(RecordMeta { state, ..before.clone() })
        }
        (Kind::Supersede, State::Failed | State::Released) => {
            Some(RecordMeta { owner: ME.alternate(), ..before.clone() })
        }
        _ => None,
    }
}

/// The whole item of a record. Two of its attributes are unknown to the machines: the response, and one of a
/// later version.
fn item(pk: &str, record: &RecordMeta, response: Option<AttributeValue>, extra: bool) -> Item {
    let mut item = raw::pending(pk);
    if !record.is_same_request {
        item.insert("fingerprint".to_owned(), AttributeValue::B(Blob::new([1; 33])));
    }
    item.remove("lease_expires_at");
    let mut set = |name: &str, value| drop(item.insert(name.to_owned(), value));
    set("status", s(record.state.status().as_str()));
    set("owner", s(&record.owner.to_string()));
    set("attempt", n(i64::from(record.attempt)));
    set("expires_at", n(record.expires_at));
    set("created_at", n(record.created_at.millis()));
    if let Some(lease) = record.state.lease_expires_at() {
        set("lease_expires_at", n(lease.millis()));
    }
    if let Some(completed_at) = record.completed_at {
        set("completed_at", n(completed_at.millis()));
    }
    if record.released_attempts > 0 {
        set("released_attempts", n(i64::from(record.released_attempts)));
    }
    if let Some(count) = record.steps {
        let steps = (0..count).map(|step| (step.to_string(), s("null")));
        set("steps", AttributeValue::M(steps.collect()));
    }
    if let Some(response) = response {
        set("response", response);
    }
    if extra {
        set("of_a_later_version", n(1));
    }
    item
}

fn response(of: &RecordMeta, text: &str) -> Option<AttributeValue> {
    let is_finished = matches!(of.state, State::Completed | State::Failed);
    is_finished.then(|| raw::answer("json", text))
}

/// The table *States* of the protocol: the name of each write, and its request.
fn documented() -> Vec<(&'static str, &'static str)> {
    let page = include_str!("../../docs/protocol.md");
    let table = page.split("| write | request |").nth(1).expect("the table of writes");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.split('|').skip(1).map(str::trim);
        (cells.next().unwrap(), cells.next().unwrap())
    })
    .collect()
}

#[test]
fn the_page_has_a_row_for_each_kind_of_write() {
    let request = |kind: Kind| match kind.form() {
        Form::Put => "put",
        Form::Update | Form::UpdateWithoutSteps | Form::Stamp | Form::Touch | Form::Step => {
            "update"
        }
        Form::Transaction => "put in a transaction",
    };
    // The machines do not send this one.
    let mut expected = vec![("release by hand", "update")];
    expected.extend(Kind::ALL.map(|kind| (kind.name(), request(kind))));
    let mut documented = documented();
    expected.sort_unstable();
    documented.sort_unstable();
    assert_eq!(documented, expected);
}

#[tokio::test]
async fn a_write_leaves_the_record_that_the_machines_expect() {
    let (store, _, idempotency) = caller().await;
    let mut applied = 0;
    for kind in Kind::ALL {
        let (records, writes) = cases(kind);
        let mut combinations = Vec::new();
        for before in &records {
            let derived = before.as_ref().and_then(|before| derived(kind, before));
            for record in writes.iter().cloned().chain(derived) {
                combinations.push((before.clone(), record));
            }
        }
        assert!(!combinations.is_empty(), "{kind:?}");
        for (index, (before, record)) in combinations.into_iter().enumerate() {
            let (key, pk) = (format!("{kind:?}-{index}"), format!("charge#{kind:?}-{index}"));
            if let Some(before) = &before {
                store.put(item(&pk, before, response(before, "0"), true)).await;
            }
            let condition = match &before {
                None => Condition::held_by_or_absent(ME),
                Some(before) => Condition::unchanged(&before.version()),
            };
            let write = Write { kind, condition, record };
            let answer = response(&write.record, "1");
            let steps = before.as_ref().and_then(|before| before.steps).unwrap_or(0).to_string();
            let (key, step) = (("charge", key.as_str()), (steps.as_str(), s("null")));
            let sent = internals::send_write(&idempotency, key, &write, answer.clone(), step);
            assert!(sent.await.unwrap(), "{write:?} on {before:?} was not applied");
            let expected = write.applied_to(before.as_ref());
            // Who replaces the record replaces its response too.
            let (response, extra) = match (write.form(), &before) {
                (Form::Put | Form::Transaction, _)
                | (Form::Update | Form::UpdateWithoutSteps, None) => (answer, false),
                (Form::Update | Form::UpdateWithoutSteps, Some(_)) => (answer, true),
                (Form::Stamp | Form::Touch | Form::Step, before) => {
                    (before.as_ref().and_then(|before| response(before, "0")), before.is_some())
                }
            };
            let left = store.item(&pk).await.unwrap();
            let names: BTreeSet<_> = left.keys().collect();
            assert_eq!(left, item(&pk, &expected, response, extra), "{write:?} on {before:?}");
            assert_eq!(internals::meta(left.clone()).unwrap(), expected, "{names:?}: {write:?}");
            applied += 1;
        }
    }
    assert!(applied > 500, "{applied} writes were applied");
}
