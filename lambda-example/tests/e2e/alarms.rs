//! What the alarms of `infra/` count is in the functions' logs: the template's own filter patterns, on
//! the lines of a function that has met what each alarm is about. The pages also where only warnings and
//! errors are logged.
//!
//! `infra/cdk/test/both.test.ts` holds the CDK's and Terraform's patterns to be the same.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Debug;
use std::future;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::policy::{Compression, Failure, Outage};
use dynamodb_idempotency::{DISABLED_ENV, Idempotency};
use lambda_example::{Payments, logs, service};
use lambda_http::http::{Request, Response, StatusCode};
use lambda_http::{Body, Service, service_fn};
use serde_json::json;
use tokio::sync::Notify;
use tower::ServiceExt;

use crate::deployment::{Alarm, Deployment, Filter, Function};
use crate::dynamodb::{client, unique};
use crate::emulator::Emulator;
use crate::event::{self, Kind, Order};
use crate::line::Line;
use crate::queue::batch;
use crate::runtime_api::Environment;

const KIND: Kind = Kind::HttpApi;

/// The alarms that have a test below.
const PROVEN: [&str; 12] = [
    "AnswerLostAlarm",
    "CallsDroppedAlarm",
    "CallsFailAlarm",
    "ErrorLinesAlarm",
    "FailOpenAlarm",
    "LeaseExpiredAlarm",
    "LeaseLostAlarm",
    "MostCallsFailAlarm",
    "MostUnresolvedAlarm",
    "SwitchedOffAlarm",
    "UnconfirmedAlarm",
    "UnresolvedAlarm",
];

/// A function's own alarms begin with these, as its other resources do.
const PREFIXES: [&str; 2] = ["PaymentEvents", "Payments"];

fn name_of(alarm: &Alarm) -> &str {
    let own = PREFIXES.iter().find_map(|prefix| alarm.name.strip_prefix(prefix));
    own.unwrap_or(&alarm.name)
}

/// What a store that is gone raises.
const STORE_IS_GONE: [&str; 3] = ["CallsFailAlarm", "ErrorLinesAlarm", "MostCallsFailAlarm"];

/// As the templates set it, and with nothing below the level of the page's own words.
const FROM_ERROR: [&str; 2] = ["INFO", "ERROR"];
const FROM_WARN: [&str; 2] = ["INFO", "WARN"];

/// The alarms that the log of this function raises, if each minute is as this one.
fn raised(deployment: &Deployment, function: &str, log: &str, calls: usize) -> BTreeSet<String> {
    let filters = deployment.filters.iter().filter(|filter| filter.function == function);
    let raised = filters.flat_map(|Filter { pattern, alarms, .. }| {
        let lines = log.lines().filter(|line| pattern.matches(line)).count();
        alarms.iter().filter(move |alarm| alarm.is_raised(lines, calls))
    });
    raised.map(|alarm| name_of(alarm).to_owned()).collect()
}

/// In the log of one call that failed after another one that did not.
#[track_caller]
fn assert_raises(deployment: &Deployment, function: &str, alarms: &[&str], log: &str) {
    let raised = raised(deployment, function, log, 1);
    for alarm in alarms {
        assert!(raised.contains(*alarm), "{alarm} is not among {raised:?}:\n{log}");
    }
}

#[track_caller]
fn assert_silent(deployment: &Deployment, function: &str, log: &str) {
    assert_eq!(raised(deployment, function, log, 1), BTreeSet::new(), "{log}");
}

fn logging(mut function: Function, level: &str) -> Function {
    function.environment.insert("AWS_LAMBDA_LOG_FORMAT".into(), "JSON".to_owned());
    function.environment.insert("AWS_LAMBDA_LOG_LEVEL".into(), level.to_owned());
    function
}

/// Behind a line that can be cut.
fn over(line: &Line, mut function: Function) -> Function {
    function.environment.insert("AWS_ENDPOINT_URL_DYNAMODB".into(), line.endpoint());
    function
}

