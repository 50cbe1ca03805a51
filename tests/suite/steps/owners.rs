//! Who goes on finds what the last owner stored, however that one ended.

use dynamodb_idempotency::Policy;
use dynamodb_idempotency::policy::LeaseExpired;

use crate::support::Charging;
use crate::support::caller;
use crate::support::effects::count;

use super::*;

/// The handler continues after its lease, so that the test sees the results of its steps.
fn goes_on(policy: Policy) -> Policy {
    policy.lease_expired(LeaseExpired::Continue)
}

/// The same, with the store's calls counted: each in turn is the last that gets through.
#[tokio::test]
async fn wherever_the_store_goes_away_each_stored_step_happened_once() {
    for reached in 1..=4_usize {
        let (store, link, effects) =
            (Store::open().await, Link::without_retries(), Effects::default());
        let short = Duration::from_millis(100);
        let idempotency = store.by(&link, |policy| policy.completion_timeout(short));
        for _ in 1..reached {
            link.wire.next("UpdateItem", Act::Deliver);
        }
        link.wire.every("UpdateItem", Act::LoseRequest);
        link.wire.next("PutItem", Act::Deliver);
        link.wire.every("PutItem", Act::LoseRequest);
        let result = order(&idempotency, Failure::Release, &effects, false).await;
        match (reached, result) {
            (4, Ok(Outcome::Unconfirmed(_))) => {}
            (1..=3, Err(RunError::Handler(error))) => {
                let error = not_stored(error);
                assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
                assert!(error.to_string().contains(NAMES[reached - 1]), "{error}");
            }
            other => panic!("{other:?}"),
        }
        let later = store.over(&Link::later(AN_HOUR));
        order(&later, Failure::Release, &effects, false).await.unwrap();
        let expected = [1, 2, 3].map(|step| if step == reached { 2 } else { 1 });
        assert_eq!(effects.counts(), expected, "{reached} calls reached the store");
    }
}

#[tokio::test]
async fn a_failure_keeps_a_record_with_steps_whatever_the_policy() {
    for failure in [Failure::Release, Failure::Retain { max_attempts: 5 }] {
        let (store, effects) = (Store::open().await, Effects::default());
        let idempotency = store.idempotency();
        let failed = handlers(order(&idempotency, failure, &effects, true).await);
        assert!(matches!(failed, RunError::Handler("no stock")), "{failed:?}");
        let record = store.record("order#k").await;
        assert_eq!((status(&record), steps(&record).len()), ("FAILED", 3));
        assert_eq!(record.get("response"), None);
        let again = order(&idempotency, failure, &effects, false).await.unwrap();
        assert_eq!(again, Outcome::Executed(DONE.to_owned()));
        assert_eq!(effects.counts(), [1, 1, 1]);
        assert_eq!(number(&store.record("order#k").await, "attempt"), 2);
    }
}

#[tokio::test]
async fn a_panic_keeps_a_record_with_steps() {
    let (store, effects) = (Store::open().await, Effects::default());
    let idempotency = store.idempotency();
    let running = idempotency.calling("order").run(async |execution| -> Stepped {
        three(&execution, &effects).await?;
        panic!("the handler does")
    });
    assert!(futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(running)).await.is_err());
    assert_eq!(status(&store.record("order#k").await), "FAILED");
    let again = order(&idempotency, Failure::Release, &effects, false).await.unwrap();
    assert_eq!((again.into_inner().as_str(), effects.counts()), (DONE, [1, 1, 1]));
}

#[tokio::test]
async fn a_handler_that_says_nothing_was_executed_does_not_delete_steps() {
    let (store, effects) = (Store::open().await, Effects::default());
    let idempotency = store.idempotency();
    let operation = idempotency.calling("order");
    let outcome = operation
        .run_with_outcome(async |execution| {
            three(&execution, &effects).await?;
            execution.discard();
            Ok::<_, RunError<&str>>("refused".to_owned())
        })
        .await;
    assert_eq!(outcome.unwrap(), Outcome::NothingExecuted("refused".to_owned()));
    let again = order(&idempotency, Failure::Release, &effects, false).await.unwrap();
    assert_eq!((again.into_inner().as_str(), effects.counts()), (DONE, [1, 1, 1]));
}

