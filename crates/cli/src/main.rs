//! `idempotency`: looks at a table of `dynamodb-idempotency`, and makes stuck keys free.

mod args;
mod audit;
mod block;
mod connect;
mod copy;
mod describe;
mod doctor;
mod estimate;
mod failure;
mod find;
mod hints;
mod interrupt;
mod keys;
mod manual;
mod output;
mod progress;
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
use clap::error::{ContextKind, ContextValue};
use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::CopyMode;
use serde_json::json;

use self::args::{Cli, Command};
use self::audit::AuditLog;
use self::failure::Failure;
use self::hints::Hints;
use self::record::Name;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&with_tip(error)),
    };
    let json = cli.json;
    if json {
        output::use_json();
    }
    let ended = match (interrupt::stoppable(Box::pin(run(cli))).await, output::end()) {
        (Ok(_), Err(failure)) => Err(failure),
        (Err(failure), Err(of_output)) => {
            output::remark(of_output);
            Err(failure)
        }
        (ended, Ok(())) => ended,
    };
    match ended {
        Ok(code) => code,
        Err(failure) => {
            if json {
                output::note(failure.document());
            } else {
                output::note(format_args!("error: {failure}"));
            }
            failure.exit_code()
        }
    }
}

/// A command line that is wrong, or asks for help. Programs get their document, as of any failure.
fn refused(error: &clap::Error) -> ExitCode {
    let is_for_programs = std::env::args_os().any(|arg| arg == "--json");
    if error.use_stderr() && is_for_programs {
        let failure = Failure::Usage(sentence(error));
        output::note(failure.document());
        return failure.exit_code();
    }
    error.exit()
}

/// Replaces clap's advice about an argument that begins with a dash. Its advice is wrong if options
/// follow, or if the key has more letters than an option.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let suggests = error.get(ContextKind::Suggested).is_some();
    if error.kind() == clap::error::ErrorKind::UnknownArgument && suggests {
        let tip = "a key that begins with a dash follows `--`, after all options: `-- SCOPE KEY`";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// What clap says in several lines, without the usage and the advice to read the help.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    let text = lines.collect::<Vec<_>>().join(" ");
    text.trim_start_matches("error: ").to_owned()
}

async fn run(mut cli: Cli) -> Result<ExitCode, Failure> {
    let json = cli.json;
    let is_copy = matches!(cli.command, Command::Copy { .. });
    cli.command.bind(cli.target.table.as_deref().filter(|_| !is_copy));
    match cli.command {
        Command::Completions { shell } => {
            manual::completions(shell, json);
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { folder } => {
            manual::pages(folder.as_deref(), json).map(|()| ExitCode::SUCCESS)
        }
        Command::Copy { from, to, dry_run, force, yes, write, scan } => {
            let [from, to] = [connect::valid_name(&from)?, connect::valid_name(&to)?];
            let source = connect::connect(&cli.target, from).await?;
            let target = connect::connect(&cli.target, to).await?;
            let mode = if dry_run { CopyMode::DryRun } else { CopyMode::Write };
            let options =
                copy::Options { mode, force, yes, max_write_units: write.max_write_units, scan };
            copy::run(&source, &target, &options, json).await
        }
        command => {
            let table = connect::table_name(&cli.target)?;
            let idempotency = connect::connect(&cli.target, table).await?;
            let hints = Hints::of(&cli.target);
            on_table(&idempotency, table, command, &hints, json).await
        }
    }
}

async fn on_table(
    idempotency: &Idempotency,
    table: &str,
    command: Command,
    hints: &Hints,
    json: bool,
) -> Result<ExitCode, Failure> {
    let admin = idempotency.admin();
    match command {
        Command::CreateTable => {
            let is_new = idempotency.create_table().await?;
            if json {
                output::document(json!({"created": is_new, "table": table}));
            } else if is_new {
                output::line(format!(
                    "a NEW, empty table `{table}` was created, with its time to live on; no table \
                     had this name"
                ));
            } else {
                output::line(format!("table `{table}` exists already; its time to live is on"));
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Doctor { scopes, tenant, strict } => {
            doctor::run(idempotency, &tenant.scopes(&scopes)?, strict, json).await
        }
        Command::Show { key } => show::run(admin, &Name::of(key)?, hints, json).await,
        Command::Stuck { scan, .. }
        | Command::Stats { scan, .. }
        | Command::Find { scan, .. }
        | Command::Sweep { scan, .. }
        | Command::Release { scan, stuck: true, .. }
            if scan.estimate =>
        {
            estimate::run(idempotency, &scan, json).await
        }
        Command::Find { hash, scan } => find::run(idempotency, &scan, &hash, hints, json).await,
        Command::Stuck { which, scan } => stuck::run(idempotency, &scan, which, hints, json).await,
        Command::Stats { scopes, scan } => stats::run(idempotency, &scan, scopes, json).await,
        Command::Sweep { delete, scan } => sweep::run(idempotency, &scan, delete, json).await,
        Command::Release { stuck: true, which, scan, consent, write, audit, .. } => {
            let audit = AuditLog::open(audit, table)?;
            let options = release::Options::new(consent, &scan, write, json);
            release::stuck(idempotency, &scan, which, &options, &audit).await
        }
        Command::Release { keys, which, scan, consent, write, audit, .. } => {
            if which.failed || !which.older_than.is_zero() {
                let message = "--failed and --older-than select operations: add --stuck";
                return Err(Failure::Usage(message.to_owned()));
            }
            let scope = scan.scope_of_keys(&keys.scope.unwrap_or_default())?;
            let audit = AuditLog::open(audit, table)?;
            let name = |key| Name::new(scope.clone(), key, keys.sha256);
            let names: Vec<_> = keys.names.into_iter().map(name).collect();
            match &names[..] {
                [name] => release::run(admin, name, consent, &audit, json).await,
                names => {
                    let options = release::Options::new(consent, &scan, write, json);
                    release::keys(admin, names, &options, &audit).await
                }
            }
        }
        Command::Block { scope, tenant, keys, sha256, lasts, force, yes, write, audit } => {
            let scope = tenant.scope(&scope)?;
            let audit = AuditLog::open(audit, table)?;
            let max_write_units = write.max_write_units;
            let options =
                block::Options { scope, keys, sha256, lasts, force, yes, max_write_units };
            block::run(admin, options, &audit, json).await
        }
        Command::Watch { key, interval, timeout, follow } => {
            let timeout = (!timeout.is_zero()).then_some(timeout);
            let pace = watch::Pace { interval, timeout, follow };
            watch::run(admin, &Name::of(key)?, pace, json).await
        }
        // These have no table, or two.
        Command::Completions { .. } | Command::Man { .. } | Command::Copy { .. } => {
            Err(Failure::Other("a defect of this program: a command was not run".to_owned()))
        }
    }
}
