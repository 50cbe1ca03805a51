//! What users test their handlers with: each state of a record is met as on a real table.

use std::convert::Infallible;
use std::time::Duration;

use dynamodb_idempotency::admin::{StoredAnswer, StoredState};
use dynamodb_idempotency::policy::{Failure, Lease};
use dynamodb_idempotency::testing::Sandbox;
use dynamodb_idempotency::{
    ErrorKind, Fingerprint, Idempotency, Outcome, RunError, Scope, TableSchema,
};

use crate::support::{Charging, Runs, charge, executed, is_in_progress, kind};

const MINUTE: Duration = Duration::from_secs(60);

async fn pay(idempotency: &Idempotency, amount: u32) -> Result<Outcome<u32>, RunError<Infallible>> {
    let operation = idempotency.operation("charge").key("k").payload(&amount);
    operation.run_with_outcome(async |_| Ok(amount)).await
}

#[tokio::test]
async fn each_state_is_met_as_on_a_real_table() {
    for schema in [
        TableSchema::default(),
        TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK").ttl_attribute("ttl"),
    ] {
        let sandbox = Sandbox::with_schema(schema).await.unwrap();
        let idempotency = sandbox.idempotency();
        let record = sandbox.record("charge", "k").payload(&1200);

        record.pending(MINUTE).await.unwrap();
        assert!(is_in_progress(pay(&idempotency, 1200).await));
        assert_eq!(kind(pay(&idempotency, 1300).await), ErrorKind::Mismatch);
        record.abandoned().await.unwrap();
        assert_eq!(pay(&idempotency, 1200).await.unwrap(), Outcome::Executed(1200));
        assert_eq!(record.read().await.unwrap().unwrap().attempt, 2);
        record.completed(&7).await.unwrap();
        assert_eq!(pay(&idempotency, 1200).await.unwrap(), Outcome::Replayed(7));
        record.expired().await.unwrap();
        assert_eq!(pay(&idempotency, 1300).await.unwrap(), Outcome::Executed(1300));
        record.failed().await.unwrap();
        let strict = sandbox.builder().policy(|p| p.failure(Failure::Replay)).build().unwrap();
        assert_eq!(kind(pay(&strict, 1200).await), ErrorKind::Failed);
        record.pending(MINUTE).await.unwrap();
        record.expired().await.unwrap();
        assert_eq!(pay(&idempotency, 1400).await.unwrap(), Outcome::Executed(1400));
    }
}

#[tokio::test]
async fn a_scope_as_the_command_line_writes_it_is_refused_as_text() {
    let sandbox = Sandbox::start().await.unwrap();
    for text in ["orders/%t/acme", "orders/v%2F2", "100%25"] {
        let record = sandbox.record(text, "k");
        let errors = [
            record.pending(MINUTE).await.unwrap_err(),
            record.completed("re_1").await.unwrap_err(),
            record.failed().await.unwrap_err(),
            record.failed_with("declined").await.unwrap_err(),
            record.expired().await.unwrap_err(),
            record.read().await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let fix = format!("Scope::from_encoded(\"{text}\")");
            assert!(error.to_string().contains(&fix), "{error}");
        }
    }
    let encoded = Scope::from_encoded("orders/%t/acme").unwrap();
    sandbox.record(encoded, "k").completed("re_1").await.unwrap();
    let read = sandbox.record(Scope::new("orders").tenant("acme"), "k").read().await;
    assert!(read.unwrap().is_some());
    sandbox.record("50% off", "k").completed("re_1").await.unwrap();
    sandbox.record("orders/v2", "k").completed("re_1").await.unwrap();
}

