//! The two tables: the one of the crate, and the one that counts the effects.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, Put,
    ScalarAttributeType, TransactWriteItem,
};
use dynamodb_idempotency::Idempotency;

use crate::args::Sabotage;

pub(crate) const SCOPE: &str = "torture";
const RECORDS: &str = "idempotency";
const EFFECTS: &str = "effects";
/// The limit for a request of the crate, shorter than the shortest lease.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(1_500);
const TRY_TIMEOUT: Duration = Duration::from_millis(700);

type Item = HashMap<String, AttributeValue>;

/// A row of the effect table: the handler of this owner had its effect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Effect {
    pub(crate) key: String,
    pub(crate) owner: String,
    pub(crate) attempt: u32,
    /// When the handler started, and when its lease was to expire, in epoch milliseconds.
    pub(crate) started: i64,
    pub(crate) lease_ends: i64,
}

/// A record of the crate, as read from the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    pub(crate) status: String,
    pub(crate) owner: String,
    pub(crate) attempt: u32,
    /// The JSON text of its answer.
    pub(crate) answer: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    client: Client,
}

impl Store {
    pub(crate) fn new(endpoint: &str) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(TRY_TIMEOUT)
            .operation_attempt_timeout(TRY_TIMEOUT)
            .build();
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "torture"))
            .endpoint_url(endpoint)
            .timeout_config(timeouts)
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        Self { client: Client::from_conf(config) }
    }

    pub(crate) fn idempotency(&self) -> Result<Idempotency> {
        let builder = Idempotency::builder(self.client.clone(), RECORDS);
        Ok(builder.request_timeout(REQUEST_TIMEOUT).build()?)
    }

    pub(crate) async fn answers(&self) -> bool {
        // One try: the caller retries, and has other work in between.
        let once = aws_sdk_dynamodb::Config::builder().retry_config(RetryConfig::disabled());
        self.client.list_tables().customize().config_override(once).send().await.is_ok()
    }

    pub(crate) async fn create_tables(&self) -> Result<()> {
        self.idempotency()?.create_table().await?;
        let attribute = |name: &str| {
            let attribute = AttributeDefinition::builder().attribute_name(name);
            attribute.attribute_type(ScalarAttributeType::S).build()
        };
        let key = |name: &str, kind| {
            KeySchemaElement::builder().attribute_name(name).key_type(kind).build()
        };
        self.client
            .create_table()
            .table_name(EFFECTS)
            .billing_mode(BillingMode::PayPerRequest)
            .attribute_definitions(attribute("key")?)
            .attribute_definitions(attribute("owner")?)
            .key_schema(key("key", KeyType::Hash)?)
            .key_schema(key("owner", KeyType::Range)?)
            .send()
            .await?;
        Ok(())
    }

    /// Writes an effect without a condition, like a payment to another system. Its key contains the owner,
    /// so a repeat by the same owner is the same effect.
    pub(crate) async fn put_effect(&self, effect: &Effect) -> Result<()> {
        let put = self.client.put_item().table_name(EFFECTS).set_item(Some(item(effect)));
        put.send().await?;
        Ok(())
    }

    pub(crate) async fn effects(&self) -> Result<Vec<Effect>> {
        self.scan(EFFECTS).await?.iter().map(effect).collect()
    }

    /// Returns the records by the caller's key.
    pub(crate) async fn records(&self) -> Result<HashMap<String, Stored>> {
        self.scan(RECORDS).await?.iter().map(stored).collect()
    }

    async fn scan(&self, table: &str) -> Result<Vec<Item>> {
        let scan = self.client.scan().table_name(table).consistent_read(true);
        let mut pages = scan.into_paginator().send();
        let mut items = Vec::new();
        while let Some(page) = pages.next().await {
            items.extend(page.context("the tables cannot be read")?.items.unwrap_or_default());
        }
        Ok(items)
    }

    /// Corrupts the stored data of `effect` and its key.
    pub(crate) async fn spoil(&self, effect: &Effect, how: Sabotage) -> Result<()> {
        match how {
            Sabotage::Answer => {
                let wrong = HashMap::from([("json".to_owned(), text("{}"))]);
                self.set(&effect.key, "response", AttributeValue::M(wrong)).await
            }
            Sabotage::Status => self.set(&effect.key, "status", text("PENDING")).await,
            Sabotage::Effect => {
                self.put_effect(&Effect { owner: "unknown".into(), ..effect.clone() }).await
            }
            Sabotage::LostEffect => {
                let delete = self.client.delete_item().table_name(EFFECTS);
                delete
                    .key("key", text(&effect.key))
                    .key("owner", text(&effect.owner))
                    .send()
                    .await?;
                Ok(())
            }
        }
    }

    async fn set(&self, key: &str, name: &str, value: AttributeValue) -> Result<()> {
        self.client
            .update_item()
            .table_name(RECORDS)
            .key("pk", text(&format!("{SCOPE}#{key}")))
            .update_expression("SET #name = :value")
            .expression_attribute_names("#name", name)
            .expression_attribute_values(":value", value)
            .send()
            .await?;
        Ok(())
    }
}

/// The same row as part of a commit.
pub(crate) fn effect_to_commit(effect: &Effect) -> Result<TransactWriteItem> {
    let put = Put::builder().table_name(EFFECTS).set_item(Some(item(effect))).build()?;
    Ok(TransactWriteItem::builder().put(put).build())
}

fn item(effect: &Effect) -> Item {
    let number = |number: String| AttributeValue::N(number);
    HashMap::from([
        ("key".to_owned(), text(&effect.key)),
        ("owner".to_owned(), text(&effect.owner)),
        ("attempt".to_owned(), number(effect.attempt.to_string())),
        ("started".to_owned(), number(effect.started.to_string())),
        ("lease_ends".to_owned(), number(effect.lease_ends.to_string())),
    ])
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn effect(item: &Item) -> Result<Effect> {
    Ok(Effect {
        key: string(item, "key")?,
        owner: string(item, "owner")?,
        attempt: number(item, "attempt")?,
        started: number(item, "started")?,
        lease_ends: number(item, "lease_ends")?,
    })
}

fn stored(item: &Item) -> Result<(String, Stored)> {
    let pk = string(item, "pk")?;
    let (_scope, key) = pk.split_once('#').context("a record without a key")?;
    let response = item.get("response").and_then(|response| response.as_m().ok());
    let record = Stored {
        status: string(item, "status")?,
        owner: string(item, "owner")?,
        attempt: number(item, "attempt")?,
        answer: response.and_then(|response| string(response, "json").ok()),
    };
    Ok((key.to_owned(), record))
}

fn string(item: &Item, name: &str) -> Result<String> {
    match item.get(name) {
        Some(AttributeValue::S(text)) => Ok(text.clone()),
        other => bail!("`{name}` should be a string and is {other:?}"),
    }
}

fn number<T: std::str::FromStr>(item: &Item, name: &str) -> Result<T> {
    let text = match item.get(name) {
        Some(AttributeValue::N(text)) => text,
        other => bail!("`{name}` should be a number and is {other:?}"),
    };
    text.parse().ok().with_context(|| format!("`{name}` is {text}"))
}
