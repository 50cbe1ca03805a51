//! The choices that a [`Policy`] consists of.
//!
//! ```
//! use std::time::Duration;
//!
//! use dynamodb_idempotency::Policy;
//! use dynamodb_idempotency::policy::{Failure, Lease, Takeover};
//!
//! let policy = Policy::default()
//!     .lease(Lease::Renewed(Duration::from_secs(30)))
//!     .failure(Failure::Retain { max_attempts: 3 })
//!     .takeover(Takeover::Reject);
//! ```

mod choices;

use std::time::Duration;

pub use self::choices::{
    Completed, Compression, Failure, FirstRequest, InProgress, LargeAnswers, Lease, LeaseExpired,
    Outage, Takeover, Unconfirmed,
};
use crate::error::{Error, ErrorKind};
pub use crate::store::key::KeyForm;

/// How an operation behaves. Every field has a safe default.
///
/// ```
/// use std::time::Duration;
/// use dynamodb_idempotency::policy::{Failure, InProgress};
/// use dynamodb_idempotency::Policy;
///
/// let policy = Policy::default()
///     .retention(Duration::from_secs(72 * 3600))
///     .in_progress(InProgress::Wait { timeout: Duration::from_secs(5) })
///     .failure(Failure::Retain { max_attempts: 3 });
/// assert_eq!(policy.failure, Failure::Retain { max_attempts: 3 });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// How long a finished record answers repeats. Default 24 h, as for Stripe's keys.
    ///
    /// An unfinished record counts as abandoned for this long after its lease has expired. The shortest
    /// retention is 1 s, or [`completion_timeout`](Self#structfield.completion_timeout) if that is longer.
    ///
    /// DynamoDB deletes an expired item within days. The crate treats a record past its retention
    /// as absent immediately. The retention never ends before the lease.
    pub retention: Duration,
    /// How long an owner holds the key. Default [`Lease::Invocation`].
    pub lease: Lease,
    /// What a repeat gets while the owner runs. Default [`InProgress::Reject`].
    pub in_progress: InProgress,
    /// What a failure of the handler leaves in the record. Default [`Failure::Release`].
    pub failure: Failure,
    /// What happens to a running handler when its lease expires. Default [`LeaseExpired::Stop`].
    pub lease_expired: LeaseExpired,
    /// What a repeat does when the owner's lease expired without an answer. Default
    /// [`Takeover::Execute`]. A hook replaces this setting:
    /// [`Call::reconcile`](crate::Call::reconcile).
    pub takeover: Takeover,
    /// What a repeat gets once the operation has completed. Default [`Completed::Replay`].
    pub completed: Completed,
    /// What happens while DynamoDB cannot be reached. Default [`Outage::Closed`].
    pub outage: Outage,
    /// What the caller gets when the handler ran but its completion is not confirmed. Default
    /// [`Unconfirmed::Answer`].
    pub unconfirmed: Unconfirmed,
    /// How long the crate retries a completion or release that DynamoDB does not confirm. Default
    /// 10 s. Retries stop 500 ms before the invocation's deadline.
    pub completion_timeout: Duration,
    /// How the key is stored in the table. Default [`KeyForm::Verbatim`].
    pub key_form: KeyForm,
    /// What a call sends first. Default [`FirstRequest::Write`].
    pub first_request: FirstRequest,
    /// Whether answers are stored compressed. Default [`Compression::Auto`].
    pub compression: Compression,
    /// Where a large answer is stored. Default [`LargeAnswers::InParts`] above 8 KiB.
    pub large_answers: LargeAnswers,
    /// The largest answer that is stored or read, in bytes. At least 1 KiB, at most 1 GiB; default
    /// 10 MiB.
    ///
    /// The limit applies to the answer before compression, and to the output of an
    /// [`AnswerCodec`](crate::AnswerCodec). A larger answer completes the operation, but the record
    /// stores only that the answer is too large. Repeats get [`ErrorKind::AnswerUnavailable`]. The results of
    /// an operation's [steps](crate::Execution::step) in items have the same limit together.
    pub max_answer_bytes: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            retention: Duration::from_secs(24 * 3600),
            lease: Lease::Invocation,
            in_progress: InProgress::Reject,
            failure: Failure::Release,
            lease_expired: LeaseExpired::Stop,
            takeover: Takeover::Execute,
            completed: Completed::Replay,
            outage: Outage::Closed,
            unconfirmed: Unconfirmed::Answer,
            completion_timeout: Duration::from_secs(10),
            key_form: KeyForm::Verbatim,
            first_request: FirstRequest::Write,
            compression: Compression::Auto,
            large_answers: LargeAnswers::InParts { above: 8 * 1024 },
            max_answer_bytes: 10 * 1024 * 1024,
        }
    }
}

