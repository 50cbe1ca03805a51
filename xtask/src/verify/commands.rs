//! The shell blocks in the pages. Each is run by a test, or its first line says what it needs that tests
//! do not have, or how long it takes: `# needs AWS`, for example.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::Outcome;
use crate::workspace::Workspace;

/// The languages of blocks with commands. A block without a language has commands too, unless it is a
/// diagram.
const SHELLS: [&str; 6] = ["sh", "bash", "shell", "zsh", "console", "powershell"];
/// The start of the first line of a block that is not run.
const REASONS: [&str; 2] = ["# needs ", "# takes "];
const PAGES: [&str; 2] = ["README.md", "CONTRIBUTING.md"];
const GUIDE: &str = "docs/guide";
/// The tests that run blocks, by `block(page, heading, "sh")`, or all below a heading by `blocks`.
const TESTS: &str = "lambda-example/tests/e2e";
const CI: &str = ".ci/run";

const FIRST: &str = "block(";
const ALL: &str = "blocks(";

/// A block of commands, and where it is.
#[derive(Debug, PartialEq)]
struct Block<'a> {
    line: usize,
    heading: &'a str,
    text: Vec<&'a str>,
}

pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    let read = |path: &Path| {
        let text = fs::read_to_string(workspace.root.join(path));
        text.with_context(|| format!("{} cannot be read", path.display()))
    };
    let in_folder = |folder: &str, extension: &str| -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(workspace.root.join(folder))?;
        let names = entries.map(|entry| Ok(Path::new(folder).join(entry?.file_name())));
        let names = names.filter(|name: &Result<PathBuf>| {
            name.as_ref().map_or(true, |name| name.extension().is_some_and(|it| it == extension))
        });
        names.collect()
    };
    let mut run = Tested::new();
    for test in in_folder(TESTS, "rs")? {
        run.extend(named_by(&read(&test)?));
    }
    ensure!(!run.is_empty(), "no test in {TESTS} runs a block");
    let ci = read(Path::new(CI))?;
    let mut is_fine = true;
    for page in PAGES.iter().map(PathBuf::from).chain(in_folder(GUIDE, "md")?) {
        let text = read(&page)?;
        let page = page.to_string_lossy();
        for (line, reason) in findings(&page, &text, &run, &ci) {
            println!("    {page}:{line}: {reason}");
            is_fine = false;
        }
    }
    Ok(if is_fine { Outcome::Passed } else { Outcome::Failed })
}

/// Page and heading of the shell blocks that tests run, and whether that is all of them or the first.
type Tested = BTreeMap<(String, String), bool>;

/// What the calls of `block` and `blocks` run.
fn named_by(test: &str) -> Tested {
    let constants: Vec<(&str, &str)> = test
        .lines()
        .filter_map(|line| line.strip_prefix("const ")?.split_once(": &str = "))
        .map(|(name, value)| (name, value.trim_end_matches(';')))
        .collect();
    let value = |argument: &str| {
        let constant = constants.iter().find(|(name, _)| *name == argument);
        constant.map_or(argument, |(_, value)| value).trim_matches('"').to_owned()
    };
    let calls_of = |function: &'static str| {
        test.split(function).skip(1).filter_map(move |call| {
            let (arguments, _) = call.split_once(')')?;
            let arguments: Vec<_> = arguments.split(", ").map(str::trim).collect();
            let [page, heading, r#""sh""#] = arguments[..] else { return None };
            Some(((value(page), value(heading)), function == ALL))
        })
    };
    calls_of(FIRST).chain(calls_of(ALL)).collect()
}

