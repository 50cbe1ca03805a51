//! `idempotency`: looks at a table of `dynamodb-idempotency`, and makes stuck keys free.

mod args;
mod audit;
mod connect;
mod doctor;
mod estimate;
mod failure;
mod find;
mod manual;
mod output;
mod record;
mod release;
mod resume;
mod scan;
mod show;
mod stats;
mod stuck;
mod sweep;
mod table;
mod watch;
mod words;

use std::process::ExitCode;

use clap::Parser;
use dynamodb_idempotency::{Idempotency, Scope};
use serde_json::json;

use self::args::{Cli, Command};
use self::audit::AuditLog;
use self::failure::Failure;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let json = cli.json;
    match run(cli).await {
        Ok(code) => code,
        Err(failure) => {
            match failure {
                Failure::NobodyReads => {}
                _ if json => eprintln!("{}", failure.document()),
                _ => eprintln!("error: {failure}"),
            }
            failure.exit_code()
        }
    }
}

/// A command line that is wrong, or asks for help. Programs get their document, as of any failure.
fn refused(error: &clap::Error) -> ExitCode {
    let is_for_programs = std::env::args_os().any(|arg| arg == "--json");
    if error.use_stderr() && is_for_programs {
        let said = error.to_string();
        let said = said.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let failure = Failure::Usage(said.to_owned());
        eprintln!("{}", failure.document());
        return failure.exit_code();
    }
    error.exit()
}

async fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let json = cli.json;
    match cli.command {
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(folder.as_deref()),
        command => {
            let table = connect::table_name(&cli.target)?;
            let idempotency = connect::connect(&cli.target, table).await?;
            on_table(&idempotency, table, command, json).await
        }
    }
}

async fn on_table(
    idempotency: &Idempotency,
    table: &str,
    command: Command,
    json: bool,
) -> Result<ExitCode, Failure> {
    let admin = idempotency.admin();
    match command {
        Command::CreateTable => {
            let is_new = idempotency.create_table().await?;
            if json {
                output::document(json!({"created": is_new}))?;
            } else if is_new {
                output::line(format!("table `{table}` was created, with its time to live on"))?;
            } else {
                output::line(format!("table `{table}` exists already; its time to live is on"))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Doctor { scopes, strict } => {
            let scopes = scopes.iter().map(|scope| Scope::from_encoded(scope));
            let scopes = scopes.collect::<Result<Vec<_>, _>>()?;
            doctor::run(admin, &scopes, strict, json).await
        }
        Command::Show { key } => show::run(admin, &key, json).await,
        Command::Stuck { scan, .. }
        | Command::Stats { scan, .. }
        | Command::Find { scan, .. }
        | Command::Sweep { scan, .. }
            if scan.estimate =>
        {
            estimate::run(idempotency, &scan, json).await
        }
        Command::Find { hash, scan } => find::run(idempotency, &scan, &hash, json).await,
        Command::Stuck { older_than, scan } => {
            stuck::run(idempotency, &scan, older_than, json).await
        }
        Command::Stats { scopes, scan } => stats::run(idempotency, &scan, scopes, json).await,
        Command::Sweep { delete, scan } => sweep::run(idempotency, &scan, delete, json).await,
        Command::Release { key, consent, audit } => {
            let audit = AuditLog::open(audit, table)?;
            release::run(admin, &key, consent, &audit, json).await
        }
        Command::Watch { key, interval, timeout, follow } => {
            let timeout = (!timeout.is_zero()).then_some(timeout);
            watch::run(admin, &key, watch::Pace { interval, timeout, follow }, json).await
        }
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(folder.as_deref()),
    }
}
