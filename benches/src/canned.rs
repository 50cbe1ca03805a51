//! An HTTP client of the SDK's that answers in process, and the clock that goes with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Credentials, Region, RuntimeComponents, SharedHttpClient,
};
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use serde_json::{Value, json};

/// Sun, 06 Nov 2044 08:49:37 GMT, in seconds.
const NOW: u64 = 2_362_034_977;
const DATE: &str = "Sun, 06 Nov 2044 08:49:37 GMT";

/// A clock that does not advance, so that the canned `Date` is always right.
#[derive(Clone, Copy, Debug)]
struct Stopped;

impl TimeSource for Stopped {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
    }
}

/// What each request is answered with.
#[derive(Clone, Debug)]
pub struct Canned {
    status: u16,
    body: Arc<str>,
    /// What a read of an item is answered with instead, by the item's `pk`.
    items: Arc<HashMap<String, String>>,
    heard: Option<Heard>,
}

/// The bodies of the requests that were sent.
#[derive(Clone, Debug, Default)]
pub struct Heard(Arc<Mutex<Vec<Value>>>);

impl Heard {
    /// The writes, in their order. Not the read by which a process learns DynamoDB's time before its
    /// first write.
    #[must_use]
    pub fn take(&self) -> Vec<Value> {
        let mut requests =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        requests.retain(|request| request.get("Item").is_some());
        requests
    }
}

impl Canned {
    /// Every write is applied.
    #[must_use]
    pub fn applied() -> Self {
        Self { status: 200, body: "{}".into(), items: Arc::default(), heard: None }
    }

    /// Every write is refused, for the sake of this item.
    #[must_use]
    pub fn refused(item: &Value) -> Self {
        let body = json!({
            "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
            "message": "The conditional request failed",
            "Item": item,
        });
        Self { status: 400, body: body.to_string().into(), items: Arc::default(), heard: None }
    }

    /// Every write is refused, for the sake of the item of the last of these writes, and the items of all of them
    /// can be read.
    #[must_use]
    pub fn stored(writes: &[Value]) -> Self {
        let items = || writes.iter().map(|write| &write["Item"]);
        let answers = items().filter_map(|item| {
            Some((item["pk"]["S"].as_str()?.to_owned(), json!({ "Item": item }).to_string()))
        });
        let refused = Self::refused(items().next_back().unwrap_or(&Value::Null));
        Self { items: Arc::new(answers.collect()), ..refused }
    }

    /// The same, and the requests are kept.
    #[must_use]
    pub fn recorded(mut self) -> (Self, Heard) {
        let heard = Heard::default();
        self.heard = Some(heard.clone());
        (self, heard)
    }

    /// The SDK as users have it, signing and retrying, but for the socket.
    #[must_use]
    pub fn client(self) -> Client {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(Credentials::new("AKID", "secret", None, None, "canned"))
            .time_source(Stopped)
            .http_client(SharedHttpClient::new(self))
            .build();
        Client::from_conf(config)
    }
}

impl Canned {
    fn read(&self, request: &HttpRequest) -> Option<&str> {
        if self.items.is_empty() || !request.headers().get("x-amz-target")?.ends_with("GetItem") {
            return None;
        }
        let request: Value = serde_json::from_slice(request.body().bytes()?).ok()?;
        self.items.get(request["Key"]["pk"]["S"].as_str()?).map(String::as_str)
    }
}

impl HttpClient for Canned {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Canned {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        if let (Some(heard), Some(body)) = (&self.heard, request.body().bytes()) {
            let body = serde_json::from_slice(body).unwrap_or(Value::Null);
            heard.0.lock().unwrap_or_else(PoisonError::into_inner).push(body);
        }
        let (status, body) =
            self.read(&request).map_or((self.status, &*self.body), |item| (200, item));
        HttpConnectorFuture::ready(answer(status, body))
    }
}

fn answer(status: u16, body: &str) -> Result<HttpResponse, ConnectorError> {
    let status =
        status.try_into().map_err(|error| ConnectorError::other(Box::from(error), None))?;
    let mut response = HttpResponse::new(status, body.to_owned().into());
    let headers = response.headers_mut();
    headers.insert("content-type", "application/x-amz-json-1.0");
    headers.insert("date", DATE);
    Ok(response)
}
