//! The command line, which only `cargo xtask torture` and `torture run` use.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

pub(crate) const HELP: &str = "\
Usage: torture run --endpoint URL --folder PATH [OPTIONS] -- SERVER COMMAND
       (made to be called by `cargo xtask torture`)

  --endpoint URL    where the server listens once its command runs
  --folder PATH     for the logs; kept if something is wrong
  --kills N         how many workers to kill (default 100)
  --seconds N       the longest time for the faults (default 600)
  --seed N          which faults and keys (default: random)
  --sabotage WHAT   spoil what is stored before it is checked: answer, status, effect or lost-effect.
                    The check must fail";

#[derive(Debug)]
pub(crate) enum Command {
    Run(RunOptions),
    Worker(WorkerOptions),
}

#[derive(Clone, Debug)]
pub(crate) struct RunOptions {
    pub(crate) endpoint: String,
    pub(crate) folder: PathBuf,
    pub(crate) kills: u64,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) sabotage: Option<Sabotage>,
    /// Program and arguments.
    pub(crate) server: Vec<String>,
}

/// How stored data is corrupted, to prove that the check can fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sabotage {
    /// A stored answer is changed.
    Answer,
    /// A completed record is made pending again.
    Status,
    /// An effect is duplicated under an unknown owner.
    Effect,
    /// The effect of a completed key is deleted.
    LostEffect,
}

#[derive(Debug)]
pub(crate) struct WorkerOptions {
    pub(crate) endpoint: String,
    /// The log, and nothing else.
    pub(crate) log: PathBuf,
    /// Its position in the fleet, which determines the kind of its leases.
    pub(crate) index: usize,
    pub(crate) seed: u64,
    /// When the stream of keys started, in epoch milliseconds.
    pub(crate) began: i64,
}

pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command> {
    let mut args = args.into_iter();
    let command = args.next().context("which command?")?;
    let mut flags: Vec<String> = args.collect();
    let server = match flags.iter().position(|arg| arg == "--") {
        Some(separator) => flags.drain(separator..).skip(1).collect(),
        None => Vec::new(),
    };
    let mut flags = Flags { rest: flags };
    let command = match command.as_str() {
        "run" => Command::Run(RunOptions {
            endpoint: flags.required("--endpoint")?,
            folder: flags.required("--folder")?,
            kills: flags.take("--kills")?.unwrap_or(100),
            time: Duration::from_secs(flags.take("--seconds")?.unwrap_or(600)),
            seed: flags.take("--seed")?.unwrap_or_else(|| fastrand::u64(..1_000_000)),
            sabotage: flags.take("--sabotage")?,
            server,
        }),
        "worker" => Command::Worker(WorkerOptions {
            endpoint: flags.required("--endpoint")?,
            log: flags.required("--log")?,
            index: flags.required("--index")?,
            seed: flags.required("--seed")?,
            began: flags.required("--began")?,
        }),
        other => bail!("unknown command `{other}`"),
    };
    ensure!(flags.rest.is_empty(), "what is `{}`?", flags.rest.join(" "));
    if let Command::Run(options) = &command {
        ensure!(!options.server.is_empty(), "the server's command comes after `--`");
    }
    Ok(command)
}

impl FromStr for Sabotage {
    type Err = anyhow::Error;

    fn from_str(what: &str) -> Result<Self> {
        match what {
            "answer" => Ok(Self::Answer),
            "status" => Ok(Self::Status),
            "effect" => Ok(Self::Effect),
            "lost-effect" => Ok(Self::LostEffect),
            other => bail!("unknown sabotage `{other}`"),
        }
    }
}

struct Flags {
    rest: Vec<String>,
}

impl Flags {
    fn required<T: FromStr>(&mut self, name: &str) -> Result<T> {
        self.take(name)?.with_context(|| format!("{name} is missing"))
    }

    fn take<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        let Some(at) = self.rest.iter().position(|arg| arg == name) else { return Ok(None) };
        ensure!(at + 1 < self.rest.len(), "{name} needs a value");
        let value = self.rest.drain(at..=at + 1).nth(1).unwrap_or_default();
        match value.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => bail!("{name} cannot be `{value}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn the_servers_command_is_what_follows_the_separator() {
        let line = "run --endpoint http://e --folder f --kills 3 -- java -port 1 --kills 4";
        let Command::Run(options) = parse_line(line).unwrap() else { panic!("not a run") };
        assert_eq!(options.kills, 3);
        assert_eq!(options.server, ["java", "-port", "1", "--kills", "4"]);
    }

    #[test]
    fn an_invalid_line_is_rejected_with_the_reason() {
        let cases = [
            ("", "which command"),
            ("walk", "`walk`"),
            ("run --folder f -- s", "--endpoint is missing"),
            ("run --endpoint e --folder f", "after `--`"),
            ("run --endpoint e --folder f --kills", "needs a value"),
            ("run --endpoint e --folder f --kills many -- s", "cannot be `many`"),
            ("run --endpoint e --folder f --sabotage x -- s", "cannot be `x`"),
            ("run --endpoint e --folder f --fast -- s", "`--fast`"),
        ];
        for (line, reason) in cases {
            let error = parse_line(line).unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
