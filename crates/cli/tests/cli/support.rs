//! A table, records by hand, and the program.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::primitives::{Blob, DateTime, DateTimeFormat};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::{Client, Config};
use dynamodb_idempotency::{Builder, Idempotency, TableSchema};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub(crate) fn n(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(crate) fn map(members: &[(&str, AttributeValue)]) -> AttributeValue {
    AttributeValue::M(members.iter().map(|(name, one)| ((*name).to_owned(), one.clone())).collect())
}

/// Now, in epoch milliseconds.
pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    now.as_millis().try_into().unwrap()
}

/// A PENDING record of another owner: ten minutes of lease left, one day of retention.
pub(crate) fn pending(pk: &str) -> Item {
    [
        ("pk", s(pk)),
        ("status", s("PENDING")),
        ("owner", s("00000000000000000000000000000000")),
        ("attempt", n(1)),
        ("fingerprint", AttributeValue::B(Blob::new([&[1], &[7; 32][..]].concat()))),
        ("lease_expires_at", n(now() + 600_000)),
        ("created_at", n(now() - 60_000)),
        ("expires_at", n(now() / 1000 + 86_400)),
        ("format", n(1)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// An abandoned record whose lease expired `seconds` ago.
pub(crate) fn abandoned(pk: &str, seconds: i64) -> Item {
    with(pending(pk), "lease_expires_at", n(now() - seconds * 1000))
}

/// The blocker of a key: an abandoned record with the fingerprint of no request.
pub(crate) fn blocker(pk: &str) -> Item {
    let fingerprint = AttributeValue::B(Blob::new([&[1], &[0; 32][..]].concat()));
    with(abandoned(pk, 60), "fingerprint", fingerprint)
}

/// A COMPLETED record of another owner with an HTTP answer.
pub(crate) fn completed(pk: &str) -> Item {
    let headers = AttributeValue::L(vec![AttributeValue::L(vec![s("location"), s("/payments/1")])]);
    let answer = map(&[("status", n(201)), ("headers", headers), ("body", s(r#"{"id":"re_1"}"#))]);
    let mut item = with(with(pending(pk), "status", s("COMPLETED")), "response", answer);
    item.remove("lease_expires_at");
    with(item, "completed_at", n(now() - 30_000))
}

pub(crate) fn with(mut item: Item, name: &str, value: AttributeValue) -> Item {
    item.insert(name.to_owned(), value);
    item
}

/// A table of one test, and the program that reads it.
pub(crate) struct Store {
    pub(crate) endpoint: String,
    pub(crate) table: String,
    pub(crate) client: Client,
}

impl Store {
    pub(crate) async fn open() -> Self {
        Self::with_schema(TableSchema::default()).await
    }

    pub(crate) async fn with_schema(schema: TableSchema) -> Self {
        let store = Self::without_table().await;
        let builder = Idempotency::builder(store.client.clone(), &store.table).schema(schema);
        builder.build().unwrap().create_table().await.expect("the table can be made");
        store
    }

    /// Another table in the same engine.
    pub(crate) async fn another_table(&self, schema: TableSchema) -> Self {
        let (endpoint, client) = (self.endpoint.clone(), self.client.clone());
        let store = Self { endpoint, table: unique(), client };
        let builder = store.builder().schema(schema);
        builder.build().unwrap().create_table().await.expect("the table can be made");
        store
    }

    /// Deletes the table, and makes one with its name.
    pub(crate) async fn make_again(&self) {
        let delete = self.client.delete_table().table_name(&self.table);
        delete.send().await.expect("it is there");
        self.builder().build().unwrap().create_table().await.expect("the table can be made");
    }

    pub(crate) async fn without_table() -> Self {
        let endpoint = match std::env::var("DYNAMODB_ENDPOINT") {
            Ok(endpoint) if !endpoint.is_empty() => endpoint,
            _ => embedded().await,
        };
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "test"))
            .endpoint_url(&endpoint)
            .http_client(aws_smithy_http_client::Builder::new().build_http());
        Self { endpoint, table: unique(), client: Client::from_conf(config.build()) }
    }

    pub(crate) async fn put(&self, item: Item) {
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        put.send().await.expect("the store is there");
    }

    pub(crate) async fn item(&self, pk: &str) -> Option<Item> {
        let get = self.client.get_item().table_name(&self.table).key("pk", s(pk));
        get.consistent_read(true).send().await.expect("the store is there").item
    }

    pub(crate) async fn delete(&self, pk: &str) {
        let delete = self.client.delete_item().table_name(&self.table).key("pk", s(pk));
        delete.send().await.expect("the store is there");
    }

    /// Whether the record with this `pk` is RELEASED.
    pub(crate) async fn is_released(&self, pk: &str) -> bool {
        self.item(pk).await.is_some_and(|item| item["status"] == s("RELEASED"))
    }

    /// All items, to see that nothing was written.
    pub(crate) async fn items(&self) -> Vec<Item> {
        let scan = self.client.scan().table_name(&self.table).consistent_read(true);
        scan.send().await.expect("the store is there").items.unwrap_or_default()
    }

    /// The same table through a proxy that writes `item` before it forwards a release.
    pub(crate) async fn changing(&self, item: Item) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
        let below = self.endpoint.trim_start_matches("http://").to_owned();
        let (client, table) = (self.client.clone(), self.table.clone());
        let between = Self { endpoint, table: table.clone(), client: client.clone() };
        tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                let store = TcpStream::connect(&below).await.expect("the store is there");
                let (mut from_caller, mut to_caller) = caller.into_split();
                let (mut from_store, mut to_store) = store.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from_store, &mut to_caller).await });
                let put = client.put_item().table_name(&table).set_item(Some(item.clone()));
                tokio::spawn(async move {
                    let mut request = vec![0; 64 * 1024];
                    while let Ok(bytes @ 1..) = from_caller.read(&mut request).await {
                        let request = &request[..bytes];
                        if String::from_utf8_lossy(request).contains(".UpdateItem") {
                            put.clone().send().await.expect("the store is there");
                        }
                        to_store.write_all(request).await.expect("the store is there");
                    }
                });
            }
        });
        between
    }

    /// The same table through a proxy that does not return the response to an update.
    pub(crate) async fn losing_responses_to_updates(&self) -> Self {
        self.losing_responses_when(|request| request.contains(".UpdateItem")).await
    }

    /// The same table through a proxy that does not return the responses to these requests.
    pub(crate) async fn losing_responses_when(
        &self,
        is_lost: impl Fn(&str) -> bool + Clone + Send + 'static,
    ) -> Self {
        self.through(move |request, response| (!is_lost(request)).then_some(response)).await
    }

    /// The same table through a proxy that answers requests of this operation with an error, and
    /// does not forward them.
    pub(crate) async fn failing(&self, operation: &str, status: u16, error: &str) -> Self {
        let operation = format!(".{operation}");
        let failed = response(status, &format!(r#"{{"__type":"{error}"}}"#));
        self.answering_when(move |request| request.contains(&operation), failed).await
    }

    /// The same table through a proxy that answers requests of this operation on `table` so.
    pub(crate) async fn answering(&self, operation: &str, table: &str, body: &Value) -> Self {
        let (operation, table) = (format!(".{operation}"), format!("\"{table}\""));
        let answer = response(200, &body.to_string());
        let is_meant =
            move |request: &str| request.contains(&operation) && request.contains(&table);
        self.answering_when(is_meant, answer).await
    }

    /// The same table through a proxy that answers these requests with a server error, and does not
    /// forward them.
    pub(crate) async fn failing_when(
        &self,
        fails: impl Fn(&str) -> bool + Clone + Send + 'static,
    ) -> Self {
        let failed = response(500, r#"{"__type":"InternalServerError"}"#);
        self.answering_when(fails, failed).await
    }

    /// The same table through a proxy that denies these requests.
    pub(crate) async fn denying_when(
        &self,
        is_denied: impl Fn(&str) -> bool + Clone + Send + 'static,
    ) -> Self {
        let denied = response(400, r#"{"__type":"AccessDeniedException"}"#);
        self.answering_when(is_denied, denied).await
    }

    async fn answering_when(
        &self,
        is_answered: impl Fn(&str) -> bool + Clone + Send + 'static,
        answer: Vec<u8>,
    ) -> Self {
        let act = move |request: &str| {
            if is_answered(request) { Act::Answer(answer.clone()) } else { Act::Forward }
        };
        self.between(act, |_, response| Some(response)).await
    }

    /// The same table through a proxy that never answers these requests.
    pub(crate) async fn silent_when(
        &self,
        is_silent: impl Fn(&str) -> bool + Clone + Send + 'static,
    ) -> Self {
        self.between(
            move |request| if is_silent(request) { Act::Keep } else { Act::Forward },
            |_, response| Some(response),
        )
        .await
    }

    /// The same table through a proxy whose responses are from a clock that is `seconds` ahead.
    pub(crate) async fn ahead(&self, seconds: i64) -> Self {
        let date = DateTime::from_secs(now() / 1000 + seconds);
        let date = date.fmt(DateTimeFormat::HttpDate).expect("a date");
        self.through(move |_, mut response| {
            let at = response.windows(6).position(|name| name.eq_ignore_ascii_case(b"date: "));
            let at = at.expect("a response has a date") + 6;
            response[at..at + date.len()].copy_from_slice(date.as_bytes());
            Some(response)
        })
        .await
    }

    /// The same table through a proxy whose responses have no `Date`.
    pub(crate) async fn undated(&self) -> Self {
        self.through(|_, mut response| {
            let at = response.windows(6).position(|name| name.eq_ignore_ascii_case(b"date: "));
            let at = at.expect("a response has a date");
            response[at..at + 4].copy_from_slice(b"when");
            Some(response)
        })
        .await
    }

    /// The same table through a proxy that returns what `change` makes of a request's response. For
    /// `None` it closes the connection.
    async fn through(
        &self,
        change: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>> + Clone + Send + 'static,
    ) -> Self {
        self.between(|_| Act::Forward, change).await
    }

    /// As [`through`](Self::through), after `act` has decided about the request.
    async fn between(
        &self,
        act: impl Fn(&str) -> Act + Clone + Send + 'static,
        change: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>> + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
        let below = self.endpoint.trim_start_matches("http://").to_owned();
        tokio::spawn(async move {
            while let Ok((mut caller, _)) = listener.accept().await {
                let mut store = TcpStream::connect(&below).await.expect("the store is there");
                let (act, change) = (act.clone(), change.clone());
                tokio::spawn(async move {
                    let mut request = vec![0; 64 * 1024];
                    while let Ok(bytes @ 1..) = caller.read(&mut request).await {
                        let request = &request[..bytes];
                        match act(&String::from_utf8_lossy(request)) {
                            Act::Forward => {}
                            Act::Answer(answer) => {
                                caller.write_all(&answer).await.expect("it listens");
                                continue;
                            }
                            Act::Keep => std::future::pending().await,
                        }
                        store.write_all(request).await.expect("the store is there");
                        let mut response = Vec::new();
                        while !is_whole(&response) {
                            let bytes = store.read_buf(&mut response).await;
                            assert!(bytes.expect("it answers") > 0, "the response is cut off");
                        }
                        let Some(response) = change(&String::from_utf8_lossy(request), response)
                        else {
                            return;
                        };
                        caller.write_all(&response).await.expect("it listens");
                    }
                });
            }
        });
        let (client, table) = (self.client.clone(), self.table.clone());
        Self { endpoint, table, client }
    }

    /// Runs the program on this table.
    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        let table = ["--endpoint-url", &self.endpoint, "--table", &self.table];
        run(&[&table[..], args].concat()).await
    }

    /// As [`run`](Self::run), for a reader that has closed its end.
    #[cfg(unix)]
    pub(crate) async fn run_without_reader(&self, args: &[&str]) -> (i32, String) {
        let table = ["--endpoint-url", &self.endpoint, "--table", &self.table];
        with_a_closed_output(&[&table[..], args].concat()).await
    }

    /// Like [`run`](Self::run), on a terminal at which `typed` is entered.
    #[cfg(target_os = "linux")]
    pub(crate) async fn run_on_a_terminal(&self, args: &[&str], typed: &str) -> Ended {
        let table = ["--endpoint-url", &self.endpoint, "--table", &self.table];
        on_a_terminal(&[&table[..], args].concat(), typed).await
    }

    /// An operation of the library's on this table, which is done and has this answer.
    pub(crate) async fn done(&self, builder: Builder, key: &str, answer: &str) {
        let idempotency = builder.build().expect("the settings are right");
        let operation = idempotency.operation("payments").key(key).no_payload();
        let ran = operation.run(async |_| Ok::<_, std::io::Error>(answer.to_owned())).await;
        ran.expect("it runs");
    }

    /// The library on this table.
    pub(crate) fn builder(&self) -> Builder {
        Idempotency::builder(self.client.clone(), &self.table)
    }

    /// As [`run`](Self::run), and reads the JSON of a success.
    pub(crate) async fn json(&self, args: &[&str]) -> Value {
        let ended = self.run(&[&["--json"], args].concat()).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.json()
    }
}

/// What a proxy does with a request.
enum Act {
    Forward,
    Answer(Vec<u8>),
    Keep,
}

/// A response of DynamoDB.
fn response(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} It\r\ncontent-type: application/x-amz-json-1.0\r\n\
         content-length: {length}\r\n\r\n"
    );
    (head + body).into()
}

