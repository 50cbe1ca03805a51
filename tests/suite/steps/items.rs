//! Results that have items of their own: what is written, in which order, and what a later attempt gets.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::policy::{InProgress, LeaseExpired};
use dynamodb_idempotency::{Call, LookUp, Policy, Reconciled, TableSchema};

use crate::answer_codec::{Does, Mask, masking};
use crate::support::Charging;
use crate::support::caller;
use crate::support::caller_on;
use crate::support::gate::patiently;
use crate::support::raw::{n, text};

use super::*;

const A_WEEK: i64 = 7 * 24 * 3600;

/// As many bytes as one write unit, as JSON.
fn result(name: &str) -> String {
    format!("{name:x<1022}")
}

fn call(idempotency: &Idempotency) -> Call {
    idempotency.calling("order")
}

/// Runs these steps, each with a result of 1 KB, and fails then.
async fn attempt(
    call: Call,
    names: &[&str],
    runs: &Runs,
) -> Result<(), RunError<RunError<&'static str>>> {
    call.run(async |execution| {
        for name in names {
            let work = async {
                runs.add();
                Ok::<_, &str>(result(name))
            };
            assert!(execution.step(name, work).await? == result(name), "{name}");
        }
        Err(RunError::Handler("later"))
    })
    .await
}

/// An attempt that fails after these steps.
async fn fails(call: Call, names: &[&str], runs: &Runs) {
    let failed = handlers(attempt(call, names, runs).await);
    assert!(matches!(failed, RunError::Handler("later")), "{failed:?}");
}

/// The items of steps.
async fn items(store: &Store) -> Vec<Item> {
    let scan = store.raw.scan().table_name(store.table()).consistent_read(true);
    let items = scan.into_paginator().items().send().try_collect().await.unwrap();
    items.into_iter().filter(|item| text(item, "pk").contains("/%p/")).collect()
}

/// The name of a step is stored, and not its result.
fn is_noted(record: &Item, name: &str) -> bool {
    steps(record)[name].as_b().is_ok_and(|note| note.as_ref()[0] == 3 && note.as_ref().len() == 11)
}

#[tokio::test]
async fn a_result_that_takes_a_further_write_unit_has_an_item() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    let failed = call(&idempotency).run(async |execution| {
        execution.step("seat", async { Ok::<_, &str>("A1".to_owned()) }).await?;
        execution.step("file", async { Ok::<_, &str>(result("file")) }).await?;
        // No larger than the note of an item.
        execution.step("last", async { Ok::<_, &str>(1_234_567) }).await?;
        Err::<(), _>(RunError::Handler("later"))
    });
    handlers(failed.await);
    let expected = ["PutItem", "UpdateItem", "PutItem", "UpdateItem", "UpdateItem", "UpdateItem"];
    assert_eq!(link.wire.requests(), expected, "the item before its note");
    let (record, items) = (store.record("order#k").await, items(&store).await);
    assert_eq!(status(&record), "FAILED");
    assert_eq!((&steps(&record)["seat"], &steps(&record)["last"]), (&s("\"A1\""), &s("1234567")));
    assert!(is_noted(&record, "file"), "{record:?}");
    let [item] = &items[..] else { panic!("{items:?}") };
    assert!(text(item, "pk").starts_with("order/%p/"), "{item:?}");
    assert_eq!(item["response"], s(&format!("\"{}\"", result("file"))));
    assert_eq!((item.get("status"), item.get("owner"), item.len()), (None, None, 4));
    assert!(number(item, "expires_at") >= number(&record, "expires_at") + A_WEEK - 60);

    link.wire.forget();
    let again = call(&idempotency).run(async |execution| {
        assert_eq!(execution.step("seat", never::<String>()).await?, "A1");
        assert_eq!(execution.step("last", never::<u32>()).await?, 1_234_567);
        execution.step("file", never::<String>()).await
    });
    assert!(again.await.unwrap() == result("file"));
    assert_eq!(link.wire.requests(), ["PutItem", "GetItem", "UpdateItem", "PutItem"]);
    let record = store.record("order#k").await;
    assert_eq!((status(&record), record.get("steps")), ("COMPLETED", None));
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_note_is_written_once_its_item_is_confirmed() {
    for act in [Act::LoseResponse, Act::LoseRequest, Act::SERVER_ERROR, Act::THROTTLE] {
        let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
        link.wire.next("PutItem", Act::Deliver);
        link.wire.next("PutItem", act);
        fails(call(&store.over(&link)), &["a"], &runs).await;
        let expected = ["PutItem", "PutItem", "PutItem", "UpdateItem", "UpdateItem"];
        assert_eq!(link.wire.requests(), expected);
        assert!(is_noted(&store.record("order#k").await, "a"));
        fails(call(&store.idempotency()), &["a", "b"], &runs).await;
        assert_eq!((runs.count(), items(&store).await.len()), (2, 2));
    }
}

