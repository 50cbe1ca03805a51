//! `cargo xtask arm64`: the example's functions, compiled for the architecture on which the templates
//! deploy them.

use std::{env, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    args::Arm64Options,
    command::{Stopwatch, output, quiet},
    tools::{self, PYTHON, succeeds},
    workspace::Workspace,
};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const FUNCTIONS: [&str; 2] = ["payments", "payment-events"];

/// The value at byte 18 of an ELF file for this architecture (`EM_AARCH64`).
const AARCH64: u16 = 183;

/// Returns `false` if they cannot be built, or if a required tool is missing.
pub(crate) fn run(options: &Arm64Options) -> Result<bool> {
    let workspace = Workspace::load()?;
    let venv = workspace.target.join("arm64/venv");
    match missing(&workspace, &venv)? {
        Some(missing) if options.require => {
            println!("arm64: required, but {missing}");
            Ok(false)
        }
        Some(missing) => {
            println!("arm64: left out, {missing}");
            Ok(true)
        }
        None => build(&workspace, &venv),
    }
}

/// Installs missing tools. Returns a message that names those that cannot be installed.
fn missing(workspace: &Workspace, venv: &Path) -> Result<Option<String>> {
    if let Some(missing) = tools::missing(&[PYTHON]) {
        return Ok(Some(missing));
    }
    if !has_target()? {
        // Fails without rustup.
        let added = quiet(Command::new("rustup").args(["target", "add", TARGET]));
        if !added.is_ok_and(|status| status.success()) || !has_target()? {
            return Ok(Some(format!("Rust's standard library for {TARGET} could not be had")));
        }
    }
    fs::create_dir_all(workspace.target.join("arm64"))?;
    let requirements = workspace.root.join("xtask/arm64/requirements.txt");
    let installed = tools::install_python(venv, &requirements, None)?;
    Ok((!installed).then(|| "cargo-lambda and zig could not be installed".to_owned()))
}

fn has_target() -> Result<bool> {
    let folder =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]))?;
    Ok(Path::new(folder.trim()).exists())
}

/// Builds like a deployment, but in the dev profile: a release build takes minutes longer and compiles the
/// same code.
fn build(workspace: &Workspace, venv: &Path) -> Result<bool> {
    let stopwatch = Stopwatch::start();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([venv.join("bin")].into_iter().chain(env::split_paths(&path)))?;
    let args = ["lambda", "build", "--arm64", "--package", "lambda-example", "--bins"];
    let mut command = workspace.cargo(args);
    if !succeeds(command.env("PATH", path))? {
        return Ok(false);
    }
    for function in FUNCTIONS {
        let bootstrap = workspace.target.join("lambda").join(function).join("bootstrap");
        ensure_arm64(&bootstrap)?;
    }
    println!("arm64: {} built for {TARGET} in {stopwatch}", FUNCTIONS.join(" and "));
    Ok(true)
}

fn ensure_arm64(binary: &Path) -> Result<()> {
    let bytes = fs::read(binary).with_context(|| format!("{} is missing", binary.display()))?;
    ensure!(bytes.starts_with(b"\x7fELF"), "{} is not a Linux program", binary.display());
    let Some(machine) = bytes.get(18..20).and_then(|bytes| bytes.try_into().ok()) else {
        bail!("{} is cut off", binary.display());
    };
    let machine = u16::from_le_bytes(machine);
    ensure!(machine == AARCH64, "{} is for the machine {machine}", binary.display());
    Ok(())
}