macro_rules! setters {
    ($($field:ident: $type:ty, such as $example:literal;)*) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self#structfield.", stringify!($field), ").")]
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use dynamodb_idempotency::Policy;
        /// # use dynamodb_idempotency::policy::*;
        #[doc = concat!("let policy = Policy::default().", stringify!($field), "(", $example, ");")]
        #[doc = concat!("assert_eq!(policy.", stringify!($field), ", ", $example, ");")]
        /// ```
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )*};
}

impl Policy {
    setters! {
        retention: Duration, such as "Duration::from_secs(72 * 3600)";
        lease: Lease, such as "Lease::Renewed(Duration::from_secs(30))";
        in_progress: InProgress, such as "InProgress::Wait { timeout: Duration::from_secs(5) }";
        failure: Failure, such as "Failure::Retain { max_attempts: 3 }";
        lease_expired: LeaseExpired, such as "LeaseExpired::Continue";
        takeover: Takeover, such as "Takeover::Reject";
        completed: Completed, such as "Completed::Release";
        outage: Outage, such as "Outage::Open";
        unconfirmed: Unconfirmed, such as "Unconfirmed::Error";
        completion_timeout: Duration, such as "Duration::from_secs(3)";
        key_form: KeyForm, such as "KeyForm::Sha256";
        first_request: FirstRequest, such as "FirstRequest::Read";
        compression: Compression, such as "Compression::Off";
        large_answers: LargeAnswers, such as "LargeAnswers::InRecord";
        max_answer_bytes: usize, such as "2 * 1024 * 1024";
    }

    /// An error if the record of a transaction could expire while a delayed copy of the transaction can still be
    /// applied. The copy would then be applied a second time.
    pub(crate) fn validate_transaction(&self) -> Result<(), Error> {
        if self.retention >= MIN_TRANSACTION_RETENTION {
            return Ok(());
        }
        let message = "Policy::retention is below 1 h: DynamoDB could delete the record of a transaction \
                       while a delayed copy of the transaction can still be applied. Use a retention of at \
                       least 1 h, or run()";
        Err(Error::new(ErrorKind::Configuration, message))
    }

    /// Checks each setting, and the settings against each other and against `clock_tolerance`.
    pub(crate) fn validate(&self, clock_tolerance: Duration) -> Result<(), Error> {
        let second = Duration::from_secs(1);
        let (lease, length) = (self.lease.name(), self.lease.chosen_length());
        // DynamoDB's clock is known to one second, give or take the tolerance. A lease below `shortest`
        // could have expired before it is known to be valid, and its renewal could come too late.
        let shortest = clock_tolerance + 2 * second;
        let is_below = |least| length.is_some_and(|length| length < least);
        let above = "is above 100 years";
        let settings = [
            (self.retention > MAX_LENGTH, "Policy::retention", above),
            (self.completion_timeout > MAX_LENGTH, "Policy::completion_timeout", above),
            (self.retention < second, "Policy::retention", "is below 1 s"),
            (
                self.retention < self.completion_timeout,
                "Policy::retention",
                "is below Policy::completion_timeout: an answer that is confirmed late would be over by \
                 then",
            ),
            (is_below(3 * second), lease, "is below 3 s"),
            (length > Some(MAX_LENGTH), lease, above),
            (is_below(shortest), lease, "is below Builder::clock_tolerance and 2 s"),
            (
                !MAX_ANSWER_BYTES.contains(&self.max_answer_bytes),
                "Policy::max_answer_bytes",
                "is not between 1 KiB and 1 GiB",
            ),
            (
                self.failure == Failure::Retain { max_attempts: 0 },
                "Failure::Retain",
                "needs max_attempts of at least 1",
            ),
        ];
        match settings.into_iter().find(|(is_wrong, ..)| *is_wrong) {
            Some((_, name, what)) => {
                Err(Error::new(ErrorKind::Configuration, format!("{name} {what}")))
            }
            None => Ok(()),
        }
    }
}

