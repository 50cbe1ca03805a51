//! Deadlines that are over, and deadlines that no invocation can have.

use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::deployment::Deployment;
use crate::dynamodb::unique;
use crate::event::{Kind, Order};
use crate::queue::batch;
use crate::runtime_api::Environment;

const WARNING: &str = "a deadline is more than an hour in the past";
/// As `cargo lambda watch` sends it.
const TEN_MINUTES: Duration = Duration::from_secs(600);

fn ago(seconds: u64) -> SystemTime {
    SystemTime::now() - Duration::from_secs(seconds)
}

#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn an_impossible_deadline_counts_as_none_with_one_warning_for_the_process() {
    let deployment = Deployment::load();
    let environment = Environment::start(&deployment, &deployment.payments(), 1).await;
    let in_1970 = SystemTime::UNIX_EPOCH + TEN_MINUTES;
    for (deadline, status) in [
        (ago(1), 503),
        (ago(3_500), 503),
        (in_1970, 201),
        (SystemTime::UNIX_EPOCH, 201),
        (ago(3_700), 201),
    ] {
        let key = unique("order");
        let order = Order { amount: 1200, source: "tok_visa", note: key.clone() };
        let event = Kind::HttpApi.payment(Some(&key), &order);
        let answer = Kind::HttpApi.response(&environment.invoke_until(event, deadline).await);
        assert_eq!(answer.status, status, "{deadline:?}: {answer:?}");
        assert_eq!(deployment.payments_noted(&key).await.len(), usize::from(status == 201));
    }
    let log = environment.log();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains(WARNING)).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(warnings[0].contains("WARN") && warnings[0].contains("received_ms=600000"), "{log}");
}

#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn a_batch_with_an_impossible_deadline_is_booked_and_one_that_is_late_is_reported() {
    let deployment = Deployment::load();
    let environment = Environment::start(&deployment, &deployment.payment_events(), 1).await;
    let (payment, account) = (unique("pay"), unique("account"));
    let event = batch(&[json!({"payment": payment, "account": account, "amount": 5}).to_string()]);
    let late = environment.invoke_until(event.clone(), ago(1)).await;
    assert_eq!(late, json!({"batchItemFailures": [{"itemIdentifier": "0"}]}));
    let booked = environment.invoke_until(event, SystemTime::UNIX_EPOCH + TEN_MINUTES).await;
    assert_eq!(booked, json!({"batchItemFailures": []}));
    assert_eq!(environment.log().matches(WARNING).count(), 1);
}
