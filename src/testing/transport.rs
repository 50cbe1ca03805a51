//! DynamoDB in the process, without a socket: an HTTP client of the SDK whose requests a
//! [`Network`] carries to the embedded engine.
//!
//! The network decides what happens to a request before and after the engine executes it: it can
//! hold, lose or repeat the request, or lose the response. Time is a [`VirtualClock`], which the
//! engine, the `Date` of responses and the SDK share.
//!
//! It is hidden from users: the project's own tests use it too, and it may change with every release.
//!
//! The engine remembers no client request tokens: it would remember them by real time, and would
//! hide what a delayed copy of a transaction does.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Builder, Region, RuntimeComponents, SharedHttpClient,
    StalledStreamProtectionConfig,
};
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use dynoxide::{Database, DynoxideError};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind};
use crate::store::schema::TableSchema;

/// The name of the table of records in a sandbox and in a world.
pub(crate) const TABLE: &str = "idempotency";

/// A clock in whole milliseconds since 1970, which stands still until it is set. Clones share it.
#[derive(Clone, Debug)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// A clock that shows this time.
    #[must_use]
    pub fn at(millis: u64) -> Self {
        Self(Arc::new(AtomicU64::new(millis)))
    }

    /// The time, in ms since 1970.
    #[must_use]
    pub fn millis(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Sets the time, in ms since 1970.
    pub fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::SeqCst);
    }
}

impl TimeSource for VirtualClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.millis())
    }
}

impl dynoxide::storage_backend::Clock for VirtualClock {
    fn now_unix_secs(&self) -> u64 {
        self.millis() / 1000
    }

    fn now_unix_secs_f64(&self) -> f64 {
        Duration::from_millis(self.millis()).as_secs_f64()
    }
}

/// A request that has left the SDK.
#[derive(Clone, Debug)]
pub struct Request {
    /// Such as `PutItem`.
    pub operation: String,
    /// The members of the request in DynamoDB's JSON.
    pub body: Value,
}

impl Request {
    /// Decodes a request of the SDK.
    ///
    /// # Errors
    /// If its body is not JSON in memory.
    pub fn of(request: &HttpRequest) -> Result<Self, ConnectorError> {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().unwrap_or_default();
        match serde_json::from_slice(body) {
            Ok(body) => Ok(Self { operation, body }),
            Err(error) => Err(ConnectorError::user(error.into())),
        }
    }
}

/// A response to a request.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    body: String,
}

impl Response {
    fn of<T: Serialize>(result: Result<T, DynoxideError>) -> Self {
        let written = result.map(|output| serde_json::to_string(&output));
        match written {
            Ok(Ok(body)) => Self { status: 200, body },
            Ok(Err(error)) => Self::error(500, "InternalServerError", &error.to_string()),
            Err(error) => Self { status: error.status_code(), body: error.to_json() },
        }
    }

    /// A response with these members, in DynamoDB's JSON.
    #[must_use]
    pub fn new(status: u16, members: &Value) -> Self {
        Self { status, body: members.to_string() }
    }

    /// An error of this name, such as `InternalServerError`.
    #[must_use]
    pub fn error(status: u16, name: &str, message: &str) -> Self {
        let name = format!("com.amazonaws.dynamodb.v20120810#{name}");
        Self::new(status, &json!({"__type": name, "message": message}))
    }

    /// The response as it arrives. Its `Date` is `now`, in ms since 1970.
    ///
    /// # Errors
    /// If the response or the time cannot be represented in HTTP.
    pub fn arrive(self, now: Option<u64>) -> Result<HttpResponse, ConnectorError> {
        let status = StatusCode::try_from(self.status);
        let status = status.map_err(|error| ConnectorError::user(error.into()))?;
        let mut arrived = HttpResponse::new(status, self.body.into());
        arrived.headers_mut().insert("content-type", "application/x-amz-json-1.0");
        if let Some(now) = now {
            let seconds = i64::try_from(now / 1000).unwrap_or(i64::MAX);
            let date = DateTime::from_secs(seconds).fmt(DateTimeFormat::HttpDate);
            let date = date.map_err(|error| ConnectorError::user(error.into()))?;
            arrived.headers_mut().insert("date", date);
        }
        Ok(arrived)
    }

    /// The name of the error, such as `ConditionalCheckFailedException`; `None` after a success.
    #[must_use]
    pub fn error_name(&self) -> Option<String> {
        let body: Value = serde_json::from_str(&self.body).ok().filter(|_| self.status != 200)?;
        let name = body["__type"].as_str()?;
        Some(name.rsplit('#').next().unwrap_or(name).to_owned())
    }

