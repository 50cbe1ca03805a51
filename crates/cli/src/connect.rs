//! Connects to the table.

use std::time::Duration;

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::SharedCredentialsProvider;
use dynamodb_idempotency::{Idempotency, TableSchema, sdk_config_loader};

use crate::args::Target;
use crate::failure::Failure;

/// The name or the ARN of the table.
pub(crate) fn table_name(target: &Target) -> Result<&str, Failure> {
    let table = target.table.as_deref().filter(|table| !table.is_empty()).ok_or_else(|| {
        Failure::Usage("name the table: --table, or the variable IDEMPOTENCY_TABLE".to_owned())
    })?;
    valid_name(table)
}

/// A table's name or its ARN, by the rules of DynamoDB.
pub(crate) fn valid_name(table: &str) -> Result<&str, Failure> {
    let name = if table.starts_with("arn:") {
        table.split_once(":table/").map_or("", |(_, name)| name)
    } else {
        table
    };
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if (3..=255).contains(&name.len()) && name.chars().all(is_of_a_name) {
        return Ok(table);
    }
    Err(Failure::Usage(format!(
        "`{table}` is no table's name: that has 3 to 255 letters, digits, `_`, `-` and `.` (or it is an ARN)"
    )))
}

pub(crate) async fn connect(target: &Target, table: &str) -> Result<Idempotency, Failure> {
    // A request can be tried three times.
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(2))
        .operation_attempt_timeout(target.request_timeout / 3);
    let mut loader = sdk_config_loader().timeout_config(timeouts.build());
    if let Some(url) = &target.endpoint_url {
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            let message = format!("--endpoint-url is `{url}`: it begins with http:// or https://");
            return Err(Failure::Usage(message));
        }
        loader = loader.endpoint_url(url);
    }
    if let Some(region) = &target.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(profile) = &target.profile {
        loader = loader.profile_name(profile);
    }
    let mut config = loader.load().await;
    if let Some(profile) = &target.profile {
        config = with_credentials_of(profile, &config);
    }
    if config.region().is_none() {
        return Err(Failure::Usage(
            "name the region: --region, the variable AWS_REGION, or a profile's".to_owned(),
        ));
    }
    let client = Client::new(&config);
    let builder = Idempotency::builder(client, table).schema(schema(target));
    // Switching idempotency off affects handlers; this program always reads the records.
    let builder = builder.enabled();
    Ok(builder.request_timeout(target.request_timeout).build()?)
}

/// Credentials of the named profile. By default the SDK prefers credentials in the environment.
fn with_credentials_of(profile: &str, config: &SdkConfig) -> SdkConfig {
    let mut provider = ProviderConfig::without_region().with_region(config.region().cloned());
    if let Some(client) = config.http_client() {
        provider = provider.with_http_client(client);
    }
    let credentials = ProfileFileCredentialsProvider::builder().configure(&provider);
    let credentials = credentials.profile_name(profile).build();
    let credentials = SharedCredentialsProvider::new(credentials);
    config.to_builder().credentials_provider(credentials).build()
}

fn schema(target: &Target) -> TableSchema {
    let mut schema = TableSchema::default();
    if let Some(name) = &target.partition_key {
        schema = schema.partition_key(name.clone());
    }
    if let Some(key) = &target.composite_key {
        let (partition, value, sort) = (&key.partition, &key.value, &key.sort);
        schema = schema.composite_key(partition.clone(), value.clone(), sort.clone());
    }
    if let Some(name) = &target.ttl_attribute {
        schema = schema.ttl_attribute(name.clone());
    }
    schema
}
