//! The crate's own answers: when the store fails, and when it holds what is not understood.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use dynamodb_idempotency::http::{Problem, ProblemKind};
use dynamodb_idempotency::policy::Outage;
use dynamodb_idempotency::{ErrorKind, Fingerprint, TableSchema};
use http::Response;

use super::message::{outcome, post, problem, values};
use super::site::{Site, everywhere};
use crate::support::raw::Item;
use crate::support::{Store, charge, kind, raw};

#[tokio::test]
async fn problems_can_be_rendered_in_an_apis_own_format() {
    let render = |problem: &Problem| {
        let status = match problem.kind {
            ProblemKind::Mismatch => 400,
            _ => problem.status().as_u16(),
        };
        let response = Response::builder().status(status).header("x-kind", problem.title());
        let response = response.header("content-type", "text/plain");
        response.body(Bytes::from(format!("sorry: {}", problem.detail))).unwrap()
    };
    for site in everywhere().await {
        let api = site.paying(site.http().render_problem(render)).await;
        api.send(post("k", "1")).await;
        for (request, title) in [
            (post("k", "2"), "Idempotency key is already used"),
            (post("", "1"), "Idempotency key is invalid"),
        ] {
            let answer = api.send(request).await;
            assert_eq!(answer.status(), 400);
            assert_eq!(values(answer.headers(), "content-type"), ["text/plain"]);
            assert_eq!(values(answer.headers(), "x-kind"), [title]);
            assert!(answer.body().starts_with(b"sorry: "));
        }
        assert_eq!(site.runs.count(), 1);
    }
}

#[tokio::test]
async fn a_missing_table_is_an_error_that_does_not_tell_its_name() {
    let store = std::sync::Arc::new(Store::without_table(TableSchema::default()).await);
    for site in everywhere().await {
        let site = Site { store: std::sync::Arc::clone(&store), ..site };
        // Not even where an outage would not stop it: this is none.
        let api = site.paying(site.http().policy(|policy| policy.outage(Outage::Open))).await;
        let answer = api.send(post("k", "{}")).await;
        problem(&answer, 500, "Misconfigured");
        let body = String::from_utf8_lossy(answer.body());
        assert!(!body.contains(store.table()) && !body.contains(site.scope()), "{body}");
        assert_eq!(site.runs.count(), 0);
    }
}

fn without(mut record: Item, name: &str) -> Item {
    record.remove(name);
    record
}

/// A record whose answer has this header alone.
fn with_header(mut record: Item, name: &str, value: &str) -> Item {
    let header = AttributeValue::L(vec![raw::s(name), raw::s(value)]);
    let AttributeValue::M(response) = record.get_mut("response").unwrap() else {
        panic!("no answer");
    };
    response.insert("headers".to_owned(), AttributeValue::L(vec![header]));
    record
}

/// As a version with an `AnswerCodec` leaves a step and then fails.
fn half_done(record: Item) -> Item {
    let record = without(raw::with(record, "status", raw::s("FAILED")), "response");
    let step = AttributeValue::B(Blob::new([2, 7, 7, 7]));
    raw::with(record, "steps", raw::map("reserve", step))
}

/// In a rollout, both versions are behind one address: what another version has written is left to it,
/// and the client is asked to come again.
#[tokio::test]
async fn a_record_that_is_not_understood_is_an_error_and_stays_as_it_is() {
    const UNREADABLE: &str = "500 RecordNotUnderstood";
    type Change = fn(Item) -> Item;
    let cases: [(&str, Change, &str); 10] = [
        ("no format", |record| without(record, "format"), UNREADABLE),
        ("a status to come", |record| raw::with(record, "status", raw::s("PAUSED")), UNREADABLE),
        ("no answer", |record| without(record, "response"), UNREADABLE),
        ("another shape", |record| raw::with(record, "response", raw::s("paid")), UNREADABLE),
        ("a header's name", |record| with_header(record, "no name", "v"), UNREADABLE),
        ("a header's value", |record| with_header(record, "x-a", "line\nbreak"), UNREADABLE),
        ("a foreign item", |record| raw::key(raw::text(&record, "pk")), UNREADABLE),
        ("a format to come", |record| raw::with(record, "format", raw::n(2)), "503 NewerRecord"),
        (
            "a recipe to come",
            |record| raw::with(record, "fingerprint", AttributeValue::B(Blob::new([2; 33]))),
            "503 NewerRecord",
        ),
        ("a step of a codec's", half_done, "503 StepsUnreadable"),
    ];
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        api.send(post("original", "{}")).await;
        for (name, change, expected) in cases {
            let record = site.item("original").await.unwrap();
            let record = change(raw::with(record, "pk", raw::s(&site.pk(name))));
            site.store.put(record.clone()).await;
            let answer = api.send(post(name, "{}")).await;
            assert_eq!(outcome(&answer), expected, "{name}");
            let comes_again = values(answer.headers(), "retry-after") == ["1"];
            assert_eq!(comes_again, expected.starts_with("503"), "{name}");
            assert_eq!(site.item(name).await, Some(record), "{name}");
        }
        assert_eq!(site.runs.count(), 1);
    }
}

#[tokio::test]
async fn a_key_that_is_too_long_for_the_table_is_refused() {
    let schema =
        TableSchema::default().composite_key("PK", "idempotency", "SK").ttl_attribute("ttl");
    let store = std::sync::Arc::new(Store::with_schema(schema).await);
    for site in everywhere().await {
        let site = Site { store: std::sync::Arc::clone(&store), ..site };
        // A sort key has 1024 bytes at most; the scope takes most of them.
        let scope = format!("{}{}", site.scope(), "s".repeat(980));
        let api = site.paying(store.over(&site.link).http(scope)).await;
        let refused = problem(&api.send(post(&"k".repeat(60), "{}")).await, 400, "KeyInvalid");
        assert!(!refused["detail"].as_str().unwrap().contains("KeyForm"), "{refused}");
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
        api.replayed(post("k", "{}")).await;
    }
}

/// Not even when key and request are the same.
#[tokio::test]
async fn a_functions_answer_is_not_sent_to_a_client_nor_a_response_given_to_a_function() {
    for site in everywhere().await {
        let idempotency = site.store.idempotency();
        let call = async |key| {
            let operation = idempotency.operation(site.scope()).key(key).no_payload();
            charge(operation, &site.runs).await
        };
        let nothing = Fingerprint::builder().finish();
        let same = site.paying(site.http().fingerprint(move |_, _| nothing)).await;
        let other = site.paying(site.http()).await;
        for key in ["same", "other"] {
            call(key).await.unwrap();
        }
        let answer = same.send(post("same", "{}")).await;
        assert!(!String::from_utf8_lossy(answer.body()).contains("run 1"));
        assert_eq!(outcome(&answer), "500 RecordNotUnderstood");
        other.check([("other", post("other", "{}"), "422 Mismatch")]).await;

        same.check([("same", post("same response", "{}"), "201")]).await;
        other.check([("other", post("other response", "{}"), "201")]).await;
        assert_eq!(kind(call("same response").await), ErrorKind::AnswerUnreadable);
        assert_eq!(kind(call("other response").await), ErrorKind::Mismatch);
        assert_eq!(site.runs.count(), 4);
    }
}
