//! Reads the whole table in parallel parts, within the limits on items and read units, and shows how far
//! it is.

use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::types::TableDescription;
use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::admin::{Page, Select};
use futures_util::future::join_all;

use crate::args::Scan;
use crate::estimate::{Estimate, TableSize};
use crate::failure::Failure;
use crate::progress::{Pace, Progress, Steps};
use crate::resume::Resume;
use crate::{describe, interrupt, output};

/// Printed when the signal comes.
const INTERRUPTED: &str = "interrupted: the requests in flight are finished first, then the place to continue at (--resume) is \
                           printed. A second interrupt ends the program at once, without a place; then run the same command again";

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
struct Reading<F> {
    items: u64,
    units: f64,
    resume: Resume,
    next: Next,
    failed: Option<Failure>,
    take: F,
}

impl<F: FnMut(Page) -> Next> Reading<F> {
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
    let progress = Progress::new(Steps::Items(size.items));
    let parts = resume.parts;
    let beginnings = resume.rest.clone();
    let reading = Mutex::new(Reading {
        items: 0,
        units: 0.0,
        resume,
        next: Next::GoesOn,
        failed: None,
        take,
    });
    let pace = Pace::new(options.max_units);
    let parts_read = join_all(beginnings.into_iter().map(|(part, mut after)| {
        let (reading, progress, pace, work) = (&reading, &progress, &pace, &work);
        let mut page_size = options.page_size;
        async move {
            loop {
                pace.wait().await;
                if locked(reading).is_over(options.limit) {
                    return;
                }
                let admin = admin.page_size(page_size);
                let read = match admin.page(part, parts, select, after.as_deref()).await {
                    _ if interrupt::has_come() => Err(Failure::Interrupted),
                    Ok(brought) => work(&brought).await.map(|()| brought),
                    Err(error) => Err(error.into()),
                };
                let mut reading = locked(reading);
                let Ok(brought) = read.map_err(|cause| reading.failed = Some(cause)) else {
                    return;
                };
                page_size = brought.page_size;
                pace.used(brought.consumed);
                progress.add(brought.scanned);
                after.clone_from(&brought.next);
                reading.add(part, brought);
                if after.is_none() {
                    return;
                }
            }
        }
    }));
    progress.during(done, parts_read).await;
    let reading = reading.into_inner().unwrap_or_else(PoisonError::into_inner);
    let copies = matches!(select, Select::PartItems | Select::RecordItems);
    reading.end(options.resume.is_some(), copies)
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
