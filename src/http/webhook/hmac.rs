//! The signatures of senders that have no function of their own.

use std::time::Duration;

use http::HeaderName;
use http::request::Parts;

use super::signature::{Secrets, TOLERANCE, Verified, from_base64, from_hex, one_header, seconds};

/// How a sender signs with HMAC-SHA256 and a shared secret, for [`Webhook::hmac`](super::Webhook::hmac).
///
/// | sender | scheme | key |
/// |---|---|---|
/// | Shopify | `HmacScheme::new("x-shopify-hmac-sha256", "{base64}")` | header `x-shopify-event-id` |
/// | Slack | `HmacScheme::new("x-slack-signature", "v0={hex}").time_header("x-slack-request-timestamp").signs("v0:{time}:{body}")` | `/event_id` |
/// | Paddle | `HmacScheme::new("paddle-signature", "ts={time};h1={hex}").signs("{time}:{body}")` | `/event_id` |
/// | Square | `HmacScheme::new("x-square-hmacsha256-signature", "{base64}").signs("https://example.com/square{body}")`, with the URL that Square calls | `/event_id` |
///
/// An invalid scheme is a configuration error of the layer or wrapper.
///
/// No scheme describes Twilio, which signs the URL and the sorted form parameters with HMAC-SHA1, or Adyen's payment
/// webhooks, whose signature is in the JSON and covers selected fields of it. Verify those with
/// [`Webhook::signed`](super::Webhook::signed).
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use dynamodb_idempotency::http::{HmacScheme, Webhook};
///
/// let scheme = HmacScheme::new("paddle-signature", "ts={time};h1={hex}").signs("{time}:{body}");
/// let paddle = Webhook::hmac(["pdl_ntfset_5WbX"], scheme).json_id("/event_id");
/// let layer = idempotency.http("paddle").webhook(paddle).layer()?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[must_use = "give it to Webhook::hmac"]
pub struct HmacScheme {
    header: String,
    format: String,
    time_header: Option<String>,
    signs: String,
    tolerance: Option<Duration>,
}

impl HmacScheme {
    /// `header` is the header with the signature, and `format` its text.
    ///
    /// The format has one `{hex}` or `{base64}` where the signature is, and `{time}` if the header
    /// contains the time too. It consists of one element, or of several that a comma, a semicolon or a
    /// space separates. Each element ends with its placeholder. Other elements of a header are ignored. If
    /// the signature is repeated, as while a secret is rotated, one of them must be valid; at most 8 are
    /// compared.
    ///
    /// ```
    /// use dynamodb_idempotency::http::HmacScheme;
    ///
    /// let shopify = HmacScheme::new("x-shopify-hmac-sha256", "{base64}");
    /// ```
    pub fn new(header: impl Into<String>, format: impl Into<String>) -> Self {
        let (header, format, signs) = (header.into(), format.into(), "{body}".to_owned());
        Self { header, format, time_header: None, signs, tolerance: None }
    }

    /// Sets the text that is signed. Default: `{body}`.
    ///
    /// `{body}` stands for the bytes of the body, and `{time}` for the time as the request spells it. Any
    /// other `{word}` is an error. A scheme has either both a place of the time and `{time}` in this text, or
    /// neither.
    ///
    /// ```
    /// use dynamodb_idempotency::http::HmacScheme;
    ///
    /// let square = HmacScheme::new("x-square-hmacsha256-signature", "{base64}")
    ///     .signs("https://example.com/square{body}");
    /// ```
    pub fn signs(self, text: impl Into<String>) -> Self {
        Self { signs: text.into(), ..self }
    }

    /// Sets the header that contains the time, in seconds since 1970.
    ///
    /// ```
    /// use dynamodb_idempotency::http::HmacScheme;
    ///
    /// let slack = HmacScheme::new("x-slack-signature", "v0={hex}")
    ///     .time_header("x-slack-request-timestamp")
    ///     .signs("v0:{time}:{body}");
    /// ```
    pub fn time_header(self, name: impl Into<String>) -> Self {
        Self { time_header: Some(name.into()), ..self }
    }