    fn members(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// The tables: an embedded engine of their own.
#[derive(Clone, derive_more::Debug)]
#[debug("Store")]
pub struct Store {
    database: Database,
    clock: VirtualClock,
}

impl Store {
    /// Starts an engine without tables.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the engine cannot be started.
    pub fn new(clock: &VirtualClock) -> Result<Self, Error> {
        let database = Database::memory_with_clock(Arc::new(clock.clone())).map_err(|source| {
            Error::new(ErrorKind::Unavailable, "the embedded DynamoDB could not be started")
                .with_source(source)
        })?;
        Ok(Self { database, clock: clock.clone() })
    }

    /// Creates a table of records.
    #[must_use]
    pub fn create_table(&self, name: &str, schema: &TableSchema) -> Response {
        let keys = schema.key_names().zip(["HASH", "RANGE"]);
        let (definitions, keys): (Vec<_>, Vec<_>) = keys
            .map(|(name, kind)| {
                let definition = json!({"AttributeName": name, "AttributeType": "S"});
                (definition, json!({"AttributeName": name, "KeyType": kind}))
            })
            .unzip();
        let created = self.execute(&Request {
            operation: "CreateTable".to_owned(),
            body: json!({
                "TableName": name,
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": definitions,
                "KeySchema": keys,
            }),
        });
        if created.status != 200 {
            return created;
        }
        let ttl = json!({"AttributeName": schema.ttl_name(), "Enabled": true});
        self.execute(&Request {
            operation: "UpdateTimeToLive".to_owned(),
            body: json!({"TableName": name, "TimeToLiveSpecification": ttl}),
        })
    }

    /// Returns all items of all tables, in DynamoDB's JSON.
    #[must_use]
    pub fn items(&self) -> Vec<Value> {
        let ask = |operation: &str, body: Value| {
            self.execute(&Request { operation: operation.to_owned(), body }).members()
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut items = Vec::new();
        for table in list(&ask("ListTables", json!({}))["TableNames"]) {
            let mut request = json!({"TableName": table});
            loop {
                let page = ask("Scan", request.clone());
                items.extend(list(&page["Items"]));
                match page.get("LastEvaluatedKey") {
                    Some(key) => request["ExclusiveStartKey"] = key.clone(),
                    None => break,
                }
            }
        }
        items
    }

    /// Reads the item whose key a request has. Null if there is none.
    #[must_use]
    pub(crate) fn item(&self, request: &Request) -> Value {
        let Value::Object(members) = &request.body else { return Value::Null };
        let body = json!({"TableName": members.get("TableName"), "Key": members.get("Key")});
        self.execute(&Request { operation: "GetItem".to_owned(), body }).members()["Item"].take()
    }

    /// Executes a request.
    #[must_use]
    pub fn execute(&self, request: &Request) -> Response {
        let (database, body) = (&self.database, &request.body);
        macro_rules! dispatch {
            ($($operation:literal: $method:ident,)*) => {
                match request.operation.as_str() {
                    $($operation => answer(body, |input| database.$method(input)),)*
                    "TransactWriteItems" => answer(body, |mut input| {
                        forget_token(&mut input);
                        database.transact_write_items(input)
                    }),
                    "ExecuteTransaction" => answer(
                        body,
                        |mut input: dynoxide::actions::execute_transaction::ExecuteTransactionRequest| {
                            input.client_request_token = None;
                            database.execute_transaction(input)
                        },
                    ),
                    other => {
                        let message = format!("the embedded DynamoDB does not know {other}");
                        Response::error(400, "UnknownOperationException", &message)
                    }
                }
            };
        }
        dispatch! {
            "BatchExecuteStatement": batch_execute_statement,
            "BatchGetItem": batch_get_item,
            "BatchWriteItem": batch_write_item,
            "CreateTable": create_table,
            "DeleteItem": delete_item,
            "DeleteTable": delete_table,
            "DescribeTable": describe_table,
            "DescribeTimeToLive": describe_time_to_live,
            "ExecuteStatement": execute_statement,
            "GetItem": get_item,
            "ListTables": list_tables,
            "PutItem": put_item,
            "Query": query,
            "Scan": scan,
            "TransactGetItems": transact_get_items,
            "UpdateItem": update_item,
            "UpdateTable": update_table,
            "UpdateTimeToLive": update_time_to_live,
        }
    }

    /// The response as it arrives, with the store's time.
    ///
    /// # Errors
    /// If the response or the time cannot be represented in HTTP.
    pub fn deliver(&self, response: Response) -> Result<HttpResponse, ConnectorError> {
        response.arrive(Some(self.clock.millis()))
    }
}

fn forget_token(input: &mut dynoxide::actions::transact_write_items::TransactWriteItemsRequest) {
    input.client_request_token = None;
}

fn answer<I: DeserializeOwned, O: Serialize>(
    body: &Value,
    execute: impl FnOnce(I) -> Result<O, DynoxideError>,
) -> Response {
    // From text, because the engine's types do not read every member from a value.
    match serde_json::from_str(&body.to_string()) {
        Ok(input) => Response::of(execute(input)),
        Err(error) => Response::error(400, "SerializationException", &error.to_string()),
    }
}

/// What carries the requests of a client to the store, and the responses back.
pub trait Network: fmt::Debug + Send + Sync + 'static {
    /// Carries a request to the store, and returns what arrives at the client.
    fn carry(&self, request: Request) -> BoxFuture<'static, Result<HttpResponse, ConnectorError>>;
}

/// A client whose requests `network` carries.
pub fn client(network: impl Network, clock: &VirtualClock) -> Client {
    Client::from_conf(config(network, clock.clone()).build())
}

/// The settings of a client whose requests `network` carries. It has no credentials, so that the SDK
/// does not sign its requests, which takes half of its time.
pub fn config(network: impl Network, clock: impl TimeSource + 'static) -> Builder {
    Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .endpoint_url("http://dynamodb")
        .allow_no_auth()
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .time_source(clock)
        .http_client(SharedHttpClient::new(InProcess(Arc::new(network))))
}

#[derive(Clone, Debug)]
struct InProcess(Arc<dyn Network>);

impl HttpClient for InProcess {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for InProcess {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        match Request::of(&request) {
            Ok(request) => HttpConnectorFuture::new(self.0.carry(request)),
            Err(error) => HttpConnectorFuture::ready(Err(error)),
        }
    }
}
