//! Code blocks of the documentation, as a reader copies them.

use std::fs;
use std::path::Path;

/// The workspace, where the pages are.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The first block of a language under a heading, except for those that say what they need: they are
/// not run. `cargo xtask verify commands` looks for the calls of this function and of [`blocks`]: a shell block
/// that one of them returns is a tested one.
pub fn block(page: &str, heading: &str, language: &str) -> String {
    blocks(page, heading, language).swap_remove(0)
}

/// All of them.
pub fn blocks(page: &str, heading: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(ROOT).join(page)).expect("a page");
    let section = section(&text, heading).unwrap_or_else(|| panic!("{page} has no {heading:?}"));
    let blocks = section.split("\n```").skip(1).step_by(2).filter_map(|block| {
        let (info, text) = block.split_once('\n')?;
        (info.split(',').next() == Some(language)).then_some(text)
    });
    let is_run =
        |block: &&str| !["# needs ", "# takes "].iter().any(|start| block.starts_with(start));
    let blocks: Vec<_> = blocks.filter(is_run).map(|block| block.to_owned() + "\n").collect();
    assert!(!blocks.is_empty(), "{page}: no {language} under {heading:?}");
    blocks
}

/// What follows a heading, up to the next one.
fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (mut at, mut start, mut is_code) = (0, None, false);
    for line in text.split_inclusive('\n') {
        is_code ^= line.starts_with("```");
        if line.starts_with('#') && !is_code {
            if let Some(start) = start {
                return text.get(start..at);
            }
            if line.trim_start_matches('#').trim() == heading {
                start = Some(at + line.len());
            }
        }
        at += line.len();
    }
    text.get(start?..)
}
