//! Tool calls of the Model Context Protocol.

use dynamodb_idempotency::mcp::REPLAYED_MEMBER;
use dynamodb_idempotency::{Failure, Idempotency};
use serde_json::{Value, json};

use crate::support::{Act, Gate, Link, Runs, Store, raw};

fn call(id: &Value, arguments: &Value) -> Value {
    let params = json!({"name": "refund", "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn refund(id: u32) -> Value {
    call(&json!(id), &json!({"amount": 5, "idempotency_key": "k"}))
}

async fn answer(idempotency: &Idempotency, request: &Value, runs: &Runs) -> Value {
    let tool = async |_, arguments: Value| {
        let text = format!("run {} of {}", runs.add(), arguments["amount"]);
        Ok::<_, String>(json!({"content": [{"type": "text", "text": text}]}))
    };
    idempotency.operation("shop").run_tool_call(request, tool).await
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_repeat_gets_the_result_under_its_own_id() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    let first = answer(&idempotency, &refund(7), &runs).await;
    let expected = json!({"content": [{"type": "text", "text": "run 1 of 5"}]});
    assert_eq!(first, json!({"jsonrpc": "2.0", "id": 7, "result": expected}));
    for id in [json!(8), json!("nine")] {
        let mut repeat = refund(0);
        repeat["id"] = id.clone();
        // Another token in each try.
        repeat["params"]["_meta"] = json!({"progressToken": id});
        let mut repeat = answer(&idempotency, &repeat, &runs).await;
        assert_eq!(repeat["id"], id);
        let meta = repeat["result"].as_object_mut().unwrap().remove("_meta").unwrap();
        assert_eq!((&repeat["result"], &meta), (&expected, &json!({REPLAYED_MEMBER: true})));
    }
    assert_eq!(runs.count(), 1);
    let record = format!("{:?}", store.record("shop#k").await);
    assert!(!record.contains("jsonrpc"), "{record}");
}

/// What a host sets goes before what a model has filled in.
#[tokio::test]
async fn the_key_is_in_the_meta_or_in_the_arguments() {
    let (store, runs) = (Store::open().await, Runs::default());
    let mut by_host = refund(1);
    by_host["params"]["_meta"] = json!({"idempotency_key": "host"});
    answer(&store.idempotency(), &by_host, &runs).await;
    assert_eq!(raw::status(&store.record("shop#host").await), "COMPLETED");
    assert!(store.item("shop#k").await.is_none());
}

#[tokio::test]
async fn what_is_no_call_with_a_key_runs_nothing() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let mut notification = refund(1);
    notification.as_object_mut().unwrap().remove("id");
    let mut list = refund(1);
    list["method"] = json!("tools/list");
    let mut nameless = refund(1);
    nameless["params"]["name"] = json!(null);
    for request in [
        call(&json!(1), &json!({"amount": 5})),
        call(&json!(1), &json!({"idempotency_key": 5})),
        call(&json!(1), &json!({"idempotency_key": ""})),
        notification,
        list,
        nameless,
        json!(null),
    ] {
        let refused = answer(&store.over(&link), &request, &runs).await;
        assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32602), &request["id"]));
    }
    assert_eq!((runs.count(), link.wire.requests().len()), (0, 0));
}

#[tokio::test]
async fn the_same_key_for_another_call_is_refused() {
    let (store, runs) = (Store::open().await, Runs::default());
    answer(&store.idempotency(), &refund(1), &runs).await;
    let mut another_tool = refund(2);
    another_tool["params"]["name"] = json!("charge");
    for request in [call(&json!(2), &json!({"amount": 6, "idempotency_key": "k"})), another_tool] {
        let refused = answer(&store.idempotency(), &request, &runs).await;
        assert_eq!(refused["error"]["code"], -32602);
        assert_eq!(refused["error"]["data"], json!({"kind": "Mismatch", "retryable": false}));
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn who_calls_beside_another_is_told_when_to_come_again() {
    let (store, gate) = (Store::open().await, Gate::default());
    let (idempotency, request) = (store.idempotency(), refund(1));
    let tool = async |_, _| {
        gate.pass().await;
        Ok::<_, String>(json!({}))
    };
    let held = idempotency.operation("shop").run_tool_call(&request, tool);
    let beside = async {
        gate.reached().await;
        let beside = answer(&idempotency, &refund(2), &Runs::default()).await;
        gate.open();
        beside
    };
    let (first, beside) = tokio::join!(held, beside);
    assert_eq!(first["result"], json!({}));
    let (code, data) = (&beside["error"]["code"], &beside["error"]["data"]);
    assert_eq!(
        (code, &data["kind"], &data["retryable"]),
        (&json!(-32603), &json!("InProgress"), &json!(true))
    );
    assert!(data["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{beside}");
}

/// By the policy for failures, as of any handler.
#[tokio::test]
async fn a_tool_that_fails_tells_the_model_and_may_run_again() {
    for (failure, runs_in_all) in [(Failure::Release, 2), (Failure::Retain { max_attempts: 1 }, 1)]
    {
        let (store, runs) = (Store::open().await, Runs::default());
        let idempotency = store.builder(&Link::default()).policy(|policy| policy.failure(failure));
        let idempotency = idempotency.build().unwrap();
        let fail = async |_, _| {
            runs.add();
            Err::<Value, _>("the card was declined")
        };
        let request = refund(1);
        let failed = idempotency.operation("shop").run_tool_call(&request, fail).await;
        assert_eq!(
            (text(&failed), &failed["result"]["isError"]),
            ("the card was declined", &json!(true))
        );
        answer(&idempotency, &refund(2), &runs).await;
        assert_eq!(runs.count(), runs_in_all, "{failure:?}");
    }
}

/// Table names and permissions are for the log.
#[tokio::test]
async fn an_outage_is_told_without_its_cause() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    link.wire.every("PutItem", Act::Answer(400, "ResourceNotFoundException"));
    let told = answer(&store.over(&link), &refund(1), &runs).await;
    assert_eq!(told["error"]["message"], "The reason is in the server's log.");
    assert_eq!(told["error"]["data"]["kind"], "Configuration");
    assert_eq!(runs.count(), 0);
}
