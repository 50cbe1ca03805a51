//! What `docs/guide/operate.md` promises of a table that was restored, as far as an emulator goes: it
//! restores nothing, so the test uses a copy of the records.

use std::time::Duration;

use dynamodb_idempotency::admin::{Blocked, Copied, CopyMode, Released, Select};
use dynamodb_idempotency::policy::{KeyForm, Takeover};
use dynamodb_idempotency::{ErrorKind, Outcome, Policy, Scope};

use crate::support::raw::{self, map, n, s, with};
use crate::support::{Act, Charging, Gate, Link, Runs, Store, caller, charge, executed, kind};

/// Copies all items, as `idempotency copy` does.
async fn copy(from: &Store, to: &Store) -> Vec<Copied> {
    let (from, to) = (from.tool(&Link::default()), to.tool(&Link::default()));
    let mut copied = Vec::new();
    for select in [Select::PartItems, Select::RecordItems] {
        let page = from.admin().page(0, 1, select, None).await.unwrap();
        for item in &page.items {
            copied.push(to.admin().copy(item, CopyMode::Write).await.unwrap());
        }
    }
    copied
}

#[tokio::test]
async fn a_restored_table_replays_what_it_has_and_runs_what_it_lost() {
    let (old, restored, runs) = (Store::open().await, Store::open().await, Runs::default());
    for key in ["before", "carried over"] {
        charge(old.idempotency().operation("charge").key(key).no_payload(), &runs).await.unwrap();
    }
    assert_eq!(copy(&old, &restored).await, [Copied::Copied; 2]);
    charge(old.idempotency().operation("charge").key("window").no_payload(), &runs).await.unwrap();

    let idempotency = restored.idempotency();
    for key in ["before", "carried over"] {
        let outcome =
            charge(idempotency.operation("charge").key(key).no_payload(), &runs).await.unwrap();
        assert!(matches!(outcome, Outcome::Replayed(_)), "{key}: {outcome:?}");
    }
    let forgotten =
        charge(idempotency.operation("charge").key("window").no_payload(), &runs).await.unwrap();
    assert_eq!((forgotten, runs.count()), (executed(4, 1), 4));
}

