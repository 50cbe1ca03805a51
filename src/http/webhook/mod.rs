//! Webhooks: verifies the signature of the sender, and uses the event's id as the key.
//!
//! Needs the feature `webhook`.
//!
//! ```
//! # doc_examples::run(async |_, idempotency| {
//! use axum::{Router, body::Body, http::Request, routing::post};
//! use dynamodb_idempotency::http::Webhook;
//! use tower::ServiceExt;
//!
//! async fn book(event: String) {
//!     println!("{event}"); // once for each event, however often it is delivered
//! }
//!
//! let inbox = idempotency.http("stripe").webhook(Webhook::stripe(["whsec_5WbX"])).layer()?;
//! let router: Router = Router::new().route("/stripe", post(book).route_layer(inbox));
//!
//! let forged = Request::post("/stripe").header("stripe-signature", "t=1790000000,v1=00");
//! let answer = router.oneshot(forged.body(Body::from(r#"{"id":"evt_1"}"#))?).await?;
//! assert_eq!(answer.status(), 401);
//! # Ok(()) });
//! ```
//!
//! 1. The signature is verified first, whatever the method and headers of the request, and even while
//!    idempotency is switched off. Without a valid signature, the response is 401
//!    ([`ProblemKind::SignatureInvalid`]), and nothing is looked up, replayed or run.
//! 2. The event's id is the key. A redelivered event gets the stored answer. While the first delivery
//!    is handled, a second one gets 409 with `Retry-After`, and the sender retries. Only a 2xx is
//!    stored. After any other response of the handler, such as a 404, a redirect or a 500, the next
//!    delivery runs it again, because senders count these as failed too. [`Http::store_if`] changes it.
//! 3. The body is not compared, because senders change parts of it, such as Stripe's `pending_webhooks`,
//!    between deliveries. To compare it, use [`Http::fingerprint`].
//! 4. Events are remembered for at least 30 days; see [`Http::webhook`].

mod hmac;
mod signature;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use http::request::Parts;

pub use self::hmac::HmacScheme;
use self::signature::{
    BASE64_TEXT, ReadSecret, Secrets, TEXT, Verified, github, standard, standard_headers, stripe,
};
#[cfg(doc)]
use super::ProblemKind;
use super::problem::{Problem, unsigned};
use super::{
    DEFAULT_MAX_BODY_BYTES, FoundKey, Http, KeyRule, LARGEST_SIGNED_BODY, ValidTimes, key_header,
};
use crate::json::{JsonKey, NoKey};

/// The longest time after which a known sender redelivers an event: 30 days, with `stripe events
/// resend` (<https://docs.stripe.com/cli/events/resend>).
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// A sender of webhooks: how to verify its signature, and where to find the event id.
///
/// ```
/// use dynamodb_idempotency::http::Webhook;
///
/// let stripe = Webhook::stripe(["whsec_new", "whsec_old"]);
/// let github = Webhook::github(["a secret"]);
/// let openai = Webhook::standard(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]);
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Webhook")]
#[must_use = "give it to Http::webhook"]
pub struct Webhook {
    verify: Arc<Verify>,
    /// Why the settings cannot be used.
    wrong: Option<String>,
    /// Finds the event's id.
    id: Arc<FindId>,
    /// The size of the largest request that the sender sends, in bytes.
    max_body_bytes: usize,
}

type Verify = dyn Fn(&Parts, &[u8]) -> Verified + Send + Sync;
type FindId = dyn Fn(&Parts, &[u8]) -> FoundKey + Send + Sync;

impl Webhook {
    /// Accepts Stripe's webhooks. `Stripe-Signature` signs the time and the body.
    ///
    /// The key is the event's `id` (`evt_…`). The signature may be at most 5 minutes old by DynamoDB's
    /// clock. While you rotate secrets, pass the old and the new one.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::http::Webhook;
    ///
    /// let layer = idempotency.http("stripe").webhook(Webhook::stripe(["whsec_5WbX"])).layer()?;
    /// # Ok(()) });
    /// ```
    pub fn stripe<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Self {
        Self::known("stripe", stripe, secrets, TEXT)
    }