#[tokio::test]
async fn finished_steps_and_a_kept_error_are_met_as_on_a_real_table() {
    let sandbox = Sandbox::start().await.unwrap();
    let (idempotency, runs) = (sandbox.idempotency(), Runs::default());
    let order = async || {
        let operation = idempotency.calling("order").replay_errors::<String>();
        let ran = operation.run(async |execution| {
            for name in ["reserve", "charge"] {
                let step = execution.step(name, async { Ok::<_, String>(runs.add()) }).await;
                step.map_err(|error| error.to_string())?;
            }
            Err::<u32, _>("no stock".to_owned())
        });
        let RunError::Handler(error) = ran.await.unwrap_err() else { panic!("no kept error") };
        error
    };
    let steps = async || {
        let steps = sandbox.record("order", "k").read().await.unwrap().unwrap().steps;
        let json = |answer| match answer {
            StoredAnswer::Json(json) => json,
            other => panic!("{other:?}"),
        };
        steps
            .unwrap_or_default()
            .into_iter()
            .map(|(name, step)| (name, json(step)))
            .collect::<Vec<_>>()
    };
    let [reserve, charge] = ["reserve", "charge"].map(str::to_owned);

    // The owner died after its first step.
    sandbox.record("order", "k").step("reserve", &7).abandoned().await.unwrap();
    assert_eq!(steps().await, [(reserve.clone(), "7".to_owned())]);
    assert_eq!((order().await.as_str(), runs.count()), ("no stock", 1));
    let both = [(charge, "1".to_owned()), (reserve, "7".to_owned())];
    assert_eq!(steps().await, both);
    let kept = || async {
        match sandbox.record("order", "k").read().await.unwrap().unwrap().state {
            StoredState::Failed { answer, .. } => answer,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(kept().await, Some(StoredAnswer::Json("\"no stock\"".to_owned())));

    // A change of the state keeps the steps, except a completion.
    sandbox.record("order", "k").failed_with("declined").await.unwrap();
    assert_eq!(kept().await, Some(StoredAnswer::Json("\"declined\"".to_owned())));
    assert_eq!((order().await.as_str(), runs.count()), ("declined", 1));
    assert_eq!(steps().await, both);
    sandbox.record("order", "k").step("ship", &1).completed(&7).await.unwrap();
    assert_eq!(steps().await, []);
}

/// The record of `.request(..)` is the one that the layer writes for this request.
#[cfg(feature = "axum")]
#[tokio::test]
async fn a_record_has_the_fingerprint_of_an_http_request() {
    use axum::Router;
    use axum::body::Body;
    use axum::routing::post;
    use http::Request;
    use tower::ServiceExt;

    for body in ["", r#"{"b": 1, "a": 2}"#] {
        let sandbox = Sandbox::start().await.unwrap();
        let layer = sandbox.idempotency().http("orders").layer().unwrap();
        let router = Router::new().route("/orders", post(async || "ordered").route_layer(layer));
        let request = |key: &str, body: &str| {
            let request = Request::post("/orders?a=1").header("idempotency-key", key);
            request.header("content-type", "application/json").body(body.to_owned()).unwrap()
        };
        let send = async |request: Request<String>| {
            router.clone().oneshot(request.map(Body::from)).await.unwrap().status()
        };
        let record = sandbox.record("orders", "k").request(&request("k", body));
        record.pending(MINUTE).await.unwrap();
        assert_eq!(send(request("k", body)).await, 409);
        assert_eq!(send(request("k", "[]")).await, 422);
        record.abandoned().await.unwrap();
        assert_eq!(send(request("k", "[]")).await, 422);
        assert_eq!(send(request("k", body)).await, 200);
    }
}

/// The fingerprint of an HTTP request or a message is the crate's own affair.
#[tokio::test]
async fn a_record_that_is_there_keeps_its_request() {
    let sandbox = Sandbox::start().await.unwrap();
    let idempotency = sandbox.idempotency();
    pay(&idempotency, 1200).await.unwrap();
    let record = sandbox.record("charge", "k");
    record.pending(MINUTE).await.unwrap();
    assert!(is_in_progress(pay(&idempotency, 1200).await));
    record.abandoned().await.unwrap();
    pay(&idempotency, 1200).await.unwrap();
    assert_eq!(record.read().await.unwrap().unwrap().attempt, 2);
    let other = record.fingerprint(Fingerprint::of(&1300).unwrap());
    other.pending(MINUTE).await.unwrap();
    assert_eq!(kind(pay(&idempotency, 1200).await), ErrorKind::Mismatch);
}

#[tokio::test]
async fn leases_and_retentions_end_by_its_clock() {
    let sandbox = Sandbox::start().await.unwrap();
    let runs = Runs::default();
    let idempotency = sandbox.idempotency();
    let record = sandbox.record("charge", "k");
    record.pending(MINUTE).await.unwrap();
    sandbox.clock().advance(Duration::from_secs(40));
    assert!(is_in_progress(charge(idempotency.charging(), &runs).await));
    sandbox.clock().advance(Duration::from_millis(30_500));
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(1, 2));
    sandbox.clock().advance(Duration::from_secs(25 * 3600));
    assert_eq!(charge(idempotency.charging(), &runs).await.unwrap(), executed(2, 1));
}

/// A moved sandbox clock is not wrong, so no timestamp is corrected.
#[tokio::test]
async fn callers_and_store_agree_on_its_clock() {
    let sandbox = Sandbox::start().await.unwrap();
    let idempotency = sandbox.builder().policy(|p| p.lease(Lease::Fixed(MINUTE))).build().unwrap();
    sandbox.clock().advance(Duration::from_secs(7 * 24 * 3600));
    let run = idempotency
        .charging()
        .run(async |execution| Ok::<_, Infallible>(execution.lease_remaining() <= MINUTE));
    assert!(run.await.unwrap());
    let record = sandbox.record("charge", "k").read().await.unwrap().unwrap();
    let age = sandbox.clock().now().duration_since(record.created_at).unwrap();
    assert!(age < Duration::from_secs(3600), "{age:?}");
}

#[tokio::test]
async fn sandboxes_know_nothing_of_each_other() {
    let (one, other) = (Sandbox::start().await.unwrap(), Sandbox::start().await.unwrap());
    one.record("charge", "k").pending(MINUTE).await.unwrap();
    assert!(other.record("charge", "k").read().await.unwrap().is_none());
}

#[tokio::test]
async fn what_cannot_be_is_an_error() {
    let sandbox = Sandbox::start().await.unwrap();
    let nothing = sandbox.record("charge", "k").expired().await.unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::InvalidInput);
    let no_key = sandbox.record("charge", "").pending(MINUTE).await.unwrap_err();
    assert_eq!(no_key.kind(), ErrorKind::InvalidInput);
    let no_json = std::collections::HashMap::from([((1, 2), 3)]);
    let payload = sandbox.record("charge", "k").payload(&no_json).pending(MINUTE).await;
    assert_eq!(payload.unwrap_err().kind(), ErrorKind::InvalidInput);
    let step = sandbox.record("charge", "k").step("a", &no_json).pending(MINUTE).await;
    assert_eq!(step.unwrap_err().kind(), ErrorKind::InvalidInput);
    let error = sandbox.record("charge", "k").failed_with(&no_json).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
    let colliding = TableSchema::default().partition_key("status");
    assert_eq!(Sandbox::with_schema(colliding).await.unwrap_err().kind(), ErrorKind::Configuration);
}