/// A crash between the two leaves an item that no record notes.
#[tokio::test]
async fn without_its_note_a_step_runs_again() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    link.wire.every("UpdateItem", Act::LoseRequest);
    let short = |policy: Policy| policy.completion_timeout(Duration::from_millis(100));
    let idempotency = store.by(&link, short);
    let lost = handlers(attempt(call(&idempotency), &["a"], &runs).await);
    assert_eq!(not_stored(lost).kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(items(&store).await.len(), 1);
    fails(call(&store.over(&Link::later(AN_HOUR))), &["a"], &runs).await;
    // The same result has the same item.
    assert_eq!((runs.count(), items(&store).await.len()), (2, 1));
}

#[tokio::test]
async fn a_delayed_item_changes_nothing() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let gate = Gate::default();
    link.wire.next("PutItem", Act::Deliver);
    link.wire.next("PutItem", Act::ArriveLate(gate.clone()));
    fails(call(&store.over(&link)), &["a"], &runs).await;
    let before = (store.record("order#k").await, items(&store).await);
    gate.open();
    link.wire.late_arrivals(1).await;
    assert_eq!((store.record("order#k").await, items(&store).await), before);
}

#[tokio::test]
async fn a_result_whose_item_is_not_confirmed_goes_into_its_record() {
    for act in [Act::Answer(400, "AccessDeniedException"), Act::LoseRequest] {
        let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
        link.wire.parts(act);
        let short = |policy: Policy| policy.completion_timeout(Duration::from_secs(2));
        let idempotency = store.by(&link, short);
        fails(call(&idempotency), &["a"], &runs).await;
        let record = store.record("order#k").await;
        assert_eq!(steps(&record)["a"], s(&format!("\"{}\"", result("a"))));
        fails(call(&store.idempotency()), &["a"], &runs).await;
        assert_eq!((runs.count(), items(&store).await.len()), (1, 0));
    }
}

#[tokio::test]
async fn a_result_that_fits_no_record_is_lost_without_its_item_and_its_step_is_done() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let large = || "x".repeat(300 * 1024);
    let run = async |idempotency: Idempotency| {
        let running = call(&idempotency).run(async |execution| {
            let work = async {
                runs.add();
                Ok::<_, &str>(large())
            };
            execution.step("large", work).await
        });
        running.await
    };
    link.wire.parts(Act::Answer(400, "AccessDeniedException"));
    let error = not_stored(handlers(run(store.over(&link)).await));
    assert_eq!(error.kind(), ErrorKind::AnswerUnavailable);
    assert!(error.to_string().contains("its item was not confirmed"), "{error}");
    let error = not_run(handlers(run(store.idempotency()).await));
    assert_eq!((error.kind(), runs.count()), (ErrorKind::AnswerUnavailable, 1));
    store.delete("order#k").await;
    assert!(run(store.idempotency()).await.unwrap() == large());
}

