//! Idempotent HTTP handlers: a repeat of a request gets the same answer.
//!
//! ```
//! # doc_examples::run(async |_, idempotency| {
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! let handler = service_fn(async |_: Request<Full<Bytes>>| {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from("paid"))))
//! });
//! let service = idempotency.http("payments").layer()?.layer(handler);
//! for replayed in [false, true] {
//!     let request = Request::post("/payments").header("idempotency-key", "order-42");
//!     let response = service.clone().oneshot(request.body(Full::default())?).await?;
//!     assert_eq!(response.headers().contains_key("idempotency-replayed"), replayed);
//! }
//! # Ok(()) });
//! ```
//!
//! The rules follow draft-ietf-httpapi-idempotency-key-header-07. Where the draft leaves a choice, most
//! rules follow Stripe:
//!
//! 1. `POST` and `PATCH` are made idempotent. Other methods pass through.
//! 2. `Idempotency-Key` is a string of RFC 8941, or the same text without quotes, of 1 to 255 bytes. If
//!    it is missing, malformed or repeated, the response is 400.
//! 3. The same key with another method, path, query or body gets 422. JSON bodies are compared by
//!    value.
//! 4. While the first request runs, a request with the same key gets 409 with `Retry-After`, or waits
//!    if the [`Policy`] says so.
//! 5. 2xx, 3xx except 304, and final errors such as 402 and 404 are stored. A replay has the header
//!    `Idempotency-Replayed: true`. A status that rejects the request before anything was done, such as
//!    400, 401, 403 or 422, frees the key, and so do 304 and 412. Any other status, an error or a panic is a
//!    failure: by default nothing is stored, and the next request runs the handler again.
//!    [`Http::store_if`] has the table.
//! 6. `Set-Cookie`, `Date` and hop-by-hop headers are never stored.
//! 7. A handler that rejects a request without doing anything can call
//!    [`discard`](crate::Execution::discard), which frees the key.
//! 8. If the lease of a request expires without an answer, the next request runs the handler again, or
//!    a hook decides; see [`Http::reconcile`].
//! 9. The crate's own responses are `application/problem+json` (RFC 9457); see [`ProblemKind`]. The
//!    extensions of each response contain [`AnsweredBy`], unless the request passed through.
//!
//! The handler finds its [`Execution`](crate::Execution) in the extensions of the request. An answer is
//! stored before its first byte is sent, so bodies are held in memory, without trailers. If a request
//! passes through, the crate streams its body and the body of the response. An answer that is too long
//! to be stored streams if you set [`Http::stream_large_answers`].
//!
//! **Authenticate first.** Every client that sends the key and the same request gets the replay, and
//! the handler does not run. Authenticate in an outer layer or an authorizer, and separate clients with
//! [`Http::tenant`].

pub(crate) mod answer;
pub(crate) mod answer_body;
mod answer_settings;
mod answered_by;
#[cfg(feature = "axum")]
pub mod axum;
pub(crate) mod client;
mod commit;
pub(crate) mod exchange;
mod fingerprint;
mod handler_transaction;
pub(crate) mod key_header;
pub(crate) mod layer;
mod problem;
pub(crate) mod request;
mod statuses;
mod stored_until;
pub mod tenant;
#[cfg(feature = "webhook")]
pub mod webhook;

use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderName, Method, Response};

pub use self::answer_body::AnswerBody;
pub use self::answered_by::AnsweredBy;
pub use self::layer::{IdempotencyLayer, IdempotencyService};
pub use self::problem::{Problem, ProblemKind};
pub use self::stored_until::StoredUntil;
pub use self::tenant::Tenant;
#[cfg(feature = "webhook")]
pub use self::webhook::{HmacScheme, Webhook};

use self::answer_body::BoxError;
#[cfg(feature = "testing")]
pub(crate) use self::fingerprint::fingerprint_of;
use self::problem::Renderer;
use self::statuses::{StoreIf, stores_interim};
use crate::answer::OnStore;
use crate::answer::reason::http as reason;
use crate::call::acquiring::hook_without_answers;
use crate::call::hook::{Abandoned, Reconciled};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::idempotency::Idempotency;
use crate::json::JsonKey;
use crate::operation::OperationConfig;
use crate::policy::{Completed, Policy};
use crate::store::key::Scope;

