//! What a failing handler leaves behind, and that its caller always sees its error.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use dynamodb_idempotency::policy::{Failure, Lease};
use dynamodb_idempotency::{
    Call, CallNeedsPayload, Error, ErrorKind, Idempotency, Outcome, RunError,
};
use futures::FutureExt;

use crate::support::raw::{number, status, with};
use crate::support::{
    Act, Charging, Declined, Link, Runs, Store, caller, charge, decline, decline_kept, executed,
    handlers, in_record, kind, raw,
};

fn with_failure(idempotency: &Idempotency, failure: Failure) -> Call {
    keyed(idempotency, failure).no_payload()
}

fn keyed(idempotency: &Idempotency, failure: Failure) -> CallNeedsPayload {
    idempotency.operation("charge").policy(|policy| policy.failure(failure)).unwrap().key("k")
}

#[tokio::test]
async fn a_released_failure_leaves_a_record_without_an_owner() {
    let (store, runs, idempotency) = caller().await;
    for run in 1..=3 {
        let failed = decline(idempotency.charging(), &runs).await;
        assert_eq!(handlers(failed), Declined { run });
        let record = store.record("charge#k").await;
        let attempt = i64::from(run);
        assert_eq!((status(&record), number(&record, "attempt")), ("RELEASED", attempt));
        let gone = ["lease_expires_at", "completed_at", "response", "steps"];
        assert!(gone.iter().all(|name| !record.contains_key(*name)), "{record:?}");
    }
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(4, 4));
}

/// The record outlives every request signed before and the lease, whatever the retention.
#[tokio::test]
async fn a_released_record_outlives_every_late_request_and_its_lease() {
    let hour = Duration::from_secs(3600);
    for (lease, least) in [(hour / 60, hour), (3 * hour, 3 * hour)] {
        for retention in [Duration::from_secs(10), 24 * hour] {
            let (store, runs) = (Store::open().await, Runs::default());
            let operation = store.idempotency().charging_by(|policy| {
                let policy = policy.lease(Lease::Fixed(lease)).retention(retention);
                policy.completion_timeout(Duration::from_secs(1))
            });
            let before = raw::now();
            handlers(decline(operation, &runs).await);
            let expires_at = number(&store.record("charge#k").await, "expires_at") * 1000;
            let least = i64::try_from(least.as_millis()).unwrap();
            let stays = before + least..=raw::now() + least + 2_000;
            assert!(stays.contains(&expires_at), "{lease:?} {retention:?}: {expires_at}");
        }
    }
}

#[tokio::test]
async fn runs_that_were_released_do_not_count_for_max_attempts() {
    let (store, runs, idempotency) = caller().await;
    for _ in 0..3 {
        handlers(decline(idempotency.charging(), &runs).await);
    }
    let retain = Failure::Retain { max_attempts: 2 };
    for run in [4, 5] {
        let failed = decline(with_failure(&idempotency, retain), &runs).await;
        assert_eq!(handlers(failed), Declined { run });
        let record = store.record("charge#k").await;
        assert_eq!(number(&record, "attempt"), i64::from(run));
    }
    let after = charge(with_failure(&idempotency, retain), &runs).await;
    assert_eq!((kind(after), runs.count()), (ErrorKind::Failed, 5));
}

#[tokio::test]
async fn retained_failures_count_attempts_and_stop_at_the_limit() {
    let (store, runs, idempotency) = caller().await;
    let retain = Failure::Retain { max_attempts: 3 };
    for attempt in 1..=3 {
        let failed = decline(with_failure(&idempotency, retain), &runs).await;
        assert_eq!(handlers(failed), Declined { run: attempt });
        let record = store.record("charge#k").await;
        assert_eq!((status(&record), number(&record, "attempt")), ("FAILED", attempt.into()));
        assert!(!record.contains_key("lease_expires_at") && !record.contains_key("response"));
    }
    let after = charge(with_failure(&idempotency, retain), &runs).await;
    assert_eq!((kind(after), runs.count()), (ErrorKind::Failed, 3));
}

#[tokio::test]
async fn a_replayed_error_is_the_same_error_and_nothing_runs() {
    let (store, runs, idempotency) = caller().await;
    let operation = || idempotency.charging().replay_errors::<Declined>();
    assert_eq!(handlers(decline_kept(operation(), &runs).await), Declined { run: 1 });
    assert_eq!(store.record("charge#k").await["response"], raw::answer("json", "{\"run\":1}"));
    for _ in 0..2 {
        assert_eq!(handlers(decline_kept(operation(), &runs).await), Declined { run: 1 });
    }
    assert_eq!(runs.count(), 1);
}

#[derive(Debug, serde::Deserialize)]
struct Unwritable;

impl serde::Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("it is never written")
    }
}

#[tokio::test]
async fn an_error_whose_serialization_panics_is_kept_without_itself() {
    let store = Store::open().await;
    let operation = store.idempotency().charging().replay_errors::<Unwritable>();
    let failed = operation.run(async |_| Err::<u32, _>(Unwritable)).await;
    assert!(matches!(failed, Err(RunError::Handler(Unwritable))), "{failed:?}");
    let record = store.record("charge#k").await;
    assert_eq!((raw::status(&record), record.get("response")), ("FAILED", None));
}

