//! Routes, requests and responses.

use dynamodb_idempotency::http::Tenant;
use dynamodb_idempotency::http::tenant::header_sha256;
use dynamodb_idempotency::lambda::{HttpService, LambdaResponse};
use dynamodb_idempotency::{Execution, Idempotency};
use lambda_http::http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use lambda_http::http::request::Parts;
use lambda_http::http::{HeaderMap, Method, StatusCode};
use lambda_http::{Body, Error, Request, Response, service_fn};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::charge::{Charge, Order, charge};
use crate::charges;
use crate::payments::{Payment, Payments};
use crate::transfers;

/// The scope of payments and charges. Their tenants are below it.
pub const PAYMENTS_SCOPE: &str = "payments";
/// The scope of transfers.
pub const TRANSFERS_SCOPE: &str = "transfers";

/// The handler, made idempotent: the same for Lambda and for the local server.
///
/// # Errors
/// [`ErrorKind::Configuration`](dynamodb_idempotency::ErrorKind::Configuration) for an invalid policy.
pub fn service(
    idempotency: &Idempotency,
    payments: Payments,
) -> Result<impl HttpService, dynamodb_idempotency::Error> {
    let network = payments.network();
    let ledger = payments.clone();
    // The API key is the tenant: hashed, because it is a secret.
    let api = idempotency
        .http(PAYMENTS_SCOPE)
        .optional_tenant(header_sha256("x-api-key"))
        .reconcile(move |abandoned| charges::reconcile(network.clone(), abandoned))
        .wrap(service_fn(move |request| handle(payments.clone(), request)))?;
    let transfer = service_fn(move |request| transfers::transfer(ledger.clone(), request));
    let transfers = idempotency
        .http(TRANSFERS_SCOPE)
        .optional_tenant(header_sha256("x-api-key"))
        .wrap_transaction(transfer)?;
    Ok(service_fn(move |request: Request| {
        let (api, transfers) = (api.clone(), transfers.clone());
        async move {
            if is_transfer(&request) {
                transfers.oneshot(request).await
            } else {
                api.oneshot(request).await
            }
        }
    }))
}

fn is_transfer(request: &Request) -> bool {
    request.method() == Method::POST && route(request.uri().path()) == Some("transfers")
}

