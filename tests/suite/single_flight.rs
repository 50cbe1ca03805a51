//! Calls of one request in one process: what becomes of those that follow when the one that asks is
//! gone, fails, or takes its time.

use std::time::Duration;

use dynamodb_idempotency::{
    ErrorKind, Failure, Idempotency, InProgress, Operation, Outage, Outcome, Policy, Takeover,
};
use futures::future::join_all;

use crate::support::gate::patiently;
use crate::support::{
    Act, Gate, Link, Runs, Store, charge, charge_held, executed, is_in_progress, kind, raw,
    replayed,
};

const CALLERS: usize = 200;

fn on(idempotency: &Idempotency) -> Operation<'_> {
    idempotency.operation("charge").key("k")
}

fn waiting(timeout: Duration) -> impl Fn(Policy) -> Policy {
    move |policy| policy.in_progress(InProgress::Wait { timeout })
}

/// A call whose first request is at the gate, in a task.
async fn stopped(
    idempotency: &Idempotency,
    runs: &Runs,
    link: &Link,
    policy: impl Fn(Policy) -> Policy + Send + 'static,
) -> tokio::task::JoinHandle<()> {
    let gate = Gate::default();
    link.wire.next("PutItem", Act::HoldRequest(gate.clone()));
    let (idempotency, runs) = (idempotency.clone(), runs.clone());
    let leader = tokio::spawn(async move {
        drop(charge(on(&idempotency).policy(policy), &runs).await);
    });
    gate.reached().await;
    leader
}

/// Lets every task of this thread run until it waits.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_leader_that_is_dropped_has_one_successor() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let process = store.sharing(&link);
    let leader = stopped(&process, &runs, &link, |policy| policy).await;
    let burst = join_all((0..CALLERS).map(|_| charge(on(&process), &runs)));
    let (outcomes, ()) = tokio::join!(burst, async {
        settle().await;
        leader.abort();
    });
    let (ran, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!((ran.len(), runs.count()), (1, 1));
    assert!(refused.into_iter().all(is_in_progress));
    assert_eq!(link.wire.requests(), ["PutItem"; 3], "the leader's, its successor's two");
}

#[tokio::test]
async fn a_store_that_fails_is_asked_by_a_few_for_all() {
    for act in [Act::THROTTLE, Act::Answer(400, "AccessDeniedException")] {
        let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
        let process = store.sharing(&link);
        link.wire.every("PutItem", act.clone());
        let outcomes = join_all((0..CALLERS).map(|_| charge(on(&process), &runs))).await;
        let (expected, asked) = match act {
            Act::Answer(_, "AccessDeniedException") => (ErrorKind::Configuration, 1),
            _ => (ErrorKind::Unavailable, 4),
        };
        assert!(outcomes.into_iter().all(|outcome| kind(outcome) == expected));
        assert_eq!((link.wire.requests().len(), runs.count()), (asked, 0), "{act:?}");
    }
}

#[tokio::test]
async fn a_store_that_fails_once_is_asked_once_more() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let process = store.sharing(&link);
    link.wire.next("PutItem", Act::THROTTLE);
    let policy = waiting(Duration::from_secs(60));
    let burst = (0..CALLERS).map(|_| charge(on(&process).policy(&policy), &runs));
    let mut outcomes = join_all(burst).await.into_iter();
    assert_eq!(kind(outcomes.next().unwrap()), ErrorKind::Unavailable);
    assert!(outcomes.all(|outcome| outcome.unwrap().into_inner() == "run 1, attempt 1"));
    assert_eq!((link.wire.count("PutItem"), runs.count()), (3, 1));
}

/// What the store says of a record holds for all calls of one policy.
type Change = fn(Policy) -> Policy;