/// Whether an HTTP response has arrived up to the end of its body.
fn is_whole(response: &[u8]) -> bool {
    let text = String::from_utf8_lossy(response).to_ascii_lowercase();
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.expect("a length").parse().expect("a number");
    response.len() >= head.len() + 4 + length
}

/// How the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// What a failed command says to programs.
    pub(crate) fn json_error(&self) -> Value {
        let document: Value =
            serde_json::from_str(&self.err).unwrap_or_else(|_| panic!("JSON: {self:?}"));
        assert_eq!((&document["schema"], self.out.as_str()), (&1.into(), ""), "{self:?}");
        assert_eq!(document["error"]["exit_code"], self.code, "{self:?}");
        document["error"].clone()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("JSON: {self:?}"))
    }

    /// What a failed command says, one line, and with which code.
    pub(crate) fn error(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{self:?}");
        let lines: Vec<_> = self.err.lines().collect();
        let [line] = lines[..] else { panic!("one line: {self:?}") };
        line.strip_prefix("error: ").unwrap_or_else(|| panic!("an error: {self:?}"))
    }
}

/// The program in an environment that has credentials and nothing else of AWS.
pub(crate) fn program(args: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_idempotency"));
    program.args(args);
    credentials(program.env_clear()).stdin(Stdio::null()).kill_on_drop(true);
    program
}

