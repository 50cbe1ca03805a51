//! Commits whose futures the handler drops: what they wrote stands.

use dynamodb_idempotency::{Error, ErrorKind, Execution, Outcome, RunError};

use crate::support::effects::count;
use crate::support::raw::status;
use crate::support::{Act, Charging, Gate, Link, Store, kind};

/// Drops a commit whose request or response is held, as a timeout around it does.
async fn drop_commit(execution: &Execution, answer: &str, store: &Store, gate: &Gate) {
    tokio::select! {
        biased;
        committed = execution.commit(answer, [count(store.table(), "effect")]) => {
            panic!("too early: {committed:?}")
        }
        () = gate.reached() => {}
    }
}

async fn dropped(act: fn(Gate) -> Act, store: &Store) -> Result<Outcome<String>, ErrorKind> {
    let (link, gate) = (Link::default(), Gate::default());
    link.wire.next("TransactWriteItems", act(gate.clone()));
    let result = store.over(&link).charging().run_with_outcome(async |execution| {
        drop_commit(&execution, "booked", store, &gate).await;
        Ok::<_, Error>("not waited for".to_owned())
    });
    result.await.map_err(|error| kind::<(), _>(Err::<(), RunError<Error>>(error)))
}

#[tokio::test]
async fn one_that_the_handler_did_not_wait_for_is_put_beyond_doubt() {
    let store = Store::open().await;
    assert_eq!(dropped(Act::HoldRequest, &store).await, Err(ErrorKind::NothingCommitted));
    assert_eq!(status(&store.record("charge#k").await), "RELEASED");
    assert_eq!(store.counted("effect").await, 0);
    let landed = dropped(Act::HoldResponse, &store).await;
    assert_eq!(landed, Ok(Outcome::Executed("booked".to_owned())));
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn the_answer_of_a_dropped_commit_that_was_applied_stands_whatever_follows_it() {
    for large in [false, true] {
        let (store, link, gate) = (Store::open().await, Link::default(), Gate::default());
        let answer = if large { "x".repeat(100_000) } else { "first".to_owned() };
        link.wire.next("TransactWriteItems", Act::HoldResponse(gate.clone()));
        let operation = store.over(&link).charging();
        let outcome = operation.run_with_outcome(async |execution| {
            drop_commit(&execution, &answer, &store, &gate).await;
            let second = execution.commit("second", [count(store.table(), "other")]).await;
            assert_eq!(second.unwrap_err().kind(), ErrorKind::AlreadyCommitted);
            Err::<String, _>("the handler fails")
        });
        assert_eq!(outcome.await.unwrap(), Outcome::Executed(answer.clone()));
        let (effect, other) = (store.counted("effect").await, store.counted("other").await);
        assert_eq!((effect, other), (1, 0));
        let operation = store.idempotency().charging();
        let repeat = operation.run_with_outcome(async |_| Err::<String, _>("it runs again")).await;
        assert_eq!(repeat.unwrap(), Outcome::Replayed(answer));
    }
}
