//! Webhooks: the sender names the event, and signs it. Feature `webhook`.
//!
//! ```
//! # dynamodb_idempotency::testing::example(async |_, idempotency| {
//! use axum::{Router, body::Body, http::Request, routing::post};
//! use dynamodb_idempotency::http::Webhook;
//! use tower::ServiceExt;
//!
//! async fn book(event: String) {
//!     println!("{event}"); // once an event, however often it is delivered
//! }
//!
//! let inbox = idempotency.http("stripe").webhook(Webhook::stripe(["whsec_5WbX"])).layer();
//! let router: Router = Router::new().route("/stripe", post(book).route_layer(inbox));
//!
//! let forged = Request::post("/stripe").header("stripe-signature", "t=1790000000,v1=00");
//! let answer = router.oneshot(forged.body(Body::from(r#"{"id":"evt_1"}"#))?).await?;
//! assert_eq!(answer.status(), 401);
//! # Ok(()) });
//! ```
//!
//! 1. The signature is checked first: without a valid one the answer is 401
//!    ([`ProblemKind::SignatureInvalid`]), and nothing is looked up, replayed or run. It is also
//!    checked if idempotency is switched off.
//! 2. The event's id is the key. An event that is delivered again gets the stored answer, so the
//!    sender knows that it has arrived. While it is being handled the answer is 409 with
//!    `Retry-After`, and the sender tries again. A handler that fails with a 5xx leaves the key
//!    free for the next delivery.
//! 3. The body does not count: senders change parts of it from one delivery to the next (Stripe's
//!    `pending_webhooks`), and the id already names the event.
//!    [`Http::fingerprint`] after [`Http::webhook`] makes it count.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderName;
use http::request::Parts;
use serde_json::Value;
use sha2::Sha256;

use super::problem::{Problem, ProblemKind};
use super::{Http, KeyRule};
use crate::clock::Timestamp;
use crate::fingerprint::Fingerprint;

/// How old a signature of Stripe's may be: what Stripe's own libraries say.
const STRIPE_TOLERANCE: Duration = Duration::from_secs(300);

/// A sender of webhooks: how its signature is checked and where the event's id is.
///
/// ```
/// use dynamodb_idempotency::http::Webhook;
///
/// let stripe = Webhook::stripe(["whsec_new", "whsec_old"]);
/// let github = Webhook::github(["a secret"]);
/// ```
#[derive(Clone)]
#[must_use = "give it to Http::webhook"]
pub struct Webhook {
    /// Whose they are.
    sender: &'static str,
    check: Arc<Check>,
    id: EventId,
}

/// Whether a request is its sender's, by its head, its body and the time.
type Check = dyn Fn(&Parts, &[u8], Timestamp) -> Checked + Send + Sync;

#[derive(Clone)]
enum EventId {
    /// A member of the JSON body, by its pointer.
    Json(String),
    Header(HeaderName),
}

impl Webhook {
    /// Stripe's: `Stripe-Signature`, at most 5 minutes old, over the time and the body. The key is
    /// the event's `id` (`evt_…`). Give several secrets while you rotate them.
    ///
    /// The age is judged by the store's time.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// use dynamodb_idempotency::http::Webhook;
    ///
    /// let layer = idempotency.http("stripe").webhook(Webhook::stripe(["whsec_5WbX"])).layer();
    /// # Ok(()) });
    /// ```
    pub fn stripe<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let (id, secrets) = (EventId::Json("/id".to_owned()), collect(secrets));
        let check = move |parts: &Parts, body: &[u8], now| by_stripe(&secrets, parts, body, now);
        Self { sender: "stripe", check: Arc::new(check), id }
    }

    /// GitHub's: `X-Hub-Signature-256` over the body. The key is `X-GitHub-Delivery`, which a
    /// redelivery repeats. GitHub does not sign that header: somebody who has recorded a delivery
    /// can send it again as another one, so serve it by HTTPS only.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |_, idempotency| {
    /// use dynamodb_idempotency::http::Webhook;
    ///
    /// let layer = idempotency.http("github").webhook(Webhook::github(["a secret"])).layer();
    /// # Ok(()) });
    /// ```
    pub fn github<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let id = EventId::Header(HeaderName::from_static("x-github-delivery"));
        let secrets = collect(secrets);
        let check = move |parts: &Parts, body: &[u8], _| by_github(&secrets, parts, body);
        Self { sender: "github", check: Arc::new(check), id }
    }

    /// Another sender's: `is_signed` checks a request's head and its body, byte for byte as it
    /// arrived. Compare signatures in constant time, as `Mac::verify_slice` of the crate `hmac`
    /// does. The key is the body's member `id`, or that of [`json_id`](Self::json_id) or
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
        let check = move |parts: &Parts, body: &[u8], _| {
            if is_signed(parts, body) { Ok(()) } else { Err("it is not the sender's") }
        };
        Self { sender: "signed", check: Arc::new(check), id: EventId::Json("/id".to_owned()) }
    }

    /// The event's id is this member of the JSON body, a string or a whole number, by its pointer
    /// (RFC 6901).
    ///
    /// ```
    /// use dynamodb_idempotency::http::Webhook;
    ///
    /// // {"event": {"id": "42"}}
    /// let sender = Webhook::signed(|_, _| true).json_id("/event/id");
    /// ```
    pub fn json_id(self, pointer: impl Into<String>) -> Self {
        Self { id: EventId::Json(pointer.into()), ..self }
    }

    /// The event's id is in this header.
    ///
    /// ```
    /// use dynamodb_idempotency::http::Webhook;
    /// use http::HeaderName;
    ///
    /// let sender = Webhook::signed(|_, _| true).header_id(HeaderName::from_static("webhook-id"));
    /// ```
    pub fn header_id(self, name: HeaderName) -> Self {
        Self { id: EventId::Header(name), ..self }
    }

    /// The event's id, of a request that its sender has signed.
    fn read(&self, parts: &Parts, body: &[u8], now: Timestamp) -> Result<Option<String>, Problem> {
        (self.check)(parts, body, now).map_err(|reason| {
            tracing::warn!(reason, "a webhook's signature is not valid: nothing ran");
            let detail = "The request is not signed by the sender, or was signed too long ago.";
            Problem::new(ProblemKind::SignatureInvalid, detail)
        })?;
        Ok(self.id.of(parts, body))
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Webhook").field(&self.sender).finish()
    }
}