fn credentials(program: &mut Command) -> &mut Command {
    program
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        // A test of a store that fails does not wait for retries of the SDK.
        .env("AWS_MAX_ATTEMPTS", "1")
}

/// A line that is typed into a shell which finds the program.
#[cfg(unix)]
pub(crate) async fn pasted(line: &str) -> Ended {
    let own = std::path::Path::new(env!("CARGO_BIN_EXE_idempotency"));
    let mut shell = Command::new("/bin/bash");
    shell.args(["-c", line]);
    credentials(shell.env_clear())
        .env("LC_ALL", "C.UTF-8")
        .env("PATH", own.parent().expect("it is in a folder"))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    ended(&mut shell).await
}

/// The exit code of the program with an output that its reader has closed.
#[cfg(unix)]
pub(crate) async fn with_a_closed_output(args: &[&str]) -> (i32, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut program = program(args);
    program.stdout(writer).stderr(Stdio::piped());
    let running = program.spawn().expect("it starts").wait_with_output();
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
    let ended = ended.expect("it ends").expect("it ran");
    let code = ended.status.code().expect("no signal ended it");
    (code, String::from_utf8(ended.stderr).expect("text"))
}

pub(crate) async fn run(args: &[&str]) -> Ended {
    ended(&mut program(args)).await
}

