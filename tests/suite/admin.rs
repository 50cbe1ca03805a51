//! What tools do: they see records as they are, and delete what was seen or nothing.

use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::admin::{
    Danger, Released, Select, SentNote, StoredAnswer, StoredRecord, StoredState,
};
use dynamodb_idempotency::policy::KeyForm;
use dynamodb_idempotency::{ErrorKind, Idempotency, TableSchema};

use crate::support::raw::{self, Item, map, n, s, with};
use crate::support::{
    Act, Charging, Gate, Link, LocalClock, Runs, Store, caller, caller_on, charge, charge_held,
    executed,
};

async fn seen(idempotency: &Idempotency, key: &str) -> StoredRecord {
    let found = idempotency.admin().record(&"charge".into(), key, KeyForm::Verbatim).await;
    found.unwrap().expect("a record")
}

#[tokio::test]
async fn a_record_is_seen_as_the_crate_wrote_it() {
    let (store, runs, gate) = (Store::open().await, Runs::default(), Gate::default());
    let idempotency = store.idempotency();
    let running = charge_held(idempotency.charging(), &runs, &gate);
    let (ran, ()) = tokio::join!(running, async {
        gate.reached().await;
        let record = seen(&idempotency, "k").await;
        assert_eq!((record.status(), record.attempt), ("PENDING", 1));
        assert_eq!(record.dangers(), [Danger::LiveLease]);
        assert!(record.lease_left().is_some() && record.abandoned_for().is_none());
        gate.open();
    });
    assert_eq!(ran.unwrap(), executed(1, 1));
    let record = seen(&idempotency, "k").await;
    let StoredState::Completed { completed_at: Some(at), answer } = &record.state else {
        panic!("completed: {record:?}");
    };
    assert_eq!(*answer, StoredAnswer::Json(r#""run 1, attempt 1""#.to_owned()));
    assert!(*at >= record.created_at && record.expires_at > *at);
    assert_eq!((&*record.scope, &*record.key), ("charge", "k"));
    assert_eq!(record.dangers(), [Danger::Completed]);
}

#[tokio::test]
async fn a_note_and_what_may_have_been_sent_name_the_same_step_and_attempt() {
    let store = Store::open().await;
    let steps = [
        ("refund~sent~9", "1790000000000"),
        ("refund~sent~10", "1790000060000"),
        ("mail~sent~1", "1790000000000"),
        ("mail", "1"),
        ("~sent~x", "1"),
    ];
    let steps = AttributeValue::M(steps.map(|(name, step)| (name.to_owned(), s(step))).into());
    store.put(with(raw::abandoned("charge#k"), "steps", steps)).await;
    let record = seen(&store.idempotency(), "k").await;
    let sent = record.may_have_sent();
    assert_eq!(sent, [record.note("refund~sent~10").unwrap()]);
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_060);
    assert_eq!(sent, [SentNote { step: "refund", attempt: 10, at: Some(at) }]);
    let notes = ["refund", "mail", "~sent~x", "absent~sent~1"].map(|name| record.note(name));
    assert_eq!(notes, [None; 4]);
}

#[tokio::test]
async fn a_lease_is_judged_by_the_stores_time() {
    let store = Store::open().await;
    store.put(raw::pending("charge#k")).await;
    for (clock, date, is_live) in [(3600, 0, true), (-3600, 0, true), (0, 3600, false)] {
        let link = Link::default().clock(LocalClock::off_by(clock));
        link.wire.shift_date(date);
        let record = seen(&store.over(&link), "k").await;
        assert_eq!(record.lease_left().is_some(), is_live, "{record:?}");
        assert_eq!(record.abandoned_for().is_some(), !is_live, "{record:?}");
    }
}

#[tokio::test]
async fn what_was_seen_is_released_and_the_key_is_free() {
    let (store, runs, idempotency) = caller().await;
    store.put(raw::abandoned("charge#k")).await;
    let record = seen(&idempotency, "k").await;
    assert!(matches!(idempotency.admin().release(&record).await.unwrap(), Released::Released));
    assert!(store.is_released("charge#k").await);
    assert!(matches!(idempotency.admin().release(&record).await.unwrap(), Released::Released));
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 2));
    store.delete("charge#k").await;
    assert!(matches!(idempotency.admin().release(&record).await.unwrap(), Released::Gone));
}

