//! The Lambda binary itself, behind a Runtime API of the test's own.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::types::AttributeValue;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use dynamodb_idempotency::{Idempotency, TableSchema};
use lambda_example::Payments;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, mpsc};

use crate::dynamodb::{client, endpoint, unique};

/// The side of the Runtime API that the Lambda service has.
struct RuntimeApi {
    events: Mutex<mpsc::Receiver<Value>>,
    answers: mpsc::Sender<Value>,
}

async fn next(State(api): State<Arc<RuntimeApi>>) -> impl IntoResponse {
    let event = api.events.lock().await.recv().await.unwrap_or_default();
    let deadline = SystemTime::now() + Duration::from_secs(30);
    let millis = deadline.duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_millis();
    let headers = [
        ("lambda-runtime-aws-request-id", unique("request")),
        ("lambda-runtime-deadline-ms", millis.to_string()),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:1:function:f".into()),
    ];
    (headers, event.to_string())
}

async fn answer(
    State(api): State<Arc<RuntimeApi>>,
    Path((_, _)): Path<(String, String)>,
    body: String,
) -> StatusCode {
    let answer = serde_json::from_str(&body).expect("a JSON answer");
    api.answers.send(answer).await.expect("a test that listens");
    StatusCode::ACCEPTED
}

pub struct Function {
    events: mpsc::Sender<Value>,
    answers: mpsc::Receiver<Value>,
    endpoint: String,
    table: String,
    /// Killed when it is dropped.
    _process: Child,
}

impl Function {
    /// The payments API.
    async fn start() -> Self {
        let (endpoint, payments) = (endpoint().await, unique("payments"));
        let client = client(&endpoint);
        Payments::new(client, &payments).create_table().await.expect("a table");
        let variable = ("PAYMENTS_TABLE", payments.as_str());
        Self::of(env!("CARGO_BIN_EXE_payments"), variable, endpoint).await
    }

    /// A Lambda binary with a business table, whose name is in an environment variable.
    pub async fn of(program: &str, business: (&str, &str), endpoint: String) -> Self {
        let table = unique("idempotency");
        let idempotency = Idempotency::new(client(&endpoint), &table);
        idempotency.create_table().await.expect("a table");
        Self::on_table(program, business, endpoint, table).await
    }

    /// As [`of`](Self::of), with an idempotency table that is there already.
    async fn on_table(
        program: &str,
        business: (&str, &str),
        endpoint: String,
        table: String,
    ) -> Self {
        let (events, receiver) = mpsc::channel(1);
        let (sender, answers) = mpsc::channel(1);
        let api = Arc::new(RuntimeApi { events: Mutex::new(receiver), answers: sender });
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/{kind}", post(answer))
            .with_state(api);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("its address");
        tokio::spawn(async { axum::serve(listener, router).await });

        let process = Command::new(program)
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", "payments")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_ENDPOINT_URL_DYNAMODB", &endpoint)
            .env("IDEMPOTENCY_TABLE", &table)
            .env(business.0, business.1)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the Lambda binary");
        Self { events, answers, endpoint, table, _process: process }
    }

    pub async fn invoke(&mut self, event: Value) -> Value {
        self.events.send(event).await.expect("a function that asks for events");
        let answer = tokio::time::timeout(Duration::from_secs(60), self.answers.recv());
        answer.await.expect("an answer in time").expect("an answer")
    }

    pub async fn record(&self, pk: &str) -> HashMap<String, AttributeValue> {
        let found = client(&self.endpoint)
            .get_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S(pk.into()))
            .consistent_read(true)
            .send()
            .await
            .expect("a table");
        found.item.expect("a record")
    }
}

