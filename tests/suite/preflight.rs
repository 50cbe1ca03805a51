//! What is wrong with a deployment is told at the function's start, all at once, and each with its
//! fix; and what is right is left alone.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use dynamodb_idempotency::{
    Attribute, ErrorKind, Finding, Idempotency, Outage, Scope, TableSchema, Verdict,
};

use crate::support::raw::{self, s, with};
use crate::support::{Act, Gate, Link, Store};

const DENIED: Act = Act::Answer(400, "AccessDeniedException");

/// The findings of a preflight that lets the function go on, all but the good ones.
async fn warnings(idempotency: &Idempotency) -> Vec<Finding> {
    let mut findings = idempotency.preflight(["payments"]).await.unwrap();
    findings.retain(|finding| finding.verdict != Verdict::Ok);
    assert!(findings.iter().all(|finding| finding.verdict == Verdict::Warning), "{findings:?}");
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
        TableSchema::default()
            .composite_key("PK", "IDEMPOTENCY", "SK")
            .attribute(Attribute::ExpiresAt, "ttl"),
    ] {
        let (store, link) = (Store::with_schema(schema).await, Link::default());
        let idempotency = store.over(&link);
        let findings = idempotency.preflight(["payments", "transfers"]).await.unwrap();
        let subjects: Vec<&str> = findings.iter().map(|finding| finding.subject.as_str()).collect();
        let expected =
            ["table", "keys", "time to live", "records of payments", "records of transfers"];
        assert_eq!(subjects, expected);
        assert!(findings.iter().all(|finding| finding.verdict == Verdict::Ok), "{findings:?}");
        assert_eq!(link.wire.requests().len(), 12);
    }
}

#[tokio::test]
async fn without_a_scope_it_costs_two_calls() {
    let (store, link) = (Store::open().await, Link::default());
    store.over(&link).preflight([""; 0]).await.unwrap();
    assert_eq!(link.wire.requests(), ["DescribeTable", "DescribeTimeToLive"]);
}

#[tokio::test]
async fn to_warm_up_takes_one_request_whatever_its_answer() {
    for answer in [None, Some(DENIED), Some(Act::Answer(400, "ThrottlingException"))] {
        let (store, link) = (Store::open().await, Link::without_retries());
        if let Some(answer) = answer {
            link.wire.every("DescribeTable", answer);
        }
        store.over(&link).warm().await.unwrap();
        assert_eq!(link.wire.requests(), ["DescribeTable"]);
    }
}

#[tokio::test]
async fn what_keeps_the_connection_closed_is_told_by_warming_up() {
    let missing = Store::without_table(TableSchema::default()).await;
    let error = missing.idempotency().warm().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");

    let (store, link) = (Store::open().await, Link::without_retries());
    link.wire.down(Act::Answer(500, "InternalServerError"));
    let error = store.over(&link).warm().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");

    let off = store.builder(&link).disabled(true).build().unwrap();
    off.warm().await.unwrap();
}

#[tokio::test]
async fn however_many_scopes_it_takes_two_round_trips() {
    let (store, link) = (Store::open().await, Link::default());
    let (table, access) = (Gate::default(), Gate::default());
    for operation in ["DescribeTable", "DescribeTimeToLive"] {
        link.wire.every(operation, Act::HoldResponse(table.clone()));
    }
    for operation in ["GetItem", "PutItem", "UpdateItem"] {
        link.wire.every(operation, Act::HoldResponse(access.clone()));
    }
    let idempotency = store.over(&link);
    let preflight = async { idempotency.preflight(["payments", "transfers"]).await };
    let round_trips = async {
        table.reached_by(2).await;
        table.open();
        // Records by three kinds of requests, parts by two; each answer waits for all to be sent.
        access.reached_by(10).await;
        access.open();
    };
    let (findings, ()) = tokio::join!(preflight, round_trips);
    assert_eq!(findings.unwrap().len(), 5);
    assert_eq!(link.wire.requests().len(), 12);
}

#[tokio::test]
async fn nothing_is_written_whatever_lies_under_the_key_that_is_tried() {
    let (store, link) = (Store::open().await, Link::default());
    warnings(&store.over(&link)).await;
    let scan = store.raw.scan().table_name(store.table()).send().await.unwrap();
    assert_eq!(scan.items(), []);

    let somebodys = with(raw::pending("payments#"), "note", s("not ours"));
    store.put(somebodys.clone()).await;
    store.idempotency().preflight(["payments"]).await.unwrap();
    assert_eq!(store.record("payments#").await, somebodys);
}

#[tokio::test]
async fn a_missing_table_is_told_by_what_may_be_asked() {
    for may_describe in [true, false] {
        let store = Store::without_table(TableSchema::default()).await;
        let link = Link::default();
        if !may_describe {
            link.wire.every("DescribeTable", DENIED);
        }
        let message = stopped(&store.over(&link)).await;
        let table = format!("no table `{}`", store.table());
        assert!(message.contains(&table) && message.contains("create it"), "{message}");
    }
}

