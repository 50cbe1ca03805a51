//! Leases are stamped and judged in the store's time, whatever the callers' clocks say.

use std::convert::Infallible;
use std::time::Duration;

use dynamodb_idempotency::policy::{KeyForm, Lease, Outage};
use dynamodb_idempotency::{Error, ErrorKind, Idempotency, Scope, Transaction};

use crate::support::effects::count;
use crate::support::raw::{self, n, number, with};
use crate::support::{
    Act, Charging, Gate, Link, LocalClock, Runs, Store, caller_on, charge, crates, executed,
    is_in_progress, kind, replayed,
};

const YEAR: i64 = 365 * 86_400;
const TEN_MINUTES: i64 = 600;
const THREE_HOURS: i64 = 3 * 3_600;

#[tokio::test]
async fn retention_is_judged_by_the_stores_time() {
    let (store, runs) = (Store::open().await, Runs::default());
    let record = raw::completed("charge#k", "\"stored\"");
    let fast = Link::default().clock(LocalClock::off_by(TEN_MINUTES));
    store.put(with(record.clone(), "expires_at", n(raw::now() / 1000 + 60))).await;
    assert!(charge(store.over(&fast).charging(), &runs).await.unwrap().is_replayed());
    let slow = Link::default().clock(LocalClock::off_by(-TEN_MINUTES));
    store.put(with(record, "expires_at", n(raw::now() / 1000 - 60))).await;
    assert_eq!(charge(store.over(&slow).charging(), &runs).await.unwrap(), executed(1, 1));
}

/// Runs with a lease of one minute; how far its end is from one minute after now, in ms, as the
/// record says it while the handler runs.
async fn error_of_the_stamp(store: &Store, idempotency: &Idempotency, key: &str) -> i64 {
    let minute = Lease::Fixed(Duration::from_secs(60));
    let operation =
        idempotency.operation("charge").policy(|p| p.lease(minute)).unwrap().key(key).no_payload();
    let run = operation.run(async |_| {
        let record = store.record(&format!("charge#{key}")).await;
        let error = number(&record, "lease_expires_at") - raw::now() - 60_000;
        assert!(number(&record, "expires_at") * 1000 >= number(&record, "lease_expires_at"));
        Ok::<_, String>(error)
    });
    run.await.unwrap()
}

#[tokio::test]
async fn an_owner_with_a_wrong_clock_corrects_its_lease_before_it_runs() {
    for seconds in [-TEN_MINUTES, TEN_MINUTES] {
        let store = Store::open().await;
        let link = Link::default().clock(LocalClock::off_by(seconds));
        let idempotency = store.over(&link);
        let error = error_of_the_stamp(&store, &idempotency, "first").await;
        assert!(error.abs() < 5_000, "clock off by {seconds} s: lease off by {error} ms");
        assert_eq!(link.wire.requests(), ["PutItem", "UpdateItem", "PutItem"]);
        // From then on it knows.
        link.wire.forget();
        let error = error_of_the_stamp(&store, &idempotency, "second").await;
        assert!(error.abs() < 5_000, "clock off by {seconds} s: lease off by {error} ms");
        assert_eq!(link.wire.requests(), ["PutItem", "PutItem"]);
    }
}

#[tokio::test]
async fn a_stamp_that_its_own_response_finds_wrong_is_made_again() {
    let store = Store::open().await;
    let link = Link::default().clock(LocalClock::off_by(-TEN_MINUTES));
    let response = Gate::default();
    link.wire.next("PutItem", Act::HoldResponse(response.clone()));
    let idempotency = store.over(&link);
    let run = error_of_the_stamp(&store, &idempotency, "k");
    let (error, ()) = tokio::join!(run, async {
        // The machine was frozen while the first response was in flight for half a minute, so the
        // response gives the time only to half a minute.
        response.reached().await;
        link.freeze(30);
        response.open();
    });
    assert!((error - 30_000).abs() < 5_000, "{error} ms");
    assert_eq!(link.wire.requests(), ["PutItem", "UpdateItem", "UpdateItem", "PutItem"]);
}

#[tokio::test]
async fn a_late_stamp_does_not_touch_the_completed_record() {
    let (store, runs, late) = (Store::open().await, Runs::default(), Gate::default());
    let link = Link::without_retries().clock(LocalClock::off_by(-200));
    link.wire.next("UpdateItem", Act::ArriveLate(late.clone()));
    assert_eq!(charge(store.over(&link).charging(), &runs).await.unwrap(), executed(1, 1));
    assert_eq!(link.wire.count("UpdateItem"), 2);
    let before = store.record("charge#k").await;
    late.open();
    link.wire.late_arrivals(1).await;
    assert_eq!(store.record("charge#k").await, before);
}

