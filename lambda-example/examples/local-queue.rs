//! Feeds the consumer of payment events from a simulated SQS queue: messages arrive twice and in any
//! order, producers send twice, and the function sometimes crashes.
//!
//! ```text
//! cargo run -p lambda-example --example local-queue -- --seed 7 --payments 20
//! ```
//!
//! The same seed gives the same stream of messages. `DYNAMODB_ENDPOINT` selects another DynamoDB than the
//! embedded one.

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, Region};
use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::messages::{BatchResponse, ItemIdentifier};
use dynamodb_idempotency::policy::Lease;
use dynamodb_idempotency::{Idempotency, sdk_config_loader};
use lambda_example::{Ledger, book, payment_events};
use lambda_http::lambda_runtime::{Context, LambdaEvent};
use lambda_http::{Error, Service};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

const USAGE: &str = "usage: cargo run -p lambda-example --example local-queue -- \
                     [--seed N] [--payments N]";

/// The maximum number of messages per invocation.
const BATCH: usize = 6;
/// How long the messages of a crashed function stay invisible: longer than its lease, plus the one-second
/// precision of DynamoDB's clock.
const VISIBILITY_TIMEOUT: Duration = Duration::from_millis(4500);
const LEASE: Duration = Duration::from_secs(3);
/// How long after a failure a message is redelivered.
const RETRY: Duration = Duration::from_millis(500);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns `false` if a payment was not booked exactly once.
async fn run() -> Result<bool, Error> {
    // This example provokes failures. They are counted and not printed.
    let log = std::env::var("RUST_LOG").unwrap_or_else(|_| "off".to_owned());
    tracing_subscriber::registry().with(fmt::layer()).with(log.parse::<Targets>()?).init();
    let Some(Arguments { seed, payments }) = arguments(std::env::args().skip(1))? else {
        println!("{USAGE}");
        return Ok(true);
    };
    let client = dynamodb().await?;
    let idempotency = Idempotency::builder(client.clone(), "idempotency-of-events")
        .policy(|policy| policy.lease(Lease::Fixed(LEASE)))
        .build()?;
    idempotency.create_table().await?;
    // A separate ledger for each run, because DynamoDB may outlive the run.
    let ledger = Ledger::new(client, format!("ledger-{}", unique()?));
    ledger.create_table().await?;

    let mut chance = Chance(seed);
    let mut queue = Queue::sent(payments, &mut chance)?;
    println!("seed {seed}: {payments} payments in {} messages\n", queue.sent);
    let tally = deliver_all(&idempotency, &ledger, &mut queue, chance).await?;
    report(payments, &queue, &tally, &ledger).await
}

struct Arguments {
    seed: u64,
    payments: u64,
}

/// Returns `None` for `--help`.
fn arguments(mut given: impl Iterator<Item = String>) -> Result<Option<Arguments>, Error> {
    let mut arguments = Arguments { seed: 1, payments: 12 };
    while let Some(name) = given.next() {
        let target = match name.as_str() {
            "--help" | "-h" => return Ok(None),
            "--seed" => &mut arguments.seed,
            "--payments" => &mut arguments.payments,
            other => return Err(format!("unknown argument `{other}`\n{USAGE}").into()),
        };
        let value = given.next().unwrap_or_default();
        *target = value.parse().map_err(|_| format!("{name} takes a number, not `{value}`"))?;
    }
    Ok(Some(arguments))
}

/// A client of `DYNAMODB_ENDPOINT`, or of a DynamoDB inside this process.
async fn dynamodb() -> Result<Client, Error> {
    let mut endpoint = std::env::var("DYNAMODB_ENDPOINT").unwrap_or_default();
    if endpoint.is_empty() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        endpoint = format!("http://{}", listener.local_addr()?);
        tokio::spawn(dynoxide::server::serve_on(listener, dynoxide::Database::memory()?));
    }
    let config = sdk_config_loader()
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(endpoint)
        .load()
        .await;
    Ok(Client::new(&config))
}

fn unique() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

/// Random numbers from the seed: splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }
}

