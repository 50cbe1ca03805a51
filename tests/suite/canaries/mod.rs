//! Keys and payloads are personal data: neither appears in a log, an error or a metric.
//!
//! Messages of the user's handler, codec or hook are not checked.

mod messages;

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt::Write as _;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
#[cfg(feature = "admin")]
use serde::Serialize;

use dynamodb_idempotency::admin::Select;
use dynamodb_idempotency::policy::{Failure, KeyForm, Takeover};
use dynamodb_idempotency::{
    Call, ErrorKind, Execution, Idempotency, Policy, RunError, Transaction,
};

use crate::http::message::post;
use crate::http::site::everywhere;
use crate::support::listener::Listener;
use crate::support::raw::{Item, s, with};
use crate::support::{Act, Link, Store, caller, caller_on, effects, made_up_time, raw};

const KEY: &str = "canary-key-4815162342";
const PAYLOAD: &str = "canary-payload-2718281828";
/// What both have in common, and the numbers in them, which serde quotes too.
const CANARIES: [&str; 3] = ["canary", "4815162342", "2718281828"];

/// Collects everything that is logged, returned or counted.
struct Ear {
    listener: Listener,
    text: String,
    cases: usize,
}

impl Ear {
    fn new() -> Self {
        Self { listener: Listener::start(), text: String::new(), cases: 0 }
    }

    fn error(&mut self, error: &(dyn StdError + 'static)) {
        let mut cause = Some(error);
        while let Some(error) = cause {
            write!(self.text, "{error}\n{error:?}\n{error:#?}\n").unwrap();
            cause = error.source();
        }
    }

    /// Checks that nothing collected since the last check contains a canary.
    #[track_caller]
    fn check(&mut self, case: &str) {
        let words = format!("{}{}", std::mem::take(&mut self.text), self.listener.words());
        for canary in CANARIES {
            assert!(!words.contains(canary), "{case}: {canary} in {words}");
        }
        self.cases += 1;
    }

    /// A call that is refused.
    #[track_caller]
    fn refused<T: std::fmt::Debug, E: StdError + 'static>(
        &mut self,
        case: &str,
        result: Result<T, RunError<E>>,
    ) {
        match result {
            Err(error) => self.error(&error),
            Ok(answer) => panic!("{case}: {answer:?}"),
        }
        self.check(case);
    }
}

#[test]
fn an_ear_hears_a_canary() {
    let ear = Ear::new();
    let mut deaf = Ear { listener: Listener::start(), text: KEY.to_owned(), cases: 0 };
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| deaf.check("a key")));
    assert!(checked.is_err());
    drop(ear);
}

fn charge(idempotency: &Idempotency) -> Call {
    idempotency.operation("charge").key(KEY).no_payload()
}

fn with_payload<P: Serialize + ?Sized>(idempotency: &Idempotency, payload: &P) -> Call {
    idempotency.operation("charge").key(KEY).payload(payload)
}

fn policy_of(idempotency: &Idempotency, change: impl FnOnce(Policy) -> Policy) -> Call {
    idempotency.operation("charge").policy(change).unwrap().key(KEY).no_payload()
}

async fn run(operation: Call) -> Result<String, RunError<Infallible>> {
    operation.run(async |_| Ok(PAYLOAD.to_owned())).await
}

fn pk() -> String {
    format!("charge#{KEY}")
}

