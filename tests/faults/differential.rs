//! Compares the model store with a real engine. All requests of random schedules are sent to the engine in
//! the same order, and the responses must match. The engine is the embedded one, or DynamoDB Local at
//! `DYNAMODB_ENDPOINT`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::random::run_seed;
use crate::store::Operation;
use crate::world::{self, Exchange};

const SCHEDULES: u64 = 300;

#[test]
fn the_model_store_responds_as_the_engine_does() {
    let schedules: Vec<Vec<Exchange>> =
        (0..SCHEDULES).map(|seed| world::exchanges(|| drop(run_seed(seed)))).collect();
    let runtime = tokio::runtime::Runtime::new().expect("the runtime starts");
    let compared = runtime.block_on(compare(schedules));
    assert!(compared.rejected > 500 && compared.executed > 500, "{compared:?}");
    println!("differential: {compared:?}");
}

#[derive(Debug, Default)]
struct Compared {
    executed: u32,
    rejected: u32,
}

async fn compare(schedules: Vec<Vec<Exchange>>) -> Compared {
    let engine = Engine::open().await;
    let mut compared = Compared::default();
    for schedule in schedules {
        let keys: BTreeSet<String> = schedule.iter().flat_map(|it| keys(&it.request)).collect();
        for exchange in schedule {
            let (status, body) = engine.send(exchange.operation.name(), &exchange.request).await;
            let expected = (exchange.status, essence(&exchange.response));
            assert_eq!((status, essence(&body)), expected, "{:?}", exchange.request);
            *(if status == 200 { &mut compared.executed } else { &mut compared.rejected }) += 1;
        }
        for key in keys {
            let request = json!({ "TableName": "", "Key": { "pk": { "S": key } } });
            engine.send(Operation::Delete.name(), &request).await;
        }
    }
    compared
}

/// The keys of all items that a request names.
fn keys(request: &Value) -> Vec<String> {
    parts(request)
        .filter_map(|part| {
            let holder = part.get("Item").or_else(|| part.get("Key"))?;
            holder["pk"]["S"].as_str().map(String::from)
        })
        .collect()
}

/// The single write or read of a request, or the items of a transaction.
fn parts(request: &Value) -> impl Iterator<Item = &Value> {
    let items = request["TransactItems"].as_array();
    let of_items = items.into_iter().flatten().filter_map(|item| item.as_object()?.values().next());
    std::iter::once(request).chain(of_items)
}

/// The parts of a response that the crate reads: the error name, the item, and the cancellation reasons.
fn essence(body: &Value) -> (Option<String>, Option<Value>, Option<Value>) {
    let name = body["__type"].as_str().and_then(|name| name.rsplit('#').next());
    let mut reasons = body.get("CancellationReasons").cloned();
    for reason in reasons.iter_mut().filter_map(Value::as_array_mut).flatten() {
        reason.as_object_mut().map(|reason| reason.remove("Message"));
    }
    (name.map(String::from), body.get("Item").cloned(), reasons)
}

struct Engine {
    address: String,
    table: String,
}

impl Engine {
    async fn open() -> Self {
        let endpoint = test_support::endpoint().await;
        let address = endpoint.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let table = format!("faults-{}", std::process::id());
        let engine = Self { address, table };
        let definition = json!({
            "TableName": "",
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{ "AttributeName": "pk", "AttributeType": "S" }],
            "KeySchema": [{ "AttributeName": "pk", "KeyType": "HASH" }],
        });
        let (status, body) = engine.send("CreateTable", &definition).await;
        assert_eq!(status, 200, "{body}");
        engine
    }

    /// Sends one request as the SDK does, except for two things: all tables are one table here, and the
    /// token of a transaction is removed, because the model ignores it.
    async fn send(&self, operation: &str, request: &Value) -> (u16, Value) {
        let mut request = request.clone();
        request.as_object_mut().map(|request| request.remove("ClientRequestToken"));
        // The recorded reads returned the latest item. An eventually consistent one could return another.
        if let Some(consistent) = request.get_mut("ConsistentRead") {
            *consistent = Value::Bool(true);
        }
        self.name_table(&mut request);
        let request = request.to_string();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-amz-json-1.0\r\n\
             X-Amz-Target: DynamoDB_20120810.{operation}\r\nX-Amz-Date: 20300101T000000Z\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=k/20300101/us-east-1/dynamodb/aws4_request, \
             SignedHeaders=host;x-amz-date;x-amz-target, Signature=0\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            request.len()
        );
        let mut stream =
            TcpStream::connect(&self.address).await.expect("the engine accepts connections");
        stream.write_all(head.as_bytes()).await.expect("the engine reads the request");
        stream.write_all(request.as_bytes()).await.expect("the engine reads the request");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("the engine responds");
        let (head, body) = response.split_once("\r\n\r\n").expect("the response is HTTP");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        // With and without chunked encoding, the JSON is one line between braces.
        let json = body.find('{').zip(body.rfind('}')).map(|(start, end)| &body[start..=end]);
        let json = serde_json::from_str(json.expect("the response is JSON"));
        (
            status.expect("the response has a status"),
            json.unwrap_or_else(|wrong| panic!("{body}: {wrong}")),
        )
    }

    fn name_table(&self, request: &mut Value) {
        match request {
            Value::Object(members) => {
                for (name, value) in members {
                    if name == "TableName" {
                        *value = Value::from(self.table.as_str());
                    } else {
                        self.name_table(value);
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.name_table(value)),
            _ => {}
        }
    }
}