/// The shortest retention of an operation that is written as a transaction. After that, no delayed request can
/// still arrive: AWS accepts a signature from 15 minutes before to 15 minutes after its time.
const MIN_TRANSACTION_RETENTION: Duration = Duration::from_secs(60 * 60);

/// Limits durations, so that no sum of times overflows.
const MAX_LENGTH: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// The bounds of [`Policy::max_answer_bytes`].
const MAX_ANSWER_BYTES: std::ops::RangeInclusive<usize> = 1024..=1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    /// Must agree with the defaults in the documentation of [`Policy`].
    #[test]
    fn defaults_are_those_documented() {
        let policy = Policy::default();
        assert_eq!(policy.retention, Duration::from_secs(86_400));
        assert_eq!(policy.lease, Lease::Invocation);
        assert_eq!(policy.in_progress, InProgress::Reject);
        assert_eq!(policy.failure, Failure::Release);
        assert_eq!(policy.lease_expired, LeaseExpired::Stop);
        assert_eq!(policy.takeover, Takeover::Execute);
        assert_eq!(policy.completed, Completed::Replay);
        assert_eq!(policy.outage, Outage::Closed);
        assert_eq!(policy.unconfirmed, Unconfirmed::Answer);
        assert_eq!(policy.completion_timeout, Duration::from_secs(10));
        assert_eq!(policy.key_form, KeyForm::Verbatim);
        assert_eq!(policy.first_request, FirstRequest::Write);
        assert_eq!(policy.compression, Compression::Auto);
        assert_eq!(policy.large_answers, LargeAnswers::InParts { above: 8192 });
        assert_eq!(policy.max_answer_bytes, 10_485_760);
        assert!(policy.validate(TOLERANCE).is_ok());
    }

    const TOLERANCE: Duration = Duration::from_secs(1);

    #[test]
    fn settings_that_cannot_hold_are_rejected_by_name() {
        let seconds = Duration::from_secs;
        let tiny = Duration::from_millis(999);
        for (policy, named) in [
            (Policy::default().retention(tiny), "Policy::retention"),
            (Policy::default().lease(Lease::Fixed(seconds(2))), "Lease::Fixed"),
            (Policy::default().lease(Lease::Renewed(seconds(2))), "Lease::Renewed"),
            (Policy::default().failure(Failure::Retain { max_attempts: 0 }), "Failure::Retain"),
            (Policy::default().retention(Duration::MAX), "Policy::retention"),
            (Policy::default().completion_timeout(Duration::MAX), "Policy::completion_timeout"),
            (Policy::default().lease(Lease::Fixed(Duration::MAX)), "Lease::Fixed"),
            (Policy::default().lease(Lease::Renewed(Duration::MAX)), "Lease::Renewed"),
            (Policy::default().max_answer_bytes(1023), "Policy::max_answer_bytes"),
            (Policy::default().max_answer_bytes((1 << 30) + 1), "Policy::max_answer_bytes"),
            // Settings that contradict each other.
            (Policy::default().retention(seconds(9)), "Policy::completion_timeout"),
            (Policy::default().completion_timeout(seconds(90_000)), "Policy::completion_timeout"),
        ] {
            let error = policy.validate(TOLERANCE).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().contains(named), "{error}");
        }
        for lease in [Lease::Fixed(seconds(4)), Lease::Renewed(seconds(4))] {
            let policy = Policy::default().lease(lease);
            assert!(policy.validate(seconds(2)).is_ok());
            let error = policy.validate(seconds(3)).unwrap_err();
            assert!(error.to_string().contains("Builder::clock_tolerance"), "{error}");
        }
    }

    #[test]
    fn an_invocation_lease_outlives_the_invocation() {
        let (left, margin) = (Duration::from_secs(8), Duration::from_secs(2));
        assert_eq!(Lease::Invocation.length(Some(left), margin), Duration::from_secs(10));
        assert_eq!(Lease::Invocation.length(None, margin), Duration::from_secs(30));
        assert_eq!(Lease::Invocation.renewed(None), Some(Duration::from_secs(30)));
    }
}