#[tokio::test]
async fn without_a_step_a_failure_is_released_as_ever() {
    let store = Store::open().await;
    let failed = store.idempotency().calling("order").run(async |execution| {
        // A step that fails stores nothing.
        execution.step("reserve", async { Err::<(), _>("no stock") }).await
    });
    assert!(matches!(handlers(failed.await), RunError::Handler("no stock")));
    assert!(store.is_released("order#k").await);
}

/// A taker finds at the last moment that it has no time: what it took over must not lose its steps.
#[tokio::test]
async fn a_record_with_steps_that_was_taken_over_in_vain_is_given_back() {
    for (record, expected) in
        [(raw::abandoned("order#k"), "PENDING"), (raw::failed("order#k"), "FAILED")]
    {
        let (store, link, effects) = (Store::open().await, Link::default(), Effects::default());
        store.put(stepped(record)).await;
        let gate = Gate::default();
        link.wire.next("UpdateItem", Act::HoldResponse(gate.clone()));
        let idempotency = store.over(&link);
        let operation = idempotency.calling("order").deadline(link.clock.in_secs(10));
        let (result, ()) = tokio::join!(
            operation.run(async |execution| three(&execution, &effects).await),
            async {
                gate.reached().await;
                link.let_pass(20);
                gate.open();
            }
        );
        assert_eq!(kind(result), ErrorKind::DeadlineExceeded);
        let record = store.record("order#k").await;
        assert_eq!((status(&record), steps(&record).len()), (expected, 1));
        let again = order(&store.idempotency(), Failure::Release, &effects, false).await.unwrap();
        assert_eq!(again.into_inner(), "reserve 0, charge 1, mail 1");
    }
}

#[tokio::test]
async fn an_owner_that_was_taken_over_stores_no_step_and_starts_no_other() {
    let (store, effects) = (Store::open().await, Effects::default());
    let idempotency = store.idempotency();
    let taker = store.over(&Link::later(AN_HOUR));
    let operation = idempotency.operation("order").policy(goes_on).unwrap().key("k").no_payload();
    let result = operation
        .run(async |execution| {
            let late = async {
                let run = effects.0[0].add();
                let theirs = order(&taker, Failure::Release, &effects, false).await.unwrap();
                assert_eq!(theirs.into_inner(), "reserve 2, charge 1, mail 1");
                Ok::<_, &str>(run)
            };
            let error = execution.step("reserve", late).await.unwrap_err();
            let error = not_stored(error);
            assert_eq!(error.kind(), ErrorKind::LeaseLost);
            assert!(execution.is_lease_lost());
            let next = execution.step("charge", async { Ok::<_, &str>(effects.0[1].add()) }).await;
            assert_eq!(not_run(next.unwrap_err()).kind(), ErrorKind::LeaseLost);
            Err::<(), _>(error)
        })
        .await;
    handlers(result);
    assert_eq!(effects.counts(), [2, 1, 1]);
    assert_eq!(status(&store.record("order#k").await), "COMPLETED");
}

#[tokio::test]
async fn an_owner_whose_record_was_released_by_a_taker_stores_no_step() {
    let (store, _, idempotency) = caller().await;
    let operation = idempotency.operation("order").policy(goes_on).unwrap().key("k").no_payload();
    let result = operation.run(async |execution| {
        store.delete("order#k").await;
        execution.step("reserve", async { Ok::<_, &str>(1) }).await
    });
    let error = not_stored(handlers(result.await));
    assert_eq!((error.kind(), store.item("order#k").await), (ErrorKind::LeaseLost, None));
}

#[tokio::test]
async fn an_owner_whose_lease_is_over_starts_no_step_but_stores_the_one_that_ran() {
    let (store, link) = (Store::open().await, Link::default());
    let lease = Lease::Fixed(Duration::from_secs(20));
    let idempotency = store.by(&link, |policy| goes_on(policy.lease(lease)));
    let result = idempotency.calling("order").run(async |execution| {
        let slow = async {
            link.let_pass(30);
            Ok::<_, &str>(1)
        };
        execution.step("slow", slow).await?;
        assert_eq!(steps(&store.record("order#k").await).len(), 1);
        execution.step("late", never::<()>()).await
    });
    let result: Result<(), _> = result.await;
    assert_eq!(not_run(handlers(result)).kind(), ErrorKind::LeaseLost);
}