#[tokio::test]
async fn a_replayed_error_can_have_further_attempts_first() {
    let (_store, runs, idempotency) = caller().await;
    let retain = Failure::Retain { max_attempts: 2 };
    for run in [1, 2, 2, 2] {
        let call = with_failure(&idempotency, retain).replay_errors::<Declined>();
        let failed = decline_kept(call, &runs).await;
        assert_eq!(handlers(failed), Declined { run });
    }
}

#[tokio::test]
async fn an_attempt_after_a_kept_error_has_a_record_like_any_other() {
    let (store, runs, idempotency) = caller().await;
    let retain = Failure::Retain { max_attempts: 2 };
    let operation = || with_failure(&idempotency, retain).replay_errors::<Declined>();
    handlers(decline_kept(operation(), &runs).await);
    let second = operation().run(async |_| {
        let record = store.record("charge#k").await;
        let names = |item: &raw::Item| item.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&record), names(&raw::pending("charge#k")));
        assert_eq!((status(&record), number(&record, "attempt")), ("PENDING", 2));
        Ok::<_, Declined>(())
    });
    second.await.unwrap();
}

#[tokio::test]
async fn a_failure_kept_without_its_error_stays_failed() {
    let (_store, runs, idempotency) = caller().await;
    handlers(decline(with_failure(&idempotency, Failure::Replay), &runs).await);
    let repeat = charge(with_failure(&idempotency, Failure::Replay), &runs).await;
    assert_eq!((kind(repeat), runs.count()), (ErrorKind::Failed, 1));
}

#[tokio::test]
async fn an_error_too_large_to_keep_is_kept_without_itself() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.by(&Link::default(), in_record);
    let run = async || {
        let failing = idempotency.charging().replay_errors::<String>().run(async |_| {
            runs.add();
            Err::<(), _>("x".repeat(400 * 1024))
        });
        failing.await
    };
    assert_eq!(handlers(run().await).len(), 400 * 1024);
    assert_eq!(status(&store.record("charge#k").await), "FAILED");
    assert_eq!((kind(run().await), runs.count()), (ErrorKind::Failed, 1));
}

/// Panics in the handler: at once, or in its future.
async fn panicking(operation: Call, at_once: bool) {
    let handler = |_| {
        assert!(!at_once, "the handler's own words");
        async { panic!("the handler's own words") }
    };
    let run = operation.run::<(), String, _, _>(handler);
    let panic = AssertUnwindSafe(run).catch_unwind().await.expect_err("the panic goes on");
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    assert_eq!(words, Some("the handler's own words"));
}

#[tokio::test]
async fn a_panic_goes_on_and_frees_the_key() {
    for at_once in [true, false] {
        let (store, runs, idempotency) = caller().await;
        panicking(idempotency.charging(), at_once).await;
        assert!(store.is_released("charge#k").await);
        assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 2));
    }
}

#[tokio::test]
async fn a_panic_counts_as_a_failed_attempt() {
    let (_store, runs, idempotency) = caller().await;
    let retain = Failure::Retain { max_attempts: 1 };
    panicking(with_failure(&idempotency, retain), false).await;
    let after = charge(with_failure(&idempotency, retain), &runs).await;
    assert_eq!((kind(after), runs.count()), (ErrorKind::Failed, 0));
}

#[tokio::test]
async fn a_failing_release_hides_nothing() {
    for act in [Act::LoseRequest, Act::SERVER_ERROR, Act::Answer(400, "AccessDeniedException")] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        link.wire.every("UpdateItem", act);
        let timeout = Duration::from_millis(200);
        for failure in [Failure::Release, Failure::Replay] {
            let builder = store.builder(&link);
            let builder = builder.policy(|p| p.completion_timeout(timeout).failure(failure));
            let idempotency = builder.build().unwrap();
            let key = format!("{failure:?}");
            let failed =
                decline(idempotency.operation("charge").key(&key).no_payload(), &runs).await;
            assert_eq!(handlers(failed), Declined { run: runs.count() });
            let record = store.record(&format!("charge#{key}")).await;
            assert_eq!(status(&record), "PENDING");
        }
    }
}

#[tokio::test]
async fn a_handler_that_executed_nothing_leaves_nothing_whatever_it_answers() {
    let (store, runs, idempotency) = caller().await;
    let refused = idempotency.operation("charge").key("k").payload("bad");
    let outcome = refused.run_with_outcome(async |execution| {
        execution.discard();
        Ok::<_, String>("refused".to_owned())
    });
    assert_eq!(outcome.await.unwrap(), Outcome::NothingExecuted("refused".to_owned()));
    assert!(store.is_released("charge#k").await);
    let failed = with_failure(&idempotency, Failure::Replay).run(async |execution| {
        execution.discard();
        Err::<(), _>("refused")
    });
    assert_eq!(handlers(failed.await), "refused");
    assert!(store.is_released("charge#k").await);
    let corrected = idempotency.operation("charge").key("k").payload("good");
    assert_eq!(charge(corrected, &runs).await.unwrap(), executed(1, 3));
}