#[derive(Clone)]
struct Sent {
    id: String,
    payment: String,
    body: String,
}

/// The messages in the queue.
struct Queue {
    visible: VecDeque<Sent>,
    /// Messages that are invisible until a time, because they failed or their function crashed.
    invisible: Vec<(Instant, Vec<Sent>)>,
    sent: usize,
    payments: BTreeMap<String, i64>,
}

impl Queue {
    /// Sends each payment. A producer whose call timed out sends it twice.
    fn sent(payments: u64, chance: &mut Chance) -> Result<Self, Error> {
        let (mut visible, mut amounts) = (VecDeque::new(), BTreeMap::new());
        // An earlier run on the same table has other keys.
        let run = unique()?;
        for number in 1..=payments {
            let (payment, amount) = (format!("pay-{number:03}"), 100 + 25 * (number % 9));
            let amount = i64::try_from(amount)?;
            let key = format!("{payment}-{run:016x}");
            let body =
                json!({"payment": key, "account": format!("acc-{}", number % 3), "amount": amount});
            let copies = if chance.one_in(4) { 2 } else { 1 };
            for copy in 1..=copies {
                let id = format!("{payment}/{copy}");
                let sent = Sent { id, payment: payment.clone(), body: body.to_string() };
                let place = usize::try_from(chance.below(visible.len() as u64 + 1))?;
                visible.insert(place, sent);
            }
            amounts.insert(key, amount);
        }
        Ok(Self { sent: visible.len(), visible, invisible: Vec::new(), payments: amounts })
    }

    fn reappear(&mut self) {
        let now = Instant::now();
        for (_, sent) in self.invisible.extract_if(.., |(until, _)| *until <= now) {
            self.visible.extend(sent);
        }
    }

    /// Returns the next batch, in random order.
    fn receive(&mut self, chance: &mut Chance) -> Result<Vec<Sent>, Error> {
        let mut batch = Vec::new();
        while batch.len() < BATCH && !self.visible.is_empty() {
            let place = usize::try_from(chance.below(self.visible.len() as u64))?;
            batch.extend(self.visible.remove(place));
        }
        Ok(batch)
    }
}

#[derive(Default)]
struct Tally {
    deliveries: usize,
    invocations: usize,
    crashes: usize,
    runs: usize,
}

/// Instructions for the handler, and its results.
#[derive(Default)]
struct Stage {
    /// The payment at which the function crashes, and whether it is booked before the crash.
    dies_at: Mutex<Option<(String, bool)>>,
    died: Notify,
    ran: Mutex<Vec<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

async fn deliver_all(
    idempotency: &Idempotency,
    ledger: &Ledger,
    queue: &mut Queue,
    mut chance: Chance,
) -> Result<Tally, Error> {
    let stage = Arc::new(Stage::default());
    let (on_stage, booked_in) = (Arc::clone(&stage), ledger.clone());
    let service = payment_events(idempotency).handler(move |message, execution| {
        let (stage, ledger) = (Arc::clone(&on_stage), booked_in.clone());
        async move {
            let key = message.key().unwrap_or_default().to_owned();
            locked(&stage.ran).push(key.clone());
            let dies = locked(&stage.dies_at).take_if(|(payment, _)| key.starts_with(&**payment));
            let booked = match dies {
                Some((_, false)) => Ok(()),
                Some((_, true)) | None => book(ledger, message, execution).await,
            };
            if dies.is_some() {
                // The rest of the batch is in flight and is lost too.
                stage.died.notify_one();
                std::future::pending::<()>().await;
            }
            booked
        }
    })?;
    let mut tally = Tally::default();
    while !(queue.visible.is_empty() && queue.invisible.is_empty()) {
        queue.reappear();
        if queue.visible.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        let batch = queue.receive(&mut chance)?;
        let victim = &batch[usize::try_from(chance.below(batch.len() as u64))?];
        let dies_at = chance.one_in(4).then(|| (victim.payment.clone(), chance.one_in(2)));
        *locked(&stage.dies_at) = dies_at;
        tally.deliveries += batch.len();
        tally.invocations += 1;
        let answer = invoke(&service, &stage, &batch).await?;
        let again = if let Some(answer) = answer {
            settle(queue, &batch, &answer, &mut chance)
        } else {
            tally.crashes += 1;
            queue.invisible.push((Instant::now() + VISIBILITY_TIMEOUT, batch.clone()));
            vec!["the function died".to_owned()]
        };
        let names: Vec<_> = batch.iter().map(|sent| sent.id.as_str()).collect();
        let ran = std::mem::take(&mut *locked(&stage.ran));
        tally.runs += ran.len();
        println!("{:>3}  {}", tally.invocations, names.join(" "));
        println!("     ran {}; redelivered: {}", ran.len(), or_none(&again));
    }
    Ok(tally)
}

fn or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}