#[tokio::test]
async fn a_refusal_is_shared() {
    let failed = |policy: Policy| policy.failure(Failure::Replay);
    let abandoned = |policy: Policy| policy.takeover(Takeover::Reject);
    let plain = |policy: Policy| policy;
    let cases: [(_, Change, _, _); 3] = [
        (raw::completed("charge#k", "1"), plain, "mine", ErrorKind::Mismatch),
        (raw::failed("charge#k"), failed, "", ErrorKind::Failed),
        (raw::abandoned("charge#k"), abandoned, "", ErrorKind::Abandoned),
    ];
    for (record, policy, payload, expected) in cases {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        store.put(record).await;
        let process = store.sharing(&link);
        let burst = (0..CALLERS).map(|_| {
            let operation = on(&process).policy(policy);
            let has_payload = !payload.is_empty();
            charge(if has_payload { operation.payload(payload) } else { operation }, &runs)
        });
        assert!(join_all(burst).await.into_iter().all(|outcome| kind(outcome) == expected));
        assert_eq!(link.wire.requests(), ["PutItem"]);
    }
}

/// An answer that is too large for one call may not be for another.
#[tokio::test]
async fn calls_of_another_policy_do_not_follow() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let call = async |idempotency: &Idempotency, limit| {
        let operation = on(idempotency).policy(|policy| policy.max_answer_bytes(limit));
        let handler = async |_| {
            runs.add();
            // It is stored compressed.
            Ok::<_, String>("x".repeat(5_000))
        };
        operation.run(handler).await
    };
    call(&store.idempotency(), 10_000).await.unwrap();
    let process = store.sharing(&link);
    let (small, large) = tokio::join!(call(&process, 1024), call(&process, 10_000));
    assert_eq!((kind(small), large.unwrap().len()), (ErrorKind::AnswerUnavailable, 5_000));
    assert_eq!((link.wire.requests(), runs.count()), (vec!["PutItem".to_owned(); 2], 1));
}

/// A call that does not wait, or not for long, is refused by the store's word and not by a guess.
#[tokio::test]
async fn nobody_is_refused_before_the_store_was_asked() {
    let policies: [fn(Policy) -> Policy; 2] = [
        |policy| policy,
        |policy| policy.in_progress(InProgress::Wait { timeout: Duration::ZERO }),
    ];
    for policy in policies {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let process = store.sharing(&link);
        let leader = stopped(&process, &runs, &link, policy).await;
        let (outcome, ()) = tokio::join!(charge(on(&process).policy(policy), &runs), async {
            settle().await;
            leader.abort();
        });
        assert_eq!((outcome.unwrap(), runs.count()), (executed(1, 1), 1));
    }
}

/// How long a call without the store takes.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Those that wait have been told that somebody runs it: whoever of them asks next, and loses the store,
/// does not run beside it.
#[tokio::test]
async fn what_one_was_told_counts_when_the_next_leader_is_dropped() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let (owner, handler) = (store.idempotency(), Gate::default());
    let open = |policy: Policy| waiting(Duration::from_secs(60))(policy).outage(Outage::Open);
    let process = store
        .builder(&link)
        .single_flight(true)
        .request_timeout(TIMEOUT)
        .policy(open)
        .build()
        .unwrap();
    let running = charge_held(on(&owner), &runs, &handler);
    let (first, ()) = tokio::join!(running, async {
        handler.reached().await;
        // It looks once, after its write, and then its time is over.
        let soon = crate::support::made_up_time::now() + Duration::from_millis(2_500);
        let look = Gate::default();
        let call = || {
            let (process, runs) = (process.clone(), runs.clone());
            tokio::spawn(async move { charge(on(&process), &runs).await })
        };
        let leader = {
            let (process, runs) = (process.clone(), runs.clone());
            tokio::spawn(async move { charge(on(&process).deadline(soon), &runs).await })
        };
        settle().await;
        let (second, third) = (call(), call());
        assert!(is_in_progress(leader.await.unwrap()));
        link.wire.every("GetItem", Act::HoldRequest(look.clone()));
        look.reached().await;
        link.wire.down(Act::LoseRequest);
        second.abort();
        // The third asks in its place, and the store is gone.
        let asked = link.wire.requests().len();
        let asking = async {
            while link.wire.requests().len() < asked + 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        patiently("the third one's requests", asking).await;
        link.wire.up();
        handler.open();
        let outcome: Outcome<String> = third.await.unwrap().unwrap();
        assert_eq!(outcome, replayed(1, 1));
    });
    assert_eq!((first.unwrap(), runs.count()), (executed(1, 1), 1));
}
