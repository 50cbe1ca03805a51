//! Runs the commands in the pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::deployment::Deployment;
use crate::dynamodb::{client, unique};
use crate::emulator::free_addresses;
use crate::page::{ROOT, block};
use crate::project::{Project, Running};

const MESSAGES: &str = "docs/guide/messages.md";
const OPERATE: &str = "docs/guide/operate.md";
const TESTING: &str = "docs/guide/testing.md";
const AXUM: &str = "docs/guide/axum.md";
const ENCRYPT: &str = "docs/guide/encrypt-answers.md";
const LOCALLY: &str = "docs/guide/run-locally.md";

/// Splits the commands of a block after the one that starts the server.
fn split<'a>(block: &'a str, server: &str) -> (String, Vec<&'a str>) {
    let lines: Vec<_> = block.lines().filter(|line| !line.is_empty()).collect();
    let at = lines.iter().position(|line| line.contains(server)).expect("a server");
    (lines[..=at].join("\n"), lines[at + 1..].to_vec())
}

fn program(page: &str, heading: &str) -> String {
    block(page, heading, "rust")
}

#[test]
#[ignore = "needs a deployment: cargo xtask e2e"]
fn the_quick_start_answers_201_and_then_replays_it() {
    let program = program("README.md", "dynamodb-idempotency");
    let dependencies = block("README.md", "Use it", "toml");
    let project = Project::new(&Deployment::load(), &program, &dependencies);
    let shell = block("README.md", "Use it", "sh");
    let (serve, requests) = split(&shell, "cargo lambda watch");
    let [curl] = requests[..] else { panic!("one request, to be sent twice: {requests:?}") };
    let _running = project.start(&serve);
    for is_replayed in [false, true] {
        let answer = project.run(curl);
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
        assert_eq!(answer.contains("idempotency-replayed: true\r\n"), is_replayed, "{answer}");
        assert!(answer.ends_with("\r\n\r\npaid"), "{answer}");
    }
    // The commands of the page about operation show this key.
    let found = project.run(&(setup() + &block(OPERATE, "Operate", "sh")));
    assert!(found.matches("order-42").count() >= 2, "{found}");
}

