//! `cargo xtask size`: what users of the crate carry and wait for.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};

use crate::{
    archive::{megabytes, zipped},
    args::SizeOptions,
    command::children_cpu,
    tools::succeeds,
    verify::promise,
    workspace::{PACKAGE, Workspace},
};

/// The function whose size `docs/benchmarks.md` states, and its limit in MB.
const WATCHED: &str = "payments";
const MAX_MEGABYTES: f64 = 3.0;

const FUNCTIONS: [&str; 2] = [WATCHED, "payment-events"];

/// `false` if the function is too large.
pub(crate) fn run(options: &SizeOptions) -> Result<bool> {
    let workspace = Workspace::load()?;
    let (profile, mut build) = if options.smoke {
        // The build that the functions' tests have made.
        ("debug", workspace.cargo_all("test", &["--test", "e2e", "--no-run"]))
    } else {
        let package = ["--package", "lambda-example", "--bins"];
        ("release", workspace.cargo(["build", "--release"].into_iter().chain(package)))
    };
    ensure!(succeeds(&mut build)?, "the functions could not be built");
    let mut is_small = true;
    let mut sizes = Vec::new();
    for function in FUNCTIONS {
        let size = megabytes(zipped(&[&workspace.target.join(profile).join(function)])?);
        is_small &= options.smoke || function != WATCHED || size <= MAX_MEGABYTES;
        sizes.push(format!("{function} {size:.3} MB zipped"));
    }
    let core = promise::crates(&workspace, &["--no-default-features"])?;
    sizes.push(format!(
        "{core} crates in the core, {} by default",
        promise::crates(&workspace, &[])?
    ));
    if !options.smoke {
        sizes.push(format!("a clean build by default {} s of CPU", clean_build(&workspace)?));
    }
    println!("\nsize: {}", sizes.join("; "));
    if !is_small {
        println!("size: {WATCHED} may have {MAX_MEGABYTES:.1} MB");
    }
    Ok(is_small)
}

/// The CPU seconds of the crate with default features and all below it, in the dev profile.
fn clean_build(workspace: &Workspace) -> Result<u64> {
    let target = workspace.target.join("size");
    remove(&target)?;
    let before = children_cpu().context("`size` needs Linux")?;
    let mut build = workspace.cargo(["build", "--package", PACKAGE]);
    ensure!(succeeds(build.env("CARGO_TARGET_DIR", &target))?, "{PACKAGE} could not be built");
    let after = children_cpu().context("`size` needs Linux")?;
    remove(&target)?;
    Ok(after.saturating_sub(before).as_secs())
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("{} stays", folder.display()))?;
    }
    Ok(())
}