impl EventId {
    fn of(&self, parts: &Parts, body: &[u8]) -> Option<String> {
        match self {
            Self::Header(name) => Some(parts.headers.get(name)?.to_str().ok()?.to_owned()),
            Self::Json(pointer) => {
                let body: Value = serde_json::from_slice(body).ok()?;
                match body.pointer(pointer)? {
                    Value::String(id) => Some(id.clone()),
                    Value::Number(id) if !id.is_f64() => Some(id.to_string()),
                    _ => None,
                }
            }
        }
    }
}

impl Http {
    /// Accepts webhooks: the [`Webhook`] says how their signature is checked, and where the event's
    /// id is, which is the key. See [`webhook`](mod@super::webhook) for the rules. A signed request
    /// without an id is refused with 400, even if [`key_required`](Self::key_required) is `false`.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::http::Webhook;
    /// use lambda_http::{Body, Error, Request, Response, service_fn};
    ///
    /// async fn book(event: Request) -> Result<Response<Body>, Error> {
    ///     Ok(Response::new(Body::Empty)) // your business here
    /// }
    ///
    /// // On Lambda; on a server, as its layer.
    /// let inbox = Webhook::stripe(["whsec_5WbX"]);
    /// let service = idempotency.http("stripe").webhook(inbox).wrap(service_fn(book));
    /// # }
    /// ```
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.key =
            KeyRule::InBody(Arc::new(move |parts, body, now| webhook.read(parts, body, now)));
        self.fingerprint = Some(Arc::new(|_, _| Fingerprint::EMPTY));
        self
    }
}

/// Never shown.
#[derive(Clone)]
struct Secret(Vec<u8>);

fn collect<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Vec<Secret> {
    secrets.into_iter().map(|secret| Secret(secret.into().into_bytes())).collect()
}

impl Secret {
    /// In constant time.
    fn has_signed(&self, message: &[&[u8]], signature: &[u8]) -> bool {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return false };
        for part in message {
            mac.update(part);
        }
        !self.0.is_empty() && mac.verify_slice(signature).is_ok()
    }
}

type Checked = Result<(), &'static str>;

/// `t=1492774577,v1=5257a8…,v1=…,v0=…`: <https://docs.stripe.com/webhooks/signature>.
fn by_stripe(secrets: &[Secret], parts: &Parts, body: &[u8], now: Timestamp) -> Checked {
    let header = one_header(parts, "stripe-signature")?;
    let elements = || header.split(',').filter_map(|element| element.trim().split_once('='));
    let signed_at = elements().find(|(name, _)| *name == "t").map(|(_, value)| value);
    let signed_at = signed_at.ok_or("it has no time")?;
    let signatures = elements().filter(|(name, _)| *name == "v1");
    let signatures: Vec<_> = signatures.filter_map(|(_, value)| from_hex(value)).collect();
    let message: [&[u8]; 3] = [signed_at.as_bytes(), b".", body];
    let is_one = |secret: &Secret| signatures.iter().any(|one| secret.has_signed(&message, one));
    if !secrets.iter().any(is_one) {
        return Err("it is not of this body and these secrets");
    }
    let seconds: i64 = signed_at.parse().map_err(|_| "its time is not a number")?;
    let signed_at = Timestamp::from_millis(seconds.saturating_mul(1000));
    if now.since(signed_at) > STRIPE_TOLERANCE { Err("it is too old") } else { Ok(()) }
}

