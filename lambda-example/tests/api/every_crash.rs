//! What the handlers promise if their process crashes anywhere.

use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::lambda::LambdaResponse;
use dynamodb_idempotency::testing::{Process, World, every_crash};
use lambda_example::{Ledger, Payments, book, payment_events, service};
use lambda_http::http::{Request, StatusCode};
use lambda_http::lambda_runtime::{Context, LambdaEvent};
use lambda_http::{Body, Service};
use serde_json::{Value, json};

/// The table of payments, accounts and charges.
const PAYMENTS: &str = "payments";

async fn create_payments(world: &World) {
    Payments::new(world.client(), PAYMENTS).create_table().await.expect("a table");
}

async fn post(process: Process, path: &str, body: &str) -> StatusCode {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .header("idempotency-key", "k")
        .body(Body::from(body.to_owned()))
        .expect("a request");
    let payments = Payments::new(process.client(), PAYMENTS);
    let mut service = service(&process.idempotency(), payments).expect("valid settings");
    service.call(request).await.map(LambdaResponse::into_inner).expect("a response").status()
}

/// The `id` and the balance, if there is one, of everything in the table.
async fn stored(world: &World) -> Vec<(String, Option<String>)> {
    let scan = world.client().scan().table_name(PAYMENTS).send().await.expect("a table");
    let text = |value: &AttributeValue| value.as_s().or(value.as_n()).ok().cloned();
    let items = scan.items().iter();
    let mut stored: Vec<_> = items
        .map(|item| (text(&item["id"]).expect("an id"), item.get("balance").and_then(text)))
        .collect();
    stored.sort_unstable();
    stored
}

const ORDER: &str = r#"{"amount":1200,"currency":"eur","source":"tok_visa"}"#;

#[test]
fn a_payment_is_made_once_wherever_the_function_crashes() {
    every_crash(async |world: World| {
        create_payments(&world).await;
        let status = world.call(async |process| post(process, "/payments", ORDER).await).await;
        assert_eq!(status, StatusCode::CREATED);
        assert_eq!(stored(&world).await.len(), 1);
    });
}

#[test]
fn a_charge_is_made_once_wherever_the_function_crashes() {
    every_crash(async |world: World| {
        create_payments(&world).await;
        let status = world.call(async |process| post(process, "/charges", ORDER).await).await;
        assert_eq!(status, StatusCode::CREATED);
        assert_eq!(stored(&world).await.len(), 1);
    });
}

#[test]
fn a_transfer_is_made_once_wherever_the_function_crashes() {
    every_crash(async |world: World| {
        create_payments(&world).await;
        let body = r#"{"from":"alice","to":"bob","amount":400}"#;
        let status = world.call(async |process| post(process, "/transfers", body).await).await;
        assert_eq!(status, StatusCode::CREATED);
        let account = |name: &str, balance: &str| (name.to_owned(), Some(balance.to_owned()));
        assert_eq!(stored(&world).await, [account("alice", "9600"), account("bob", "10400")]);
    });
}

#[test]
fn two_clicks_at_once_make_one_payment_at_whatever_moment() {
    every_crash(async |world: World| {
        create_payments(&world).await;
        let click = async |process| post(process, "/payments", ORDER).await;
        let (first, second) = world.race(click, click).await;
        for status in [first, second] {
            assert!([StatusCode::CREATED, StatusCode::CONFLICT].contains(&status), "{status}");
        }
        assert!([first, second].contains(&StatusCode::CREATED));
        assert_eq!(stored(&world).await.len(), 1);
    });
}

/// Delivers two messages; the queue delivers those again that are reported.
async fn deliver(idempotency: &Idempotency, ledger: Ledger) {
    let handler = move |message, execution| book(ledger.clone(), message, execution);
    let mut consumer = payment_events(idempotency).handler(handler).expect("valid settings");
    let mut messages = vec![message("pay-1", 1200), message("pay-2", -200)];
    while !messages.is_empty() {
        let event = JsonEvent::of(&json!({"Records": messages})).expect("an event");
        let response = consumer.call(LambdaEvent::new(event, Context::default())).await;
        let reported = response.expect("a response").batch_item_failures;
        let reported: Vec<_> = reported.iter().map(ToString::to_string).collect();
        let id = |message: &Value| message["messageId"].as_str().map(str::to_owned);
        messages.retain(|message| id(message).is_some_and(|id| reported.contains(&id)));
    }
}

fn message(payment: &str, amount: i64) -> Value {
    let body = json!({"payment": payment, "account": "a", "amount": amount}).to_string();
    json!({"messageId": payment, "body": body, "eventSource": "aws:sqs"})
}

#[test]
fn a_batch_is_booked_once_wherever_the_consumer_crashes() {
    every_crash(async |world: World| {
        let ledger = Ledger::new(world.client(), "ledger");
        ledger.create_table().await.expect("a table");
        world
            .call(async |process| {
                deliver(&process.idempotency(), Ledger::new(process.client(), "ledger")).await;
            })
            .await;
        let entries = ledger.entries().await.expect("the ledger");
        let mut booked: Vec<_> =
            entries.iter().map(|entry| (entry.payment.as_str(), entry.amount)).collect();
        booked.sort_unstable();
        assert_eq!(booked, [("pay-1", 1200), ("pay-2", -200)]);
    });
}