#[tokio::test]
async fn a_missing_or_damaged_item_is_an_error_and_its_step_never_runs_again() {
    let changes: [fn(Item) -> Item; 5] = [
        |item| with(item, "response", s("\"another\"")),
        |item| with(item, "response", AttributeValue::B(Blob::new(b"\x02another"))),
        |item| with(item, "format", n(2)),
        |item| with(item, "status", s("PENDING")),
        |item| with(item, "expires_at", s("never")),
    ];
    for change in changes.map(Some).into_iter().chain([None]) {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        fails(call(&store.idempotency()), &["a", "b"], &runs).await;
        let found = items(&store).await;
        let is_a = |item: &&Item| text(item, "response").starts_with("\"a");
        let item = found.iter().find(is_a).expect("an item").clone();
        match change {
            Some(change) => store.put(change(item)).await,
            None => store.delete(text(&item, "pk")).await,
        }
        let again = call(&store.over(&link)).run(async |execution| {
            let error = not_run(execution.step("a", never::<String>()).await.unwrap_err());
            assert_eq!(error.kind(), ErrorKind::AnswerUnavailable);
            execution.step("b", never::<String>()).await
        });
        assert!(again.await.unwrap() == result("b"));
        // A missing one is read again, strongly consistent.
        let reads = if change.is_some() { 2 } else { 3 };
        assert_eq!((link.wire.count("GetItem"), runs.count()), (reads, 2));
    }
}

#[tokio::test]
async fn nothing_runs_or_changes_while_items_cannot_be_read() {
    for outage in [Outage::Closed, Outage::Open] {
        let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
        fails(call(&store.idempotency()), &["a"], &runs).await;
        let before = store.record("order#k").await;
        let idempotency = store.by(&link, |p| p.outage(outage));
        link.wire.every("GetItem", Act::SERVER_ERROR);
        let error = kind(call(&idempotency).run(async |_| never::<()>().await).await);
        assert_eq!((error, store.record("order#k").await), (ErrorKind::Unavailable, before));
    }
}

#[tokio::test]
async fn the_results_in_items_have_at_most_max_answer_bytes() {
    let (store, runs, idempotency) = caller().await;
    let limited = |bytes: usize| {
        let policy = |policy: Policy| policy.max_answer_bytes(bytes);
        idempotency.operation("order").policy(policy).unwrap().key("k").no_payload()
    };
    fails(limited(2 * 1024), &["a", "b", "c"], &runs).await;
    let record = store.record("order#k").await;
    assert!(is_noted(&record, "a") && is_noted(&record, "b"), "{record:?}");
    assert_eq!(steps(&record)["c"], s(&format!("\"{}\"", result("c"))));
    // A process that may read less leaves the operation to another one.
    let error = kind(attempt(limited(2 * 1024 - 1), &["a"], &runs).await);
    assert_eq!((error, store.record("order#k").await), (ErrorKind::StepsUnreadable, record));
    fails(limited(2 * 1024), &["a", "b", "c"], &runs).await;
    assert_eq!(runs.count(), 3);
}

