//! The relative links of the Markdown files: to files that are there, and to headings in them.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::Outcome;
use crate::{command::output, workspace::Workspace};

/// Every Markdown file that git knows of, or would take; `llms.txt` is one.
pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    let mut git = std::process::Command::new("git");
    git.current_dir(&workspace.root);
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md", "llms.txt"]);
    let files = output(&mut git)?;
    ensure!(!files.is_empty(), "git names no Markdown file");
    let mut broken = Vec::new();
    for file in files.lines().map(|file| workspace.root.join(file)).filter(|file| file.exists()) {
        let text = read(&file)?;
        for link in links(&text) {
            if let Some(reason) = wrong(&file, link)? {
                let shown = file.strip_prefix(&workspace.root).unwrap_or(&file).display();
                broken.push(format!("{shown}: `{link}`: {reason}"));
            }
        }
    }
    for line in &broken {
        println!("    {line}");
    }
    Ok(if broken.is_empty() { Outcome::Passed } else { Outcome::Failed })
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))
}

/// Why a link leads nowhere.
fn wrong(file: &Path, link: &str) -> Result<Option<&'static str>> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() {
        file.to_owned()
    } else {
        file.parent().map(PathBuf::from).unwrap_or_default().join(path)
    };
    if !target.exists() {
        return Ok(Some("there is no such file"));
    }
    if anchor.is_empty() || target.extension().is_none_or(|extension| extension != "md") {
        return Ok(None);
    }
    let is_there = anchors(&read(&target)?).contains(anchor);
    Ok((!is_there).then_some("there is no such heading"))
}

/// The targets of `[text](target)` outside of code, without those of other hosts.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in outside_of_code(text) {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        found.extend(targets.map(|(target, _)| target).filter(|target| !target.contains("://")));
    }
    found
}

fn outside_of_code(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// What a heading is called in a link: in lower case, with hyphens for blanks, and without signs.
fn anchors(text: &str) -> HashSet<String> {
    let headings = outside_of_code(text).filter(|line| line.starts_with('#'));
    let names = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    names
        .map(|name| {
            let kept = name.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_those_outside_of_code_and_of_this_place() {
        let text = "[a](a.md) and ![b](b.png), [c](https://host/c)\n```\n[d](d.md)\n```\n[e](#e)";
        assert_eq!(links(text), ["a.md", "b.png", "#e"]);
    }

    #[test]
    fn anchors_are_spelled_as_links_spell_them() {
        let text = "# The table, and why so\n```sh\n# a comment\n```\n### Is it `run`?";
        let expected = ["the-table-and-why-so", "is-it-run"].map(String::from);
        assert_eq!(anchors(text), HashSet::from(expected));
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
        assert_eq!(wrong(&file, "docs/protocol.md#time").unwrap(), None);
        assert!(wrong(&file, "docs/protocol.md#no-such-heading").unwrap().is_some());
        assert!(wrong(&file, "docs/no-such-file.md").unwrap().is_some());
    }
}