pub(crate) async fn ended(program: &mut Command) -> Ended {
    let output = tokio::time::timeout(Duration::from_secs(60), program.output()).await;
    let output = output.expect("it ends").expect("it starts");
    Ended {
        code: output.status.code().expect("no signal ended it"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Runs the program on a pseudo-terminal (`script` of util-linux), which merges output and errors.
#[cfg(target_os = "linux")]
async fn on_a_terminal(args: &[&str], typed: &str) -> Ended {
    let quoted = |arg: &&str| format!("'{arg}'");
    let own = env!("CARGO_BIN_EXE_idempotency");
    let line: Vec<_> = std::iter::once(&own).chain(args).map(quoted).collect();
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line.join(" "), "/dev/null"]);
    credentials(script.env_clear())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut script = script.spawn().expect("there is `script`");
    let mut keyboard = script.stdin.take().expect("it is piped");
    keyboard.write_all(typed.as_bytes()).await.expect("it reads");
    drop(keyboard);
    let output = tokio::time::timeout(Duration::from_secs(60), script.wait_with_output()).await;
    let output = output.expect("it ends").expect("it ran");
    Ended {
        code: output.status.code().expect("no signal ended it"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Ends the program by a signal as soon as `has_begun`.
#[cfg(unix)]
pub(crate) async fn interrupted(
    mut program: Command,
    signal: &str,
    has_begun: impl AsyncFn() -> bool,
) -> std::process::Output {
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = program.spawn().expect("it starts");
    // Open until it has ended: the end of the input would end the program too.
    let _input = running.stdin.take();
    while !has_begun().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let id = running.id().expect("it runs").to_string();
    let sent = Command::new("kill").args([signal, &id]).status().await;
    assert!(sent.expect("it runs").success());
    let ended = tokio::time::timeout(Duration::from_secs(60), running.wait_with_output());
    ended.await.expect("it ends").expect("it ran")
}

async fn embedded() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
    let database = dynoxide::Database::memory().expect("a database in memory");
    tokio::spawn(dynoxide::server::serve_on(listener, database));
    endpoint
}

pub(crate) fn unique() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("cli-{}-{}-{number}", std::process::id(), now())
}
