//! What `POST /charges` promises: the handler in this very process, so that it can vanish.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::mpsc::channel;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::{Idempotency, lambda::LambdaResponse};
use lambda_example::{Payments, service};
use lambda_http::http::Request;
use lambda_http::{Body, Response, Service};

use crate::dynamodb::{client, endpoint, unique};

type Item = HashMap<String, AttributeValue>;

struct Site {
    dynamodb: Client,
    idempotency: Idempotency,
    records: String,
    ledger: String,
}

impl Site {
    async fn open() -> Self {
        let dynamodb = client(&endpoint().await);
        let (records, ledger) = (unique("idempotency"), unique("payments"));
        let idempotency = Idempotency::new(dynamodb.clone(), &records);
        idempotency.create_table().await.expect("a table");
        Payments::new(dynamodb.clone(), &ledger).create_table().await.expect("a table");
        Self { dynamodb, idempotency, records, ledger }
    }

    async fn charge(&self, source: &str) -> Response<Body> {
        let payments = Payments::new(self.dynamodb.clone(), &self.ledger);
        let body = format!(r#"{{"amount":1200,"currency":"eur","source":"{source}"}}"#);
        let request = Request::post("/charges")
            .header("content-type", "application/json")
            .header("idempotency-key", "k")
            .body(Body::from(body))
            .expect("a request");
        let mut service = service(&self.idempotency, payments).expect("valid settings");
        let called = service.call(request).await;
        called.map(LambdaResponse::into_inner).expect("a response")
    }

    /// The charges that the network has made.
    async fn made(&self) -> Vec<Item> {
        let scan = self.dynamodb.scan().table_name(&self.ledger).consistent_read(true);
        scan.send().await.expect("a table").items.unwrap_or_default()
    }

    async fn record(&self) -> Item {
        let scan = self.dynamodb.scan().table_name(&self.records).consistent_read(true);
        let items = scan.send().await.expect("a table").items.unwrap_or_default();
        items.into_iter().next().expect("a record")
    }
}

fn text(response: &Response<Body>) -> &str {
    std::str::from_utf8(response.body()).expect("text")
}

#[tokio::test]
async fn a_crash_after_the_charge_does_not_charge_twice() {
    let site = Site::open().await;
    assert_eq!(site.charge("tok_crash").await.status(), 500);
    assert_eq!(site.record().await["status"], AttributeValue::S("FAILED".into()));
    let again = site.charge("tok_crash").await;
    assert_eq!(again.status(), 201);
    let replay = site.charge("tok_crash").await;
    assert_eq!((replay.status(), text(&replay)), (again.status(), text(&again)));
    assert_eq!(site.made().await.len(), 1);
}

#[tokio::test]
async fn a_charge_is_found_whose_function_vanished_before_it_could_tell() {
    let site = Site::open().await;
    {
        // Until it has vanished no time passes, however slow the machine is: the answer waits for time.
        tokio::time::pause();
        let (end, ended) = channel::<()>();
        let standstill = tokio::task::spawn_blocking(move || ended.recv());
        let mut vanishing = pin!(site.charge("tok_slow"));
        let charged = async { while site.made().await.is_empty() {} };
        tokio::select! {
            answer = &mut vanishing => panic!("it answered: {answer:?}"),
            () = charged => {}
        }
        drop(end);
        standstill.await.expect("it ends").expect_err("the sender was dropped");
        tokio::time::resume();
    }
    let mut record = site.record().await;
    assert_eq!(
        (record["status"].clone(), record.get("steps")),
        (AttributeValue::S("PENDING".into()), None)
    );
    record.insert("lease_expires_at".into(), AttributeValue::N("1".into()));
    let put = site.dynamodb.put_item().table_name(&site.records).set_item(Some(record));
    put.send().await.expect("a table");

    let found = site.charge("tok_slow").await;
    assert_eq!(found.status(), 201);
    let made = site.made().await;
    assert_eq!(made.len(), 1);
    let id = made[0]["charge"].as_s().expect("an id");
    assert!(text(&found).contains(id), "{}", text(&found));
    // The network was asked; the handler did not run.
    let record = site.record().await;
    assert_eq!(record["attempt"], AttributeValue::N("1".into()));
    assert_eq!(record["status"], AttributeValue::S("COMPLETED".into()));
}

#[tokio::test]
async fn a_declined_charge_is_an_answer_that_is_stored() {
    let site = Site::open().await;
    let declined = site.charge("tok_declined").await;
    let again = site.charge("tok_declined").await;
    assert_eq!((declined.status().as_u16(), again.status().as_u16()), (402, 402));
    assert_eq!(text(&declined), text(&again));
}
