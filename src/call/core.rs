//! What all calls of one [`Idempotency`](crate::Idempotency) share.

use std::sync::Arc;
use std::time::Duration;

use crate::answer::codec::Coding;
use crate::call::cache::Cache;
use crate::error::Error;
use crate::policy::Policy;
use crate::signals::Log;
use crate::store::Table;
use crate::store::key::{KeyForm, RecordKey, Scope};
use crate::store::record::random_owner;

/// What all clones of an [`Idempotency`](crate::Idempotency) share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) table: Table,
    /// Whether idempotency is [switched off](crate::Builder::disabled): a [call](super::context::CallContext) then
    /// has no record.
    pub(crate) is_disabled: bool,
    pub(crate) policy: Arc<Policy>,
    pub(crate) clock_tolerance: Duration,
    pub(crate) log: Log,
    pub(crate) coding: Coding,
    /// Completed answers that this process has seen, if it caches them.
    pub(crate) cache: Option<Cache>,
}

impl Core {
    pub(crate) fn record_key(
        &self,
        scope: &Scope,
        key: &str,
        form: KeyForm,
    ) -> Result<RecordKey, Error> {
        RecordKey::new(scope, key, form, self.table.schema.max_key_bytes())
    }

    /// A key that no other call has.
    pub(crate) fn random_key(&self, scope: &Scope) -> Result<RecordKey, Error> {
        let limit = self.table.schema.max_key_bytes();
        RecordKey::new(scope, &random_owner()?.to_string(), KeyForm::Verbatim, limit)
    }

    /// The time at which the record in a response is judged. An error if no response has shown DynamoDB's time.
    #[cfg(feature = "admin")]
    pub(crate) fn judging_time(
        &self,
        time: Option<crate::clock::StoreTime>,
    ) -> Result<crate::clock::Timestamp, Error> {
        let judging = self.table.clock.judging_time(time, self.clock_tolerance);
        judging.ok_or_else(Error::no_store_time)
    }

    /// Removes the cached answer of a record that this process has changed.
    pub(crate) fn invalidate_cached(&self, key: &RecordKey) {
        if let Some(cache) = &self.cache {
            cache.invalidate(key.as_str());
        }
    }
}
