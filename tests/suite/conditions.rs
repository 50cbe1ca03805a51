//! A condition means the same to the machines and to DynamoDB.

use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::internals;
use dynamodb_idempotency_protocol::time::Timestamp;
use dynamodb_idempotency_protocol::{Condition, OwnerId, RecordMeta, State, Term};

use crate::support::Store;
use crate::support::raw::{self, Item, n, s};

const OWNERS: [OwnerId; 2] = [OwnerId(1), OwnerId(2)];
const LEASES: [i64; 2] = [1_000, 2_000];
const ATTEMPTS: [u32; 2] = [1, 2];
const STEPS: [Option<usize>; 3] = [None, Some(0), Some(1)];
const EXPIRES: [i64; 2] = [100, 200];

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Records that differ in each attribute that a condition compares.
fn records() -> Vec<RecordMeta> {
    let mut states = vec![State::Completed, State::Failed, State::Released];
    states.extend(LEASES.map(|lease| State::Pending { lease_expires_at: at(lease) }));
    let mut records = Vec::new();
    for owner in OWNERS {
        for state in states.iter().copied() {
            for steps in STEPS {
                let number = records.len();
                records.push(RecordMeta {
                    owner,
                    state,
                    attempt: ATTEMPTS[number % 2],
                    released_attempts: 0,
                    created_at: at(0),
                    completed_at: None,
                    expires_at: EXPIRES[number / 2 % 2],
                    steps,
                    is_same_request: true,
                });
            }
        }
    }
    records
}

/// Every condition that the machines and the tools send, with values that some records have.
fn conditions() -> Vec<Condition> {
    let [me, _] = OWNERS;
    let held = || Condition::held_by(me);
    let mut conditions = vec![
        Condition::absent(),
        held(),
        held().and(Term::NoSteps),
        Condition::held_by_or_absent(me),
    ];
    for lease in LEASES.map(at) {
        conditions.push(held().and(Term::LeaseExpiresAt(lease)));
        conditions.push(held().and(Term::LeaseExpiresBefore(lease)));
    }
    conditions.extend([0, 1, 2].map(|attempt| Condition::completable_by(me, attempt)));
    for record in &records() {
        conditions.push(Condition::unchanged(&record.version()));
    }
    for expires in EXPIRES {
        conditions.push(Condition::absent().or(&[Term::ExpiresBefore(expires)]));
        conditions.push(Condition::all(&[Term::ExpiresAt(expires)]));
    }
    conditions
}

/// The record as `docs/protocol.md` describes it, without what no condition compares.
fn item(pk: &str, record: &RecordMeta) -> Item {
    let mut item = raw::key(pk);
    let mut set = |name: &str, value| drop(item.insert(name.to_owned(), value));
    set("status", s(record.state.status().as_str()));
    set("owner", s(&record.owner.to_string()));
    set("attempt", n(i64::from(record.attempt)));
    set("expires_at", n(record.expires_at));
    if let Some(lease) = record.state.lease_expires_at() {
        set("lease_expires_at", n(lease.millis()));
    }
    if let Some(count) = record.steps {
        let steps = (0..count).map(|step| (step.to_string(), s("null")));
        set("steps", AttributeValue::M(steps.collect()));
    }
    item
}

/// Whether DynamoDB applies a write with this condition.
async fn is_applied(store: &Store, pk: &str, condition: &Condition) -> bool {
    let (expression, names, values) = internals::condition_expression(condition);
    let write = store
        .raw
        .update_item()
        .table_name(store.table())
        .set_key(Some(raw::key(pk)))
        .condition_expression(expression)
        .set_expression_attribute_names(Some(names))
        .set_expression_attribute_values(values);
    match write.send().await {
        Ok(_) => true,
        Err(error) => {
            let error = error.into_service_error();
            assert!(error.is_conditional_check_failed_exception(), "{condition:?}: {error:?}");
            false
        }
    }
}

#[tokio::test]
async fn a_condition_holds_for_the_machines_exactly_when_dynamodb_applies_the_write() {
    let store = Store::open().await;
    let records = records();
    for (index, record) in records.iter().enumerate() {
        store.put(item(&format!("charge#{index}"), record)).await;
    }
    let mut applied = 0;
    for condition in conditions() {
        for (index, record) in records.iter().enumerate() {
            let is_applied = is_applied(&store, &format!("charge#{index}"), &condition).await;
            assert_eq!(condition.holds(Some(record)), is_applied, "{condition:?} on {record:?}");
            applied += u32::from(is_applied);
        }
        let is_applied = is_applied(&store, "charge#absent", &condition).await;
        assert_eq!(condition.holds(None), is_applied, "{condition:?} without a record");
        store.delete("charge#absent").await;
    }
    assert!(applied > 100, "{applied} writes were applied");
}