#[tokio::test]
async fn a_function_that_is_refused_tells_neither_key_nor_payload() {
    let (store, link, mut ear) = (Store::open().await, Link::without_retries(), Ear::new());
    let idempotency = store.over(&link);
    let operation = || charge(&idempotency);
    ear.refused(
        "a long key",
        run(idempotency.operation("charge").key(KEY.repeat(200)).no_payload()).await,
    );
    let no_json = HashMap::from([((PAYLOAD, 1), 1)]);
    ear.refused("no JSON", run(with_payload(&idempotency, &no_json)).await);
    let past = made_up_time::now() - Duration::from_secs(5);
    ear.refused("no time", run(operation().deadline(past)).await);

    run(operation()).await.unwrap();
    ear.check("a first run");
    run(operation()).await.unwrap();
    ear.check("a replay");
    ear.refused("another request", run(with_payload(&idempotency, PAYLOAD)).await);
    let number = operation().run(async |_| Ok::<_, Infallible>(0_u32)).await;
    ear.refused("another type", number);

    let records: Vec<(&str, Item)> = vec![
        ("in progress", raw::pending(&pk())),
        ("a format", with(raw::completed(&pk(), "1"), "format", s(PAYLOAD))),
        ("a status", with(raw::completed(&pk(), "1"), "status", s(PAYLOAD))),
        ("an answer", with(raw::completed(&pk(), "1"), "response", s(PAYLOAD))),
        ("no JSON", raw::completed(&pk(), PAYLOAD)),
        ("a newer one", with(raw::completed(&pk(), "1"), "format", raw::n(2))),
        ("a foreign item", with(raw::key(&pk()), "total", s(PAYLOAD))),
        ("steps", with(raw::abandoned(&pk()), "steps", s(PAYLOAD))),
    ];
    for (case, record) in records {
        store.put(record).await;
        let number = operation().run(async |_| Ok::<_, Infallible>(0_u32)).await;
        ear.refused(case, number);
    }
    store.put(raw::abandoned(&pk())).await;
    let reject = policy_of(&idempotency, |policy| policy.takeover(Takeover::Reject));
    ear.refused("abandoned", run(reject).await);
    store.put(raw::failed(&pk())).await;
    let retain = Failure::Retain { max_attempts: 1 };
    ear.refused("failed", run(policy_of(&idempotency, |policy| policy.failure(retain))).await);
    for act in [
        Act::LoseRequest,
        Act::LoseResponse,
        Act::THROTTLE,
        Act::SERVER_ERROR,
        Act::Answer(400, "AccessDeniedException"),
        Act::Answer(400, "ValidationException"),
        Act::Answer(400, "ResourceNotFoundException"),
    ] {
        link.wire.down(act.clone());
        ear.refused(&format!("{act:?}"), run(operation()).await);
        link.wire.up();
    }
    assert_eq!(ear.cases, 24);
}

/// While it runs, and at its end.
#[tokio::test]
async fn an_owner_tells_neither_key_nor_payload() {
    let mut ear = Ear::new();
    let brief = |policy: Policy| {
        policy.completion_timeout(Duration::from_millis(120)).max_answer_bytes(1024)
    };
    for act in [Act::LoseRequest, Act::SERVER_ERROR, Act::Answer(400, "ValidationException")] {
        let (_store, link, _, idempotency) = caller_on(Link::without_retries()).await;
        let result = policy_of(&idempotency, brief).run(async |execution: Execution| {
            link.wire.down(act.clone());
            let step = async { Ok::<_, Infallible>(PAYLOAD.to_owned()) };
            if let Err(error) = execution.step("reserve", step).await {
                return Err(error.to_string());
            }
            Ok(PAYLOAD.to_owned())
        });
        write!(ear.text, "{:?}", result.await.map(drop)).unwrap();
        ear.check(&format!("{act:?}"));
    }
    let (store, _, idempotency) = caller().await;
    let large = policy_of(&idempotency, brief);
    large.run(async |_| Ok::<_, Infallible>(PAYLOAD.repeat(100))).await.unwrap();
    ear.check("too large");
    ear.refused("what was too large", run(charge(&idempotency)).await);

    let other = || idempotency.operation("other").key(KEY).no_payload();
    let stored = other().run(async |execution: Execution| {
        let step = async { Ok::<_, Infallible>(PAYLOAD.to_owned()) };
        execution.step("reserve", step).await.map_err(|error| error.to_string())?;
        Err::<(), _>("declined".to_owned())
    });
    stored.await.unwrap_err();
    let read = other().run(async |execution: Execution| {
        execution.step("reserve", async { Ok::<_, Infallible>(0_u32) }).await
    });
    match read.await {
        Err(RunError::Handler(RunError::Idempotency(error))) if !error.step_ran() => {
            ear.error(&error);
        }
        other => panic!("{other:?}"),
    }
    ear.check("a step of another type");

    let lost = idempotency.operation("lost").key(KEY).no_payload().run(async |_| {
        store.put(raw::completed(&format!("lost#{KEY}"), "\"theirs\"")).await;
        Ok::<_, Infallible>(PAYLOAD.to_owned())
    });
    drop(lost.await);
    ear.check("a lost lease");
}

