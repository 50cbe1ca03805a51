//! `idempotency show`

use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use dynamodb_idempotency::policy::{Compression, KeyForm, LargeAnswers};
use dynamodb_idempotency::{AnswerCodec, CodecError, Policy, TableSchema};
use serde_json::json;

use crate::support::{Item, Store, abandoned, completed, map, n, now, pending, s, with};

#[tokio::test]
async fn a_finished_operation_is_shown_with_its_answer() {
    let store = Store::open().await;
    store.put(completed("payments#k")).await;
    let shown = store.run(&["show", "payments", "k"]).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    for part in ["COMPLETED, done", "201", "location: /payments/1", r#"{"id":"re_1"}"#, " ago"] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }

    let json = store.json(&["show", "payments", "k"]).await;
    assert_eq!(json["status"], "COMPLETED");
    assert_eq!(json["dangers"], json!(["completed"]));
    let answer = json!({
        "status": 201,
        "headers": [["location", "/payments/1"]],
        "body": {"text": r#"{"id":"re_1"}"#},
    });
    assert_eq!(json["answer"], answer);
    assert_eq!(json["item"]["pk"], json!({"S": "payments#k"}));
    assert_eq!(json["fingerprint"], format!("01{}", "07".repeat(32)));
}

#[tokio::test]
async fn a_running_and_a_stuck_one_say_how_long() {
    let store = Store::open().await;
    let steps = map(&[("reserve", s(r#"{"seat":1}"#)), ("mail", aws_null())]);
    store.put(with(pending("payments#live"), "steps", steps)).await;
    store.put(abandoned("payments#dead", 200)).await;

    let live = store.run(&["show", "payments", "live"]).await.out;
    for part in ["in progress", "lease ends in ", r#"reserve: {"seat":1}"#, "mail: done"] {
        assert!(live.contains(part), "{part}: {live}");
    }
    let json = store.json(&["show", "payments", "live"]).await;
    assert_eq!(json["dangers"], json!(["live_lease", "steps"]));
    let steps =
        json!([{"name": "mail", "result": null}, {"name": "reserve", "result": r#"{"seat":1}"#}]);
    assert_eq!(json["steps"], steps);

    let dead = store.run(&["show", "payments", "dead"]).await.out;
    assert!(dead.contains("abandoned") && dead.contains("lease ended "), "{dead}");
    let json = store.json(&["show", "payments", "dead"]).await;
    assert_eq!((&json["dangers"], &json["lease_left_s"]), (&json!([]), &json!(null)));
    let over = json["abandoned_for_s"].as_u64().unwrap();
    assert!(over >= 199, "{over}");
}

#[tokio::test]
async fn a_note_of_a_request_is_shown_with_its_time() {
    let store = Store::open().await;
    let sent = now() / 1000 - 200;
    let note = s(&(sent * 1000).to_string());
    let steps = map(&[("refund~sent~1", note), ("reserve", s("1"))]);
    store.put(with(abandoned("payments#k", 100), "steps", steps)).await;
    let shown = store.run(&["show", "payments", "k"]).await.out;
    let sent = DateTime::from_secs(sent).fmt(DateTimeFormat::DateTime).unwrap();
    let note = format!("refund~sent~1: {sent}, 3 min 2");
    for part in [note.as_str(), "reserve: 1", "whether the request of step `refund`"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[tokio::test]
async fn a_note_that_a_codec_encoded_is_not_shown_as_done() {
    let store = Store::open().await;
    let encoded = aws_sdk_dynamodb::primitives::Blob::new(b"\x02encoded");
    let encoded = aws_sdk_dynamodb::types::AttributeValue::B(encoded);
    let steps = map(&[("refund~sent~1", encoded)]);
    store.put(with(abandoned("payments#k", 100), "steps", steps)).await;
    let shown = store.run(&["show", "payments", "k"]).await.out;
    for part in ["refund~sent~1: its time is encoded by a codec", "of step `refund`"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[tokio::test]
async fn it_ends_with_what_to_do() {
    let store = Store::open().await;
    let mut failed = with(completed("payments#failed"), "status", s("FAILED"));
    failed.remove("response");
    for item in [
        pending("payments#live one"),
        abandoned("payments#dead", 200),
        completed("payments#done"),
        failed,
        with(abandoned("payments#free", 1), "status", s("RELEASED")),
        with(completed("payments#old"), "expires_at", n(1_000_000_000)),
    ] {
        store.put(item).await;
    }
    for (key, next) in [
        ("live one", " watch payments 'live one'"),
        ("dead", " release payments dead"),
        ("done", "next: nothing: repeats get the answer"),
        ("failed", " release payments failed"),
        ("old", "next: nothing: the next request runs it"),
    ] {
        let shown = store.run(&["show", "payments", key]).await.out;
        let last = shown.lines().last().unwrap_or_default();
        assert!(last.starts_with("next: ") && last.ends_with(next), "{key}: {shown}");
    }
}

#[tokio::test]
async fn an_answer_that_repeats_do_not_get_is_not_promised() {
    let store = Store::open().await;
    let reason = map(&[("unavailable", s("it is too large"))]);
    // As a program without this codec leaves it, or AWS CLI 1.
    let garbage = aws_sdk_dynamodb::primitives::Blob::new(b"\x01\x00\x00\x00\x05AAAA");
    let garbage = aws_sdk_dynamodb::types::AttributeValue::B(garbage);
    for answer in [reason, garbage] {
        store.put(with(completed("payments#k"), "response", answer)).await;
        let shown = store.run(&["show", "payments", "k"]).await;
        assert_eq!(shown.code, 0, "{shown:?}");
        assert!(!shown.out.contains("repeats get the answer"), "{shown:?}");
        assert!(
            shown.out.contains("COMPLETED, done, but its answer is not available"),
            "{shown:?}"
        );
        assert!(shown.out.contains("next: answer repeats from your business data"), "{shown:?}");
    }
}

#[tokio::test]
async fn for_an_unknown_key_the_existing_scopes_are_listed() {
    let store = Store::open().await;
    let empty = store.run(&["show", "payments", "k"]).await;
    assert!(empty.error(3).contains("no scope was found"), "{empty:?}");
    for pk in ["payments#a", "payments/%t/acme#a", "refunds#a"] {
        store.put(completed(pk)).await;
    }
    let missing = store.run(&["show", "paymnets", "k"]).await;
    let scopes = "scopes that exist: `payments`, `payments/%t/acme`, `refunds`";
    assert!(missing.error(3).contains(scopes), "{missing:?}");
    let missing = store.run(&["show", "payments", "k"]).await;
    assert!(missing.error(3).contains("the scope is right"), "{missing:?}");
}

fn aws_null() -> aws_sdk_dynamodb::types::AttributeValue {
    aws_sdk_dynamodb::types::AttributeValue::Null(true)
}

#[tokio::test]
async fn a_record_past_its_retention_counts_as_absent() {
    let store = Store::open().await;
    store.put(with(completed("payments#k"), "expires_at", n(1_000_000_000))).await;
    let shown = store.run(&["show", "payments", "k"]).await.out;
    assert!(shown.contains("counts as absent"), "{shown}");
}

#[tokio::test]
async fn scopes_are_written_as_the_table_has_them() {
    let store = Store::open().await;
    store.put(completed("payments/%t/tenant%2F7#a#b")).await;
    let json = store.json(&["show", "payments/%t/tenant%2F7", "a#b"]).await;
    assert_eq!((&json["scope"], &json["key"]), (&json!("payments/%t/tenant%2F7"), &json!("a#b")));
}

#[tokio::test]
async fn hashed_keys_are_found_by_the_key() {
    let store = Store::open().await;
    let idempotency = dynamodb_idempotency::Idempotency::new(store.client.clone(), &store.table);
    let hashed = idempotency
        .operation("payments")
        .policy(|policy| policy.key_form(KeyForm::Sha256))
        .unwrap()
        .key("k")
        .no_payload();
    hashed.run(async |_| Ok::<_, std::convert::Infallible>(1)).await.unwrap();

    let json = store.json(&["show", "payments", "k", "--sha256"]).await;
    assert_eq!(json["answer"], json!({"json": "1"}));
    let missing = store.run(&["show", "payments", "k"]).await;
    assert!(missing.error(3).contains("--sha256"), "{missing:?}");
}

#[tokio::test]
async fn another_shape_of_the_table_is_named() {
    let schema =
        TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK").ttl_attribute("ttl");
    let store = Store::with_schema(schema).await;
    let mut item = completed("payments#k");
    for (name, other) in [("pk", "SK"), ("expires_at", "ttl")] {
        let value = item.remove(name).unwrap();
        item.insert(other.to_owned(), value);
    }
    store.put(with(item, "PK", s("IDEMPOTENCY"))).await;
    let shape = ["--composite-key", "PK=IDEMPOTENCY,SK", "--ttl-attribute", "ttl"];
    let show = ["show", "payments", "k"];
    let json = store.json(&[&shape[..], &show].concat()).await;
    assert_eq!(json["status"], "COMPLETED");
    let stats = store.json(&[&shape[..], &["stats"]].concat()).await;
    assert_eq!(stats["operations"]["payments"]["completed"], 1);
}

/// Anybody may choose a key.
#[tokio::test]
async fn what_others_have_written_does_not_drive_the_terminal() {
    let store = Store::open().await;
    let answer = map(&[("json", s("\"\u{1b}[2J\""))]);
    let item: Item = with(completed("payments#\u{1b}]0;k\u{7}"), "response", answer);
    store.put(item).await;
    let shown = store.run(&["show", "payments", "\u{1b}]0;k\u{7}"]).await;
    assert!(shown.out.contains("\\u{1b}[2J"), "{shown:?}");
    assert!(!shown.out.contains('\u{1b}') && !shown.out.contains('\u{7}'), "{shown:?}");
}

fn in_parts(policy: Policy) -> Policy {
    let policy = policy.compression(Compression::Off);
    policy.large_answers(LargeAnswers::InParts { above: 1024 })
}

#[tokio::test]
async fn an_answer_in_parts_is_shown_as_any_other() {
    let store = Store::open().await;
    let answer = "x".repeat(70_000);
    store.done(store.builder().policy(in_parts), "k", &answer).await;
    let shown = store.run(&["show", "payments", "k"]).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.out.contains(&format!("\"{answer}\"")), "{} bytes", shown.out.len());
    let json = store.json(&["show", "payments", "k"]).await;
    assert_eq!(json["answer"], json!({"json": format!("\"{answer}\"")}));
}

/// Turns the bits over.
struct Inverted;

impl AnswerCodec for Inverted {
    fn encode(&self, _: &str, plain: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        Ok(plain.into_iter().map(|byte| !byte).collect())
    }

    fn decode(&self, pk: &str, encoded: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        self.encode(pk, encoded)
    }
}

#[tokio::test]
async fn an_answer_that_a_codec_wrote_is_said_to_be_encoded() {
    let store = Store::open().await;
    for (key, length) in [("small", 10), ("large", 70_000)] {
        let builder = store.builder().policy(in_parts).answer_codec(Inverted);
        store.done(builder, key, &"x".repeat(length)).await;
        // Two quotation marks, five bytes of format, and five of length and codec.
        let bytes = length + 2 + 5 + 5;
        let shown = store.run(&["show", "payments", key]).await;
        assert_eq!((shown.code, shown.err.as_str()), (0, ""), "{shown:?}");
        assert!(shown.out.contains(&format!("{bytes} bytes, encoded by a codec")), "{shown:?}");
        let json = store.json(&["show", "payments", key]).await;
        assert_eq!(json["answer"], json!({"encoded": true, "bytes": bytes}));
    }
    let stats = store.json(&["stats"]).await;
    assert_eq!(stats["operations"]["payments"]["completed"], 2);
    assert_eq!(stats["unreadable"], 0);

    let idempotency = store.builder().answer_codec(Inverted).build().unwrap();
    let operation = idempotency.operation("payments").key("stepped").no_payload();
    let ran = operation.run(async |execution| {
        execution.step("reserve", async { Ok::<_, String>(1) }).await?;
        Err::<(), _>(dynamodb_idempotency::RunError::Handler("no stock".to_owned()))
    });
    ran.await.unwrap_err();
    let shown = store.run(&["show", "payments", "stepped"]).await;
    assert!(shown.out.contains("reserve: done; its result is encoded by a codec"), "{shown:?}");
    let json = store.json(&["show", "payments", "stepped"]).await;
    assert_eq!(json["steps"], json!([{"name": "reserve", "result": null, "encoded": true}]));
}

#[tokio::test]
async fn a_result_of_a_step_in_an_item_of_its_own_is_shown() {
    let (store, result) = (Store::open().await, "x".repeat(2_000));
    let idempotency = store.builder().build().unwrap();
    let operation = idempotency.operation("payments").key("k").no_payload();
    let ran = operation.run(async |execution| {
        execution.step("reserve", async { Ok::<_, String>(result.clone()) }).await?;
        Err::<(), _>(dynamodb_idempotency::RunError::Handler("no stock".to_owned()))
    });
    ran.await.unwrap_err();
    let shown = store.run(&["show", "payments", "k"]).await;
    assert!(shown.out.contains(&format!("reserve: \"{result}\"")), "{shown:?}");
    let json = store.json(&["show", "payments", "k"]).await;
    let text = format!("\"{result}\"");
    assert_eq!(json["steps"], json!([{"name": "reserve", "result": text}]));
    // The item is no record.
    let stats = store.json(&["stats"]).await;
    assert_eq!(
        (&stats["operations"]["payments"]["failed"], &stats["unreadable"]),
        (&json!(1), &json!(0))
    );
}

/// For who has to delete it, or to put it right.
#[tokio::test]
async fn an_item_that_cannot_be_read_is_printed_for_programs() {
    let store = Store::open().await;
    let mut formless = completed("payments#k");
    formless.remove("format");
    for (item, status) in
        [(formless, "unreadable"), (with(completed("payments#k"), "format", n(9)), "newer")]
    {
        store.put(item).await;
        let shown = store.run(&["--json", "show", "payments", "k"]).await;
        assert_eq!(shown.code, 1, "{shown:?}");
        let document = shown.json();
        assert_eq!((&document["status"], &document["key"]), (&status.into(), &"k".into()));
        assert_eq!(document["item"]["pk"]["S"], "payments#k", "{document}");
        assert_eq!(document["item"]["owner"]["S"], "0".repeat(32), "{document}");
        let text = store.run(&["show", "payments", "k"]).await;
        assert!(text.error(1).contains("`show --json` prints the item"), "{text:?}");
    }
}
