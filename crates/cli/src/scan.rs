//! Reads the whole table in parallel parts, within the limits on items and read units, with a
//! progress bar on a terminal.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::TableDescription;
use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::{Page, Select};
use futures_util::future::join_all;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Scan;
use crate::estimate::{Estimate, TableSize};
use crate::failure::Failure;
use crate::resume::Resume;
use crate::words::span;
use crate::{describe, interrupt, output};

/// Printed when the signal comes.
const INTERRUPTED: &str = "interrupted: the requests in flight are finished first, then the place to continue at (--resume) is \
                           printed. A second interrupt ends the program at once, without a place; then run the same command again";

/// How often a line reports the progress if there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

/// The result of a scan.
#[derive(Debug)]
pub(crate) struct Read {
    /// How many items were read.
    pub(crate) items: u64,
    pub(crate) units: f64,
    /// Where the next scan continues, if this one did not reach the end.
    pub(crate) resume: Option<Resume>,
    /// The error that stopped the scan.
    failed: Option<Failure>,
}

impl Read {
    /// Adds what an earlier scan of the same table has read.
    pub(crate) fn after(self, earlier: &Self) -> Self {
        let (items, units) = (self.items + earlier.items, self.units + earlier.units);
        Self { items, units, ..self }
    }

    /// Whether the scan has reached its end.
    pub(crate) fn is_whole(&self) -> bool {
        self.resume.is_none() && self.failed.is_none()
    }

    /// Returns the error that stopped the scan, and where to continue. Called after the result is
    /// printed.
    pub(crate) fn end(self) -> Result<(), Failure> {
        self.failed.map_or(Ok(()), |cause| Err(stopped(cause, self.resume)))
    }
}

/// A failure of a scan, with the place where the next one continues.
pub(crate) fn stopped(cause: Failure, resume: Option<Resume>) -> Failure {
    match resume {
        Some(resume) => Failure::Stopped { cause: Box::new(cause), resume },
        None => cause,
    }
}

/// Whether a scan continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoesOn,
    IsEnough,
}

/// State shared by the parts.
struct Progress<F> {
    items: u64,
    units: f64,
    resume: Resume,
    next: Next,
    failed: Option<Failure>,
    take: F,
}

impl<F: FnMut(Page) -> Next> Progress<F> {
    fn is_over(&self, limit: Option<u64>) -> bool {
        self.failed.is_some()
            || self.next == Next::IsEnough
            || limit.is_some_and(|limit| self.items >= limit)
    }

    fn add(&mut self, part: u32, page: Page) {
        self.items += page.scanned;
        self.units += page.consumed;
        match &page.next {
            Some(next) => drop(self.resume.rest.insert(part, Some(next.clone()))),
            None => drop(self.resume.rest.remove(&part)),
        }
        if (self.take)(page) == Next::IsEnough {
            self.next = Next::IsEnough;
        }
    }

