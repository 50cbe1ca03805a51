//! The ledger, with one item for each payment.

use std::time::SystemTime;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use dynamodb_idempotency::rows::Table;
use lambda_http::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::charge::{Order, random_id};
use crate::charges::Network;
use crate::dynamodb::create_table;

/// A payment as stored in the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    tenant: String,
    pub(crate) id: String,
    amount: u64,
    currency: String,
    status: String,
    note: Option<String>,
    /// Epoch seconds.
    created: u64,
}

impl Payment {
    /// A new payment. Each run of the handler creates another one. The ledger still has one for each key,
    /// because a payment is committed with its answer.
    pub(crate) fn new(tenant: &str, order: &Order) -> Result<Self, Error> {
        let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        Ok(Self {
            tenant: tenant.to_owned(),
            id: random_id("pay")?,
            amount: order.amount,
            currency: order.currency.clone(),
            status: "succeeded".to_owned(),
            note: order.note.clone(),
            created,
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "amount": self.amount,
            "currency": self.currency,
            "status": self.status,
            "note": self.note,
            "created": self.created,
        })
    }
}

/// The table of payments and accounts: partition key `tenant`, sort key `id`.
#[derive(Clone, Debug)]
pub struct Payments {
    pub(crate) client: Client,
    pub(crate) table: String,
}

impl Payments {
    /// Uses `table` through `client`.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }

    /// Returns the card network, whose charges are in this table too.
    pub(crate) fn network(&self) -> Network {
        Network::new(self.client.clone(), self.table.clone())
    }

    /// Returns the write of a new payment, which is committed with its answer.
    pub(crate) fn booking(&self, payment: &Payment) -> Result<TransactWriteItem, Error> {
        Ok(Table::new(&self.table, "tenant").sort_key("id").put_new(payment)?)
    }

    pub(crate) async fn get(&self, tenant: &str, id: &str) -> Result<Option<Payment>, Error> {
        let found = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("tenant", AttributeValue::S(tenant.to_owned()))
            .key("id", AttributeValue::S(id.to_owned()))
            .consistent_read(true)
            .send()
            .await?;
        Ok(found.item.map(serde_dynamo::from_item).transpose()?)
    }

    /// Returns a tenant's payments, the oldest first.
    pub(crate) async fn of(&self, tenant: &str) -> Result<Vec<Payment>, Error> {
        let mut pages = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("tenant = :tenant")
            .expression_attribute_values(":tenant", AttributeValue::S(tenant.to_owned()))
            .consistent_read(true)
            .into_paginator()
            .items()
            .send();
        let mut payments: Vec<Payment> = Vec::new();
        while let Some(item) = pages.next().await {
            payments.push(serde_dynamo::from_item(item?)?);
        }
        payments.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        Ok(payments)
    }

    /// Creates the table if it does not exist.
    ///
    /// # Errors
    /// If DynamoDB returns an error.
    pub async fn create_table(&self) -> Result<(), Error> {
        create_table(&self.client, &self.table, "tenant").await
    }
}
