//! Broken rules, which the search must find.
//!
//! The machines have no switches that break a rule. `sabotage.patch` adds switches to a copy of the machines
//! and of this program. The copy is built, and searches for each broken rule. A patch that no longer
//! applies fails the run. Fix the patch together with the change that moved the code.

use std::cell::Cell;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::{env, fs, io};

thread_local! {
    static BROKEN: Cell<&'static [&'static str]> = const { Cell::new(&[]) };
}

/// Whether this program is the patched copy. The patch sets it.
pub(crate) const IS_COPY: bool = false;

/// Breaks these rules on this thread, and no others. The patch passes them to the machines too.
pub(crate) fn set(broken: &'static [&'static str]) {
    BROKEN.set(broken);
}

/// Whether this rule is broken. Used for the rules of the driver, which the search models itself.
pub(crate) fn is_broken(name: &str) -> bool {
    BROKEN.get().contains(&name)
}

/// Builds the copy and runs it. Returns whether the copy found every broken rule.
pub(crate) fn run_in_copy() -> io::Result<bool> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let copy = workspace.join("target/sabotage");
    for package in ["crates/protocol", "tests/search"] {
        let sources = copy.join(package).join("src");
        if sources.exists() {
            fs::remove_dir_all(&sources)?;
        }
        copy_folder(&workspace.join(package).join("src"), &sources)?;
        fs::copy(workspace.join(package).join("Cargo.toml"), sources.join("../Cargo.toml"))?;
    }
    fs::write(copy.join("Cargo.toml"), manifest(&workspace)?)?;
    let patch = workspace.join("tests/search/sabotage.patch");
    // Git must not find the repository around this folder: git may skip paths that a repository ignores.
    let mut git = Command::new("git");
    git.arg("apply")
        .arg(patch)
        .current_dir(&copy)
        .env_remove("GIT_DIR")
        .env("GIT_CEILING_DIRECTORIES", workspace.join("target"));
    // Without the patch, `IS_COPY` is false in the copy, which would then copy itself.
    let is_patched = succeeds(git.status()?) && copy.join("crates/protocol/src/mutant.rs").exists();
    if !is_patched {
        return Err(io::Error::other("tests/search/sabotage.patch does not apply: fix it"));
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut search = Command::new(cargo);
    search.args(["run", "--quiet", "--profile", "search", "--package", "protocol-search"]);
    search.args(["--", "--mutants"]).current_dir(&copy);
    Ok(succeeds(search.status()?))
}

fn succeeds(status: ExitStatus) -> bool {
    status.success()
}

/// The workspace's manifest, with the two packages of the copy as its only members.
fn manifest(workspace: &Path) -> io::Result<String> {
    let whole = fs::read_to_string(workspace.join("Cargo.toml"))?;
    let section = |name: &str| {
        let begin = whole.find(&format!("[{name}]"))?;
        let end = whole[begin..].find("\n\n").map_or(whole.len(), |length| begin + length);
        Some(&whole[begin..end])
    };
    let sections = ["workspace.package", "workspace.lints.rust", "workspace.lints.clippy"];
    let sections: Option<Vec<_>> = sections.into_iter().map(section).collect();
    let sections = sections.ok_or_else(|| io::Error::other("Cargo.toml has other sections"))?;
    let profiles = "[profile.search]\ninherits = \"release\"\n";
    let members =
        "[workspace]\nmembers = [\"crates/protocol\", \"tests/search\"]\nresolver = \"3\"\n";
    Ok(format!("{members}\n{}\n\n{profiles}", sections.join("\n\n")))
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
