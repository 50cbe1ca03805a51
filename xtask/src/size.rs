//! `cargo xtask size`: what users of the crate carry and wait for.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};

use crate::{
    archive::{megabytes, zipped},
    check::promise,
    tools::succeeds,
    workspace::{PACKAGE, Workspace},
};

/// The function that the README tells of, and what it may be, in MB.
const WATCHED: &str = "payments";
const MAX_MEGABYTES: f64 = 3.0;

const FUNCTIONS: [&str; 2] = [WATCHED, "payment-events"];

/// Of the times in `/proc/self/stat`, on every Linux that Rust runs on.
const TICKS_PER_SECOND: u64 = 100;

/// `false` if the function is too large.
pub(crate) fn run() -> Result<bool> {
    let workspace = Workspace::load()?;
    let build = ["build", "--release", "--package", "lambda-example", "--bins"];
    ensure!(succeeds(&mut workspace.cargo(build))?, "the functions could not be built");
    let mut is_small = true;
    let mut told = Vec::new();
    for function in FUNCTIONS {
        let size = megabytes(zipped(&[&workspace.target.join("release").join(function)])?);
        is_small &= function != WATCHED || size <= MAX_MEGABYTES;
        told.push(format!("{function} {size:.2} MB zipped"));
    }
    let core = promise::crates(&workspace, &["--no-default-features"])?;
    told.push(format!(
        "{core} crates in the core, {} by default",
        promise::crates(&workspace, &[])?
    ));
    told.push(format!("a clean build by default {} s of CPU", clean_build(&workspace)?));
    println!("\nsize: {}", told.join("; "));
    if !is_small {
        println!("size: {WATCHED} may have {MAX_MEGABYTES:.1} MB");
    }
    Ok(is_small)
}

/// The CPU seconds of the crate with default features and all below it, in the dev profile.
fn clean_build(workspace: &Workspace) -> Result<u64> {
    let target = workspace.target.join("size");
    remove(&target)?;
    let before = children_ticks()?;
    let mut build = workspace.cargo(["build", "--package", PACKAGE]);
    ensure!(succeeds(build.env("CARGO_TARGET_DIR", &target))?, "{PACKAGE} could not be built");
    let ticks = children_ticks()? - before;
    remove(&target)?;
    Ok(ticks / TICKS_PER_SECOND)
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("{} stays", folder.display()))?;
    }
    Ok(())
}

/// Of processes that have ended, and of theirs.
fn children_ticks() -> Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat").context("`size` needs Linux")?;
    children_ticks_of(&stat).with_context(|| format!("/proc/self/stat is `{stat}`"))
}

/// The fields 16 and 17, `cutime` and `cstime`; the name in the second one may have blanks.
fn children_ticks_of(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_whitespace().skip(13).map(|field| field.parse::<u64>().ok());
    Some(times.next()?? + times.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_children_are_found_behind_any_name() {
        let stat = "7 (a ) name) S 3 4 5 6 7 8 9 10 11 12 13 14 30 12 17 18 19";
        assert_eq!(children_ticks_of(stat), Some(42));
        assert_eq!(children_ticks_of("7 (short) S 3"), None);
    }
}
