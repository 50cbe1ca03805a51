//! However many call at once, one runs.

use std::time::Duration;

use dynamodb_idempotency::policy::InProgress;
use dynamodb_idempotency::{ErrorKind, Idempotency, Outcome};
use futures::future::join_all;

use crate::support::work::Charged;
use crate::support::{Act, Charging, Gate, Link, Runs, Store, charge};

const CALLERS: u32 = 200;

/// Starts the callers, lets their first writes go when all have arrived, and collects what they
/// got.
async fn race(idempotency: &Idempotency, link: &Link, runs: &Runs) -> Vec<Charged> {
    let gate = Gate::default();
    link.wire.every("PutItem", Act::HoldRequest(gate.clone()));
    let callers = (0..CALLERS).map(|_| {
        let (idempotency, runs) = (idempotency.clone(), runs.clone());
        tokio::spawn(async move { charge(idempotency.charging(), &runs).await })
    });
    let callers: Vec<_> = callers.collect();
    gate.reached_by(CALLERS).await;
    gate.open();
    join_all(callers).await.into_iter().map(|caller| caller.unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_200_simultaneous_callers_one_runs() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let results = race(&store.builder(&link).build().unwrap(), &link, &runs).await;
    assert_eq!(runs.count(), 1);
    let mut executed = 0;
    for result in results {
        match result {
            Ok(Outcome::Executed(answer)) => {
                executed += 1;
                assert_eq!(answer, "run 1, attempt 1");
            }
            Ok(Outcome::Replayed(answer)) => assert_eq!(answer, "run 1, attempt 1"),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                let kind = error.idempotency().unwrap().kind();
                assert!(matches!(kind, ErrorKind::InProgress { .. }), "{error:?}");
            }
        }
    }
    assert_eq!(executed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_200_callers_that_wait_all_get_the_one_answer() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let wait = InProgress::Wait { timeout: Duration::from_secs(600) };
    let builder = store.builder(&link).policy(|policy| policy.in_progress(wait));
    let results = race(&builder.build().unwrap(), &link, &runs).await;
    assert_eq!(runs.count(), 1);
    let executed = results.iter().filter(|r| matches!(r, Ok(Outcome::Executed(_)))).count();
    assert_eq!(executed, 1);
    for result in results {
        assert_eq!(result.unwrap().into_inner(), "run 1, attempt 1");
    }
}
