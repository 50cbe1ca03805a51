//! `lambda_runtime` handlers of any JSON event.

use std::time::{Duration, SystemTime};

use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::policy::Failure;
use dynamodb_idempotency::{ErrorKind, Execution, Fingerprint, RunError};
use lambda_runtime::{Context, Diagnostic, LambdaEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::function::{Ran, context_of, context_until, invoke, invoke_in};
use crate::support::{Link, Store, made_up_time, raw};

#[derive(Deserialize)]
struct Import {
    file: Option<String>,
    #[serde(default)]
    fails: bool,
}

#[derive(Debug, Deserialize, Serialize)]
struct Imported {
    run: usize,
    deadline: u64,
}

type Answer = futures::future::BoxFuture<'static, Result<Imported, String>>;

/// Returns the number of its run and its deadline.
fn import(ran: &Ran) -> impl Fn(LambdaEvent<Import>, Execution) -> Answer + Send + Sync + 'static {
    let ran = ran.clone();
    move |event, _| {
        let (Import { file, fails }, context) = event.into_parts();
        ran.add(file.unwrap_or_default());
        let imported = Imported { run: ran.count(), deadline: context.deadline };
        Box::pin(async move { if fails { Err("declined".to_owned()) } else { Ok(imported) } })
    }
}

fn file(import: &Import) -> Option<String> {
    import.file.clone()
}

fn kind<T: std::fmt::Debug>(result: Result<T, RunError<String>>) -> ErrorKind {
    crate::support::kind(result)
}

