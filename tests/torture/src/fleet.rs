//! Starts, kills, stops and continues the worker processes, and leaves none behind.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

/// The number of workers.
const PLACES: usize = 8;

/// A child process that is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("{command:?} did not start"))?;
        Ok(Self(child))
    }

    /// The exit status, if the process has ended.
    pub(crate) fn end(&mut self) -> Result<Option<String>> {
        Ok(self.0.try_wait()?.map(|status| status.to_string()))
    }

    /// The process has not been waited for, so its id is not reused.
    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.0), signal).context("a worker cannot be signaled")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL also ends a stopped process. Errors are ignored, because nothing can be done about them.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug)]
enum State {
    Running(Process),
    Stopped(Process, Instant),
    /// Dead until this time.
    Dead(Instant),
}

#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) endpoint: String,
    /// The folder of the logs.
    pub(crate) folder: PathBuf,
    /// When the stream of keys began, epoch milliseconds.
    pub(crate) began: i64,
    rng: Rng,
    places: Vec<State>,
    started: u64,
}

impl Fleet {
    pub(crate) fn new(endpoint: String, folder: PathBuf, began: i64, rng: Rng) -> Self {
        let places = (0..PLACES).map(|_| State::Dead(Instant::now())).collect();
        Self { endpoint, folder, began, rng, places, started: 0 }
    }

    /// Starts and continues workers that are due, and detects those that have ended unexpectedly.
    pub(crate) fn tend(&mut self, now: Instant) -> Result<()> {
        for place in 0..self.places.len() {
            match &mut self.places[place] {
                State::Dead(until) if *until <= now => {
                    self.places[place] = State::Running(self.start(place)?);
                }
                State::Stopped(process, until) if *until <= now => {
                    process.signal(Signal::CONT)?;
                    self.change(place, |state| match state {
                        State::Stopped(process, _) => State::Running(process),
                        other @ (State::Running(_) | State::Dead(_)) => other,
                    });
                }
                State::Running(process) | State::Stopped(process, _) => {
                    if let Some(end) = process.end()? {
                        let folder = self.folder.display();
                        bail!(
                            "a worker ended unexpectedly ({end}): see the .err files in {folder}"
                        );
                    }
                }
                State::Dead(_) => {}
            }
        }
        Ok(())
    }

    /// Kills the worker at `place`, running or stopped; `false` if it is dead already.
    pub(crate) fn kill(&mut self, place: usize, until: Instant) -> bool {
        let dead = State::Dead(until);
        let is_alive = !matches!(self.places[place], State::Dead(_));
        if is_alive {
            self.places[place] = dead;
        }
        is_alive
    }

    /// Stops the worker at `place`; `false` if it is not running.
    pub(crate) fn stop(&mut self, place: usize, until: Instant) -> Result<bool> {
        let State::Running(process) = &self.places[place] else { return Ok(false) };
        process.signal(Signal::STOP)?;
        self.change(place, |state| match state {
            State::Running(process) => State::Stopped(process, until),
            other @ (State::Stopped(..) | State::Dead(_)) => other,
        });
        Ok(true)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn change(&mut self, place: usize, to: impl FnOnce(State) -> State) {
        let old = std::mem::replace(&mut self.places[place], State::Dead(Instant::now()));
        self.places[place] = to(old);
    }

    fn start(&mut self, place: usize) -> Result<Process> {
        self.started += 1;
        let name = format!("w{place}-{}", self.started);
        let log = self.folder.join(format!("{name}.jsonl"));
        let errors = File::create(self.folder.join(format!("{name}.err")))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").args(["--endpoint", &self.endpoint]).arg("--log").arg(log);
        command.args(["--index", &place.to_string()]);
        command.args(["--seed", &self.rng.u64(..).to_string()]);
        command.args(["--began", &self.began.to_string()]);
        // The worker ends when its standard input is closed.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(errors);
        Process::start(&mut command)
    }
}
