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

/// The unit of times in `/proc/self/stat` on Linux.
const TICK: Duration = Duration::from_millis(10);

/// Returns the standard output of a command that must succeed. Its standard error is not redirected.
///
/// # Errors
/// If the command does not start, fails, or prints invalid UTF-8.
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

/// Runs a command of which only the status matters.
///
/// # Errors
/// If the command does not start.
pub fn quiet(command: &mut Command) -> io::Result<ExitStatus> {
    silence(command).status()
}

/// Runs a command that may hang. After `limit` it is killed and has failed.
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

/// Returns the CPU time of all child processes that have ended, and of theirs. Only on Linux.
pub(crate) fn children_cpu() -> Option<Duration> {
    children_ticks(&fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| TICK * ticks)
}

/// Reads fields 16 and 17, `cutime` and `cstime`. The name in field 2 may contain spaces.
fn children_ticks(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_whitespace().skip(13).map(|field| field.parse::<u32>().ok());
    Some(times.next()?? + times.next()??)
}

/// Measures and prints a duration: `12.3 s`, on Linux with its CPU time.
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
