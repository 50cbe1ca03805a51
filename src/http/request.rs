//! Reads the key, the tenant and the fingerprint of a request.

use std::ops::RangeInclusive;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};

use super::exchange::call_configured;
use super::fingerprint::default_fingerprint;
use super::problem::{self, Problem, ProblemKind};
use super::{FindSignedKey, FoundKey, Http, KeyRule, Tenancy, Tenant, key_header};
use crate::answer::AnswerRules;
use crate::call::context::CallContext;
use crate::call::execution::Execution;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::json::{JsonKey, NoKey};
use crate::lambda_event;
use crate::ops::preflight::learn_time;
use crate::protocol::COMPLETION_MARGIN;
use crate::store::key::{RecordKey, Scope};

/// The key of a request.
pub(super) enum RequestKey<'a> {
    Found(String),
    /// The request must be signed. Its key is read after its signature is verified.
    Signed(&'a FindSignedKey),
    /// The key is in the body.
    Body(&'a JsonKey),
    /// The request has no key, and idempotency is switched off.
    Missing,
}

/// Reads the key from the head, before the body is read. Returns `None` if the request passes through:
/// it has another method, or no key and needs none. A webhook never passes through.
pub(super) fn key<'a>(config: &'a Http, parts: &Parts) -> Result<Option<RequestKey<'a>>, Problem> {
    let methods = config.methods.as_deref().unwrap_or(&[Method::POST, Method::PATCH]);
    let found = match &config.key {
        KeyRule::Signed(find) => return Ok(Some(RequestKey::Signed(find))),
        _ if !methods.contains(&parts.method) => return Ok(None),
        KeyRule::Body(key) if !config.is_off() => {
            return reject_grpc(parts).map(|()| Some(RequestKey::Body(key)));
        }
        KeyRule::Body(_) => Ok(Ok(None)),
        KeyRule::Header(name) => Ok(key_header::parse(&parts.headers, name)),
        KeyRule::Found(find) => {
            call_configured(config, "Http::key", || find(parts)).map(key_header::bounded)
        }
    };
    let found = found.and_then(|found| match found {
        Ok(None) if !config.key_required => Ok(None),
        found => required(config, parts, found).map(Some),
    });
    if config.is_off() && !matches!(found, Ok(Some(_))) {
        // A gRPC response streams and has trailers, so it passes through.
        return Ok((!is_grpc(&parts.headers)).then_some(RequestKey::Missing));
    }
    Ok(found?.map(RequestKey::Found))
}

/// Returns whether the request is gRPC or gRPC-Web, by its content type.
fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let start = content_type.get(..b"application/grpc".len()).unwrap_or_default();
    start.eq_ignore_ascii_case(b"application/grpc")
}

fn reject_grpc(parts: &Parts) -> Result<(), Problem> {
    if is_grpc(&parts.headers) {
        let detail = "A gRPC answer has its status in trailers, which are not stored. Nothing ran.";
        return Err(Problem::new(ProblemKind::GrpcUnsupported, detail));
    }
    Ok(())
}

/// Returns the key of a request that needs one.
fn required(config: &Http, parts: &Parts, found: FoundKey) -> Result<String, Problem> {
    reject_grpc(parts)?;
    found.map_err(|detail| Problem::new(ProblemKind::KeyInvalid, detail))?.ok_or_else(|| {
        let detail = match &config.key {
            KeyRule::Header(name) => {
                format!("send a unique key for this request in the header {name}")
            }
            KeyRule::Found(_) | KeyRule::Body(_) => "the request has no idempotency key".into(),
            KeyRule::Signed(_) => {
                "the event has no id where this webhook's settings look for it".into()
            }
        };
        Problem::new(ProblemKind::KeyMissing, detail)
    })
}

/// Creates the call for a request with its body. A webhook's signature is verified even if idempotency
/// is switched off.
pub(super) async fn call(
    config: &Http,
    parts: &Parts,
    key: RequestKey<'_>,
    body: &[u8],
) -> Result<Arc<CallContext>, Problem> {
    let core = config.calls.core();
    let key = match key {
        RequestKey::Found(key) => Ok(key),
        RequestKey::Missing => required(config, parts, Ok(None)),
        RequestKey::Body(_) if body.len() > config.body_limit() => {
            Err(problem::body_too_large(config.body_limit()))
        }
        RequestKey::Body(key) => key
            .find(body)
            .map_err(|none| match none {
                NoKey::Missing(detail) => Problem::new(ProblemKind::KeyMissing, detail),
                NoKey::Invalid(detail) => Problem::new(ProblemKind::KeyInvalid, detail),
            })
            .and_then(|key| required(config, parts, key_header::bounded(Some(key)))),
        RequestKey::Signed(find) => {
            let (found, valid) = call_configured(config, "Http::webhook", || find(parts, body))??;
            if let Some(valid) = valid {
                // Boxed, because other requests need no room for its state.
                Box::pin(check_age(config, parts, valid)).await?;
            }
            required(config, parts, found.and_then(key_header::bounded))
        }
    };
    let identity = key.and_then(|key| identify(config, parts, &key, body));
    let answers = AnswerRules { is_http: true, on_store: config.on_store.clone() };
    let deadline = lambda_event::deadline(&core.table.clock, &parts.extensions);
    let (scope, policy) = (&config.calls.scope, Arc::clone(&config.calls.policy));
    let call = CallContext::new(core, scope, identity, policy, deadline, answers)?;
    let outer = parts.extensions.get::<Execution>();
    if call.has_record && outer.is_some_and(|outer| outer.is_of(core, &call.key)) {
        // The inner layer would wait for the outer one's record.
        let operation = scope.operation();
        let message = format!(
            "two idempotency layers with the scope of `{operation}` are around one handler: remove one, or \
             give it another scope"
        );
        let error = Error::new(ErrorKind::Configuration, message);
        return Err(problem::explain(Some(operation), error.details()));
    }
    Ok(call)
}

