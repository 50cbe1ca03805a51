//! The progress of a long command: a bar on a terminal, and otherwise a line each half minute. The limit
//! on the units that it uses.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::audit::AuditLog;
use crate::words::span;
use crate::{interrupt, output};

/// How often a line reports the progress if there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

/// What a command goes through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Steps {
    /// The items of a table. DynamoDB's count of them is some hours old; 0 if it is unknown.
    Items(u64),
    /// Keys that are named or found.
    Keys(u64),
}

impl Steps {
    const fn number(self) -> u64 {
        match self {
            Self::Items(number) | Self::Keys(number) => number,
        }
    }

    /// The word before the number of all, and the one behind it.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Items(_) => ("of about", "items"),
            Self::Keys(_) => ("of", "keys"),
        }
    }

    /// A line about the progress. `done` says more of the work, if it is not empty.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn line(self, past: u64, spent: Duration, done: &str) -> String {
        let (before, items) = self.words();
        let number = self.number();
        let of = if number == 0 { String::new() } else { format!(" {before} {number}") };
        let left = match number.checked_sub(past) {
            Some(left) if past > 0 => {
                let each = spent.as_secs_f64() / past as f64;
                format!(", {} left", span(Duration::from_secs_f64((each * left as f64).round())))
            }
            _ => String::new(),
        };
        let verb = match self {
            Self::Items(_) => " read",
            Self::Keys(_) => "",
        };
        let separator = if done.is_empty() { "" } else { ", " };
        format!("{past}{of} {items}{verb} in {}{left}{separator}{done}", span(spent))
    }

    fn bar(self) -> ProgressBar {
        if self.number() == 0 {
            return ProgressBar::new_spinner();
        }
        let (before, items) = self.words();
        let template = format!("{{bar:40}} {{pos}} {before} {{len}} {items}, {{eta}} left");
        let bar = ProgressBar::new(self.number());
        match ProgressStyle::with_template(&template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}

/// How far a command is.
#[derive(Debug)]
pub(crate) struct Progress {
    steps: Steps,
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(steps: Steps) -> Self {
        Self { steps, bar: steps.bar() }
    }

    /// Of a command that writes audit lines. If these go to standard error, there is no bar between them.
    pub(crate) fn audited(steps: Steps, audit: &AuditLog) -> Self {
        let bar = if audit.prints() { ProgressBar::hidden() } else { steps.bar() };
        Self { steps, bar }
    }

    pub(crate) fn add(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// Awaits the work, and shows the progress meanwhile. `done` returns what a line says more of the work.
    pub(crate) async fn during<T>(
        &self,
        done: impl Fn() -> String,
        work: impl Future<Output = T>,
    ) -> T {
        let result = if self.bar.is_hidden() {
            let line = |spent| self.steps.line(self.bar.position(), spent, &done());
            with_lines(BETWEEN_LINES, line, output::remark, work).await
        } else {
            work.await
        };
        self.bar.finish_and_clear();
        result
    }
}

/// Awaits the work. Prints a line after each period until it ends.
async fn with_lines<T>(
    period: Duration,
    line: impl Fn(Duration) -> String,
    print: impl Fn(String),
    work: impl Future<Output = T>,
) -> T {
    let (mut work, begun) = (pin!(work), tokio::time::Instant::now());
    loop {
        // The next line comes a period after this one, however long the process was suspended.
        match tokio::time::timeout(period, &mut work).await {
            Ok(result) => return result,
            Err(_) => print(line(begun.elapsed())),
        }
    }
}

/// Limits the units that all requests of a kind together use per second.
#[derive(Debug)]
pub(crate) struct Pace {
    units_per_second: f64,
    /// The time at which the units used so far are within the limit.
    paid: Mutex<Instant>,
}

impl Pace {
    /// 0 is no limit.
    pub(crate) fn new(units_per_second: u32) -> Self {
        Self { units_per_second: units_per_second.into(), paid: Mutex::new(Instant::now()) }
    }

    /// Waits until the units used so far are within the limit, or until the signal comes.
    pub(crate) async fn wait(&self) {
        let paid = *self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::select! {
            () = tokio::time::sleep_until(paid.into()) => {}
            () = interrupt::come() => {}
        }
    }

    pub(crate) fn used(&self, units: f64) {
        if self.units_per_second > 0.0 {
            let time = Duration::from_secs_f64(units.max(0.0) / self.units_per_second);
            let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
            *paid = (*paid).max(Instant::now()) + time;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "of some digits")]
    pub(crate) fn wrote(&self, units: u64) {
        self.used(units as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_delay_the_next_page_in_sum() {
        let pace = Pace::new(100);
        let before = Instant::now();
        pace.used(50.0);
        pace.wrote(150);
        assert!(*pace.paid.lock().unwrap() >= before + Duration::from_secs(2));
    }

    #[test]
    fn without_a_limit_no_page_is_delayed() {
        let pace = Pace::new(0);
        pace.used(1e9);
        assert!(*pace.paid.lock().unwrap() <= Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_terminal_a_line_follows_each_period_until_the_work_ends() {
        let lines = std::cell::RefCell::new(Vec::new());
        for (work, expected) in [(29, &[][..]), (95, &["30 s", "1 min", "1 min 30 s"])] {
            let work = tokio::time::sleep(Duration::from_secs(work));
            let print = |line| lines.borrow_mut().push(line);
            with_lines(BETWEEN_LINES, span, print, work).await;
            assert_eq!(lines.take(), expected);
        }
    }

    #[test]
    fn a_line_says_how_far_the_command_is() {
        let spent = Duration::from_secs(90);
        for (steps, past, done, expected) in [
            (Steps::Items(0), 7, "", "7 items read in 1 min 30 s"),
            (
                Steps::Items(4000),
                1700,
                "1685 written",
                "1700 of about 4000 items read in 1 min 30 s, 2 min 2 s left, 1685 written",
            ),
            (
                Steps::Keys(4000),
                1700,
                "1685 blocked",
                "1700 of 4000 keys in 1 min 30 s, 2 min 2 s left, 1685 blocked",
            ),
        ] {
            assert_eq!(steps.line(past, spent, done), expected);
        }
    }
}