/// The record is undone under a fresh owner id, with the previous attempt number.
#[tokio::test]
async fn a_takeover_that_executed_nothing_is_undone_and_does_not_count() {
    let kept = with(raw::failed("charge#k"), "response", raw::answer("json", "{\"run\":1}"));
    for planted in [kept, raw::failed("charge#k"), raw::abandoned("charge#k")] {
        let (store, runs, idempotency) = caller().await;
        store.put(planted.clone()).await;
        let retained = Failure::Retain { max_attempts: 2 };
        let retain = || with_failure(&idempotency, retained);
        for attempt in 2..=4 {
            let refused = retain().run(async |execution| {
                execution.discard();
                assert_eq!(execution.attempt(), attempt);
                if attempt == 2 { Err(execution.owner().to_owned()) } else { Ok(()) }
            });
            let owner = refused.await.map_err(|error| error.into_handler().unwrap()).err();
            let record = store.record("charge#k").await;
            assert_eq!(number(&record, "attempt"), i64::from(attempt), "{record:?}");
            for left in ["status", "lease_expires_at", "response", "fingerprint", "created_at"] {
                assert_eq!(record.get(left), planted.get(left), "{left}");
            }
            if status(&record) == "PENDING" {
                // A delayed request of the first owner no longer matches the record.
                assert_ne!(owner.as_deref(), Some(raw::text(&record, "owner")));
            }
            let other = keyed(&idempotency, retained).payload("another");
            assert_eq!(kind(charge(other, &runs).await), ErrorKind::Mismatch);
        }
        assert_eq!(handlers(decline(retain(), &runs).await), Declined { run: 1 });
        assert_eq!(number(&store.record("charge#k").await, "attempt"), 5);
        assert_eq!((kind(charge(retain(), &runs).await), runs.count()), (ErrorKind::Failed, 1));
    }
}

#[tokio::test]
async fn an_error_of_the_handlers_that_is_the_crates_own_type_stays_the_handlers() {
    let (store, runs, idempotency) = caller().await;
    charge(idempotency.operation("inner").key("k").payload("one"), &runs).await.unwrap();
    let outer = idempotency.calling("outer");
    let result = outer.run(async |_| {
        let inner = idempotency.operation("inner").key("k").payload("two");
        let error = charge(inner, &runs).await.unwrap_err();
        Err::<(), Error>(error.into_handler().unwrap_err())
    });
    assert_eq!(handlers(result.await).kind(), ErrorKind::Mismatch);
    assert!(store.is_released("outer#k").await);
}

/// How an attempt ends.
#[derive(Clone, Copy)]
enum End {
    Fails,
    Crashes,
    ExecutesNothing,
    RefusesAsAFailure,
}

/// Makes one attempt; its number.
async fn attempt(operation: Call, end: End) -> u32 {
    let attempt = std::cell::Cell::new(0);
    let run = operation.run(async |execution| {
        attempt.set(execution.attempt());
        match end {
            End::Fails => Err("declined"),
            End::Crashes => std::future::pending().await,
            End::ExecutesNothing => {
                execution.discard();
                Ok("refused".to_owned())
            }
            End::RefusesAsAFailure => {
                execution.discard();
                Err("refused")
            }
        }
    });
    let began = async {
        while attempt.get() == 0 {
            tokio::task::yield_now().await;
        }
    };
    match end {
        End::Crashes => tokio::select! { _ = run => unreachable!(), () = began => {} },
        End::Fails | End::ExecutesNothing | End::RefusesAsAFailure => drop(run.await),
    }
    attempt.get()
}

/// Through releases, crashes, what was given back and failures, by callers of two policies, an hour each
/// after the last.
#[tokio::test]
async fn of_all_ways_to_end_only_what_was_executed_counts() {
    let store = Store::open().await;
    let processes: Vec<_> = (1..=8).map(|hour| store.over(&Link::later(hour * 3600))).collect();
    let ends = [
        (Failure::Release, End::Fails),
        (RETAIN_3, End::Crashes),
        (RETAIN_3, End::ExecutesNothing),
        (RETAIN_3, End::RefusesAsAFailure),
        (RETAIN_3, End::Fails),
        (RETAIN_3, End::ExecutesNothing),
        (RETAIN_3, End::Crashes),
    ];
    let mut attempts = Vec::new();
    for (process, (failure, end)) in processes.iter().zip(ends) {
        attempts.push(attempt(with_failure(process, failure), end).await);
    }
    assert_eq!(attempts, [1, 2, 3, 4, 5, 6, 7]);
    let runs = Runs::default();
    let last = charge(with_failure(&processes[7], RETAIN_3), &runs).await;
    assert_eq!((kind(last), runs.count()), (ErrorKind::Failed, 0));
}

const RETAIN_3: Failure = Failure::Retain { max_attempts: 3 };
