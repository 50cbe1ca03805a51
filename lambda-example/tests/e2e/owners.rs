//! Two emulators on one table: the owner of a key, and who comes second.
//!
//! The owner is caught inside its handler: `tok_slow` makes it slow, and a signal stops it there for
//! as long as the test likes.

use std::time::Duration;

use serde_json::Value;

use crate::PATIENCE;
use crate::deployment::{Deployment, Function, Item, number, text};
use crate::dynamodb::unique;
use crate::emulator::Emulator;
use crate::event::{Kind, Order, Response};

const KIND: Kind = Kind::HttpApi;

/// The lease of the killed owner ends 2 s after it. Long enough for the handler of `tok_slow`, and for
/// the start of a debug build.
const SHORT_TIMEOUT_S: u32 = 8;

/// A key whose owner is one emulator, and another emulator.
struct Pair {
    deployment: Deployment,
    owner: Emulator,
    other: Emulator,
    key: String,
    event: Value,
}

impl Pair {
    async fn start(deployment: Deployment, function: &Function) -> Self {
        let (owner, other) = (
            Emulator::start(&deployment, function).await,
            Emulator::start(&deployment, function).await,
        );
        let key = unique("order");
        let order = Order { amount: 1200, source: "tok_slow", note: key.clone() };
        let event = KIND.payment(Some(&key), &order);
        Self { deployment, owner, other, key, event }
    }

    async fn record(&self) -> Item {
        let record = self.deployment.record(&format!("payments#{}", self.key)).await;
        record.expect("a record")
    }

    /// Stops the owner while its handler runs; the record as it stands then.
    async fn stop_owner(&self) -> Item {
        self.deployment.wait_for_record(&format!("payments#{}", self.key)).await;
        self.owner.signal("STOP");
        let record = self.record().await;
        let status = text(&record, "status");
        assert_eq!(status, "PENDING", "the owner was too quick to be caught: {record:?}");
        record
    }

    async fn send_to(&self, emulator: &Emulator) -> Response {
        KIND.response(&emulator.invoke(&self.event).await)
    }

    async fn payments(&self) -> usize {
        self.deployment.payments_noted(&self.key).await.len()
    }
}

fn assert_in_progress(response: &Response) {
    response.assert_problem(409);
    let seconds = response.header("retry-after").and_then(|seconds| seconds.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds > 0), "{response:?}");
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_repeat_is_in_progress_while_the_owner_is_at_work_elsewhere() {
    let deployment = Deployment::load();
    let function = deployment.payments();
    let pair = Pair::start(deployment, &function).await;
    let meanwhile = async {
        let record = pair.stop_owner().await;
        assert_in_progress(&pair.send_to(&pair.other).await);
        assert_eq!(pair.record().await, record, "a rejected repeat left a trace");
        assert_eq!(pair.payments().await, 0);
        pair.owner.signal("CONT");
    };
    let (first, ()) = tokio::join!(pair.send_to(&pair.owner), meanwhile);
    assert_eq!(first.status, 201, "{first:?}");
    assert!(!first.is_replayed(), "{first:?}");
    pair.send_to(&pair.other).await.assert_replay_of(&first);
    assert_eq!(pair.payments().await, 1);
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_killed_owner_is_taken_over_when_its_lease_is_over() {
    let deployment = Deployment::load();
    let function = Function { timeout_s: SHORT_TIMEOUT_S, ..deployment.payments() };
    let pair = Pair::start(deployment, &function).await;
    let meanwhile = async {
        let record = pair.stop_owner().await;
        pair.owner.signal("KILL");
        record
    };
    let (killed, abandoned) = tokio::join!(pair.owner.invoke(&pair.event), meanwhile);
    assert_eq!(killed["errorType"], "Runtime.ExitError", "{killed}");
    assert_eq!(pair.record().await, abandoned);
    assert_eq!(pair.payments().await, 0);

    let answer = tokio::time::timeout(PATIENCE, answer_of_the_taker(&pair)).await;
    let answer = answer.expect("a takeover: the lease should be over long ago");
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(!answer.is_replayed(), "{answer:?}");
    let record = pair.record().await;
    assert_eq!((number(&abandoned, "attempt"), number(&record, "attempt")), ("1", "2"));
    assert_ne!(text(&abandoned, "owner"), text(&record, "owner"));
    assert_eq!(text(&record, "status"), "COMPLETED");
    assert_eq!(pair.payments().await, 1);

    // The emulator of the killed one has started another.
    for emulator in [&pair.other, &pair.owner] {
        pair.send_to(emulator).await.assert_replay_of(&answer);
    }
    assert_eq!(pair.payments().await, 1);
}

/// Retries as a client that is asked to retry later.
async fn answer_of_the_taker(pair: &Pair) -> Response {
    loop {
        let response = pair.send_to(&pair.other).await;
        if response.status != 409 {
            return response;
        }
        assert_in_progress(&response);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}
