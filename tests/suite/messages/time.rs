//! The invocation's time: the lease, the last start, and what is cut off.

use std::time::{Duration, SystemTime};

use dynamodb_idempotency::Execution;
use dynamodb_idempotency::messages::Message;
use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::policy::Failure;

use super::function::{
    Handled, Ran, context_in, context_of, context_until, failures, holding, invoke, invoke_in,
    noting,
};
use super::queue::{fifo, message, sqs};
use crate::support::panicking::PanicsWhenDropped;
use crate::support::{Act, Gate, Link, LocalClock, Store, made_up_time, raw};

#[tokio::test]
async fn the_lease_ends_with_the_invocation_that_brought_the_message() {
    let store = Store::open().await;
    let (gate, ran) = (Gate::default(), Ran::default());
    let service = store.idempotency().sqs("book").handler(holding(&gate)).unwrap();
    let context = context_of(100);
    let deadline = i64::try_from(context.deadline).unwrap();
    let batch = sqs([message("1", "k", "a")]);
    let (answer, ()) = tokio::join!(invoke_in(&service, &batch, context), async {
        gate.reached().await;
        let lease = raw::number(&store.record("book#k").await, "lease_expires_at");
        assert!((lease - deadline - 2_000).abs() <= 3_000, "{lease} {deadline}");
        gate.open();
    });
    assert_eq!((failures(&answer.unwrap()), ran.count()), (vec![], 0));
}

/// The first takes, by its clock, all the time that there was for starting.
#[tokio::test]
async fn a_message_without_time_to_run_is_reported_and_runs_when_redelivered() {
    let (store, ran) = (Store::open().await, Ran::default());
    let clock = LocalClock::default();
    let link = Link::default().clock(clock.clone());
    let (noted, passing) = (ran.clone(), clock.clone());
    let consumer = store.over(&link).sqs("book").concurrency(1);
    let consumer = consumer.deadline_margin(Duration::from_secs(20));
    let service = consumer
        .handler(move |message: Message<SqsMessage>, _| {
            noted.add(String::from_utf8_lossy(message.payload()));
            passing.advance(45);
            async { Ok::<_, String>(()) }
        })
        .unwrap();
    let all = ["1", "2", "3"].map(|id| message(id, id, id));
    // One minute, less the margin: enough for one of 45 s.
    let answer = invoke_in(&service, &sqs(all.clone()), context_of(60)).await.unwrap();
    assert_eq!((failures(&answer), ran.all()), (vec!["2".into(), "3".into()], vec!["1".into()]));
    clock.advance(-45);
    let answer = invoke_in(&service, &sqs(all), context_of(60)).await.unwrap();
    assert_eq!((failures(&answer), ran.all().len()), (vec!["3".into()], 2));
}

/// A handler that notes each payload down, after `hang` if it is `hang`.
fn hanging<F: Future<Output = ()> + Send + 'static>(
    ran: &Ran,
    hang: fn() -> F,
) -> impl Fn(Message<SqsMessage>, Execution) -> Handled + Send + Sync + 'static {
    let note = noting(ran);
    move |message: Message<SqsMessage>, execution| {
        let hangs = message.payload() == b"hang";
        let noted = note(message, execution);
        Box::pin(async move {
            if hangs {
                hang().await;
            }
            noted.await
        })
    }
}

/// A hanging handler would have Lambda end the function, and bring all of the batch back.
#[tokio::test]
async fn a_handler_that_does_not_return_is_cut_off_alone() {
    let (store, ran) = (Store::open().await, Ran::default());
    let service =
        store.idempotency().sqs("book").handler(hanging(&ran, std::future::pending)).unwrap();
    let batch = sqs([fifo("a", "1", "hang"), fifo("a", "2", "after"), fifo("b", "3", "b")]);
    let answer = invoke_in(&service, &batch, context_in(Duration::from_secs(2))).await.unwrap();
    assert_eq!(failures(&answer), ["1", "2"]);
    assert_eq!(ran.all(), ["b"]);
    // Its key is free when the lease is over, and not before.
    assert_eq!(raw::status(&store.record("book#1").await), "PENDING");
    assert_eq!(raw::status(&store.record("book#3").await), "COMPLETED");
}

