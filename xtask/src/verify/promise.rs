//! Compares the dependencies of packages with `cargo tree`.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result, ensure};

use super::Outcome;
use crate::{
    command::{describe, output},
    workspace::{PACKAGE, Workspace},
};

pub(super) struct Promise {
    pub(super) name: &'static str,
    package: &'static str,
    features: &'static [&'static str],
    present: &'static [&'static str],
    absent: &'static [&'static str],
}

pub(super) const ALL: &[Promise] = &[
    Promise {
        name: "HTTPS is by ring alone, whose first connection is quick",
        package: PACKAGE,
        features: &[],
        present: &[],
        absent: &["aws-lc-rs", "aws-lc-sys"],
    },
    Promise {
        name: "the embedded engine is for tests only",
        package: PACKAGE,
        // All features but `testing`, which is it.
        features: &["--features", "admin,axum,internals,macros,messages,metrics,rows,webhook"],
        present: &[],
        absent: &["dynoxide-rs"],
    },
    Promise {
        name: "the command line reads what is compressed",
        package: "dynamodb-idempotency-cli",
        features: &[],
        present: &["zstd"],
        absent: &["dynoxide-rs"],
    },
];

/// A package in every tree. If it is missing, the output was not understood.
const ALWAYS_PRESENT: &str = "aws-sdk-dynamodb";

/// Packages with other features in `tests/one-pool/` than in the workspace, because of the SDK's own HTTP client.
const ITS_OWN: [&str; 10] = [
    PACKAGE,
    "aws-config",
    "aws-sdk-dynamodb",
    "aws-smithy-http-client",
    "aws-smithy-runtime",
    "aws_lambda_events",
    "dynamodb-idempotency-protocol",
    "lambda_http",
    "rustls",
    "rustls-webpki",
];

/// Names the crates of the core.
const CORE_CRATES: &str = "xtask/core-crates.txt";

/// Returns all dependencies of the package and features that are selected, on all platforms.
fn tree(workspace: &Workspace, selection: &[&str]) -> Result<String> {
    let args = ["tree", "-e", "normal", "--prefix", "none", "--target", "all"];
    let mut command = workspace.cargo(args.iter().chain(selection).copied());
    println!("    {}", describe(&command));
    let tree = output(&mut command)?;
    ensure!(names(&tree).any(|name| name == ALWAYS_PRESENT), "{ALWAYS_PRESENT} is not in the tree");
    Ok(tree)
}

/// Returns the names of the crates below what is selected.
pub(crate) fn crates(workspace: &Workspace, selection: &[&str]) -> Result<BTreeSet<String>> {
    Ok(below(&tree(workspace, selection)?).into_iter().map(str::to_owned).collect())
}

/// Checks that the core's list of crates has not changed.
pub(super) fn check_core_crates(workspace: &Workspace) -> Result<Outcome> {
    let listed = fs::read_to_string(workspace.root.join(CORE_CRATES))?;
    let tree = tree(workspace, &["--package", PACKAGE, "--no-default-features"])?;
    let differences = differences(&listed, &tree);
    for difference in &differences {
        println!("    {difference}");
    }
    Ok(if differences.is_empty() { Outcome::Passed } else { Outcome::Failed })
}

fn differences(listed: &str, tree: &str) -> Vec<String> {
    let listed: BTreeSet<_> = listed.lines().filter(|line| !line.starts_with('#')).collect();
    let there = below(tree);
    let new = there.difference(&listed).map(|name| format!("{name} is new"));
    let gone = listed.difference(&there).map(|name| format!("{name} is gone"));
    new.chain(gone)
        .map(|difference| format!("{difference}; if so it shall be, fix {CORE_CRATES}"))
        .collect()
}

/// Returns the names in a tree, except for its root.
fn below(tree: &str) -> BTreeSet<&str> {
    names(tree).skip(1).collect()
}

/// Checks that `cargo run -p lambda-example` and `cargo xtask verify` share their build of the SDK, and that
/// `tests/one-pool/` shares it too, except for the packages that its HTTP client changes.
pub(super) fn check_shared_build(workspace: &Workspace) -> Result<Outcome> {
    let tree = |selection: &[&str]| {
        let args = ["tree", "--edges", "normal,build,dev", "--format", " {p} {f}"];
        let mut command = workspace.cargo(args.iter().chain(selection).copied());
        println!("    {}", describe(&command));
        output(&mut command)
    };
    let example = tree(&["--package", "lambda-example", "--prefix", "depth", "--no-dedupe"])?;
    let tests = tree(&["--workspace", "--all-features", "--prefix", "none"])?;
    let one_pool = tree(&["--manifest-path", "tests/one-pool/Cargo.toml", "--prefix", "none"])?;
    let mut again = built_again(&example, &tests)?;
    again.extend(built_for_one_pool(&one_pool, &tests));
    for package in &again {
        println!("    {package}: the tests build it with other features");
    }
    Ok(if again.is_empty() { Outcome::Passed } else { Outcome::Failed })
}

