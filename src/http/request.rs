//! Reads the key, the tenant and the fingerprint of a request, without I/O.

use std::borrow::Cow;

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};

use super::exchange::call_configured;
use super::fingerprint::default_fingerprint;
use super::problem::{self, Problem, ProblemKind};
use super::{Http, KeyRule, SignedRequests, Tenant, TenantRule, key_header};
use crate::answer::AnswerRules;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::lambda_event;
use crate::run::call::CallContext;
use crate::run::execution::Execution;
use crate::store::key::{RecordKey, Scope};

/// The key of a request.
pub(super) enum RequestKey<'a> {
    Found(String),
    /// The request must be signed. Its key is read after its signature is verified.
    Signed(&'a dyn SignedRequests),
    /// The request has no key, and idempotency is switched off.
    Missing,
}

/// Reads the key from the head, before the body is read. Returns `None` if the request passes
/// through: it has another method, or no key where none is required. A webhook never passes
/// through.
pub(super) fn key<'a>(config: &'a Http, parts: &Parts) -> Result<Option<RequestKey<'a>>, Problem> {
    if let Some(webhook) = config.webhook.as_deref() {
        return Ok(Some(RequestKey::Signed(webhook)));
    }
    let methods = config.methods.as_deref().unwrap_or(&[Method::POST, Method::PATCH]);
    if !methods.contains(&parts.method) {
        return Ok(None);
    }
    if !config.is_off() {
        return find_key(config, parts);
    }
    match find_key(config, parts) {
        Ok(Some(found)) => Ok(Some(found)),
        // A gRPC response streams and has trailers, so it passes through.
        Ok(None) | Err(_) if is_grpc(&parts.headers) => Ok(None),
        Ok(None) | Err(_) => Ok(Some(RequestKey::Missing)),
    }
}

fn find_key(config: &Http, parts: &Parts) -> Result<Option<RequestKey<'static>>, Problem> {
    let is_grpc = is_grpc(&parts.headers);
    let found = match &config.key {
        KeyRule::Header(name) => key_header::parse(&parts.headers, name),
        KeyRule::Found(find) => {
            let found = call_configured(config, "Http::key", || find(parts))?;
            found.map(key_header::bounded).transpose()
        }
    };
    if !config.key_required && found == Ok(None) {
        return Ok(None);
    }
    if is_grpc {
        return Err(grpc_rejected());
    }
    required(config, found).map(|key| Some(RequestKey::Found(key)))
}

/// Returns the key of a request whose signature is verified.
fn signed_key(
    config: &Http,
    webhook: &dyn SignedRequests,
    parts: &Parts,
    body: &[u8],
) -> Result<String, Problem> {
    if is_grpc(&parts.headers) {
        return Err(grpc_rejected());
    }
    let found = webhook.key(parts, body);
    required(config, found.and_then(|key| key.map(key_header::bounded).transpose()))
}

/// Returns whether the request is gRPC or gRPC-Web, by its content type.
fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let start = content_type.get(..b"application/grpc".len()).unwrap_or_default();
    start.eq_ignore_ascii_case(b"application/grpc")
}

fn grpc_rejected() -> Problem {
    let detail = "A gRPC answer has its status in trailers, which are not stored. Nothing ran.";
    Problem::new(ProblemKind::GrpcUnsupported, detail)
}

/// Returns the key of a request that needs one.
fn required(config: &Http, found: Result<Option<String>, &'static str>) -> Result<String, Problem> {
    match found {
        Ok(Some(key)) => Ok(key),
        Ok(None) => Err(Problem::new(ProblemKind::KeyMissing, key_request(config))),
        Err(detail) => Err(Problem::new(ProblemKind::KeyInvalid, detail)),
    }
}

fn key_request(config: &Http) -> Cow<'static, str> {
    match &config.key {
        KeyRule::Header(name) if config.webhook.is_none() => {
            format!("send a unique key for this request in the header {name}").into()
        }
        KeyRule::Header(_) | KeyRule::Found(_) => "the request has no idempotency key".into(),
    }
}

/// Returns whether the request's body must be read before its handler runs.
pub(super) fn reads_body(config: &Http) -> bool {
    !config.is_off() || config.webhook.is_some()
}

