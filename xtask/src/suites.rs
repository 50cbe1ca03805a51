//! The tests that `cargo test` leaves to `cargo xtask verify`.

use anyhow::Result;

use crate::{
    dynamodb_local::{self, ENDPOINT},
    tools::succeeds,
    workspace::Workspace,
};

/// How the SDK retries: `cargo test` runs the suite with its default.
const NEW_RETRIES: &str = "AWS_NEW_RETRIES_2026";

/// All tests but those of documentation, on DynamoDB Local. The inner error is why it is not available.
pub(crate) fn run_on_dynamodb_local(workspace: &Workspace) -> Result<Result<bool, String>> {
    let mut server = match dynamodb_local::available(&workspace.target)? {
        Ok(server) => server,
        Err(reason) => return Ok(Err(reason.to_string())),
    };
    let targets = ["--no-fail-fast", "--lib", "--bins", "--tests"];
    let mut command = workspace.cargo_all("test", &targets);
    command.env(ENDPOINT, server.endpoint()).env(NEW_RETRIES, "true");
    // The suite `api` starts one.
    let mut passed = build_examples(workspace)? && succeeds(&mut command)?;
    if let Some(end) = server.early_end() {
        println!("    DynamoDB Local ended while the tests ran: {end}");
        passed = false;
    }
    Ok(Ok(passed))
}

/// The schedules up to their bounds.
pub(crate) fn run_schedules(workspace: &Workspace) -> Result<bool> {
    let tests = ["--test", "faults", "--", "--ignored", "exhaustive"];
    succeeds(&mut workspace.cargo_all("test", &tests))
}

/// The examples of the documentation.
pub(crate) fn run_doc_tests(workspace: &Workspace) -> Result<bool> {
    succeeds(&mut workspace.cargo_all("test", &["--doc"]))
}

/// Builds the examples as what they are. `--all-targets` would make test binaries of them.
pub(crate) fn build_examples(workspace: &Workspace) -> Result<bool> {
    succeeds(&mut workspace.cargo_all("build", &["--examples"]))
}

/// Counts the connections of programs that use the SDK's own HTTP client. The crate is outside the
/// workspace so that nothing else is built with that client.
pub(crate) fn run_one_pool(workspace: &Workspace) -> Result<bool> {
    let mut command = workspace.cargo(["test", "--manifest-path", "tests/one-pool/Cargo.toml"]);
    command.args(["--test", "one_connection", "--target-dir"]).arg(&workspace.target);
    succeeds(&mut command)
}

/// Every state of the machines, as they are shipped. Then the broken rules that are found only after millions of
/// states.
pub(crate) fn run_search(workspace: &Workspace) -> Result<bool> {
    let deep = [&["test"], SEARCH, &["--", "--ignored"]].concat();
    Ok(search(workspace, &[])? && succeeds(&mut workspace.cargo(deep))?)
}

/// The rows that have too many states for each change.
pub(crate) fn run_weekly_search(workspace: &Workspace) -> Result<bool> {
    search(workspace, &["--", "--weekly"])
}

const SEARCH: &[&str] = &["--profile", "search", "--package", "protocol-search"];

fn search(workspace: &Workspace, args: &[&str]) -> Result<bool> {
    let command = [&["run"], SEARCH, &["--no-default-features"], args].concat();
    succeeds(&mut workspace.cargo(command))
}
