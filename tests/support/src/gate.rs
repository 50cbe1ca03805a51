//! A gate at which tasks wait.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

/// A closed gate: a task that reaches the gate waits until a test opens it. A clone is the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    arrived: Arc<Semaphore>,
    opened: Arc<watch::Sender<bool>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { arrived: Arc::new(Semaphore::new(0)), opened: Arc::new(watch::Sender::new(false)) }
    }
}

impl Gate {
    /// Waits at the gate until it is open.
    pub async fn pass(&self) {
        patiently("the opening of a gate", self.pass_at_last()).await;
    }

    /// As [`pass`](Self::pass), without a time limit.
    pub async fn pass_at_last(&self) {
        self.arrived.add_permits(1);
        let mut opened = self.opened.subscribe();
        opened.wait_for(|open| *open).await.expect("the gate is still there");
    }

    /// Waits until one more task has arrived.
    pub async fn reached(&self) {
        self.reached_by(1).await;
    }

    /// Waits until `tasks` more tasks have arrived.
    pub async fn reached_by(&self, tasks: u32) {
        let arrival = patiently("an arrival at a gate", self.arrived.acquire_many(tasks)).await;
        arrival.expect("the gate is still there").forget();
    }

    /// Lets all tasks pass, also those that arrive later.
    pub fn open(&self) {
        self.opened.send_replace(true);
    }
}

/// Waits for a future that must complete. If it does not, the test fails instead of hanging.
pub async fn patiently<F: Future>(what: &str, future: F) -> F::Output {
    let awaited = tokio::time::timeout(Duration::from_secs(300), future).await;
    awaited.unwrap_or_else(|_| panic!("waited five minutes for {what}"))
}
