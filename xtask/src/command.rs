//! Ways to run a command.

use std::{
    fmt, fs, io,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

const PAUSE: Duration = Duration::from_millis(50);

/// Of the times in `/proc/self/stat`, on every Linux that Rust runs on.
const TICK: Duration = Duration::from_millis(10);

/// Standard output of a command that must succeed; what it says on standard error goes through.
///
/// # Errors
/// Where it does not start, fails, or says what is no UTF-8.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{command:?} did not start"))?;
    ensure!(output.status.success(), "{}: {}", describe(command), output.status);
    String::from_utf8(output.stdout).context("output is not UTF-8")
}

/// `cargo doc --no-deps`, without the path of the program.
#[must_use]
pub fn describe(command: &Command) -> String {
    let program =
        Path::new(command.get_program()).file_stem().unwrap_or_default().to_string_lossy();
    let args = command.get_args().map(|arg| arg.to_string_lossy());
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}

/// For commands of which only the status matters.
///
/// # Errors
/// Where it does not start.
pub fn quiet(command: &mut Command) -> io::Result<ExitStatus> {
    silence(command).status()
}

/// The same for a command that may hang; it is ended after `limit`, which then is its failure.
pub(crate) fn quiet_within(limit: Duration, command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = silence(command).spawn()?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > limit {
            child.kill()?;
            return child.wait();
        }
        thread::sleep(PAUSE);
    }
}

/// The CPU time of all processes that were started here and have ended, and of theirs. On Linux alone.
pub(crate) fn children_cpu() -> Option<Duration> {
    children_ticks(&fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| TICK * ticks)
}

/// The fields 16 and 17, `cutime` and `cstime`; the name in the second one may have blanks.
fn children_ticks(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_whitespace().skip(13).map(|field| field.parse::<u32>().ok());
    Some(times.next()?? + times.next()??)
}

/// How long something took that has begun then: `12.3 s`, on Linux with its CPU time.
pub(crate) struct Stopwatch {
    start: Instant,
    cpu: Option<Duration>,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), cpu: children_cpu() }
    }
}

impl fmt::Display for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.start.elapsed().as_secs_f64())?;
        match (self.cpu, children_cpu()) {
            (Some(before), Some(now)) => {
                write!(f, ", {:.1} s of CPU", now.saturating_sub(before).as_secs_f64())
            }
            _ => Ok(()),
        }
    }
}

fn silence(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_described_without_its_path() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.args(["doc", "--no-deps"]);
        assert_eq!(describe(&command), "cargo doc --no-deps");
    }

    #[test]
    fn the_times_of_children_are_found_behind_any_name() {
        let stat = "7 (a ) name) S 3 4 5 6 7 8 9 10 11 12 13 14 30 12 17 18 19";
        assert_eq!(children_ticks(stat), Some(42));
        assert_eq!(children_ticks("7 (short) S 3"), None);
    }

    #[test]
    fn a_command_that_hangs_is_ended_and_has_failed() {
        let mut sleep = Command::new("sleep");
        let status = quiet_within(Duration::from_millis(10), sleep.arg("60")).unwrap();
        assert!(!status.success());
    }
}
