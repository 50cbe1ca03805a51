//! [`Idempotency`], which a process creates once.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;

use crate::builder::Builder;
use crate::error::Error;
use crate::run::core::Core;

/// A table of idempotency records, with the policy that its operations inherit.
///
/// Create one when the function initializes, and share it between calls. Clones are cheap: they
/// share the client and its connections.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// let receipt = idempotency
///     .operation("charge")
///     .key("order-42")
///     .run(async |_| Ok::<_, std::io::Error>("paid".to_owned()))
///     .await?;
/// # Ok(()) });
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Idempotency {{ table: {:?}, policy: {:?}, .. }}", core.table.name, core.policy)]
pub struct Idempotency {
    pub(crate) core: Arc<Core>,
}

impl Idempotency {
    /// Uses `table` through `client`, with the default policy and schema.
    ///
    /// The crate uses a copy of `client` that shares its connections and credentials. Your own
    /// requests with that client use the same open connections. Interceptors of your configuration
    /// see the crate's requests too. To make the copy, the crate begins two calls that send
    /// nothing: of these, interceptors see only `read_before_execution`.
    ///
    /// The copy retries as your configuration says, but waits at most an eighth of
    /// [`request_timeout`](Builder::request_timeout) between two tries. If your configuration
    /// disables retries, the copy does not retry.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::new(client, "idempotency");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Builder::new(client, table.into()).assemble()
    }

    /// Returns the client that the crate uses.
    ///
    /// Use it for your own tables too: both then share one open connection.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let orders = idempotency.client().put_item().table_name("orders"); // a table of your own
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.core.table.client
    }

    /// Returns a builder, for settings that [`new`](Self::new) does not take.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::policy::KeyForm;
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::builder(client, "idempotency")
    ///     .policy(|policy| policy.key_form(KeyForm::Sha256))
    ///     .build()?;
    /// # Ok(()) });
    /// ```
    pub fn builder(client: Client, table: impl Into<String>) -> Builder {
        Builder::new(client, table.into())
    }

    /// Creates the table of the schema and waits until it is active.
    ///
    /// The table is billed on demand, and its TTL is enabled. For tests, examples and first steps.
    ///
    /// Returns whether this call created the table. If a table with the same keys exists, the call
    /// only enables its TTL and returns `false`.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| { let client = sandbox.client();
    /// use dynamodb_idempotency::Idempotency;
    ///
    /// let idempotency = Idempotency::new(client, "payments");
    /// assert!(idempotency.create_table().await?);
    /// assert!(!idempotency.create_table().await?); // it is there
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if a permission or the
    /// credentials are missing, or if a table of that name has other keys.
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if DynamoDB fails or the table is
    /// not active after one minute.
    pub async fn create_table(&self) -> Result<bool, Error> {
        self.core.table.create_table().await
    }
}
