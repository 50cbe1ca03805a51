//! An answer of any size comes back, byte for byte, and small ones cost no more than before.

use bytes::Bytes;
use dynamodb_idempotency::policy::{Compression, LargeAnswers};
use dynamodb_idempotency::{ErrorKind, Idempotency, Policy};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{Layer, ServiceExt};

use crate::bodies::Kind;
use crate::support::raw::{Item, status};
use crate::support::{Charging, Gate, Link, Runs, caller, caller_on, kind};

pub(crate) const KIB: usize = 1024;

/// One request through the HTTP layer, whose handler answers with `body`; the response.
pub(crate) async fn send(
    idempotency: &Idempotency,
    key: &str,
    kind: Kind,
    body: &[u8],
) -> Response<Bytes> {
    send_with(idempotency, key, kind, body, b"{}", None).await
}

/// As [`send`], without a copy of the body.
pub(crate) async fn send_bytes(
    idempotency: &Idempotency,
    key: &str,
    kind: Kind,
    body: Bytes,
) -> Response<Bytes> {
    answer(idempotency, key, kind, body, b"{}", None).await
}

/// As [`send`], and the handler waits at the gate.
pub(crate) async fn send_by(
    idempotency: &Idempotency,
    key: &str,
    kind: Kind,
    body: &[u8],
    gate: &Gate,
) -> Response<Bytes> {
    send_with(idempotency, key, kind, body, b"{}", Some(gate)).await
}

/// As [`send`], with this request.
pub(crate) async fn send_with(
    idempotency: &Idempotency,
    key: &str,
    kind: Kind,
    body: &[u8],
    request: &'static [u8],
    gate: Option<&Gate>,
) -> Response<Bytes> {
    answer(idempotency, key, kind, Bytes::copy_from_slice(body), request, gate).await
}

