//! A server as a child process: started, waited for, and stopped by its process id.
//!
//! `Drop` does not run when we are killed. Where the system has `setpriv` (util-linux), the server
//! is started through it with a parent-death signal: the kernel then ends the server whenever we
//! end, for whatever reason. `setpriv` turns into the server, so that the process id stays its own.
//! Elsewhere (macOS) only a signal to us alone leaves it running.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::probe;
use crate::command::quiet;

/// From the start to the first answer. 3 to 5 seconds are usual.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
const LOG: &str = "log";
const LOG_TAIL_LINES: usize = 20;

#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    folder: PathBuf,
    /// For what a kill of the child does not end: a container outlives its client.
    stop: Option<Command>,
}

impl ServerProcess {
    /// Starts `server` and returns once it answers at `port`. The folder is the server's alone: it
    /// is made here and goes with the server.
    pub(super) fn start(
        server: &Command,
        stop: Option<Command>,
        port: u16,
        folder: PathBuf,
    ) -> Result<Self> {
        fs::create_dir_all(&folder)?;
        let child = spawn(server, &folder.join(LOG))?;
        let mut process = Self { child, folder, stop };
        process.wait_until_it_answers(port).inspect_err(|_| process.print_log_tail())?;
        Ok(process)
    }

    fn wait_until_it_answers(&mut self, port: u16) -> Result<()> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at once ({status})");
            }
            match probe::lists_tables(port) {
                Ok(()) => return Ok(()),
                Err(error) if start.elapsed() > START_TIMEOUT => {
                    let seconds = START_TIMEOUT.as_secs();
                    return Err(error).with_context(|| format!("no answer within {seconds} s"));
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    /// How it ended, if it is no longer running.
    pub(super) fn early_end(&mut self) -> Option<String> {
        let end = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        self.print_log_tail();
        Some(end)
    }

    fn print_log_tail(&self) {
        let log = fs::read(self.folder.join(LOG)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        eprintln!("the last lines of the server's log:");
        for line in &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..] {
            eprintln!("    {line}");
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if let Some(stop) = &mut self.stop {
            let _ = quiet(stop);
        }
        // Its data is in memory: there is nothing that a gentler end would save. None of these can
        // be helped if it fails, and std does not signal a process id that was waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn spawn(server: &Command, log: &Path) -> Result<Child> {
    let stdout = File::create(log)?;
    let stderr = stdout.try_clone()?;
    let mut command = ending_with_its_parent(server);
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    command.spawn().context("the server did not start")
}

/// Wraps the command so that the server ends when the process that started it ends.
pub(super) fn ending_with_its_parent(server: &Command) -> Command {
    const SETPRIV: &[&str] = &["--pdeathsig", "TERM"];
    let has_setpriv = quiet(Command::new("setpriv").args(SETPRIV).arg("true"));
    let mut command = if has_setpriv.is_ok_and(|status| status.success()) {
        let mut command = Command::new("setpriv");
        command.args(SETPRIV).arg(server.get_program());
        command
    } else {
        Command::new(server.get_program())
    };
    command.args(server.get_args());
    command
}