/// Whatever a record has become since it was seen, it stays.
#[tokio::test]
async fn what_has_changed_since_is_never_released() {
    let (store, _, idempotency) = caller().await;
    let (pending, failed) = (raw::abandoned("charge#k"), raw::failed("charge#k"));
    let step = map("reserve", s("1"));
    let cases: [(&Item, Item); 6] = [
        // Taken over.
        (&pending, with(pending.clone(), "owner", s(raw::ANOTHER))),
        // Renewed.
        (&pending, raw::pending("charge#k")),
        // Done, and failed.
        (&pending, raw::completed("charge#k", "1")),
        (&pending, raw::failed("charge#k")),
        // A step further.
        (&pending, with(pending.clone(), "steps", step)),
        // Failed again, in another attempt.
        (&failed, with(failed.clone(), "owner", s(raw::ANOTHER))),
    ];
    for (before, after) in cases {
        store.put(before.clone()).await;
        let record = seen(&idempotency, "k").await;
        store.put(after.clone()).await;
        let released = idempotency.admin().force_release(&record).await.unwrap();
        let Released::Changed(now) = released else { panic!("changed: {released:?}") };
        assert_eq!(now.owner, raw::text(&after, "owner"));
        assert_eq!(store.record("charge#k").await, after);
    }
}

#[tokio::test]
async fn dangers_are_refused_before_anything_is_sent() {
    let (store, link, _, idempotency) = caller_on(Link::default()).await;
    let stepped = with(raw::abandoned("charge#k"), "steps", map("reserve", s("1")));
    for item in [raw::pending("charge#k"), raw::completed("charge#k", "1"), stepped] {
        store.put(item.clone()).await;
        let record = seen(&idempotency, "k").await;
        let error = idempotency.admin().release(&record).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!((link.wire.count("UpdateItem"), store.item("charge#k").await), (0, Some(item)));
    }
}

#[tokio::test]
async fn a_release_without_a_response_reports_an_unknown_outcome() {
    let (store, link, _, idempotency) = caller_on(Link::without_retries()).await;
    for act in [Act::LoseRequest, Act::LoseResponse, Act::SERVER_ERROR] {
        store.put(raw::abandoned("charge#k")).await;
        let record = seen(&idempotency, "k").await;
        link.wire.next("UpdateItem", act);
        let error = idempotency.admin().release(&record).await.unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::OutcomeUnknown, true));
    }
}

#[tokio::test]
async fn a_release_whose_first_try_was_executed_is_done() {
    let (store, link, _, idempotency) = caller_on(Link::default()).await;
    store.put(raw::abandoned("charge#k")).await;
    let record = seen(&idempotency, "k").await;
    link.wire.next("UpdateItem", Act::LoseResponse);
    let released = idempotency.admin().release(&record).await.unwrap();
    assert!(matches!(released, Released::Released), "{released:?}");
    assert!(store.is_released("charge#k").await);
}

/// So a call that finds its own id in a RELEASED record knows that its own write was applied.
#[tokio::test]
async fn a_release_by_hand_leaves_an_owner_that_no_call_has() {
    let (store, _, idempotency) = caller().await;
    store.put(raw::abandoned("charge#k")).await;
    let record = seen(&idempotency, "k").await;
    let mut owners = vec![record.owner.clone()];
    // Another operator has released it meanwhile.
    for _ in 0..2 {
        let released = idempotency.admin().release(&record).await.unwrap();
        assert!(matches!(released, Released::Released), "{released:?}");
        let found = store.record("charge#k").await;
        let kept = ["attempt", "fingerprint", "created_at"];
        let before = raw::abandoned("charge#k");
        assert!(kept.iter().all(|name| name == &"created_at" || found[*name] == before[*name]));
        owners.push(raw::text(&found, "owner").to_owned());
    }
    assert_ne!(owners[0], owners[1]);
    assert_eq!(owners[1], owners[2], "the second release has found the first one's record");
    // A later attempt has run and was released: that is not what was seen.
    let later = with(store.record("charge#k").await, "attempt", n(7));
    store.put(later.clone()).await;
    let released = idempotency.admin().release(&record).await.unwrap();
    assert!(matches!(released, Released::Changed(_)), "{released:?}");
    assert_eq!(store.record("charge#k").await, later);
}

/// An owner that was thought to be dead finds its record deleted and still completes it.
#[tokio::test]
async fn an_owner_that_was_released_still_stores_what_it_did() {
    let (store, runs, gate) = (Store::open().await, Runs::default(), Gate::default());
    let idempotency = store.idempotency();
    let running = charge_held(idempotency.charging(), &runs, &gate);
    let (ran, ()) = tokio::join!(running, async {
        gate.reached().await;
        let record = seen(&idempotency, "k").await;
        let released = idempotency.admin().force_release(&record).await.unwrap();
        assert!(matches!(released, Released::Released));
        gate.open();
    });
    assert_eq!(ran.unwrap(), executed(1, 1));
    assert_eq!(raw::status(&store.record("charge#k").await), "COMPLETED");
}

