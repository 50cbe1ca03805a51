//! The log of a function, configured by Lambda's advanced logging controls.

use std::{env, io};

use tracing::Subscriber;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts the log, as JSON if `AWS_LAMBDA_LOG_FORMAT` says so. Its level is `AWS_LAMBDA_LOG_LEVEL`,
/// else `RUST_LOG`, else INFO.
///
/// `lambda_http::tracing::init_default_subscriber` does this too, but it also accepts directives for
/// single targets. For these it needs a regular expression engine, whose size `docs/benchmarks.md`
/// shows. To save size, DEBUG and TRACE are not compiled into a release (`release_max_level_info` in
/// `Cargo.toml`).
pub fn write_logs() {
    let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let level = variable("AWS_LAMBDA_LOG_LEVEL").or_else(|| variable("RUST_LOG"));
    let format = variable("AWS_LAMBDA_LOG_FORMAT");
    logs(format.as_deref(), level.as_deref(), io::stdout).init();
}

/// Creates a log in this format and from this level, without colors. Each line has its target, so that
/// an alarm can distinguish the crate's errors from the handler's. In JSON it also has a timestamp:
/// without one, Lambda's level filter takes every line for INFO, and drops errors at a higher level.
pub fn logs<W>(
    format: Option<&str>,
    level: Option<&str>,
    writer: W,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let logs = tracing_subscriber::fmt()
        .with_max_level(level_of(level))
        .with_ansi(false)
        .with_writer(writer);
    if format.is_some_and(|format| format.eq_ignore_ascii_case("json")) {
        Box::new(logs.json().finish())
    } else {
        Box::new(logs.without_time().finish())
    }
}

fn level_of(name: Option<&str>) -> LevelFilter {
    match name {
        // The only one of Lambda's levels that `tracing` does not have.
        Some(name) if name.eq_ignore_ascii_case("fatal") => LevelFilter::ERROR,
        name => name.and_then(|name| name.parse().ok()).unwrap_or(LevelFilter::INFO),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat as Format};

    use super::*;

    /// <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html>
    #[test]
    fn a_line_in_json_has_what_lambdas_level_filter_reads_and_its_target() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&lines);
        let log = logs(Some("JSON"), None, move || Lines(Arc::clone(&writer)));
        tracing::subscriber::with_default(log, || {
            let call = tracing::info_span!("idempotency", key = "84732e2b3cfd95c4");
            call.in_scope(|| tracing::error!(reason = "none", "it failed"));
        });
        let lines = lines.lock().expect("no panic");
        let line: serde_json::Value = serde_json::from_slice(&lines).expect("one line of JSON");
        let timestamp = line["timestamp"].as_str().expect("a timestamp");
        DateTime::from_str(timestamp, Format::DateTime).expect("RFC 3339");
        assert_eq!(line["level"], "ERROR");
        assert_eq!(line["target"], module_path!());
        assert_eq!(line["fields"]["message"], "it failed");
        // As the queries of `docs/signals.md` read it.
        assert_eq!(line["span"]["key"], "84732e2b3cfd95c4");
    }

    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_level_is_one_of_lambdas_or_info() {
        let levels = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"].map(Some).map(level_of);
        let expected = [
            LevelFilter::TRACE,
            LevelFilter::DEBUG,
            LevelFilter::INFO,
            LevelFilter::WARN,
            LevelFilter::ERROR,
            LevelFilter::ERROR,
        ];
        assert_eq!(levels, expected);
        let none = [None, Some("loud")].map(level_of);
        assert_eq!(none, [LevelFilter::INFO; 2]);
    }
}
