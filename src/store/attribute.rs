//! The names of a record's attributes. [`TableSchema`](crate::TableSchema) names the others: the key, and the
//! TTL attribute.

pub(crate) const STATUS: &str = "status";
pub(crate) const OWNER: &str = "owner";
pub(crate) const ATTEMPT: &str = "attempt";
pub(crate) const FINGERPRINT: &str = "fingerprint";
pub(crate) const LEASE_EXPIRES_AT: &str = "lease_expires_at";
pub(crate) const CREATED_AT: &str = "created_at";
pub(crate) const COMPLETED_AT: &str = "completed_at";
pub(crate) const RESPONSE: &str = "response";
pub(crate) const FORMAT: &str = "format";
pub(crate) const STEPS: &str = "steps";
pub(crate) const RELEASED_ATTEMPTS: &str = "released_attempts";

pub(crate) const ALL: [&str; 11] = [
    STATUS,
    OWNER,
    ATTEMPT,
    FINGERPRINT,
    LEASE_EXPIRES_AT,
    CREATED_AT,
    COMPLETED_AT,
    RESPONSE,
    FORMAT,
    STEPS,
    RELEASED_ATTEMPTS,
];