#[tokio::test]
async fn what_is_not_understood_is_an_error_and_stays() {
    let store = Store::open().await;
    let idempotency = store.tool(&Link::default());
    for (item, kind) in [
        (with(raw::pending("charge#k"), "format", n(2)), ErrorKind::NewerRecord),
        (with(raw::pending("charge#k"), "steps", n(1)), ErrorKind::UnknownRecord),
        (raw::key("charge#k"), ErrorKind::UnknownRecord),
    ] {
        store.put(item.clone()).await;
        let found = idempotency.admin().record(&"charge".into(), "k", KeyForm::Verbatim).await;
        assert_eq!(found.unwrap_err().kind(), kind);
        let page = idempotency.admin().page(0, 1, Select::All, None).await.unwrap();
        let [one] = &page.unreadable[..] else { panic!("one: {page:?}") };
        assert_eq!((one.pk.as_deref(), page.records.len()), (Some("charge#k"), 0));
        assert_eq!(store.record("charge#k").await, item);
    }
    // The record changes to a format that this version does not read.
    store.put(raw::abandoned("charge#k")).await;
    let record = seen(&idempotency, "k").await;
    let newer = with(raw::pending("charge#k"), "format", n(2));
    store.put(newer.clone()).await;
    let error = idempotency.admin().release(&record).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewerRecord);
    assert_eq!(store.record("charge#k").await, newer);
}

#[tokio::test]
async fn a_scan_has_each_record_once_whatever_its_parts() {
    for schema in
        [TableSchema::default(), TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK")]
    {
        let (store, runs) = (Store::with_schema(schema).await, Runs::default());
        let idempotency = store.tool(&Link::default());
        for number in 0..20 {
            let key = format!("{number:02}");
            charge(idempotency.operation("charge").key(&key).no_payload(), &runs).await.unwrap();
        }
        for parts in [1, 3] {
            let mut keys = Vec::new();
            for part in 0..parts {
                let mut after = None::<String>;
                loop {
                    let admin = idempotency.admin();
                    let page =
                        admin.page(part, parts, Select::All, after.as_deref()).await.unwrap();
                    keys.extend(page.records.into_iter().map(|record| record.key));
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
            }
            keys.sort();
            let expected: Vec<String> = (0..20).map(|number| format!("{number:02}")).collect();
            assert_eq!(keys, expected);
        }
        let pending = idempotency.admin().page(0, 1, Select::Pending, None).await.unwrap();
        assert_eq!((pending.records.len(), pending.scanned), (0, 20));
    }
}

#[tokio::test]
async fn a_scan_that_is_denied_names_the_action() {
    for (schema, operation) in [
        (TableSchema::default(), "Scan"),
        (TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK"), "Query"),
    ] {
        let (store, link) = (Store::with_schema(schema).await, Link::default());
        link.wire.every(operation, Act::Answer(400, "AccessDeniedException"));
        let idempotency = store.tool(&link);
        let error = idempotency.admin().page(0, 1, Select::All, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(&format!("grant dynamodb:{operation}")), "{error}");
    }
}

/// Another caller changes a record after the sweep has read it.
#[tokio::test]
async fn a_sweep_deletes_what_it_has_read_or_nothing() {
    let expired = |pk: &str| with(raw::completed(pk, "1"), "expires_at", n(1_000_000_000));
    let part = |expires_at: i64| {
        let mut item = with(raw::completed("charge/%p/0a#1f/0", "1"), "expires_at", n(expires_at));
        item.retain(|name, _| ["pk", "owner", "expires_at", "format"].contains(&name.as_str()));
        item
    };
    let (store, link) = (Store::open().await, Link::default());
    for item in [expired("charge#run again"), expired("charge#kept"), part(1_000_000_000)] {
        store.put(item).await;
    }
    let tool = store.tool(&link);
    let page = tool.admin().page(0, 1, Select::Expired, None).await.unwrap();
    assert_eq!((page.expired.len(), page.records.len()), (3, 0));

    let runs = Runs::default();
    charge(store.idempotency().operation("charge").key("run again").no_payload(), &runs)
        .await
        .unwrap();
    let later = with(expired("charge#kept"), "expires_at", n(2_000_000_000));
    store.put(later.clone()).await;
    store.put(part(2_000_000_000)).await;
    for one in &page.expired {
        assert!(!tool.admin().delete_expired(one).await.unwrap(), "{}", one.pk());
    }
    assert_eq!((store.record("charge#kept").await, runs.count()), (later, 1));
    assert_eq!(store.status("charge#run again").await.as_deref(), Some("COMPLETED"));

    store.delete("charge#kept").await;
    let kept = page.expired.iter().find(|one| one.pk() == "charge#kept").unwrap();
    assert!(!tool.admin().delete_expired(kept).await.unwrap());
}
