//! A server of the Model Context Protocol over its standard input and output, whose tool charges once a
//! key, however often a model or its host calls.
//!
//! ```text
//! cargo run -p lambda-example --example mcp-server
//! ```
//!
//! It keeps its records in an embedded DynamoDB, or in the table that `IDEMPOTENCY_TABLE` names.

use std::sync::atomic::{AtomicU32, Ordering};

use dynamodb_idempotency::mcp::KEY_MEMBER;
use dynamodb_idempotency::testing::Sandbox;
use dynamodb_idempotency::{Idempotency, TABLE_VARIABLE};
use lambda_http::Error;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (idempotency, _sandbox) = if std::env::var_os(TABLE_VARIABLE).is_some() {
        (Idempotency::from_env().await?, None)
    } else {
        let sandbox = Sandbox::start().await?;
        (sandbox.idempotency(), Some(sandbox))
    };
    let server = Server { idempotency, charges: AtomicU32::new(0) };
    let mut requests = BufReader::new(tokio::io::stdin()).lines();
    let mut answers = tokio::io::stdout();
    while let Some(line) = requests.next_line().await? {
        if let Some(answer) = server.answer(&line).await {
            answers.write_all(format!("{answer}\n").as_bytes()).await?;
            answers.flush().await?;
        }
    }
    Ok(())
}

struct Server {
    idempotency: Idempotency,
    charges: AtomicU32,
}

impl Server {
    /// Nothing for a notification.
    async fn answer(&self, line: &str) -> Option<Value> {
        let Ok(request) = serde_json::from_str::<Value>(line) else {
            return Some(error(&Value::Null, -32700, "this is no JSON"));
        };
        let id = request.get("id")?;
        Some(match request["method"].as_str() {
            Some("initialize") => result(id, &capabilities(&request)),
            Some("ping") => result(id, &json!({})),
            Some("tools/list") => result(id, &json!({"tools": [tool()]})),
            Some("tools/call") if request["params"]["name"] == "charge" => {
                let charge = async |_, arguments| self.charge(&arguments);
                self.idempotency.operation("mcp").run_tool_call(&request, charge).await
            }
            Some("tools/call") => error(id, -32602, "there is no such tool"),
            _ => error(id, -32601, "there is no such method"),
        })
    }

    /// An error is for the model, which may call again.
    fn charge(&self, arguments: &Value) -> Result<Value, String> {
        let amount = arguments["amount"].as_u64().ok_or("`amount` is missing")?;
        let number = self.charges.fetch_add(1, Ordering::Relaxed) + 1;
        let text = format!("charge {number}: {amount}");
        Ok(json!({"content": [{"type": "text", "text": text}]}))
    }
}

fn capabilities(request: &Value) -> Value {
    let version = request["params"]["protocolVersion"].as_str().unwrap_or("2025-06-18");
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "charges", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// The description is what makes a model send a good key.
fn tool() -> Value {
    json!({
        "name": "charge",
        "description": "Charges the customer. Calling it again with the same idempotency_key does nothing \
                        and gives the first result.",
        "annotations": {"destructiveHint": true, "idempotentHint": true},
        "inputSchema": {
            "type": "object",
            "required": ["amount", KEY_MEMBER],
            "properties": {
                "amount": {"type": "integer", "minimum": 1, "description": "in cents"},
                KEY_MEMBER: {
                    "type": "string",
                    "description": "Unique for this charge. Keep it when you try again.",
                },
            },
        },
    })
}

fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}