fn findings(page: &str, text: &str, run: &Tested, ci: &str) -> Vec<(usize, String)> {
    let mut seen = BTreeSet::new();
    let untested = blocks(text).into_iter().filter_map(|block| {
        let first = block.text.first().copied().unwrap_or_default().trim();
        let mut reasons = REASONS.iter().filter_map(|start| first.strip_prefix(start));
        if let Some(reason) = reasons.next() {
            return reason.trim().is_empty().then(|| (block.line, "for what reason?".to_owned()));
        }
        if block.text.iter().all(|line| is_in_ci(line, ci)) {
            return None;
        }
        let place = (page.to_owned(), block.heading.to_owned());
        let is_run = match run.get(&place) {
            Some(true) => true,
            Some(false) => seen.insert(place),
            None => false,
        };
        (!is_run).then(|| {
            let reason = "no test runs these commands: add one to lambda-example/tests/e2e/pages.rs, \
                          or say in the first line what they need: `# needs AWS`";
            (block.line, reason.to_owned())
        })
    });
    untested.collect()
}

/// `cargo test`, for example.
fn is_in_ci(line: &str, ci: &str) -> bool {
    let command = line.split('#').next().unwrap_or_default().trim();
    command.starts_with("cargo ")
        && ci.lines().any(|line| {
            let run = line.strip_prefix("timed ");
            run.is_some_and(|run| run == command || run.starts_with(&format!("{command} ")))
        })
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let (mut heading, mut open) = ("", None);
    for (number, line) in text.lines().enumerate() {
        let content = line.trim_start();
        match (content.strip_prefix("```"), open) {
            (Some(info), None) => {
                let language = info.split(',').next().unwrap_or_default().trim();
                let is_shell = SHELLS.contains(&language) || language.is_empty();
                if is_shell {
                    blocks.push(Block { line: number + 1, heading, text: Vec::new() });
                }
                open = Some(is_shell);
            }
            (Some(_), Some(_)) => open = None,
            (None, Some(true)) => {
                if let Some(block) = blocks.last_mut() {
                    block.text.push(content);
                }
            }
            (None, None) if line.starts_with('#') => heading = line.trim_start_matches('#').trim(),
            (None, Some(false) | None) => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    const CI: &str = "timed cargo xtask verify --keep-going";

    fn lines(text: &str, tests: &str) -> Vec<usize> {
        let run = named_by(tests);
        findings("a.md", text, &run, CI).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn a_block_is_run_by_a_test_that_names_its_page_and_heading() {
        let page = "# A\n## Use it\n```sh\nls\n```\n";
        assert_eq!(lines(page, r#"block("a.md", "Use it", "sh")"#), [0; 0]);
        assert_eq!(lines(page, "const A: &str = \"a.md\";\nblock(A, \"Use it\", \"sh\")"), [0; 0]);
        for other in [
            "",
            r#"block("b.md", "Use it", "sh")"#,
            r#"block("a.md", "A", "sh")"#,
            r#"block("a.md", "Use it", "toml")"#,
        ] {
            assert_eq!(lines(page, other), [3], "{other}");
        }
    }

    #[test]
    fn a_test_runs_the_first_block_under_a_heading_or_all() {
        let page = "# A\n```sh\nls\n```\n```bash\nrm\n```\n";
        assert_eq!(lines(page, r#"block("a.md", "A", "sh")"#), [5]);
        assert_eq!(lines(page, r#"blocks("a.md", "A", "sh")"#), [0; 0]);
    }

    #[test]
    fn a_block_that_cannot_be_run_says_what_it_needs() {
        assert_eq!(lines("```sh\n# needs AWS\naws s3 ls\n```\n", ""), [0; 0]);
        assert_eq!(lines("1. List:\n\n   ```sh\n   # needs AWS\n   aws\n   ```\n", ""), [0; 0]);
        assert_eq!(lines("```sh\n# needs \naws s3 ls\n```\n", ""), [1]);
        assert_eq!(lines("```sh\naws s3 ls # needs AWS\n```\n", ""), [1]);
    }

    #[test]
    fn commands_of_ci_are_run_there() {
        assert_eq!(lines("```sh\ncargo xtask verify\n```\n", ""), [0; 0]);
        assert_eq!(lines("```sh\ncargo xtask e2e\n```\n", ""), [1]);
    }

    #[test]
    fn a_block_without_a_language_is_commands_and_others_are_not() {
        assert_eq!(lines("```\nls\n```\n```rust\nls\n```\n```text\nls\n```\n", ""), [1]);
    }
}