#[tokio::test]
async fn without_a_record_steps_run_and_nothing_is_stored() {
    let (store, link, effects) = (Store::open().await, Link::without_retries(), Effects::default());
    link.wire.down(Act::LoseRequest);
    let idempotency = store.by(&link, |policy| policy.outage(Outage::Open));
    let outcome = order(&idempotency, Failure::Release, &effects, false).await.unwrap();
    assert_eq!(outcome, Outcome::Unprotected(DONE.to_owned()));
    assert_eq!(link.wire.count("UpdateItem"), 0);
    assert_eq!(effects.counts(), [1, 1, 1]);
}

#[tokio::test]
async fn an_operation_past_its_retention_starts_without_the_old_steps() {
    let (store, effects) = (Store::open().await, Effects::default());
    store.put(with(stepped(raw::failed("order#k")), "expires_at", raw::n(1))).await;
    let outcome = order(&store.idempotency(), Failure::Release, &effects, false).await.unwrap();
    assert_eq!((outcome.into_inner().as_str(), effects.counts()), (DONE, [1, 1, 1]));
}

#[tokio::test]
async fn a_step_that_was_seen_is_not_done_again_where_the_takeover_fails() {
    let (store, link, effects) = (Store::open().await, Link::without_retries(), Effects::default());
    store.put(stepped(raw::abandoned("order#k"))).await;
    link.wire.next("PutItem", Act::Deliver);
    link.wire.down(Act::LoseRequest);
    let idempotency = store.by(&link, |policy| policy.outage(Outage::Open));
    let outcome = order(&idempotency, Failure::Release, &effects, false).await.unwrap();
    assert_eq!(outcome, Outcome::Unprotected("reserve 0, charge 1, mail 1".to_owned()));
}

#[tokio::test]
async fn a_commit_ends_the_operation_and_drops_its_steps() {
    let (store, late) = (Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    let operation = || idempotency.calling("order");
    let outcome = operation().run(async |execution| {
        let seat = execution.step("reserve", async { Ok::<_, &str>("A1".to_owned()) }).await;
        let seat = seat.map_err(|error| error.to_string())?;
        execution
            .commit(&seat, [count(store.table(), "effect")])
            .await
            .map_err(|e| e.to_string())?;
        let after = execution.step("mail", async { Ok::<_, &str>(late.add()) }).await;
        assert_eq!(not_run(after.unwrap_err()).kind(), ErrorKind::InvalidUse);
        Ok::<_, String>(seat)
    });
    assert_eq!(outcome.await.unwrap(), "A1");
    assert_eq!((late.count(), store.counted("effect").await), (0, 1));
    let record = store.record("order#k").await;
    assert_eq!(status(&record), "COMPLETED");
    assert!(!record.contains_key("steps"), "{record:?}");
}

/// A commit that cannot be confirmed is given up: what was stepped before it stays.
#[tokio::test]
async fn a_commit_that_is_given_up_leaves_the_steps_to_the_next_attempt() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.builder(&link).policy(|policy| {
        policy
            .lease(Lease::Fixed(Duration::from_secs(60)))
            .completion_timeout(Duration::from_millis(200))
    });
    let idempotency = idempotency.build().unwrap();
    let order = async |execution: Execution| {
        let step = execution.step("reserve", async { Ok::<_, &str>(runs.add()) }).await;
        let seat = step.map_err(|error| error.to_string())?;
        let items = [count(store.table(), "effect")];
        execution.commit(&seat, items).await.map_err(|error| error.to_string())?;
        Ok::<_, String>(seat)
    };
    link.wire.every("TransactWriteItems", Act::LoseRequest);
    let first = idempotency.calling("order").run(order).await;
    assert!(first.is_err(), "{first:?}");
    let record = store.record("order#k").await;
    assert_eq!(status(&record), "FAILED");
    assert!(record.contains_key("steps"), "{record:?}");
    link.wire.up();
    assert_eq!(idempotency.calling("order").run(order).await.unwrap(), 1);
    assert_eq!((runs.count(), store.counted("effect").await), (1, 1));
}