/// DynamoDB quotes a value that is not a number, also one of a client.
#[tokio::test]
async fn what_dynamodb_quotes_of_an_item_is_neither_returned_nor_logged() {
    let (store, mut ear) = (Store::open().await, Ear::new());
    let idempotency = store.idempotency();
    let forged = format!("{PAYLOAD}\n2026-11-27T12:00:00Z ERROR paid {KEY}");
    let number = || AttributeValue::N(forged.clone());
    let mut update = effects::credit(store.table(), "alice", 1);
    let values = update.update.as_mut().unwrap().expression_attribute_values.as_mut().unwrap();
    for value in values.values_mut() {
        *value = number();
    }
    let items = [
        effects::put(store.table(), with(raw::key("row"), "total", number())),
        effects::put(
            store.table(),
            with(raw::key("row"), "set", AttributeValue::Ns(vec![forged.clone()])),
        ),
        update,
    ];
    for (case, item) in items.iter().enumerate() {
        let committed = charge(&idempotency).run(async |execution| {
            let error = execution.commit("paid", [item.clone()]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidTransaction, "{error}");
            Err::<(), _>(error)
        });
        match committed.await {
            Err(RunError::Handler(error)) => {
                ear.error(&error);
                let answer = axum::response::IntoResponse::into_response(error);
                write!(ear.text, "{answer:?}").unwrap();
            }
            other => panic!("{other:?}"),
        }
        ear.check(&format!("a commit of item {case}"));
        let build =
            async || Ok::<_, Infallible>(Transaction::new("paid".to_owned()).items([item.clone()]));
        ear.refused(
            &format!("a transaction of item {case}"),
            charge(&idempotency).run_transaction(build).await,
        );
    }
}

#[tokio::test]
async fn a_request_that_is_refused_tells_neither_key_nor_payload() {
    for site in everywhere().await {
        // Only the crate's own face: a server is another thread.
        let mut ear = Ear::new();
        let api = site.paying(site.http()).await;
        let json = |text: &str| format!("{{\"card\":\"{text}\"}}");
        let said = |ear: &mut Ear, case: &str, answer: http::Response<bytes::Bytes>| {
            assert_ne!(answer.status(), 201, "{case}");
            write!(ear.text, "{answer:?}{}", String::from_utf8_lossy(answer.body())).unwrap();
        };
        assert_eq!(api.send(post(KEY, json(PAYLOAD))).await.status(), 201);
        ear.check("a first request");
        let refused = [
            ("another request", post(KEY, json("other"))),
            ("a long key", post(&KEY.repeat(20), json("a"))),
            ("a comma", post(&format!("{KEY}, {KEY}"), json("a"))),
        ];
        for (case, request) in refused {
            let answer = api.send(request).await;
            said(&mut ear, case, answer);
            ear.check(case);
        }
        let record = site.item(KEY).await.unwrap();
        let changes: [(&str, Item); 4] = [
            ("a status", with(record.clone(), "status", s(PAYLOAD))),
            ("an answer", with(record.clone(), "response", s(PAYLOAD))),
            ("a function's", with(record.clone(), "response", raw::answer("json", PAYLOAD))),
            ("a newer one", with(record, "format", raw::n(2))),
        ];
        for (case, record) in changes {
            site.store.put(record).await;
            let answer = api.send(post(KEY, json(PAYLOAD))).await;
            said(&mut ear, case, answer);
            ear.check(case);
        }
    }
}

#[cfg(feature = "admin")]
#[tokio::test]
async fn a_tool_that_is_refused_tells_neither_key_nor_payload() {
    let (store, mut ear) = (Store::open().await, Ear::new());
    let idempotency = store.tool(&Link::default());
    let records = [
        with(raw::pending(&pk()), "status", s(PAYLOAD)),
        with(raw::pending(&pk()), "format", s(PAYLOAD)),
        with(raw::pending(&pk()), "owner", raw::n(2_718_281_828_i64)),
        with(raw::abandoned(&pk()), "steps", s(PAYLOAD)),
        with(raw::completed(&pk(), "1"), "response", s(PAYLOAD)),
        with(raw::key(&pk()), "total", s(PAYLOAD)),
    ];
    for record in records {
        store.put(record).await;
        let found = idempotency.admin().record(&"charge".into(), KEY, KeyForm::Verbatim).await;
        ear.error(&found.unwrap_err());
        let page = idempotency.admin().page(0, 1, Select::All, None).await.unwrap();
        for unreadable in page.unreadable {
            ear.text.push_str(&unreadable.reason);
        }
        ear.check("a record that is none");
    }
    store.put(raw::abandoned(&pk())).await;
    let found = idempotency.admin().record(&"charge".into(), KEY, KeyForm::Verbatim).await;
    let seen = found.unwrap().expect("a record");
    store.put(with(raw::pending(&pk()), "status", s(PAYLOAD))).await;
    ear.error(&idempotency.admin().release(&seen).await.unwrap_err());
    ear.check("a release");
}
