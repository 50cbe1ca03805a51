//! The commands and options of the pages, as a reader pastes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dynamodb_idempotency::TableSchema;

use crate::support::{Store, abandoned, pasted, run, unique};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const PAGE: &str = "docs/command-line.md";

/// The files that are pages, and the folders of pages.
const PAGES: [&str; 6] =
    ["README.md", "CONTRIBUTING.md", "crates/cli/README.md", "docs", "infra", "lambda-example"];

/// Folders of what others wrote, or what was built.
const NOT_OURS: [&str; 5] = ["node_modules", "target", "build", "cdk.out", ".terraform"];

fn pages() -> Vec<PathBuf> {
    let mut left: Vec<_> = PAGES.iter().map(|page| Path::new(ROOT).join(page)).collect();
    let mut pages = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            left.extend(entries.filter(|path| {
                let name = path.file_name().unwrap().to_string_lossy();
                !NOT_OURS.contains(&name.as_ref())
            }));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

/// The lines of a page that a reader types, and its other lines.
fn typed_and_told(text: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut typed, mut told, mut language) = (Vec::new(), Vec::new(), None);
    for line in text.lines().map(str::trim_start) {
        match (line.strip_prefix("```"), language) {
            (Some(info), None) => language = Some(info),
            (Some(_), Some(_)) => language = None,
            (None, Some("sh" | "bash")) => typed.push(line),
            (None, Some("console")) => typed.extend(line.strip_prefix("$ ")),
            (None, Some(_)) => {}
            (None, None) => told.push(line),
        }
    }
    (typed, told)
}

/// What is between backticks.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The commands of this program in a page.
fn commands(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let (typed, told) = typed_and_told(&text);
    let typed = typed.into_iter().map(|line| line.split(" #").next().unwrap_or_default());
    let typed = typed.flat_map(|line| line.split(" && "));
    let told = told.into_iter().flat_map(code);
    let commands = typed.chain(told).map(str::trim);
    // A message of the log begins so too.
    let is_command =
        |line: &&str| line.starts_with("idempotency ") && !line.starts_with("idempotency is ");
    commands.filter(is_command).map(str::to_owned).collect()
}

/// On two tables of the names that the pages use, each with a stuck key.
#[tokio::test]
async fn every_command_of_the_pages_runs() {
    let store = Store::open().await;
    let restored = store.another_table(TableSchema::default()).await;
    let folder = std::env::temp_dir().join(unique());
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("paid.txt"), "order-42\norder-43\n").unwrap();
    let setup = format!(
        "cd {}; export AWS_ENDPOINT_URL={} IDEMPOTENCY_TABLE={table} TABLE={table} RESTORED={}",
        folder.display(),
        store.endpoint,
        restored.table,
        table = store.table,
    );
    let (mut found, mut ran) = (BTreeSet::new(), 0);
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for command in commands(&text) {
            let place = format!("{}: {command}", page.display());
            if !found.insert(command.clone()) {
                continue;
            }
            // A command that is only mentioned.
            if command.split(' ').count() == 2 && command.split(' ').nth(1) != Some("create-table")
            {
                let help = pasted(&format!("{command} --help")).await;
                assert_eq!(help.code, 0, "{place}: {help:?}");
                continue;
            }
            for table in [&store, &restored] {
                table.put(abandoned("payments#order-42", 7_200)).await;
            }
            let mut ended = pasted(&format!("{setup}; {command}")).await;
            // At a terminal it asks.
            if ended.code == 4 && ended.err.contains("add --yes") {
                ended = pasted(&format!("{setup}; {command} --yes")).await;
            }
            // No engine for tests protects its tables, or backs them up.
            let expected = i32::from(command.contains("--strict"));
            let is_error = ended.out.lines().any(|line| line.starts_with("error"));
            assert!(ended.code == expected && !is_error, "{place}: {ended:?}");
            ran += 1;
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
    assert!(ran >= 15, "{found:?}");
}

/// The names of options in a text.
fn options(text: &str) -> BTreeSet<&str> {
    let is_of_a_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let words = text.split(|c: char| !is_of_a_name(c));
    words.filter(|word| word.len() > 3 && word.starts_with("--")).collect()
}

async fn help(command: &str) -> String {
    let help = run(&[command, "--help"]).await;
    assert_eq!(help.code, 0, "{command}: {help:?}");
    help.out
}

#[tokio::test]
async fn the_page_lists_every_command_with_options_that_it_has() {
    let text = std::fs::read_to_string(Path::new(ROOT).join(PAGE)).unwrap();
    let (_, told) = typed_and_told(&text);
    // No other table of the page begins with code.
    let rows: Vec<_> = told.iter().filter(|line| line.starts_with("| `")).collect();
    let (mut documented, mut known) = (BTreeSet::new(), BTreeSet::new());
    for row in rows {
        let columns: Vec<_> = row.split(" | ").collect();
        let [names, does, ..] = columns[..] else { panic!("{row}") };
        for name in code(names).filter_map(|name| name.split(' ').next()) {
            let help = help(name).await;
            let has = options(&help);
            for option in code(names).chain(code(does)).flat_map(options) {
                assert!(has.contains(option), "{name} has no {option}: {row}");
            }
            known.extend(has.into_iter().map(str::to_owned));
            documented.insert(name.to_owned());
        }
    }
    let all = run(&["--help"]).await.out;
    let (_, commands) = all.split_once("Commands:\n").expect("a list");
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let commands = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: BTreeSet<_> =
        commands.filter(|name| !name.is_empty() && *name != "help").collect();
    assert!(commands.len() > 10, "{all}");
    assert_eq!(documented.iter().map(String::as_str).collect::<BTreeSet<_>>(), commands);
    for option in told.iter().flat_map(|line| code(line)).flat_map(options) {
        assert!(known.contains(option), "no command has {option}");
    }
}
