//! The published packages: each can be packed, and contains only its own files.

use std::path::Path;

use anyhow::Result;

use super::{Outcome, outcome};
use crate::{command::output, workspace::Workspace};

/// The files and folders in the root of a published package.
const BELONGS: [&str; 13] = [
    ".cargo_vcs_info.json",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "docs/decisions/",
    "docs/guide/",
    "docs/openapi.yaml",
    "src/",
    "build.rs",
];

/// Packs them together, because they depend on each other. Other checks build the packed code.
pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    let mut is_whole = true;
    for package in &workspace.published {
        let list = ["package", "--package", package, "--list", "--allow-dirty"];
        let list = output(&mut workspace.cargo(list))?;
        for file in list.lines().filter(|file| !belongs(file)) {
            println!(
                "    {package}: {file} does not belong there; fix `include` in its Cargo.toml"
            );
            is_whole = false;
        }
        for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
            if !list.lines().any(|file| file == license) {
                println!("    {package}: {license} is missing");
                is_whole = false;
            }
        }
    }
    if !is_whole {
        return Ok(Outcome::Failed);
    }
    let packages = workspace.published.iter().flat_map(|name| ["--package", name.as_str()]);
    let mut args = vec!["package", "--no-verify", "--allow-dirty"];
    args.extend(packages);
    outcome(&mut workspace.cargo(args))
}

fn belongs(file: &str) -> bool {
    let is_markdown = Path::new(file).extension().is_some_and(|extension| extension == "md");
    let is_page = is_markdown && file.strip_prefix("docs/").is_some_and(|rest| !rest.contains('/'));
    is_page
        || BELONGS.iter().any(|known| {
            if known.ends_with('/') { file.starts_with(known) } else { file == *known }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_pages_and_licenses_belong_to_a_package() {
        for file in ["src/lib.rs", "src/http/mod.rs", "docs/protocol.md", "docs/guide/faq.md"] {
            assert!(belongs(file), "{file}");
        }
        for file in
            ["tests/suite/main.rs", "tests/cost/figures-replays.svg", "clippy.toml", "docs/a/b.md"]
        {
            assert!(!belongs(file), "{file}");
        }
    }
}
