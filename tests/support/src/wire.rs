//! The network between the SDK and the store: counts requests, and fails them as requested.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_sdk_dynamodb::error::ConnectorError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};

use dynamodb_idempotency::testing::transport::{Request, Response};
use serde_json::json;

use super::Gate;
use super::access::Access;
use super::gate::patiently;
use super::made_up_time::{self, Standstill};

/// What the wire does with one request.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends it to the store, and returns the response.
    Deliver,
    /// Nothing is sent; the caller sees a broken connection.
    LoseRequest,
    /// The store executes it; the caller sees a time-out.
    LoseResponse,
    /// Nothing is sent; the caller sees this HTTP status with this DynamoDB error code.
    Answer(u16, &'static str),
    /// Nothing is sent; the caller sees a transaction that was canceled for these reasons, the
    /// record's first.
    Cancel(&'static [&'static str]),
    /// Sends it when the gate opens.
    HoldRequest(Gate),
    /// Sends it at once; its response arrives when the gate opens.
    HoldResponse(Gate),
    /// The caller sees a time-out at once; the store gets the request when the gate opens, and
    /// [`Wire::late_arrivals`] counts it once it is executed.
    ArriveLate(Gate),
}

impl Act {
    pub const THROTTLE: Self = Self::Answer(400, "ProvisionedThroughputExceededException");
    pub const SERVER_ERROR: Self = Self::Answer(500, "InternalServerError");
}

/// One caller's wire; a clone is the same wire. Operations have the names that DynamoDB gives them:
/// `PutItem`, `UpdateItem` …
#[derive(Clone, Debug)]
pub struct Wire {
    state: Arc<Mutex<State>>,
    late: Arc<tokio::sync::Semaphore>,
    below: SharedHttpClient,
}

#[derive(Debug, Default)]
struct State {
    accesses: BTreeSet<Access>,
    is_the_crates: bool,
    sent: Vec<String>,
    once: HashMap<&'static str, VecDeque<Act>>,
    rules: HashMap<&'static str, Act>,
    down: Option<Act>,
    parts: Option<Act>,
    date_shift: i64,
    no_date: bool,
    dies: Option<Death>,
    /// The units that reads and writes have consumed since [`Wire::measure`].
    consumed: Option<(f64, f64)>,
}

/// The point at which the process aborts.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// The request, counted from 1.
    pub request: usize,
    /// Whether the store executes the request first. Otherwise it is not sent.
    pub executed: bool,
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            state: Arc::default(),
            late: Arc::new(tokio::sync::Semaphore::new(0)),
            below: aws_smithy_http_client::Builder::new().build_http(),
        }
    }
}

impl Wire {
    /// Applies `act` once, to the next request of the operation for which no act is queued yet.
    pub fn next(&self, operation: &'static str, act: Act) {
        self.state().once.entry(operation).or_default().push_back(act);
    }

    /// Applies `act` to each request of the operation for which [`next`](Self::next) has queued no act.
    pub fn every(&self, operation: &'static str, act: Act) {
        self.state().rules.insert(operation, act);
    }

    /// Applies `act` to each request of any operation, unless an act is queued, until [`up`](Self::up).
    pub fn down(&self, act: Act) {
        self.state().down = Some(act);
    }

    /// Applies `act` to each request about a part of an answer, until [`up`](Self::up).
    pub fn parts(&self, act: Act) {
        self.state().parts = Some(act);
    }

    /// Ends what [`down`](Self::down), [`parts`](Self::parts) and [`every`](Self::every) began.
    pub fn up(&self) {
        let mut state = self.state();
        state.down = None;
        state.parts = None;
        state.rules.clear();
    }

    /// From now on, the `Date` of responses is `seconds` later.
    pub fn shift_date(&self, seconds: i64) {
        self.state().date_shift += seconds;
    }

    /// Aborts this process at a request.
    pub fn die_at(&self, death: Death) {
        self.state().dies = Some(death);
    }

    /// Aborts the process if [`die_at`](Self::die_at) has chosen this point.
    fn die(&self, executed: bool) {
        let state = self.state();
        let is_now = |death: Death| death.request == state.sent.len() && death.executed == executed;
        if state.dies.is_some_and(is_now) {
            std::process::abort();
        }
    }

    /// From now on, adds up the capacity units that the responses report.
    pub fn measure(&self) {
        self.state().consumed = Some((0.0, 0.0));
    }

    /// The capacity units since [`measure`](Self::measure).
    pub fn consumed(&self) -> f64 {
        let (reads, writes) = self.units();
        reads + writes
    }

    /// The read and the write units since [`measure`](Self::measure). Local engines report no units for a
    /// rejected write, so the units of such a write are computed from the existing item, as DynamoDB does.
    pub fn units(&self) -> (f64, f64) {
        self.state().consumed.expect("it is measured")
    }

