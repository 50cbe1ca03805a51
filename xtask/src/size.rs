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
    let sdk_only = sdk_only(&workspace)?;
    let [core, all, sdk] = [
        promise::crates(&workspace, &["--package", PACKAGE, "--no-default-features"])?,
        promise::crates(&workspace, &["--package", PACKAGE])?,
        promise::crates(&workspace, &["--manifest-path", &sdk_only])?,
    ];
    let added: Vec<_> = all.difference(&sdk).map(String::as_str).collect();
    sizes.push(format!("{} crates in the core, {} by default", core.len(), all.len()));
    let (number, names) = (added.len(), added.join(" "));
    sizes.push(format!("{number} crates more than the SDK and Lambda's runtime: {names}"));
    if !options.smoke {
        let [all, sdk] = [&["--package", PACKAGE][..], &["--manifest-path", &sdk_only]]
            .map(|selection| clean_build(&workspace, selection));
        sizes.push(format!("a clean build by default {} s of CPU, without it {} s", all?, sdk?));
    }
    println!("\nsize: {}", sizes.join("; "));
    if !is_small {
        println!("size: {WATCHED} may have {MAX_MEGABYTES:.1} MB");
    }
    Ok(is_small)
}

/// A program with what a function needs anyway: Lambda's runtime, and the SDK with the HTTPS client that the
/// crate chooses. Its crates have the versions of this workspace.
const SDK_ONLY: &str = r#"
[package]
name = "sdk-only"
edition = "2024"

[workspace]

[dependencies]
aws-config = { version = "1", default-features = false, features = ["rt-tokio"] }
aws-sdk-dynamodb = { version = "1", default-features = false, features = ["rt-tokio"] }
aws-smithy-http-client = { version = "1", features = ["rustls-ring"] }
lambda_http = { version = "1", default-features = false, features = ["apigw_rest", "apigw_http", "alb"] }
lambda_runtime = { version = "1", default-features = false }
serde = { version = "1", features = ["derive"] }
serde_json = "1"
tokio = { version = "1", features = ["macros", "rt"] }
"#;

/// Writes [`SDK_ONLY`], and returns the path of its manifest.
fn sdk_only(workspace: &Workspace) -> Result<String> {
    let folder = workspace.target.join("sdk-only");
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/main.rs"), "fn main() {}\n")?;
    fs::copy(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let manifest = folder.join("Cargo.toml");
    fs::write(&manifest, SDK_ONLY)?;
    Ok(manifest.to_string_lossy().into_owned())
}

/// The CPU seconds of a package and all below it, in cargo's dev profile.
fn clean_build(workspace: &Workspace, selection: &[&str]) -> Result<u64> {
    let target = workspace.target.join("size");
    remove(&target)?;
    let before = children_cpu().context("`size` needs Linux")?;
    let mut build = workspace.cargo([&["build"], selection].concat());
    ensure!(succeeds(build.env("CARGO_TARGET_DIR", &target))?, "{selection:?} could not be built");
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
