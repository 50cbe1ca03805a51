//! What a package promises to bring along and what not, held against `cargo tree`.

use anyhow::{Result, ensure};

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
        name: "the core has no Lambda crate, no TLS stack and no server",
        package: PACKAGE,
        features: &["--no-default-features"],
        present: &[],
        absent: &[
            "lambda_http",
            "lambda_runtime",
            "lambda_runtime_api_client",
            "aws_lambda_events",
            "rustls",
            "aws-lc-rs",
            "aws-lc-sys",
            "ring",
            "native-tls",
            "openssl",
            "hyper-rustls",
            "s2n-tls",
            "dynoxide-rs",
            "axum",
        ],
    },
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
        features: &["--features", "admin,fault-injection,fuzzing,jmespath,messages,metrics"],
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

/// In every tree of ours. Where it is missing, the listing was not understood, and proves nothing.
const ALWAYS_PRESENT: &str = "aws-sdk-dynamodb";

impl Promise {
    pub(super) fn check(&self, workspace: &Workspace) -> Result<Outcome> {
        // All platforms: a promise that holds on the machine at hand only would be none.
        let args = [
            "tree",
            "--package",
            self.package,
            "-e",
            "normal",
            "--prefix",
            "none",
            "--target",
            "all",
        ];
        let mut command = workspace.cargo(args.iter().chain(self.features).copied());
        println!("    {}", describe(&command));
        let tree = output(&mut command)?;
        ensure!(
            names(&tree).any(|name| name == ALWAYS_PRESENT),
            "{ALWAYS_PRESENT} is not in the tree"
        );
        let broken = self.broken_by(&tree);
        for word in &broken {
            println!(
                "    {word}; `cargo tree -p {} {} -i` tells why",
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
    fn a_name_that_only_begins_like_a_forbidden_one_does_not() {
        let tree = "rustls-pki-types v1.0.0\nstring v1.0.0\nzstd v0.14.3\n";
        assert!(PROMISE.broken_by(tree).is_empty());
    }

    #[test]
    fn a_missing_package_breaks_it() {
        assert_eq!(PROMISE.broken_by("zstd-sys v2.0.0\n"), ["zstd is not there"]);
    }
}