#[tokio::test]
async fn a_repeat_gets_the_first_answer() {
    let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
    let service = store.over(&link).event("import", file, import(&ran));
    let context = context_of(60);
    let event = json!({"file": "a.csv", "n": 9_007_199_254_740_993_u64});
    let first = invoke_in(&service, &event, context.clone()).await.unwrap();
    assert_eq!(first, json!({"run": 1, "deadline": context.deadline}));
    let reformatted: Value =
        serde_json::from_str(r#"{"n":9007199254740993, "file":"a.csv"}"#).unwrap();
    assert_eq!(invoke(&service, &reformatted).await, first);
    assert_eq!(invoke(&service, &json!({"file": "b.csv"})).await["run"], 2);
    assert_eq!(link.wire.requests(), ["PutItem"; 5]);
    let stored = format!("{{\"run\":1,\"deadline\":{}}}", context.deadline);
    assert_eq!(store.record("import#a.csv").await["response"], raw::answer("json", &stored));
}

#[tokio::test]
async fn the_key_can_be_parts_of_the_events_json() {
    let (store, ran) = (Store::open().await, Ran::default());
    let idempotency = store.idempotency();
    let service = idempotency.event_by("import", ["/file", "/day"], import(&ran)).unwrap();
    for _ in 0..2 {
        let answer = invoke(&service, &json!({"file": "a.csv", "day": 1})).await;
        assert_eq!(answer["run"], 1);
    }
    assert_eq!(invoke(&service, &json!({"file": "a.csv", "day": "1"})).await["run"], 2);
    store.record(r#"import#["a.csv",1]"#).await;
    let keyless = invoke_in(&service, &json!({"file": "a.csv"}), context_of(60)).await;
    assert_eq!((kind(keyless), ran.count()), (ErrorKind::InvalidInput, 2));
    let wrong = idempotency.event_by("import", "file", import(&ran)).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Configuration);
    assert!(wrong.to_string().contains("write `/file`"), "{wrong}");
    // While idempotency is switched off, no event is rejected because of its key.
    let off = store.builder(&Link::default()).disabled().build().unwrap();
    let service = off.event_by("import", "/day", import(&ran)).unwrap();
    assert_eq!(invoke(&service, &json!({"file": "a.csv"})).await["run"], 3);
}

/// All of an event counts, to the last digit, unless the user says what does.
#[tokio::test]
async fn another_event_with_the_same_key_is_a_mismatch() {
    let (store, ran) = (Store::open().await, Ran::default());
    let whole = store.idempotency().event("import", file, import(&ran));
    let chosen = store.idempotency().event("chosen", file, import(&ran));
    let chosen = chosen.fingerprint(|event| {
        let event: Import = serde_json::from_str(event.get()).unwrap();
        Fingerprint::of(&event.file).unwrap()
    });
    // Two numbers that have the same double.
    for (service, n, expected) in [
        (&whole, "12345678901234567890123", None),
        (&whole, "12345678901234567890124", Some(ErrorKind::Mismatch)),
        (&whole, "12345678901234567890123", None),
        (&chosen, "1", None),
        (&chosen, "2", None),
    ] {
        let event = format!(r#"{{"file":"a.csv","n":{n}}}"#).parse::<JsonEvent>().unwrap();
        let event = LambdaEvent::new(event, context_of(30));
        let result = tower::ServiceExt::oneshot(service.clone(), event).await;
        assert_eq!(result.err().map(|error| kind(Err::<(), _>(error))), expected, "{n}");
    }
    assert_eq!(ran.count(), 2);
}

/// A context made by hand has no deadline: its lease is half a minute, renewed.
#[tokio::test]
async fn the_lease_ends_two_seconds_after_the_invocation() {
    let in_1970 = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    for (name, context, seconds) in [
        ("50 s", context_of(50), 52),
        ("800 s", context_of(800), 802),
        ("over", context_until(made_up_time::now() - Duration::from_secs(3_700)), 30),
        ("600,000", context_until(in_1970(600_000)), 30),
        ("by hand", Context::default(), 30),
    ] {
        let (store, ran) = (Store::open().await, Ran::default());
        let noted = ran.clone();
        let handler = move |_: LambdaEvent<Import>, execution: Execution| {
            noted.add(execution.lease_remaining().as_secs().to_string());
            async { Ok::<_, String>(()) }
        };
        let service = store.idempotency().event("import", file, handler);
        invoke_in(&service, &json!({"file": "a"}), context).await.unwrap();
        let lease: u64 = ran.all()[0].parse().unwrap();
        assert!(lease.abs_diff(seconds) <= 3, "{name}: {lease}");
    }
}

#[tokio::test]
async fn bad_events_run_nothing_and_say_why() {
    let (store, link, ran) = (Store::open().await, Link::default(), Ran::default());
    let service = store.over(&link).event("import", file, import(&ran));
    let over = context_until(made_up_time::now() - Duration::from_secs(1));
    let long_over = context_until(made_up_time::now() - Duration::from_secs(3_500));
    for (event, context, expected) in [
        (json!({}), context_of(30), ErrorKind::InvalidInput),
        (json!({"file": null}), context_of(30), ErrorKind::InvalidInput),
        (json!({"file": ""}), context_of(30), ErrorKind::InvalidInput),
        (json!({"file": 7}), context_of(30), ErrorKind::InvalidInput),
        (json!([]), context_of(30), ErrorKind::InvalidInput),
        (json!({"file": "a".repeat(3000)}), context_of(30), ErrorKind::InvalidInput),
        (json!({"file": "a.csv"}), over, ErrorKind::DeadlineExceeded),
        (json!({"file": "a.csv"}), long_over, ErrorKind::DeadlineExceeded),
    ] {
        let error = invoke_in(&service, &event, context).await.unwrap_err();
        let (error_kind, diagnostic) =
            (error.idempotency().map(dynamodb_idempotency::Error::kind), Diagnostic::from(error));
        assert_eq!(error_kind, Some(expected), "{event}");
        assert_eq!(diagnostic.error_type, format!("Idempotency.{expected:?}"));
    }
    assert_eq!(ran.count() + link.wire.requests().len(), 0);
}

/// Lambda retries an asynchronous invocation that fails.
#[tokio::test]
async fn the_handlers_error_is_the_invocations_and_attempts_are_counted() {
    let (store, ran) = (Store::open().await, Ran::default());
    let service = store.idempotency().event("import", file, import(&ran));
    let retain = Failure::Retain { max_attempts: 2 };
    let service = service.policy(|policy| policy.failure(retain)).unwrap();
    let event = json!({"file": "a.csv", "fails": true});
    for _ in 0..2 {
        let error = invoke_in(&service, &event, context_of(30)).await.unwrap_err();
        assert_eq!(Diagnostic::from(error).error_message, "declined");
    }
    let given_up = invoke_in(&service, &event, context_of(30)).await;
    assert_eq!((kind(given_up), ran.count()), (ErrorKind::Failed, 2));
}

/// Lambda accepts 6,291,556 bytes: it refuses the first answer, and would refuse each replay.
#[tokio::test]
async fn an_answer_that_lambda_does_not_accept_is_not_stored() {
    let (store, ran) = (Store::open().await, Ran::default());
    let counted = ran.clone();
    let handler = move |event: LambdaEvent<usize>, _| {
        counted.add(event.payload.to_string());
        std::future::ready(Ok::<_, String>("x".repeat(event.payload)))
    };
    let service = store.idempotency().event("import", usize::to_string, handler);
    let call = async |bytes: usize| {
        let event = LambdaEvent::new(JsonEvent::of(&bytes).unwrap(), context_of(30));
        tower::ServiceExt::oneshot(service.clone(), event).await
    };
    let too_large = 6_291_556;
    assert_eq!(call(too_large).await.unwrap().len(), too_large);
    assert_eq!(kind(call(too_large).await), ErrorKind::AnswerUnavailable);
    assert_eq!(ran.count(), 1);
}
