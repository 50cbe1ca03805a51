use dynamodb_idempotency::{Fingerprint, Idempotency, http::Http};

fn uploads(idempotency: &Idempotency) -> Http {
    idempotency.http("uploads").fingerprint(|parts, body| {
        let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or("");
        let (kind, boundary) = kind.split_once("boundary=").unwrap_or((kind, ""));
        let boundary = format!("--{}", boundary.trim_matches('"'));
        let body: String = body.iter().copied().map(char::from).collect(); // a character for each byte
        let fingerprint = Fingerprint::builder().bytes(parts.uri.path().as_bytes()).bytes(kind.as_bytes());
        body.split(&boundary).fold(fingerprint, |all, part| all.bytes(part.as_bytes())).finish()
    })
}
