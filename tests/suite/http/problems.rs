//! The crate's own answers: when the store fails, and when it holds what is not understood.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use dynamodb_idempotency::http::{Problem, ProblemKind};
use dynamodb_idempotency::policy::Outage;
use dynamodb_idempotency::{ErrorKind, Fingerprint, TableSchema};
use http::Response;
use serde_json::Value;

use super::message::{is_replay, post, problem, values};
use super::site::{Site, everywhere};
use crate::support::raw::Item;
use crate::support::{Store, charge, kind, raw};

#[tokio::test]
async fn a_problem_says_what_it_is_in_the_members_of_rfc_9457() {
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        api.send(post("k", "1")).await;
        let mismatch = problem(&api.send(post("k", "2")).await, 422, "Mismatch");
        let members = mismatch.as_object().unwrap();
        assert_eq!(members.len(), 4, "{members:?}");
        assert_eq!(members["title"], "Idempotency key is already used");
        assert!(members["type"].as_str().unwrap().starts_with("urn:dynamodb-idempotency:problem:"));
    }
}

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

#[tokio::test]
async fn a_record_that_is_not_understood_is_an_error_and_stays_as_it_is() {
    type Change = fn(Item) -> Item;
    let cases: [(&str, Change); 5] = [
        ("no format", |record| without(record, "format")),
        ("a status to come", |record| raw::with(record, "status", raw::s("PAUSED"))),
        ("no answer", |record| without(record, "response")),
        ("an answer of another shape", |record| raw::with(record, "response", raw::s("paid"))),
        ("a foreign item", |record| raw::key(raw::text(&record, "pk"))),
    ];
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        api.send(post("original", "{}")).await;
        for (name, change) in cases {
            println!("{name}");
            let record = site.item("original").await.unwrap();
            let record = change(raw::with(record, "pk", raw::s(&site.pk(name))));
            site.store.put(record.clone()).await;
            problem(&api.send(post(name, "{}")).await, 500, "RecordNotUnderstood");
            assert_eq!(site.item(name).await, Some(record), "{name}");
        }
        assert_eq!(site.runs.count(), 1);
    }
}

/// In a rollout, both versions are behind one address.
#[tokio::test]
async fn what_another_version_has_written_is_left_to_it_and_asked_for_again() {
    type Change = fn(Item) -> Item;
    // As a version with an `AnswerCodec` leaves a step and then fails.
    let half_done = |record| {
        let record = without(raw::with(record, "status", raw::s("FAILED")), "response");
        let step = AttributeValue::B(Blob::new([2, 7, 7, 7]));
        raw::with(record, "steps", raw::map("reserve", step))
    };
    let cases: [(&str, Change, &str); 3] = [
        ("a format to come", |record| raw::with(record, "format", raw::n(2)), "NewerRecord"),
        (
            "a recipe to come",
            |record| {
                let fingerprint = AttributeValue::B(Blob::new([2; 33]));
                raw::with(record, "fingerprint", fingerprint)
            },
            "NewerRecord",
        ),
        ("a step of a codec's", half_done, "StepsUnreadable"),
    ];
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        api.send(post("original", "{}")).await;
        for (name, change, kind) in cases {
            println!("{name}");
            let record = site.item("original").await.unwrap();
            let record = change(raw::with(record, "pk", raw::s(&site.pk(name))));
            site.store.put(record.clone()).await;
            let answer = api.send(post(name, "{}")).await;
            problem(&answer, 503, kind);
            assert_eq!(values(answer.headers(), "retry-after"), ["1"]);
            assert_eq!(site.item(name).await, Some(record), "{name}");
        }
        assert_eq!(site.runs.count(), 1);
    }
}

fn without(mut record: Item, name: &str) -> Item {
    record.remove(name);
    record
}

#[tokio::test]
async fn an_answer_that_http_cannot_carry_is_an_error() {
    for site in everywhere().await {
        let api = site.paying(site.http()).await;
        for (key, name, value) in [("a", "no name", "v"), ("b", "x-a", "line\nbreak")] {
            api.send(post(key, "{}")).await;
            let mut record = site.item(key).await.unwrap();
            let header = AttributeValue::L(vec![raw::s(name), raw::s(value)]);
            let AttributeValue::M(response) = record.get_mut("response").unwrap() else {
                panic!("no answer");
            };
            response.insert("headers".to_owned(), AttributeValue::L(vec![header]));
            site.store.put(record).await;
            problem(&api.send(post(key, "{}")).await, 500, "RecordNotUnderstood");
        }
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
        assert_eq!(api.send(post("k", "{}")).await.status(), 201);
        assert!(is_replay(&api.send(post("k", "{}")).await));
    }
}

/// What a function stored is no HTTP response: not even when key and request are the same.
#[tokio::test]
async fn a_functions_answer_is_not_sent_to_a_client() {
    for site in everywhere().await {
        let idempotency = site.store.idempotency();
        for key in ["same", "other"] {
            let operation = idempotency.operation(site.scope()).key(key).no_payload();
            charge(operation, &site.runs).await.unwrap();
        }
        let nothing = Fingerprint::builder().finish();
        let api = site.paying(site.http().fingerprint(move |_, _| nothing)).await;
        let answer = api.send(post("same", "{}")).await;
        problem(&answer, 500, "RecordNotUnderstood");
        assert!(!String::from_utf8_lossy(answer.body()).contains("run 1"));
        let api = site.paying(site.http()).await;
        problem(&api.send(post("other", "{}")).await, 422, "Mismatch");
        assert_eq!(site.runs.count(), 2);
    }
}

#[tokio::test]
async fn an_http_answer_is_not_given_to_a_function() {
    for site in everywhere().await {
        let nothing = Fingerprint::builder().finish();
        let api = site.paying(site.http().fingerprint(move |_, _| nothing)).await;
        api.send(post("same", "{}")).await;
        let api = site.paying(site.http()).await;
        api.send(post("other", "{}")).await;
        let idempotency = site.store.idempotency();
        let expected = [("same", ErrorKind::AnswerUnreadable), ("other", ErrorKind::Mismatch)];
        for (key, expected) in expected {
            let operation = idempotency.operation(site.scope()).key(key).no_payload();
            assert_eq!(kind(charge(operation, &site.runs).await), expected);
        }
        assert_eq!(site.runs.count(), 2);
    }
}

/// A problem's JSON is one that any reader takes.
#[tokio::test]
async fn a_header_name_in_a_problem_is_text() {
    for site in everywhere().await {
        let name = http::HeaderName::from_static("x-it's!");
        let api = site.paying(site.http().header(name)).await;
        let problem: Value = problem(&api.send(post("k", "{}")).await, 400, "KeyMissing");
        assert!(problem["detail"].as_str().unwrap().ends_with("x-it's!"));
    }
}