    /// Sets how far the time may differ from DynamoDB's clock, in both directions. Default: 5 minutes. Zero is an error,
    /// and so is a tolerance without a place of the time.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::http::HmacScheme;
    ///
    /// let paddle = HmacScheme::new("paddle-signature", "ts={time};h1={hex}")
    ///     .signs("{time}:{body}")
    ///     .tolerance(Duration::from_secs(60));
    /// ```
    pub fn tolerance(self, tolerance: Duration) -> Self {
        Self { tolerance: Some(tolerance), ..self }
    }

    /// The error says what is wrong with the scheme.
    pub(super) fn compile(self) -> Result<Compiled, String> {
        let name = |name: &String| {
            let parsed = HeaderName::try_from(name.as_str());
            parsed.map_err(|_| {
                format!("`{name}` is not the name of a header: use letters, digits and hyphens")
            })
        };
        let (header, time_header) =
            (name(&self.header)?, self.time_header.as_ref().map(name).transpose()?);
        let separator = self.format.chars().find(|one| [',', ';', ' '].contains(one));
        let (mut signature, mut time) = (None, time_header.map(TimePlace::Header));
        for element in elements(&self.format, separator) {
            let (prefix, is_first) = if let Some(prefix) = element.strip_suffix("{time}") {
                (prefix, time.replace(TimePlace::Element(prefix.to_owned())).is_none())
            } else if let Some(prefix) = element.strip_suffix("{hex}") {
                (prefix, signature.replace((prefix.to_owned(), Encoding::Hex)).is_none())
            } else if let Some(prefix) = element.strip_suffix("{base64}") {
                (prefix, signature.replace((prefix.to_owned(), Encoding::Base64)).is_none())
            } else {
                return Err(format!(
                    "`{element}` does not end with {{hex}}, {{base64}} or {{time}}"
                ));
            };
            if !is_first || prefix.contains(['{', '}']) {
                return Err(format!(
                    "`{element}` has a second placeholder: an element has one of {{hex}}, {{base64}} and \
                     {{time}}, once in the format"
                ));
            }
        }
        let (prefix, encoding) = signature.ok_or("the format has neither {hex} nor {base64}")?;
        if let Some(TimePlace::Element(of_time)) = &time
            && (prefix.starts_with(of_time.as_str()) || of_time.starts_with(prefix.as_str()))
        {
            return Err(format!(
                "the elements begin with `{of_time}` and `{prefix}`, so one cannot be told from the other: \
                 write each as the sender does, for example t={{time}},v1={{hex}}"
            ));
        }
        match (&time, self.tolerance) {
            (None, Some(_)) => {
                return Err(
                    "a tolerance is of a time, and no place of the time is named".to_owned()
                );
            }
            (Some(_), Some(Duration::ZERO)) => {
                return Err("the tolerance is zero: no delivery would arrive in time".to_owned());
            }
            _ => {}
        }
        let signs = pieces(&self.signs)?;
        if !signs.contains(&Piece::Body) {
            return Err("the signed text has no {body}: anyone could change the body".to_owned());
        }
        match (&time, signs.contains(&Piece::Time)) {
            (Some(_), false) => {
                Err("the signed text has no {time}: anyone could change the time".to_owned())
            }
            (None, true) => {
                Err("the signed text has a {time}, and no place of the time is named: add {time} to the format, or \
                     a time_header"
                    .to_owned())
            }
            (Some(_), true) | (None, false) => {
                let tolerance = self.tolerance.unwrap_or(TOLERANCE);
                Ok(Compiled { header, separator, prefix, encoding, time, signs, tolerance })
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Encoding {
    Hex,
    Base64,
}

enum TimePlace {
    Header(HeaderName),
    /// The element of the signature's header with this prefix.
    Element(String),
}

#[derive(PartialEq, Eq)]
enum Piece {
    Text(String),
    Time,
    Body,
}

/// A scheme that was checked.
pub(super) struct Compiled {
    header: HeaderName,
    /// Between the elements of the header. `None` if it has only one.
    separator: Option<char>,
    prefix: String,
    encoding: Encoding,
    time: Option<TimePlace>,
    signs: Vec<Piece>,
    tolerance: Duration,
}

impl Compiled {
    pub(super) fn verify(&self, secrets: &Secrets, parts: &Parts, body: &[u8]) -> Verified {
        let header = one_header(parts, self.header.as_str())?;
        let values = |prefix| {
            elements(header, self.separator).filter_map(move |element| element.strip_prefix(prefix))
        };
        let time = match &self.time {
            None => None,
            Some(TimePlace::Header(name)) => Some(one_header(parts, name.as_str())?),
            Some(TimePlace::Element(prefix)) => {
                let mut times = values(prefix.as_str());
                let (Some(time), None) = (times.next(), times.next()) else {
                    return Err("it does not have exactly one time");
                };
                Some(time)
            }
        };
        let signed_at = time.map(seconds).transpose()?;
        let message = self.signs.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_bytes(),
            Piece::Time => time.unwrap_or_default().as_bytes(),
            Piece::Body => body,
        });
        let decode = match self.encoding {
            Encoding::Hex => from_hex,
            Encoding::Base64 => from_base64,
        };
        let signatures = values(self.prefix.as_str()).filter_map(decode);
        secrets.verify(&message.collect::<Vec<_>>(), signatures)?;
        Ok(signed_at.map(|at| at.minus(self.tolerance)..=at.plus(self.tolerance)))
    }
}

fn elements(text: &str, separator: Option<char>) -> impl Iterator<Item = &str> {
    text.split(move |one| Some(one) == separator).map(str::trim)
}

/// Splits a signed text at its placeholders. The error names a placeholder that is unknown.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some((before, word, after)) = next_placeholder(rest) {
        let piece = match word {
            "time" => Piece::Time,
            "body" => Piece::Body,
            _ => {
                return Err(format!(
                    "the signed text has {{{word}}}: its placeholders are {{time}} and {{body}}"
                ));
            }
        };
        pieces.extend([Piece::Text(before.to_owned()), piece]);
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(pieces)
}

/// The text before the first `{word}`, the word, and the text after it. Other braces are text.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('{').find_map(|(begin, _)| {
        let (word, after) = text[begin + 1..].split_once('}')?;
        let is_word = word.chars().all(|one| one.is_alphanumeric() || "_-. ".contains(one));
        is_word.then_some((&text[..begin], word, after))
    })
}

