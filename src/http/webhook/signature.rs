//! The signatures of known senders: HMAC-SHA256 with a shared secret, over different messages.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hex::FromHex;
use hmac::digest::CtOutput;
use hmac::{Hmac, KeyInit, Mac};
use http::request::Parts;
use sha2::Sha256;

use crate::clock::Timestamp;
use crate::http::ValidTimes;
use crate::http::key_header::only;

/// How far in the past a signature's time may be. The same limit applies to a time in the future, except
/// for Stripe. Both rules are those of the senders' own libraries.
pub(super) const TOLERANCE: Duration = Duration::from_secs(300);

/// How many signatures of a request are compared. A sender sends one for each of its secrets, and
/// has two secrets during a rotation. The rustdoc of `Http::webhook` names the number.
const MAX_SIGNATURES: usize = 8;

const SIGNATURE_BYTES: usize = 32;

/// A signature that is compared in constant time.
type Signature = CtOutput<Hmac<Sha256>>;

/// When a right signature is accepted. The error says why a request counts as unsigned, for the log.
pub(super) type Verified = Result<ValidTimes, &'static str>;

/// Converts a secret, as the sender shows it, into the key.
pub(super) type ReadSecret = fn(&str) -> Option<Vec<u8>>;

/// What senders show before a secret.
const PREFIXES: [&str; 2] = ["whsec_", "v1,whsec_"];

/// A secret that is used as a key without decoding.
pub(super) const TEXT: ReadSecret = |secret| Some(secret.as_bytes().to_vec());

/// A secret that is Base64, after `whsec_` or `v1,whsec_`, which Supabase shows.
pub(super) const BASE64_TEXT: ReadSecret = |secret| {
    let secret = secret.strip_prefix("v1,").unwrap_or(secret);
    BASE64.decode(secret.strip_prefix("whsec_").unwrap_or(secret)).ok()
};

/// The secrets of one endpoint. No output shows them.
#[derive(Default)]
pub(super) struct Secrets(Vec<Vec<u8>>);

impl Secrets {
    /// The error is why the secrets cannot be used.
    pub(super) fn read<S: Into<String>>(
        secrets: impl IntoIterator<Item = S>,
        read: ReadSecret,
    ) -> Result<Self, &'static str> {
        let keys = secrets.into_iter().map(|secret| key(&secret.into(), read));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err("no secret is given") } else { Ok(Self(keys)) }
    }

    pub(super) fn verify(
        &self,
        message: &[&[u8]],
        signatures: impl Iterator<Item = [u8; SIGNATURE_BYTES]>,
    ) -> Result<(), &'static str> {
        any_matches(self.0.iter().filter_map(|key| sign(key, message)), signatures)
    }
}

/// Returns the key of one secret. A line break at the end, as in a file, does not belong to the secret.
/// Other white space around a secret is rejected, because it would silently make every delivery
/// unsigned, and so is a prefix alone, which anyone could guess.
fn key(secret: &str, read: ReadSecret) -> Result<Vec<u8>, &'static str> {
    let secret = secret.trim_end_matches(['\r', '\n']);
    if secret.trim_matches(is_invisible).len() != secret.len() {
        return Err("a secret begins or ends with white space");
    }
    if PREFIXES.contains(&secret) {
        return Err("a secret is empty after its prefix");
    }
    if secret.contains(char::is_control) {
        return Err("a secret contains a line break or another control character");
    }
    let key = read(secret).ok_or("a secret is not Base64")?;
    if key.is_empty() { Err("a secret is empty") } else { Ok(key) }
}

/// White space, and what looks like none: zero-width characters and the byte order mark.
fn is_invisible(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

fn sign(key: &[u8], message: &[&[u8]]) -> Option<Signature> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    for part in message {
        mac.update(part);
    }
    Some(mac.finalize())
}

/// Checks that one of the signatures is one of `valid`. The message is hashed at most once per key,
/// however many signatures there are.
fn any_matches(
    mut valid: impl Iterator<Item = Signature>,
    signatures: impl Iterator<Item = [u8; SIGNATURE_BYTES]>,
) -> Result<(), &'static str> {
    let signatures = signatures.take(MAX_SIGNATURES).map(|bytes| Signature::new(bytes.into()));
    let signatures: Vec<_> = signatures.collect();
    if !signatures.is_empty() && valid.any(|signature| signatures.contains(&signature)) {
        return Ok(());
    }
    Err("it does not match this body and these secrets")
}

