//! Whatever follows a commit, its answer stands, and there is no second one.

use std::panic::AssertUnwindSafe;

use dynamodb_idempotency::policy::Failure;
use dynamodb_idempotency::{Error, ErrorKind};
use futures::FutureExt;

use super::book_in;
use crate::support::{
    Charging, Declined, Link, Runs, Store, caller, charge, commit_kind, executed, replayed,
};

/// A handler's end after its commit.
#[derive(Clone, Copy, Debug)]
enum End {
    Other,
    Err,
    NothingExecuted,
}

#[tokio::test]
async fn the_committed_answer_stands_whatever_the_handler_returns() {
    for failure in [Failure::Release, Failure::Retain { max_attempts: 3 }, Failure::Replay] {
        for end in [End::Other, End::Err, End::NothingExecuted] {
            let (store, runs, idempotency) = caller().await;
            let operation = || idempotency.charging_by(|p| p.failure(failure));
            let outcome = operation().run_with_outcome(async |execution| {
                book_in(&execution, store.table(), &runs).await.unwrap();
                match end {
                    End::Other => Ok("another".to_owned()),
                    End::Err => Err(Declined { run: 1 }),
                    End::NothingExecuted => {
                        execution.discard();
                        Ok("nothing".to_owned())
                    }
                }
            });
            assert_eq!(outcome.await.unwrap(), executed(1, 1), "{end:?}");
            assert_eq!(charge(operation(), &runs).await.unwrap(), replayed(1, 1), "{end:?}");
            assert_eq!(store.counted("effect").await, 1);
        }
    }
}

#[tokio::test]
async fn a_panic_after_the_commit_goes_on_and_the_answer_stands() {
    let (store, runs, idempotency) = caller().await;
    let running = idempotency.charging().run(async |execution| {
        book_in(&execution, store.table(), &runs).await?;
        assert!(runs.count() == 0, "after the commit");
        Ok::<_, Error>(String::new())
    });
    let panic = AssertUnwindSafe(running).catch_unwind().await.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"after the commit"));
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), replayed(1, 1));
}

#[tokio::test]
async fn a_second_commit_is_an_error() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let outcome = store.over(&link).charging().run_with_outcome(async |execution| {
        let answer = book_in(&execution, store.table(), &runs).await?;
        let again = book_in(&execution, store.table(), &runs).await;
        assert_eq!(commit_kind(&again), ErrorKind::AlreadyCommitted);
        Ok::<_, Error>(answer)
    });
    assert_eq!(outcome.await.unwrap(), executed(1, 1));
    assert_eq!((link.wire.count("TransactWriteItems"), store.counted("effect").await), (1, 1));
}

#[tokio::test]
async fn of_two_commits_at_once_one_is_an_error() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let outcome = store.over(&link).charging().run_with_outcome(async |execution| {
        let clone = execution.clone();
        let (one, other) = tokio::join!(
            book_in(&execution, store.table(), &runs),
            book_in(&clone, store.table(), &runs)
        );
        assert_eq!(commit_kind(&other), ErrorKind::AlreadyCommitted);
        one
    });
    assert_eq!(outcome.await.unwrap(), executed(1, 1));
    assert_eq!((link.wire.count("TransactWriteItems"), store.counted("effect").await), (1, 1));
}

#[tokio::test]
async fn a_commit_after_the_handler_has_returned_is_an_error() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let mut kept = None;
    let answer = store.over(&link).charging().run(async |execution| {
        kept = Some(execution);
        Ok::<_, Error>("answered".to_owned())
    });
    assert_eq!(answer.await.unwrap(), "answered");
    let late = book_in(&kept.unwrap(), store.table(), &runs).await;
    assert_eq!(commit_kind(&late), ErrorKind::InvalidUse);
    assert_eq!((link.wire.count("TransactWriteItems"), store.counted("effect").await), (0, 0));
}
