//! The outcome of a call: whether its answer is new, replayed or reconciled.

/// The answer of [`run_with_outcome`](crate::Call::run_with_outcome), and where it comes from.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use dynamodb_idempotency::Outcome;
///
/// let outcome = idempotency
///     .operation("charge")
///     .key("order-42")
///     .payload(&1200)
///     .run_with_outcome(async |_| Ok::<_, std::io::Error>("paid".to_owned()))
///     .await?;
/// match &outcome {
///     Outcome::Executed(_) => println!("it ran"),
///     Outcome::Unconfirmed(_) | Outcome::Unprotected(_) => println!("it ran; it may run again"),
///     stored => assert!(stored.is_replayed() || matches!(stored, Outcome::Reconciled(_))),
/// }
/// let receipt = outcome.into_inner();
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome<T> {
    /// The handler ran in this call, and the operation is completed.
    ///
    /// Its answer is stored, unless it is too large or cannot be encoded. In that case, the crate
    /// logged an error, and repeats get [`ErrorKind::AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable).
    Executed(T),
    /// The stored answer of an earlier call or of another owner.
    Replayed(T),
    /// The answer of the [reconcile hook](crate::Call::reconcile), which is stored now. The handler did
    /// not run in this call: the hook found that an abandoned execution had completed.
    Reconciled(T),
    /// The answer of a handler that called [`discard`](crate::Execution::discard), or of a
    /// [`Transaction::discard`](crate::Transaction::discard). It is not stored.
    NothingExecuted(T),
    /// The handler ran, but it is unknown whether its answer is stored
    /// ([`Unconfirmed::Answer`](crate::policy::Unconfirmed::Answer)).
    Unconfirmed(T),
    /// The handler ran without a record, because DynamoDB could not be reached
    /// ([`Outage::Open`](crate::policy::Outage::Open)), or because idempotency is
    /// [switched off](crate::Builder::disabled).
    Unprotected(T),
}

impl<T> Outcome<T> {
    /// Returns the answer, whatever the outcome.
    ///
    /// ```
    /// use dynamodb_idempotency::Outcome;
    ///
    /// assert_eq!(Outcome::Executed("paid").into_inner(), "paid");
    /// assert_eq!(Outcome::Replayed("paid").into_inner(), "paid");
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            Self::Executed(value)
            | Self::Replayed(value)
            | Self::Reconciled(value)
            | Self::NothingExecuted(value)
            | Self::Unconfirmed(value)
            | Self::Unprotected(value) => value,
        }
    }

    /// Returns whether another call stored the answer.
    ///
    /// ```
    /// use dynamodb_idempotency::Outcome;
    ///
    /// assert!(Outcome::Replayed("paid").is_replayed());
    /// assert!(!Outcome::Reconciled("paid").is_replayed()); // stored by this very call
    /// ```
    #[must_use]
    pub const fn is_replayed(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }
}
