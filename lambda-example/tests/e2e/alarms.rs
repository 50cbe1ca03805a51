//! What the alarms of `infra/` count is in the function's log: the words of `docs/signals.md`, in both of
//! Lambda's log formats.

use std::net::{Ipv4Addr, SocketAddr};

use dynamodb_idempotency::Idempotency;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::deployment::{Deployment, Function};
use crate::dynamodb::unique;
use crate::emulator::Emulator;
use crate::event::{Kind, Order};

const PAGE: &str = include_str!("../../../docs/signals.md");
const FORMATS: [&str; 2] = ["JSON", "Text"];
const KIND: Kind = Kind::HttpApi;

/// Whether an alarm's filter finds a line.
fn counts(alarm: &str, log: &str) -> bool {
    let start = format!("| `{alarm}` | ");
    let row =
        PAGE.lines().find_map(|line| line.strip_prefix(&start)).expect("an alarm of the page");
    let (words, _outcome) = row.split_once(" | ").expect("a row of three columns");
    let mut words = words.split('`').skip(1).step_by(2);
    words.any(|word| log.lines().any(|line| line.contains(word)))
}

/// The status of the answer to a payment that has a key of its own.
async fn pay(emulator: &Emulator) -> u64 {
    let key = unique("order");
    let order = Order { amount: 1200, source: "tok_visa", note: key.clone() };
    KIND.response(&emulator.invoke(&KIND.payment(Some(&key), &order)).await).status
}

fn logging(mut function: Function, format: &str) -> Function {
    function.environment.insert("AWS_LAMBDA_LOG_FORMAT".into(), format.to_owned());
    function
}

/// Between a function and DynamoDB Local, and can be cut.
struct Line {
    address: SocketAddr,
    connections: JoinHandle<()>,
}

impl Line {
    async fn to(endpoint: &str) -> Self {
        let target = endpoint.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let connections = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.expect("a connection");
                let target = target.clone();
                connections.spawn(async move {
                    let mut far = TcpStream::connect(target).await.expect("DynamoDB Local");
                    // Either end may hang up as it likes.
                    copy_bidirectional(&mut near, &mut far).await.is_ok()
                });
            }
        });
        Self { address, connections }
    }

    async fn cut(self) {
        self.connections.abort();
        assert!(self.connections.await.is_err(), "it has ended by itself");
    }
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn without_its_table_the_log_has_what_an_alarm_counts() {
    let deployment = Deployment::load();
    for format in FORMATS {
        let table = unique("deleted");
        let idempotency = Idempotency::new(deployment.client(), &table);
        idempotency.create_table().await.expect("a table");
        let mut function = logging(deployment.payments(), format);
        function.environment.insert("IDEMPOTENCY_TABLE".into(), table.clone());
        let emulator = Emulator::start(&deployment, &function).await;
        assert_eq!(pay(&emulator).await, 201);
        assert!(!counts("ErrorLines", &emulator.log()), "{}", emulator.log());

        deployment.client().delete_table().table_name(&table).send().await.expect("a table");
        assert_eq!(pay(&emulator).await, 500);
        assert!(counts("ErrorLines", &emulator.log()), "{}", emulator.log());
    }
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn out_of_reach_of_dynamodb_the_log_has_what_two_alarms_count() {
    let deployment = Deployment::load();
    for format in FORMATS {
        let line = Line::to(&deployment.endpoint).await;
        let mut function = logging(deployment.payments(), format);
        let endpoint = format!("http://{}", line.address);
        function.environment.insert("AWS_ENDPOINT_URL_DYNAMODB".into(), endpoint);
        let emulator = Emulator::start(&deployment, &function).await;
        assert_eq!(pay(&emulator).await, 201);
        assert!(!counts("StoreError", &emulator.log()), "{}", emulator.log());

        line.cut().await;
        assert_eq!(pay(&emulator).await, 503);
        for alarm in ["StoreError", "ErrorLines"] {
            assert!(counts(alarm, &emulator.log()), "{alarm}: {}", emulator.log());
        }
    }
}
