//! Tool calls of the Model Context Protocol: a repeat gets the result of the first. Feature `mcp`.
//!
//! ```
//! # dynamodb_idempotency::testing::example(async |_, idempotency| {
//! use serde_json::{Value, json};
//!
//! let refund = async |_execution, arguments: Value| {
//!     let text = format!("refunded {}", arguments["amount"]); // your business here
//!     Ok::<_, std::io::Error>(json!({"content": [{"type": "text", "text": text}]}))
//! };
//! for id in [7, 8] {
//!     let call = json!({
//!         "jsonrpc": "2.0", "id": id, "method": "tools/call",
//!         "params": {"name": "refund", "arguments": {"amount": 5, "idempotency_key": "order-42"}},
//!     });
//!     let response = idempotency.operation("shop").run_tool_call(&call, refund).await;
//!     assert_eq!(response["id"], id);
//!     assert_eq!(response["result"]["content"][0]["text"], "refunded 5"); // once
//! }
//! # Ok(()) });
//! ```
//!
//! 1. The key is `_meta.idempotency_key` of the call's `params`, which a host sets, or else the
//!    argument `idempotency_key`, which a model fills in. Without one nothing runs.
//! 2. The tool's name and its arguments are the payload: the same key with others is refused.
//! 3. The result is stored without its JSON-RPC id; each repeat gets it under its own id, and with
//!    `_meta.idempotency_replayed`.
//! 4. An `Err` of the tool becomes a result with `isError`, which the model reads. It is a failure:
//!    by default nothing is stored and the same call runs again. An `Ok` result is stored, whatever
//!    its `isError` says.
//! 5. If this crate has no answer, the response is a JSON-RPC error. Its `data` has the `kind` of
//!    [`ErrorKind`], whether a retry makes sense, and when.
//!
//! The operation's [scope](crate::Scope) says whose keys these are: give each user of a shared
//! server their own [tenant](crate::Scope::tenant).

use std::fmt::Display;
use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::engine::execution::Execution;
use crate::error::{Error, ErrorKind, RunError};
use crate::function::{Operation, Outcome};

/// The member of `params._meta`, and the argument, with the key.
///
/// ```
/// assert_eq!(dynamodb_idempotency::mcp::KEY_MEMBER, "idempotency_key");
/// ```
pub const KEY_MEMBER: &str = "idempotency_key";

/// The member of a result's `_meta` that marks a replay.
///
/// ```
/// assert_eq!(dynamodb_idempotency::mcp::REPLAYED_MEMBER, "idempotency_replayed");
/// ```
pub const REPLAYED_MEMBER: &str = "idempotency_replayed";

/// JSON-RPC 2.0, section 5.1.
const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;

impl Operation<'_> {
    /// Answers a `tools/call` request of the Model Context Protocol: the whole JSON-RPC response,
    /// with the request's own id. `tool` gets the arguments and runs once for each key; see
    /// [`mcp`](crate::mcp) for the rules.
    ///
    /// Key and payload come from the request; policy, deadline and the rest from the operation.
    ///
    /// ```
    /// use dynamodb_idempotency::Idempotency;
    /// use serde_json::{Value, json};
    ///
    /// async fn answer(idempotency: &Idempotency, request: &Value) -> Value {
    ///     match request["params"]["name"].as_str() {
    ///         Some("refund") => {
    ///             let tool = async |_, _| Ok::<_, std::io::Error>(json!({"content": []}));
    ///             idempotency.operation("shop").run_tool_call(request, tool).await
    ///         }
    ///         _ => json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32602, "message": "unknown tool"}}),
    ///     }
    /// }
    /// ```
    pub async fn run_tool_call<T, E, F, Fut>(self, request: &Value, tool: F) -> Value
    where
        F: FnOnce(Execution, Value) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned + 'static,
        E: Display + 'static,
    {
        let answer = match Call::read(request) {
            Ok(call) => {
                let operation = self.key(call.key).payload(&(call.name, call.arguments));
                let arguments = call.arguments.clone();
                let called = operation.run_with_outcome(|execution| tool(execution, arguments));
                answer_of(called.await)
            }
            Err(message) => error(INVALID_PARAMS, message, None),
        };
        let (member, value) = match answer {
            Ok(result) => ("result", result),
            Err(error) => ("error", error),
        };
        json!({"jsonrpc": "2.0", "id": request["id"], member: value})
    }
}

/// What of a request counts.
struct Call<'a> {
    key: &'a str,
    name: &'a str,
    arguments: &'a Value,
}

impl<'a> Call<'a> {
    fn read(request: &'a Value) -> Result<Self, &'static str> {
        let params = &request["params"];
        if request["method"] != "tools/call" || request.get("id").is_none_or(Value::is_null) {
            return Err("this is no `tools/call` request with an id");
        }
        let name = params["name"].as_str().ok_or("the call names no tool")?;
        let arguments = &params["arguments"];
        let key = [&params["_meta"][KEY_MEMBER], &arguments[KEY_MEMBER]];
        let key = key.into_iter().find(|key| !key.is_null());
        let key = key.ok_or("send a unique key for this call as the argument `idempotency_key`")?;
        let key = key.as_str().filter(|key| !key.is_empty());
        let key = key.ok_or("`idempotency_key` is a text, and not empty")?;
        Ok(Self { key, name, arguments })
    }
}

/// A response but for its id: its result, or its error.
type Answer = Result<Value, Value>;

fn answer_of<T: Serialize, E: Display>(called: Result<Outcome<T>, RunError<E>>) -> Answer {
    match called {
        Ok(outcome) => {
            let is_replayed = outcome.is_replayed();
            match serde_json::to_value(outcome.into_inner()) {
                Ok(result) if is_replayed => Ok(marked(result)),
                Ok(result) => Ok(result),
                Err(fault) => {
                    error(INTERNAL_ERROR, &format!("the result is not JSON: {fault}"), None)
                }
            }
        }
        Err(RunError::Handler(failed)) => {
            let content = json!([{"type": "text", "text": failed.to_string()}]);
            Ok(json!({"content": content, "isError": true}))
        }
        Err(RunError::Idempotency(fault)) => explained(&fault),
    }
}

/// The result, which says that it is a replay. A result that is no object stays as it is.
fn marked(mut result: Value) -> Value {
    if let Some(members) = result.as_object_mut() {
        let meta = members.entry("_meta").or_insert_with(|| json!({}));
        if let Some(meta) = meta.as_object_mut() {
            meta.insert(REPLAYED_MEMBER.to_owned(), json!(true));
        }
    }
    result
}

/// What the client may know of an error; the rest goes to the log.
fn explained(fault: &Error) -> Answer {
    let is_the_calls = matches!(fault.kind(), ErrorKind::InvalidInput | ErrorKind::Mismatch);
    let code = if is_the_calls { INVALID_PARAMS } else { INTERNAL_ERROR };
    if fault.kind().is_told() {
        return error(code, &fault.to_string(), Some(fault));
    }
    let source = std::error::Error::source(fault);
    tracing::error!(kind = ?fault.kind(), error = %fault, source, "no answer for a tool call");
    error(code, "The reason is in the server's log.", Some(fault))
}

fn error(code: i32, message: &str, fault: Option<&Error>) -> Answer {
    let mut error = json!({"code": code, "message": message});
    if let Some(fault) = fault {
        let mut data = json!({"kind": fault.kind().name(), "retryable": fault.is_retryable()});
        if let ErrorKind::InProgress { retry_after } = fault.kind() {
            data["retry_after_ms"] = json!(u64::try_from(retry_after.as_millis()).ok());
        }
        error["data"] = data;
    }
    Err(error)
}
