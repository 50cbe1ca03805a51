//! A point that tasks stop at.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

/// A closed gate: a task that reaches it waits until it is opened. A clone is the same gate.
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

    /// As [`pass`](Self::pass), for however long it takes.
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

    /// Lets all pass, those that come later too.
    pub fn open(&self) {
        self.opened.send_replace(true);
    }
}

/// Waits for what must come; a test fails rather than hangs.
pub async fn patiently<F: Future>(what: &str, future: F) -> F::Output {
    let awaited = tokio::time::timeout(Duration::from_secs(300), future).await;
    awaited.unwrap_or_else(|_| panic!("waited five minutes for {what}"))
}
