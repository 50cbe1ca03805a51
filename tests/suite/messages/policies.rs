//! Attempts across deliveries, waiting, takeovers and outages.

use std::time::Duration;

use dynamodb_idempotency::messages::events::sqs::SqsMessage;
use dynamodb_idempotency::messages::{FailureAction, Message};
use dynamodb_idempotency::policy::{Completed, Failure, InProgress, Outage, Takeover, Unconfirmed};
use dynamodb_idempotency::{Execution, Fingerprint};
use lambda_runtime::Diagnostic;

use super::function::{Ran, context_of, failures, holding, invoke, invoke_in, noting};
use super::queue::{fifo, message, sqs};
use crate::support::listener::Listener;
use crate::support::{Act, Gate, Link, Store, raw};

#[tokio::test]
async fn attempts_are_counted_across_deliveries_and_then_given_up() {
    let retain = Failure::Retain { max_attempts: 3 };
    for (disposal, last) in
        [(FailureAction::Report, vec!["1", "2"]), (FailureAction::Acknowledge, vec![])]
    {
        let (store, ran) = (Store::open().await, Ran::default());
        let (note, seen) = (noting(&ran), Ran::default());
        let attempts = seen.clone();
        let handler = move |message: Message<SqsMessage>, execution: Execution| {
            attempts.add(execution.attempt().to_string());
            note(message, execution)
        };
        let consumer = store.idempotency().sqs("book").policy(|policy| policy.failure(retain));
        let service = consumer.on_exhausted(disposal).handler(handler).unwrap();
        let batch = sqs([fifo("g", "1", "fail"), fifo("g", "2", "b")]);
        for _ in 0..3 {
            assert_eq!(failures(&invoke(&service, &batch).await), ["1", "2"]);
        }
        assert_eq!(
            (ran.all(), seen.all()),
            (vec!["fail".into(); 3], ["1", "2", "3"].map(Into::into).into())
        );
        assert_eq!(failures(&invoke(&service, &batch).await), last);
        let record = store.record("book#1").await;
        assert_eq!((raw::status(&record), raw::number(&record, "attempt")), ("FAILED", 3));
        // Acknowledged, it lets its group go on.
        let expected = if disposal == FailureAction::Acknowledge { 4 } else { 3 };
        assert_eq!(ran.count(), expected);
    }
}

#[tokio::test]
async fn a_message_can_wait_for_the_one_that_runs_elsewhere() {
    let (store, ran) = (Store::open().await, Ran::default());
    let gate = Gate::default();
    let elsewhere = store.idempotency().sqs("book").handler(holding(&gate)).unwrap();
    let link = Link::default();
    let wait = InProgress::Wait { timeout: Duration::from_secs(20) };
    let waiting = store.over(&link).sqs("book").policy(|policy| policy.in_progress(wait));
    let waiting = waiting.handler(noting(&ran)).unwrap();
    let looked = Gate::default();
    link.wire.next("GetItem", Act::HoldResponse(looked.clone()));
    let batch = sqs([message("1", "k", "a")]);
    let (first, (second, ())) = tokio::join!(invoke(&elsewhere, &batch), async {
        gate.reached().await;
        tokio::join!(invoke(&waiting, &batch), async {
            looked.reached().await;
            looked.open();
            gate.open();
        })
    });
    assert_eq!((failures(&first), failures(&second), ran.count()), (vec![], vec![], 0));
}

#[tokio::test]
async fn a_message_of_a_dead_owner_is_taken_over_or_left_alone() {
    for (takeover, failed, runs) in
        [(Takeover::Execute, vec![], 1), (Takeover::Reject, vec!["1"], 0)]
    {
        let (store, ran) = (Store::open().await, Ran::default());
        store.put(raw::abandoned("book#k")).await;
        let consumer = store.idempotency().sqs("book").policy(|policy| policy.takeover(takeover));
        let consumer = consumer.fingerprint(|_| Fingerprint::builder().finish());
        let service = consumer.handler(noting(&ran)).unwrap();
        let answer = invoke(&service, &sqs([message("1", "k", "a")])).await;
        assert_eq!(failures(&answer), failed, "{takeover:?}");
        assert_eq!(ran.count(), runs, "{takeover:?}");
    }
}

#[tokio::test]
async fn a_message_whose_success_releases_its_key_runs_again() {
    let (store, ran) = (Store::open().await, Ran::default());
    let consumer =
        store.idempotency().sqs("book").policy(|policy| policy.completed(Completed::Release));
    let service = consumer.handler(noting(&ran)).unwrap();
    for _ in 0..3 {
        assert_eq!(failures(&invoke(&service, &sqs([message("1", "k", "a")])).await), [""; 0]);
    }
    assert_eq!(ran.count(), 3);
    let record = store.record("book#k").await;
    assert_eq!((raw::status(&record), raw::number(&record, "attempt")), ("RELEASED", 3));
}

#[tokio::test]
async fn an_outage_policy_that_is_open_runs_messages_without_a_record() {
    let (store, link, ran) = (Store::open().await, Link::without_retries(), Ran::default());
    let consumer = store.over(&link).sqs("book").policy(|policy| policy.outage(Outage::Open));
    let service = consumer.handler(noting(&ran)).unwrap();
    link.wire.down(Act::LoseRequest);
    assert_eq!(failures(&invoke(&service, &sqs([message("1", "k", "a")])).await), [""; 0]);
    assert_eq!(ran.count(), 1);
}

/// The handler has said `Ok`: to report it would invite the second effect, unless the user wants to
/// know.
#[tokio::test]
async fn an_unconfirmed_completion_is_done_unless_the_policy_says_otherwise() {
    for (unconfirmed, failed) in [(Unconfirmed::Answer, vec![]), (Unconfirmed::Error, vec!["1"])] {
        let (store, link, ran) = (Store::open().await, Link::without_retries(), Ran::default());
        let consumer = store.over(&link).sqs("book").policy(|policy| {
            policy.unconfirmed(unconfirmed).completion_timeout(Duration::from_millis(200))
        });
        let (wire, noted) = (link.wire.clone(), ran.clone());
        let service = consumer
            .handler(move |_: Message<SqsMessage>, _| {
                noted.add("a");
                wire.down(Act::LoseRequest);
                async { Ok::<_, String>(()) }
            })
            .unwrap();
        let answer = invoke(&service, &sqs([message("1", "k", "a")])).await;
        assert_eq!(failures(&answer), failed);
        assert_eq!(ran.count(), 1);
    }
}

#[tokio::test]
async fn a_reported_message_has_a_line_with_the_kind_and_only_a_batch_an_error_type() {
    let (store, link, listener) = (Store::open().await, Link::without_retries(), Listener::start());
    let consumer = || store.over(&link).sqs("book");
    let whole = consumer().report_batch().handler(noting(&Ran::default())).unwrap();
    let each = consumer().handler(noting(&Ran::default())).unwrap();
    link.wire.down(Act::LoseRequest);
    let batch = sqs([message("1", "k", "a")]);
    assert_eq!(failures(&invoke(&each, &batch).await), ["1"]);
    let [event] = &listener.logged("a message failed")[..] else { panic!("one event") };
    assert!(event.get("error").contains("(Unavailable)"), "{event:?}");
    let failed = invoke_in(&whole, &batch, context_of(30)).await.unwrap_err();
    assert_eq!(Diagnostic::from(failed).error_type, "Messages.Failed");
}