/// Checks the time of a right signature by DynamoDB's clock. If no response has shown that clock yet, it
/// is read first. Without the read, a process whose own clock is wrong would refuse every delivery and
/// never send the request that corrects its clock. While idempotency is switched off, nothing is sent,
/// and the local clock decides.
async fn check_age(
    config: &Http,
    parts: &Parts,
    valid: RangeInclusive<Timestamp>,
) -> Result<(), Problem> {
    let core = config.calls.core();
    let learned = if config.is_off() {
        Ok(())
    } else {
        let deadline = lambda_event::deadline(&core.table.clock, &parts.extensions);
        let limit = core.time_until(deadline.map(|deadline| deadline.minus(COMPLETION_MARGIN)));
        let learning = core.table.clock.within(limit, learn_time(&core.table)).await;
        learning.unwrap_or_else(|| {
            let message = "the deadline came before DynamoDB's time was known: nothing was run";
            Err(Error::new(ErrorKind::DeadlineExceeded, message))
        })
    };
    if valid.contains(&core.table.clock.guess()) {
        // After an error, the call finds out itself whether DynamoDB is still out of reach.
        return Ok(());
    }
    // The signature may be in time by DynamoDB's clock, so the sender must deliver it again.
    learned
        .map_err(|error| problem::explain(Some(config.calls.scope.operation()), error.details()))?;
    Err(problem::unsigned("it is too old, or its time is in the future"))
}

/// Returns the identity of a request. While idempotency is switched off, the fingerprint is empty.
fn identify(
    config: &Http,
    parts: &Parts,
    key: &str,
    body: &[u8],
) -> Result<(RecordKey, Fingerprint), Problem> {
    let fingerprint = match &config.fingerprint {
        _ if config.is_off() => Fingerprint::empty(),
        _ if body.len() > config.body_limit() => {
            return Err(problem::body_too_large(config.body_limit()));
        }
        Some(chosen) => call_configured(config, "Http::fingerprint", || chosen(parts, body))?,
        None if config.is_signed() => Fingerprint::empty(),
        None => default_fingerprint(parts, body),
    };
    let scope = scope_of(config, parts)?;
    let max_bytes = config.calls.core().table.schema.max_key_bytes();
    let key = RecordKey::new(&scope, key, config.calls.policy.key_form, max_bytes);
    let key = key.map_err(|error| match error.kind() {
        // The error's advice is for the authors of the service, not for the client.
        ErrorKind::InvalidInput => {
            Problem::new(ProblemKind::KeyInvalid, "the idempotency key is too long")
        }
        _ => problem::explain(Some(config.calls.scope.operation()), error.details()),
    })?;
    Ok((key, fingerprint))
}

/// Creates the call for a request whose body is in memory. Returns `None` if [`key`] does.
#[cfg(feature = "lambda")]
pub(crate) async fn whole_call<B: AsRef<[u8]>>(
    config: &Http,
    request: http::Request<B>,
) -> (Result<Option<Arc<CallContext>>, Problem>, http::Request<B>) {
    let (parts, body) = request.into_parts();
    let call = match key(config, &parts) {
        Ok(Some(key)) => call(config, &parts, key, body.as_ref()).await.map(Some),
        Ok(None) => Ok(None),
        Err(problem) => Err(problem),
    };
    (call, http::Request::from_parts(parts, body))
}

/// Returns whether the request tells clients apart.
fn carries_credentials(parts: &Parts) -> bool {
    let headers = &parts.headers;
    headers.contains_key(AUTHORIZATION)
        || headers.contains_key("x-api-key")
        || lambda_event::is_authorized(&parts.extensions)
}

/// Warns once per operation and process.
fn warn_of_shared_keys(operation: &str) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_first = {
        let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
        !warned.contains(operation) && warned.insert(operation.to_owned())
    };
    if is_first {
        tracing::warn!(
            operation,
            "requests carry credentials, and no tenant is set: clients that send the same key and request \
             get one answer. Call Http::tenant, or Http::single_tenant if they may share it"
        );
    }
}

/// Returns the scope with the request's tenant.
fn scope_of(config: &Http, parts: &Parts) -> Result<Scope, Problem> {
    if config.tenancy == Tenancy::Unset && !config.is_signed() && carries_credentials(parts) {
        warn_of_shared_keys(config.calls.scope.operation());
    }
    let found = call_configured(config, "Http::tenant", || (config.tenant)(parts))?;
    let scope = config.calls.scope.clone();
    match found {
        Tenant::Known(tenant) if !tenant.is_empty() => Ok(scope.tenant(&tenant)),
        Tenant::Unknown if config.tenancy != Tenancy::Required => Ok(scope),
        Tenant::Unknown => {
            let detail = "the request names no tenant";
            Err(Problem::new(ProblemKind::TenantMissing, detail))
        }
        // All requests with an empty name would share one tenant.
        Tenant::Known(_) | Tenant::Invalid => {
            let detail = "the request names several tenants, or one without a name";
            Err(Problem::new(ProblemKind::TenantInvalid, detail))
        }
    }
}
