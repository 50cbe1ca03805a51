//! `cargo xtask e2e`: the example's functions as Lambda runs them.
//!
//! Here is what a deployment prepares: DynamoDB Local has the tables of the SAM template, and each
//! function its environment variables, its memory and its timeout. The scenarios are the example's
//! test target `e2e`, where the AWS SDK is built already; they start the emulators and speak as the
//! services do.

mod filters;
mod tables;
mod template;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    args::E2eOptions,
    dynamodb_local::{self, Server},
    infra::{self, Moto},
    tools::{install_python, succeeds},
    workspace::Workspace,
};
use template::Template;

/// The stage that is made here. The others have their defaults.
const PARAMETERS: [(&str, &str); 1] = [("Stage", "dev")];

/// What a deployment of the SAM template comes to on this machine.
#[derive(Debug)]
pub struct Stack {
    /// The Runtime Interface Emulator.
    pub emulator: PathBuf,
    /// Their names, by the names that the template has for them.
    tables: BTreeMap<String, String>,
    /// By the name of the binary: what Lambda gives to each function.
    pub functions: Value,
    /// What is counted in their logs.
    filters: Value,
    /// The statements of the role that restores the table.
    restorer: Value,
}

impl Stack {
    /// Makes the tables.
    ///
    /// # Errors
    /// If the tools are not available, or DynamoDB does not create a table.
    pub fn deploy(workspace: &Workspace, server: &Server) -> Result<Self> {
        let sam = infra::sam(workspace)?;
        let template = Template::new(sam.template, &PARAMETERS);
        let tables = table_names(&template)?;
        tables::make(&template, &tables, server)?;
        let functions = functions(&template, &tables)?;
        let filters = filters::filters(&template)?;
        let restorer = restorer(&template)?;
        Ok(Self { emulator: sam.emulator, tables, functions, filters, restorer })
    }
}

/// `false` if a scenario has failed.
pub(crate) fn run(options: &E2eOptions) -> Result<bool> {
    let workspace = Workspace::load()?;
    let mut server = dynamodb_local::required(&workspace.target)?;
    let Stack { emulator, tables, functions, filters, restorer } =
        Stack::deploy(&workspace, &server)?;
    let Moto { server: mut moto, programs } = infra::moto(&workspace)?;
    let deployment = json!({
        "emulator": emulator,
        "endpoint": server.endpoint(),
        "cargo_lambda": cargo_lambda(&workspace)?,
        "command_line": workspace.target.join("debug/idempotency"),
        "target": workspace.target,
        "tables": tables,
        "functions": functions,
        "filters": filters,
        "moto": {"endpoint": moto.endpoint(), "programs": programs, "restorer": restorer},
        "bootstraps": options.bootstraps.as_deref().map(bootstraps).transpose()?,
    });
    let passed = run_scenarios(&workspace, &deployment, options, &server)?;
    for server in [&mut server, &mut moto] {
        if let Some(end) = server.early_end() {
            eprintln!("{} ended while the scenarios ran: {end}", server.endpoint());
            return Ok(false);
        }
    }
    Ok(passed)
}

/// The folder of the program that runs a user's own function, by the README's commands.
fn cargo_lambda(workspace: &Workspace) -> Result<PathBuf> {
    let venv = workspace.target.join("cargo-lambda");
    let requirements = workspace.root.join("xtask/arm64/requirements.txt");
    ensure!(install_python(&venv, &requirements, None)?, "cargo-lambda could not be installed");
    Ok(venv.join("bin"))
}

/// The whole workspace, as the tests: a narrower selection would build the AWS SDK again.
fn run_scenarios(
    workspace: &Workspace,
    deployment: &Value,
    options: &E2eOptions,
    server: &Server,
) -> Result<bool> {
    let folder = workspace.target.join("e2e");
    let file = folder.join(format!("deployment-{}.json", process::id()));
    fs::create_dir_all(&folder)?;
    fs::write(&file, format!("{deployment:#}\n"))?;
    // The program of the command line is built for its tests.
    let mut built = workspace.cargo_all("test", &["--test", "e2e", "--test", "cli", "--no-run"]);
    ensure!(succeeds(&mut built)?, "the command line could not be built");
    let mut command = workspace.cargo_all("test", &["--test", "e2e", "--", "--ignored"]);
    command.args(&options.binary_args).env("E2E_DEPLOYMENT", &file);
    println!("    with the Runtime Interface Emulator and DynamoDB Local ({})", server.origin());
    let passed = succeeds(&mut command);
    fs::remove_file(&file)?;
    passed
}

/// Names that no other run has: a server that runs already may have theirs.
fn table_names(template: &Template) -> Result<BTreeMap<String, String>> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let run = format!("e2e-{}-{seconds}", process::id());
    let ids = template.resources(tables::TYPE).map(|(id, _)| id);
    Ok(ids.map(|id| (id.to_owned(), format!("{run}-{id}"))).collect())
}

/// By the name of the binary: what Lambda gives to each function.
fn functions(template: &Template, tables: &BTreeMap<String, String>) -> Result<Value> {
    let mut functions = serde_json::Map::new();
    for (id, function) in template.resources("AWS::Lambda::Function") {
        let binary = binary(function).with_context(|| format!("{id} names no binary"))?;
        let property = |name: &str| {
            let value = template.resolve(&function["Properties"][name], tables);
            value.with_context(|| format!("{id}: {name}"))
        };
        let settings = json!({
            "environment": property("Environment")?["Variables"],
            "memory_mb": property("MemorySize")?,
            "timeout_s": property("Timeout")?,
        });
        functions.insert(binary.to_owned(), settings);
    }
    ensure!(!functions.is_empty(), "the template has no function");
    Ok(functions.into())
}

/// The actions of the role that restores the table, on all resources: moto does not look at these.
fn restorer(template: &Template) -> Result<Value> {
    let mut roles = template.resources("AWS::IAM::Role");
    let (_, role) = roles.find(|(id, _)| *id == "RestorerRole").context("no RestorerRole")?;
    let statements = role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"].as_array();
    let statements = statements.context("the RestorerRole has no statements")?.iter();
    let allowed = statements.map(
        |statement| json!({"Effect": "Allow", "Action": statement["Action"], "Resource": "*"}),
    );
    Ok(allowed.collect())
}

fn binary(function: &Value) -> Option<&str> {
    function["Metadata"]["BuildProperties"]["Binary"].as_str()
}

/// From the root: the tests run in another folder.
fn bootstraps(folder: &Path) -> Result<PathBuf> {
    folder.canonicalize().with_context(|| format!("there is no folder {}", folder.display()))
}
