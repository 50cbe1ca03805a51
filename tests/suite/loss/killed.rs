//! The process is killed before and after each of its calls to the store: what it left is finished by
//! another one, and each effect has happened once, with the answer that is stored.
//!
//! The killed process is this test binary, started again with one ignored test.

use dynamodb_idempotency::{Error, ErrorKind, Execution, Idempotency, Transaction};
use lambda_http::{Body, Request, Response, service_fn};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tower::ServiceExt;

use crate::support::effects::{count, debit};
use crate::support::gate::patiently;
use crate::support::wire::Death;
use crate::support::{Link, Store, commit_kind, raw};

const AN_HOUR: i64 = 3600;
const VARIABLE: &str = "KILLED_TEST_ORDERS";

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Way {
    /// `run` with a commit.
    Commit,
    /// A commit by who takes over.
    CommitOfATaker,
    /// A commit whose condition does not hold, and an answer without it.
    RefusedCommit,
    /// An HTTP handler with a commit.
    HttpCommit,
    Transaction,
    /// A transaction that takes over.
    TransactionOfATaker,
    /// A transaction whose condition does not hold, with an answer for that.
    RefusedTransaction,
}

impl Way {
    /// With the number of its store calls, and whether its effect happens.
    const ALL: [(Self, usize, bool); 7] = [
        (Self::Commit, 2, true),
        (Self::CommitOfATaker, 3, true),
        (Self::RefusedCommit, 3, false),
        (Self::HttpCommit, 2, true),
        (Self::Transaction, 1, true),
        (Self::TransactionOfATaker, 2, true),
        (Self::RefusedTransaction, 2, false),
    ];

    fn is_taken_over(self) -> bool {
        matches!(self, Self::CommitOfATaker | Self::TransactionOfATaker)
    }
}

/// What the process that is killed is to do.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    endpoint: String,
    table: String,
    way: Way,
    key: String,
    request: usize,
    executed: bool,
}

/// Does it, and gives the answer, which names the owner where there is one.
async fn act(idempotency: &Idempotency, table: &str, way: Way, key: &str) -> String {
    let effect = count(table, &format!("effect {key}"));
    let poor = || debit(table, "missing account", 1);
    let operation = idempotency.operation("o").key(key).no_payload();
    match way {
        Way::Commit | Way::CommitOfATaker => {
            let answer = operation.run(async |execution: Execution| {
                let answer = format!("booked by {}", execution.owner());
                execution.commit(&answer, [effect]).await?;
                Ok::<_, Error>(answer)
            });
            answer.await.expect("it is booked")
        }
        Way::RefusedCommit => {
            let answer = operation.run(async |execution: Execution| {
                let refused = execution.commit("booked", [effect, poor()]).await;
                assert_eq!(commit_kind(&refused), ErrorKind::ConditionFailed);
                Ok::<_, Error>(format!("refused by {}", execution.owner()))
            });
            answer.await.expect("it is refused")
        }
        Way::HttpCommit => http(idempotency, effect, key).await,
        Way::Transaction | Way::TransactionOfATaker => {
            let answer = operation.run_transaction(async || {
                Ok::<_, Error>(Transaction::new("booked".to_owned()).items([effect]))
            });
            answer.await.expect("it is booked")
        }
        Way::RefusedTransaction => {
            let answer = operation.run_transaction(async || {
                let transaction = Transaction::new("booked".to_owned()).items([effect, poor()]);
                let refused = |_: &_| Some("refused".to_owned());
                Ok::<_, Error>(transaction.on_condition_failed(refused))
            });
            answer.await.expect("it is refused")
        }
    }
}

async fn http(
    idempotency: &Idempotency,
    effect: aws_sdk_dynamodb::types::TransactWriteItem,
    key: &str,
) -> String {
    let service = idempotency
        .http("o")
        .wrap(service_fn(move |request: Request| {
            let effect = effect.clone();
            async move {
                let execution: &Execution = request.extensions().get().expect("it is there");
                let body = Body::from(format!("booked by {}", execution.owner()));
                let response = Response::builder().status(201).body(body).expect("a response");
                execution.commit_response(&response, [effect]).await?;
                Ok::<_, Error>(response)
            }
        }))
        .unwrap();
    let request = http::Request::post("/").header("idempotency-key", key).body(Body::Empty);
    let response = service.oneshot(request.expect("a request")).await.expect("it is booked");
    let response = response.into_inner();
    assert_eq!(response.status(), 201);
    String::from_utf8(response.body().to_vec()).expect("a text")
}

/// Runs in a separate process, which may be killed.
#[tokio::test]
#[ignore = "the process that another test kills"]
async fn the_killed_process() {
    let orders = std::env::var(VARIABLE).expect("orders");
    let orders: Orders = serde_json::from_str(&orders).expect("orders");
    let store = Store::existing(&orders.endpoint, &orders.table);
    let link = Link::default();
    link.wire.die_at(Death { request: orders.request, executed: orders.executed });
    act(&store.over(&link), &orders.table, orders.way, &orders.key).await;
}

/// Whether the process was killed before it ended.
async fn is_killed(orders: &Orders) -> bool {
    let this = std::env::current_exe().expect("this binary");
    let mut command = Command::new(this);
    command.args(["--exact", "--ignored", "loss::killed::the_killed_process"]);
    command.env(VARIABLE, serde_json::to_string(orders).expect("it is JSON"));
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let output = patiently("the end of a process", command.kill_on_drop(true).output()).await;
    let output = output.expect("the process starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let is_killed = output.status.code().is_none();
    let is_done = output.status.success() && said.contains("1 passed");
    assert!(is_killed || is_done, "{orders:?}: {:?}\n{said}", output.status);
    is_killed
}

#[tokio::test]
async fn each_effect_happens_once_wherever_the_process_is_killed() {
    let store = Store::open_in_real_time().await;
    let (endpoint, table) = (store.endpoint().to_owned(), store.table().to_owned());
    for (way, calls, has_effect) in Way::ALL {
        for request in 1..=calls + 1 {
            for executed in [false, true] {
                let key = format!("{way:?} {request} {executed}");
                let pk = format!("o#{key}");
                if way.is_taken_over() {
                    store.put(raw::abandoned(&pk)).await;
                }
                let (endpoint, table) = (endpoint.clone(), table.clone());
                let orders = Orders { endpoint, table, way, key: key.clone(), request, executed };
                assert_eq!(is_killed(&orders).await, request <= calls, "{key}");
                // An answer that is stored already must not change.
                let before =
                    store.item(&pk).await.filter(|record| raw::status(record) == "COMPLETED");
                let later = store.over(&Link::later(AN_HOUR));
                let answer = act(&later, store.table(), way, &key).await;
                let record = store.record(&pk).await;
                assert_eq!(raw::status(&record), "COMPLETED", "{key}");
                assert_eq!(before.clone().unwrap_or_else(|| record.clone()), record, "{key}");
                let is_last = request == calls && executed || request > calls;
                assert_eq!(before.is_some(), is_last, "{key}");
                if answer.contains(" by ") {
                    assert!(answer.ends_with(raw::text(&record, "owner")), "{key}: {answer}");
                }
                let effects = store.counted(&format!("effect {key}")).await;
                assert_eq!(effects, i64::from(has_effect), "{key}");
                // A repeat has no further effect.
                assert_eq!(act(&later, store.table(), way, &key).await, answer, "{key}");
                assert_eq!(store.counted(&format!("effect {key}")).await, effects, "{key}");
            }
        }
    }
}