    /// Responses carry no `Date`.
    pub fn drop_date(&self) {
        self.state().no_date = true;
    }

    /// The operations of all requests in order, including lost requests and the SDK's retries.
    pub fn requests(&self) -> Vec<String> {
        self.state().sent.clone()
    }

    /// How many requests of one operation there were.
    pub fn count(&self, operation: &str) -> usize {
        self.state().sent.iter().filter(|sent| *sent == operation).count()
    }

    /// Waits until there were at least `requests` requests of one operation.
    pub async fn sent(&self, operation: &str, requests: usize) {
        let sent = async {
            while self.count(operation) < requests {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        patiently("requests on a wire", sent).await;
    }

    /// From now on, a request for which a function has no permission fails the test.
    pub(crate) fn grant_no_more(&self) {
        self.state().is_the_crates = true;
    }

    /// The permissions that the requests needed.
    pub fn accesses(&self) -> BTreeSet<Access> {
        self.state().accesses.clone()
    }

    /// Forgets the requests so far.
    pub fn forget(&self) {
        self.state().sent.clear();
    }

    /// Waits until the store has executed `number` more of the [`Act::ArriveLate`] requests.
    pub async fn late_arrivals(&self, number: u32) {
        let arrivals = patiently("late requests", self.late.acquire_many(number)).await;
        arrivals.expect("the wire is still there").forget();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the wire")
    }

    fn note(&self, access: &Access) {
        let mut state = self.state();
        let is_granted = !state.is_the_crates || access.is_granted();
        state.accesses.insert(access.clone());
        drop(state);
        assert!(is_granted, "infra/contract.json does not grant {access:?}");
    }

    /// Records a request, and returns what happens to it.
    fn take(&self, operation: &str, access: &Access) -> Act {
        let mut state = self.state();
        state.sent.push(operation.to_owned());
        if access.is_part()
            && let Some(act) = &state.parts
        {
            return act.clone();
        }
        if let Some(act) = state.once.get_mut(operation).and_then(VecDeque::pop_front) {
            return act;
        }
        let rule = state.down.as_ref().or_else(|| state.rules.get(operation));
        rule.cloned().unwrap_or(Act::Deliver)
    }

    /// DynamoDB's response if the time of the signature differs by more than five minutes from DynamoDB's.
    /// Neither engine checks that. The SDK corrects the signature and sends the same body again; the
    /// denied try is not counted.
    fn denied(&self, request: &HttpRequest) -> Option<HttpResponse> {
        let is_deaf = {
            let state = self.state();
            state.no_date || state.down.is_some()
        };
        let signed = request.headers().get("x-amz-date").filter(|_| !is_deaf)?;
        let signed = format!(
            "{}-{}-{}T{}:{}:{}Z",
            &signed[..4],
            &signed[4..6],
            &signed[6..8],
            &signed[9..11],
            &signed[11..13],
            &signed[13..15]
        );
        let signed = DateTime::from_str(&signed, DateTimeFormat::DateTime).expect("it is a time");
        let now = DateTime::from(made_up_time::now()).secs() + self.state().date_shift;
        if signed.secs().abs_diff(now) <= 300 {
            return None;
        }
        let now = u64::try_from(now * 1000).ok();
        Some(answer(400, "InvalidSignatureException").arrive(now).expect("it is a response"))
    }

    /// Gives a response of the store the `Date` that the test wants.
    fn redate(&self, response: &mut HttpResponse) {
        let (shift, no_date) = {
            let state = self.state();
            (state.date_shift, state.no_date)
        };
        let date = response.headers_mut().remove("date").expect("both engines send a Date");
        if no_date {
            return;
        }
        let date = if made_up_time::is_made_up() {
            DateTime::from(made_up_time::now())
        } else {
            DateTime::from_str(&date, DateTimeFormat::HttpDate).expect("it is a date")
        };
        let date = DateTime::from_secs(date.secs() + shift).fmt(DateTimeFormat::HttpDate);
        response.headers_mut().insert("date", date.expect("it is a date"));
    }
}

impl HttpClient for Wire {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let below = self.below.http_connector(settings, components);
        SharedHttpConnector::new(Connector { wire: self.clone(), below })
    }
}

#[derive(Clone, Debug)]
struct Connector {
    wire: Wire,
    below: SharedHttpConnector,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connector = self.clone();
        HttpConnectorFuture::new(async move { connector.carry(request).await })
    }
}

