//! The connections that are open when a snapshot of the machine is taken: none of them is used after it.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_smithy_runtime_api::client::connection::{CaptureSmithyConnection, ConnectionMetadata};

/// Those of one client; a clone has the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
enum Known {
    /// No snapshot is ahead: the pool alone knows its connections.
    #[default]
    None,
    /// A snapshot is ahead, and these have brought responses.
    Open(Vec<ConnectionMetadata>),
    /// It is being taken.
    Snapshot,
}

impl Connections {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers from now on which connections are open.
    pub(crate) fn watch(&self) {
        let mut known = self.known();
        if matches!(*known, Known::None) {
            *known = Known::Open(Vec::new());
        }
    }

    /// A response came by this one.
    pub(super) fn note(&self, captured: Option<&CaptureSmithyConnection>) {
        let mut known = self.known();
        let Known::Open(open) = &mut *known else { return };
        let Some(connection) = captured.and_then(CaptureSmithyConnection::get) else { return };
        let address = connection.local_addr();
        if address.is_none() || open.iter().all(|other| other.local_addr() != address) {
            open.push(connection);
        }
    }

    /// Has the pool use none of them again; `false` if that was done already.
    pub(crate) fn give_up(&self) -> bool {
        match mem::replace(&mut *self.known(), Known::Snapshot) {
            Known::Snapshot => return false,
            Known::Open(open) => open.iter().for_each(ConnectionMetadata::poison),
            Known::None => {}
        }
        true
    }

    /// The snapshot is restored: those that are opened now live.
    pub(crate) fn restored(&self) {
        *self.known() = Known::None;
    }
}
