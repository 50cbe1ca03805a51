//! The ledger of payment events, with one entry for each booking.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::TransactWriteItem;
use dynamodb_idempotency::rows::Table;
use lambda_http::Error;
use serde::{Deserialize, Serialize};

use crate::charge::random_id;
use crate::dynamodb::create_table;
use crate::payment_events::PaymentEvent;

/// One booking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The account whose balance it changes.
    pub account: String,
    id: String,
    /// The payment that it books.
    pub payment: String,
    /// In the currency's smallest unit; negative for a refund.
    pub amount: i64,
}

/// The table of entries: partition key `account`, sort key `id`.
#[derive(Clone, Debug)]
pub struct Ledger {
    client: Client,
    table: String,
}

impl Ledger {
    /// Uses `table` through `client`.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self { client, table: table.into() }
    }

    /// Returns the write that books an event. Each booking is a separate entry, so the ledger would show a
    /// duplicate.
    pub(crate) fn booking(&self, event: &PaymentEvent) -> Result<TransactWriteItem, Error> {
        let entry = Entry {
            account: event.account.clone(),
            id: random_id("entry")?,
            payment: event.payment.clone(),
            amount: event.amount,
        };
        Ok(Table::new(&self.table, "account").sort_key("id").put(&entry)?)
    }

    /// Returns all entries, in no order.
    ///
    /// # Errors
    /// If DynamoDB returns an error.
    pub async fn entries(&self) -> Result<Vec<Entry>, Error> {
        let scan = self.client.scan().table_name(&self.table).consistent_read(true);
        let mut pages = scan.into_paginator().items().send();
        let mut entries = Vec::new();
        while let Some(item) = pages.next().await {
            entries.push(serde_dynamo::from_item(item?)?);
        }
        Ok(entries)
    }

    /// Creates the table if it does not exist.
    ///
    /// # Errors
    /// If DynamoDB returns an error.
    pub async fn create_table(&self) -> Result<(), Error> {
        create_table(&self.client, &self.table, "account").await
    }
}