    /// `copies`: even without a whole page, something may be written, and the first of two scans done.
    fn end(self, was_resumed: bool, copies: bool) -> Result<Read, Failure> {
        let Self { items, units, resume, failed, .. } = self;
        match failed {
            // The place given with --resume is kept.
            Some(cause) if items == 0 && !copies => {
                Err(stopped(cause, was_resumed.then_some(resume)))
            }
            failed => {
                let resume = (!resume.rest.is_empty()).then_some(resume);
                Ok(Read { items, units, resume, failed })
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes each page of the table to `take` until it returns [`Next::IsEnough`] or a limit is
/// reached. An error before the first page is returned; a later one is part of the result.
pub(crate) async fn scan(
    idempotency: &Idempotency,
    options: &Scan,
    select: Select,
    take: impl FnMut(Page) -> Next,
) -> Result<Read, Failure> {
    scan_after(idempotency, options, select, async |_| Ok(()), String::new, take).await
}

/// Like [`scan`], but awaits `work` for each page first. If `work` fails, the page is not passed to
/// `take`, and a resumed scan reads it again. `done` returns what a line about the progress says of the work.
pub(crate) async fn scan_after(
    idempotency: &Idempotency,
    options: &Scan,
    select: Select,
    work: impl AsyncFn(&Page) -> Result<(), Failure>,
    done: impl Fn() -> String,
    take: impl FnMut(Page) -> Next,
) -> Result<Read, Failure> {
    let scope = options.scope()?;
    let admin = idempotency.admin();
    let is_first_of_copy = select == Select::PartItems;
    let admin = match &scope {
        // What belongs to a record is copied before it, whatever the scope.
        Some(scope) if !is_first_of_copy => admin.within(scope),
        _ => admin,
    };
    // Without the permission to describe the table, only a count is shown, and a place is bound to its name.
    let table = describe::table(idempotency).await.ok();
    let mark = options.mark(table.as_ref().map(describe::identity).as_deref())?;
    let resume = match options.resume.clone() {
        Some(resume) if !resume.is_of(&mark) => {
            let message = "--resume has a place of another command, table or scope: pass those with \
                           which it was printed";
            return Err(Failure::Usage(message.to_owned()));
        }
        Some(resume) => resume,
        None => Resume::of(mark, options.parts),
    };
    let resume = Resume { is_first_of_copy, ..resume };
    interrupt::finish_first(INTERRUPTED);
    let size = begin(table.as_ref(), options);
    let bar = bar(size);
    let parts = resume.parts;
    let beginnings = resume.rest.clone();
    let progress = Mutex::new(Progress {
        items: 0,
        units: 0.0,
        resume,
        next: Next::GoesOn,
        failed: None,
        take,
    });
    let pace = Pace::new(options.max_units);
    let parts_read = join_all(beginnings.into_iter().map(|(part, mut after)| {
        let (progress, pace, bar, work) = (&progress, &pace, &bar, &work);
        let mut page_size = options.page_size;
        async move {
            loop {
                pace.wait().await;
                if locked(progress).is_over(options.limit) {
                    return;
                }
                let admin = admin.page_size(page_size);
                let read = match admin.page(part, parts, select, after.as_deref()).await {
                    _ if interrupt::has_come() => Err(Failure::Interrupted),
                    Ok(brought) => work(&brought).await.map(|()| brought),
                    Err(error) => Err(error.into()),
                };
                let mut progress = locked(progress);
                let Ok(brought) = read.map_err(|cause| progress.failed = Some(cause)) else {
                    return;
                };
                page_size = brought.page_size;
                pace.used(brought.consumed);
                bar.inc(brought.scanned);
                after.clone_from(&brought.next);
                progress.add(part, brought);
                if after.is_none() {
                    return;
                }
            }
        }
    }));
    if bar.is_hidden() {
        let line = |spent| line(locked(&progress).items, size, spent, &done());
        with_lines(BETWEEN_LINES, line, output::remark, parts_read).await;
    } else {
        parts_read.await;
    }
    bar.finish_and_clear();
    let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    let copies = matches!(select, Select::PartItems | Select::RecordItems);
    progress.end(options.resume.is_some(), copies)
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

/// The progress of a scan in words. `done` says more of its work, if it is not empty.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn line(items: u64, size: TableSize, spent: Duration, done: &str) -> String {
    let of = if size.items == 0 { String::new() } else { format!(" of about {}", size.items) };
    let left = match size.items.checked_sub(items) {
        Some(left) if items > 0 => {
            let per_item = spent.as_secs_f64() / items as f64;
            format!(", {} left", span(Duration::from_secs_f64((per_item * left as f64).round())))
        }
        _ => String::new(),
    };
    let separator = if done.is_empty() { "" } else { ", " };
    format!("{items}{of} items read in {}{left}{separator}{done}", span(spent))
}

/// Prints the estimate of a long scan. Returns the size of the table.
fn begin(table: Option<&TableDescription>, options: &Scan) -> TableSize {
    let size = table.map(TableSize::described).unwrap_or_default();
    let estimate = Estimate::of(size, options.max_units);
    if estimate.is_long() {
        output::remark(format_args!("reading all of it takes {estimate}"));
    }
    size
}

/// A progress bar, which is hidden without a terminal.
fn bar(size: TableSize) -> ProgressBar {
    if size.items == 0 {
        return ProgressBar::new_spinner();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos} of about {len} items, {eta} left");
    let bar = ProgressBar::new(size.items);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Limits the units that all parts together use per second.
#[derive(Debug)]
pub(crate) struct Pace {
    units_per_second: f64,
    /// The time at which the units used so far are within the limit.
    paid: Mutex<Instant>,
}

impl Pace {
    pub(crate) fn new(units_per_second: u32) -> Self {
        Self { units_per_second: units_per_second.into(), paid: Mutex::new(Instant::now()) }
    }

    /// Waits until the units used so far are within the limit, or until the signal comes.
    pub(crate) async fn wait(&self) {
        let paid = *locked(&self.paid);
        tokio::select! {
            () = tokio::time::sleep_until(paid.into()) => {}
            () = interrupt::come() => {}
        }
    }

    pub(crate) fn used(&self, units: f64) {
        if self.units_per_second > 0.0 {
            let time = Duration::from_secs_f64(units.max(0.0) / self.units_per_second);
            let mut paid = locked(&self.paid);
            *paid = (*paid).max(Instant::now()) + time;
        }
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
        pace.used(150.0);
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
    fn a_line_says_how_far_the_scan_is() {
        let spent = Duration::from_secs(90);
        let unknown = line(7, TableSize::default(), spent, "");
        assert_eq!(unknown, "7 items read in 1 min 30 s");
        let table = aws_sdk_dynamodb::types::TableDescription::builder().item_count(4000);
        let size = TableSize::described(&table.build());
        let copied = line(1700, size, spent, "1685 written");
        assert_eq!(
            copied,
            "1700 of about 4000 items read in 1 min 30 s, 2 min 2 s left, 1685 written"
        );
    }
}
