//! Snapshots of the machine, as Lambda `SnapStart` takes them: discards the state that must not be in
//! one, and learns it again after the restore.

use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind};
use crate::idempotency::Idempotency;

/// Set by Lambda: `snap-start` where a snapshot will be taken.
const INITIALIZATION_TYPE: &str = "AWS_LAMBDA_INITIALIZATION_TYPE";

impl Idempotency {
    /// The hooks around a snapshot: register them with `lambda_runtime` for `SnapStart`, or call
    /// them around any other snapshot of the process.
    ///
    /// Make them before the first request, for example before a [`preflight`](Self::preflight).
    /// From then until [`after_restore`](SnapshotHooks::after_restore) each request closes its
    /// connection, unless Lambda says that it takes no snapshot of this environment. Register them
    /// once.
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

/// What to do around a snapshot of the machine; made by [`Idempotency::snapshot_hooks`].
///
/// With the feature `event` it implements `SnapStartResource` of `lambda_runtime`, whose runtime
/// calls both hooks.
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
    /// Discards what was learned of DynamoDB's time, and empties the [local
    /// cache](crate::Builder::local_cache). Nothing is sent.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// let hooks = idempotency.snapshot_hooks();
    /// hooks.before_snapshot()?;
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the hooks of this [`Idempotency`], or of a clone of it, have
    /// already run before this snapshot: they are registered twice.
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

    /// Discards what was learned of DynamoDB's time before the snapshot, and opens a connection with
    /// [`warm`](Idempotency::warm), which learns the time again. So the first invocation waits for
    /// neither.
    ///
    /// An error of `warm` is a warning in the log: the first call tries again. Make new hooks for
    /// another snapshot.
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