/// The program of the README, for customers whom an authorizer knows.
#[test]
#[ignore = "needs a deployment: cargo xtask e2e"]
fn a_function_gets_the_claims_of_the_event_on_the_page_about_running_locally() {
    let (scope, claim) =
        (r#".http("payments")"#, r#".tenant(lambda::tenant::authorizer_claim("sub"))"#);
    let program = program("README.md", "dynamodb-idempotency");
    assert!(program.contains(scope), "{program}");
    let program = program.replace(scope, &format!("{scope}{claim}"));
    let dependencies = block("README.md", "Use it", "toml");
    let deployment = Deployment::load();
    let project = Project::new(&deployment, &program, &dependencies);
    project.link_target(&deployment, "target/watch");
    project.write("event.json", &block(LOCALLY, "cargo-lambda", "json"));
    let shell = block(LOCALLY, "cargo-lambda", "sh");
    let (serve, invocations) = split(&shell, "cargo lambda watch");
    let [invoke] = invocations[..] else { panic!("one invocation: {invocations:?}") };
    let _running = project.start(&serve);
    for is_replayed in [false, true] {
        let answer = project.run(invoke);
        assert!(answer.contains(r#""statusCode":201"#), "{answer}");
        assert_eq!(answer.contains("idempotency-replayed"), is_replayed, "{answer}");
    }
    let (variables, _) = shell.split_once("idempotency create-table").expect("a table");
    let show = "idempotency show payments order-42 --tenant user-7";
    let shown = project.run(&format!("{variables}{show}"));
    assert!(shown.contains("COMPLETED"), "{shown}");
}

/// The environment comes from the README, as the page says.
fn consumer(deployment: &Deployment) -> Project {
    let dependencies = block(MESSAGES, "Messages and events", "toml");
    let project =
        Project::new(deployment, &program(MESSAGES, "Messages and events"), &dependencies);
    project.write("batch.json", &block(MESSAGES, "Try it", "json"));
    project
}

/// The commands of the README that set the environment and create the table.
fn setup() -> String {
    let shell = block("README.md", "Use it", "sh");
    let (setup, _) = split(&shell, "cargo lambda watch");
    let (setup, _) = setup.rsplit_once('\n').expect("several lines");
    format!("{setup}\n")
}

#[test]
#[ignore = "needs a deployment: cargo xtask e2e"]
fn the_queue_consumer_handles_a_message_once() {
    let project = consumer(&Deployment::load());
    handles_its_batch_once(&project, &block(MESSAGES, "Try it", "sh"), "cargo lambda watch");
}

/// Sends the batch of the page twice to the consumer that `shell` serves by the command `server`.
fn handles_its_batch_once(project: &Project, shell: &str, server: &str) {
    let (serve, invocations) = split(shell, server);
    let [invoke] = invocations[..] else { panic!("one invocation: {invocations:?}") };
    let running = project.start(&(setup() + &serve));
    for _ in 0..2 {
        assert_eq!(project.run(invoke).trim(), r#"{"batchItemFailures":[]}"#);
    }
    let log = running.log();
    assert_eq!(log.matches("5 to acme").count(), 1, "{log}");
}

#[test]
#[ignore = "needs a deployment: cargo xtask e2e"]
fn the_whole_server_runs_with_the_dependencies_of_its_page() {
    let heading = "A whole server";
    let deployment = Deployment::load();
    let project = Project::new(&deployment, "fn main() {}", &block(AXUM, heading, "toml"));
    project.write("examples/server.rs", &program(AXUM, heading));
    project.run("cargo run --example server");
}

/// The tests of a server that needs nothing of Lambda. The documentation's tests run them; here they are compiled with
/// these dependencies alone.
#[test]
#[ignore = "needs a deployment: cargo xtask e2e"]
fn the_tests_of_the_testing_page_compile_with_its_dependencies() {
    let deployment = Deployment::load();
    let tests = block(TESTING, "Testing", "toml");
    let server = "[dependencies]\naxum = \"0.8\"\n\
                  dynamodb-idempotency = { git = \"URL of this repository\", \
                  default-features = false, features = [\"axum\", \"compression\", \"from-env\"] }\n";
    let project = Project::new(&deployment, "fn main() {}", &format!("{server}\n{tests}"));
    for (example, heading) in
        [("crashes", "Every crash"), ("sandbox", "A table and a clock"), ("http", "HTTP handlers")]
    {
        project.write(&format!("examples/{example}.rs"), &program(TESTING, heading));
    }
    project.run("cargo check --examples");
}

#[test]
#[ignore = "needs a deployment: cargo xtask e2e"]
fn the_tests_of_a_consumer_compile_with_its_dependencies() {
    let deployment = Deployment::load();
    let dependencies = block(MESSAGES, "Messages and events", "toml");
    let tests = block(TESTING, "Testing", "toml");
    let dependencies = format!("{dependencies}\n{tests}serde_json = \"1\"\n");
    let project = Project::new(&deployment, "fn main() {}", &dependencies);
    project.write("examples/consumer.rs", &program(MESSAGES, "Testing a consumer"));
    project.run("cargo check --example consumer");
}

/// Prints whether its credentials are accepted.
const SIGNED: &str = r#"
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), dynamodb_idempotency::Error> {
    let idempotency = dynamodb_idempotency::Idempotency::from_env().await?;
    println!("{:?}", idempotency.create_table().await);
    Ok(())
}
"#;

#[test]
#[ignore = "needs a deployment: cargo xtask e2e"]
fn a_profile_that_needs_a_feature_is_reported_with_its_name() {
    let dependencies = block("README.md", "Use it", "toml");
    let project = Project::new(&Deployment::load(), SIGNED, &dependencies);
    project.write("config", "[profile developer]\ncredential_process = /bin/false\n");
    let setup = setup();
    let (variables, _) = setup.split_once("cargo install").expect("an installation");
    let shell = "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY\n\
                 AWS_PROFILE=developer AWS_CONFIG_FILE=config cargo run";
    let printed = project.run(&format!("{variables}{shell}"));
    assert!(printed.contains("enable the feature `developer-credentials`"), "{printed}");
}

#[test]
#[ignore = "needs a deployment: cargo xtask e2e"]
fn a_users_function_runs_under_the_runtime_interface_emulator() {
    let deployment = Deployment::load();
    let project = consumer(&deployment);
    project.link_target(&deployment, "target");
    let shell = block(LOCALLY, "The Lambda Runtime Interface Emulator", "sh");
    handles_its_batch_once(&project, &shell, "aws-lambda-rie");
}

/// A shell command in this repository.
fn in_clone(shell: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-euc", shell]).current_dir(ROOT).stdin(Stdio::null());
    command
}

fn log() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique("log"))
}

#[tokio::test]
#[ignore = "needs Java and Maven: cargo xtask e2e"]
async fn dynamodb_local_starts_with_the_commands_of_its_page() {
    let [address, _] = free_addresses();
    let shell = block(LOCALLY, "DynamoDB Local", "sh");
    assert!(shell.contains("-port 8000"), "{shell}");
    let shell = shell.replace("-port 8000", &format!("-port {}", address.port()));
    let _running = Running::start(in_clone(&shell), address.port(), log());
    let tables = client(&format!("http://{address}")).list_tables().send().await;
    assert_eq!(tables.expect("an answer").table_names(), [""; 0]);
}

#[test]
#[ignore = "builds an example: cargo xtask e2e"]
fn the_playground_starts_with_the_command_of_the_readme() {
    let [address, _] = free_addresses();
    let shell = block("README.md", "Try it", "sh");
    let shell = format!("{} -- --port {}", shell.trim_end(), address.port());
    let _running = Running::start(in_clone(&shell), address.port(), log());
    let page = in_clone(&format!("curl -sf http://{address}")).output().expect("curl");
    assert!(String::from_utf8_lossy(&page.stdout).contains("<html"), "{page:?}");
}

#[test]
#[ignore = "builds an example: cargo xtask e2e"]
fn the_encrypted_example_runs_with_the_command_of_its_page() {
    let shell = block(ENCRYPT, "Encrypt: an `AnswerCodec`", "sh");
    let output = in_clone(&shell).output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("in the table: "), "{output:?}");
}
