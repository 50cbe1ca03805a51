//! What all calls of one [`Idempotency`](crate::Idempotency) share.

use std::time::Duration;

use crate::answer::codec::Coding;
use crate::dynamodb::Table;
use crate::engine::acquire::Replays;
use crate::engine::cache::Cache;
use crate::engine::sharing::Flights;
use crate::error::Error;
use crate::key::{KeyForm, RecordKey, Scope};
use crate::policy::Policy;
use crate::record::Owner;
use crate::signals::Log;

pub(crate) struct Core {
    pub(crate) table: Table,
    pub(crate) policy: Policy,
    pub(crate) clock_tolerance: Duration,
    pub(crate) log: Log,
    pub(crate) coding: Coding,
    pub(crate) replays: Replays,
    /// Completed answers that this process has seen, if it keeps them.
    pub(crate) cache: Option<Cache>,
    /// The calls on their way to their keys, if they share what they are told.
    pub(crate) flights: Option<Flights>,
}

impl Core {
    /// The record's key. While idempotency is switched off no call is refused for its key: one that is
    /// none is drawn.
    pub(crate) fn record_key(
        &self,
        scope: &Scope,
        key: &str,
        form: KeyForm,
    ) -> Result<RecordKey, Error> {
        let limit = self.table.schema.max_key_bytes();
        match RecordKey::new(scope, key, form, limit) {
            Err(_) if self.table.is_disabled => self.drawn_key(scope),
            key => key,
        }
    }

    /// A key that meets no other one.
    pub(crate) fn drawn_key(&self, scope: &Scope) -> Result<RecordKey, Error> {
        let limit = self.table.schema.max_key_bytes();
        RecordKey::new(scope, Owner::random()?.as_str(), KeyForm::Verbatim, limit)
    }
}
