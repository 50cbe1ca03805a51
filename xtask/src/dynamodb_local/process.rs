//! A server as a child process, which is stopped by its process id.
//!
//! `Drop` does not run when this process is killed. On systems with `setpriv` (util-linux) the server is
//! therefore started with a parent-death signal: the kernel ends it when this process ends. `setpriv`
//! executes the server, so the process id does not change. On other systems (macOS), killing only this
//! process leaves the server running.

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

/// The limit from the start to the first response. It usually takes 3 to 5 seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
const LOG: &str = "log";
const LOG_TAIL_LINES: usize = 20;

#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    folder: PathBuf,
    /// Stops what outlives the child process, such as a container.
    stop: Option<Command>,
}

impl ServerProcess {
    /// Starts `server` and returns when it responds at `port`. The folder belongs to the server: it is
    /// created here and deleted with the server.
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
                    return Err(error).with_context(|| format!("no response within {seconds} s"));
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    /// Its exit status, if it is no longer running.
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
        // Its data is in memory, so a graceful stop has no advantage. Errors are ignored, and std does not
        // signal a process that was waited for already.
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
