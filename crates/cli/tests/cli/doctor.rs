//! `idempotency doctor` and `idempotency create-table`

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ProvisionedThroughput,
    ScalarAttributeType,
};
use dynamodb_idempotency::TableSchema;
use serde_json::{Value, json};

use dynamodb_idempotency::Policy;
use dynamodb_idempotency::policy::{Compression, LargeAnswers};

use crate::support::{Store, completed, map, n, s, with};

fn of<'a>(findings: &'a Value, subject: &str) -> &'a Value {
    let mut findings = findings["findings"].as_array().unwrap().iter();
    findings.find(|one| one["subject"] == subject).unwrap_or_else(|| panic!("{subject}"))
}

#[tokio::test]
async fn the_table_that_create_table_makes_is_well() {
    let store = Store::without_table().await;
    let created = json!({"schema": 1, "created": true, "table": store.table});
    assert_eq!(store.json(&["create-table"]).await, created);
    let again = store.run(&["create-table"]).await;
    assert_eq!(again.code, 0, "{again:?}");

    let findings = store.json(&["doctor", "--scope", "payments", "--scope", "refunds/v2"]).await;
    let well = [
        "table",
        "keys",
        "time to live",
        "records of payments",
        "records of refunds/v2",
        "billing",
        "replicas",
        "sample",
        "latency",
        "clock",
    ];
    for subject in well {
        assert_eq!(of(&findings, subject)["severity"], "ok", "{findings}");
    }
    // No engine for tests protects its tables, or backs them up.
    for subject in ["deletion protection", "backups"] {
        assert_eq!(of(&findings, subject)["severity"], "warning", "{findings}");
        assert!(of(&findings, subject)["detail"].is_string());
    }
    assert_eq!(store.items().await, []);

    let text = store.run(&["doctor", "--scope", "payments"]).await;
    assert_eq!(text.code, 0, "{text:?}");
    assert!(text.out.contains("ok       keys: its key is `pk` (HASH, S)"), "{text:?}");
    let strict = store.run(&["doctor", "--scope", "payments", "--strict"]).await;
    assert_eq!((strict.code, strict.err.as_str()), (1, ""), "{strict:?}");
}

/// So that a mistyped name is noticed.
#[tokio::test]
async fn create_table_says_whether_the_table_is_new() {
    let store = Store::without_table().await;
    let name = format!("table `{}`", store.table);
    let new = store.run(&["create-table"]).await;
    let said = format!("a NEW, empty {name} was created");
    assert!(new.code == 0 && new.out.starts_with(&said), "{new:?}");
    let again = store.run(&["create-table"]).await;
    assert!(again.out.starts_with(&format!("{name} exists already")), "{again:?}");
    assert!(!again.out.contains("NEW"), "{again:?}");
}

#[tokio::test]
async fn missing_scopes_are_reported() {
    let store = Store::open().await;
    let findings = store.json(&["doctor"]).await;
    assert_eq!(of(&findings, "records")["severity"], "warning");
}

/// A wrong partition key is an error with a fix, and the other findings are still reported.
#[tokio::test]
async fn a_wrong_table_is_an_error_for_pipelines() {
    let store = Store::with_schema(TableSchema::default().partition_key("id")).await;
    let sick = store.run(&["--json", "doctor", "--scope", "payments"]).await;
    assert_eq!(sick.code, 1, "{sick:?}");
    let findings = sick.json();
    let keys = of(&findings, "keys");
    assert_eq!(keys["severity"], "error");
    assert!(keys["detail"].as_str().unwrap().contains("`id` (HASH, S)"), "{keys}");
    assert!(keys["fix"].as_str().unwrap().contains("TableSchema"), "{keys}");
    assert_eq!(of(&findings, "billing")["severity"], "ok");
    let right = store.json(&["doctor", "--partition-key", "id"]).await;
    assert_eq!(of(&right, "keys")["severity"], "ok");
}

#[tokio::test]
async fn no_table_is_an_error_for_pipelines() {
    let store = Store::without_table().await;
    let sick = store.run(&["doctor"]).await;
    assert_eq!((sick.code, sick.err.as_str()), (1, ""), "{sick:?}");
    assert!(sick.out.contains("error") && sick.out.contains("create it"), "{sick:?}");
}

#[tokio::test]
async fn an_unreachable_endpoint_fails_a_pipeline() {
    let store = Store { endpoint: "http://127.0.0.1:9".to_owned(), ..Store::without_table().await };
    let sick = store.run(&["--json", "doctor", "--scope", "payments"]).await;
    assert_eq!(sick.code, 6, "{sick:?}");
    let findings = sick.json();
    assert_eq!(findings["findings"].as_array().map(Vec::len), Some(1), "{findings}");
    let connection = of(&findings, "connection");
    assert_eq!(connection["severity"], "error");
    // With its causes.
    assert!(connection["detail"].as_str().unwrap().contains("refused"), "{connection}");
}

