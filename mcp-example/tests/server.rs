//! The server, driven by the SDK's own client.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails so")]

use dynamodb_idempotency::testing::Sandbox;
use mcp_example::Shop;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities,
    ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, Implementation,
    InitializeRequestParams, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleClient, RunningService};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, ServiceExt as _};
use serde_json::{Value, json};

/// A user who answers every question in one way.
#[derive(Clone)]
struct User(ElicitationAction);

impl ClientHandler for User {
    fn get_info(&self) -> InitializeRequestParams {
        InitializeRequestParams::new(
            ClientCapabilities::builder().enable_elicitation().build(),
            Implementation::new("test", "0"),
        )
        .with_protocol_version(ProtocolVersion::V_2026_07_28)
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(self.0.clone()))
    }
}

async fn connect(shop: &Shop, user: ElicitationAction) -> RunningService<RoleClient, User> {
    let (server_side, client_side) = tokio::io::duplex(64 * 1024);
    let shop = shop.clone();
    tokio::spawn(async move {
        let server = shop.serve(server_side).await.expect("the client connects");
        server.waiting().await
    });
    let lifecycle =
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    User(user).serve_with_lifecycle(client_side, lifecycle).await.expect("the server answers")
}

fn charge(arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    CallToolRequestParams::new("charge").with_arguments(arguments)
}

fn text(result: &CallToolResult) -> (&str, Option<bool>) {
    (&result.content[0].as_text().unwrap().text, result.is_error)
}

#[tokio::test]
async fn a_repeated_call_gets_the_first_result_and_charges_once() {
    let sandbox = Sandbox::start().await.unwrap();
    let shop = Shop::new(sandbox.idempotency());
    let order = || charge(json!({"amount": 1200, "idempotency_key": "order-42"}));
    for _ in 0..2 {
        // A new connection each time, as a host that restarts has.
        let client = connect(&shop, ElicitationAction::Accept).await;
        let result = client.call_tool(order()).await.unwrap();
        assert_eq!(text(&result), ("charge 1: 1200", Some(false)));
    }
    let client = connect(&shop, ElicitationAction::Accept).await;
    let other = charge(json!({"amount": 5, "idempotency_key": "order-42"}));
    assert_eq!(client.call_tool(other).await.unwrap().is_error, Some(true));
    assert_eq!(shop.charges(), 1);
}

#[tokio::test]
async fn a_call_without_a_key_is_an_error_that_the_model_can_correct() {
    let sandbox = Sandbox::start().await.unwrap();
    let shop = Shop::new(sandbox.idempotency());
    let client = connect(&shop, ElicitationAction::Accept).await;
    for key in [json!(null), json!(""), json!(5)] {
        let keyless = charge(json!({"amount": 1200, "idempotency_key": key}));
        assert_eq!(client.call_tool(keyless).await.unwrap().is_error, Some(true), "{key}");
    }
    let amountless = charge(json!({"idempotency_key": "order-43"}));
    assert_eq!(client.call_tool(amountless).await.unwrap().is_error, Some(true));
    let corrected = charge(json!({"amount": 5, "idempotency_key": "order-43"}));
    assert_eq!(text(&client.call_tool(corrected).await.unwrap()), ("charge 1: 5", Some(false)));
}

#[tokio::test]
async fn a_result_that_is_not_final_is_never_stored() {
    let sandbox = Sandbox::start().await.unwrap();
    let shop = Shop::new(sandbox.idempotency());
    let client = connect(&shop, ElicitationAction::Accept).await;
    let order = || charge(json!({"amount": 20_000, "idempotency_key": "order-44"}));
    // Asked twice: a stored question would be replayed for ever.
    for _ in 0..2 {
        let asked = client.call_tool_once(order()).await.unwrap();
        assert!(matches!(asked, CallToolResponse::InputRequired(_)), "{asked:?}");
    }
    assert_eq!(shop.charges(), 0);
    // The client answers, and repeats what it has answered: the answer is part of the request.
    let answers = || [("confirm".to_owned(), json!({"action": "accept"}))].into();
    for _ in 0..2 {
        let result = client.call_tool_once(order().with_input_responses(answers())).await.unwrap();
        let CallToolResponse::Complete(result) = result else { panic!("{result:?}") };
        assert_eq!(text(&result), ("charge 1: 20000", Some(false)));
    }
    assert_eq!(shop.charges(), 1);
}

#[tokio::test]
async fn the_clients_own_rounds_end_with_one_charge_or_none() {
    let sandbox = Sandbox::start().await.unwrap();
    let shop = Shop::new(sandbox.idempotency());
    for (user, key, charges) in
        [(ElicitationAction::Decline, "order-45", 0), (ElicitationAction::Accept, "order-46", 1)]
    {
        let client = connect(&shop, user).await;
        let result = client.call_tool(charge(json!({"amount": 20_000, "idempotency_key": key})));
        assert_eq!(result.await.unwrap().is_error, Some(charges == 0));
        assert_eq!(shop.charges(), charges);
    }
}

#[test]
fn the_guide_has_this_code() {
    let source = include_str!("../src/lib.rs");
    let (_, part) = source.split_once("// In the guide as well, word for word.\n").unwrap();
    let (part, _) = part.split_once("// The guide's part ends here.").unwrap();
    let page = include_str!("../../docs/guide/mcp-tools.md");
    assert!(page.contains(part), "copy the part of src/lib.rs into the page");
}