async fn handle(payments: Payments, request: Request) -> Result<LambdaResponse, Error> {
    let (parts, body) = request.into_parts();
    let response = match (&parts.method, route(parts.uri.path())) {
        (&Method::POST, Some("payments")) => create(&payments, &parts, &body).await,
        (&Method::POST, Some("charges")) => create_charge(&payments, &parts, &body).await,
        (&Method::GET, Some("payments")) => list(&payments, &parts).await,
        (&Method::GET, Some("healthz")) => reply(StatusCode::OK, &json!({"status": "ok"})),
        (&Method::GET, Some(id)) if id.starts_with("pay_") => show(&payments, &parts, id).await,
        (&Method::GET, Some("accounts")) => {
            let account = parts.uri.path().rsplit('/').next().unwrap_or_default();
            transfers::show(&payments, &tenant(&parts), account).await
        }
        (_, Some(_)) => refuse(&parts, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
        (_, None) => refuse(&parts, StatusCode::NOT_FOUND, "not_found"),
    };
    response.map(LambdaResponse::from)
}

/// Returns the route, or a payment's id, without the stage that API Gateway may put before it.
fn route(path: &str) -> Option<&str> {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments[..] {
        [name @ ("payments" | "charges" | "transfers" | "healthz")]
        | [_, name @ ("payments" | "charges" | "transfers" | "healthz")]
        | [name @ "accounts", _]
        | [_, name @ "accounts", _] => Some(name),
        ["payments", id] | [_, "payments", id] if id.starts_with("pay_") => Some(id),
        _ => None,
    }
}

async fn create(payments: &Payments, parts: &Parts, body: &Body) -> Result<Response<Body>, Error> {
    let order = match Order::parse(body) {
        Ok(order) => order,
        Err(refusal) => return refuse(parts, refusal.status, &refusal.code),
    };
    match charge(&order).await? {
        Charge::Succeeded => {
            let payment = Payment::new(&tenant(parts), &order)?;
            let location = format!("/payments/{}", payment.id);
            let mut response = reply(StatusCode::CREATED, &payment.to_json())?;
            response.headers_mut().insert(LOCATION, location.parse()?);
            // The client's visits belong to this response, not to the payment, so no replay has them.
            let visits = visits(&parts.headers) + 1;
            response.headers_mut().insert(SET_COOKIE, format!("visits={visits}").parse()?);
            // Writes the payment and the answer, or neither. A process that crashes here has paid nothing.
            let execution = parts.extensions.get::<Execution>().ok_or("a payment needs a key")?;
            execution.commit_response(&response, [payments.booking(&payment)?]).await?;
            Ok(response)
        }
        Charge::Failed { status, code, attempt_id } => {
            reply(status, &json!({"error": {"code": code, "attempt_id": attempt_id}}))
        }
    }
}

async fn create_charge(
    payments: &Payments,
    parts: &Parts,
    body: &Body,
) -> Result<Response<Body>, Error> {
    let order = match Order::parse(body) {
        Ok(order) => order,
        Err(refusal) => return refuse(parts, refusal.status, &refusal.code),
    };
    let execution = parts.extensions.get::<Execution>().ok_or("the request is not protected")?;
    charges::create(&payments.network(), execution, &order).await
}

async fn list(payments: &Payments, parts: &Parts) -> Result<Response<Body>, Error> {
    let payments = payments.of(&tenant(parts)).await?;
    let data: Vec<Value> = payments.iter().map(Payment::to_json).collect();
    reply(StatusCode::OK, &json!({"data": data}))
}

async fn show(payments: &Payments, parts: &Parts, id: &str) -> Result<Response<Body>, Error> {
    match payments.get(&tenant(parts), id).await? {
        Some(payment) => reply(StatusCode::OK, &payment.to_json()),
        None => refuse(parts, StatusCode::NOT_FOUND, "not_found"),
    }
}

/// Rejects a request that has changed nothing. Its idempotency key stays free.
fn refuse(parts: &Parts, status: StatusCode, code: &str) -> Result<Response<Body>, Error> {
    if let Some(execution) = parts.extensions.get::<Execution>() {
        execution.discard();
    }
    reply(status, &json!({"error": {"code": code}}))
}

pub(crate) fn reply(status: StatusCode, body: &Value) -> Result<Response<Body>, Error> {
    let response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))?;
    Ok(response)
}

/// The tenant of the payments: the same hash that separates the idempotency keys.
pub(crate) fn tenant(parts: &Parts) -> String {
    match header_sha256("x-api-key")(parts) {
        Tenant::Known(tenant) => tenant,
        _ => "anonymous".to_owned(),
    }
}

fn visits(headers: &HeaderMap) -> u64 {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).map(str::trim);
    pairs.find_map(|pair| pair.strip_prefix("visits=")?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_work_with_and_without_a_stage() {
        for (path, expected) in [
            ("/payments", Some("payments")),
            ("/prod/payments", Some("payments")),
            ("/payments/", Some("payments")),
            ("/prod/charges", Some("charges")),
            ("/healthz", Some("healthz")),
            ("/v1/healthz", Some("healthz")),
            ("/", None),
            ("/payments/pay_1", Some("pay_1")),
            ("/prod/payments/pay_1", Some("pay_1")),
            ("/payments/1", None),
            ("/transfers", Some("transfers")),
            ("/prod/transfers", Some("transfers")),
            ("/accounts/alice", Some("accounts")),
            ("/prod/accounts/alice", Some("accounts")),
            ("/accounts", None),
            ("/a/b/payments", None),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }

    #[test]
    fn visits_are_counted_from_the_cookie() {
        let mut headers = HeaderMap::new();
        assert_eq!(visits(&headers), 0);
        headers.insert(COOKIE, "theme=dark; visits=4".parse().unwrap());
        assert_eq!(visits(&headers), 4);
    }
}
