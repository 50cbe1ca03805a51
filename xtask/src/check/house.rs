//! The house: which file of `src` may import which other one. No adapter imports another one; `lambda`
//! stands on `http`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, ensure};

use super::Outcome;
use crate::workspace::Workspace;

const ADAPTERS: [&str; 5] = ["event", "http", "lambda", "messages", "operation"];

/// A file by its module's path: `http::layer`.
type Module = Vec<String>;
type Imports = BTreeMap<Module, BTreeSet<Module>>;

pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root.join("src");
    let mut texts = BTreeMap::new();
    read(&root, &mut Vec::new(), &mut texts)?;
    ensure!(texts.len() > 50, "{} has hardly a file", root.display());
    let found = findings(&imports(&texts));
    for line in &found {
        println!("    {line}");
    }
    Ok(if found.is_empty() { Outcome::Passed } else { Outcome::Failed })
}

fn findings(imports: &Imports) -> Vec<String> {
    let each = imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let wrong = each.filter(|(from, to)| between_adapters(from, to));
    let shown = wrong.map(|(from, to)| {
        format!("{} imports {}: an adapter imports another one", from.join("::"), to.join("::"))
    });
    shown.collect()
}

fn between_adapters(from: &Module, to: &Module) -> bool {
    let adapter = |module: &Module| {
        ADAPTERS.into_iter().find(|adapter| module.first().is_some_and(|first| first == adapter))
    };
    match (adapter(from), adapter(to)) {
        (Some("lambda"), Some("http")) | (None, _) | (_, None) => false,
        (Some(from), Some(to)) => from != to,
    }
}

/// The texts of a folder's files, without those that are tests alone.
fn read(folder: &Path, at: &mut Module, texts: &mut BTreeMap<Module, String>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            at.push(name);
            read(&path, at, texts)?;
            at.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let text = fs::read_to_string(&path)?;
            let own = (!matches!(name.as_str(), "mod" | "lib")).then_some(name);
            texts.insert(at.iter().cloned().chain(own).collect(), text);
        }
    }
    Ok(())
}

/// What each file imports; of the root, whose re-exports are for users, nothing counts.
fn imports(texts: &BTreeMap<Module, String>) -> Imports {
    let of_one = |(module, text): (&Module, &String)| {
        let named = named(&code(text)).into_iter().map(|path| resolved(module, &path));
        let files = named.filter_map(|path| {
            let lengths = (1..=path.len()).rev();
            lengths.map(|length| path[..length].to_vec()).find(|file| texts.contains_key(file))
        });
        let imported = files.filter(|file| file != module).collect();
        (module.clone(), imported)
    };
    texts.iter().filter(|(module, _)| !module.is_empty()).map(of_one).collect()
}

/// The text without comments, and without the unit tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Every path of the crate's own that the code names, with the members of braces apart.
fn named(code: &str) -> Vec<Module> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            // `super::super::` has been taken where it begins.
            if !before.is_some_and(|before| before.is_alphanumeric() || "_:".contains(before)) {
                tree(&mut Vec::new(), &code[at..], &mut found);
            }
        }
    }
    found
}

/// Reads one tree of a `use`, or one path; gives back what follows it.
fn tree<'a>(prefix: &mut Module, text: &'a str, found: &mut Vec<Module>) -> &'a str {
    let mut rest = text.trim_start();
    let depth = prefix.len();
    loop {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end > 0 {
            prefix.push(rest[..end].to_owned());
        }
        rest = &rest[end..];
        if let Some(inside) = rest.strip_prefix('{') {
            rest = members(prefix, inside, found);
            break;
        }
        let Some(more) = rest.strip_prefix("::") else {
            found.push(prefix.clone());
            break;
        };
        rest = more;
    }
    prefix.truncate(depth);
    rest
}

fn members<'a>(prefix: &mut Module, inside: &'a str, found: &mut Vec<Module>) -> &'a str {
    let mut rest = inside.trim_start();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('}') {
            return after;
        }
        let after = tree(prefix, rest, found);
        // ` as name`, if there is one, and the comma.
        rest = after.trim_start_matches(|c| !matches!(c, ',' | '}'));
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    rest
}

/// A path from the crate's root.
fn resolved(here: &Module, path: &Module) -> Module {
    let mut at: Module = match path.first().map(String::as_str) {
        Some("crate") => Vec::new(),
        _ => here.clone(),
    };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => {
                at.pop();
            }
            part => at.push(part.to_owned()),
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Module {
        path.split("::").map(str::to_owned).collect()
    }

    fn house(files: &[(&str, &str)]) -> Vec<String> {
        let texts = files.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect();
        findings(&imports(&texts))
    }

    #[test]
    fn an_adapter_imports_no_other_but_lambda_imports_http() {
        let files = [
            ("http", ""),
            ("http::layer", "use super::Http;"),
            ("lambda", "use crate::http::layer::Layer;"),
            ("messages::work", "fn f() { crate::http::layer::g(); }"),
        ];
        assert_eq!(
            house(&files),
            ["messages::work imports http::layer: an adapter imports another one"]
        );
    }

    #[test]
    fn braces_names_and_parents_are_followed() {
        let named =
            named("use super::super::{x::{Y, z::W as V}, u};\nlet a = self::b::c(crate::d);");
        let named: Vec<String> = named.iter().map(|path| path.join("::")).collect();
        assert_eq!(
            named,
            [
                "crate::d",
                "super::super::x::Y",
                "super::super::x::z::W",
                "super::super::u",
                "self::b::c"
            ]
        );
        assert_eq!(resolved(&module("p::q::r"), &module("super::super::x")), module("p::x"));
    }

    #[test]
    fn comments_and_unit_tests_import_nothing() {
        let text =
            "// use crate::b;\n/// [`crate::b::B`]\n#[cfg(test)]\nmod tests {\nuse crate::b;\n}";
        assert_eq!(named(&code(text)), [""; 0].map(module));
    }
}
