//! The imports between the files of `src`. No adapter imports another one, except that `lambda` uses
//! `http`. No import circle has more than two files.

mod circles;
mod graph;
mod source;

use std::{collections::BTreeMap, fs, path};

use anyhow::{Context, Result, ensure};

use self::{
    circles::Knot,
    graph::{Imports, imports},
    source::{Path, Source},
};
use super::Outcome;
use crate::workspace::Workspace;

const ADAPTERS: [&str; 4] = ["event", "http", "lambda", "messages"];

pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root.join("src");
    let mut sources = BTreeMap::new();
    read(&root, &mut Vec::new(), &mut sources)?;
    ensure!(sources.len() > 50, "{} has too few files", root.display());
    let found = findings(&imports(&sources));
    for line in &found {
        println!("    {line}");
    }
    Ok(if found.is_empty() { Outcome::Passed } else { Outcome::Failed })
}

fn findings(imports: &Imports) -> Vec<String> {
    let each = imports.iter().flat_map(|(from, to)| to.keys().map(move |to| (from, to)));
    let wrong = each.filter(|(from, to)| between_adapters(from, to));
    let adapters = wrong
        .map(|(from, to)| format!("{}: an adapter imports another one", step(from, to, imports)));
    adapters.chain(circles::knots(imports).iter().flat_map(|knot| report(knot, imports))).collect()
}

fn report(knot: &Knot<'_>, imports: &Imports) -> Vec<String> {
    let files: Vec<_> = knot.files.iter().map(|file| shown(file)).collect();
    let mut lines = vec![format!("{} files import each other: {}", files.len(), files.join(", "))];
    for circle in &knot.circles {
        lines.push(format!("  a circle over {}:", circle.len()));
        let next = circle.iter().cycle().skip(1);
        let steps = circle.iter().zip(next);
        lines.extend(steps.map(|(from, to)| format!("    {}", step(from, to, imports))));
    }
    lines
}

fn step(from: &Path, to: &Path, imports: &Imports) -> String {
    let lines = imports.get(from).and_then(|imported| imported.get(to)).into_iter().flatten();
    let lines: Vec<_> = lines.map(|(line, path)| format!("{line}: {path}")).collect();
    format!("{} imports {} ({})", shown(from), shown(to), lines.join(", "))
}

fn between_adapters(from: &[String], to: &[String]) -> bool {
    let adapter = |module: &[String]| {
        ADAPTERS.into_iter().find(|adapter| module.first().is_some_and(|first| first == adapter))
    };
    match (adapter(from), adapter(to)) {
        (Some("lambda"), Some("http")) | (None, _) | (_, None) => false,
        (Some(from), Some(to)) => from != to,
    }
}

/// Reads the files of a folder, except for tests.
fn read(folder: &path::Path, at: &mut Path, sources: &mut BTreeMap<Path, Source>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            at.push(name);
            read(&path, at, sources)?;
            at.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let text = fs::read_to_string(&path)?;
            let own = (!matches!(name.as_str(), "mod" | "lib")).then_some(name);
            let module: Path = at.iter().cloned().chain(own).collect();
            let source = Source::read(&module, &text)?;
            sources.insert(module, source);
        }
    }
    Ok(())
}

fn shown(module: &[String]) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("::") }
}

#[cfg(test)]
mod tests;