/// Lambda's limit for a whole event, in bytes, which no body in an event reaches.
const DEFAULT_MAX_BODY_BYTES: usize = 6 * 1024 * 1024;

/// The largest body that a known sender of webhooks sends, in bytes: GitHub's limit of 25 MB.
/// <https://docs.github.com/en/webhooks/webhook-events-and-payloads>.
const LARGEST_SIGNED_BODY: usize = 25 * 1024 * 1024;

impl Idempotency {
    /// Makes HTTP handlers idempotent. `scope` is the namespace of their keys.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let http = idempotency.http("payments");
    /// # Ok(()) });
    /// ```
    pub fn http(&self, scope: impl Into<Scope>) -> Http {
        Http {
            calls: OperationConfig::new(self, scope.into()),
            methods: None,
            key: KeyRule::Header(HeaderName::from_static("idempotency-key")),
            key_rules: 0,
            key_required: true,
            tenant: Arc::new(|_| Tenant::Unknown),
            tenancy: Tenancy::Unset,
            fingerprint: None,
            store_if: None,
            wrong: None,
            reconcile: None,
            renderer: Arc::new(Problem::to_response),
            on_store: None,
            on_replay: None,
            max_body_bytes: None,
            stream_large: false,
        }
    }
}

type FindKey = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;
/// Finds the key in a request and its body. The error is the problem of a request that its sender has
/// not signed.
type FindSignedKey =
    Arc<dyn Fn(&Parts, &[u8]) -> Result<(FoundKey, ValidTimes), Problem> + Send + Sync>;
/// When a right signature is accepted. `None` if it contains no time.
type ValidTimes = Option<RangeInclusive<Timestamp>>;
/// The error says why the key is malformed.
type FoundKey = Result<Option<String>, &'static str>;
type FindTenant = Arc<dyn Fn(&Parts) -> Tenant + Send + Sync>;
type RequestFingerprint = Arc<dyn Fn(&Parts, &[u8]) -> Fingerprint + Send + Sync>;
type OnReplay = Arc<dyn Fn(Response<Bytes>) -> Response<Bytes> + Send + Sync>;

/// The settings of idempotent HTTP handlers. [`Idempotency::http`] creates them.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) -> Result<(), dynamodb_idempotency::Error> {
/// use dynamodb_idempotency::http::tenant;
/// use http::Method;
///
/// let layer = idempotency
///     .http("payments")
///     .methods([Method::POST])
///     .tenant(tenant::header_sha256("x-api-key"))
///     .max_body_bytes(64 * 1024)
///     .layer()?;
/// # Ok(()) }
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Http {{ scope: {:?}, policy: {:?}, .. }}", calls.scope, calls.policy)]
#[must_use = "wrap a service with it"]
pub struct Http {
    calls: OperationConfig,
    methods: Option<Vec<Method>>,
    key: KeyRule,
    /// How many times [`header`](Self::header), [`key`](Self::key), [`json_key`](Self::json_key) and `webhook`
    /// were called.
    key_rules: usize,
    key_required: bool,
    tenant: FindTenant,
    tenancy: Tenancy,
    fingerprint: Option<RequestFingerprint>,
    store_if: Option<StoreIf>,
    /// Why the settings of a webhook, or the pointers of a [`JsonKey`], cannot be used.
    wrong: Option<String>,
    reconcile: Option<ReconcileHook>,
    renderer: Renderer,
    on_store: Option<OnStore>,
    on_replay: Option<OnReplay>,
    max_body_bytes: Option<usize>,
    stream_large: bool,
}

/// What a hook returns for an abandoned request.
type HookAnswer = Reconciled<Response<Bytes>, Response<Bytes>>;

/// More than any answer that can be stored, in bytes.
const LARGEST_HOOK_BODY: usize = 32 * 1024 * 1024;

/// Reads the body of a hook's response, and marks it. Its `Content-Length` may be that of another response.
/// An interim response is an error before its body is read.
async fn whole<B>(response: Response<B>) -> Result<Response<Bytes>, BoxError>
where
    B: http_body::Body<Error: Into<BoxError>>,
{
    let (mut parts, body) = response.into_parts();
    if parts.status.is_informational() {
        return Err(format!("the hook's response cannot be stored: {}", reason::INTERIM).into());
    }
    let body = http_body_util::Limited::new(body, LARGEST_HOOK_BODY);
    let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
    parts.headers.remove(http::header::CONTENT_LENGTH);
    Ok(AnsweredBy::Hook.mark(Response::from_parts(parts, body)))
}