#[tokio::test]
async fn a_codec_encodes_what_items_contain() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    fails(call(&masking(&store, &mask).build().unwrap()), &["a"], &runs).await;
    let [item] = &items(&store).await[..] else { panic!("one item") };
    assert_eq!(item["response"].as_b().unwrap().as_ref()[0], 2);
    let before = store.record("order#k").await;
    mask.decoding(Does::Fail);
    for idempotency in [store.idempotency(), masking(&store, &mask).build().unwrap()] {
        let error = kind(attempt(call(&idempotency), &["a"], &runs).await);
        assert_eq!(
            (error, store.record("order#k").await),
            (ErrorKind::StepsUnreadable, before.clone())
        );
    }
    mask.decoding(Does::Work);
    fails(call(&masking(&store, &mask).build().unwrap()), &["a"], &runs).await;
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_hook_gets_what_items_contain() {
    let (store, link, runs, idempotency) = caller_on(Link::default()).await;
    fails(call(&store.idempotency()), &["a"], &runs).await;
    let failed = store.record("order#k").await;
    let abandoned = with(raw::abandoned("order#k"), "steps", failed["steps"].clone());
    for (completes, expected) in [
        (true, ["PutItem", "GetItem", "PutItem"].as_slice()),
        (false, &["PutItem", "GetItem", "UpdateItem", "PutItem"]),
    ] {
        store.put(abandoned.clone()).await;
        link.wire.forget();
        let idempotency = store.over(&link);
        let asked = call(&idempotency).reconcile(async |abandoned| {
            assert!(abandoned.step::<String>("a").unwrap() == Some(result("a")));
            let found = Reconciled::Completed("found".to_owned());
            Ok::<_, RunError<&str>>(if completes { found } else { Reconciled::Execute })
        });
        let outcome = asked.run(async |execution| execution.step("a", never::<String>()).await);
        let outcome = outcome.await.unwrap();
        assert!(outcome == "found" || outcome == result("a"));
        assert_eq!(link.wire.requests(), expected, "an item is read once");
    }
    store.put(abandoned.clone()).await;
    link.wire.every("GetItem", Act::SERVER_ERROR);
    let asked = Runs::default();
    let failing = call(&idempotency).reconcile(async |_| {
        asked.add();
        Ok::<_, &str>(Reconciled::Completed(1))
    });
    let error = kind(failing.run(async |_| never().await).await);
    assert_eq!((error, asked.count()), (ErrorKind::Unavailable, 0));
    assert_eq!(store.record("order#k").await, abandoned);
}

/// Each end of an item, and that of the record.
async fn ends(store: &Store) -> (Vec<i64>, i64) {
    let record = number(&store.record("order#k").await, "expires_at");
    (items(store).await.iter().map(|item| number(item, "expires_at")).collect(), record)
}

#[tokio::test]
async fn items_are_kept_longer_than_a_record_that_is_taken_over_later() {
    let (store, runs) = (Store::open().await, Runs::default());
    let month = |policy: Policy| policy.retention(Duration::from_secs(30 * 24 * 3600));
    let kept = |store: &Store, link: &Link| store.by(link, month);
    fails(call(&kept(&store, &Link::default())), &["a", "b"], &runs).await;
    let (before, _) = ends(&store).await;
    // The items end later than the record by six days, and then by less than none.
    let link = Link::later(A_WEEK - 24 * 3600);
    fails(call(&kept(&store, &link)), &["a", "b"], &runs).await;
    assert_eq!(ends(&store).await.0, before);
    assert_eq!(link.wire.requests(), ["PutItem", "GetItem", "GetItem", "UpdateItem", "UpdateItem"]);
    let link = Link::later(A_WEEK + 24 * 3600);
    fails(call(&kept(&store, &link)), &["a", "b"], &runs).await;
    let (items, record) = ends(&store).await;
    assert!(items.iter().all(|end| *end >= record + A_WEEK - 60), "{items:?} {record}");
    let expected =
        ["PutItem", "GetItem", "GetItem", "UpdateItem", "UpdateItem", "UpdateItem", "UpdateItem"];
    assert_eq!(link.wire.requests(), expected, "both items, take over, keep");
    assert_eq!(runs.count(), 2);

    // An item that cannot be kept longer delays the takeover.
    let link = Link::later(3 * A_WEEK);
    let (idempotency, before) = (kept(&store, &link), store.record("order#k").await);
    link.wire.every("UpdateItem", Act::Answer(400, "AccessDeniedException"));
    attempt(call(&idempotency), &["a"], &runs).await.unwrap_err();
    assert_eq!((store.record("order#k").await, runs.count()), (before, 2));
}

#[tokio::test]
async fn items_are_kept_longer_than_a_record_whose_lease_is_renewed_for_weeks() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let renewed = |policy: Policy| policy.lease(Lease::Renewed(Duration::from_secs(24 * 3600)));
    let idempotency = store.by(&link, renewed);
    let running = call(&idempotency).run(async |execution| {
        let work = async {
            runs.add();
            Ok::<_, &str>(result("a"))
        };
        execution.step("a", work).await?;
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
            let (items, record) = ends(&store).await;
            assert!(items[0] > record, "{items:?} {record}");
        }
        Err::<(), _>(RunError::Handler("later"))
    });
    handlers(running.await);
    let (items, record) = ends(&store).await;
    assert!(items[0] > record, "{items:?} {record}");
}