/// Returns the packages that both have in different versions or with different features.
fn built_for_one_pool(one_pool: &str, tests: &str) -> BTreeSet<String> {
    let there: BTreeSet<_> = packages(tests).collect();
    let names: BTreeSet<_> = names(tests).collect();
    let again = packages(one_pool).filter(|package| {
        let name = package.split(' ').next().unwrap_or_default();
        names.contains(name) && !ITS_OWN.contains(&name) && !there.contains(package)
    });
    again.map(str::to_owned).collect()
}

/// `name v1.2.3 features`
fn packages(tree: &str) -> impl Iterator<Item = &str> {
    tree.lines().map(|line| line.trim_end_matches("(*)").trim())
}

/// Returns the packages of the SDK's tree whose features differ. Lines of the first tree are
/// `3 name v1.2.3 features` with their depth; those of the second have no depth.
fn built_again(example: &str, tests: &str) -> Result<BTreeSet<String>> {
    let tests: BTreeSet<_> = packages(tests).collect();
    let mut again = BTreeSet::new();
    let mut sdk_depth = None;
    for line in example.lines() {
        let (depth, package) = line.split_once(' ').context("a line without a depth")?;
        let depth: usize = depth.parse()?;
        if sdk_depth.is_none_or(|above| depth <= above) {
            sdk_depth = (names(package).next() == Some(ALWAYS_PRESENT)).then_some(depth);
        }
        if sdk_depth.is_some() && !tests.contains(package.trim()) {
            again.insert(package.trim().to_owned());
        }
    }
    Ok(again)
}

impl Promise {
    pub(super) fn check(&self, workspace: &Workspace) -> Result<Outcome> {
        let tree = tree(workspace, &[&["--package", self.package], self.features].concat())?;
        let broken = self.broken_by(&tree);
        for word in &broken {
            println!(
                "    {word}; `cargo tree -p {} {} -i` shows why",
                self.package,
                self.features.join(" ")
            );
        }
        Ok(if broken.is_empty() { Outcome::Passed } else { Outcome::Failed })
    }

    fn broken_by(&self, tree: &str) -> Vec<String> {
        let is_there = |wanted: &str| names(tree).any(|name| name == wanted);
        let absent = self.absent.iter().filter(|name| is_there(name));
        let present = self.present.iter().filter(|name| !is_there(name));
        let broken = absent.map(|name| format!("{name} is there"));
        broken.chain(present.map(|name| format!("{name} is not there"))).collect()
    }
}

/// Lines are `name v1.2.3 (proc-macro) (*)`.
fn names(tree: &str) -> impl Iterator<Item = &str> {
    tree.lines().filter_map(|line| line.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISE: Promise = Promise {
        name: "",
        package: PACKAGE,
        features: &[],
        present: &["zstd"],
        absent: &["ring", "rustls"],
    };

    #[test]
    fn a_forbidden_package_breaks_the_promise() {
        let tree = "dynamodb-idempotency v0.1.0 (/w)\naws-sdk-dynamodb v1.136.0\nring v0.17.14 (*)\nzstd v0.14.3\n";
        assert_eq!(PROMISE.broken_by(tree), ["ring is there"]);
    }

    #[test]
    fn an_added_or_removed_crate_is_reported() {
        let tree =
            "dynamodb-idempotency v0.1.0 (/w)\nserde v1.0.0\nserde v1.0.0 (*)\nsha2 v0.11.0\n";
        assert!(differences("# Names\nserde\nsha2\n", tree).is_empty());
        let found = differences("serde\nsha1\n", tree);
        assert!(
            found[0].starts_with("sha2 is new") && found[1].starts_with("sha1 is gone"),
            "{found:?}"
        );
    }

    #[test]
    fn crates_that_the_tests_would_build_twice_are_reported() {
        let example = "0 lambda-example v0.1.0\n1 aws-sdk-dynamodb v1.136.0 rt-tokio\n\
                       2 tokio v1.54.1 net,rt\n1 serde v1.0.0 std\n";
        let same = " aws-sdk-dynamodb v1.136.0 rt-tokio\n tokio v1.54.1 net,rt (*)\n";
        assert!(built_again(example, same).unwrap().is_empty());
        let other = same.replace("net,rt", "net,rt,test-util");
        let found = built_again(example, &other).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["tokio v1.54.1 net,rt"]);
    }

    #[test]
    fn crates_built_only_for_one_pool_are_reported_except_its_own() {
        let tests =
            " rustls v0.23.46 ring\n tokio v1.54.1 net\n tokio-macros v2.0.0 (proc-macro) \n";
        let one_pool = "rustls v0.23.46 aws_lc_rs\ncmake v0.1.0 \ntokio v1.54.1 net (*)\n";
        assert!(built_for_one_pool(one_pool, tests).is_empty());
        let found = built_for_one_pool(&one_pool.replace("net", "net,test-util"), tests);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["tokio v1.54.1 net,test-util"]);
    }

    #[test]
    fn a_name_that_only_begins_like_a_forbidden_one_does_not() {
        let tree = "rustls-pki-types v1.0.0\nstring v1.0.0\nzstd v0.14.3\n";
        assert!(PROMISE.broken_by(tree).is_empty());
    }

    #[test]
    fn a_missing_package_breaks_it() {
        assert_eq!(PROMISE.broken_by("zstd-sys v2.0.0\n"), ["zstd is not there"]);
    }
}