/// Creates the call for a request with its body. A webhook's signature is verified even while
/// idempotency is switched off.
pub(super) fn call(
    config: &Http,
    parts: &Parts,
    key: &RequestKey<'_>,
    body: &[u8],
) -> Result<CallContext, Problem> {
    let core = config.calls.core();
    let key = match key {
        RequestKey::Found(key) => Ok(key.clone()),
        RequestKey::Missing => required(config, Ok(None)),
        RequestKey::Signed(webhook) => {
            let now = core.table.clock.guess();
            call_configured(config, "Http::webhook", || webhook.verify(parts, body, now))??;
            signed_key(config, *webhook, parts, body)
        }
    };
    let identity = key.and_then(|key| identify(config, parts, &key, body));
    let answers = AnswerRules { is_http: true, on_store: config.on_store.clone() };
    let deadline = lambda_event::deadline(&core.table.clock, &parts.extensions);
    let (scope, policy) = (&config.calls.scope, config.calls.policy.clone());
    let call = CallContext::new(core, scope, identity, policy, deadline, answers)?;
    match parts.extensions.get::<Execution>() {
        Some(outer) if call.has_record && outer.is_of(core, &call.key) => Err(layered_twice(scope)),
        _ => Ok(call),
    }
}

/// Two layers of one scope are around a handler: the inner one would wait for the outer one's record.
fn layered_twice(scope: &Scope) -> Problem {
    let operation = scope.operation();
    let message = format!(
        "two idempotency layers with the scope of `{operation}` are around one handler: remove one, or \
         give it another scope"
    );
    problem::explain(Some(operation), &Error::new(ErrorKind::Configuration, message))
}

/// Returns the identity of a request. While idempotency is switched off, the fingerprint is empty.
fn identify(
    config: &Http,
    parts: &Parts,
    key: &str,
    body: &[u8],
) -> Result<(RecordKey, Fingerprint), Problem> {
    let key = || record_key(config, &scope_of(config, parts)?, key);
    if config.is_off() {
        return Ok((key()?, Fingerprint::empty()));
    }
    if body.len() > config.body_limit() {
        return Err(problem::body_too_large(config.body_limit()));
    }
    let fingerprint = match &config.fingerprint {
        Some(chosen) => call_configured(config, "Http::fingerprint", || chosen(parts, body))?,
        None if config.webhook.is_some() => Fingerprint::empty(),
        None => default_fingerprint(parts, body),
    };
    Ok((key()?, fingerprint))
}

/// Creates the call for a request whose body is in memory; `None` as for [`key`].
#[cfg(feature = "lambda")]
pub(crate) fn whole_call(
    config: &Http,
    parts: &Parts,
    body: &[u8],
) -> Result<Option<CallContext>, Problem> {
    key(config, parts)?.map(|key| call(config, parts, &key, body)).transpose()
}

/// The name of the setting in log lines.
const TENANT: &str = "Http::tenant";

/// Returns the scope with the request's tenant.
fn scope_of(config: &Http, parts: &Parts) -> Result<Scope, Problem> {
    let (found, is_required) = match &config.tenant {
        TenantRule::None => (Tenant::Unknown, false),
        TenantRule::Optional(find) => (call_configured(config, TENANT, || find(parts))?, false),
        TenantRule::Required(find) => (call_configured(config, TENANT, || find(parts))?, true),
    };
    let scope = config.calls.scope.clone();
    match found {
        Tenant::Known(tenant) if !tenant.is_empty() => Ok(scope.tenant(&tenant)),
        Tenant::Unknown if !is_required => Ok(scope),
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

fn record_key(config: &Http, scope: &Scope, key: &str) -> Result<RecordKey, Problem> {
    let max_bytes = config.calls.core().table.schema.max_key_bytes();
    RecordKey::new(scope, key, config.calls.policy.key_form, max_bytes).map_err(|error| {
        match error.kind() {
            // The error's advice is for the authors of the service, not for the client.
            ErrorKind::InvalidInput => {
                Problem::new(ProblemKind::KeyInvalid, "the idempotency key is too long")
            }
            _ => problem::explain(Some(config.calls.scope.operation()), &error),
        }
    })
}