#[tokio::test]
async fn a_scope_without_room_for_an_items_key_keeps_results_in_the_record() {
    let (store, runs) = (Store::open().await, Runs::default());
    let (idempotency, scope) = (store.idempotency(), "s".repeat(2000));
    let operation = || idempotency.operation(scope.as_str()).key("k").no_payload();
    fails(operation(), &["a", "b"], &runs).await;
    fails(operation(), &["a", "b"], &runs).await;
    assert_eq!((runs.count(), items(&store).await.len()), (2, 0));
}

#[tokio::test]
async fn items_are_in_tables_with_composite_keys_too() {
    let schema = TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK");
    let (store, link, runs) = (Store::with_schema(schema).await, Link::default(), Runs::default());
    for _ in 0..2 {
        fails(call(&store.over(&link)), &["a"], &runs).await;
    }
    assert_eq!((runs.count(), link.wire.count("GetItem")), (1, 1));
}

#[tokio::test]
async fn a_note_of_a_request_that_is_sent_at_most_once_is_in_the_record() {
    let (store, runs, requests) = (Store::open().await, Runs::default(), Runs::default());
    let idempotency = store.idempotency();
    let run = async || {
        let running = call(&idempotency).run(async |execution| {
            let work = async {
                runs.add();
                Ok::<_, &str>(result("a"))
            };
            execution.step("a", work).await?;
            let send = async {
                requests.add();
                Err::<String, _>("no answer")
            };
            let look_up = async |_| Ok(LookUp::Found(result("b")));
            execution.step_at_most_once("b", send, look_up).await
        });
        running.await
    };
    assert!(matches!(handlers(run().await), RunError::Handler("no answer")));
    let record = store.record("order#k").await;
    assert!(steps(&record)["b~sent~1"].is_s() && is_noted(&record, "a"), "{record:?}");
    assert!(run().await.unwrap() == result("b"));
    assert_eq!((runs.count(), requests.count()), (1, 1));
}

/// A step that finds another owner stops its handler, as one in the record does.
#[tokio::test]
async fn an_item_is_noted_only_by_the_owner() {
    let (store, link) = (Store::open().await, Link::default());
    let goes_on = |policy: Policy| policy.lease_expired(LeaseExpired::Continue);
    let idempotency = store.by(&link, goes_on);
    let running = call(&idempotency).run(async |execution| {
        store.put(raw::pending("order#k")).await;
        let step = execution.step("a", async { Ok::<_, &str>(result("a")) }).await;
        assert_eq!(not_stored(step.unwrap_err()).kind(), ErrorKind::LeaseLost);
        Ok::<_, &str>(())
    });
    assert_eq!(kind(running.await), ErrorKind::LeaseLost);
    assert_eq!((store.record("order#k").await.get("steps"), items(&store).await.len()), (None, 1));
}

