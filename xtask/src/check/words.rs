//! No private words: comments, names and pages use the vocabulary of `docs/protocol.md`. The words that
//! fail the check are in `words/private.txt`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::Outcome;
use crate::workspace::Workspace;

const LIST: &str = include_str!("words/private.txt");

const ROOTS: [&str; 14] = [
    ".github",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "benches",
    "crates",
    "docs",
    "infra",
    "lambda-example",
    "mcp-example",
    "src",
    "tests",
    "xtask",
];
/// Decisions are a record of their time. The other folders are not written by hand.
const SKIPPED: [&str; 4] = ["decisions", "target", "node_modules", "cdk.out"];
const EXTENSIONS: [&str; 11] =
    ["rs", "md", "toml", "ts", "js", "py", "tf", "yaml", "yml", "html", "sh"];

/// A phrase that must not occur, and what to say instead.
struct Private<'a> {
    words: Vec<&'a str>,
    instead: &'a str,
}

pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    let list = list(LIST);
    let mut files = Vec::new();
    for root in ROOTS {
        collect(&workspace.root, Path::new(root), &mut files)?;
    }
    ensure!(files.len() > 300, "only {} files are found", files.len());
    let mut is_clean = true;
    for file in files {
        let text = fs::read_to_string(workspace.root.join(&file))
            .with_context(|| format!("{} cannot be read", file.display()))?;
        for (line, phrase, instead) in findings(&text, &list) {
            println!("    {}:{line}: \"{phrase}\": say instead: {instead}", file.display());
            is_clean = false;
        }
    }
    Ok(if is_clean { Outcome::Passed } else { Outcome::Failed })
}

fn list(text: &str) -> Vec<Private<'_>> {
    let entries = text.lines().filter_map(|line| line.split_once(": "));
    let private =
        entries.map(|(phrase, instead)| Private { words: phrase.split(' ').collect(), instead });
    private.filter(|private| !private.words[0].starts_with('#')).collect()
}

/// Collects the files at and below `path`, which is relative to `root`.
fn collect(root: &Path, path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let is_named =
        |names: &[&str]| path.file_name().is_some_and(|name| names.iter().any(|it| name == *it));
    if is_named(&SKIPPED) {
        return Ok(());
    }
    let full = root.join(path);
    if full.is_dir() {
        for entry in fs::read_dir(&full)? {
            collect(root, &path.join(entry?.file_name()), files)?;
        }
    } else if path.extension().is_some_and(|own| EXTENSIONS.iter().any(|it| own == *it)) {
        ensure!(full.is_file(), "{} is missing", full.display());
        files.push(path.to_owned());
    }
    Ok(())
}

/// A word of a text in lower case.
struct Word {
    text: String,
    line: usize,
    /// Punctuation separates it from the word before.
    begins: bool,
}

/// The lines of private phrases, also of those that continue in the next line of a comment.
fn findings<'a>(text: &str, list: &[Private<'a>]) -> Vec<(usize, String, &'a str)> {
    let words = words(text);
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        for Private { words: phrase, instead } in list {
            let rest = words[at..].iter().zip(phrase);
            let mut same = rest.enumerate();
            let is_whole = words.len() - at >= phrase.len();
            if is_whole && same.all(|(i, (word, it))| word.text == *it && (i == 0 || !word.begins))
            {
                found.push((word.line, phrase.join(" "), *instead));
            }
        }
    }
    found
}

fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let marker = |letter: char| letter.is_whitespace() || "/!#*>".contains(letter);
        let mut is_open = false;
        let mut begins = line.trim().is_empty();
        for letter in line.trim_start_matches(marker).chars() {
            if letter.is_alphanumeric() {
                if !is_open {
                    let line = number + 1;
                    words.push(Word { text: String::new(), line, begins });
                    begins = false;
                }
                is_open = true;
                if let Some(word) = words.last_mut() {
                    word.text.extend(letter.to_lowercase());
                }
            } else {
                is_open = false;
                begins |= !(letter.is_whitespace() || letter == '_');
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        findings(text, &list(LIST)).into_iter().map(|(line, ..)| line).collect()
    }

    #[test]
    fn a_private_word_is_found_in_code_and_in_prose() {
        for private in list(LIST) {
            let phrase = private.words.join(" ");
            let name = private.words.join("_");
            for planted in [
                format!("fn is_{name}_or_not() {{}}"),
                format!("//! A caller: {phrase}, and so on."),
                format!("| {} |", phrase.to_uppercase()),
                format!("    /// It {}", phrase.replace(' ', "\n    /// ")),
            ] {
                let found = findings(&planted, &list(LIST));
                assert!(found.iter().any(|(_, it, _)| *it == phrase), "{planted}");
            }
        }
    }

    #[test]
    fn a_finding_names_its_line() {
        let word = list(LIST)[1].words.join(" ");
        assert_eq!(lines(&format!("A caller\nreports {word}.\n")), [2]);
    }

    #[test]
    fn parts_of_words_and_separate_sentences_are_not_found() {
        for private in list(LIST) {
            let phrase = private.words.join(" ");
            assert_eq!(lines(&format!("x{phrase}x")), [0; 0], "{phrase}");
            if private.words.len() > 1 {
                let separated = private.words.join(". ");
                assert_eq!(lines(&separated), [0; 0], "{separated}");
            }
        }
    }

    #[test]
    fn every_entry_has_a_replacement() {
        let entries = LIST.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(list(LIST).len(), entries);
    }
}