/// A sandbox without the codec can still change the state of such records.
#[tokio::test]
async fn records_of_a_codec_are_met_as_any_others() {
    let sandbox = Sandbox::start().await.unwrap();
    let builder = sandbox.builder().answer_codec(crate::answer_codec::Mask::default());
    let idempotency = builder.build().unwrap();
    let record = sandbox.record("charge", "k").payload(&1200);
    assert_eq!(pay(&idempotency, 1200).await.unwrap(), Outcome::Executed(1200));
    assert_eq!(pay(&idempotency, 1200).await.unwrap(), Outcome::Replayed(1200));
    let StoredState::Completed { answer, .. } = record.read().await.unwrap().unwrap().state else {
        panic!("it is done");
    };
    assert!(matches!(answer, StoredAnswer::Encoded { .. }), "{answer:?}");
    record.expired().await.unwrap();
    assert_eq!(pay(&idempotency, 1300).await.unwrap(), Outcome::Executed(1300));
    record.completed(&7).await.unwrap();
    assert_eq!(pay(&idempotency, 1200).await.unwrap(), Outcome::Replayed(7));
}

#[tokio::test]
async fn a_clock_advances_by_at_most_a_thousand_years() {
    let sandbox = Sandbox::start().await.unwrap();
    let runs = Runs::default();
    charge(sandbox.idempotency().charging(), &runs).await.unwrap();
    for _ in 0..2 {
        sandbox.clock().advance(Duration::from_secs(u64::MAX));
        sandbox.clock().advance(Duration::MAX);
    }
    // The retention is over.
    assert_eq!(charge(sandbox.idempotency().charging(), &runs).await.unwrap(), executed(2, 1));
    assert!(sandbox.record("charge", "k").read().await.unwrap().is_some());
}

#[tokio::test]
async fn a_tables_arn_is_refused_with_a_sentence() {
    let sandbox = Sandbox::start().await.unwrap();
    let arn = format!("arn:aws:dynamodb:us-east-1:000000000000:table/{}", sandbox.table());
    let idempotency = Idempotency::builder(sandbox.client(), arn).enabled().build().unwrap();
    let runs = Runs::default();
    let called = charge(idempotency.charging(), &runs).await;
    let called = called.unwrap_err().into_handler().unwrap_err();
    for error in [called, idempotency.create_table().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains("use the table's name if this is not AWS"), "{error}");
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_step_that_no_handler_can_have_is_refused() {
    let sandbox = Sandbox::start().await.unwrap();
    let record = || sandbox.record("order", "k");
    let large = "x".repeat(300_000);
    for (record, reason) in [
        (record().step("", "ch_1"), "1 to 255 bytes"),
        (record().step("charge~sent~1", "ch_1"), "~sent~"),
        (record().step("charge", "ch_1").step("charge", "ch_2"), "twice"),
        (record().step("charge", &large), "256 KiB"),
    ] {
        let error = record.abandoned().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert!(record().read().await.unwrap().is_none());
}
