//! Reading the whole table: in parts side by side, no faster than allowed, with progress for those
//! who watch.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dynamodb_idempotency::admin::{Page, Select};
use dynamodb_idempotency::{Error, Idempotency};
use futures_util::future::try_join_all;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Scan;

/// What a scan has cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) items: u64,
    pub(crate) units: f64,
}

/// Hands every page of the table to `take`.
pub(crate) async fn scan(
    idempotency: &Idempotency,
    options: &Scan,
    select: Select,
    take: impl FnMut(Page),
) -> Result<Cost, Error> {
    let progress = progress(idempotency).await;
    let state = Mutex::new((Cost::default(), take));
    let pace = Pace::new(options.max_units);
    let parts = (0..options.parts).map(|part| {
        let (state, pace, progress) = (&state, &pace, &progress);
        async move {
            let mut after = None;
            loop {
                pace.wait().await;
                let admin = idempotency.admin();
                let mut read = admin.page(part, options.parts, select, after).await?;
                pace.used(read.consumed);
                progress.inc(read.scanned);
                after = read.next.take();
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let (cost, take) = &mut *state;
                cost.items += read.scanned;
                cost.units += read.consumed;
                take(read);
                if after.is_none() {
                    return Ok::<_, Error>(());
                }
            }
        }
    });
    let read = try_join_all(parts).await;
    progress.finish_and_clear();
    read?;
    Ok(state.into_inner().unwrap_or_else(PoisonError::into_inner).0)
}

/// On the terminal, if there is one; elsewhere it draws nothing.
async fn progress(idempotency: &Idempotency) -> ProgressBar {
    // Only to draw a bar: who may not describe the table sees a count.
    let items = idempotency.admin().approximate_items().await.unwrap_or(0);
    if items == 0 {
        return ProgressBar::new_spinner();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos} of about {len} items, {eta} left");
    let bar = ProgressBar::new(items);
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
        let paid = *self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::time::sleep_until(paid.into()).await;
    }

    fn used(&self, units: f64) {
        if self.units_per_second > 0.0 {
            let time = Duration::from_secs_f64(units.max(0.0) / self.units_per_second);
            let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
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
