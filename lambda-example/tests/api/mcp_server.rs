//! The example's server of the Model Context Protocol, by its standard input and output.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::payment_events::example;

struct Server {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start() -> Self {
        let mut command = Command::new(example("mcp-server"));
        command.env_remove("IDEMPOTENCY_TABLE").kill_on_drop(true);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = process.stdin.take().expect("its input");
        let output = BufReader::new(process.stdout.take().expect("its output")).lines();
        Self { _process: process, input, output }
    }

    async fn tell(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.expect("it reads");
    }

    async fn ask(&mut self, request: Value) -> Value {
        self.tell(&request).await;
        let line = self.output.next_line().await.expect("it answers").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }
}

fn request(id: u32, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn charge(id: u32, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({"name": "charge", "arguments": arguments}))
}

#[tokio::test]
async fn a_tool_that_is_called_again_charges_once() {
    let mut server = Server::start();
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}});
    let hello = server.ask(request(1, "initialize", &hello)).await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    server.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let tools = server.ask(request(2, "tools/list", &json!({}))).await;
    let required = &tools["result"]["tools"][0]["inputSchema"]["required"];
    assert_eq!(*required, json!(["amount", "idempotency_key"]));

    let order = json!({"amount": 1200, "idempotency_key": "order-42"});
    for (id, is_replayed) in [(3, Value::Null), (4, json!(true))] {
        let answer = server.ask(charge(id, &order)).await;
        let result = &answer["result"];
        assert_eq!(
            (&answer["id"], &result["content"][0]["text"]),
            (&json!(id), &json!("charge 1: 1200"))
        );
        assert_eq!(result["_meta"]["idempotency_replayed"], is_replayed);
    }
    let keyless = server.ask(charge(5, &json!({"amount": 1200}))).await;
    assert_eq!(keyless["error"]["code"], -32602);
    // It has failed: the model corrects its call, under the same key.
    let amountless = server.ask(charge(6, &json!({"idempotency_key": "order-43"}))).await;
    assert_eq!(amountless["result"]["isError"], true);
    let other = json!({"amount": 5, "idempotency_key": "order-43"});
    let other = server.ask(charge(7, &other)).await;
    assert_eq!(other["result"]["content"][0]["text"], "charge 2: 5");
}