/// The table is described, and requests for records fail.
#[tokio::test]
async fn a_store_that_fails_is_an_error_after_the_settings() {
    let store = Store::open().await;
    let failing = store.failing("GetItem", 500, "InternalServerError").await;
    let sick = failing.run(&["--json", "doctor", "--scope", "payments"]).await;
    assert_eq!(sick.code, 6, "{sick:?}");
    for (subject, severity) in [("keys", "ok"), ("billing", "ok"), ("connection", "error")] {
        assert_eq!(of(&sick.json(), subject)["severity"], severity, "{sick:?}");
    }
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_a_warning() {
    let store = Store::open().await;
    for (seconds, words) in [(600, "s behind DynamoDB's"), (-600, "s ahead of DynamoDB's")] {
        let findings = store.ahead(seconds).await.json(&["doctor"]).await;
        let clock = of(&findings, "clock");
        assert_eq!(clock["severity"], "warning", "{clock}");
        assert!(clock["detail"].as_str().unwrap().contains(words), "{clock}");
    }
}

#[tokio::test]
async fn responses_without_a_date_fail_a_pipeline() {
    let store = Store::open().await.undated().await;
    for scope in [&[][..], &["--scope", "payments"]] {
        let sick = store.run(&[&["--json", "doctor"], scope].concat()).await;
        assert_eq!(sick.code, 1, "{sick:?}");
        let findings = sick.json();
        let time = of(&findings, "time");
        assert_eq!(time["severity"], "error", "{time}");
        assert!(time["detail"].as_str().unwrap().contains("no `Date` header"), "{time}");
        assert!(time["fix"].as_str().unwrap().contains("local_store_time()"), "{time}");
    }
}

#[tokio::test]
async fn a_time_to_live_on_another_attribute_is_a_warning() {
    let schema = TableSchema::default().ttl_attribute("ttl");
    let store = Store::with_schema(schema).await;
    let findings = store.json(&["doctor"]).await;
    let ttl = of(&findings, "time to live");
    assert_eq!(ttl["severity"], "warning", "{ttl}");
    assert!(ttl["detail"].as_str().unwrap().contains("on for `ttl`"), "{ttl}");
    assert!(ttl["fix"].as_str().unwrap().contains("`expires_at`"), "{ttl}");
    let right = store.json(&["doctor", "--ttl-attribute", "ttl"]).await;
    assert_eq!(of(&right, "time to live")["severity"], "ok", "{right}");
}

#[tokio::test]
async fn a_description_that_is_missing_is_a_warning_and_names_the_action() {
    let store = Store::open().await;
    for (operation, subject) in [
        ("DescribeTable", "table"),
        ("DescribeTimeToLive", "time to live"),
        ("DescribeContinuousBackups", "backups"),
    ] {
        let grant = format!("grant dynamodb:{operation}");
        for (status, error, words) in [
            (400, "AccessDeniedException", grant.as_str()),
            (400, "ThrottlingException", "cannot be checked now"),
            (500, "InternalServerError", "cannot be checked now"),
        ] {
            let failing = store.failing(operation, status, error).await;
            let findings = failing.json(&["doctor", "--scope", "payments"]).await;
            let described = of(&findings, subject);
            assert_eq!(described["severity"], "warning", "{described}");
            assert!(described.to_string().contains(words), "{described}");
            assert_eq!(of(&findings, "records of payments")["severity"], "ok", "{findings}");
        }
    }
}

/// What does not need the description is checked, and the rest is named.
#[tokio::test]
async fn a_table_that_may_not_be_described_is_checked_as_far_as_possible() {
    let store = Store::open().await;
    store.put(completed("payments#k")).await;
    let denied = store.failing("DescribeTable", 400, "AccessDeniedException").await;
    let findings = denied.json(&["doctor"]).await;
    let detail = of(&findings, "table")["detail"].as_str().unwrap();
    for unchecked in ["status", "keys", "billing", "deletion protection", "replicas", "restore"] {
        assert!(detail.contains(unchecked), "{detail}");
    }
    for (subject, severity) in [
        ("time to live", "ok"),
        ("backups", "warning"),
        ("sample", "ok"),
        ("latency", "ok"),
        ("clock", "ok"),
    ] {
        assert_eq!(of(&findings, subject)["severity"], severity, "{findings}");
    }
    assert_eq!(denied.run(&["doctor", "--strict"]).await.code, 1);
}

#[tokio::test]
async fn settings_that_cost_requests_are_warnings() {
    let store = Store::without_table().await;
    let attribute = AttributeDefinition::builder()
        .attribute_name("pk")
        .attribute_type(ScalarAttributeType::S)
        .build();
    let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build();
    let throughput =
        ProvisionedThroughput::builder().read_capacity_units(5).write_capacity_units(5);
    let create = store.client.create_table().table_name(&store.table);
    let create = create.attribute_definitions(attribute.unwrap()).key_schema(key.unwrap());
    let create = create.billing_mode(BillingMode::Provisioned);
    create.provisioned_throughput(throughput.build().unwrap()).send().await.unwrap();
    store.put([("pk".to_owned(), s("foreign"))].into()).await;
    let findings = store.json(&["doctor"]).await;
    for (subject, word) in [("billing", "provisioned"), ("time to live", "is off")] {
        let finding = of(&findings, subject);
        assert_eq!(finding["severity"], "warning", "{finding}");
        assert!(finding["detail"].as_str().unwrap().contains(word), "{finding}");
    }
}

/// The details of the findings about the sample.
fn sampled(findings: &Value) -> Vec<(String, String)> {
    let all = findings["findings"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.filter(|one| one["subject"] == "sample")
        .map(|one| (text(&one["severity"]), text(&one["detail"])))
        .collect()
}

#[tokio::test]
async fn records_that_cannot_be_read_fail_a_pipeline() {
    let store = Store::open().await;
    for number in 0..40 {
        store.put(completed(&format!("payments#{number}"))).await;
    }
    let unavailable = map(&[("unavailable", s("it is too large"))]);
    store.put(with(completed("payments#large"), "response", unavailable)).await;
    store.put([("pk".to_owned(), s("CUSTOMER#1"))].into()).await;
    let well = store.json(&["doctor"]).await;
    let readable =
        ("ok".to_owned(), "41 records of payments can be read; 1 item is no record".to_owned());
    let in_scope = ("ok".to_owned(), "41 records of payments can be read".to_owned());
    assert_eq!(sampled(&well), std::slice::from_ref(&readable), "{well}");

    // As AWS CLI 1 restores them.
    let bytes = |bytes: &[u8]| {
        let blob = aws_sdk_dynamodb::primitives::Blob::new(bytes);
        aws_sdk_dynamodb::types::AttributeValue::B(blob)
    };
    for item in [
        with(completed("refunds#fingerprint"), "fingerprint", bytes(b"AQcHBw==")),
        with(completed("refunds#answer"), "response", bytes(b"AUFBQUFBQUFB")),
        with(completed("refunds#newer"), "format", n(9)),
    ] {
        let pk = item["pk"].as_s().unwrap().clone();
        store.put(item).await;
        let sick = store.run(&["--json", "doctor"]).await;
        assert_eq!(sick.code, 1, "{sick:?}");
        let found = sampled(&sick.json());
        let [(severity, detail)] = &found[..] else { panic!("{found:?}") };
        assert!(
            severity == "error" && detail.contains(&format!("`{pk}` cannot be read")),
            "{detail}"
        );
        // Of the scopes that are named, if some are.
        let scoped = store.json(&["doctor", "--scope", "payments"]).await;
        assert_eq!(sampled(&scoped), std::slice::from_ref(&in_scope), "{scoped}");
        let sick = store.run(&["doctor", "--scope", "payments", "--scope", "refunds"]).await;
        assert_eq!(sick.code, 1, "{sick:?}");
        let key = aws_sdk_dynamodb::types::AttributeValue::S(pk);
        let delete = store.client.delete_item().table_name(&store.table).key("pk", key);
        delete.send().await.unwrap();
    }
    let denying = store.failing("Scan", 400, "AccessDeniedException").await;
    let found = sampled(&denying.json(&["doctor"]).await);
    assert_eq!(found[0].0, "warning", "{found:?}");
}

/// Few records of a large table are of such a scope.
#[tokio::test]
async fn a_rare_scope_is_sampled_too() {
    let store = Store::open().await;
    let numbers: Vec<_> = (0..2000).collect();
    for some in numbers.chunks(50) {
        let puts = some.iter().map(|number| store.put(completed(&format!("payments#{number}"))));
        futures_util::future::join_all(puts).await;
    }
    for scope in ["a", "b", "c", "d", "e", "f"] {
        store.put(with(completed(&format!("{scope}#k")), "format", n(9))).await;
        let ended = store.run(&["--json", "doctor", "--scope", scope]).await;
        assert_eq!(ended.code, 1, "{scope}: {ended:?}");
        assert_eq!(sampled(&ended.json())[0].0, "error", "{scope}: {ended:?}");
    }
    let well = store.json(&["doctor", "--scope", "payments", "--scope", "none"]).await;
    assert!(sampled(&well).iter().all(|(severity, _)| severity == "ok"), "{well}");
}

#[tokio::test]
async fn an_answer_whose_parts_are_missing_cannot_be_read() {
    let store = Store::open().await;
    let in_parts = |policy: Policy| {
        let policy = policy.compression(Compression::Off);
        policy.large_answers(LargeAnswers::InParts { above: 1024 })
    };
    store.done(store.builder().policy(in_parts), "k", &"x".repeat(70_000)).await;
    assert_eq!(sampled(&store.json(&["doctor"]).await)[0].0, "ok");
    for item in store.items().await {
        let pk = item["pk"].clone();
        if pk.as_s().unwrap().contains("/%p/") {
            let delete = store.client.delete_item().table_name(&store.table).key("pk", pk);
            delete.send().await.unwrap();
        }
    }
    let sick = store.run(&["--json", "doctor"]).await;
    assert_eq!((sick.code, sampled(&sick.json())[0].0.as_str()), (1, "error"), "{sick:?}");
}

/// DynamoDB says of a table that it was restored, and from what.
#[tokio::test]
async fn what_a_restore_leaves_out_is_listed() {
    let store = Store::open().await;
    let described = |is_in_progress: bool, is_protected: bool| {
        json!({"Table": {
            "TableName": store.table, "TableStatus": "ACTIVE", "DeletionProtectionEnabled": is_protected,
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
            "RestoreSummary": {
                "SourceTableArn": "arn:aws:dynamodb:eu-west-1:1:table/old",
                "RestoreDateTime": 1_700_000_000, "RestoreInProgress": is_in_progress,
            },
        }})
    };
    let restored = store.answering("DescribeTable", &store.table, &described(false, false)).await;
    let findings = restored.json(&["doctor"]).await;
    let restore = of(&findings, "restore");
    assert_eq!(restore["severity"], "warning");
    let detail = restore["detail"].as_str().unwrap();
    let said = "table/old as of 2023-11-14T22:13:20Z, without: deletion protection, backups";
    assert!(detail.ends_with(said), "{detail}");
    let unseen =
        ["tags", "table policy", "`copy`", "`block`", "completed after 2023-11-14T22:13:20Z"];
    let reminds = |restore: &Value| {
        let fix = restore["fix"].as_str().unwrap().to_owned();
        assert!(unseen.iter().all(|step| fix.contains(step)), "{fix}");
        fix
    };
    assert!(reminds(restore).starts_with("set them (above); "), "{restore}");
    let restoring = store.answering("DescribeTable", &store.table, &described(true, false)).await;
    let sick = restoring.run(&["--json", "doctor"]).await;
    assert_eq!((sick.code, &of(&sick.json(), "restore")["severity"]), (1, &json!("error")));

    // With all its settings it is still not known whether the other steps were done, which is no warning.
    let recovery = json!({"ContinuousBackupsDescription": {
        "ContinuousBackupsStatus": "ENABLED",
        "PointInTimeRecoveryDescription": {
            "PointInTimeRecoveryStatus": "ENABLED", "EarliestRestorableDateTime": 1_700_003_600,
        },
    }});
    let whole = store.answering("DescribeTable", &store.table, &described(false, true)).await;
    let whole = whole.answering("DescribeContinuousBackups", &store.table, &recovery).await;
    let findings = whole.json(&["doctor"]).await;
    let restore = of(&findings, "restore");
    assert_eq!(restore["severity"], "ok", "{findings}");
    let detail = restore["detail"].as_str().unwrap();
    assert!(detail.ends_with("as of 2023-11-14T22:13:20Z and has its settings again"), "{detail}");
    let fix = reminds(restore);
    assert!(
        fix.ends_with("for states before 2023-11-14T23:13:20Z, recover the old table"),
        "{fix}"
    );
}

#[tokio::test]
async fn items_without_a_format_are_found() {
    let store = Store::open().await;
    let bare = [("pk".to_owned(), s("CUSTOMER#1"))].into();
    store.put(bare).await;
    let findings = store.json(&["doctor"]).await;
    let sample = of(&findings, "sample");
    assert_eq!(sample["severity"], "warning", "{sample}");
    let detail = sample["detail"].as_str().unwrap();
    assert!(detail.contains("1 item is none"), "{detail}");

    store.put(completed("payments#k")).await;
    let findings = store.json(&["doctor"]).await;
    let sample = of(&findings, "sample");
    assert_eq!(sample["severity"], "ok", "{sample}");
    assert!(sample["detail"].as_str().unwrap().contains("1 item is no record"), "{sample}");

    let mut formless = completed("payments#formless");
    formless.remove("format");
    store.put(formless).await;
    let sick = store.run(&["--json", "doctor"]).await;
    assert_eq!(sick.code, 1, "{sick:?}");
    let detail = of(&sick.json(), "sample")["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("`payments#formless` cannot be read"), "{detail}");
}