#[tokio::test]
async fn other_keys_are_told_with_both_their_names() {
    for schema in [
        TableSchema::default().partition_key("id"),
        TableSchema::default().composite_key("pk", "IDEMPOTENCY", "id"),
    ] {
        let store = Store::with_schema(schema).await;
        let idempotency = Idempotency::new(store.client(&Link::default()), store.table());
        let message = stopped(&idempotency).await;
        for part in ["`id` (", "says `pk` (HASH, S)", "TableSchema::partition_key"] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_told() {
    let store = Store::without_table(TableSchema::default()).await;
    let attribute = AttributeDefinition::builder()
        .attribute_name("pk")
        .attribute_type(ScalarAttributeType::N)
        .build()
        .unwrap();
    make_table(&store, attribute).await;
    let message = stopped(&store.idempotency()).await;
    assert!(message.contains("`pk` (HASH, N)"), "{message}");
    let error = store.idempotency().create_table().await.unwrap_err();
    assert!(error.to_string().contains("`pk` (HASH, N)"), "{error}");
}

/// A table without a time to live.
async fn make_table(store: &Store, attribute: AttributeDefinition) {
    let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build();
    let create = store.raw.create_table().table_name(store.table());
    let create = create.attribute_definitions(attribute).key_schema(key.unwrap());
    create.billing_mode(BillingMode::PayPerRequest).send().await.unwrap();
}

#[tokio::test]
async fn a_time_to_live_that_is_off_is_a_warning() {
    let store = Store::without_table(TableSchema::default()).await;
    let attribute = AttributeDefinition::builder()
        .attribute_name("pk")
        .attribute_type(ScalarAttributeType::S)
        .build()
        .unwrap();
    make_table(&store, attribute).await;
    let [warning] = &warnings(&store.idempotency()).await[..] else { panic!("one warning") };
    assert_eq!(warning.subject, "time to live");
    assert!(warning.detail.contains("is off"), "{warning}");
    assert!(warning.fix.as_ref().unwrap().contains("`expires_at`"), "{warning}");
}

#[tokio::test]
async fn a_time_to_live_on_another_attribute_is_a_warning() {
    let store =
        Store::with_schema(TableSchema::default().attribute(Attribute::ExpiresAt, "ttl")).await;
    let idempotency = Idempotency::new(store.client(&Link::default()), store.table());
    let [warning] = &warnings(&idempotency).await[..] else { panic!("one warning") };
    assert_eq!(warning.subject, "time to live");
    assert!(warning.detail.contains("on `ttl`"), "{warning}");
    assert!(warning.fix.as_ref().unwrap().contains("`expires_at`"), "{warning}");
}

/// All that is missing is told at once, and nothing else.
#[tokio::test]
async fn missing_permissions_on_records_are_told_together() {
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
            let is_told = message.contains(&format!("dynamodb:{operation}"));
            assert_eq!(is_told, denied.contains(&operation), "{message}");
        }
        assert!(message.contains("`payments#*`") && message.contains("as the test told"));
    }
}

/// A role whose leading keys admit the records of a scope, and not what lies below it.
#[tokio::test]
async fn parts_that_may_not_be_written_are_told() {
    let (store, link) = (Store::open().await, Link::default());
    link.wire.next("PutItem", Act::Deliver);
    link.wire.next("PutItem", DENIED);
    let message = stopped(&store.over(&link)).await;
    assert!(message.contains("dynamodb:PutItem on parts of answers of `payments`"), "{message}");
    assert!(message.contains("`payments/*#*`") && !message.contains("on records"), "{message}");
}

#[tokio::test]
async fn every_scope_that_is_denied_is_told() {
    let (store, link) = (Store::open().await, Link::default());
    link.wire.every("PutItem", DENIED);
    let preflight = store.over(&link).preflight(["payments", "transfers"]).await;
    let message = preflight.unwrap_err().to_string();
    assert!(message.contains("`payments#*`") && message.contains("`transfers#*`"), "{message}");
}

#[tokio::test]
async fn what_may_not_be_described_is_a_warning_with_the_action_to_grant() {
    let store = Store::open().await;
    for (operation, subject) in [("DescribeTable", "table"), ("DescribeTimeToLive", "time to live")]
    {
        let link = Link::default();
        link.wire.every(operation, DENIED);
        let [warning] = &warnings(&store.over(&link)).await[..] else { panic!("one warning") };
        assert_eq!(warning.subject, subject);
        let fix = warning.fix.as_ref().unwrap();
        assert!(fix.contains(&format!("grant dynamodb:{operation}")), "{warning}");
    }
}

/// A thousand functions that start at once are more than the control plane takes.
#[tokio::test]
async fn a_control_plane_that_is_out_of_reach_stops_no_function() {
    let store = Store::open().await;
    for act in [Act::THROTTLE, Act::SERVER_ERROR, Act::LoseRequest] {
        for operation in ["DescribeTable", "DescribeTimeToLive"] {
            let link = Link::default();
            link.wire.every(operation, act.clone());
            let [warning] = &warnings(&store.over(&link)).await[..] else { panic!("one warning") };
            assert!(warning.detail.contains("cannot be checked now"), "{warning}");
        }
    }
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
            // A start does not wait for each of them: what is asked at once is silent at once.
            let requests = 2 + 5 * scopes.len();
            assert_eq!(link.wire.requests().len(), requests, "{:?}", link.wire.requests());
            let open = store.builder(&link).policy(|policy| policy.outage(Outage::Open));
            let findings = preflight(open.build().unwrap()).await.unwrap();
            let [warning] = &findings[..] else { panic!("one warning: {findings:?}") };
            assert_eq!((&*warning.subject, warning.verdict), ("connection", Verdict::Warning));
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
