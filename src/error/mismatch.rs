//! The record that a mismatched key belongs to.

use std::time::SystemTime;

/// The record of the request that used the key before. See
/// [`Error::mismatched_record`](crate::Error::mismatched_record).
///
/// ```
/// use dynamodb_idempotency::MismatchedRecord;
///
/// fn explain(record: &MismatchedRecord) -> String {
///     format!("another request used this key at {:?}", record.created_at())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MismatchedRecord {
    pub(crate) created_at: SystemTime,
    pub(crate) attempt: u32,
}

impl MismatchedRecord {
    /// Returns when attempt 1 of the other request started, by DynamoDB's clock; after a release, when the
    /// next attempt started.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use dynamodb_idempotency::MismatchedRecord;
    ///
    /// /// A client that repeats a request does so within minutes. Later, it has probably reused the key.
    /// fn is_reused(record: &MismatchedRecord, now: SystemTime) -> bool {
    ///     now > record.created_at() + Duration::from_secs(600)
    /// }
    /// ```
    #[must_use]
    pub const fn created_at(&self) -> SystemTime {
        self.created_at
    }

    /// Returns the number of the other request's last attempt, counted from 1.
    ///
    /// ```
    /// use dynamodb_idempotency::MismatchedRecord;
    ///
    /// fn ran_once(record: &MismatchedRecord) -> bool {
    ///     record.attempt() == 1
    /// }
    /// ```
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }
}
