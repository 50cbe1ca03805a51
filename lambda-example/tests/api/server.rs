//! The local server as a separate process: the example that the README names.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A running server; it ends with the test.
pub struct Server {
    pub address: String,
    /// What it printed up to the last line of its welcome.
    pub welcome: String,
    _process: Child,
}

/// The example's binary is in a folder next to the test's.
fn binary() -> PathBuf {
    let mut path = std::env::current_exe().expect("the test's own path");
    path.pop();
    path.pop();
    path.push("examples");
    path.push(format!("local{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.exists(),
        "{} is not there: `cargo build -p lambda-example --example local`",
        path.display()
    );
    path
}

impl Server {
    pub async fn start() -> Self {
        Self::started_by(&mut Command::new(binary())).await
    }

    /// With an embedded DynamoDB whatever the tests run on: its tables are empty.
    async fn start_embedded() -> Self {
        Self::started_by(Command::new(binary()).env_remove("DYNAMODB_ENDPOINT")).await
    }

    async fn started_by(command: &mut Command) -> Self {
        let mut process = command
            .args(["--port", "0"])
            .env("RUST_LOG", "off")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("a server");
        let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let mut welcome = String::new();
        while let Some(line) = lines.next_line().await.expect("its welcome") {
            welcome.push_str(&line);
            welcome.push('\n');
            if line.starts_with("What really happened") {
                break;
            }
        }
        let (_, rest) = welcome.split_once("http://").expect("its address");
        let address = rest.lines().next().expect("its address").to_owned();
        Self { address, welcome, _process: process }
    }
}

#[tokio::test]
async fn it_prints_its_address_and_requests_to_try() {
    let server = Server::start().await;
    assert!(server.welcome.contains(&format!("http://{}", server.address)));
    let tries = server.welcome.lines().filter(|line| line.starts_with("curl ")).count();
    assert_eq!(tries, 6, "{}", server.welcome);
    assert!(server.welcome.contains(" idempotency --endpoint-url http://"), "{}", server.welcome);
}

/// Runs a line in a shell, as who reads it would.
async fn typed(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().await.expect("a shell");
    assert!(output.status.success(), "{line}: {output:?} (needs curl)");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs each request exactly as printed.
#[tokio::test]
async fn the_printed_requests_do_what_is_said_of_them() {
    let server = Server::start_embedded().await;
    let lines: Vec<_> = server.welcome.lines().filter(|line| line.starts_with("curl ")).collect();
    let [pay, again, other_amount, slow, slow_again, crash] = lines[..] else {
        panic!("{}", server.welcome);
    };
    for (line, status, is_replayed) in
        [(pay, "201", false), (again, "201", true), (other_amount, "422", false)]
    {
        let answer = typed(line).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {answer}");
        assert_eq!(answer.contains("idempotency-replayed: true"), is_replayed, "{answer}");
    }
    let both = typed(&format!("{slow}\n{slow_again}\nwait")).await;
    let count = |what: &str| both.matches(what).count();
    // In progress; or the answer, on a machine that is slow to start the second.
    let repeats = count("HTTP/1.1 409 ") + count("idempotency-replayed: true");
    assert_eq!((count("HTTP/1.1 "), repeats), (2, 1), "{both}");
    let died = typed(crash).await;
    assert!(died.starts_with("HTTP/1.1 502 "), "{died}");
}

#[tokio::test]
async fn a_wrong_argument_is_an_error_that_says_so() {
    for (arguments, said) in [
        (vec!["--port", "x"], "--port takes a number from 0 to 65535, not `x`"),
        (vec!["--port"], "--port takes a number"),
        (vec!["--prot", "1"], "unknown argument `--prot`"),
    ] {
        let output = Command::new(binary()).args(&arguments).output().await.expect("an ending");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(said), "{arguments:?}: {error}");
    }
}
