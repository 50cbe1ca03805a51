//! Calls with different keys whose handlers run at the same time.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::{Result, ensure};
use dynamodb_idempotency::{Idempotency, RunError};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A number of calls, each in its own task.
#[derive(Debug)]
pub struct AtWork {
    calls: u32,
    tasks: Vec<JoinHandle<Result<bool, RunError<Infallible>>>>,
    started: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

impl AtWork {
    /// Starts no call yet.
    #[must_use]
    pub fn new(calls: u32) -> Self {
        let closed = || Arc::new(Semaphore::new(0));
        let tasks = Vec::with_capacity(calls as usize);
        Self { calls, tasks, started: closed(), gate: closed() }
    }

    /// Starts the calls, and returns when all handlers are at work.
    ///
    /// # Errors
    /// Never: nothing closes the semaphore.
    pub async fn start(&mut self, idempotency: &Idempotency) -> Result<()> {
        for n in 0..self.calls {
            let idempotency = idempotency.clone();
            let (started, gate) = (Arc::clone(&self.started), Arc::clone(&self.gate));
            self.tasks.push(tokio::spawn(async move {
                let operation =
                    idempotency.operation("payments").key(format!("order-{n}")).no_payload();
                let handler = async |_| {
                    started.add_permits(1);
                    Ok::<_, Infallible>(gate.acquire().await.is_ok())
                };
                operation.run(handler).await
            }));
        }
        drop(self.started.acquire_many(self.calls).await?);
        Ok(())
    }

    /// Lets the handlers end, and waits for the calls.
    ///
    /// # Errors
    /// When a call fails.
    pub async fn finish(self) -> Result<()> {
        self.gate.close();
        for task in self.tasks {
            ensure!(!task.await??, "the gate was not closed");
        }
        Ok(())
    }
}
