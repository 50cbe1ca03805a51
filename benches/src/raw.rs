//! The same requests written by hand, as a user without the crate would write them.
//!
//! The record is that of `docs/protocol.md`. There is no fingerprint, no computation of a lease, and
//! no classification of errors: times and owner are given.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};

/// An item as the SDK has it.
pub type Item = HashMap<String, AttributeValue>;

const OWNER: &str = "0123456789abcdef0123456789abcdef";
/// The table that the requests name.
pub const TABLE: &str = "idempotency";

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn put(client: &Client, pk: &str, status: &str) -> PutItemFluentBuilder {
    client
        .put_item()
        .table_name(TABLE)
        .item("pk", text(pk))
        .item("status", text(status))
        .item("owner", text(OWNER))
        .item("attempt", number(1))
        .item("fingerprint", AttributeValue::B(Blob::new([7; 33])))
        .item("created_at", number(2_362_034_977_000))
        .item("format", number(1))
        .expression_attribute_names("#key", "pk")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

/// Takes a key that is free.
///
/// # Errors
/// What the SDK says.
pub async fn create(client: &Client, pk: &str) -> Result<(), Box<SdkError<PutItemError>>> {
    put(client, pk, "PENDING")
        .item("lease_expires_at", number(2_362_035_007_000))
        .item("expires_at", number(2_362_121_407))
        .condition_expression("(attribute_not_exists(#key))")
        .send()
        .await
        .map_or_else(|error| Err(Box::new(error)), |_| Ok(()))
}

/// Stores the answer.
///
/// # Errors
/// What the SDK says.
pub async fn complete(client: &Client, pk: &str, response: AttributeValue) -> Result<()> {
    put(client, pk, "COMPLETED")
        .item("completed_at", number(2_362_034_977_000))
        .item("expires_at", number(2_362_121_377))
        .item("response", response)
        .condition_expression(
            "(#owner = :is0 AND #status = :is1) OR (attribute_not_exists(#key)) OR (#status = :is2 AND #attempt <= :is3)",
        )
        .expression_attribute_names("#attempt", "attempt")
        .expression_attribute_names("#status", "status")
        .expression_attribute_names("#owner", "owner")
        .expression_attribute_values(":is3", number(1))
        .expression_attribute_values(":is1", text("PENDING"))
        .expression_attribute_values(":is2", text("RELEASED"))
        .expression_attribute_values(":is0", text(OWNER))
        .send()
        .await?;
    Ok(())
}

/// Tries to take a key that is not free; the item that has it.
///
/// # Errors
/// When the key was free after all, or DynamoDB gave no such answer.
pub async fn refused(client: &Client, pk: &str) -> Result<Item> {
    match create(client, pk).await {
        Ok(()) => bail!("the key was free"),
        Err(error) => match error.into_service_error() {
            PutItemError::ConditionalCheckFailedException(failed) => {
                failed.item.context("no item came with the refusal")
            }
            error => Err(error.into()),
        },
    }
}

/// A function's answer in its stored form.
#[must_use]
pub fn json_answer(json: String) -> AttributeValue {
    AttributeValue::M(HashMap::from([("json".to_owned(), AttributeValue::S(json))]))
}

/// An HTTP answer in its stored form.
#[must_use]
pub fn http_answer(body: &str) -> AttributeValue {
    let header = vec![text("content-type"), text("application/json")];
    AttributeValue::M(HashMap::from([
        ("status".to_owned(), number(201)),
        ("headers".to_owned(), AttributeValue::L(vec![AttributeValue::L(header)])),
        ("body".to_owned(), text(body)),
    ]))
}

/// The text under `field` of a stored answer.
///
/// # Errors
/// When there is none.
pub fn answer(mut item: Item, field: &str) -> Result<String> {
    let response = item.remove("response").context("no answer")?;
    match response {
        AttributeValue::M(mut fields) => match fields.remove(field) {
            Some(AttributeValue::S(text)) => Ok(text),
            _ => bail!("no text in `{field}`"),
        },
        _ => bail!("the answer is no map"),
    }
}
