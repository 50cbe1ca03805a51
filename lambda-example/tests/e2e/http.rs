//! Each way for an HTTP request to reach the payments API.

use aws_sdk_dynamodb::types::TimeToLiveStatus;

use crate::deployment::{Deployment, number, text};
use crate::dynamodb::unique;
use crate::emulator::Emulator;
use crate::event::{Kind, Order};

/// First run, replay, mismatch, no key.
async fn pays_once(kind: Kind) {
    let deployment = Deployment::load();
    let emulator = Emulator::start(&deployment, &deployment.payments()).await;
    let key = unique("order");
    let order = Order { amount: 1200, source: "tok_visa", note: key.clone() };
    let send = async |key: Option<&str>, order: &Order| {
        kind.response(&emulator.invoke(&kind.payment(key, order)).await)
    };

    let first = send(Some(&key), &order).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert!(!first.is_replayed(), "{first:?}");
    for _ in 0..2 {
        send(Some(&key), &order).await.assert_replay_of(&first);
    }
    send(Some(&key), &Order { amount: 1300, ..order.clone() }).await.assert_problem(422);
    send(None, &order).await.assert_problem(400);

    assert_eq!(deployment.payments_noted(&order.note).await.len(), 1);
    let record = deployment.record(&format!("payments#{key}")).await.expect("a record");
    assert_eq!((text(&record, "status"), number(&record, "attempt")), ("COMPLETED", "1"));
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_request_by_a_rest_api_pays_once() {
    pays_once(Kind::Rest).await;
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_request_by_an_http_api_pays_once() {
    pays_once(Kind::HttpApi).await;
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_request_by_a_function_url_pays_once() {
    pays_once(Kind::FunctionUrl).await;
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_request_by_a_load_balancer_pays_once() {
    pays_once(Kind::Alb).await;
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_request_by_a_load_balancer_with_multi_value_headers_pays_once() {
    pays_once(Kind::AlbMultiValue).await;
}

/// The template's time to live is on an attribute that the records have.
#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn the_table_deletes_by_an_attribute_of_the_records() {
    let deployment = Deployment::load();
    let emulator = Emulator::start(&deployment, &deployment.payments()).await;
    let key = unique("order");
    let order = Order { amount: 1200, source: "tok_visa", note: key.clone() };
    emulator.invoke(&Kind::HttpApi.payment(Some(&key), &order)).await;

    let table = deployment.table("IdempotencyTable");
    let described = deployment.client().describe_time_to_live().table_name(table).send().await;
    let described = described.expect("a table").time_to_live_description.expect("a description");
    assert_eq!(described.time_to_live_status, Some(TimeToLiveStatus::Enabled));
    let attribute = described.attribute_name.expect("an attribute");
    let record = deployment.record(&format!("payments#{key}")).await.expect("a record");
    let seconds: u64 = number(&record, &attribute).parse().expect("epoch seconds");
    let completed: u64 = number(&record, "completed_at").parse().expect("epoch milliseconds");
    assert!(seconds > completed / 1000, "{record:?}");
}