/// Redelivers the messages that the response reports, and sometimes other messages.
fn settle(
    queue: &mut Queue,
    batch: &[Sent],
    answer: &BatchResponse,
    chance: &mut Chance,
) -> Vec<String> {
    let failed: Vec<_> = answer.batch_item_failures.iter().map(ItemIdentifier::to_string).collect();
    let (mut again, mut later) = (Vec::new(), Vec::new());
    for sent in batch {
        if failed.contains(&sent.id) {
            again.push(sent.id.clone());
            later.push(sent.clone());
        } else if chance.one_in(5) {
            again.push(format!("{} (done)", sent.id));
            queue.visible.push_back(sent.clone());
        }
    }
    queue.invisible.push((Instant::now() + RETRY, later));
    again
}

/// Invokes the function; `None` if it crashes.
async fn invoke<S>(
    service: &S,
    stage: &Stage,
    batch: &[Sent],
) -> Result<Option<BatchResponse>, Error>
where
    S: Service<LambdaEvent<JsonEvent>, Response = BatchResponse, Error: Into<Error>> + Clone,
{
    let records: Vec<Value> = batch.iter().map(record).collect();
    let mut context = Context::default();
    let deadline = SystemTime::now() + Duration::from_secs(30);
    let deadline = deadline.duration_since(SystemTime::UNIX_EPOCH)?;
    context.deadline = deadline.as_millis().try_into()?;
    let event = LambdaEvent::new(JsonEvent::of(&json!({"Records": records}))?, context);
    let mut service = service.clone();
    tokio::select! {
        biased;
        answer = service.call(event) => answer.map(Some).map_err(Into::into),
        () = stage.died.notified() => Ok(None),
    }
}

/// Returns a message in the form in which SQS sends it.
fn record(sent: &Sent) -> Value {
    json!({
        "messageId": sent.id,
        "receiptHandle": "local",
        "body": sent.body,
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1795255200000"},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:payment-events",
        "awsRegion": "us-east-1",
    })
}

/// Compares the bookings with the payments that were sent.
async fn report(
    payments: u64,
    queue: &Queue,
    tally: &Tally,
    ledger: &Ledger,
) -> Result<bool, Error> {
    let entries = ledger.entries().await?;
    let mut booked: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for entry in &entries {
        booked.entry(&entry.payment).or_default().push(entry.amount);
    }
    let once = queue.payments.iter().filter(|(payment, amount)| {
        booked.get(payment.as_str()).is_some_and(|amounts| amounts == &[**amount])
    });
    let once = u64::try_from(once.count())?;
    let mut balances: BTreeMap<&str, i64> = BTreeMap::new();
    for entry in &entries {
        *balances.entry(&entry.account).or_default() += entry.amount;
    }
    println!("\npayments      {payments}");
    println!("messages      {}", queue.sent);
    println!("delivered     {} in {} invocations", tally.deliveries, tally.invocations);
    println!("died          {} times", tally.crashes);
    println!("handler ran   {} times", tally.runs);
    println!("booked        {} entries, {once} of {payments} payments exactly once", entries.len());
    for (account, balance) in balances {
        println!("  {account}       {balance}");
    }
    Ok(once == payments && entries.len() as u64 == payments)
}
