//! The crate's snapshot hooks for `lambda_runtime`.

use lambda_runtime::{BoxFuture, Error, SnapStartResource};

use crate::call::snapshot::SnapshotHooks;

/// Pass them to `Runtime::register_snapstart_resource`. First register resources that the AWS client
/// needs, such as your own credentials.
impl SnapStartResource for SnapshotHooks {
    fn before_snapshot(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(Self::before_snapshot(self)?) })
    }

    fn after_restore(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            Self::after_restore(self).await;
            Ok(())
        })
    }
}