#[tokio::test]
async fn an_exact_clock_stamps_once() {
    let (store, link, _, idempotency) = caller_on(Link::default()).await;
    let error = error_of_the_stamp(&store, &idempotency, "k").await;
    assert!(error.abs() < 5_000, "{error} ms");
    assert_eq!(link.wire.requests(), ["PutItem", "PutItem"]);
}

#[tokio::test]
async fn where_store_time_is_declared_the_tolerance_is_a_margin() {
    let tolerance = Duration::from_secs(8);
    for (ended_ago, is_taken) in [(3_000, false), (30_000, true)] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        link.wire.drop_date();
        let lease = n(raw::now() - ended_ago);
        store.put(with(raw::pending("charge#k"), "lease_expires_at", lease)).await;
        let builder = store.starting(&link).clock_tolerance(tolerance).local_store_time();
        let idempotency = builder.build().unwrap();
        let result = charge(idempotency.charging(), &runs).await;
        if is_taken {
            assert_eq!(result.unwrap(), executed(1, 2));
        } else {
            assert!(is_in_progress(result));
        }
    }
}

#[tokio::test]
async fn a_process_that_no_response_has_shown_store_time_runs_nothing() {
    for record in [None, Some(raw::abandoned("charge#k")), Some(raw::completed("charge#k", "1"))] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        link.wire.drop_date();
        if let Some(record) = &record {
            store.put(record.clone()).await;
        }
        let idempotency = store.starting(&link).build().unwrap();
        let error = crates(charge(idempotency.charging(), &runs).await);
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("`Date`"), "{error}");
        assert_eq!(link.wire.requests(), ["GetItem"; 3], "{record:?}");
        assert_eq!((store.item("charge#k").await, runs.count()), (record, 0));
        let preflight = idempotency.preflight(["charge"]).await.unwrap_err();
        assert_eq!(preflight.kind(), ErrorKind::Configuration);
        assert!(preflight.to_string().contains("`Date`"), "{preflight}");
    }
}

#[tokio::test]
async fn a_tool_that_no_response_has_shown_store_time_blocks_nothing() {
    let (store, link) = (Store::open().await, Link::default());
    link.wire.drop_date();
    let idempotency = store.starting(&link).build().unwrap();
    let (scope, day) = (Scope::new("charge"), Duration::from_secs(86_400));
    let blocked = idempotency.admin().block(&scope, "k", KeyForm::Verbatim, day).await;
    let error = blocked.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("`Date`"), "{error}");
    assert_eq!(store.item("charge#k").await, None);
}

/// A response without a `Date` is judged by the last one that had one, whatever the wall clock shows.
#[tokio::test]
async fn a_wrong_clock_and_a_missing_date_end_no_lease_and_no_retention_early() {
    for record in [raw::pending("charge#k"), raw::completed("charge#k", "\"stored\"")] {
        for ahead in [30, 3_600, 25 * 3_600, 50 * YEAR] {
            let (store, runs) = (Store::open().await, Runs::default());
            let (clock, link) = (LocalClock::default(), Link::default());
            let link = link.clock(clock.clone());
            let idempotency = store.starting(&link).build().unwrap();
            charge(idempotency.operation("charge").key("other").no_payload(), &runs).await.unwrap();
            store.put(record.clone()).await;
            clock.advance(ahead);
            link.wire.drop_date();
            let result = charge(idempotency.charging(), &runs).await;
            match raw::status(&record) {
                "PENDING" => assert!(is_in_progress(result), "{ahead}"),
                _ => assert!(result.unwrap().is_replayed(), "{ahead}"),
            }
            assert_eq!((store.item("charge#k").await, runs.count()), (Some(record.clone()), 1));
        }
    }
}