/// A hook, which many requests share.
type ReconcileHook =
    Arc<dyn Fn(Abandoned) -> BoxFuture<'static, Result<HookAnswer, BoxError>> + Send + Sync>;

/// Whether requests have a tenant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tenancy {
    /// No setting says it.
    Unset,
    /// All clients share one scope on purpose.
    Shared,
    Optional,
    Required,
}

/// Where a request's key is found.
#[derive(Clone)]
enum KeyRule {
    Header(HeaderName),
    Found(FindKey),
    /// In the JSON of the body.
    Body(JsonKey),
    /// In a request that its sender signs. The signature is verified before the request can have any
    /// effect.
    #[cfg_attr(not(feature = "webhook"), expect(dead_code, reason = "only webhooks are signed"))]
    Signed(FindSignedKey),
}

impl Http {
    /// Changes the policy for these requests.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::policy::Failure;
    ///
    /// let http = idempotency
    ///     .http("payments")
    ///     .policy(|policy| policy.failure(Failure::Retain { max_attempts: 3 }));
    /// # Ok(()) });
    /// ```
    pub fn policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.calls = self.calls.change_policy(change);
        self
    }

    /// Sets the methods that are made idempotent. Default: `POST` and `PATCH`.
    ///
    /// With a webhook, this is a configuration error, because every method is made idempotent.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use http::Method;
    ///
    /// let http = idempotency.http("payments").methods([Method::POST, Method::PUT]);
    /// # Ok(()) });
    /// ```
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = Some(methods.into_iter().collect());
        self
    }

    /// Sets the header that contains the key. Default: `Idempotency-Key`.
    ///
    /// A second key rule (`header`, [`key`](Self::key), [`json_key`](Self::json_key) or `webhook`) is a
    /// configuration error.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use http::HeaderName;
    ///
    /// let http = idempotency.http("payments").header(HeaderName::from_static("x-request-id"));
    /// # Ok(()) });
    /// ```
    pub fn header(mut self, name: HeaderName) -> Self {
        self.key = KeyRule::Header(name);
        self.key_rules += 1;
        self
    }

    /// Takes the key from elsewhere in the head of a request, instead of the header.
    ///
    /// For example, take it from the path, the query, or what an authorizer left in the extensions. The
    /// key has 1 to 255 bytes of any characters. `None` means that the request has no key. A second key
    /// rule is a configuration error.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// // PUT /payments/8e03978e: the client names what it creates.
    /// let http = idempotency
    ///     .http("payments")
    ///     .methods([http::Method::PUT])
    ///     .key(|parts| Some(parts.uri.path().strip_prefix("/payments/")?.to_owned()));
    /// # }
    /// ```
    pub fn key(mut self, find: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.key = KeyRule::Found(Arc::new(find));
        self.key_rules += 1;
        self
    }

    /// Takes the key from the JSON of a request's body, instead of the header.
    ///
    /// [`JsonKey`] describes the key, which has 1 to 255 bytes. The body is read within
    /// [`max_body_bytes`](Self::max_body_bytes). A request whose body lacks the key, or is not JSON, gets 400.
    /// So [`key_optional`](Self::key_optional) is a configuration error, as a second key rule and an invalid
    /// JSON pointer are.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let orders = idempotency.http("orders").json_key(["/order_id"]);
    /// let lines = idempotency.http("lines").json_key(["/order/id", "/line"]);
    /// # Ok(()) });
    /// ```
    pub fn json_key(mut self, key: impl Into<JsonKey>) -> Self {
        let key = key.into();
        self.wrong = key.wrong();
        self.key = KeyRule::Body(key);
        self.key_rules += 1;
        self
    }

    /// Lets requests without a key pass through, unprotected. By default they are rejected with 400.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let http = idempotency.http("payments").key_optional();
    /// # Ok(()) });
    /// ```
    pub fn key_optional(mut self) -> Self {
        self.key_required = false;
        self
    }

    /// Separates the keys of different tenants.
    ///
    /// The result of `tenant` becomes the [tenant](Scope::tenant) of the scope. A request without a
    /// tenant is rejected with 400. The module [`tenant`] has functions for common cases. A function of
    /// your own returns an `Option<String>` or a [`Tenant`].
    ///
    /// Without this setting, every client that sends the same key and request gets the stored answer. If such
    /// requests carry an authorizer's data, an `Authorization` header or an API key, the crate warns once per
    /// process; see [`single_tenant`](Self::single_tenant).
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use http::request::Parts;
    ///
    /// // A layer above authenticates the request and inserts this extension.
    /// #[derive(Clone)]
    /// struct Customer(String);
    ///
    /// let http = idempotency
    ///     .http("payments")
    ///     .tenant(|parts: &Parts| parts.extensions.get::<Customer>().map(|customer| customer.0.clone()));
    /// # }
    /// ```
    pub fn tenant<T: Into<Tenant>>(
        mut self,
        tenant: impl Fn(&Parts) -> T + Send + Sync + 'static,
    ) -> Self {
        self.tenant = Arc::new(move |parts| tenant(parts).into());
        self.tenancy = Tenancy::Required;
        self
    }

    /// Like [`tenant`](Self::tenant), but requests without a tenant share the scope that has no tenant.
    ///
    /// Use it for an API that also serves anonymous clients. A request that names several tenants is
    /// still rejected.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::http::tenant;
    ///
    /// let http = idempotency.http("payments").optional_tenant(tenant::header_sha256("x-api-key"));
    /// # Ok(()) });
    /// ```
    pub fn optional_tenant<T: Into<Tenant>>(
        self,
        tenant: impl Fn(&Parts) -> T + Send + Sync + 'static,
    ) -> Self {
        Self { tenancy: Tenancy::Optional, ..self.tenant(tenant) }
    }

    /// Declares that all clients may share keys and answers, although requests carry credentials.
    ///
    /// For example, all requests come from one service of your own. It replaces [`tenant`](Self::tenant).
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let http = idempotency.http("payments").single_tenant();
    /// # Ok(()) });
    /// ```
    pub fn single_tenant(mut self) -> Self {
        self.tenant = Arc::new(|_| Tenant::Unknown);
        self.tenancy = Tenancy::Shared;
        self
    }

    /// Sets which parts of a request must be the same in a repeat. Default: method, path, query and
    /// body; for webhooks not the body. Headers such as `Content-Type` are not compared.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::Fingerprint;
    ///
    /// // Only the body: a repeat may use another path.
    /// let http = idempotency
    ///     .http("payments")
    ///     .fingerprint(|_, body| Fingerprint::builder().json(body).finish());
    /// # }
    /// ```
    ///
    /// A repeat of `multipart/form-data` has another boundary. This compares the text between the boundaries, and the
    /// content type:
    ///
    /// ```
    /// use dynamodb_idempotency::{Fingerprint, Idempotency, http::Http};
    ///
    /// fn uploads(idempotency: &Idempotency) -> Http {
    ///     idempotency.http("uploads").fingerprint(|parts, body| {
    ///         let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or("");
    ///         let (kind, boundary) = kind.split_once("boundary=").unwrap_or((kind, ""));
    ///         let boundary = format!("--{}", boundary.trim_matches('"'));
    ///         let body: String = body.iter().copied().map(char::from).collect(); // a character for each byte
    ///         let fingerprint = Fingerprint::builder().bytes(parts.uri.path().as_bytes()).bytes(kind.as_bytes());
    ///         body.split(&boundary).fold(fingerprint, |all, part| all.bytes(part.as_bytes())).finish()
    ///     })
    /// }
    /// ```
    pub fn fingerprint(
        mut self,
        fingerprint: impl Fn(&Parts, &[u8]) -> Fingerprint + Send + Sync + 'static,
    ) -> Self {
        self.fingerprint = Some(Arc::new(fingerprint));
        self
    }

    /// Limits the size of a request body, in bytes. Default: 6 MiB; 25 MiB for GitHub's webhooks.
    ///
    /// A request with a larger body gets 413, and nothing runs. [`layer`](Self::layer) reads at most
    /// this many bytes into memory. The fingerprint of a JSON body of many tiny members takes up to
    /// 13 times its size while it is computed.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let http = idempotency.http("payments").max_body_bytes(64 * 1024);
    /// # Ok(()) });
    /// ```
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = Some(bytes);
        self
    }

    /// Sets the hook that decides about an abandoned request.
    ///
    /// A request is abandoned if its lease expired without an answer. The hook replaces
    /// [`Policy::takeover`](crate::Policy::takeover); see [`Call::reconcile`](crate::Call::reconcile).
    /// It can use [`Abandoned::derive_key`] and the [steps](Abandoned::step) of the earlier request.
    /// Its answers are responses with any body of at most 32 MiB, which is read whole, and are stored whatever their
    /// final status: in axum `into_response()` of what a handler returns. If the hook or the body fails, or the
    /// status is 1xx, the client gets [`ProblemKind::ReconcileFailed`], and nothing is stored. If the hook panics,
    /// the client gets [`ProblemKind::HandlerPanicked`].
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::{Abandoned, Reconciled};
    /// use http::Response;
    /// # async fn find_charge(_: &str) -> Result<Option<String>, std::io::Error> { Ok(None) }
    ///
    /// let http = idempotency.http("charges").reconcile(|abandoned: Abandoned| async move {
    ///     let found = find_charge(&abandoned.derive_key("charge").uuid()).await?;
    ///     Ok::<_, std::io::Error>(match found {
    ///         Some(charge) => Reconciled::Completed(Response::new(charge)),
    ///         None => Reconciled::Execute,
    ///     })
    /// });
    /// # }
    /// ```
    pub fn reconcile<H, Fut, B, E>(mut self, hook: H) -> Self
    where
        H: Fn(Abandoned) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reconciled<Response<B>, Response<B>>, E>> + Send + 'static,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.reconcile = Some(Arc::new(move |abandoned| {
            let resolution = hook(abandoned);
            Box::pin(async move {
                Ok(match resolution.await.map_err(Into::into)? {
                    Reconciled::Completed(response) => {
                        Reconciled::Completed(whole(response).await?)
                    }
                    Reconciled::Commit { answer, items } => {
                        Reconciled::Commit { answer: whole(answer).await?, items }
                    }
                    Reconciled::Failed(response) => Reconciled::Failed(whole(response).await?),
                    Reconciled::Execute => Reconciled::Execute,
                    Reconciled::Refuse => Reconciled::Refuse,
                })
            })
        }));
        self
    }

    /// Returns whether idempotency is [switched off](crate::Builder::disabled). Then only webhooks can
    /// be rejected, for an invalid signature or a body that is too large.
    fn is_off(&self) -> bool {
        self.calls.core().is_disabled
    }

    /// Returns whether every request must be signed.
    fn is_signed(&self) -> bool {
        matches!(self.key, KeyRule::Signed(_))
    }

    /// The largest request body that is read, in bytes.
    fn body_limit(&self) -> usize {
        let limit = self.max_body_bytes.unwrap_or(DEFAULT_MAX_BODY_BYTES);
        // While idempotency is switched off, only a webhook's body is read. The limit must accept the
        // bodies of all known senders, but must keep an unauthenticated sender from filling the memory.
        if self.is_off() { limit.max(LARGEST_SIGNED_BODY) } else { limit }
    }

    /// Checks this configuration.
    pub(crate) fn checked(self) -> Result<Arc<Self>, Error> {
        let wrong = if self.key_rules > 1 {
            Some(
                "Http has more than one key rule: call only one of header(), key(), json_key() and \
                 webhook(), once",
            )
        } else if self.is_signed() && self.methods.is_some() {
            Some(
                "Http::methods does not apply to webhooks, which are checked whatever their method: \
                 remove methods()",
            )
        } else if matches!(self.key, KeyRule::Body(_)) && !self.key_required {
            Some(
                "Http::key_optional does not apply to json_key(), because a request whose body lacks the \
                 key cannot pass through: remove key_optional()",
            )
        } else if self.store_if.as_ref().is_some_and(stores_interim) {
            Some("Http::store_if selects 1xx statuses: an interim response cannot be stored")
        } else {
            self.wrong.as_deref()
        };
        if let Some(wrong) = wrong {
            return Err(Error::new(ErrorKind::Configuration, wrong));
        }
        let calls = self.calls.checked()?;
        if self.reconcile.is_some() && calls.policy.completed == Completed::Release {
            return Err(hook_without_answers());
        }
        Ok(Arc::new(Self { calls, ..self }))
    }
}
