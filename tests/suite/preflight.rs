//! The start of a process reports what is wrong with a deployment, all at once, each with its fix,
//! and sends item requests only.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use dynamodb_idempotency::policy::Outage;
use dynamodb_idempotency::{
    ErrorKind, Finding, Idempotency, Scope, Severity, TableSchema, Transaction,
};

use crate::support::raw::{self, s, with};
use crate::support::{Act, Charging, Gate, Link, Store, caller_on};

const DENIED: Act = Act::Answer(400, "AccessDeniedException");

/// The findings of a preflight that lets the function go on, all but the good ones.
async fn warnings(idempotency: &Idempotency) -> Vec<Finding> {
    let mut findings = idempotency.preflight(["payments"]).await.unwrap();
    findings.retain(|finding| finding.severity != Severity::Ok);
    assert!(findings.iter().all(|finding| finding.severity == Severity::Warning), "{findings:?}");
    findings
}

/// What a preflight says that stops the function.
async fn stopped(idempotency: &Idempotency) -> String {
    let error = idempotency.preflight(["payments"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    let message = error.to_string();
    assert!(!message.contains('\n'), "one line: {message}");
    message
}

#[tokio::test]
async fn a_right_deployment_is_all_ok() {
    for schema in [
        TableSchema::default(),
        TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK").ttl_attribute("ttl"),
    ] {
        let (store, link) = (Store::with_schema(schema).await, Link::default());
        let findings = store.over(&link).preflight(["payments", "transfers"]).await.unwrap();
        let subjects: Vec<&str> = findings.iter().map(|finding| finding.subject.as_str()).collect();
        assert_eq!(subjects, ["records of payments", "records of transfers"]);
        assert!(findings.iter().all(|finding| finding.severity == Severity::Ok), "{findings:?}");
        assert_eq!(link.wire.requests().len(), 10);
    }
}

/// DynamoDB allows an account ten `DescribeTimeToLive` requests a second.
#[tokio::test]
async fn a_start_sends_item_requests_only() {
    let (_store, link, _, idempotency) = caller_on(Link::default()).await;
    idempotency.preflight(["payments", "transfers"]).await.unwrap();
    idempotency.preflight([""; 0]).await.unwrap();
    idempotency.warm().await.unwrap();
    for request in link.wire.requests() {
        assert!(["GetItem", "PutItem", "UpdateItem"].contains(&request.as_str()), "{request}");
    }
}

#[tokio::test]
async fn without_a_scope_one_read_is_sent_and_a_warning_says_what_is_not_checked() {
    for answer in [None, Some(DENIED), Some(Act::THROTTLE)] {
        let (store, link) = (Store::open().await, Link::without_retries());
        if let Some(answer) = answer {
            link.wire.every("GetItem", answer);
        }
        let findings = store.over(&link).preflight([""; 0]).await.unwrap();
        let [warning] = &findings[..] else { panic!("one warning: {findings:?}") };
        assert!(warning.to_string().contains("name the scopes"), "{warning}");
        assert_eq!(link.wire.requests(), ["GetItem"]);
    }
    let missing = Store::without_table(TableSchema::default()).await;
    let error = missing.idempotency().preflight([""; 0]).await.unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
}

#[tokio::test]
async fn warming_up_takes_one_request_whatever_its_answer() {
    for answer in [None, Some(DENIED), Some(Act::Answer(400, "ThrottlingException"))] {
        let (store, link) = (Store::open().await, Link::without_retries());
        if let Some(answer) = answer {
            link.wire.every("GetItem", answer);
        }
        store.over(&link).warm().await.unwrap();
        assert_eq!(link.wire.requests(), ["GetItem"]);
    }
}

#[tokio::test]
async fn warming_up_reports_why_the_connection_cannot_be_opened() {
    let missing = Store::without_table(TableSchema::default()).await;
    let error = missing.idempotency().warm().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");

    let (store, link) = (Store::open().await, Link::without_retries());
    link.wire.down(Act::Answer(500, "InternalServerError"));
    let error = store.over(&link).warm().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");

    let off = store.builder(&link).disabled().build().unwrap();
    off.warm().await.unwrap();
}

#[tokio::test]
async fn any_number_of_scopes_takes_one_round_trip() {
    let (_store, link, _, idempotency) = caller_on(Link::default()).await;
    let answers = Gate::default();
    for operation in ["GetItem", "PutItem", "UpdateItem"] {
        link.wire.every(operation, Act::HoldResponse(answers.clone()));
    }
    let preflight = async { idempotency.preflight(["payments", "transfers"]).await };
    let round_trip = async {
        // Records by three kinds of requests, parts by two; each answer waits for all to be sent.
        answers.reached_by(10).await;
        answers.open();
    };
    let (findings, ()) = tokio::join!(preflight, round_trip);
    assert_eq!(findings.unwrap().len(), 2);
    assert_eq!(link.wire.requests().len(), 10);
}

#[tokio::test]
async fn nothing_is_written_whatever_lies_under_the_key_that_is_tried() {
    let (store, link) = (Store::open().await, Link::default());
    warnings(&store.over(&link)).await;
    let scan = store.raw.scan().table_name(store.table()).send().await.unwrap();
    assert_eq!(scan.items(), []);

    let foreign = with(raw::pending("payments#"), "note", s("not ours"));
    store.put(foreign.clone()).await;
    store.idempotency().preflight(["payments"]).await.unwrap();
    assert_eq!(store.record("payments#").await, foreign);
}

#[tokio::test]
async fn a_missing_table_is_reported_once() {
    let store = Store::without_table(TableSchema::default()).await;
    let preflight = store.idempotency().preflight(["payments", "transfers"]).await;
    let message = preflight.unwrap_err().to_string();
    let table = format!("table `{}` does not exist", store.table());
    assert!(message.contains(&table) && message.contains("create it"), "{message}");
    assert_eq!(message.matches("create it").count(), 1, "{message}");
    let place = format!("region (us-east-1, {})", store.endpoint());
    assert!(message.contains(&place), "{message}");
}

#[tokio::test]
async fn a_table_that_a_transaction_does_not_find_is_reported_with_its_place() {
    let store = Store::without_table(TableSchema::default()).await;
    let order = store.idempotency().calling("orders");
    let build = async || Ok::<_, std::io::Error>(Transaction::new(1));
    let error = order.run_transaction(build).await.unwrap_err().to_string();
    let place = format!("region (us-east-1, {})", store.endpoint());
    assert!(error.contains(store.table()) && error.contains(&place), "{error}");
}

#[tokio::test]
async fn other_keys_are_reported() {
    for schema in [
        TableSchema::default().partition_key("id"),
        TableSchema::default().composite_key("pk", "IDEMPOTENCY", "id"),
    ] {
        let store = Store::with_schema(schema).await;
        let idempotency = Idempotency::new(store.client(&Link::default()), store.table());
        assert!(stopped(&idempotency).await.contains("compare its key attributes"));
        let error = idempotency.warm().await.unwrap_err();
        assert!(error.to_string().contains("compare its key attributes"), "{error}");
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_reported() {
    let store = Store::without_table(TableSchema::default()).await;
    let attribute = AttributeDefinition::builder()
        .attribute_name("pk")
        .attribute_type(ScalarAttributeType::N)
        .build()
        .unwrap();
    let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build();
    let create = store.raw.create_table().table_name(store.table());
    let create = create.attribute_definitions(attribute).key_schema(key.unwrap());
    create.billing_mode(BillingMode::PayPerRequest).send().await.unwrap();
    assert!(stopped(&store.idempotency()).await.contains("compare its key attributes"));
    let error = store.idempotency().create_table().await.unwrap_err();
    assert!(error.to_string().contains("`pk` (HASH, N)"), "{error}");
}

/// All that is missing is reported at once, and nothing else.
#[tokio::test]
async fn missing_permissions_on_records_are_reported_together() {
    let store = Store::open().await;
    for denied in
        [&["GetItem"][..], &["PutItem"], &["UpdateItem"], &["GetItem", "PutItem", "UpdateItem"]]
    {
        let link = Link::default();
        for &operation in denied {
            link.wire.every(operation, DENIED);
        }
        let message = stopped(&store.over(&link)).await;
        for operation in ["GetItem", "PutItem", "UpdateItem"] {
            let names_operation = message.contains(&format!("dynamodb:{operation}"));
            assert_eq!(names_operation, denied.contains(&operation), "{message}");
        }
        assert!(message.contains("`payments#*`") && message.contains("as the test requested"));
    }
}

/// A role whose leading keys admit the records of a scope, and not what lies below it.
#[tokio::test]
async fn parts_that_may_not_be_written_are_reported() {
    let (store, link) = (Store::open().await, Link::default());
    link.wire.next("PutItem", Act::Deliver);
    link.wire.next("PutItem", DENIED);
    let message = stopped(&store.over(&link)).await;
    assert!(message.contains("dynamodb:PutItem on parts of answers of `payments`"), "{message}");
    assert!(message.contains("`payments/*#*`") && !message.contains("on records"), "{message}");
}

#[tokio::test]
async fn every_scope_that_is_denied_is_reported() {
    let (store, link) = (Store::open().await, Link::default());
    link.wire.every("PutItem", DENIED);
    let preflight = store.over(&link).preflight(["payments", "transfers"]).await;
    let message = preflight.unwrap_err().to_string();
    assert!(message.contains("`payments#*`") && message.contains("`transfers#*`"), "{message}");
}

/// `Outage::Open` would otherwise start without a permission that it needs.
#[tokio::test]
async fn a_denied_access_counts_although_another_request_gets_no_response() {
    let (store, link) = (Store::open().await, Link::without_retries());
    link.wire.every("PutItem", DENIED);
    link.wire.every("UpdateItem", Act::LoseRequest);
    let open = store.builder(&link).policy(|policy| policy.outage(Outage::Open));
    let preflight = open.build().unwrap().preflight(["payments", "transfers"]).await;
    let error = preflight.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("dynamodb:PutItem on records of `payments`"), "{error}");
}

#[tokio::test]
async fn a_throttled_table_is_a_warning() {
    let (store, link) = (Store::open().await, Link::default());
    link.wire.every("PutItem", Act::THROTTLE);
    let [warning] = &warnings(&store.over(&link)).await[..] else { panic!("one warning") };
    assert!(warning.detail.contains("cannot be checked now"), "{warning}");
}

#[tokio::test]
async fn a_silent_store_is_treated_as_the_policy_treats_an_outage() {
    let store = Store::open().await;
    for scopes in [&[][..], &["payments"]] {
        for act in [Act::LoseRequest, Act::SERVER_ERROR] {
            let link = Link::without_retries();
            link.wire.down(act);
            let preflight = async |idempotency: Idempotency| {
                idempotency.preflight(scopes.iter().copied()).await
            };
            let error = preflight(store.over(&link)).await.unwrap_err();
            assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true));
            // Every request is sent at once, so a start does not wait for each of them.
            let requests = if scopes.is_empty() { 1 } else { 5 };
            assert_eq!(link.wire.requests().len(), requests, "{:?}", link.wire.requests());
            let open = store.builder(&link).policy(|policy| policy.outage(Outage::Open));
            let findings = preflight(open.build().unwrap()).await.unwrap();
            let [warning] = &findings[..] else { panic!("one warning: {findings:?}") };
            assert_eq!((&*warning.subject, warning.severity), ("connection", Severity::Warning));
        }
    }
}

#[tokio::test]
async fn a_store_that_falls_silent_between_the_calls_is_silent() {
    let (store, link) = (Store::open().await, Link::without_retries());
    link.wire.every("UpdateItem", Act::LoseRequest);
    let error = store.over(&link).preflight(["payments"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_scope_without_a_name_is_refused() {
    let store = Store::open().await;
    let error = store.idempotency().preflight([Scope::new("")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("name the operation"), "{error}");
}