/// The same for an answer that a commit or a transaction has stored.
#[tokio::test]
async fn a_wrong_clock_and_a_missing_date_commit_nothing_again() {
    for ahead in [25 * 3_600, 50 * YEAR] {
        let (store, runs) = (Store::open().await, Runs::default());
        let (clock, link) = (LocalClock::default(), Link::default());
        let link = link.clock(clock.clone());
        let idempotency = store.starting(&link).build().unwrap();
        assert_eq!(transact(&idempotency, &runs).await, "run 1");
        let commit = async || {
            let committed = idempotency.calling("commit").run(async |execution| {
                execution.commit("paid", [count(store.table(), "effect")]).await?;
                Ok::<_, Error>("paid".to_owned())
            });
            committed.await.unwrap()
        };
        commit().await;
        clock.advance(ahead);
        link.wire.drop_date();
        assert_eq!(transact(&idempotency, &runs).await, "run 1", "{ahead}");
        assert_eq!((commit().await, store.counted("effect").await), ("paid".to_owned(), 1));
    }
}

/// No response verifies the stamp, so the last one that had a `Date` bounds it. After a jump of the wall
/// clock, that is too little, and nothing runs until a response has a `Date` again.
#[tokio::test]
async fn a_wrong_clock_and_a_missing_date_run_nothing_under_a_wrong_lease() {
    for off_by in [-50 * YEAR, -3_600, 0, 3_600] {
        let (store, clock) = (Store::open().await, LocalClock::default());
        let link = Link::default().clock(clock.clone());
        let idempotency = store.starting(&link).build().unwrap();
        idempotency.warm().await.unwrap();
        clock.advance(off_by);
        link.wire.drop_date();
        let run = idempotency.charging().run(async |_| {
            let left = number(&store.record("charge#k").await, "lease_expires_at") - raw::now();
            assert!((25_000..=35_000).contains(&left), "{off_by}: {left} ms");
            Ok::<_, String>(1)
        });
        assert_eq!(run.await.is_ok(), off_by == 0, "{off_by}");
    }
}

#[tokio::test]
async fn without_the_stores_time_a_run_still_takes_two_requests() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    link.wire.drop_date();
    let idempotency = store.over(&link);
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 1));
    assert_eq!(link.wire.requests(), ["PutItem", "PutItem"]);
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), replayed(1, 1));
}