/// `sha256=757107…`.
fn by_github(secrets: &[Secret], parts: &Parts, body: &[u8]) -> Checked {
    let header = one_header(parts, "x-hub-signature-256")?;
    let signature = header.strip_prefix("sha256=").and_then(from_hex).ok_or("it is malformed")?;
    if secrets.iter().any(|secret| secret.has_signed(&[body], &signature)) {
        Ok(())
    } else {
        Err("it is not of this body and these secrets")
    }
}

fn one_header<'a>(parts: &'a Parts, name: &str) -> Result<&'a str, &'static str> {
    let mut all = parts.headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(header), None) => header.to_str().map_err(|_| "it is malformed"),
        (None, _) => Err("there is none"),
        (Some(_), Some(_)) => Err("there are several"),
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::post("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn secrets<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Vec<Secret> {
        collect(secrets)
    }

    /// The example in GitHub's documentation.
    const GITHUB: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn githubs_own_example_is_valid() {
        let github = |secret, header, body: &str| {
            let parts = parts(&[("x-hub-signature-256", header)]);
            by_github(&secrets([secret]), &parts, body.as_bytes())
        };
        let secret = "It's a Secret to Everybody";
        assert_eq!(github(secret, GITHUB, "Hello, World!"), Ok(()));
        for (secret, header, body) in [
            (secret, GITHUB, "Hello, World?"),
            ("another", GITHUB, "Hello, World!"),
            (secret, &GITHUB[..70], "Hello, World!"),
            (secret, &GITHUB[..69], "Hello, World!"),
            (secret, GITHUB.strip_prefix("sha256=").unwrap(), "Hello, World!"),
            (secret, "sha256=", "Hello, World!"),
            (secret, "sha256=zz", "Hello, World!"),
        ] {
            assert!(github(secret, header, body).is_err(), "{secret} {header} {body}");
        }
        assert!(by_github(&secrets([secret]), &parts(&[]), b"Hello, World!").is_err());
        let twice = parts(&[("x-hub-signature-256", GITHUB), ("x-hub-signature-256", GITHUB)]);
        assert!(by_github(&secrets([secret]), &twice, b"Hello, World!").is_err());
    }

    /// Computed by Python's `hmac`, over `1790000000.{"id":"evt_1"}`.
    const STRIPE: &str = "e32657f3e678d33b41ec084c16ac0e125d25480a06cb3902286dc5942c6fd259";

    #[test]
    fn a_signature_of_stripes_is_of_the_time_and_the_body_and_not_old() {
        let body = r#"{"id":"evt_1"}"#;
        let stripe = |header: &str, body: &str, seconds: i64| {
            let parts = parts(&[("stripe-signature", header)]);
            let now = Timestamp::from_millis(seconds * 1000);
            by_stripe(&secrets(["whsec_old", "whsec_test"]), &parts, body.as_bytes(), now)
        };
        let header = format!("t=1790000000,v1={STRIPE}");
        for seconds in [1_790_000_000, 1_790_000_300, 1_789_999_000] {
            assert_eq!(stripe(&header, body, seconds), Ok(()), "{seconds}");
        }
        let others = format!("t=1790000000, v0=00, v1=00, v1={STRIPE}");
        assert_eq!(stripe(&others, body, 1_790_000_000), Ok(()));
        for (header, body, seconds) in [
            (header.as_str(), body, 1_790_000_301),
            (&header, r#"{"id":"evt_2"}"#, 1_790_000_000),
            (&format!("t=1790000001,v1={STRIPE}"), body, 1_790_000_000),
            (&format!("t=1790000000,v0={STRIPE}"), body, 1_790_000_000),
            (&format!("v1={STRIPE}"), body, 1_790_000_000),
            ("", body, 1_790_000_000),
        ] {
            assert!(stripe(header, body, seconds).is_err(), "{header} {body} {seconds}");
        }
    }

    /// Anybody could sign with it.
    #[test]
    fn an_empty_secret_signs_nothing() {
        let mac = Hmac::<Sha256>::new_from_slice(b"").unwrap().chain_update("x").finalize();
        assert!(!Secret(Vec::new()).has_signed(&[b"x"], &mac.into_bytes()));
    }

    #[test]
    fn an_id_is_a_text_or_a_whole_number() {
        let id =
            |body: &str| EventId::Json("/event/id".to_owned()).of(&parts(&[]), body.as_bytes());
        assert_eq!(id(r#"{"event":{"id":"e"}}"#).as_deref(), Some("e"));
        assert_eq!(id(r#"{"event":{"id":42}}"#).as_deref(), Some("42"));
        for body in ["{", "{}", r#"{"event":{"id":null}}"#, r#"{"event":{"id":1.5}}"#] {
            assert_eq!(id(body), None, "{body}");
        }
    }

    #[test]
    fn no_secret_is_shown() {
        assert_eq!(format!("{:?}", Webhook::stripe(["whsec_1"])), r#"Webhook("stripe")"#);
    }
}
