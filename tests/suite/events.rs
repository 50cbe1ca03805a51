//! `docs/signals.md` has every warning and error of the crate, and no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../docs/signals.md");

/// The level of an event, and its text.
type Event = (&'static str, String);

/// The events of all sources under a directory.
fn collect(directory: &Path, events: &mut BTreeSet<Event>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, events);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            for (level, macro_name) in [("ERROR", "error!("), ("WARN", "warn!(")] {
                let calls = source.split(macro_name).skip(1);
                events.extend(calls.map(|call| (level, text(call))));
            }
        }
    }
}

/// The last string of a call's arguments.
fn text(call: &str) -> String {
    let (mut text, mut open, mut depth) = (String::new(), false, 1);
    let mut letters = call.chars().peekable();
    while depth > 0 {
        match letters.next().expect("the call ends") {
            '"' => {
                open = !open;
                if open {
                    text.clear();
                }
            }
            // A string that goes on in the next line.
            '\\' if open => while letters.next_if(|letter| letter.is_whitespace()).is_some() {},
            letter if open => text.push(letter),
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// The longest part that does not depend on the occasion.
fn fixed(text: &str) -> &str {
    let outside_of_braces = text.split(['{', '}']).step_by(2);
    outside_of_braces.max_by_key(|part| part.len()).unwrap_or_default()
}

#[test]
fn every_warning_and_error_is_documented_and_no_other() {
    let mut events = BTreeSet::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut events);
    let (_, list) = PAGE.split_once("## Warnings and errors").unwrap();
    let is_row = |line: &&str| line.starts_with("| ERROR |") || line.starts_with("| WARN |");
    let rows: Vec<_> = list.lines().filter(is_row).collect();
    assert!(events.len() > 30 && rows.len() > 30, "{events:#?} {rows:#?}");
    let is_of = |row: &str, (level, text): &Event| {
        row.starts_with(&format!("| {level} |")) && row.contains(fixed(text))
    };
    for event in &events {
        assert!(rows.iter().any(|row| is_of(row, event)), "{event:?} is not in the page");
    }
    for row in rows {
        assert!(events.iter().any(|event| is_of(row, event)), "nothing in src/ says {row}");
    }
}