/// `t=1492774577,v1=5257a8…,v1=…,v0=…`: <https://docs.stripe.com/webhooks/signature>.
pub(super) fn stripe(secrets: &Secrets, parts: &Parts, body: &[u8]) -> Verified {
    let header = one_header(parts, "stripe-signature")?;
    let values = |name: &'static str| {
        let elements = header.split(',').filter_map(|element| element.trim().split_once('='));
        elements.filter(move |(found, _)| *found == name).map(|(_, value)| value)
    };
    let (mut times, signatures) = (values("t"), values("v1"));
    let (Some(time), None) = (times.next(), times.next()) else {
        return Err("it does not have exactly one time");
    };
    let signed_at = seconds(time)?;
    secrets.verify(&[time.as_bytes(), b".", body], signatures.filter_map(from_hex))?;
    // Stripe's libraries accept a time in the future.
    Ok(Some(Timestamp::from_millis(i64::MIN)..=signed_at.plus(TOLERANCE)))
}

/// `sha256=757107…`.
pub(super) fn github(secrets: &Secrets, parts: &Parts, body: &[u8]) -> Verified {
    let header = one_header(parts, "x-hub-signature-256")?;
    let signature = header.strip_prefix("sha256=").and_then(from_hex).ok_or("it is malformed")?;
    secrets.verify(&[body], std::iter::once(signature)).map(|()| None)
}

/// Returns the names of the headers with a delivery's id, time and signatures: those of the
/// specification, or Svix's own.
pub(super) fn standard_headers(parts: &Parts) -> [&'static str; 3] {
    if parts.headers.contains_key("webhook-id") {
        ["webhook-id", "webhook-timestamp", "webhook-signature"]
    } else {
        ["svix-id", "svix-timestamp", "svix-signature"]
    }
}

/// `v1,K5oZfz… v1,… v1a,…`: <https://github.com/standard-webhooks/standard-webhooks>.
pub(super) fn standard(secrets: &Secrets, parts: &Parts, body: &[u8]) -> Verified {
    let [id, time, signatures] = standard_headers(parts).map(|name| one_header(parts, name));
    let (id, time, signatures) = (id?, time?, signatures?);
    // A dot separates the parts of the message. With a dot in the id, the message is ambiguous.
    if id.contains('.') {
        return Err("its id contains a dot");
    }
    let signed_at = seconds(time)?;
    let signatures = signatures.split(' ').filter_map(|one| from_base64(one.strip_prefix("v1,")?));
    secrets.verify(&[id.as_bytes(), b".", time.as_bytes(), b".", body], signatures)?;
    Ok(Some(signed_at.minus(TOLERANCE)..=signed_at.plus(TOLERANCE)))
}

/// Parses a time in seconds since 1970, which must consist of digits only.
pub(super) fn seconds(text: &str) -> Result<Timestamp, &'static str> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: Option<i64> = text.parse().ok().filter(|_| is_number);
    let seconds = seconds.ok_or("its time is not a number of seconds")?;
    Ok(Timestamp::from_millis(seconds.saturating_mul(1000)))
}

pub(super) fn one_header<'a>(parts: &'a Parts, name: &str) -> Result<&'a str, &'static str> {
    let header = only(&parts.headers, name).map_err(|_| "its header is repeated")?;
    header.ok_or("its header is missing")?.to_str().map_err(|_| "it is malformed")
}

pub(super) fn from_hex(text: &str) -> Option<[u8; SIGNATURE_BYTES]> {
    FromHex::from_hex(text).ok()
}

