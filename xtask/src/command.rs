//! Ways to run a command.

use std::{
    io,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

const PAUSE: Duration = Duration::from_millis(50);

/// Standard output of a command that must succeed; what it says on standard error goes through.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{command:?} did not start"))?;
    ensure!(output.status.success(), "{}: {}", describe(command), output.status);
    String::from_utf8(output.stdout).context("output is not UTF-8")
}

/// `cargo doc --no-deps`, without the path of the program.
pub(crate) fn describe(command: &Command) -> String {
    let program =
        Path::new(command.get_program()).file_stem().unwrap_or_default().to_string_lossy();
    let args = command.get_args().map(|arg| arg.to_string_lossy());
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}

/// For commands of which only the status matters.
pub(crate) fn quiet(command: &mut Command) -> io::Result<ExitStatus> {
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
    fn a_command_that_hangs_is_ended_and_has_failed() {
        let mut sleep = Command::new("sleep");
        let status = quiet_within(Duration::from_millis(10), sleep.arg("60")).unwrap();
        assert!(!status.success());
    }
}
