//! What a machine must have for some commands, and how pinned tools are installed below `target`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use crate::command::{describe, quiet};

/// A program of the machine's, of a version that will do.
pub(crate) struct Tool {
    program: &'static str,
    /// With these it succeeds if it will do.
    test: &'static [&'static str],
    name: &'static str,
}

pub(crate) const PYTHON: Tool = Tool {
    program: "python3",
    test: &["-c", "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))"],
    name: "Python 3.10 or newer with its module venv (Debian: python3-venv)",
};

pub(crate) const NODE: Tool = Tool {
    program: "node",
    test: &["-e", "process.exit(Number(process.versions.node.split('.')[0]) < 20 ? 1 : 0)"],
    name: "Node.js 20 or newer",
};

pub(crate) const NPM: Tool =
    Tool { program: "npm", test: &["--version"], name: "npm, which comes with Node.js" };

impl Tool {
    fn is_there(&self) -> bool {
        quiet(Command::new(self.program).args(self.test)).is_ok_and(|status| status.success())
    }

    /// The required version, and the version found instead.
    fn wanted(&self) -> String {
        let version = Command::new(self.program).arg("--version").output();
        match version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()) {
            Ok(version) if !version.is_empty() => format!("{} (it has {version})", self.name),
            _ => self.name.to_owned(),
        }
    }
}

/// The message that names the missing tools, if any are missing.
pub(crate) fn missing(tools: &[Tool]) -> Option<String> {
    let missing: Vec<_> = tools.iter().filter(|tool| !tool.is_there()).map(Tool::wanted).collect();
    (!missing.is_empty()).then(|| format!("this machine has no {}", missing.join(", and no ")))
}

/// A virtual environment at `venv` with the packages of `requirements`, in the versions of
/// `constraints`. It is created again when one of these files has changed.
pub(crate) fn install_python(
    venv: &Path,
    requirements: &Path,
    constraints: Option<&Path>,
) -> Result<bool> {
    let locks: Vec<_> =
        std::iter::once(requirements).chain(constraints).map(Path::to_owned).collect();
    let stamp = Stamp::new(venv.with_extension("lock"), &locks)?;
    if stamp.holds() && venv.exists() {
        return Ok(true);
    }
    let mut make = Command::new("python3");
    let mut install = Command::new(venv.join("bin/pip"));
    install.args(["install", "--quiet", "--requirement"]).arg(requirements);
    if let Some(constraints) = constraints {
        install.arg("--constraint").arg(constraints);
    }
    let installed = succeeds(make.args(["-m", "venv", "--clear"]).arg(venv))?
        && succeeds(install.stdin(Stdio::null()))?;
    if installed {
        stamp.leave()?;
    }
    Ok(installed)
}

/// The packages of a folder's `package-lock.json`, in its `node_modules`; installed again when the lock
/// file, of which `stamp` is a copy, has changed.
pub(crate) fn install_node(folder: &Path, stamp: PathBuf) -> Result<bool> {
    let stamp = Stamp::new(stamp, &[folder.join("package-lock.json")])?;
    if stamp.holds() && folder.join("node_modules").exists() {
        return Ok(true);
    }
    let mut install = Command::new("npm");
    install.current_dir(folder).stdin(Stdio::null()).args(["ci", "--no-audit", "--no-fund"]);
    let installed = succeeds(&mut install)?;
    if installed {
        stamp.leave()?;
    }
    Ok(installed)
}

pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    println!("    {}", describe(command));
    let status = command.status().with_context(|| format!("{command:?} did not start"))?;
    Ok(status.success())
}

/// Says that what is installed is what these lock files name.
struct Stamp {
    file: PathBuf,
    content: String,
}

impl Stamp {
    fn new(file: PathBuf, locks: &[PathBuf]) -> Result<Self> {
        let read = |lock: &PathBuf| {
            fs::read_to_string(lock).with_context(|| format!("{} cannot be read", lock.display()))
        };
        let content = locks.iter().map(read).collect::<Result<String>>()?;
        Ok(Self { file, content })
    }

    fn holds(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|content| content == self.content)
    }

    fn leave(&self) -> Result<()> {
        fs::write(&self.file, &self.content)
            .with_context(|| format!("{} cannot be written", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_another_version_is_reported() {
        let old = Tool { program: "sh", test: &["-c", "exit 1"], name: "sh 99" };
        let absent = Tool { program: "no-such-program", test: &[], name: "a program" };
        let message = missing(&[old, absent]).unwrap();
        assert!(message.starts_with("this machine has no sh 99"), "{message}");
        assert!(message.ends_with(", and no a program"), "{message}");
        let cargo = Tool { program: "cargo", test: &["no-such-command"], name: "Cargo 99" };
        let message = missing(&[cargo]).unwrap();
        assert!(message.contains("Cargo 99 (it has cargo 1."), "{message}");
    }

    #[test]
    fn what_is_there_is_not_missing() {
        assert_eq!(missing(&[Tool { program: "cargo", test: &["--version"], name: "" }]), None);
    }
}