pub(super) fn from_base64(text: &str) -> Option<[u8; SIGNATURE_BYTES]> {
    if text.len() != SIGNATURE_BYTES.div_ceil(3) * 4 {
        return None;
    }
    BASE64.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use http::{HeaderValue, Request};

    use super::*;

    /// The head of a request with these headers.
    pub(in crate::http::webhook) fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::post("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn secrets<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Secrets {
        Secrets::read(secrets, TEXT).unwrap_or_default()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    /// Whether a request is signed and its signature is accepted at this time.
    fn accepted(verified: Verified, seconds: i64) -> bool {
        verified.is_ok_and(|valid| valid.is_none_or(|valid| valid.contains(&at(seconds))))
    }

    /// The example in GitHub's documentation.
    const GITHUB: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn the_example_in_githubs_documentation_is_valid() {
        let check = |secret, header, body: &str| {
            let parts = parts(&[("x-hub-signature-256", header)]);
            github(&secrets([secret]), &parts, body.as_bytes())
        };
        let secret = "It's a Secret to Everybody";
        assert_eq!(check(secret, GITHUB, "Hello, World!"), Ok(None));
        for (secret, header, body) in [
            (secret, GITHUB, "Hello, World?"),
            ("another", GITHUB, "Hello, World!"),
            (secret, &GITHUB[..70], "Hello, World!"),
            (secret, &GITHUB[..69], "Hello, World!"),
            (secret, GITHUB.strip_prefix("sha256=").unwrap(), "Hello, World!"),
            (secret, "sha256=", "Hello, World!"),
            (secret, "sha256=zz", "Hello, World!"),
        ] {
            assert!(check(secret, header, body).is_err(), "{secret} {header} {body}");
        }
        let (secrets, body) = (secrets([secret]), b"Hello, World!");
        assert!(github(&secrets, &parts(&[]), body).is_err());
        let twice = parts(&[("x-hub-signature-256", GITHUB), ("x-hub-signature-256", GITHUB)]);
        assert!(github(&secrets, &twice, body).is_err());
        let mut unreadable = parts(&[]);
        unreadable
            .headers
            .insert("x-hub-signature-256", HeaderValue::from_bytes(b"sha256=\xff").unwrap());
        assert!(github(&secrets, &unreadable, body).is_err());
    }

    /// Computed by Python's `hmac`, over `1790000000.{"id":"evt_1"}`.
    const STRIPE: &str = "e32657f3e678d33b41ec084c16ac0e125d25480a06cb3902286dc5942c6fd259";

    #[test]
    fn stripes_signature_covers_time_and_body_and_expires() {
        let body = r#"{"id":"evt_1"}"#;
        let check = |header: &str, body: &str, seconds| {
            let parts = parts(&[("stripe-signature", header)]);
            let secrets = secrets(["whsec_old", "whsec_test"]);
            accepted(stripe(&secrets, &parts, body.as_bytes()), seconds)
        };
        let header = format!("t=1790000000,v1={STRIPE}");
        for seconds in [1_790_000_000, 1_790_000_300, 1_789_999_000] {
            assert!(check(&header, body, seconds), "{seconds}");
        }
        let others = format!("t=1790000000, v0=00, v1=00, v1={STRIPE}");
        assert!(check(&others, body, 1_790_000_000));
        for (header, body, seconds) in [
            (header.as_str(), body, 1_790_000_301),
            (&header, r#"{"id":"evt_2"}"#, 1_790_000_000),
            (&format!("t=1790000001,v1={STRIPE}"), body, 1_790_000_000),
            (&format!("t=1790000000,v0={STRIPE}"), body, 1_790_000_000),
            (&format!("t=1790000000,t=1790000000,v1={STRIPE}"), body, 1_790_000_000),
            (&format!("v1={STRIPE}"), body, 1_790_000_000),
            ("", body, 1_790_000_000),
        ] {
            assert!(!check(header, body, seconds), "{header} {body} {seconds}");
        }
    }

    /// Signed by `standardwebhooks`, as in `tests/webhooks/deliveries.json`.
    const STANDARD: &str = "v1,OKlXFob9Xk0XSCLykp6OzJVBuB4pf4R5Cqsk+I4s5ys=";

    #[test]
    fn a_standard_signature_covers_id_time_and_body_and_expires() {
        let secrets =
            Secrets::read(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], BASE64_TEXT).unwrap();
        let check = |headers: &[(&str, &str)], seconds| {
            let body = r#"{"id":"evt_1","pending_webhooks":1}"#;
            accepted(standard(&secrets, &parts(headers), body.as_bytes()), seconds)
        };
        let headers = |id, time, signature| {
            [("webhook-id", id), ("webhook-timestamp", time), ("webhook-signature", signature)]
        };
        let (now, time) = (1_790_000_000, "1790000000");
        for seconds in [now, now - 300, now + 300] {
            assert!(check(&headers("msg_1", time, STANDARD), seconds), "{seconds}");
        }
        let others = format!("v1a,AAAA v1, v1,AAAA  {STANDARD}");
        assert!(check(&headers("msg_1", time, &others), now));
        let other_version = STANDARD.replace("v1,", "v2,");
        for (id, time, signature, seconds) in [
            ("msg_1", time, STANDARD, now - 301),
            ("msg_1", time, STANDARD, now + 301),
            ("msg_2", time, STANDARD, now),
            ("msg_1", "1790000001", STANDARD, now),
            ("msg_1", "+1790000000", STANDARD, now),
            ("msg_1", time, &other_version, now),
            ("msg_1", time, STANDARD.strip_prefix("v1,").unwrap(), now),
            ("msg_1", time, "", now),
            ("", time, STANDARD, now),
        ] {
            let headers = headers(id, time, signature);
            assert!(!check(&headers, seconds), "{headers:?} {seconds}");
        }
        let whole = headers("msg_1", time, STANDARD);
        for missing in 0..3 {
            let rest: Vec<_> = whole.iter().enumerate().filter(|(i, _)| *i != missing).collect();
            let rest: Vec<_> = rest.into_iter().map(|(_, header)| *header).collect();
            assert!(!check(&rest, now), "{rest:?}");
            let twice = [&whole[..], &whole[missing..=missing]].concat();
            assert!(!check(&twice, now), "{twice:?}");
        }
    }

    /// `msg_1.1790000000.5` could be split into another id, time and body.
    #[test]
    fn an_id_with_a_dot_is_rejected() {
        let key = b"a secret".to_vec();
        let signature = sign(&key, &[b"msg.1.1790000000.{}"]).unwrap().into_bytes();
        let signature = format!("v1,{}", BASE64.encode(signature));
        let secrets = secrets(["a secret"]);
        for (id, body, is_signed) in [("msg.1", "{}", false), ("msg", "1790000000.{}", true)] {
            let time = if id == "msg" { "1" } else { "1790000000" };
            let headers = [
                ("webhook-id", id),
                ("webhook-timestamp", time),
                ("webhook-signature", &signature),
            ];
            let checked = standard(&secrets, &parts(&headers), body.as_bytes());
            assert_eq!(checked.is_ok(), is_signed, "{id}");
            assert!(!accepted(checked, 1_790_000_000), "{id}");
        }
    }

    #[test]
    fn a_time_consists_of_digits() {
        assert_eq!(seconds("1790000000"), Ok(at(1_790_000_000)));
        for text in ["", "+1790000000", "-1", " 1", "1.5", "0x1", "99999999999999999999"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        // One overflows a time, the other is far in the future.
        assert_eq!(seconds("9223372036854775807"), Ok(Timestamp::from_millis(i64::MAX)));
    }

    #[test]
    fn the_message_is_hashed_once_for_each_secret() {
        let hashed = Cell::new(0);
        let sign = |key: &Vec<u8>| {
            hashed.set(hashed.get() + 1);
            sign(key, &[b"message"])
        };
        let keys = [b"one".to_vec(), b"two".to_vec()];
        let check = |signatures: Vec<[u8; SIGNATURE_BYTES]>| {
            hashed.set(0);
            let valid = keys.iter().filter_map(sign);
            (any_matches(valid, signatures.into_iter()).is_ok(), hashed.get())
        };
        assert_eq!(check(vec![[7; 32]; 400]), (false, 2));
        assert_eq!(check(Vec::new()), (false, 0));
        let second = super::sign(&keys[1], &[b"message"]).unwrap().into_bytes().into();
        assert_eq!(check(vec![[7; 32], second]), (true, 2));
        // Only the first signatures are compared.
        let mut late = vec![[7; 32]; MAX_SIGNATURES];
        late.push(second);
        assert_eq!(check(late), (false, 2));
    }

    #[test]
    fn a_signature_of_another_length_is_not_compared() {
        for length in [0, 1, 63, 65, 128] {
            assert_eq!(from_hex(&"a".repeat(length)), None);
        }
        assert_eq!(from_hex(&"ff".repeat(32)), Some([255; 32]));
        assert_eq!(from_hex(&"g".repeat(64)), None);
        // 64 bytes that are not 64 characters.
        assert_eq!(from_hex(&"é".repeat(32)), None);
        for bytes in [0, 31, 33, 64] {
            assert_eq!(from_base64(&BASE64.encode(vec![1; bytes])), None);
        }
        assert_eq!(from_base64(&BASE64.encode([1; 32])), Some([1; 32]));
    }

    #[test]
    fn a_line_break_after_a_secret_is_removed_and_other_white_space_is_rejected() {
        let key = |secret: &str, read| super::key(secret, read);
        for secret in ["It's a Secret", "It's a Secret\n", "It's a Secret\r\n"] {
            assert_eq!(key(secret, TEXT).unwrap(), b"It's a Secret");
        }
        let decoded = key("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", BASE64_TEXT).unwrap();
        for shown in
            ["v1,whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\n", "C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]
        {
            assert_eq!(key(shown, BASE64_TEXT).unwrap(), decoded, "{shown}");
        }
        let blank = ["", "\n", " ", "\t\n", " a", "a ", "a \n", "\na", "a\u{a0}", "a\nb", "a\0"];
        let invisible = ["\u{feff}a", "a\u{feff}", "a\u{200b}", "\u{2060}", "whsec_", "v1,whsec_"];
        for secret in blank.into_iter().chain(invisible) {
            for read in [TEXT, BASE64_TEXT] {
                assert!(key(secret, read).is_err(), "{secret:?}");
            }
        }
        for secret in ["v1,", "v1,whsec_", "whsec_"] {
            assert!(key(secret, BASE64_TEXT).is_err(), "{secret:?}");
        }
    }

    /// Anyone could sign with an empty secret.
    #[test]
    fn an_empty_secret_and_no_secret_verify_nothing() {
        let mac = Hmac::<Sha256>::new_from_slice(b"").unwrap().chain_update("x").finalize();
        let signature: [u8; 32] = mac.into_bytes().into();
        for secrets in [secrets([]), secrets([""]), secrets(["other", ""])] {
            assert!(secrets.verify(&[b"x"], std::iter::once(signature)).is_err());
        }
    }
}
