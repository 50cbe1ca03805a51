//! [`Idempotency`], which a process creates once.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;

use crate::builder::Builder;
use crate::call::core::Core;
use crate::error::Error;

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
///     .payload(&1200)
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
    /// The crate uses a copy of `client`. The copy shares the connections and credentials of `client`,
    /// and your interceptors see its requests. The SDK has no API that returns connections and
    /// credentials, so this function takes them from two requests that it starts and never sends.
    ///
    /// The copy retries as your configuration says, but it waits at most an eighth of
    /// [`request_timeout`](Builder::request_timeout) between two tries.
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
    /// Use it for your own tables too, so that your requests reuse its open connections.
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

    /// Returns a builder, for settings that [`new`](Self::new) does not have.
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

    /// Creates the table and waits until it is active.
    ///
    /// Use it for tests, examples and first steps. The table has the keys of the schema, on-demand
    /// billing, and TTL enabled. If a table with these keys exists, this method only enables its TTL.
    ///
    /// Returns `true` if this call created the table.
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
