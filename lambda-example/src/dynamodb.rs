//! The tables of the application.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use lambda_http::Error;

/// Creates a table with this partition key and the sort key `id`, if it does not exist.
pub(crate) async fn create_table(
    client: &Client,
    table: &str,
    partition_key: &str,
) -> Result<(), Error> {
    let mut request =
        client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    for (name, key_type) in [(partition_key, KeyType::Hash), ("id", KeyType::Range)] {
        let attribute = AttributeDefinition::builder().attribute_name(name);
        let key = KeySchemaElement::builder().attribute_name(name).key_type(key_type);
        request = request
            .attribute_definitions(attribute.attribute_type(ScalarAttributeType::S).build()?)
            .key_schema(key.build()?);
    }
    match request.send().await.map_err(SdkError::into_service_error) {
        Ok(_) => Ok(()),
        Err(error) if error.is_resource_in_use_exception() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
