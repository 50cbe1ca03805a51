//! Names and results that a record cannot hold.

use crate::support::Charging;
use crate::support::caller;
use dynamodb_idempotency::Policy;

use super::*;

#[tokio::test]
async fn a_name_is_used_once_and_is_one_that_can_be_stored() {
    let (store, effects) = (Store::open().await, Effects::default());
    store.put(stepped(raw::abandoned("order#k"))).await;
    let result = store.idempotency().calling("order").run(async |execution| {
        three(&execution, &effects).await?;
        let long = "n".repeat(256);
        // One that was replayed, one that ran, and two that are none.
        for name in ["reserve", "charge", "", &long] {
            let error = execution.step(name, never::<()>()).await.unwrap_err();
            assert_eq!(not_run(error).kind(), ErrorKind::InvalidUse, "{name}");
        }
        execution.step(&long[1..], async { Ok(()) }).await?;
        // Nothing of these can be in the record.
        execution.step("again", async { Err::<(), _>("once") }).await.unwrap_err();
        drop(futures::poll!(pin!(
            execution.step("again", std::future::pending::<Result<(), &str>>())
        )));
        execution.step("again", async { Ok(()) }).await
    });
    result.await.unwrap();
}

#[tokio::test]
async fn names_may_have_any_characters() {
    let (store, names) = (Store::open().await, ["a.b", "#x", ":v", "size", "é \"'", "steps[0]"]);
    for attempt in 1..=2 {
        let runs = Runs::default();
        let result = store.idempotency().calling("order").run(async |execution| {
            for name in names {
                let work = async {
                    runs.add();
                    Ok::<_, &str>(name.to_owned())
                };
                assert_eq!(execution.step(name, work).await?, name);
            }
            if attempt == 1 { Err(RunError::Handler("later")) } else { Ok(()) }
        });
        assert_eq!(result.await.is_ok(), attempt == 2);
        assert_eq!(runs.count(), if attempt == 1 { 6 } else { 0 });
    }
}

#[tokio::test]
async fn a_result_of_another_type_is_an_error_and_nothing_runs() {
    let store = Store::open().await;
    store.put(stepped(raw::abandoned("order#k"))).await;
    let operation = store.idempotency().calling("order");
    let result = operation.run(async |execution| execution.step("reserve", never::<u32>()).await);
    assert_eq!(not_run(handlers(result.await)).kind(), ErrorKind::AnswerUnreadable);
    assert_eq!(steps(&store.record("order#k").await).len(), 1);
}

/// Runs one step whose result cannot be stored, then asks for it again in the next attempt.
async fn unstorable<T>(result: T, says: &str)
where
    T: serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug + 'static,
{
    let (store, runs, result) = (Store::open().await, Runs::default(), Cell::new(Some(result)));
    let idempotency = store.idempotency();
    let attempt = async || {
        let operation = idempotency.calling("order");
        let work = async {
            runs.add();
            Ok::<T, &str>(result.take().expect("it runs once"))
        };
        handlers(operation.run(async |execution| execution.step("big", work).await).await)
    };
    let error = not_stored(attempt().await);
    assert_eq!(error.kind(), ErrorKind::AnswerUnavailable);
    let message = error.to_string();
    assert!(message.contains("`big` HAS run") && message.contains(says), "{message}");
    // The step is still recorded as done.
    assert_eq!((not_run(attempt().await).kind(), runs.count()), (ErrorKind::AnswerUnavailable, 1));
}

#[tokio::test]
async fn a_result_that_is_too_large_names_the_bytes_and_is_not_done_again() {
    // 409,598 bytes of text and two quotation marks, the name, and one byte for the member: as much as an item may
    // have with all of its attributes.
    unstorable("x".repeat(400 * 1024 - 2), "409604 bytes").await;
}

#[tokio::test]
async fn a_result_that_is_no_json_is_not_done_again() {
    unstorable(HashMap::from([((1, 2), 3)]), "key must be a string").await;
    unstorable(Some(f64::INFINITY), "infinite").await;
}

#[tokio::test]
async fn the_largest_steps_fit_beside_a_failure_and_leave_the_answer_its_room() {
    let (store, _, idempotency) = caller().await;
    let operation = || idempotency.calling("order");
    let without_items = |policy: Policy| policy.max_answer_bytes(100 * 1024);
    let first = idempotency.operation("order").policy(without_items).unwrap().key("k").no_payload();
    let result = first.run(async |execution| {
        let big = "x".repeat(256 * 1024 - 2 - "big".len() - 1);
        execution.step("big", async { Ok::<_, &str>(big) }).await?;
        let error = execution.step("more", never::<()>()).await;
        assert_eq!(not_run(error.unwrap_err()).kind(), ErrorKind::InvalidUse);
        Err::<(), _>(RunError::Handler("later"))
    });
    handlers(result.await);
    assert_eq!(status(&store.record("order#k").await), "FAILED");
    let answer = "y".repeat(390 * 1024);
    let outcome = operation().run(async |_| Ok::<_, &str>(answer.clone())).await.unwrap();
    assert_eq!(outcome, answer);
    let stored = operation().run(async |_| never::<String>().await).await.unwrap();
    assert_eq!(stored, answer);
}

#[tokio::test]
async fn corrupt_steps_are_an_error_and_stay_untouched() {
    let (store, effects) = (Store::open().await, Effects::default());
    let corrupt = with(raw::abandoned("order#k"), "steps", s("none"));
    store.put(corrupt.clone()).await;
    let result = order(&store.idempotency(), Failure::Release, &effects, false).await;
    assert_eq!((kind(result), effects.counts()), (ErrorKind::UnknownRecord, [0, 0, 0]));
    assert_eq!(store.record("order#k").await, corrupt);
}