    /// Accepts GitHub's webhooks. `X-Hub-Signature-256` signs the body.
    ///
    /// The key is `X-GitHub-Delivery`, which is the same in a redelivery. GitHub does not sign that
    /// header. An attacker who recorded a delivery could send it again under another key, so use only
    /// HTTPS.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::http::Webhook;
    ///
    /// let layer = idempotency.http("github").webhook(Webhook::github(["a secret"])).layer()?;
    /// # Ok(()) });
    /// ```
    pub fn github<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let github = Self::known("github", github, secrets, TEXT);
        let github = github.header_id(HeaderName::from_static("x-github-delivery"));
        Self { max_body_bytes: LARGEST_SIGNED_BODY, ..github }
    }

    /// Accepts Standard Webhooks, which `OpenAI`, Svix and others send.
    ///
    /// The key is `webhook-id`. The header `webhook-signature` signs the id, `webhook-timestamp` and
    /// the body. The timestamp may differ from DynamoDB's clock by at most 5 minutes. If `webhook-id`
    /// is absent, `svix-id`, `svix-timestamp` and `svix-signature` are used, which customers of Svix
    /// such as Clerk and Resend send.
    ///
    /// A secret is Base64 after `whsec_` or `v1,whsec_`, as the sender shows it. A dot in `webhook-id` is
    /// rejected with 401, because it would make the signed text ambiguous. Only symmetric signatures (`v1`) are
    /// verified, not Ed25519 (`v1a`). See <https://github.com/standard-webhooks/standard-webhooks>.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::http::Webhook;
    ///
    /// let sender = Webhook::standard(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]);
    /// let layer = idempotency.http("openai").webhook(sender).layer()?;
    /// # Ok(()) });
    /// ```
    pub fn standard<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Self {
        Self::known("standard", standard, secrets, BASE64_TEXT).id(|parts, _| {
            let [id, ..] = standard_headers(parts);
            key_header::parse_verbatim(&parts.headers, id, true)
        })
    }

    /// Accepts the webhooks of another sender that signs with HMAC-SHA256.
    ///
    /// [`HmacScheme`] has the schemes of Shopify, Slack, Paddle and Square. The key is the member `id` of
    /// the body, unless you call [`json_id`](Self::json_id) or [`header_id`](Self::header_id). If the
    /// scheme has a time, it may differ from DynamoDB's clock by at most 5 minutes, or
    /// [`tolerance`](HmacScheme::tolerance).
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::http::{HmacScheme, Webhook};
    /// use http::HeaderName;
    ///
    /// let shopify = HmacScheme::new("x-shopify-hmac-sha256", "{base64}");
    /// let shopify = Webhook::hmac(["a secret"], shopify)
    ///     .header_id(HeaderName::from_static("x-shopify-event-id"));
    /// let layer = idempotency.http("shopify").webhook(shopify).layer()?;
    /// # Ok(()) });
    /// ```
    pub fn hmac<S: Into<String>>(secrets: impl IntoIterator<Item = S>, scheme: HmacScheme) -> Self {
        let scheme = scheme.compile();
        let wrong = scheme.as_ref().err().map(|wrong| format!("Webhook::hmac: {wrong}"));
        let verify = move |secrets: &_, parts: &_, body: &_| match &scheme {
            Ok(scheme) => scheme.verify(secrets, parts, body),
            Err(_) => Err("the scheme is invalid"),
        };
        let webhook = Self::known("hmac", verify, secrets, TEXT);
        Self { wrong: webhook.wrong.clone().or(wrong), ..webhook }
    }

    /// Accepts the webhooks of another sender, which `is_signed` verifies.
    ///
    /// `is_signed` receives the head of the request, and the exact bytes of the body. Compare
    /// signatures in constant time, as `Mac::verify_slice` of the crate `hmac` does. The key is the
    /// member `id` of the body, unless you call [`json_id`](Self::json_id) or
    /// [`header_id`](Self::header_id).
    ///
    /// ```
    /// use dynamodb_idempotency::http::Webhook;
    /// # fn is_signed(_: &[u8], _: &[u8]) -> bool { true }
    ///
    /// let sender = Webhook::signed(|parts, body| {
    ///     let signature = parts.headers.get("x-signature");
    ///     signature.is_some_and(|signature| is_signed(signature.as_bytes(), body))
    /// });
    /// ```
    pub fn signed(is_signed: impl Fn(&Parts, &[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self::verified_by(move |parts, body| {
            if is_signed(parts, body) { Ok(None) } else { Err("Webhook::signed rejected it") }
        })
    }

    /// Takes the event's id from the JSON of the body: see [`JsonKey`].
    ///
    /// If a pointer is invalid, [`Http::layer`] and similar methods return an error. A byte order mark before
    /// the JSON is skipped.
    ///
    /// ```
    /// use dynamodb_idempotency::http::Webhook;
    ///
    /// // {"event": {"id": "42"}}
    /// let sender = Webhook::signed(|_, _| true).json_id("/event/id");
    /// ```
    pub fn json_id(self, id: impl Into<JsonKey>) -> Self {
        let id = id.into();
        let wrong = self.wrong.clone().or_else(|| id.wrong());
        Self { wrong, ..self.id(move |_, body| json_id(&id, body)) }
    }

    /// Takes the event's id from a header. If the header is repeated, the request is rejected with 400.
    ///
    /// ```
    /// use dynamodb_idempotency::http::Webhook;
    /// use http::HeaderName;
    ///
    /// let sender = Webhook::signed(|_, _| true).header_id(HeaderName::from_static("x-event-id"));
    /// ```
    pub fn header_id(self, name: HeaderName) -> Self {
        self.id(move |parts, _| key_header::parse_verbatim(&parts.headers, &name, false))
    }

    /// A sender whose signatures `verify` checks. The event's id is the member `id` of the body.
    fn verified_by(verify: impl Fn(&Parts, &[u8]) -> Verified + Send + Sync + 'static) -> Self {
        let id = JsonKey::new(["/id"]);
        let id = Arc::new(move |_: &Parts, body: &[u8]| json_id(&id, body));
        let max_body_bytes = DEFAULT_MAX_BODY_BYTES;
        Self { verify: Arc::new(verify), wrong: None, id, max_body_bytes }
    }

    /// A known sender, which signs with these secrets.
    fn known<S: Into<String>>(
        sender: &'static str,
        verify: impl Fn(&Secrets, &Parts, &[u8]) -> Verified + Send + Sync + 'static,
        secrets: impl IntoIterator<Item = S>,
        read: ReadSecret,
    ) -> Self {
        let secrets = Secrets::read(secrets, read);
        let advice = "pass the endpoint's signing secret, as the sender shows it";
        let wrong = secrets.as_ref().err();
        let wrong = wrong.map(|wrong| format!("Webhook::{sender}: {wrong}; {advice}"));
        let secrets = secrets.unwrap_or_default();
        let verify = move |parts: &_, body: &_| verify(&secrets, parts, body);
        Self { wrong, ..Self::verified_by(verify) }
    }

    fn id(self, find: impl Fn(&Parts, &[u8]) -> FoundKey + Send + Sync + 'static) -> Self {
        Self { id: Arc::new(find), ..self }
    }

    /// Checks that the sender signed the request, and finds the key of the request.
    fn key(&self, parts: &Parts, body: &[u8]) -> Result<(FoundKey, ValidTimes), Problem> {
        let valid = (self.verify)(parts, body).map_err(unsigned)?;
        Ok(((self.id)(parts, body), valid))
    }
}

fn json_id(id: &JsonKey, body: &[u8]) -> FoundKey {
    match id.find(body) {
        Ok(id) => Ok(Some(id)),
        Err(NoKey::Missing(_)) => Ok(None),
        Err(NoKey::Invalid(_)) => {
            Err("the body is not JSON, or the event's id in it is neither a string nor a number")
        }
    }
}

impl Http {
    /// Accepts webhooks, with the event id as the key.
    ///
    /// The [`Webhook`] says how to verify the signature and where to find the id. See
    /// [`webhook`](mod@super::webhook) for the rules.
    ///
    /// - Every request is verified and made idempotent, whatever its method. A signed request without
    ///   an id is rejected with 400, even with [`key_optional`](Self::key_optional).
    /// - [`retention`](crate::Policy::retention) becomes at least 30 days. To set less, call
    ///   [`policy`](Self::policy) after this method.
    /// - At most 8 signatures of a request are compared.
    /// - A webhook without a secret is a configuration error, and so is white space around a secret,
    ///   except a line break at its end. So is a call of [`header`](Self::header),
    ///   [`key`](Self::key), [`methods`](Self::methods) or another `webhook` on the same `Http`.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) -> Result<(), dynamodb_idempotency::Error> {
    /// use dynamodb_idempotency::http::Webhook;
    /// use lambda_http::{Body, Error, Request, Response, service_fn};
    ///
    /// async fn book(event: Request) -> Result<Response<Body>, Error> {
    ///     Ok(Response::new(Body::Empty)) // your business here
    /// }
    ///
    /// // On Lambda; on a server, as its layer.
    /// let inbox = Webhook::stripe(["whsec_5WbX"]);
    /// let service = idempotency.http("stripe").webhook(inbox).wrap(service_fn(book))?;
    /// # Ok(()) }
    /// ```
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.wrong.clone_from(&webhook.wrong);
        self.max_body_bytes.get_or_insert(webhook.max_body_bytes);
        self.key = KeyRule::Signed(Arc::new(move |parts, body| webhook.key(parts, body)));
        self.key_rules += 1;
        let policy = Arc::make_mut(&mut self.calls.policy);
        policy.retention = policy.retention.max(RETENTION);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_string_or_a_number() {
        let id = |body: &str| json_id(&"/event/id".into(), body.as_bytes());
        assert_eq!(id(r#"{"event":{"id":"e"}}"#), Ok(Some("e".to_owned())));
        assert_eq!(id(r#"{"event":{"id":42}}"#), Ok(Some("42".to_owned())));
        assert_eq!(id("\u{feff}{\"event\":{\"id\":1.5}}"), Ok(Some("1.5".to_owned())));
        for body in ["{}", r#"{"event":{"id":null}}"#] {
            assert_eq!(id(body), Ok(None), "{body}");
        }
        for body in ["{", r#"{"event":{"id":[]}}"#] {
            assert!(id(body).unwrap_err().contains("JSON"), "{body}");
        }
    }

    #[test]
    fn no_secret_is_shown() {
        assert_eq!(format!("{:?}", Webhook::stripe(["whsec_1"])), "Webhook");
    }

    #[test]
    fn a_webhook_without_a_usable_secret_is_a_configuration_error() {
        let none: [&str; 0] = [];
        for (webhook, named) in [
            (Webhook::stripe(none), "Webhook::stripe"),
            (Webhook::stripe(["whsec_1", ""]), "Webhook::stripe"),
            (Webhook::stripe(["whsec_"]), "Webhook::stripe"),
            (Webhook::github([""]), "Webhook::github"),
            (Webhook::standard(["whsec_"]), "Webhook::standard"),
            (Webhook::standard(["whsec_not base64"]), "Webhook::standard"),
            (Webhook::stripe(["\n"]), "Webhook::stripe"),
            (Webhook::github([" s"]), "Webhook::github"),
            (Webhook::signed(|_, _| true).json_id("id"), "write `/id`"),
            (Webhook::stripe([""]).json_id("/id"), "Webhook::stripe"),
        ] {
            let wrong = webhook.wrong.unwrap();
            assert!(wrong.contains(named), "{wrong}");
        }
        assert_eq!(Webhook::github(["s"]).json_id("/id").wrong, None);
        assert_eq!(Webhook::signed(|_, _| true).wrong, None);
    }
}