#[tokio::test]
async fn filling_a_table_up_brings_back_what_is_gone_and_leaves_what_is_there() {
    let (store, backup, runs) = (Store::open().await, Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    for key in ["kept", "deleted"] {
        charge(idempotency.operation("charge").key(key).no_payload(), &runs).await.unwrap();
    }
    copy(&store, &backup).await;
    store.delete("charge#deleted").await;
    store.put(raw::completed("charge#kept", "7")).await;
    let kept = store.record("charge#kept").await;

    let mut copied = copy(&backup, &store).await;
    copied.sort_by_key(|one| *one != Copied::Copied);
    assert_eq!(copied, [Copied::Copied, Copied::Kept("COMPLETED")]);
    assert_eq!(store.record("charge#kept").await, kept);
    let outcome =
        charge(idempotency.operation("charge").key("deleted").no_payload(), &runs).await.unwrap();
    assert!(matches!(outcome, Outcome::Replayed(_)), "{outcome:?}");
    assert_eq!(runs.count(), 2);
}

/// A record that was PENDING when the backup was made, and COMPLETED in the old table.
#[tokio::test]
async fn a_completion_after_the_backup_wins_over_the_restored_lease() {
    let (old, restored, runs) = (Store::open().await, Store::open().await, Runs::default());
    charge(old.idempotency().charging(), &runs).await.unwrap();
    restored.put(raw::abandoned("charge#k")).await;
    assert_eq!(copy(&old, &restored).await, [Copied::Replaced]);
    let outcome = charge(restored.idempotency().charging(), &runs).await.unwrap();
    assert!(matches!(outcome, Outcome::Replayed(_)), "{outcome:?}");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_blocked_key_is_a_mismatch_under_every_policy() {
    let (store, runs, idempotency) = caller().await;
    let (admin, day) = (idempotency.admin(), Duration::from_secs(86_400));
    let scope = Scope::new("charge");
    let block = || admin.block(&scope, "k", KeyForm::Verbatim, day);
    assert!(matches!(block().await.unwrap(), Blocked::Written));
    let before = store.record("charge#k").await;
    let policies: [fn(Policy) -> Policy; 2] =
        [|policy| policy, |policy| policy.takeover(Takeover::Reject)];
    for policy in policies {
        let operation = idempotency.operation("charge").policy(policy).unwrap();
        assert_eq!(kind(charge(operation.key("k").no_payload(), &runs).await), ErrorKind::Mismatch);
    }
    assert!(matches!(block().await.unwrap(), Blocked::Exists(_)));
    assert_eq!((store.record("charge#k").await, runs.count()), (before, 0));
}

/// The blocker replaces what was read, and nothing that has started since.
#[tokio::test]
async fn a_forced_block_does_not_replace_an_attempt_that_has_started_since() {
    let (store, link, gate) = (Store::open().await, Link::default(), Gate::default());
    let (scope, day) = (Scope::new("charge"), Duration::from_secs(86_400));
    store.put(raw::abandoned("charge#k")).await;
    let taken_over = with(raw::pending("charge#k"), "owner", s(raw::ANOTHER));
    link.wire.next("PutItem", Act::HoldResponse(gate.clone()));
    let idempotency = store.over(&link);
    let admin = idempotency.admin();
    let block = admin.force_block(&scope, "k", KeyForm::Verbatim, day);
    let (blocked, ()) = tokio::join!(block, async {
        gate.reached().await;
        store.put(taken_over.clone()).await;
        gate.open();
    });
    let Blocked::Exists(record) = blocked.unwrap() else { panic!("it runs") };
    assert_eq!(record.owner, raw::ANOTHER);
    assert_eq!(store.record("charge#k").await, taken_over);
}

#[tokio::test]
async fn a_forced_block_whose_response_is_lost_has_replaced_the_record() {
    let (store, runs) = (Store::open().await, Runs::default());
    let link = Link::default();
    let (scope, day) = (Scope::new("charge"), Duration::from_secs(86_400));
    let steps = with(raw::failed("charge#k"), "steps", map("reserve", s("1")));
    store.put(steps).await;
    for act in [Act::Deliver, Act::LoseResponse] {
        link.wire.next("PutItem", act);
    }
    let idempotency = store.over(&link);
    let admin = idempotency.admin();
    let blocked = admin.force_block(&scope, "k", KeyForm::Verbatim, day).await.unwrap();
    assert!(matches!(blocked, Blocked::Replaced(_)), "{blocked:?}");
    let again = admin.force_block(&scope, "k", KeyForm::Verbatim, day).await.unwrap();
    assert!(matches!(again, Blocked::Exists(_)), "{again:?}");
    let ran = charge(store.idempotency().charging(), &runs).await;
    assert_eq!((kind(ran), runs.count()), (ErrorKind::Mismatch, 0));
}

#[tokio::test]
async fn a_failure_does_not_replace_a_release_by_hand() {
    let (old, restored, runs) = (Store::open().await, Store::open().await, Runs::default());
    old.put(raw::failed("charge#k")).await;
    assert_eq!(copy(&old, &restored).await, [Copied::Copied]);
    let tool = restored.tool(&Link::default());
    let record = tool.admin().record(&Scope::new("charge"), "k", KeyForm::Verbatim).await;
    let released = tool.admin().release(&record.unwrap().expect("a record")).await.unwrap();
    assert!(matches!(released, Released::Released), "{released:?}");
    assert_eq!(copy(&old, &restored).await, [Copied::Kept("RELEASED")]);
    let ran = charge(restored.idempotency().charging(), &runs).await;
    assert_eq!((ran.is_ok(), runs.count()), (true, 1));
    // What has completed is final.
    let done = with(raw::completed("charge#k", "1"), "attempt", n(9));
    old.put(done).await;
    restored.put(with(raw::failed("charge#k"), "status", s("RELEASED"))).await;
    assert_eq!(copy(&old, &restored).await, [Copied::Replaced]);
}
