//! What `cargo xtask e2e` has prepared, and what is stored in it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::Deserialize;
use serde_json::Value;

use crate::PATIENCE;
use crate::dynamodb::client;
use crate::filter::{Pattern, Selector};

pub type Item = HashMap<String, AttributeValue>;

const PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, Deserialize)]
pub struct Deployment {
    /// The program of the Runtime Interface Emulator.
    pub emulator: PathBuf,
    /// DynamoDB Local.
    pub endpoint: String,
    /// The folder with the program `cargo-lambda`.
    pub cargo_lambda: PathBuf,
    /// The program `idempotency`.
    pub command_line: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    /// Names of tables, by their ids in the template.
    tables: BTreeMap<String, String>,
    functions: BTreeMap<String, Settings>,
    pub filters: Vec<Filter>,
    pub moto: Moto,
    /// The folder with `FUNCTION/bootstrap`, if the debug builds are not meant.
    bootstraps: Option<PathBuf>,
}

/// What emulates the services of AWS that DynamoDB Local does not have.
#[derive(Clone, Debug, Deserialize)]
pub struct Moto {
    pub endpoint: String,
    /// The folder with the AWS CLI.
    pub programs: PathBuf,
    /// The statements of the restorer's role.
    pub restorer: Value,
}

/// The settings of a function in the template.
#[derive(Clone, Debug, Deserialize)]
struct Settings {
    environment: BTreeMap<String, String>,
    memory_mb: u32,
    timeout_s: u32,
}

/// A metric filter of the template.
#[derive(Clone, Debug, Deserialize)]
pub struct Filter {
    /// Whose log it counts in, by the binary's name.
    pub function: String,
    pub pattern: Pattern,
    /// The alarms on what it counts.
    pub alarms: Vec<Alarm>,
    /// What it sorts by, where it has no alarm.
    pub dimension: Option<Selector>,
}

/// An alarm of the template: on a number of lines, or on how many there are for 100 invocations.
#[derive(Clone, Debug, Deserialize)]
pub struct Alarm {
    pub name: String,
    threshold: usize,
    is_share: bool,
}

impl Alarm {
    /// Whether so many lines in each minute raise it.
    pub fn is_raised(&self, lines: usize, invocations: usize) -> bool {
        if self.is_share {
            lines * 100 > self.threshold * invocations
        } else {
            lines > self.threshold
        }
    }
}

/// What Lambda starts.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: &'static str,
    pub binary: PathBuf,
    pub environment: BTreeMap<String, String>,
    pub memory_mb: u32,
    pub timeout_s: u32,
}

impl Deployment {
    pub fn load() -> Self {
        let file = std::env::var("E2E_DEPLOYMENT").expect("run these tests by `cargo xtask e2e`");
        let text = std::fs::read_to_string(file).expect("the prepared deployment");
        serde_json::from_str(&text).expect("a deployment")
    }

    /// The same with another emulator of DynamoDB.
    pub fn at(&self, endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), ..self.clone() }
    }

    /// The payments API.
    pub fn payments(&self) -> Function {
        self.function("payments", Path::new(env!("CARGO_BIN_EXE_payments")))
    }

    /// The consumer of payment events.
    pub fn payment_events(&self) -> Function {
        self.function("payment-events", Path::new(env!("CARGO_BIN_EXE_payment-events")))
    }

    fn function(&self, name: &'static str, debug: &Path) -> Function {
        let built = self.bootstraps.as_ref().map(|folder| folder.join(name).join("bootstrap"));
        let settings = self.functions.get(name).expect("a function of the template").clone();
        let Settings { environment, memory_mb, timeout_s } = settings;
        let binary = built.unwrap_or_else(|| debug.to_owned());
        Function { name, binary, environment, memory_mb, timeout_s }
    }

    /// The variables that Lambda sets, with the way to this deployment's tables.
    pub fn lambda_environment(&self, function: &Function) -> BTreeMap<String, String> {
        let lambdas = [
            ("AWS_LAMBDA_FUNCTION_NAME", function.name.to_owned()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", function.memory_mb.to_string()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "local".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.endpoint.clone()),
        ];
        let lambdas = lambdas.into_iter().map(|(name, value)| (name.to_owned(), value));
        lambdas.chain(function.environment.clone()).collect()
    }

    pub fn table(&self, id: &str) -> &str {
        self.tables.get(id).expect("a table of the template")
    }

    pub fn client(&self) -> Client {
        client(&self.endpoint)
    }

    /// The idempotency record of a key.
    pub async fn record(&self, pk: &str) -> Option<Item> {
        let get = self.client().get_item().table_name(self.table("IdempotencyTable"));
        let key = AttributeValue::S(pk.to_owned());
        get.key("pk", key).consistent_read(true).send().await.expect("a table").item
    }

    /// Waits until a key has a record.
    pub async fn wait_for_record(&self, pk: &str) {
        let recorded = async {
            while self.record(pk).await.is_none() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(PATIENCE, recorded).await.expect("a key that is taken");
    }

    /// The payments that were made with this note.
    pub async fn payments_noted(&self, note: &str) -> Vec<Item> {
        let scan = self.client().scan().table_name(self.table("PaymentsTable"));
        let mut pages = scan.consistent_read(true).into_paginator().items().send();
        let mut payments = Vec::new();
        while let Some(payment) = pages.next().await {
            let payment = payment.expect("a table");
            if payment.get("note") == Some(&AttributeValue::S(note.to_owned())) {
                payments.push(payment);
            }
        }
        payments
    }
}

pub fn text<'a>(record: &'a Item, attribute: &str) -> &'a str {
    record.get(attribute).and_then(|value| value.as_s().ok()).expect("a text attribute")
}

pub fn number<'a>(record: &'a Item, attribute: &str) -> &'a str {
    record.get(attribute).and_then(|value| value.as_n().ok()).expect("a number attribute")
}
