//! The model store against a real engine: all that random schedules asked of the one is asked of
//! the other, in the same order, and must be answered alike. The engine is the embedded one, or
//! DynamoDB Local at `DYNAMODB_ENDPOINT`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::random::run_seed;
use crate::store::Operation;
use crate::world::{self, Exchange};

const SCHEDULES: u64 = 300;

#[test]
fn the_model_answers_as_the_engine_does() {
    let schedules: Vec<Vec<Exchange>> =
        (0..SCHEDULES).map(|seed| world::exchanges(|| drop(run_seed(seed)))).collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let compared = runtime.block_on(compare(schedules));
    assert!(compared.refused > 500 && compared.executed > 500, "{compared:?}");
    println!("differential: {compared:?}");
}

#[derive(Debug, Default)]
struct Compared {
    executed: u32,
    refused: u32,
}

async fn compare(schedules: Vec<Vec<Exchange>>) -> Compared {
    let engine = Engine::open().await;
    let mut compared = Compared::default();
    for schedule in schedules {
        let keys: BTreeSet<String> = schedule.iter().flat_map(|it| keys(&it.request)).collect();
        for exchange in schedule {
            let (status, body) = engine.ask(exchange.operation.target(), &exchange.request).await;
            let expected = (exchange.status, essence(&exchange.response));
            assert_eq!((status, essence(&body)), expected, "{:?}", exchange.request);
            *(if status == 200 { &mut compared.executed } else { &mut compared.refused }) += 1;
        }
        for key in keys {
            let request = json!({ "TableName": "", "Key": { "pk": { "S": key } } });
            engine.ask(Operation::Delete.target(), &request).await;
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

/// A request's only part, or those of a transaction.
fn parts(request: &Value) -> impl Iterator<Item = &Value> {
    let items = request["TransactItems"].as_array();
    let of_items = items.into_iter().flatten().filter_map(|item| item.as_object()?.values().next());
    std::iter::once(request).chain(of_items)
}

/// What the crate reads of a response: the error's name, the item, and a transaction's reasons.
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
        let endpoint = std::env::var("DYNAMODB_ENDPOINT").unwrap_or_default();
        let address = match endpoint.strip_prefix("http://") {
            Some(address) => address.trim_end_matches('/').to_owned(),
            None => embedded().await,
        };
        let table = format!("faults-{}", std::process::id());
        let engine = Self { address, table };
        let definition = json!({
            "TableName": "",
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{ "AttributeName": "pk", "AttributeType": "S" }],
            "KeySchema": [{ "AttributeName": "pk", "KeyType": "HASH" }],
        });
        let (status, body) = engine.ask("DynamoDB_20120810.CreateTable", &definition).await;
        assert_eq!(status, 200, "{body}");
        engine
    }

    /// One request as the SDK sends it, but for its tables, which are all the same one here, and
    /// for the token of a transaction, which the model does not look at.
    async fn ask(&self, target: &str, request: &Value) -> (u16, Value) {
        let mut request = request.clone();
        request.as_object_mut().map(|request| request.remove("ClientRequestToken"));
        // What the model shows then is no more than what an engine may.
        if let Some(consistent) = request.get_mut("ConsistentRead") {
            *consistent = Value::Bool(true);
        }
        self.name_table(&mut request);
        let request = request.to_string();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-amz-json-1.0\r\n\
             X-Amz-Target: {target}\r\nX-Amz-Date: 20300101T000000Z\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=k/20300101/us-east-1/dynamodb/aws4_request, \
             SignedHeaders=host;x-amz-date;x-amz-target, Signature=0\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            request.len()
        );
        let mut stream = TcpStream::connect(&self.address).await.expect("the engine is there");
        stream.write_all(head.as_bytes()).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it listens");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("it answers");
        let (head, body) = response.split_once("\r\n\r\n").expect("it answers in HTTP");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        // Whether in chunks or not, the JSON is one line between braces.
        let json = body.find('{').zip(body.rfind('}')).map(|(start, end)| &body[start..=end]);
        let json = serde_json::from_str(json.expect("it answers in JSON"));
        (status.expect("it has a status"), json.unwrap_or_else(|wrong| panic!("{body}: {wrong}")))
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

async fn embedded() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let database = dynoxide::Database::memory().expect("memory is there");
    tokio::spawn(dynoxide::server::serve_on(listener, database));
    address
}
