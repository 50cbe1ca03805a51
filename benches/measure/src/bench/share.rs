//! What Lambda gives a small function of a machine: memory, and CPU in proportion. As a control group.

use std::{
    ffi::OsString,
    fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use xtask::command::describe;

/// At which Lambda gives a function one CPU (AWS Lambda's developer guide, "Configure Lambda function memory").
const MEGABYTES_OF_A_CPU: u64 = 1769;

/// In which a share is counted, in microseconds, as in a Lambda environment.
const PERIOD: u64 = 20_000;

const ROOT: &str = "/sys/fs/cgroup";

/// In too little memory a program may do nothing but read its pages again.
const LIMIT: Duration = Duration::from_secs(60);

/// By which the kernel ends a process where memory is out, and `timeout` one that is late.
const SIGKILL: i32 = 9;

/// A share of this machine, until it is dropped.
pub(super) struct Share {
    /// One of version 2, or one of each controller.
    groups: Vec<PathBuf>,
}

impl Share {
    /// # Errors
    /// If the system is not Linux, has no control groups, or does not permit creating one.
    pub(super) fn of(megabytes: u64) -> Result<Self> {
        let (quota, bytes) = (cpu_quota(megabytes), (megabytes * 1024 * 1024).to_string());
        let (quota, period) = (quota.to_string(), PERIOD.to_string());
        let name = format!("bench-{}", std::process::id());
        let root = Path::new(ROOT);
        let mut share = Self { groups: Vec::new() };
        if root.join("cgroup.controllers").exists() {
            let both = format!("{quota} {period}");
            share.group(&root.join(name), &[("cpu.max", &both), ("memory.max", &bytes)])?;
        } else if root.join("cpu").exists() {
            let cpu = [("cpu.cfs_period_us", &*period), ("cpu.cfs_quota_us", &*quota)];
            share.group(&root.join("cpu").join(&name), &cpu)?;
            let memory = [("memory.limit_in_bytes", &*bytes)];
            share.group(&root.join("memory").join(&name), &memory)?;
        } else {
            bail!("there are no control groups in {ROOT}");
        }
        Ok(share)
    }

    fn group(&mut self, group: &Path, limits: &[(&str, &str)]) -> Result<()> {
        fs::create_dir(group).with_context(|| format!("no group {}", group.display()))?;
        self.groups.push(group.to_owned());
        for (file, limit) in limits {
            fs::write(group.join(file), limit)
                .with_context(|| format!("no `{file}` for {}", group.display()))?;
        }
        Ok(())
    }

    /// Runs a command within the share, for at most a minute.
    ///
    /// # Errors
    /// If the command does not start, or fails for a reason other than memory or time.
    pub(super) fn run(&self, command: &Command) -> Result<Ended> {
        let began = Instant::now();
        let output = self.around(command).stderr(Stdio::inherit()).output()?;
        if output.status.success() {
            return Ok(Ended::Said(String::from_utf8(output.stdout)?));
        }
        if began.elapsed() >= LIMIT {
            return Ok(Ended::TooLate);
        }
        if is_killed(output.status) {
            return Ok(Ended::OutOfMemory);
        }
        bail!("{}: {}", describe(command), output.status);
    }

    /// The same command, which enters the share before it begins.
    fn around(&self, command: &Command) -> Command {
        let enter = self.groups.iter().map(|group| {
            let mut enter = OsString::from("echo $$ > '");
            enter.push(group.join("cgroup.procs"));
            enter.push("' && ");
            enter
        });
        let mut script: OsString = enter.collect();
        script.push("exec \"$@\"");
        let mut within = Command::new("timeout");
        within.args(["--signal=KILL", &LIMIT.as_secs().to_string(), "sh", "-c"]);
        within.arg(script).arg("sh").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => within.env(name, value),
                None => within.env_remove(name),
            };
        }
        within
    }
}

/// How a process in a share ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// What it has written.
    Said(String),
    TooLate,
    OutOfMemory,
}

/// `timeout` ends as its command did, or says so by its status, as a shell does.
fn is_killed(status: ExitStatus) -> bool {
    status.signal() == Some(SIGKILL) || status.code() == Some(128 + SIGKILL)
}

impl Drop for Share {
    fn drop(&mut self) {
        for group in &self.groups {
            if let Err(error) = fs::remove_dir(group) {
                eprintln!("{} could not be removed: {error}", group.display());
            }
        }
    }
}

/// The microseconds of CPU in a period.
fn cpu_quota(megabytes: u64) -> u64 {
    megabytes * PERIOD / MEGABYTES_OF_A_CPU
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_function_has_its_share_of_a_cpu() {
        assert_eq!([128, 1769, 3538].map(cpu_quota), [1447, 20_000, 40_000]);
    }

    #[test]
    fn a_command_is_the_same_within_a_share() {
        let share = Share { groups: Vec::new() };
        let mut command = Command::new("printf");
        command.args(["%s/%s", "a b", "$c"]).env("NAME", "value");
        assert_eq!(share.run(&command).unwrap(), Ended::Said("a b/$c".into()));
        let name = (std::ffi::OsStr::new("NAME"), Some(std::ffi::OsStr::new("value")));
        assert!(share.around(&command).get_envs().any(|env| env == name));
    }

    #[test]
    fn a_command_that_is_killed_has_not_failed_for_a_reason_of_its_own() {
        let share = Share { groups: Vec::new() };
        let mut command = Command::new("sh");
        assert_eq!(share.run(command.args(["-c", "kill -KILL $$"])).unwrap(), Ended::OutOfMemory);
        assert!(share.run(&Command::new("false")).is_err());
    }
}
