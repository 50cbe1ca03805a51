//! The transport under the crash tests carries requests through any network.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use dynamodb_idempotency::testing::transport::{self, Network, Request, Store, VirtualClock};
use dynamodb_idempotency::{Idempotency, Outcome, TableSchema};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::row;

/// Executes each request twice, and loses the first response of every third request.
#[derive(Clone, Debug)]
struct Unreliable {
    store: Store,
    requests: Arc<AtomicU32>,
}

impl Network for Unreliable {
    fn carry(&self, request: Request) -> BoxFuture<'static, Result<HttpResponse, ConnectorError>> {
        let Self { store, requests } = self.clone();
        async move {
            let response = store.execute(&request);
            let _copy = store.execute(&request);
            if requests.fetch_add(1, Ordering::SeqCst) % 3 == 2 {
                return Err(ConnectorError::io("the response was lost".into()));
            }
            store.deliver(response)
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_network_can_repeat_requests_and_lose_responses() {
    let clock = VirtualClock::at(1_900_000_000_000);
    let store = Store::new(&clock).unwrap();
    for table in ["records", "rows"] {
        let schema = TableSchema::default().partition_key("id");
        assert_eq!(store.create_table(table, &schema).status, 200);
    }
    let network = Unreliable { store: store.clone(), requests: Arc::default() };
    let builder = Idempotency::builder(transport::client(network, &clock), "records");
    let idempotency = builder.schema(TableSchema::default().partition_key("id")).build().unwrap();
    for (key, outcome) in [("a", "ran"), ("b", "ran"), ("a", "replayed"), ("c", "ran")] {
        let operation = idempotency.operation("book").key(key).no_payload();
        let booked = operation.run_with_outcome(async |execution| {
            execution.step("ask", async { Ok::<_, Infallible>(()) }).await.unwrap();
            execution.commit("done", [row("rows", key)]).await.map(|()| "done".to_owned())
        });
        let is_replayed = matches!(booked.await.unwrap(), Outcome::Replayed(_));
        assert_eq!(if is_replayed { "replayed" } else { "ran" }, outcome, "{key}");
    }
    assert_eq!(store.items().len(), 6, "three records, and a row of each");
}
