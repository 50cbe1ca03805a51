//! The hooks of a snapshot, as `lambda_runtime` takes them.

use lambda_runtime::{BoxFuture, Error, SnapStartResource};

use crate::run::snapshot::SnapshotHooks;

/// For `Runtime::register_snapstart_resource`. Resources that the AWS client needs, for example
/// your own credentials, must be registered first.
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