#[cfg(feature = "admin")]
#[tokio::test]
async fn tools_read_the_items_of_a_record_and_sweep_them_when_they_expire() {
    use dynamodb_idempotency::admin::{Expired, Select, StoredAnswer};
    use dynamodb_idempotency::policy::KeyForm;

    let (store, runs) = (Store::open().await, Runs::default());
    fails(call(&store.idempotency()), &["a"], &runs).await;
    let json = StoredAnswer::Json(format!("\"{}\"", result("a")));
    let tool = store.tool(&Link::default());
    let found = tool.admin().record(&"order".into(), "k", KeyForm::Verbatim).await;
    assert_eq!(found.unwrap().unwrap().steps.unwrap()["a"], json);
    let page = tool.admin().page(0, 1, Select::All, None).await.unwrap();
    assert_eq!((page.records.len(), page.unreadable.len()), (1, 0));
    let noted = &page.records[0].steps.as_ref().unwrap()["a"];
    assert_eq!(*noted, StoredAnswer::InParts { parts: 1, bytes: 1024 });
    // The record lives for a day, and its item for a week more.
    for (days, expected) in [(2, 1), (9, 2)] {
        let tool = store.tool(&Link::later(days * 24 * 3600));
        let page = tool.admin().page(0, 1, Select::Expired, None).await.unwrap();
        let mut found: Vec<_> = page.expired.iter().map(Expired::pk).collect();
        found.sort_unstable();
        assert_eq!((found[0], found.len()), ("order#k", expected), "{found:?}");
    }
    store.delete(text(&items(&store).await[0], "pk")).await;
    let found = tool.admin().record(&"order".into(), "k", KeyForm::Verbatim).await;
    let steps = found.unwrap().unwrap().steps.unwrap();
    assert!(
        matches!(&steps["a"], StoredAnswer::Unavailable(why) if why.contains("missing")),
        "{steps:?}"
    );
}

/// A waiting caller reads a small record, whatever the steps of the owner have stored.
#[tokio::test]
async fn waiting_callers_read_no_items() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let waits = InProgress::Wait { timeout: Duration::from_secs(60) };
    let waiting = store.by(&link, |p| p.in_progress(waits));
    let (owner, gate) = (store.idempotency(), Gate::default());
    let running = call(&owner).run(async |execution| {
        execution.step("a", async { Ok::<_, &str>(result("a")) }).await?;
        gate.pass().await;
        Ok::<_, RunError<&str>>("done".to_owned())
    });
    let (first, second) = tokio::join!(running, async {
        gate.reached().await;
        let waits = call(&waiting).run(async |_| never::<String>().await);
        let opens = async {
            patiently("a look", link.wire.sent("GetItem", 1)).await;
            gate.open();
        };
        tokio::join!(waits, opens).0
    });
    assert_eq!((first.unwrap(), second.unwrap(), runs.count()), ("done".into(), "done".into(), 0));
    assert!(link.wire.accesses().iter().all(|access| !access.is_part()));
}

#[tokio::test]
async fn a_copy_has_the_items_of_steps() {
    use dynamodb_idempotency::admin::{CopyMode, Select};
    let (from, to, runs) = (Store::open().await, Store::open().await, Runs::default());
    attempt(call(&from.idempotency()), &["a", "b"], &runs).await.unwrap_err();
    let (source, target) = (from.tool(&Link::default()), to.tool(&Link::default()));
    for (select, items) in [(Select::PartItems, 2), (Select::RecordItems, 1)] {
        let page = source.admin().page(0, 1, select, None).await.unwrap();
        assert_eq!((page.items.len(), page.unreadable.len()), (items, 0), "{select:?}");
        for item in &page.items {
            target.admin().copy(item, CopyMode::Write).await.unwrap();
        }
    }
    attempt(call(&to.idempotency()), &["a", "b"], &runs).await.unwrap_err();
    assert_eq!(runs.count(), 2, "each step ran in the source alone");
}

#[tokio::test]
async fn an_item_with_other_contents_is_not_taken_for_the_result() {
    let (store, runs) = (Store::open().await, Runs::default());
    fails(call(&store.idempotency()), &["a"], &runs).await;
    let mut damaged = items(&store).await.remove(0);
    damaged.insert("response".into(), AttributeValue::S("\"x\"".into()));
    damaged.insert("expires_at".into(), n(i64::from(u32::MAX)));
    store.put(damaged).await;
    // A new life of the key, in which the same step has the same result.
    store.delete("order#k").await;
    fails(call(&store.idempotency()), &["a"], &runs).await;
    assert!(!is_noted(&store.record("order#k").await, "a"));
    fails(call(&store.idempotency()), &["a"], &runs).await;
    assert_eq!(runs.count(), 2, "once in each life");
}
