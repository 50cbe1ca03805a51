//! Whether an answer is new, replayed or reconciled.

/// Whether the answer of a [`run_with_outcome`](crate::Operation::run_with_outcome) is new,
/// replayed or reconciled.
///
/// ```
/// # dynamodb_idempotency::testing::example(async |_, idempotency| {
/// use dynamodb_idempotency::Outcome;
///
/// let outcome = idempotency
///     .operation("charge")
///     .key("order-42")
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
    /// The handler ran now, and the operation is completed. Its answer is stored. If it could not
    /// be stored, the log has an error and repeats get
    /// [`ErrorKind::AnswerUnavailable`](crate::ErrorKind::AnswerUnavailable).
    Executed(T),
    /// The handler ran in an earlier call, or another owner's did; this is the stored answer.
    Replayed(T),
    /// The handler did not run now: the [reconcile hook](crate::Operation::reconcile) found that an
    /// abandoned execution had completed. This is its answer, which is stored now.
    Reconciled(T),
    /// The handler ran, called [`nothing_executed`](crate::Execution::nothing_executed), and
    /// nothing is stored.
    NothingExecuted(T),
    /// The handler ran; whether its answer is stored could not be confirmed
    /// ([`Unconfirmed::Answer`](crate::Unconfirmed::Answer)).
    Unconfirmed(T),
    /// The handler ran without a record, because DynamoDB could not be reached
    /// ([`Outage::Open`](crate::Outage::Open)), or because idempotency is
    /// [switched off](crate::Builder::disabled).
    Unprotected(T),
}

impl<T> Outcome<T> {
    /// The answer, whatever the outcome.
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

    /// Whether the answer is one that was stored before.
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
