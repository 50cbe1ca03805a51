//! Reading the whole table: in parts side by side, no faster and no further than allowed, with progress
//! for those who watch.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dynamodb_idempotency::admin::{Admin, Page, Select};
use dynamodb_idempotency::{Error, Idempotency};
use futures_util::future::join_all;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Scan;
use crate::estimate::Estimate;
use crate::failure::Failure;
use crate::output;
use crate::resume::Resume;

/// What came of a scan.
#[derive(Debug)]
pub(crate) struct Read {
    /// How many items were read, and for how many read units.
    pub(crate) items: u64,
    pub(crate) units: f64,
    /// Where the next one goes on, if this one was not read to its end.
    pub(crate) resume: Option<Resume>,
    /// What ended it before.
    failed: Option<Error>,
}

impl Read {
    /// After the result is printed: why the scan did not reach its end, and where the next one
    /// continues.
    pub(crate) fn end(self) -> Result<(), Failure> {
        self.failed.map_or(Ok(()), |error| Err(stopped(error.into(), self.resume)))
    }
}

/// A failure of a scan, with the place where the next one continues.
pub(crate) fn stopped(cause: Failure, resume: Option<Resume>) -> Failure {
    match resume {
        Some(resume) => Failure::Stopped { cause: Box::new(cause), resume },
        None => cause,
    }
}

/// Whether a scan goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoesOn,
    IsEnough,
}

/// What the parts have in common.
struct Progress<F> {
    items: u64,
    units: f64,
    resume: Resume,
    next: Next,
    failed: Option<Error>,
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
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands every page of the table to `take`, until that says that it has what it wants, or a limit is
/// reached. An error that comes before anything was read is returned; a later one is part of the result.
pub(crate) async fn scan(
    idempotency: &Idempotency,
    options: &Scan,
    select: Select,
    take: impl FnMut(Page) -> Next,
) -> Result<Read, Failure> {
    scan_after(idempotency, options, select, async |_| Ok(()), take).await
}

/// As [`scan`], with something to be done about each page first. A page of which that fails is not handed
/// over: who goes on reads it again.
pub(crate) async fn scan_after(
    idempotency: &Idempotency,
    options: &Scan,
    select: Select,
    work: impl AsyncFn(&Page) -> Result<(), Error>,
    take: impl FnMut(Page) -> Next,
) -> Result<Read, Failure> {
    let scope = options.scope()?;
    let admin = idempotency.admin();
    let admin = scope.as_ref().map_or(admin, |scope| admin.within(scope));
    let bar = begin(admin, options).await;
    let resume = options.resume.clone().unwrap_or_else(|| Resume::of(options.parts));
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
    join_all(beginnings.into_iter().map(|(part, mut after)| {
        let (progress, pace, bar, work) = (&progress, &pace, &bar, &work);
        async move {
            loop {
                pace.wait().await;
                if locked(progress).is_over(options.limit) {
                    return;
                }
                let read = admin.page(part, parts, select, after.as_deref()).await;
                let read = match read {
                    Ok(brought) => work(&brought).await.map(|()| brought),
                    Err(error) => Err(error),
                };
                let mut progress = locked(progress);
                let Ok(brought) = read.map_err(|error| progress.failed = Some(error)) else {
                    return;
                };
                pace.used(brought.consumed);
                bar.inc(brought.scanned);
                after.clone_from(&brought.next);
                progress.add(part, brought);
                if after.is_none() {
                    return;
                }
            }
        }
    }))
    .await;
    bar.finish_and_clear();
    let Progress { items, units, resume, failed, .. } =
        progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed {
        // A place that the caller has named is kept.
        Some(error) if items == 0 => {
            Err(stopped(error.into(), options.resume.is_some().then_some(resume)))
        }
        failed => {
            let resume = (!resume.rest.is_empty()).then_some(resume);
            Ok(Read { items, units, resume, failed })
        }
    }
}

/// Tells what is to come, and draws a bar on the terminal, if there is one.
async fn begin(admin: Admin<'_>, options: &Scan) -> ProgressBar {
    // Who may not describe the table sees a count.
    let size = admin.approximate_size().await.unwrap_or_default();
    let estimate = Estimate::of(size, options.max_units);
    if estimate.is_long() {
        output::note(format_args!("reading all of it takes {estimate}"));
    }
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

/// Keeps all parts together below so many read units in a second.
struct Pace {
    units_per_second: f64,
    /// When the units that were used so far are paid for.
    paid: Mutex<Instant>,
}

impl Pace {
    fn new(units_per_second: u32) -> Self {
        Self { units_per_second: units_per_second.into(), paid: Mutex::new(Instant::now()) }
    }

    async fn wait(&self) {
        let paid = *locked(&self.paid);
        tokio::time::sleep_until(paid.into()).await;
    }

    fn used(&self, units: f64) {
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
    fn units_are_paid_for_one_after_the_other() {
        let pace = Pace::new(100);
        let before = Instant::now();
        pace.used(50.0);
        pace.used(150.0);
        assert!(*pace.paid.lock().unwrap() >= before + Duration::from_secs(2));
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let pace = Pace::new(0);
        pace.used(1e9);
        assert!(*pace.paid.lock().unwrap() <= Instant::now());
    }
}
