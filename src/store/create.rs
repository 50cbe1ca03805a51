//! Creates the table that `infra/` deploys, for applications without a stack.

use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
    TableDescription, TableStatus, TimeToLiveSpecification,
};

use super::Table;
use super::error_code::Response;
use super::request_error::{DynamoError, RequestError};
use crate::clock::Backoff;
use crate::error::{Error, ErrorKind};
use crate::store::schema::TableSchema;

/// The time limit for a new table to become active.
const ACTIVE_WITHIN: Duration = Duration::from_secs(60);

impl Table {
    /// Returns whether this call created the table. For a table that exists, the permission to create it is not
    /// needed.
    pub(crate) async fn create_table(&self) -> Result<bool, Error> {
        let is_new = !self.exists().await? && self.create().await?;
        self.wait_until_active().await?;
        self.enable_ttl().await?;
        Ok(is_new)
    }

    async fn exists(&self) -> Result<bool, Error> {
        match self.client.describe_table().table_name(&self.name).send().await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some("ResourceNotFoundException") => Ok(false),
            Err(error) => Err(self.explained(error)),
        }
    }

    /// Returns whether this request created the table.
    async fn create(&self) -> Result<bool, Error> {
        let mut request = self
            .client
            .create_table()
            .table_name(&self.name)
            .billing_mode(BillingMode::PayPerRequest);
        for (name, key_type) in self.schema.key_names().zip([KeyType::Hash, KeyType::Range]) {
            let definition = AttributeDefinition::builder().attribute_name(name);
            let definition = definition.attribute_type(ScalarAttributeType::S).build();
            let element = KeySchemaElement::builder().attribute_name(name).key_type(key_type);
            request = request
                .attribute_definitions(definition.map_err(incomplete)?)
                .key_schema(element.build().map_err(incomplete)?);
        }
        match request.send().await {
            Ok(_) => Ok(true),
            // Another process has created it meanwhile.
            Err(error) if error.code() == Some("ResourceInUseException") => Ok(false),
            Err(error) => Err(self.explained(error)),
        }
    }

    async fn wait_until_active(&self) -> Result<(), Error> {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        let end = self.clock.lasting(ACTIVE_WITHIN);
        loop {
            let described = self.client.describe_table().table_name(&self.name).send().await;
            let table = described.map_err(|error| self.explained(error))?.table;
            let table = table.unwrap_or_else(|| TableDescription::builder().build());
            // A table that existed before may belong to another application, so it is not changed.
            let (name, keys) = (&self.name, keys_of(&table));
            if keys != expected_keys(&self.schema) {
                let message = format!(
                    "table `{name}` exists, but its keys are not those of the TableSchema: {keys}"
                );
                return Err(Error::new(ErrorKind::Configuration, message));
            }
            if table.table_status == Some(TableStatus::Active) {
                return Ok(());
            }
            if self.clock.is_over(end) {
                let message = format!("table `{name}` is not active after a minute");
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            self.clock.sleep(backoff.next_bound()).await;
        }
    }

    async fn enable_ttl(&self) -> Result<(), Error> {
        let ttl = TimeToLiveSpecification::builder()
            .attribute_name(self.schema.ttl_name())
            .enabled(true)
            .build()
            .map_err(incomplete)?;
        let request = self
            .client
            .update_time_to_live()
            .table_name(&self.name)
            .time_to_live_specification(ttl);
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) if ttl_says(&error, IS_ON_ANOTHER) => {
                let (table, ours) = (&self.name, self.schema.ttl_name());
                let message = format!(
                    "the time to live of table `{table}` is enabled for another attribute than `{ours}`, so \
                     no record is deleted: turn it off and on again for `{ours}`, or set \
                     TableSchema::ttl_attribute"
                );
                Err(Error::new(ErrorKind::Configuration, message).with_source(Response::of(&error)))
            }
            Err(error) if ttl_says(&error, IS_ON) => Ok(()),
            Err(error) => Err(self.explained(error)),
        }
    }

    /// Returns what an error or a log may contain of DynamoDB's message.
    #[cfg(feature = "admin")]
    pub(crate) fn says(error: &impl ProvideErrorMetadata) -> String {
        super::error_code::says(error)
    }

    /// Returns the error of a request that was sent without a time limit of the crate.
    pub(crate) fn explained<E: Into<DynamoError>>(&self, error: SdkError<E>) -> Error {
        RequestError::new(error, true).explain(self.destination())
    }
}

/// Describes the keys of a table.
pub(crate) fn keys_of(table: &TableDescription) -> String {
    let kind_of = |name: &str| {
        let mut definitions = table.attribute_definitions().iter();
        let definition = definitions.find(|definition| definition.attribute_name() == name);
        definition.map_or("?", |definition| definition.attribute_type().as_str())
    };
    let keys = table.key_schema().iter().map(|key| {
        let name = key.attribute_name();
        format!("`{name}` ({}, {})", key.key_type().as_str(), kind_of(name))
    });
    keys.collect::<Vec<_>>().join(" and ")
}

/// Describes the keys of the schema, in the format of [`keys_of`].
pub(crate) fn expected_keys(schema: &TableSchema) -> String {
    let keys = schema.key_names().zip(["HASH", "RANGE"]);
    let keys = keys.map(|(name, key_type)| format!("`{name}` ({key_type}, S)"));
    keys.collect::<Vec<_>>().join(" and ")
}

fn incomplete(source: aws_sdk_dynamodb::error::BuildError) -> Error {
    Error::new(ErrorKind::InvalidInput, "the table cannot be described").with_source(source)
}

/// DynamoDB's error for a second request to enable the time to live, for the same or another
/// attribute, without spaces and in lower case. The embedded engine's error for another attribute
/// contains both.
const IS_ON: &str = "alreadyenabled";
const IS_ON_ANOTHER: &str = "differentattributename";

/// DynamoDB reports a change that it does not make as a `ValidationException` with the reason.
fn ttl_says(error: &impl ProvideErrorMetadata, words: &str) -> bool {
    let says = error.message().unwrap_or_default().replace(' ', "").to_lowercase();
    says.contains(words)
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::config::http::HttpResponse;
    use aws_sdk_dynamodb::error::ErrorMetadata;
    use aws_sdk_dynamodb::operation::update_time_to_live::UpdateTimeToLiveError;
    use aws_smithy_types::body::SdkBody;

    use super::*;

    #[test]
    fn a_time_to_live_on_another_attribute_is_recognized() {
        let denied = |message: &str| {
            let meta = ErrorMetadata::builder().code("ValidationException").message(message);
            let response = HttpResponse::new(400.try_into().unwrap(), SdkBody::empty());
            SdkError::service_error(UpdateTimeToLiveError::generic(meta.build()), response)
        };
        let is_on = denied("TimeToLive is already enabled");
        assert!(ttl_says(&is_on, IS_ON) && !ttl_says(&is_on, IS_ON_ANOTHER));
        let other = denied(
            "TimeToLive is active on a different AttributeName: current AttributeName is ttl",
        );
        assert!(ttl_says(&other, IS_ON_ANOTHER) && !ttl_says(&other, IS_ON));
        let embedded = denied("TimeToLive is already enabled with a different attribute name");
        assert!(ttl_says(&embedded, IS_ON_ANOTHER));
    }
}
