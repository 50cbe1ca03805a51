//! Sets up an [`Idempotency`] from the environment, as in a Lambda function.

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{RuntimeComponents, SharedHttpClient};
use aws_smithy_http_client::ConnectorBuilder;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

use crate::builder::Builder;
use crate::error::{Error, ErrorKind};
use crate::idempotency::Idempotency;
use crate::new_pool::NewPoolAfterSilence;

/// The environment variable that names the table.
///
/// ```
/// assert_eq!(dynamodb_idempotency::TABLE_ENV, "IDEMPOTENCY_TABLE");
/// ```
pub const TABLE_ENV: &str = "IDEMPOTENCY_TABLE";

impl Idempotency {
    /// Uses the table named by `IDEMPOTENCY_TABLE`, with the AWS SDK's default configuration.
    ///
    /// The SDK finds the region, the credentials and the endpoint. Set `AWS_ENDPOINT_URL_DYNAMODB` to
    /// use DynamoDB Local. [`sdk_config_loader`] describes the timeouts and the HTTPS client.
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
    /// [`ErrorKind::Configuration`] if the variable is unset or empty. No request is sent to DynamoDB.
    pub async fn from_env() -> Result<Self, Error> {
        Self::builder_from_env().await?.build()
    }

    /// Returns the builder that [`from_env`](Self::from_env) uses, for further settings.
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
    /// The same as for `from_env`.
    pub async fn builder_from_env() -> Result<Builder, Error> {
        let table = std::env::var(TABLE_ENV).unwrap_or_default();
        if table.is_empty() {
            let message = format!("set {TABLE_ENV} to the name of the idempotency table");
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        Ok(Self::builder(Client::new(&sdk_config_loader().load().await), table))
    }
}

/// Returns the AWS SDK configuration that [`Idempotency::from_env`] uses.
///
/// Use it for your own clients, or to change a setting. Clients of one loaded configuration share their
/// connections.
///
/// The SDK finds region, credentials, endpoints and proxies (`HTTPS_PROXY`, `NO_PROXY`). This
/// configuration adds timeouts: 1 s to connect and 2 s for each try. HTTPS uses rustls with ring, which
/// makes the binary smaller and the first connection about 20 ms faster than aws-lc. If you need FIPS
/// or post-quantum key exchange, which ring lacks, set an `http_client`.
///
/// After a request without a response for a second, new requests use new connections, because a NAT
/// gateway may have forgotten all old ones. Another `http_client` tries its idle connections one by one.
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
    let https = NewPoolAfterSilence::new(https);
    aws_config::defaults(BehaviorVersion::latest()).timeout_config(timeouts).http_client(https)
}

/// Follows the SDK's default client (`default_https_client` in aws-smithy-runtime), but with ring. The
/// SDK's `build_https` ignores proxies.
fn https() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().build_with_connector_fn(|settings, components| {
        let mut connector = ConnectorBuilder::default()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .proxy_config(ProxyConfig::from_env());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        connector.build()
    })
}
