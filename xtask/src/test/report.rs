//! What a `cargo test` did, read from what it printed.

use std::fmt;

/// The counts of every test binary, in the order in which they ran.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Report {
    targets: Vec<Target>,
}

#[derive(Debug, Default, PartialEq)]
struct Target {
    /// The path that cargo prints: `src/lib.rs`, `tests/suite.rs`.
    source: String,
    /// The name of the target: `suite`.
    name: String,
    counts: Counts,
}

#[derive(Debug, Default, PartialEq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
    filtered_out: u64,
}

impl Report {
    /// Takes a line of output; most of them mean nothing here.
    pub(super) fn read(&mut self, line: &str) {
        let line = without_color(line);
        if let Some(target) = running(&line) {
            self.targets.push(target);
        } else if let (Some(counts), Some(target)) = (result(&line), self.targets.last_mut()) {
            target.counts = counts;
        }
    }

    /// No test binary was started.
    pub(super) fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    pub(super) fn executed(&self) -> u64 {
        self.targets.iter().map(|target| target.counts.executed()).sum()
    }

    /// Those of `suites` in which no test was executed, unless a filter has left its tests out.
    pub(super) fn without_tests<'a>(&self, suites: &[&'a str]) -> Vec<&'a str> {
        let served = |suite: &str| {
            let mut targets = self.targets.iter().filter(|target| target.is_suite(suite));
            targets.any(|target| target.counts.executed() + target.counts.filtered_out > 0)
        };
        suites.iter().copied().filter(|suite| !served(suite)).collect()
    }
}

impl Target {
    /// A unit test binary may have the name of a suite; only what lies in `tests` is one.
    fn is_suite(&self, suite: &str) -> bool {
        self.name == suite && self.source.starts_with("tests")
    }
}

impl Counts {
    fn executed(&self) -> u64 {
        self.passed + self.failed
    }
}

impl fmt::Display for Report {
    /// A line for every test binary that has tests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.targets.iter().filter(|target| target.counts != Counts::default());
        for Target { source, name, counts } in shown {
            let Counts { passed, failed, ignored, filtered_out } = counts;
            write!(f, "    {name} ({source}): {passed} passed, {failed} failed")?;
            writeln!(f, ", {ignored} ignored, {filtered_out} filtered out")?;
        }
        Ok(())
    }
}

/// `     Running tests/suite.rs (target/debug/deps/suite-0123456789abcdef)`
fn running(line: &str) -> Option<Target> {
    let line = line.trim().strip_prefix("Running ")?;
    let (source, binary) = line.strip_suffix(')')?.rsplit_once(" (")?;
    let file = binary.rsplit('/').next()?;
    let (name, _hash) = file.rsplit_once('-')?;
    let source = source.strip_prefix("unittests ").unwrap_or(source);
    Some(Target { source: source.into(), name: name.into(), counts: Counts::default() })
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.03s`
fn result(line: &str) -> Option<Counts> {
    let (_verdict, counts) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
    let count = |label: &str| {
        let (number, _) = counts.split("; ").find_map(|part| {
            let (number, name) = part.split_once(' ')?;
            (name == label).then_some((number, name))
        })?;
        number.parse().ok()
    };
    Some(Counts {
        passed: count("passed")?,
        failed: count("failed")?,
        ignored: count("ignored")?,
        filtered_out: count("filtered out")?,
    })
}

/// Cargo paints `Running` when our own output is a terminal: `ESC [ ... m`.
fn without_color(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_color, text)| text));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
    Finished `test` profile [unoptimized] target(s) in 0.05s
     Running unittests src/lib.rs (target/debug/deps/dynamodb_idempotency-1d0c1a2b3c4d5e6f)

running 2 tests
test key::tests::a ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/suite.rs (target/debug/deps/suite-0123456789abcdef)
test result: FAILED. 40 passed; 1 failed; 3 ignored; 0 measured; 7 filtered out; finished in 9.87s

     Running tests/api/main.rs (target/debug/deps/api-0123456789abcdef)
test result: ok. 0 passed; 0 failed; 4 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    fn read(output: &str) -> Report {
        let mut report = Report::default();
        output.lines().for_each(|line| report.read(line));
        report
    }

    #[test]
    fn counts_belong_to_the_binary_named_before_them() {
        let report = read(OUTPUT);
        let names: Vec<_> = report.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["dynamodb_idempotency", "suite", "api"]);
        let counts = Counts { passed: 40, failed: 1, ignored: 3, filtered_out: 7 };
        assert_eq!(report.targets[1].counts, counts);
        assert_eq!(report.targets[0].source, "src/lib.rs");
    }

    #[test]
    fn a_suite_of_ignored_tests_has_run_none() {
        assert_eq!(read(OUTPUT).without_tests(&["suite", "api"]), ["api"]);
    }

    #[test]
    fn a_suite_that_did_not_run_has_run_none() {
        assert_eq!(read(OUTPUT).without_tests(&["suite", "other"]), ["other"]);
    }

    #[test]
    fn unit_tests_do_not_stand_in_for_a_suite() {
        let output = OUTPUT.replace("tests/suite.rs", "unittests src/suite.rs");
        assert_eq!(read(&output).without_tests(&["suite"]), ["suite"]);
    }

    #[test]
    fn a_filter_that_leaves_everything_out_is_no_empty_suite() {
        let output = "     Running tests/suite.rs (target/debug/deps/suite-0123456789abcdef)
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s";
        assert!(read(output).without_tests(&["suite"]).is_empty());
    }

    #[test]
    fn a_binary_that_died_without_a_result_has_run_none() {
        let output = "     Running tests/suite.rs (target/debug/deps/suite-0123456789abcdef)
error: test failed, to rerun pass `--test suite`";
        assert_eq!(read(output).without_tests(&["suite"]), ["suite"]);
    }

    #[test]
    fn the_color_of_a_line_is_ignored() {
        let line = "\u{1b}[1m\u{1b}[92m     Running\u{1b}[0m \
                    tests/suite.rs (target/debug/deps/suite-01)\n";
        assert_eq!(running(&without_color(line)).unwrap().name, "suite");
    }
}
