//! Set-up from the environment, as a Lambda function has it.

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::RuntimeComponents;
use aws_smithy_http_client::ConnectorBuilder;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

use crate::builder::Builder;
use crate::error::{Error, ErrorKind};
use crate::idempotency::Idempotency;

/// The environment variable that names the table.
///
/// ```
/// assert_eq!(dynamodb_idempotency::TABLE_ENV, "IDEMPOTENCY_TABLE");
/// ```
pub const TABLE_ENV: &str = "IDEMPOTENCY_TABLE";

impl Idempotency {
    /// The table named by `IDEMPOTENCY_TABLE`, with region, credentials and endpoint as the AWS SDK
    /// finds them (`AWS_ENDPOINT_URL_DYNAMODB` points it at DynamoDB Local).
    ///
    /// It sets the timeouts that the SDK does not: 1 s to connect, 2 s for each try.
    /// [`sdk_config_loader`] has the rest.
    ///
    /// ```
    /// use dynamodb_idempotency::{Error, Idempotency};
    ///
    /// # async fn example() -> Result<(), Error> {
    /// let idempotency = Idempotency::from_env().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the variable is not set or empty. Nothing is sent yet.
    pub async fn from_env() -> Result<Self, Error> {
        Self::builder_from_env().await?.build()
    }

    /// As [`from_env`](Self::from_env), with settings.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::{Error, Idempotency};
    ///
    /// # async fn example() -> Result<(), Error> {
    /// let idempotency = Idempotency::builder_from_env()
    ///     .await?
    ///     .policy(|policy| policy.retention(Duration::from_secs(72 * 3600)))
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As `from_env`.
    pub async fn builder_from_env() -> Result<Builder, Error> {
        let table = std::env::var(TABLE_ENV).unwrap_or_default();
        if table.is_empty() {
            let message = format!("set {TABLE_ENV} to the name of the idempotency table");
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        Ok(Self::builder(Client::new(&sdk_config_loader().load().await), table))
    }
}

/// The AWS SDK's configuration of [`Idempotency::from_env`], for your own clients and for
/// other settings: settings made on the loader replace these.
///
/// Region, credentials, endpoints and proxies (`HTTPS_PROXY`, `NO_PROXY`) are found as the SDK
/// finds them. It sets the timeouts that the SDK does not: 1 s to connect and 2 s for each try.
/// HTTPS uses rustls with ring: a process makes its first TLS connection in a fraction of the time
/// that it takes with aws-lc, which spends 20 ms on entropy first, and the binary is smaller. For
/// what ring lacks (FIPS, post-quantum key exchange) set an `http_client`. Clients made of one
/// loaded configuration share their connections.
///
/// ```
/// use aws_sdk_dynamodb::Client;
/// use dynamodb_idempotency::{Error, Idempotency, sdk_config_loader};
///
/// # async fn example() -> Result<(), Error> {
/// let config = sdk_config_loader().profile_name("payments").load().await;
/// let orders = Client::new(&config);
/// let idempotency = Idempotency::builder(Client::new(&config), "idempotency").build()?;
/// # Ok(()) }
/// ```
#[must_use]
pub fn sdk_config_loader() -> ConfigLoader {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .operation_attempt_timeout(Duration::from_secs(2))
        .build();
    // As the SDK makes its default client (`default_https_client` in aws-smithy-runtime), but for ring:
    // its `build_https` knows no proxy.
    let https =
        aws_smithy_http_client::Builder::new().build_with_connector_fn(|settings, components| {
            let mut connector = ConnectorBuilder::default()
                .tls_provider(Provider::Rustls(CryptoMode::Ring))
                .proxy_config(ProxyConfig::from_env());
            connector.set_connector_settings(settings.cloned());
            connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
            connector.build()
        });
    aws_config::defaults(BehaviorVersion::latest()).timeout_config(timeouts).http_client(https)
}