#[tokio::test]
async fn a_clock_that_is_decades_off_leaves_a_lease_and_a_retention_that_are_right() {
    for years in [-50, -5, 5, 50, 500] {
        let (store, runs) = (Store::open().await, Runs::default());
        let link = Link::default().clock(LocalClock::off_by(years * 365 * 86_400));
        let idempotency = store.over(&link);
        let run = idempotency.charging().run(async |_| {
            let left = number(&store.record("charge#k").await, "lease_expires_at") - raw::now();
            assert!((left - 30_000).abs() < 5_000, "{years}: {left}");
            Ok::<_, String>(format!("run {}", runs.add()))
        });
        run.await.unwrap();
        let record = store.record("charge#k").await;
        let kept = number(&record, "expires_at") * 1000 - raw::now();
        assert!((kept - 86_400_000).abs() < 5_000, "{years}: {kept}");
        let done = number(&record, "completed_at") - raw::now();
        assert!(done.abs() < 5_000, "{years}: {done}");
        for caller in [&idempotency, &store.idempotency()] {
            charge(caller.charging(), &runs).await.unwrap();
        }
        assert_eq!(runs.count(), 1, "{years}");
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// How long the record is still kept, in seconds.
async fn kept(store: &Store) -> i64 {
    number(&store.record("charge#k").await, "expires_at") - raw::now() / 1000
}

fn is_about(seconds: i64, expected: i64) -> bool {
    (seconds - expected).abs() <= 5
}

async fn transact(idempotency: &Idempotency, runs: &Runs) -> String {
    let operation = idempotency.charging();
    let answer = Transaction::new(format!("run {}", runs.add()));
    operation.run_transaction(async || Ok::<_, Infallible>(answer)).await.unwrap()
}

#[tokio::test]
async fn a_transaction_as_the_first_request_of_a_process_is_kept_for_its_retention() {
    for (off_by, retention) in
        [(-50 * YEAR, 86_400_i64), (-THREE_HOURS, 3_600), (THREE_HOURS, 3_600)]
    {
        let (store, runs) = (Store::open().await, Runs::default());
        let link = Link::default().clock(LocalClock::off_by(off_by));
        let retained = Duration::from_secs(retention.unsigned_abs());
        let idempotency = store.starting(&link).policy(|p| p.retention(retained)).build().unwrap();
        assert_eq!(transact(&idempotency, &runs).await, "run 1", "{off_by}");
        assert_eq!(link.wire.requests(), ["GetItem", "TransactWriteItems"]);
        let kept = kept(&store).await;
        assert!(is_about(kept, retention), "clock off by {off_by} s: kept for {kept} s");
        assert_eq!(transact(&store.idempotency(), &runs).await, "run 1", "{off_by}");
    }
}

#[tokio::test]
async fn an_unprotected_commit_of_a_process_that_has_not_heard_of_the_store_reads_first() {
    for (off_by, retention) in [(-50 * YEAR, 86_400_i64), (-THREE_HOURS, 3_600)] {
        let store = Store::open().await;
        let link = Link::default().clock(LocalClock::off_by(off_by));
        let retained = Duration::from_secs(retention.unsigned_abs());
        let builder = store.starting(&link).request_timeout(Duration::from_millis(200));
        let builder = builder.policy(|p| p.retention(retained).outage(Outage::Open));
        let idempotency = builder.build().unwrap();
        link.wire.down(Act::LoseRequest);
        let run = idempotency.charging().run(async |execution| {
            assert!(!execution.is_protected());
            link.wire.up();
            link.wire.forget();
            execution.commit("paid", []).await.unwrap();
            Ok::<_, Infallible>("paid".to_owned())
        });
        assert_eq!(run.await.unwrap(), "paid");
        assert_eq!(link.wire.requests(), ["GetItem", "TransactWriteItems"]);
        let kept = kept(&store).await;
        assert!(is_about(kept, retention), "clock off by {off_by} s: kept for {kept} s");
    }
}

/// A machine frozen between two invocations: both of its clocks stop while the store's continues.
#[tokio::test]
async fn a_transaction_that_a_jumped_clock_has_stamped_too_early_is_kept_for_longer() {
    let (store, link) = (Store::open().await, Link::default());
    let builder = store.starting(&link).policy(|p| p.retention(HOUR));
    let idempotency = builder.build().unwrap();
    idempotency.warm().await.unwrap();
    link.wire.shift_date(2 * 3600);
    link.wire.forget();
    let transaction = async || Ok::<_, Infallible>(Transaction::new("done".to_owned()));
    assert_eq!(idempotency.charging().run_transaction(transaction).await.unwrap(), "done");
    assert_eq!(link.wire.requests(), ["TransactWriteItems", "UpdateItem"]);
    let kept = kept(&store).await;
    assert!(is_about(kept, 3 * 3600), "kept for {kept} s from before the two hours");
}

#[tokio::test]
async fn calls_after_a_freeze_take_no_further_round_trip() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let link = link.clock(LocalClock::off_by(-TEN_MINUTES));
    let idempotency = store.starting(&link).build().unwrap();
    let requests = |key: &'static str| {
        let call = charge(idempotency.operation("charge").key(key).no_payload(), &runs);
        link.wire.forget();
        let link = &link;
        async move {
            call.await.unwrap();
            link.wire.requests()
        }
    };
    assert_eq!(requests("first").await, ["GetItem", "PutItem", "PutItem"]);
    for key in ["second", "third"] {
        link.freeze(600);
        assert_eq!(requests(key).await, ["PutItem", "PutItem"]);
    }
    link.freeze(600);
    link.wire.forget();
    let transaction = async || Ok::<_, Infallible>(Transaction::new("done".to_owned()));
    let transact = idempotency.operation("charge").key("fourth").no_payload();
    transact.run_transaction(transaction).await.unwrap();
    assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
}

#[tokio::test]
async fn a_start_that_warms_teaches_the_time() {
    for preflight in [false, true] {
        let (store, runs) = (Store::open().await, Runs::default());
        let link = Link::default().clock(LocalClock::off_by(TEN_MINUTES));
        let idempotency = store.starting(&link).build().unwrap();
        if preflight {
            idempotency.preflight(["charge"]).await.unwrap();
        } else {
            idempotency.warm().await.unwrap();
        }
        link.wire.forget();
        charge(idempotency.charging(), &runs).await.unwrap();
        assert_eq!(link.wire.requests(), ["PutItem", "PutItem"]);
    }
}

/// Its first read has no answer, so nothing is stamped by its clock.
#[tokio::test]
async fn a_process_without_a_response_of_the_store_writes_nothing() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency =
        store.starting(&link).request_timeout(Duration::from_millis(200)).build().unwrap();
    link.wire.every("GetItem", Act::LoseRequest);
    assert_eq!(kind(charge(idempotency.charging(), &runs).await), ErrorKind::Unavailable);
    assert!(link.wire.requests().iter().all(|request| request == "GetItem"));
    assert_eq!(store.item("charge#k").await, None);
}