/// An event of an HTTP API (payload format 2.0) on the stage `prod`.
fn event(key: &str, body: &str) -> Value {
    json!({
        "version": "2.0",
        "routeKey": "POST /payments",
        "rawPath": "/prod/payments",
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "idempotency-key": key},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "api",
            "domainName": "api.example.com",
            "domainPrefix": "api",
            "http": {
                "method": "POST",
                "path": "/prod/payments",
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "test"
            },
            "requestId": "id",
            "routeKey": "POST /payments",
            "stage": "prod",
            "time": "21/Nov/2026:10:00:00 +0000",
            "timeEpoch": 1_795_255_200_000_u64
        },
        "body": body,
        "isBase64Encoded": false
    })
}

const ORDER: &str = r#"{"amount": 1200, "currency": "eur", "source": "tok_visa"}"#;

#[tokio::test]
async fn the_function_pays_once_and_replays() {
    let mut function = Function::start().await;
    let first = function.invoke(event("k", ORDER)).await;
    assert_eq!(first["statusCode"], 201, "{first}");
    assert_eq!(first["cookies"], json!(["visits=1"]));

    let reformatted = ORDER.replace(' ', "");
    let again = function.invoke(event("k", &reformatted)).await;
    assert_eq!(again["statusCode"], 201);
    assert_eq!(again["body"], first["body"]);
    assert_eq!(again["headers"]["idempotency-replayed"], "true");
    assert_eq!(again["cookies"], json!([]));

    let other = function.invoke(event("k", &ORDER.replace("1200", "1300"))).await;
    assert_eq!(other["statusCode"], 422);

    let record = function.record("payments#k").await;
    assert_eq!(record["status"], AttributeValue::S("COMPLETED".into()));
}

#[tokio::test]
async fn a_panic_of_the_handlers_is_a_500_and_frees_the_key() {
    let mut function = Function::start().await;
    let crash = ORDER.replace("tok_visa", "tok_crash");
    assert_eq!(function.invoke(event("k", &crash)).await["statusCode"], 500);
    assert_eq!(function.invoke(event("k", ORDER)).await["statusCode"], 201);
}

/// What a Lambda binary says at its start, line by line, when it ends then and there.
async fn refusal(program: &str, business: &str, endpoint: &str, table: &str) -> Vec<String> {
    let run = Command::new(program)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
        .env("AWS_LAMBDA_LOG_LEVEL", "info")
        .env("IDEMPOTENCY_TABLE", table)
        .env(business, "business")
        .kill_on_drop(true)
        .output();
    let run = tokio::time::timeout(Duration::from_secs(60), run).await;
    let output = run.expect("it ends").expect("an ending");
    assert!(!output.status.success());
    let lines = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&lines).lines().map(str::to_owned).collect()
}

const FUNCTIONS: [(&str, &str); 2] = [
    (env!("CARGO_BIN_EXE_payments"), "PAYMENTS_TABLE"),
    (env!("CARGO_BIN_EXE_payment-events"), "LEDGER_TABLE"),
];

#[tokio::test]
async fn a_function_with_a_wrong_table_says_so_in_one_line_and_stops() {
    let endpoint = endpoint().await;
    let (missing, other) = (unique("missing"), unique("other"));
    let schema = TableSchema::default().partition_key("id");
    let builder = Idempotency::builder(client(&endpoint), &other).schema(schema);
    builder.build().expect("right settings").create_table().await.expect("a table");
    for (program, business) in FUNCTIONS {
        for (table, message) in [
            (&missing, "does not exist in this account and region"),
            (&other, "compare its key attributes"),
        ] {
            let lines = refusal(program, business, &endpoint, table).await;
            let [line] = &lines[..] else { panic!("one line: {lines:?}") };
            assert!(line.contains(message) && line.contains(table.as_str()), "{line}");
        }
    }
}

#[tokio::test]
async fn a_function_without_its_settings_says_which_one_is_missing() {
    for (given, missing) in
        [("PAYMENTS_TABLE", "IDEMPOTENCY_TABLE"), ("IDEMPOTENCY_TABLE", "PAYMENTS_TABLE")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_payments"))
            .env_remove(missing)
            .env(given, "t")
            .output()
            .await
            .expect("an ending");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(missing), "{error}");
    }
}
