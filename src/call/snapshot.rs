//! Snapshots of the machine, as Lambda `SnapStart` takes them. State that must not be in a snapshot
//! is discarded before it, and learned again after the restore.

use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind};
use crate::idempotency::Idempotency;

/// Set by Lambda; `snap-start` if Lambda takes a snapshot of this environment.
const INITIALIZATION_TYPE: &str = "AWS_LAMBDA_INITIALIZATION_TYPE";

impl Idempotency {
    /// Creates the hooks around a snapshot of the process.
    ///
    /// Register them once with `lambda_runtime` for `SnapStart`, or call them around any other
    /// snapshot. Create them before the first request, for example before a
    /// [`preflight`](Self::preflight). From their creation until
    /// [`after_restore`](SnapshotHooks::after_restore), each request closes its connection, unless
    /// Lambda says that it takes no snapshot of this environment.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// // For `lambda::runtime(..)?.register_snapstart_resource(hooks)`.
    /// let hooks = std::sync::Arc::new(idempotency.snapshot_hooks());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn snapshot_hooks(&self) -> SnapshotHooks {
        let kind = std::env::var(INITIALIZATION_TYPE);
        if kind.map_or(true, |kind| kind == "snap-start") {
            self.core.table.snapshot.is_ahead.store(true, Ordering::Relaxed);
        }
        SnapshotHooks { idempotency: self.clone() }
    }
}

/// The hooks around a snapshot of the machine. [`Idempotency::snapshot_hooks`] creates them.
///
/// With the feature `event`, this type implements `SnapStartResource` of `lambda_runtime`. Once the
/// hooks are registered, the runtime calls both.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// let hooks = idempotency.snapshot_hooks();
/// idempotency.preflight(["payments"]).await?;
///
/// hooks.before_snapshot()?;
/// // Here the machine is stopped, and goes on elsewhere at another time.
/// hooks.after_restore().await;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct SnapshotHooks {
    idempotency: Idempotency,
}

impl SnapshotHooks {
    /// Discards the known time of DynamoDB, and empties the [local
    /// cache](crate::Builder::local_cache). Sends no request.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let hooks = idempotency.snapshot_hooks();
    /// hooks.before_snapshot()?;
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if this is the second call before one snapshot, for this
    /// [`Idempotency`] or a clone of it. The hooks are then registered twice.
    pub fn before_snapshot(&self) -> Result<(), Error> {
        let core = &self.idempotency.core;
        if core.table.snapshot.is_prepared.swap(true, Ordering::Relaxed) {
            let message = format!(
                "the snapshot hooks of the table `{}` ran twice before one snapshot: register what \
                 Idempotency::snapshot_hooks gives once",
                core.table.name
            );
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        core.table.clock.reset();
        if let Some(cache) = &core.cache {
            cache.clear();
        }
        Ok(())
    }

    /// Discards the time of DynamoDB that was known before the snapshot, and calls
    /// [`warm`](Idempotency::warm).
    ///
    /// `warm` learns the time again and opens a connection, so the first invocation waits for
    /// neither. If `warm` fails, the crate logs a warning, and the first call does both. Create new
    /// hooks for another snapshot.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let hooks = idempotency.snapshot_hooks();
    /// hooks.after_restore().await;
    /// # Ok(()) });
    /// ```
    pub async fn after_restore(&self) {
        let table = &self.idempotency.core.table;
        table.clock.reset();
        table.snapshot.is_ahead.store(false, Ordering::Relaxed);
        table.snapshot.is_prepared.store(false, Ordering::Relaxed);
        if let Err(error) = self.idempotency.warm().await {
            tracing::warn!(
                table = table.name,
                error = error.in_full(),
                "no connection could be opened when a snapshot was restored"
            );
        }
    }
}
