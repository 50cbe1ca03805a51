//! Serves the Lambda's own handler on a local port, with an embedded DynamoDB.
//!
//! ```text
//! cargo run -p lambda-example --example local -- --port 3000
//! ```
//!
//! `GET /` is a playground that sends requests and shows the records and the ledger.
//!
//! `DYNAMODB_ENDPOINT` selects another DynamoDB, such as DynamoDB Local. `--port 0` selects a free port.

mod playground;

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, Region};
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dynamodb_idempotency::http::AnsweredBy;
use dynamodb_idempotency::lambda::LambdaResponse;
use dynamodb_idempotency::policy::Lease;
use dynamodb_idempotency::{Idempotency, sdk_config_loader};
use lambda_example::{Payments, service};
use lambda_http::http::{HeaderValue, Request, StatusCode};
use lambda_http::{Body, Error};
use playground::{Crash, Playground};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

const DEFAULT_PORT: u16 = 3000;
const USAGE: &str = "usage: cargo run -p lambda-example --example local -- [--port N]";

/// Lambda's own limit for a request.
const MAX_BODY_BYTES: usize = 6 * 1024 * 1024;

/// How often a request that should crash is checked.
const GLANCE: Duration = Duration::from_millis(25);

const RECORDS: &str = "idempotency";
const PAYMENTS: &str = "payments";

/// The handler, and the requests in progress.
#[derive(Clone)]
struct Local {
    handler: Handler,
    owners: TaskTracker,
    playground: Playground,
}

type Handler = BoxCloneSyncService<Request<Body>, Response, Error>;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    // The engine warns about every failed condition, which are normal here.
    let log = std::env::var("RUST_LOG").unwrap_or_else(|_| "info,dynoxide=error".to_owned());
    tracing_subscriber::registry().with(fmt::layer()).with(log.parse::<Targets>()?).init();
    let Some(port) = port(std::env::args().skip(1))? else {
        println!("{USAGE}");
        return Ok(());
    };
    let listener = TcpListener::bind(("127.0.0.1", port))
        .await
        .map_err(|error| format!("port {port} cannot be had ({error}): try --port 0"))?;
    let (client, endpoint) = dynamodb().await?;
    let idempotency = Idempotency::builder(client.clone(), RECORDS)
        .policy(|policy| policy.lease(Lease::Renewed(playground::LEASE)))
        .build()?;
    idempotency.create_table().await?;
    let payments = Payments::new(client.clone(), PAYMENTS);
    payments.create_table().await?;

    let handler = service(&idempotency, payments)?.map_response(into_axum);
    let local = Local {
        handler: Handler::new(handler),
        owners: TaskTracker::new(),
        playground: Playground { client, records: RECORDS, ledger: PAYMENTS },
    };
    let app = playground::router(local.playground.clone())
        .merge(Router::new().fallback(serve).with_state(local.clone()));
    print_welcome(&listener.local_addr()?.to_string(), &endpoint);
    axum::serve(listener, app)
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    local.owners.close();
    local.owners.wait().await;
    Ok(())
}

/// Returns the port; `None` for `--help`.
fn port(mut arguments: impl Iterator<Item = String>) -> Result<Option<u16>, Error> {
    let mut port = DEFAULT_PORT;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--port" => {
                let value = arguments.next().unwrap_or_default();
                let wrong = |_| format!("--port takes a number from 0 to 65535, not `{value}`");
                port = value.parse().map_err(wrong)?;
            }
            other => return Err(format!("unknown argument `{other}`\n{USAGE}").into()),
        }
    }
    Ok(Some(port))
}

/// Returns a client of `DYNAMODB_ENDPOINT` or of a DynamoDB inside this process, and its endpoint.
async fn dynamodb() -> Result<(Client, String), Error> {
    let named = std::env::var("DYNAMODB_ENDPOINT").unwrap_or_default();
    let endpoint = if named.starts_with("http://") || named.starts_with("https://") {
        named
    } else if !named.is_empty() {
        return Err(format!("DYNAMODB_ENDPOINT is `{named}`: it begins with http://").into());
    } else {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        tokio::spawn(dynoxide::server::serve_on(listener, dynoxide::Database::memory()?));
        endpoint
    };
    let config = sdk_config_loader()
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(&endpoint)
        .load()
        .await;
    Ok((Client::new(&config), endpoint))
}

/// Passes a request to the Lambda handler, like API Gateway.
async fn serve(State(local): State<Local>, request: axum::extract::Request) -> Response {
    let (parts, body) = request.into_parts();
    let crash = Crash::asked_for(&parts);
    let request = Request::from_parts(parts, body);
    let served = if let Some(crash) = crash {
        call_and_crash(local, request, &crash).await
    } else {
        // A separate task: a client that disconnects must not stop the owner of a key.
        let called = local.owners.spawn(call(local.handler, request)).await;
        called.map_err(Error::from).flatten()
    };
    served.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    })
}

/// Drops the handler midway and returns the response that a client of a crashed function gets. A handler
/// that returns before that does not process a payment.
async fn call_and_crash(
    local: Local,
    request: axum::extract::Request,
    crash: &Crash,
) -> Result<Response, Error> {
    let before = local.playground.before(crash).await?;
    let mut answering = pin!(call(local.handler, request));
    loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep(GLANCE) => {}
            answered = &mut answering => return answered,
        }
        // The handler is not polled during this check, so it cannot finish in between.
        if local.playground.is_halfway(crash, &before).await? {
            return Ok(playground::died());
        }
    }
}

async fn call(mut handler: Handler, request: axum::extract::Request) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, MAX_BODY_BYTES).await else {
        return Ok(StatusCode::PAYLOAD_TOO_LARGE.into_response());
    };
    let body = match String::from_utf8(bytes.into()) {
        Ok(text) if text.is_empty() => Body::Empty,
        Ok(text) => Body::Text(text),
        Err(error) => Body::Binary(error.into_bytes()),
    };
    handler.ready().await?.call(Request::from_parts(parts, body)).await
}

/// Adds a header for the page that says what answered, if the response does not show it.
fn into_axum(response: LambdaResponse) -> Response {
    let mut response = response.into_inner().map(axum::body::Body::new);
    if response.extensions().get() == Some(&AnsweredBy::Hook) {
        response.headers_mut().insert("x-playground", HeaderValue::from_static("reconciled"));
    }
    response
}

fn print_welcome(address: &str, endpoint: &str) {
    println!("The payments API listens on http://{address}\n");
    println!("Open that address in a browser: it is a playground. Or pay from here;");
    println!("send it again and get the same answer; change the amount and be refused:\n");
    let pay = |key: &str, amount: u32, source: &str, header: &str| {
        format!(
            "curl -i http://{address}/payments -H 'content-type: application/json' \
             -H 'Idempotency-Key: {key}'{header} \
             -d '{{\"amount\": {amount}, \"currency\": \"eur\", \"source\": \"{source}\"}}'"
        )
    };
    for amount in [1200, 1200, 1300] {
        println!("{}", pay("order-42", amount, "tok_visa", ""));
    }
    println!("\nTwice at once, or by a function that dies half-way:\n");
    let slow = pay("order-43", 1200, "tok_slow", "");
    println!("{slow} &\n{slow}");
    // The card network is slow, so that a request can crash midway.
    println!("{}", pay("order-44", 1200, "tok_slow", " -H 'x-playground: crash'"));
    println!("\nA record, by the command line of the README:\n");
    println!(
        "AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local idempotency --endpoint-url {endpoint} \
         --region us-east-1 --table {RECORDS} show payments order-42\n"
    );
    println!("What really happened: curl http://{address}/payments");
}
