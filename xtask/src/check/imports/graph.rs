//! The imports between files, with their lines.

use std::collections::BTreeMap;

use super::source::{Named, Path, Source, Use};

/// Importing file, imported file, and the path on each importing line.
pub(super) type Imports = BTreeMap<Path, BTreeMap<Path, BTreeMap<usize, String>>>;

/// Limit on chained re-exports. A longer chain is treated as a circle.
const HOPS: usize = 16;

/// A re-exported item counts as imported from its definition. The re-export itself imports nothing, unless
/// its own file uses the item.
pub(super) fn imports(sources: &BTreeMap<Path, Source>) -> Imports {
    let files = Files { sources };
    let of_one = |(module, source): (&Path, &Source)| {
        let mut imported: BTreeMap<Path, BTreeMap<usize, String>> = BTreeMap::new();
        for named in counted(source) {
            let Some(file) = files.file_of(module, named) else { continue };
            if file != *module {
                imported.entry(file).or_default().insert(named.line, named.path.join("::"));
            }
        }
        (module.clone(), imported)
    };
    sources.iter().map(of_one).collect()
}

fn counted(source: &Source) -> impl Iterator<Item = &Named> {
    let own = |import: &&Use| !import.public || source.used.contains(&import.name);
    source.names.iter().filter(own).map(|import| &import.path).chain(&source.paths)
}

struct Files<'a> {
    sources: &'a BTreeMap<Path, Source>,
}

impl Files<'_> {
    /// Returns the file that defines the named item; `None` if another crate does.
    fn file_of(&self, module: &Path, named: &Named) -> Option<Path> {
        self.defined(&self.absolute(module, &named.within, &named.path, HOPS)?, HOPS)
    }

    /// Resolves a path from the crate root: by its position, by the names of the file, or by a module below.
    fn absolute(
        &self,
        module: &Path,
        within: &[String],
        path: &[String],
        hops: usize,
    ) -> Option<Path> {
        let hops = hops.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" | "super" => Some(climbed(within, path)),
            name => {
                let below = joined(within, path);
                if self.sources.contains_key(&below[..=within.len()]) {
                    return Some(below);
                }
                let known = &self.name(module, name)?.path;
                if known.path.first() == Some(first) {
                    return None;
                }
                Some(joined(&self.absolute(module, &known.within, &known.path, hops)?, rest))
            }
        }
    }

    fn name(&self, module: &Path, name: &str) -> Option<&Use> {
        self.sources.get(module)?.names.iter().find(|import| import.name == name)
    }

    fn defined(&self, path: &[String], hops: usize) -> Option<Path> {
        let hops = hops.checked_sub(1)?;
        let deepest =
            (0..=path.len()).rev().find(|length| self.sources.contains_key(&path[..*length]))?;
        let file = path[..deepest].to_vec();
        let import = path.get(deepest).and_then(|name| self.name(&file, name));
        let Some(Use { path: named, .. }) = import else { return Some(file) };
        match self.absolute(&file, &named.within, &named.path, hops) {
            Some(there) => self.defined(&joined(&there, &path[deepest + 1..]), hops),
            None => Some(file),
        }
    }
}

/// Resolves `super::super::x` from a module.
fn climbed(within: &[String], path: &[String]) -> Path {
    let mut at = within.to_vec();
    for part in path {
        match part.as_str() {
            "self" => {}
            "super" => {
                at.pop();
            }
            part => at.push(part.to_owned()),
        }
    }
    at
}

fn joined(start: &[String], rest: &[String]) -> Path {
    [start, rest].concat()
}
