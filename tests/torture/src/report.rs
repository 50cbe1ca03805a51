//! The report at the end of a run.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::check::{Figures, Findings};
use crate::history::{Histories, History};
use crate::run::Faults;

/// The number of histories that are printed completely.
const SHOWN: usize = 5;

pub(crate) fn print(faults: &Faults, findings: &Findings, histories: &Histories) {
    let Faults { kills, stops, restarts, operations, seconds } = faults;
    let Figures { keys, starts, takeovers, failures, effects, .. } = findings.figures;
    let figures = &findings.figures;
    println!("{kills} kills, {stops} stops, {restarts} server restarts in {seconds} s");
    println!("{operations} operations on {keys} keys: {}", answers(figures));
    println!("    refused: {}", counts(&figures.refusals));
    println!(
        "{starts} handlers started: {takeovers} takeovers, {failures} failed on purpose, {} after \
         their lease",
        figures.late_starts
    );
    println!(
        "{effects} effects, {} of them committed: {} duplicates explained, {} unexplained; smallest \
         gap between a lease and the next attempt: {}",
        figures.committed,
        figures.duplicates_explained,
        figures.duplicates_unexplained,
        figures.smallest_gap.map_or("none".into(), |gap| format!("{gap} ms")),
    );
    for (key, wrong) in findings.violations.iter().take(SHOWN) {
        println!("\n{key} is WRONG: {}", wrong.join("; "));
        if let Some(history) = histories.get(&(key.len(), key.clone())) {
            println!("{}", whole(history));
        }
    }
    match findings.violations.len() {
        0 => println!("no violations"),
        count => println!("\n{count} keys are WRONG"),
    }
}

fn answers(figures: &Figures) -> String {
    let answers = figures.answers.iter().map(|(how, count)| (format!("{how:?}"), *count)).collect();
    format!("{}; {} of them not stored", counts(&answers), figures.unconfirmed_and_lost)
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if counts.is_empty() { "none".into() } else { counts.join(", ") }
}

/// Returns the history of a key in order, with times in milliseconds after the first.
fn whole(history: &History) -> String {
    let started = history.effects.iter().map(|effect| effect.started);
    let origin = history.entries.iter().map(|entry| entry.at).chain(started).min().unwrap_or(0);
    let mut lines: Vec<(i64, String)> = Vec::new();
    for entry in &history.entries {
        lines.push((entry.at, format!("{:8} {:?}", entry.process, entry.event)));
    }
    for effect in &history.effects {
        lines.push((effect.started, format!("{:8} {effect:?}", "table")));
    }
    lines.sort();
    let mut text = format!("    times from {origin}\n");
    for (at, line) in lines {
        // Writing to a String does not fail.
        let _ = writeln!(text, "    {:>8} {line}", at - origin);
    }
    let _ = write!(text, "    {:>8} {:8} {:?}", "end", "table", history.record);
    text
}