#[tokio::test]
async fn a_handler_that_is_cut_off_and_whose_destructor_panics_loses_no_other_message() {
    let (store, ran) = (Store::open().await, Ran::default());
    let service =
        store.idempotency().sqs("book").handler(hanging(&ran, PanicsWhenDropped::hangs)).unwrap();
    let batch = sqs([message("1", "k", "hang"), message("2", "l", "b")]);
    let answer = invoke_in(&service, &batch, context_in(Duration::from_secs(2))).await.unwrap();
    assert_eq!((failures(&answer), ran.all()), (vec!["1".into()], vec!["b".into()]));
}

/// A context made by hand has a deadline of 0, and `cargo lambda watch` sends 600,000.
#[tokio::test]
async fn an_invocation_whose_time_is_over_runs_nothing_and_an_impossible_deadline_is_none() {
    let ago = |seconds| made_up_time::now() - Duration::from_secs(seconds);
    let in_1970 = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    for (name, deadline, failed) in [
        ("a second ago", ago(1), &["1", "2"][..]),
        ("almost an hour ago", ago(3_500), &["1", "2"]),
        ("more than an hour ago", ago(3_700), &[]),
        ("0", in_1970(0), &[]),
        ("600,000", in_1970(600_000), &[]),
    ] {
        let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
        let service = store.over(&link).sqs("book").handler(noting(&ran)).unwrap();
        let batch = sqs([message("1", "k", "a"), message("2", "l", "b")]);
        let answer = invoke_in(&service, &batch, context_until(deadline)).await.unwrap();
        assert_eq!(failures(&answer), failed, "{name}");
        let done = 2 - failed.len();
        assert_eq!((ran.count(), link.wire.requests().len()), (done, 2 * done), "{name}");
        assert_eq!(failures(&invoke(&service, &batch).await), [""; 0], "{name}");
    }
}

/// Its turn came in time, but not its key.
#[tokio::test]
async fn what_has_its_key_too_late_is_reported_and_not_started() {
    let (store, ran, gate) = (Store::open().await, Ran::default(), Gate::default());
    let clock = LocalClock::default();
    let link = Link::default().clock(clock.clone());
    link.wire.next("PutItem", Act::HoldRequest(gate.clone()));
    let consumer = store.over(&link).sqs("book").deadline_margin(Duration::from_secs(20));
    let service = consumer.handler(noting(&ran)).unwrap();
    let batch = sqs([message("1", "k", "a")]);
    let (answer, ()) = tokio::join!(invoke_in(&service, &batch, context_of(60)), async {
        gate.reached().await;
        clock.advance(45);
        gate.open();
    });
    assert_eq!((failures(&answer.unwrap()), ran.count()), (vec!["1".into()], 0));
    assert!(store.is_released("book#k").await);
    clock.advance(-45);
    let answer = invoke_in(&service, &batch, context_of(60)).await.unwrap();
    assert_eq!((failures(&answer), ran.count()), (vec![], 1));
}

/// A delivery that is too late is none of the attempts that are allowed.
#[tokio::test]
async fn what_has_its_key_too_late_does_not_count_and_makes_nothing_forgotten() {
    let (store, ran) = (Store::open().await, Ran::default());
    let clock = LocalClock::default();
    let link = Link::default().clock(clock.clone());
    let retain = Failure::Retain { max_attempts: 3 };
    let consumer = store.over(&link).sqs("book").policy(|policy| policy.failure(retain));
    let service = consumer.deadline_margin(Duration::from_secs(20)).handler(noting(&ran)).unwrap();
    let batch = sqs([message("1", "k", "fail")]);
    for run in 1..=3 {
        let answer = invoke_in(&service, &batch, context_of(60)).await.unwrap();
        assert_eq!((failures(&answer), ran.count()), (vec!["1".into()], run));
        let gate = Gate::default();
        link.wire.next("UpdateItem", Act::HoldRequest(gate.clone()));
        let (answer, ()) = tokio::join!(invoke_in(&service, &batch, context_of(60)), async {
            if run < 3 {
                gate.reached().await;
            }
            clock.advance(45);
            gate.open();
        });
        assert_eq!((failures(&answer.unwrap()), ran.count()), (vec!["1".into()], run));
        clock.advance(-45);
        assert_eq!(raw::status(&store.record("book#k").await), "FAILED");
    }
    let answer = invoke_in(&service, &batch, context_of(60)).await.unwrap();
    assert_eq!((failures(&answer), ran.count()), (vec!["1".into()], 3));
}
