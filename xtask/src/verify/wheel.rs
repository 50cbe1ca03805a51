//! A tool of this machine or, if it is missing, the pinned one of `wheels/`, installed below `target`.

use std::{io, path::PathBuf, process::Command, process::ExitStatus};

use anyhow::Result;

use crate::{
    command::quiet,
    tools::{PYTHON, install_python, missing},
    workspace::Workspace,
};

pub(super) struct Wheel {
    program: PathBuf,
    root: PathBuf,
}

impl Wheel {
    /// Returns the tool, or why it is not available.
    pub(super) fn of(workspace: &Workspace, name: &str) -> Result<Result<Self, String>> {
        let with = |program| Self { program, root: workspace.root.clone() };
        let own = with(name.into());
        if own.runs().is_ok_and(|status| status.success()) {
            return Ok(Ok(own));
        }
        if let Some(missing) = missing(&[PYTHON]) {
            return Ok(Err(format!("{name} is not installed, and {missing}")));
        }
        let venv = workspace.target.join("wheels");
        let wheels = workspace.root.join("xtask/wheels");
        let (requirements, constraints) =
            (wheels.join("requirements.txt"), wheels.join("constraints.txt"));
        if !install_python(&venv, &requirements, Some(&constraints))? {
            return Ok(Err(format!("{name} could not be installed")));
        }
        Ok(Ok(with(venv.join("bin").join(name))))
    }

    fn runs(&self) -> io::Result<ExitStatus> {
        quiet(&mut self.command(&["--version"]))
    }

    /// In the workspace's root.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.root).args(args);
        command
    }
}
