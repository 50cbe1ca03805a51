//! Set-up from the environment, as a Lambda function has it.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;

use crate::error::{Error, ErrorKind};
use crate::idempotency::{Builder, Idempotency};

/// The environment variable that names the table.
///
/// ```
/// assert_eq!(dynamodb_idempotency::TABLE_VARIABLE, "IDEMPOTENCY_TABLE");
/// ```
pub const TABLE_VARIABLE: &str = "IDEMPOTENCY_TABLE";

impl Idempotency {
    /// The table named by `IDEMPOTENCY_TABLE`, with region, credentials and endpoint as the AWS SDK
    /// finds them (`AWS_ENDPOINT_URL_DYNAMODB` points it at DynamoDB Local).
    ///
    /// The SDK's missing time-outs are set: 1 s to connect, 2 s for each try.
    ///
    /// ```
    /// use dynamodb_idempotency::{Error, Idempotency};
    ///
    /// # async fn example() -> Result<(), Error> {
    /// let idempotency = Idempotency::from_env().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when the variable is not set or empty. Nothing is sent yet.
    pub async fn from_env() -> Result<Self, Error> {
        Self::builder_from_env().await?.build()
    }

    /// As [`from_env`](Self::from_env), with choices.
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
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As `from_env`.
    pub async fn builder_from_env() -> Result<Builder, Error> {
        let table = std::env::var(TABLE_VARIABLE).unwrap_or_default();
        if table.is_empty() {
            let message = format!("set {TABLE_VARIABLE} to the name of the idempotency table");
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(1))
            .operation_attempt_timeout(Duration::from_secs(2))
            .build();
        let config = aws_config::defaults(BehaviorVersion::latest()).timeout_config(timeouts);
        Ok(Self::builder(Client::new(&config.load().await), table))
    }
}
