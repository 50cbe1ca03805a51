//! A server of the Model Context Protocol whose tool `charge` runs once for each key, however often a
//! model or its host calls it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dynamodb_idempotency::{Error, ErrorKind, Idempotency, RunError};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest,
    ElicitRequestParams, ElicitationSchema, ErrorData, InputRequest, InputRequests,
    InputRequiredResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

/// The server, with the number of charges that it has made.
#[derive(Clone, Debug)]
pub struct Shop {
    idempotency: Idempotency,
    charges: Arc<AtomicU32>,
}

impl Shop {
    /// A shop that has not charged anything yet.
    #[must_use]
    pub fn new(idempotency: Idempotency) -> Self {
        Self { idempotency, charges: Arc::default() }
    }

    /// How many charges were made.
    #[must_use]
    pub fn charges(&self) -> u32 {
        self.charges.load(Ordering::Relaxed)
    }
}

// In the guide as well, word for word.
/// Why a call has no final result. Nothing is stored of it, and the next call with its key runs.
enum NotFinal {
    /// The client has to answer first, and repeats the call with `inputResponses`.
    InputRequired(InputRequiredResult),
    Declined(String),
}

impl Shop {
    async fn call(&self, request: CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let answers = request.input_responses.unwrap_or_default();
        let Some(key) = arguments["idempotency_key"].as_str() else {
            return Ok(tool_error(
                "Send `idempotency_key`: a text that is unique for this charge.",
            ));
        };
        let call = self.idempotency.operation("charge").key(key).payload(&(&arguments, &answers));
        match call.run(async |_execution| self.charge(&arguments, answers.get("confirm"))).await {
            Ok(result) => Ok(CallToolResult::into(result)),
            Err(RunError::Handler(NotFinal::InputRequired(required))) => Ok(required.into()),
            Err(RunError::Handler(NotFinal::Declined(reason))) => Ok(tool_error(&reason)),
            Err(RunError::Idempotency(error)) => refused(&error),
        }
    }
}

/// What a model can correct is a tool execution error; anything else is an error of the protocol.
fn refused(error: &Error) -> Result<CallToolResponse, ErrorData> {
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::Mismatch | ErrorKind::InProgress { .. } => {
            Ok(tool_error(&error.to_string()))
        }
        _ => Err(ErrorData::internal_error(
            "No charge is confirmed. Try again with the same key.",
            None,
        )),
    }
}

fn tool_error(text: &str) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(text)]).into()
}
// The guide's part ends here.

impl Shop {
    /// The tool's own work.
    fn charge(&self, order: &Value, confirmed: Option<&Value>) -> Result<CallToolResult, NotFinal> {
        let amount = order["amount"].as_u64().filter(|amount| *amount > 0);
        let amount = amount.ok_or_else(|| NotFinal::Declined("`amount` is in cents.".into()))?;
        match confirmed.map(|answer| &answer["action"]) {
            None if amount > 10_000 => return Err(NotFinal::InputRequired(confirmation(amount))),
            Some(action) if action != "accept" => {
                return Err(NotFinal::Declined("The user does not want this charge.".into()));
            }
            _ => {}
        }
        let number = self.charges.fetch_add(1, Ordering::Relaxed) + 1;
        let text = format!("charge {number}: {amount}");
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
    }
}

fn confirmation(amount: u64) -> InputRequiredResult {
    let form = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!("Charge {amount} cents?"),
        requested_schema: ElicitationSchema::new(std::collections::BTreeMap::new()),
    };
    let request = InputRequest::Elicitation(ElicitRequest::new(form));
    InputRequiredResult::from_input_requests(InputRequests::from([("confirm".into(), request)]))
}

/// The description is what makes a model send a good key.
fn tool() -> Tool {
    let schema = json!({
        "type": "object",
        "required": ["amount", "idempotency_key"],
        "properties": {
            "amount": {"type": "integer", "minimum": 1, "description": "in cents"},
            "idempotency_key": {
                "type": "string",
                "description": "Unique for this charge. Keep it when you try again.",
            },
        },
    });
    let schema = schema.as_object().cloned().unwrap_or_default();
    Tool::new(
        "charge",
        "Charges the customer. A repeat with the same idempotency_key returns the first result.",
        Arc::new(schema),
    )
}

impl ServerHandler for Shop {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.protocol_version = ProtocolVersion::V_2026_07_28;
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![tool()]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != "charge" {
            return Err(ErrorData::invalid_params(format!("unknown tool {}", request.name), None));
        }
        self.call(request).await
    }
}
