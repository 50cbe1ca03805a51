//! `idempotency`: looks at a table of `dynamodb-idempotency`, and makes stuck keys free.

mod args;
mod connect;
mod doctor;
mod failure;
mod manual;
mod output;
mod record;
mod release;
mod scan;
mod show;
mod stats;
mod stuck;
mod table;
mod watch;
mod words;

use std::process::ExitCode;

use clap::Parser;
use dynamodb_idempotency::{Idempotency, Scope};
use serde_json::json;

use self::args::{Cli, Command};
use self::failure::Failure;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli).await {
        Ok(code) => code,
        Err(failure) => {
            if !matches!(failure, Failure::NobodyReads) {
                eprintln!("error: {failure}");
            }
            failure.exit_code()
        }
    }
}

async fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let json = cli.json;
    match cli.command {
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(folder.as_deref()),
        command => {
            let idempotency = connect::connect(&cli.target).await?;
            on_table(&idempotency, command, json).await
        }
    }
}

async fn on_table(
    idempotency: &Idempotency,
    command: Command,
    json: bool,
) -> Result<ExitCode, Failure> {
    let admin = idempotency.admin();
    match command {
        Command::CreateTable => {
            idempotency.create_table().await?;
            if json {
                output::line(json!({"created": true}))?;
            } else {
                output::line("the table is there, and its time to live is on")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Doctor { scopes, strict } => {
            let scopes = scopes.iter().map(|scope| Scope::from_encoded(scope));
            let scopes = scopes.collect::<Result<Vec<_>, _>>()?;
            doctor::run(admin, &scopes, strict, json).await
        }
        Command::Show { key } => show::run(admin, &key, json).await,
        Command::Stuck { older_than, scan } => {
            stuck::run(idempotency, &scan, older_than, json).await
        }
        Command::Stats { scopes, scan } => stats::run(idempotency, &scan, scopes, json).await,
        Command::Release { key, force, yes } => {
            release::run(admin, &key, release::Consent { force, yes }, json).await
        }
        Command::Watch { key, interval, follow } => {
            watch::run(admin, &key, interval, follow, json).await
        }
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(folder.as_deref()),
    }
}