#[cfg(test)]
mod tests {
    use super::super::signature::TEXT;
    use super::super::signature::tests::parts;
    use super::*;
    use crate::clock::Timestamp;

    /// The example of <https://docs.slack.dev/authentication/verifying-requests-from-slack>.
    #[test]
    fn the_example_in_slacks_documentation_is_valid_for_five_minutes() {
        let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
                    &channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner\
                    &command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2F\
                    commands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=\
                    398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        let scheme = HmacScheme::new("x-slack-signature", "v0={hex}")
            .time_header("x-slack-request-timestamp")
            .signs("v0:{time}:{body}");
        let scheme = scheme.compile().ok().unwrap();
        let secrets = Secrets::read(["8f742231b10e8888abcd99yyyzzz85a5"], TEXT).unwrap();
        let verify = |time, signature, body: &str| {
            let headers = [("x-slack-request-timestamp", time), ("x-slack-signature", signature)];
            scheme.verify(&secrets, &parts(&headers), body.as_bytes())
        };
        let signed_at = Timestamp::from_millis(1_531_420_618_000);
        let valid = signed_at.minus(TOLERANCE)..=signed_at.plus(TOLERANCE);
        assert_eq!(verify("1531420618", signature, body), Ok(Some(valid)));
        for (time, signature, body) in [
            ("1531420619", signature, body),
            ("1531420618", signature, "token=xyzz0WbapA4vBCDEFasx0q6G"),
            ("1531420618", signature.strip_prefix("v0=").unwrap(), body),
            ("1531420618", "v0=", body),
            ("", signature, body),
        ] {
            assert!(verify(time, signature, body).is_err(), "{time} {signature}");
        }
        assert!(scheme.verify(&secrets, &parts(&[("x-slack-signature", signature)]), b"").is_err());
    }

