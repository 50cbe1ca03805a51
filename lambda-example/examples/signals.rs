//! Exports the crate's signals: metrics to `CloudWatch`, in its embedded metric format on standard output,
//! and spans to OpenTelemetry, which are printed here.
//!
//! ```text
//! cargo run -p lambda-example --example signals -- emf
//! cargo run -p lambda-example --example signals -- opentelemetry
//! ```
//!
//! Makes a first call, a replay and a mismatch, on an embedded DynamoDB. In a Lambda function, flush the
//! collector after each invocation, and use an exporter that sends (OTLP).

use std::process::ExitCode;

use dynamodb_idempotency::signals;
use dynamodb_idempotency::testing::Sandbox;
use lambda_http::Error;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

const USAGE: &str = "usage: cargo run -p lambda-example --example signals -- emf|opentelemetry";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let exporter = std::env::args().nth(1).unwrap_or_default();
    let done = match exporter.as_str() {
        "emf" => emf().await,
        "opentelemetry" => opentelemetry().await,
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn emf() -> Result<(), Error> {
    let builder = metrics_cloudwatch_embedded::Builder::new();
    let collector = builder.cloudwatch_namespace("payments").init()?;
    signals::describe();
    calls().await?;
    collector.flush(std::io::stdout())?;
    Ok(())
}

async fn opentelemetry() -> Result<(), Error> {
    let exporter = opentelemetry_stdout::SpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("payments"));
    // The SDK's own spans are of no interest here.
    let ours = Targets::new().with_target("dynamodb_idempotency", tracing::Level::INFO);
    tracing_subscriber::registry().with(ours).with(spans).try_init()?;
    calls().await?;
    provider.shutdown()?;
    Ok(())
}

async fn calls() -> Result<(), Error> {
    let sandbox = Sandbox::start().await?;
    let idempotency = sandbox.idempotency();
    for amount in [1200, 1200, 1300] {
        let operation = idempotency.operation("charge").key("order-42").payload(&amount);
        let charged = operation.run(async |_| Ok::<_, Error>(amount)).await;
        eprintln!("{amount}: {charged:?}");
    }
    Ok(())
}
