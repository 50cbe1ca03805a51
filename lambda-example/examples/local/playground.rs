//! The page at `/`, which shows the current records and the ledger.
//!
//! The page is served only from this binary, and its `Content-Security-Policy` allows nothing else. A
//! request with `x-playground: crash` stops midway, like a function that Lambda kills.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use lambda_example::PAYMENTS_SCOPE;
use lambda_http::Error;
use serde_json::{Value, json};

type Item = HashMap<String, AttributeValue>;

/// The lease of an owner, so short that a viewer sees it expire.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// How many items of a table are read, in no order. The newest of them are shown.
const READ: i32 = 500;
const SHOWN: usize = 20;

/// The tables that the page shows.
#[derive(Clone)]
pub(crate) struct Playground {
    pub(crate) client: Client,
    pub(crate) records: &'static str,
    pub(crate) ledger: &'static str,
}

/// The routes of the page.
pub(crate) fn router(playground: Playground) -> Router {
    const HTML: &str = "text/html; charset=utf-8";
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    let file = |content_type, text| get(async move || page_file(content_type, text));
    Router::new()
        .route("/", file(HTML, include_str!("page/index.html")))
        .route("/playground/style.css", file("text/css", include_str!("page/style.css")))
        .route("/playground/script.js", file(SCRIPT, include_str!("page/script.js")))
        .route("/playground/icon.svg", file("image/svg+xml", include_str!("page/icon.svg")))
        .route("/playground/state", get(state))
        .with_state(playground)
}

fn page_file(content_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    (headers, text).into_response()
}

async fn state(State(playground): State<Playground>) -> Response {
    match playground.state().await {
        Ok(state) => ([(CACHE_CONTROL, "no-store")], Json(state)).into_response(),
        Err(error) => {
            eprintln!("error: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A request that should crash midway: `x-playground: crash`, and no `x-api-key`.
pub(crate) struct Crash {
    /// The key of its record.
    pk: String,
    /// Whether it is for `/charges`, where it crashes after the charge.
    is_charge: bool,
}

impl Crash {
    pub(crate) fn asked_for(request: &Parts) -> Option<Self> {
        request.headers.get("x-playground").filter(|value| *value == "crash")?;
        let key = request.headers.get("idempotency-key")?.to_str().ok()?;
        let pk = format!("{PAYMENTS_SCOPE}#{}", key.trim_matches('"'));
        Some(Self { pk, is_charge: request.uri.path() == "/charges" })
    }
}

/// API Gateway's response for a function that crashed.
pub(crate) fn died() -> Response {
    let body = Json(json!({"message": "Internal server error"}));
    (StatusCode::BAD_GATEWAY, body).into_response()
}

/// The state before a request.
pub(crate) struct Before {
    owner: Option<String>,
    charges: usize,
}

impl Playground {
    pub(crate) async fn before(&self, crash: &Crash) -> Result<Before, Error> {
        let owner = self.pending_owner(&crash.pk).await?;
        Ok(Before { owner, charges: self.charges().await? })
    }

    /// Whether a request is midway: it owns its key, and with `/charges` the charge is made.
    pub(crate) async fn is_halfway(&self, crash: &Crash, before: &Before) -> Result<bool, Error> {
        let owner = self.pending_owner(&crash.pk).await?;
        let owns = owner.is_some() && owner != before.owner;
        Ok(owns && (!crash.is_charge || self.charges().await? > before.charges))
    }

    async fn pending_owner(&self, pk: &str) -> Result<Option<String>, Error> {
        let get = self.client.get_item().table_name(self.records).consistent_read(true);
        let found = get.key("pk", AttributeValue::S(pk.to_owned())).send().await?.item;
        let pending = found.filter(|record| text(record, "status") == "PENDING");
        Ok(pending.map(|record| text(&record, "owner").to_owned()))
    }

    /// How many charges the card network has.
    async fn charges(&self) -> Result<usize, Error> {
        let query = self.client.query().table_name(self.ledger).consistent_read(true);
        let network = AttributeValue::S("card-network".to_owned());
        let charges = query
            .key_condition_expression("tenant = :network")
            .expression_attribute_values(":network", network);
        Ok(charges.send().await?.items().len())
    }

    /// Times are in epoch milliseconds, `expires_at` in seconds. `now` is this machine's clock, which an
    /// embedded DynamoDB uses too.
    async fn state(&self) -> Result<Value, Error> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
        let (mut records, ledger) =
            tokio::try_join!(self.scan(self.records), self.scan(self.ledger))?;
        records.sort_by_key(|record| std::cmp::Reverse(number(record, "created_at")));
        let records: Vec<Value> = records.iter().take(SHOWN).map(record).collect();
        let ledger: Vec<Value> = ledger.iter().filter_map(entry).collect();
        Ok(json!({
            "now": u64::try_from(now)?,
            "lease_ms": u64::try_from(LEASE.as_millis())?,
            "records": records,
            "ledger": ledger,
        }))
    }

    async fn scan(&self, table: &str) -> Result<Vec<Item>, Error> {
        let scan = self.client.scan().table_name(table).consistent_read(true).limit(READ);
        Ok(scan.send().await?.items.unwrap_or_default())
    }
}

/// A record in the form of the page: the owner shortened, the answer as text.
fn record(record: &Item) -> Value {
    let (scope, key) = text(record, "pk").split_once('#').unwrap_or_default();
    let steps = record.get("steps").and_then(|steps| steps.as_m().ok());
    let mut steps: Vec<&String> = steps.into_iter().flat_map(HashMap::keys).collect();
    steps.sort();
    json!({
        "scope": scope,
        "key": key,
        "status": text(record, "status"),
        "owner": text(record, "owner").get(..8),
        "attempt": number(record, "attempt"),
        "lease_expires_at": number(record, "lease_expires_at"),
        "expires_at": number(record, "expires_at"),
        "steps": steps,
        "answer": answer(record),
    })
}

/// `201 {"id": ..}`; `None` without an answer.
fn answer(record: &Item) -> Option<String> {
    let response = record.get("response")?.as_m().ok()?;
    let status = number(response, "status")?;
    Some(format!("{status} {}", text(response, "body")))
}

/// A payment or a charge. The table contains accounts too.
fn entry(item: &Item) -> Option<Value> {
    let (kind, id) = if is_charge(item) {
        ("charge", text(item, "charge"))
    } else if text(item, "id").starts_with("pay_") {
        ("payment", text(item, "id"))
    } else {
        return None;
    };
    let (amount, currency) = (number(item, "amount")?, text(item, "currency"));
    Some(json!({"kind": kind, "id": id, "amount": amount, "currency": currency}))
}

fn is_charge(item: &Item) -> bool {
    text(item, "status") == "succeeded" && item.contains_key("charge")
}

fn text<'a>(item: &'a Item, name: &str) -> &'a str {
    item.get(name).and_then(|value| value.as_s().ok()).map_or("", String::as_str)
}

fn number(item: &Item, name: &str) -> Option<u64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}
