//! What cargo knows of this workspace, and how cargo is called in it.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command::output;

/// The package that is the product.
pub(crate) const PACKAGE: &str = "dynamodb-idempotency";

/// The features of the tests, beside all features of the workspace: those of `serde_json` that any crate of a
/// user's program can switch on. `cargo test` is without them. The SDK does not depend on `serde_json`, so it is
/// not built again.
const JSON_FEATURES: &str =
    "serde_json/arbitrary_precision,serde_json/float_roundtrip,serde_json/preserve_order";

/// The workspace that `cargo` was called in.
#[derive(Debug)]
pub struct Workspace {
    /// Where its manifest lies.
    pub root: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    /// The features of [`PACKAGE`], without `default`.
    pub(crate) features: Vec<String>,
    /// The names of the packages that are published.
    pub(crate) published: Vec<String>,
}

impl Workspace {
    /// # Errors
    /// Where cargo finds none.
    pub fn load() -> Result<Self> {
        let mut command = cargo(Path::new("."));
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        Self::from_metadata(&output(&mut command)?)
    }

    fn from_metadata(metadata: &str) -> Result<Self> {
        let metadata: Value =
            serde_json::from_str(metadata).context("`cargo metadata` is not JSON")?;
        let path = |key: &str| {
            metadata[key].as_str().map(PathBuf::from).with_context(|| format!("no `{key}`"))
        };
        Ok(Self {
            root: path("workspace_root")?,
            target: path("target_directory")?,
            features: features(&metadata)
                .with_context(|| format!("no package `{PACKAGE}` in the workspace"))?,
            published: published(&metadata),
        })
    }

    /// A cargo command in the root of the workspace.
    pub fn cargo<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = cargo(&self.root);
        command.args(args);
        command
    }

    /// A cargo command for the whole workspace, with the features of the tests. A narrower selection would
    /// change the features of tokio and hyper, and build the AWS SDK again.
    #[must_use]
    pub fn cargo_all(&self, subcommand: &str, args: &[&str]) -> Command {
        let mut command = self.cargo([subcommand, "--workspace", "--all-features"]);
        command.args(["--features", JSON_FEATURES]).args(args);
        command
    }
}

fn features(metadata: &Value) -> Option<Vec<String>> {
    let packages = metadata["packages"].as_array()?;
    let package = packages.iter().find(|package| package["name"] == PACKAGE)?;
    let names = package["features"].as_object()?.keys();
    Some(names.filter(|name| *name != "default").cloned().collect())
}

/// Those without `publish = false`.
fn published(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let published = packages.filter(|package| package["publish"].is_null());
    published.filter_map(|package| package["name"].as_str().map(str::to_owned)).collect()
}

/// The cargo that runs us, without the variables that it has set for us: some build scripts (ring's,
/// for one) look at them, and would run again whenever `cargo test` and `cargo xtask verify` are
/// called in turns.
fn cargo(directory: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let inherited = env::vars_os().map(|(name, _)| name).filter(|name| {
        name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        })
    });
    for name in inherited {
        command.env_remove(name);
    }
    command.current_dir(directory).stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "workspace_root": "/w", "target_directory": "/w/target",
        "packages": [
            {"name": "xtask", "publish": [], "features": {"other": []}},
            {"name": "dynamodb-idempotency", "features": {"default": [], "http": [], "lambda": []}}
        ]}"#;

    #[test]
    fn features_are_those_of_the_product_without_default() {
        let workspace = Workspace::from_metadata(METADATA).unwrap();
        assert_eq!(workspace.features, ["http", "lambda"]);
        assert_eq!(workspace.published, [PACKAGE]);
        assert_eq!(workspace.target, Path::new("/w/target"));
    }

    #[test]
    fn a_workspace_without_the_product_is_an_error() {
        let metadata = METADATA.replace("dynamodb-idempotency", "renamed");
        let error = Workspace::from_metadata(&metadata).unwrap_err();
        assert!(error.to_string().contains(PACKAGE), "{error}");
    }
}