fn order(source: &'static str, note: &str) -> Order {
    Order { amount: 1200, source, note: note.to_owned() }
}

/// The answer to a payment with a new key.
async fn pay(emulator: &Emulator) -> event::Response {
    let key = unique("order");
    KIND.response(&emulator.invoke(&KIND.payment(Some(&key), &order("tok_visa", &key))).await)
}

#[test]
#[ignore = "needs a deployment: cargo xtask e2e"]
fn each_alarm_on_a_log_has_its_test_here() {
    let filters = Deployment::load().filters;
    for function in ["payments", "payment-events"] {
        let of = filters.iter().filter(|filter| filter.function == function);
        let alarms = of.flat_map(|filter| &filter.alarms);
        let alarms: BTreeSet<_> = alarms.map(name_of).collect();
        assert_eq!(alarms, BTreeSet::from(PROVEN), "{function}");
    }
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_healthy_function_raises_nothing_and_its_outcomes_are_counted() {
    let deployment = Deployment::load();
    let function = logging(deployment.payments(), "INFO");
    let emulator = Emulator::start(&deployment, &function).await;
    let key = unique("order");
    for source in ["tok_visa", "tok_visa", "tok_declined"] {
        emulator.invoke(&KIND.payment(Some(&key), &order(source, &key))).await;
    }
    let log = emulator.log();
    assert_silent(&deployment, "payments", &log);
    let mut counted = deployment.filters.iter().filter(|filter| filter.function == "payments");
    let outcomes = counted.find(|filter| filter.alarms.is_empty()).expect("a count of outcomes");
    let dimension = outcomes.dimension.as_ref().expect("a dimension");
    let found = log.lines().filter(|line| outcomes.pattern.matches(line));
    let found: Vec<_> = found.filter_map(|line| dimension.text(line)).collect();
    assert_eq!(found, ["first", "replay", "mismatch"], "{log}");
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_store_that_is_gone_or_refuses_raises_a_page_and_tickets() {
    let deployment = Deployment::load();
    let table = unique("deleted");
    let idempotency = Idempotency::new(deployment.client(), &table);
    idempotency.create_table().await.expect("a table");
    let mut function = logging(deployment.payments(), "INFO");
    function.environment.insert("IDEMPOTENCY_TABLE".into(), table.clone());
    let emulator = Emulator::start(&deployment, &function).await;
    assert_eq!(pay(&emulator).await.status, 201);
    assert_silent(&deployment, "payments", &emulator.log());

    deployment.client().delete_table().table_name(&table).send().await.expect("a table");
    assert_eq!(pay(&emulator).await.status, 500);
    assert_raises(&deployment, "payments", &STORE_IS_GONE, &emulator.log());

    let line = Line::to(&deployment.endpoint).await;
    let function = over(&line, logging(deployment.payments(), "INFO"));
    let emulator = Emulator::start(&deployment, &function).await;
    assert_eq!(pay(&emulator).await.status, 201);
    assert_silent(&deployment, "payments", &emulator.log());
    line.deny().await;
    assert_eq!(pay(&emulator).await.status, 500);
    assert_raises(&deployment, "payments", &STORE_IS_GONE, &emulator.log());
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn one_call_in_forty_that_fails_raises_nothing_and_three_raise_tickets() {
    let deployment = Deployment::load();
    let line = Line::to(&deployment.endpoint).await;
    let function = over(&line, logging(deployment.payments(), "INFO"));
    let emulator = Emulator::start(&deployment, &function).await;
    assert_eq!(pay(&emulator).await.status, 201);
    line.cut().await;
    assert_eq!(pay(&emulator).await.status, 503);
    let log = emulator.log();
    let raised = |calls| raised(&deployment, "payments", &log, calls);
    assert_eq!(raised(40), BTreeSet::new(), "{log}");
    let tickets = BTreeSet::from(["CallsFailAlarm", "ErrorLinesAlarm"].map(String::from));
    assert_eq!(raised(40 / 3), tickets, "{log}");
    assert_eq!(raised(1), BTreeSet::from(STORE_IS_GONE.map(String::from)), "{log}");
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_consumer_without_its_store_raises_what_the_api_does() {
    let deployment = Deployment::load();
    let line = Line::to(&deployment.endpoint).await;
    let function = over(&line, logging(deployment.payment_events(), "INFO"));
    let emulator = Emulator::start(&deployment, &function).await;
    let send = async || {
        let event = json!({"payment": unique("pay"), "account": unique("a"), "amount": 5});
        let answer = emulator.invoke(&batch(&[event.to_string()])).await;
        answer["batchItemFailures"].as_array().expect("a report").len()
    };
    assert_eq!(send().await, 0);
    assert_silent(&deployment, "payment-events", &emulator.log());
    line.cut().await;
    assert_eq!(send().await, 1);
    assert_raises(&deployment, "payment-events", &STORE_IS_GONE, &emulator.log());
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_handler_at_the_end_of_its_lease_raises_lease_expired() {
    let deployment = Deployment::load();
    for level in FROM_ERROR {
        let function = logging(deployment.payments(), level);
        let environment = Environment::start(&deployment, &function, 1).await;
        let key = unique("order");
        let stuck = KIND.payment(Some(&key), &order("tok_stuck", &key));
        let answer = environment.invoke(stuck, Duration::from_secs(1)).await;
        KIND.response(&answer).assert_problem(503);
        assert_raises(&deployment, "payments", &["LeaseExpiredAlarm"], &environment.log());
    }
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn an_owner_whose_key_was_taken_raises_lease_lost() {
    let deployment = Deployment::load();
    for level in FROM_ERROR {
        let function = logging(deployment.payments(), level);
        let emulator = Emulator::start(&deployment, &function).await;
        let key = unique("order");
        let pk = format!("payments#{key}");
        let event = KIND.payment(Some(&key), &order("tok_slow", &key));
        let taken = async {
            deployment.wait_for_record(&pk).await;
            let update = deployment.client().update_item();
            let update = update.table_name(deployment.table("IdempotencyTable"));
            let update = update.key("pk", AttributeValue::S(pk.clone()));
            let update = update.update_expression("SET #owner = :another");
            let update = update.expression_attribute_names("#owner", "owner");
            let another = AttributeValue::S("another".to_owned());
            let update = update.expression_attribute_values(":another", another);
            update.send().await.expect("a record");
        };
        tokio::join!(emulator.invoke(&event), taken);
        assert_eq!(deployment.payments_noted(&key).await.len(), 0);
        assert_raises(&deployment, "payments", &["LeaseLostAlarm"], &emulator.log());
    }
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_store_that_goes_while_the_handler_runs_raises_unconfirmed() {
    let deployment = Deployment::load();
    for level in FROM_ERROR {
        // A refusal by the card network is completed: it is the first that says so.
        let line = Line::until(&deployment.endpoint, "COMPLETED").await;
        let function = over(&line, logging(deployment.payments(), level));
        let environment = Environment::start(&deployment, &function, 1).await;
        let key = unique("order");
        let event = KIND.payment(Some(&key), &order("tok_declined", &key));
        let answer = environment.invoke(event, Duration::from_secs(4)).await;
        assert_eq!(KIND.response(&answer).status, 402, "{answer}");
        assert_raises(&deployment, "payments", &["UnconfirmedAlarm"], &environment.log());
    }
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_function_that_is_switched_off_raises_its_page() {
    let deployment = Deployment::load();
    for level in FROM_WARN {
        let mut function = logging(deployment.payments(), level);
        function.environment.insert(DISABLED_ENV.into(), "true".to_owned());
        let emulator = Emulator::start(&deployment, &function).await;
        let key = unique("order");
        emulator.invoke(&KIND.payment(Some(&key), &order("tok_declined", &key))).await;
        assert_raises(&deployment, "payments", &["SwitchedOffAlarm"], &emulator.log());
    }
}

/// The functions of the templates fail closed. What one logs that does not: the example's service under
/// another policy, in the example's own log.
#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn a_service_that_fails_open_raises_its_page() {
    let deployment = Deployment::load();
    for level in FROM_ERROR {
        // Nothing listens there.
        let idempotency = Idempotency::builder(client("http://127.0.0.1:1"), "idempotency")
            .policy(|policy| policy.outage(Outage::Open))
            .build()
            .expect("settings that fit");
        let payments = Payments::new(deployment.client(), deployment.table("PaymentsTable"));
        let service = service(&idempotency, payments).expect("valid settings");
        let log = log_of_a_request(level, service).await;
        assert_raises(&deployment, "payments", &["FailOpenAlarm"], &log);
    }
}

/// No answer of the example is too large. What a service logs whose answers are.
#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn an_answer_that_cannot_be_stored_raises_its_page() {
    let deployment = Deployment::load();
    for level in FROM_ERROR {
        let table = deployment.table("IdempotencyTable");
        let idempotency = Idempotency::new(deployment.client(), table);
        let service = idempotency
            .http("payments")
            .policy(|policy| policy.max_answer_bytes(1024).compression(Compression::Off))
            .wrap(service_fn(async |_: Request<Body>| {
                Ok::<_, Infallible>(Response::new(Body::from("x".repeat(2000))))
            }))
            .expect("valid settings");
        let log = log_of_a_request(level, service).await;
        assert_raises(&deployment, "payments", &["AnswerLostAlarm"], &log);
    }
}

/// The handlers of the example keep no failure. What a service logs whose handlers do.
#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn a_failure_that_is_kept_raises_unresolved() {
    let deployment = Deployment::load();
    let idempotency = Idempotency::new(deployment.client(), deployment.table("IdempotencyTable"));
    let service = idempotency
        .http("payments")
        .policy(|policy| policy.failure(Failure::Replay))
        .wrap(service_fn(async |_: Request<Body>| {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            Ok::<_, Infallible>(response)
        }))
        .expect("valid settings");
    let log = log_of_a_request("INFO", service).await;
    assert_raises(&deployment, "payments", &["MostUnresolvedAlarm", "UnresolvedAlarm"], &log);
}

/// A function's call is dropped only with its environment. What a service logs that drops one.
#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn a_call_that_is_dropped_while_its_handler_runs_raises_its_page() {
    let deployment = Deployment::load();
    for level in FROM_WARN {
        let idempotency =
            Idempotency::new(deployment.client(), deployment.table("IdempotencyTable"));
        let is_running = Arc::new(Notify::new());
        let started = Arc::clone(&is_running);
        let service = idempotency
            .http("payments")
            .wrap(service_fn(move |_: Request<Body>| {
                started.notify_one();
                future::pending::<Result<Response<Body>, Infallible>>()
            }))
            .expect("valid settings");
        let log = log_of(level, async {
            tokio::select! {
                biased;
                () = is_running.notified() => {}
                answer = service.oneshot(payment()) => panic!("{answer:?}"),
            }
        });
        let log = log.await;
        assert_raises(&deployment, "payments", &["CallsDroppedAlarm"], &log);
        let warnings = log.lines().filter(|line| line.contains("was dropped before")).count();
        assert_eq!(warnings, 1, "counted once: {log}");
    }
}

/// What the example's own subscriber writes, of one request in this process.
async fn log_of_a_request<S>(level: &str, service: S) -> String
where
    S: Service<Request<Body>, Error: Debug>,
{
    log_of(level, async { drop(service.oneshot(payment()).await.expect("an answer")) }).await
}

/// A request with a new key.
fn payment() -> Request<Body> {
    let key = unique("order");
    let request = Request::post("/payments").header("idempotency-key", &key);
    request.body(Body::from(order("tok_declined", &key).body())).expect("a request")
}

async fn log_of(level: &str, work: impl Future<Output = ()>) -> String {
    let log = Log::default();
    let writer = log.clone();
    let guard =
        tracing::subscriber::set_default(logs(Some("JSON"), Some(level), move || writer.clone()));
    work.await;
    drop(guard);
    log.text()
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("a text")
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