async fn answer(
    idempotency: &Idempotency,
    key: &str,
    kind: Kind,
    body: Bytes,
    request: &'static [u8],
    gate: Option<&Gate>,
) -> Response<Bytes> {
    let gate = gate.cloned();
    let handler = tower::service_fn(move |_: Request<Full<Bytes>>| {
        let response = Response::builder().status(201).header("content-type", kind.media_type());
        let response = response.body(Full::new(body.clone())).unwrap();
        let gate = gate.clone();
        async move {
            if let Some(gate) = gate {
                gate.pass().await;
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let service = idempotency.http("pay").layer().unwrap().layer(handler);
    let head = Request::post("/payments").header("idempotency-key", key);
    let head = head.header("content-type", "application/json");
    let request = head.body(Full::new(Bytes::from_static(request))).unwrap();
    let (head, body) = service.oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Response::from_parts(head, body)
}

pub(crate) fn is_replay(response: &Response<Bytes>) -> bool {
    response.headers().contains_key("idempotency-replayed")
}

/// The codec of an answer that its record holds as bytes; `None` if it can be read.
fn codec(record: &Item) -> Option<u8> {
    Some(record["response"].as_b().ok()?.as_ref()[0])
}

pub(crate) fn parts_of(record: &Item) -> Option<usize> {
    let fields = record["response"].as_m().ok()?;
    fields.get("parts").map(|parts| parts.as_n().unwrap().parse().unwrap())
}

#[tokio::test]
async fn an_answer_of_any_size_and_kind_comes_back_byte_for_byte() {
    let (_store, _, idempotency) = caller().await;
    for bytes in [0, 200, KIB, 8 * KIB, 10 * KIB, 100 * KIB, 390 * KIB, 1024 * KIB, 5120 * KIB] {
        for kind in Kind::ALL {
            let (key, body) = (format!("{kind:?}-{bytes}"), kind.bytes(bytes));
            let first = send(&idempotency, &key, kind, &body).await;
            let repeat = send(&idempotency, &key, kind, b"another").await;
            assert!(!is_replay(&first) && is_replay(&repeat), "{key}");
            assert!(repeat.body() == &body, "{key}: {} bytes", repeat.body().len());
            assert_eq!(repeat.status(), first.status());
            assert_eq!(repeat.headers()["content-type"], kind.media_type());
        }
    }
}

#[tokio::test]
async fn a_functions_answer_of_any_size_comes_back() {
    let (_store, _, idempotency) = caller().await;
    for length in [10, 2 * KIB, 300 * KIB, 3 << 20] {
        // As JSON: quotes and backslashes are escaped, and nothing of it compresses well.
        let noise = Kind::Random.bytes(length);
        let answer: String = noise.into_iter().map(|byte| char::from(b' ' + byte % 95)).collect();
        let runs = Runs::default();
        for is_replay in [false, true] {
            let operation = idempotency.operation("charge").key(length.to_string()).no_payload();
            let outcome = operation.run_with_outcome(async |_| {
                runs.add();
                Ok::<_, String>(answer.clone())
            });
            let outcome = outcome.await.unwrap();
            assert_eq!(outcome.is_replayed(), is_replay, "{length}");
            assert!(outcome.into_inner() == answer, "{length}");
        }
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test]
async fn the_smallest_form_is_chosen_and_small_answers_can_be_read() {
    let (store, _, idempotency) = caller().await;
    for (kind, bytes, stored) in [
        (Kind::Json, 200, (None, None)),
        (Kind::Json, 600, (None, None)),
        (Kind::Json, 4 * KIB, (Some(1), None)),
        (Kind::Html, 20 * KIB, (Some(1), None)),
        (Kind::Random, 4 * KIB, (None, None)),
        (Kind::Random, 9 * KIB, (None, Some(1))),
        (Kind::Random, 390 * KIB, (None, Some(9))),
    ] {
        let key = format!("{kind:?}-{bytes}");
        send(&idempotency, &key, kind, &kind.bytes(bytes)).await;
        let record = store.record(&format!("pay#{key}")).await;
        assert_eq!((codec(&record), parts_of(&record)), stored, "{key}");
    }
}

#[tokio::test]
async fn an_answer_that_is_compressed_already_is_stored_as_it_is() {
    let (store, _, idempotency) = caller().await;
    // It would compress, but its type says that it is not worth trying.
    let body = Bytes::from(Kind::Json.bytes(4 * KIB));
    let handler = tower::service_fn(move |_: Request<Full<Bytes>>| {
        let response = Response::builder().header("content-encoding", "br");
        let response = response.body(Full::new(body.clone())).unwrap();
        async { Ok::<_, std::convert::Infallible>(response) }
    });
    let service = idempotency.http("pay").layer().unwrap().layer(handler);
    let request = Request::post("/").header("idempotency-key", "k");
    service.oneshot(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    assert_eq!(codec(&store.record("pay#k").await), None);
}

#[tokio::test]
async fn a_small_answer_takes_no_request_more_and_a_large_one_a_request_a_part() {
    let (_store, link, _, idempotency) = caller_on(Link::default()).await;
    let cases = [(1000, 0), (100 * KIB, 4), (390 * KIB, 9)];
    for (bytes, parts) in cases {
        let (key, body) = (bytes.to_string(), Kind::Random.bytes(bytes));
        link.wire.forget();
        send(&idempotency, &key, Kind::Random, &body).await;
        assert_eq!(link.wire.requests(), vec!["PutItem"; 2 + parts], "{bytes}");
        link.wire.forget();
        send(&idempotency, &key, Kind::Random, &body).await;
        assert_eq!(
            (link.wire.count("PutItem"), link.wire.requests().len()),
            (1, 1 + link.wire.count("GetItem"))
        );
        // An engine that is behind shows a part only to a consistent read.
        assert!((parts..=2 * parts).contains(&link.wire.count("GetItem")), "{bytes}");
    }
}

async fn run(
    idempotency: &Idempotency,
    policy: impl FnOnce(Policy) -> Policy,
    runs: &Runs,
    length: usize,
) -> Result<String, dynamodb_idempotency::RunError<String>> {
    let operation = idempotency.charging_by(policy);
    operation
        .run(async |_| {
            runs.add();
            Ok("x".repeat(length))
        })
        .await
}

#[tokio::test]
async fn an_answer_over_the_limit_completes_with_the_reason() {
    for length in [KIB * KIB, 100 * KIB] {
        let (store, link, runs, idempotency) = caller_on(Link::default()).await;
        let small = |policy: Policy| policy.max_answer_bytes(64 * KIB);
        assert_eq!(run(&idempotency, small, &runs, length).await.unwrap().len(), length);
        assert_eq!(link.wire.requests(), ["PutItem", "PutItem"], "it is not sent in vain");
        assert_eq!(status(&store.record("charge#k").await), "COMPLETED");
        let repeat = run(&idempotency, small, &runs, length).await;
        assert_eq!((kind(repeat), runs.count()), (ErrorKind::AnswerUnavailable, 1));
    }
}

#[tokio::test]
async fn an_answer_over_the_readers_own_limit_is_not_read() {
    let off = |policy: Policy| policy.compression(Compression::Off);
    for (length, writer) in [(2 * KIB * KIB, Compression::Auto), (2 * KIB * KIB, Compression::Off)]
    {
        let (_store, link, runs, idempotency) = caller_on(Link::default()).await;
        run(&idempotency, |policy| policy.compression(writer), &runs, length).await.unwrap();
        link.wire.forget();
        let small = |policy| off(policy).max_answer_bytes(KIB * KIB);
        let repeat = run(&idempotency, small, &runs, length).await;
        assert_eq!((kind(repeat), runs.count()), (ErrorKind::AnswerUnavailable, 1));
        assert_eq!(link.wire.requests(), ["PutItem"]);
        // A caller with a larger limit gets the answer.
        assert_eq!(run(&idempotency, off, &runs, length).await.unwrap().len(), length);
    }
}

#[tokio::test]
async fn the_threshold_for_parts_is_the_callers_to_choose() {
    let (store, runs, idempotency) = caller().await;
    for (above, parts) in [(0, Some(1)), (600, Some(1)), (700, None), (100_000, None)] {
        let large = LargeAnswers::InParts { above };
        let policy = |policy: Policy| policy.large_answers(large).compression(Compression::Off);
        let key = above.to_string();
        let operation =
            idempotency.operation("charge").policy(policy).unwrap().key(&key).no_payload();
        operation
            .run(async |_| {
                runs.add();
                Ok::<_, String>("x".repeat(400))
            })
            .await
            .unwrap();
        assert_eq!(parts_of(&store.record(&format!("charge#{key}")).await), parts, "{above}");
    }
}