impl Connector {
    async fn carry(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let (operation, access) = {
            // Gone before the request is sent: `tests/cost` measures the memory of a call.
            let decoded = Request::of(&request)?;
            let access = Access::of(&decoded);
            (decoded.operation, access)
        };
        self.wire.note(&access);
        if let Some(denied) = self.wire.denied(&request) {
            return Ok(denied);
        }
        match self.wire.take(&operation, &access) {
            Act::Deliver => self.send(request).await,
            Act::LoseRequest => Err(ConnectorError::io("the request was lost".into())),
            Act::LoseResponse => {
                self.send(request).await?;
                Err(timeout())
            }
            Act::Answer(status, code) => {
                // As on a network, other tasks run before the response arrives.
                tokio::task::yield_now().await;
                answer(status, code).arrive(None)
            }
            Act::Cancel(reasons) => cancel(reasons).arrive(None),
            Act::HoldRequest(gate) => {
                gate.pass().await;
                self.send(request).await
            }
            Act::HoldResponse(gate) => {
                let response = self.send(request).await;
                gate.pass().await;
                response
            }
            Act::ArriveLate(gate) => {
                tokio::spawn(async move {
                    gate.pass().await;
                    self.send(request).await.expect("the store is there");
                    self.wire.late.add_permits(1);
                });
                Err(timeout())
            }
        }
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        self.wire.die(false);
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let is_read = target.ends_with(".GetItem");
        let is_measured = self.wire.state().consumed.is_some();
        let request = if is_measured { measured(request) } else { request };
        let standstill = Standstill::begin();
        let mut response = self.below.call(request).await?;
        if is_measured || made_up_time::is_made_up() {
            response = whole(response).await;
        }
        drop(standstill);
        self.wire.die(true);
        if is_measured {
            self.consume(&response, is_read);
        }
        self.wire.redate(&mut response);
        Ok(response)
    }
}

impl Connector {
    /// Adds the capacity units that the response reports.
    fn consume(&self, response: &HttpResponse, is_read: bool) {
        let body = response.body().bytes().expect("it is in memory");
        let members: serde_json::Value = serde_json::from_slice(body).expect("it is JSON");
        let units = |one: &serde_json::Value| one["CapacityUnits"].as_f64().unwrap_or(0.0);
        let consumed = match &members["ConsumedCapacity"] {
            serde_json::Value::Array(tables) => tables.iter().map(units).sum(),
            one => units(one),
        };
        let is_refused = members["__type"]
            .as_str()
            .is_some_and(|name| name.ends_with("#ConditionalCheckFailedException"));
        let refused = is_refused.then(|| item_bytes(&members["Item"]).div_ceil(1024).max(1));
        let mut state = self.wire.state();
        let (reads, writes) = state.consumed.as_mut().expect("it is measured");
        *writes += refused.map_or(0.0, |units| f64::from(u32::try_from(units).expect("few")));
        *(if is_read { reads } else { writes }) += consumed;
    }
}

/// A response whose body has arrived completely.
async fn whole(response: HttpResponse) -> HttpResponse {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body");
    let mut whole = HttpResponse::new(status, body.to_bytes().to_vec().into());
    for (name, value) in &headers {
        whole.headers_mut().append(name.to_owned(), value.to_owned());
    }
    whole
}

/// The size of an item in DynamoDB's JSON ("DynamoDB item sizes and formats", developer guide).
fn item_bytes(item: &serde_json::Value) -> usize {
    let fields = item.as_object().into_iter().flatten();
    fields.map(|(name, value)| name.len() + value_bytes(value)).sum()
}

fn value_bytes(value: &serde_json::Value) -> usize {
    let text = |kind: &str| value[kind].as_str();
    if let Some(text) = text("S") {
        return text.len();
    }
    if let Some(base64) = text("B") {
        return base64.len() / 4 * 3 - base64.bytes().rev().take_while(|b| *b == b'=').count();
    }
    if let Some(digits) = text("N") {
        return digits.len().div_ceil(2) + 1;
    }
    if let Some(values) = value["L"].as_array() {
        return 3 + values.iter().map(|value| 1 + value_bytes(value)).sum::<usize>();
    }
    match &value["M"] {
        serde_json::Value::Object(fields) => 3 + fields.len() + item_bytes(&value["M"]),
        _ => 1,
    }
}

/// The same request with `ReturnConsumedCapacity`. No engine checks the signature, which is then wrong.
fn measured(mut request: HttpRequest) -> HttpRequest {
    let body = request.body().bytes().expect("it is in memory");
    let mut asking = br#"{"ReturnConsumedCapacity":"TOTAL","#.to_vec();
    asking.extend_from_slice(&body[1..]);
    request.headers_mut().insert("content-length", asking.len().to_string());
    *request.body_mut() = asking.into();
    request
}

fn timeout() -> ConnectorError {
    ConnectorError::timeout("the response was lost".into())
}

fn answer(status: u16, code: &str) -> Response {
    Response::error(status, code, "as the test requested")
}

fn cancel(reasons: &[&str]) -> Response {
    let reasons: Vec<_> = reasons.iter().map(|code| json!({ "Code": code })).collect();
    let name = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
    Response::new(400, &json!({ "__type": name, "CancellationReasons": reasons }))
}