    /// The signatures are computed by Python's `hmac`, over the text that each sender documents:
    /// <https://shopify.dev/docs/apps/build/webhooks/subscribe/https>,
    /// <https://docs.slack.dev/authentication/verifying-requests-from-slack>,
    /// <https://developer.paddle.com/webhooks/signature-verification> and
    /// <https://developer.squareup.com/docs/webhooks/step3validate>.
    #[test]
    fn the_schemes_of_the_documentation_are_those_of_the_senders() {
        let scheme = HmacScheme::new;
        let slack = scheme("x-slack-signature", "v0={hex}");
        let slack = slack.time_header("x-slack-request-timestamp").signs("v0:{time}:{body}");
        let square = scheme("x-square-hmacsha256-signature", "{base64}");
        let time = "1790000000";
        for (scheme, headers) in [
            (
                scheme("x-shopify-hmac-sha256", "{base64}"),
                &[("x-shopify-hmac-sha256", "rnXBGmUDSFSopu3+uRH2FFoTtAfnnZ3m3YG1pJ6FGqU=")][..],
            ),
            (
                slack,
                &[
                    (
                        "x-slack-signature",
                        "v0=d5b2ab4aa33c0e1cc9c49e69bc47e6f75356585c945899b9d900868a9a96429f",
                    ),
                    ("x-slack-request-timestamp", time),
                ],
            ),
            (
                scheme("paddle-signature", "ts={time};h1={hex}").signs("{time}:{body}"),
                &[(
                    "paddle-signature",
                    "ts=1790000000;\
                     h1=c1095a4ccdfd90b2f9ec33284a65fa3e9c371fd864f6e4f04725b1ea053e7457",
                )],
            ),
            (
                square.signs("https://example.com/square{body}"),
                &[(
                    "x-square-hmacsha256-signature",
                    "tDXl2DCKB/xwhS4hXET7RDZ50KzKmutedk7lQKkIwlM=",
                )],
            ),
        ] {
            let scheme = scheme.compile().ok().unwrap();
            let verify = |secret, body: &[u8]| {
                let secrets = Secrets::read([secret], TEXT).unwrap();
                scheme.verify(&secrets, &parts(headers), body).is_ok()
            };
            assert!(verify("a secret", br#"{"event_id":"e_1"}"#), "{headers:?}");
            assert!(!verify("a secret", br#"{"event_id":"e_2"}"#), "{headers:?}");
            assert!(!verify("another", br#"{"event_id":"e_1"}"#), "{headers:?}");
        }
    }

    #[test]
    fn a_scheme_that_protects_nothing_or_cannot_be_read_is_an_error() {
        let scheme = |format: &str| HmacScheme::new("x-signature", format);
        for (scheme, named) in [
            (HmacScheme::new("x signature", "{hex}"), "x signature"),
            (scheme("{hex}").time_header(""), "name of a header"),
            (scheme(""), "does not end with"),
            (scheme("v0={time}").signs("{time}{body}"), "neither"),
            (scheme("{hex}="), "does not end with"),
            (scheme("a={hex},b={base64}"), "second"),
            (scheme("{hex}{hex}"), "second"),
            (scheme("{timestamp}{hex}"), "one of {hex}, {base64} and {time}"),
            (scheme("t={timestamp},v1={hex}"), "does not end with {hex}, {base64} or {time}"),
            (scheme("{hex}").signs("a text"), "{body}"),
            (
                scheme("{hex}").signs("{timestamp}.{body}"),
                "has {timestamp}: its placeholders are {time} and {body}",
            ),
            (scheme("{hex}").signs("{url}{body}"), "has {url}"),
            (scheme("t={time},v1={hex}").signs("{time}.{body}.{id}"), "has {id}"),
            (scheme("{hex}").signs("{{url}{body}"), "has {url}"),
            (scheme("{hex}").signs("{body}{ Body }{}"), "has { Body }"),
            (scheme("{hex}").signs("{body}{}"), "has {}"),
            (scheme("{hex}").signs("{time}{body}"), "place of the time"),
            (scheme("{time},{hex}").signs("{time}{body}"), "told from the other"),
            (scheme("t={time},t={hex}").signs("{time}{body}"), "told from the other"),
            (scheme("t{time},ts{hex}").signs("{time}{body}"), "told from the other"),
            (scheme("{hex}").tolerance(TOLERANCE), "place of the time"),
            (
                scheme("t={time},v1={hex}").signs("{time}{body}").tolerance(Duration::ZERO),
                "in time",
            ),
            (scheme("t={time},v1={hex}"), "change the time"),
            (scheme("{hex}").time_header("x-time"), "change the time"),
            (scheme("t={time},v1={hex}").time_header("x-time").signs("{time}{body}"), "second"),
        ] {
            let wrong = scheme.compile().err().unwrap_or_else(|| panic!("accepted: {named}"));
            assert!(wrong.contains(named), "{wrong}");
        }
    }
}
