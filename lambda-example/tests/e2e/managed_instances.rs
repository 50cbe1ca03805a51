//! Lambda Managed Instances: one environment that serves eight invocations at once.

use std::time::Duration;

use futures_util::future::join_all;
use lambda_example::Ledger;
use serde_json::{Value, json};

use crate::deployment::{Deployment, number, text};
use crate::dynamodb::unique;
use crate::event::{Kind, Order};
use crate::queue::batch;
use crate::runtime_api::Environment;

const KIND: Kind = Kind::HttpApi;
const CONCURRENCY: usize = 8;
const TIMEOUT: Duration = Duration::from_secs(29);

fn slow_order(note: &str) -> Order {
    Order { amount: 1200, source: "tok_slow", note: note.to_owned() }
}

#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn eight_invocations_of_one_key_at_once_pay_once() {
    let deployment = Deployment::load();
    let environment = Environment::start(&deployment, &deployment.payments(), CONCURRENCY).await;
    let key = unique("order");
    let event = KIND.payment(Some(&key), &slow_order(&key));
    let invocations = (0..CONCURRENCY).map(|_| environment.invoke(event.clone(), TIMEOUT));
    let answers = join_all(invocations).await;
    let answers: Vec<_> = answers.iter().map(|answer| KIND.response(answer)).collect();
    let (paid, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!(paid.iter().filter(|answer| !answer.is_replayed()).count(), 1, "{answers:?}");
    for answer in refused {
        answer.assert_problem(409);
    }
    let repeat = KIND.response(&environment.invoke(event, TIMEOUT).await);
    assert!(repeat.is_replayed(), "{repeat:?}");
    assert_eq!(deployment.payments_noted(&key).await.len(), 1);
    let record = deployment.record(&format!("payments#{key}")).await.expect("a record");
    assert_eq!((text(&record, "status"), number(&record, "attempt")), ("COMPLETED", "1"));
}

#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn eight_keys_at_once_are_all_paid() {
    let deployment = Deployment::load();
    let environment = Environment::start(&deployment, &deployment.payments(), CONCURRENCY).await;
    let note = unique("note");
    let events = (0..CONCURRENCY).map(|_| KIND.payment(Some(&unique("order")), &slow_order(&note)));
    let answers = join_all(events.map(|event| environment.invoke(event, TIMEOUT))).await;
    for answer in answers {
        let answer = KIND.response(&answer);
        assert_eq!((answer.status, answer.is_replayed()), (201, false), "{answer:?}");
    }
    assert_eq!(deployment.payments_noted(&note).await.len(), CONCURRENCY);
}

/// Nothing but the crate stops it: a time-out ends nothing there.
#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn one_that_overruns_its_deadline_is_stopped_while_other_invocations_continue() {
    let deployment = Deployment::load();
    let environment = Environment::start(&deployment, &deployment.payments(), CONCURRENCY).await;
    let (key, note) = (unique("order"), unique("note"));
    let stuck = Order { amount: 1200, source: "tok_stuck", note: key.clone() };
    let stuck = environment.invoke(KIND.payment(Some(&key), &stuck), Duration::from_secs(1));
    // Each pays one order after the other, for longer than the first one's lease.
    let others = (1..CONCURRENCY).map(async |_| {
        for _ in 0..3 {
            let payment = KIND.payment(Some(&unique("order")), &slow_order(&note));
            let answer = KIND.response(&environment.invoke(payment, TIMEOUT).await);
            assert_eq!((answer.status, answer.is_replayed()), (201, false), "{answer:?}");
        }
    });
    let (stopped, _) = tokio::join!(stuck, join_all(others));
    let stopped = KIND.response(&stopped);
    stopped.assert_problem(503);
    assert!(stopped.body.contains("LeaseExpired"), "{stopped:?}");
    assert_eq!(deployment.payments_noted(&note).await.len(), 3 * (CONCURRENCY - 1));
    let record = deployment.record(&format!("payments#{key}")).await.expect("a record");
    assert_eq!(text(&record, "status"), "PENDING", "whether its effect happened is unknown");
    assert!(environment.log().contains("the lease ended while the handler ran"));
    environment.waits_for(CONCURRENCY).await;
}

/// The example's functions run on one thread, which is enough on demand.
#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn a_function_with_one_thread_reports_what_to_change_for_concurrent_invocations() {
    let deployment = Deployment::load();
    for function in [deployment.payments(), deployment.payment_events()] {
        for (concurrency, warnings) in [(1, 0), (CONCURRENCY, 1)] {
            let environment = Environment::start(&deployment, &function, concurrency).await;
            let log = environment.log();
            let warned = log.lines().filter(|line| {
                line.contains("WARN")
                    && line.contains("give the function a multi-thread runtime")
                    && line.contains(&format!("concurrency={concurrency}"))
            });
            assert_eq!(warned.count(), warnings, "{log}");
        }
    }
}

#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn batches_that_come_at_once_are_booked_once() {
    let deployment = Deployment::load();
    let function = deployment.payment_events();
    let environment = Environment::start(&deployment, &function, CONCURRENCY).await;
    let account = unique("account");
    let bodies: Vec<String> = (0..CONCURRENCY)
        .map(|_| json!({"payment": unique("pay"), "account": account, "amount": 5}).to_string())
        .collect();
    let whole: Value = batch(&bodies);
    // A message that another batch is processing is reported and redelivered.
    let mut is_done = false;
    for _ in 0..100 {
        let batches = (0..CONCURRENCY).map(|_| environment.invoke(whole.clone(), TIMEOUT));
        let answers = join_all(batches).await;
        is_done = answers.iter().all(|answer| *answer == json!({"batchItemFailures": []}));
        if is_done {
            break;
        }
    }
    assert!(is_done, "messages are reported for ever");
    let ledger = Ledger::new(deployment.client(), deployment.table("LedgerTable"));
    let entries = ledger.entries().await.expect("the ledger");
    let booked = entries.iter().filter(|entry| entry.account == account).count();
    assert_eq!(booked, CONCURRENCY);
}
