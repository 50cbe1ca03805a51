//! An operation of your own code: a function that runs once for each key.

mod answer;
mod call;
mod config;
mod needs_payload;
mod outcome;
mod transaction;
mod typed;

pub use self::call::Call;
pub(crate) use self::config::OperationConfig;
pub use self::needs_payload::CallNeedsPayload;
pub use self::outcome::Outcome;
pub use self::typed::Unset;
use crate::error::Error;
use crate::idempotency::Idempotency;
use crate::policy::Policy;
use crate::store::key::Scope;

/// The scope and policy of an operation. [`Idempotency::operation`] creates it.
///
/// Create it once and clone it, or create it for each call. With a [`key`](Self::key) and a
/// [payload](CallNeedsPayload::payload) it becomes a [`Call`], and only a `Call` runs:
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use dynamodb_idempotency::policy::Takeover;
///
/// let charge = idempotency.operation("charge").policy(|policy| policy.takeover(Takeover::Reject))?;
/// for order in ["order-42", "order-43"] {
///     let call = charge.key(order).payload(&(order, 1200));
///     call.run(async |_| Ok::<_, std::io::Error>("paid".to_owned())).await?;
/// }
/// # Ok(()) });
/// ```
///
/// An operation without a key does not compile:
///
/// ```compile_fail,E0599
/// # doc_examples::run(async |_, idempotency| {
/// idempotency.operation("charge").run(async |_| Ok::<_, std::io::Error>(1200)).await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[must_use = "give it a key"]
pub struct Operation {
    config: OperationConfig,
}

impl Idempotency {
    /// Starts an operation under `scope`. With a [`key`](Operation::key) and a
    /// [payload](CallNeedsPayload::payload) it becomes a [`Call`], which you run.
    ///
    /// A string is one segment; [`Scope`] builds longer scopes. Operations with different scopes
    /// share no record, whatever their keys.
    ///
    /// ```
    /// # fn example(idempotency: &dynamodb_idempotency::Idempotency) {
    /// use dynamodb_idempotency::Scope;
    ///
    /// let charge = idempotency.operation("charge").key("order-42").payload(&1200);
    /// let other = idempotency.operation(Scope::new("charge").segment("v2")).key("order-42").payload(&1200);
    /// # }
    /// ```
    pub fn operation(&self, scope: impl Into<Scope>) -> Operation {
        Operation { config: OperationConfig::new(self, scope.into()) }
    }
}

impl Operation {
    /// Sets the key, which identifies the operation within its scope. It must not be empty.
    ///
    /// Examples are the number of an order, the id of a message, and a client's `Idempotency-Key`.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let charge = idempotency.operation("charge");
    /// let call = charge.key("order-42").payload(&1200);
    /// # Ok(()) });
    /// ```
    pub fn key(&self, key: impl Into<String>) -> CallNeedsPayload {
        CallNeedsPayload::new(self.config.clone(), key.into())
    }

    /// Adds a segment to the scope, such as a version or a region. For a customer, use
    /// [`Scope::tenant`].
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let operation = idempotency.operation("charge").segment("v2").key("order-42").payload(&1200);
    /// # Ok(()) });
    /// ```
    pub fn segment(mut self, segment: &str) -> Self {
        self.config.scope = self.config.scope.segment(segment);
        self
    }

    /// Changes the inherited policy for this operation.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::policy::Takeover;
    ///
    /// let charge =
    ///     idempotency.operation("charge").policy(|policy| policy.takeover(Takeover::Reject))?;
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if a setting is out of its
    /// bounds, or if two settings contradict each other.
    pub fn policy(self, change: impl FnOnce(Policy) -> Policy) -> Result<Self, Error> {
        Ok(Self { config: self.config.change_policy(change).checked()? })
    }
}
