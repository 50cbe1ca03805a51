//! The minimum supported Rust version is exactly the newest one that a dependency needs. CI builds the
//! crates with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Outcome;
use crate::{command::output, workspace::Workspace};

/// Names the compiler of the job that builds with it.
const WORKFLOW: &str = ".github/workflows/ci.yml";

pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    let args = ["metadata", "--format-version", "1", "--all-features"];
    let metadata: Value = serde_json::from_str(&output(&mut workspace.cargo(args))?)?;
    let workflow = fs::read_to_string(workspace.root.join(WORKFLOW))?;
    let wrong = wrong(&metadata, &workflow)?;
    for sentence in &wrong {
        println!("    {sentence}");
    }
    Ok(if wrong.is_empty() { Outcome::Passed } else { Outcome::Failed })
}

/// Major and minor version. The patch version does not matter.
type Version = (u32, u32);

fn version(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn wrong(metadata: &Value, workflow: &str) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("no packages")?;
    let by_id: BTreeMap<_, _> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let members: BTreeSet<_> = strings(&metadata["workspace_members"]).collect();
    let published: Vec<_> =
        members.iter().copied().filter(|id| by_id[id]["publish"].is_null()).collect();
    let needed = dependencies(metadata, &published)
        .difference(&members)
        .filter_map(|id| {
            let package = by_id.get(id)?;
            let text = package["rust_version"].as_str()?;
            Some((version(text)?, package["name"].as_str()?, text))
        })
        .max()
        .context("no dependency names its rust-version")?;
    let (needed, name, needed_text) = needed;
    let mut wrong = Vec::new();
    for id in published {
        let (package, ours) = (&by_id[id]["name"], by_id[id]["rust_version"].as_str());
        let ours_text = ours.with_context(|| format!("{package} has no rust-version"))?;
        if version(ours_text) != Some(needed) {
            wrong.push(format!(
                "{package} has the rust-version {ours_text}, and {name} needs {needed_text}: set \
                 `rust-version` in Cargo.toml to {}.{}",
                needed.0, needed.1
            ));
        }
    }
    let toolchain = format!("RUSTUP_TOOLCHAIN: \"{}.{}\"", needed.0, needed.1);
    if !workflow.contains(&toolchain) {
        wrong.push(format!("{WORKFLOW} does not build with it: `{toolchain}`"));
    }
    Ok(wrong)
}

/// All dependencies of these packages, except for those of their tests.
fn dependencies<'a>(metadata: &'a Value, roots: &[&'a str]) -> BTreeSet<&'a str> {
    let nodes = metadata["resolve"]["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let nodes: BTreeMap<_, _> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let (mut found, mut open) = (BTreeSet::new(), roots.to_vec());
    while let Some(id) = open.pop() {
        if !found.insert(id) {
            continue;
        }
        let below = nodes.get(id).and_then(|node| node["deps"].as_array());
        open.extend(below.into_iter().flatten().filter_map(|dependency| {
            let kinds = dependency["dep_kinds"].as_array()?;
            let is_built = kinds.iter().any(|kind| kind["kind"] != "dev");
            is_built.then(|| dependency["pkg"].as_str()).flatten()
        }));
    }
    found
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WORKFLOW: &str = "RUSTUP_TOOLCHAIN: \"1.95\"";

    /// A published package whose dependency needs `needed`, and one for tests that needs more.
    fn metadata(ours: &str, needed: &str) -> Value {
        let package = |name: &str, version: &str, publish: Value| json!({"id": name, "name": name, "rust_version": version, "publish": publish});
        json!({
            "packages": [
                package("ours", ours, Value::Null),
                package("xtask", "1.99", json!([])),
                package("sdk", needed, Value::Null),
                package("for-tests", "1.98", Value::Null),
            ],
            "workspace_members": ["ours", "xtask"],
            "resolve": {"nodes": [
                {"id": "ours", "deps": [
                    {"pkg": "sdk", "dep_kinds": [{"kind": null}]},
                    {"pkg": "for-tests", "dep_kinds": [{"kind": "dev"}]},
                ]},
                {"id": "sdk", "deps": []},
            ]},
        })
    }

    #[test]
    fn it_is_the_newest_that_a_dependency_needs() {
        assert!(wrong(&metadata("1.95", "1.95.1"), WORKFLOW).unwrap().is_empty());
        for ours in ["1.94", "1.96"] {
            let wrong = wrong(&metadata(ours, "1.95"), WORKFLOW).unwrap();
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            assert!(wrong[0].contains("sdk needs 1.95"), "{wrong:?}");
        }
        let wrong = wrong(&metadata("1.94", "1.94.1"), WORKFLOW).unwrap();
        assert!(wrong[0].contains("does not build with it"), "{wrong:?}");
    }
}
