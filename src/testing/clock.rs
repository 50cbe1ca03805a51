//! A clock that tests control.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::interceptors::BeforeDeserializationInterceptorContextMut;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_smithy_async::time::{SystemTimeSource, TimeSource};

/// A thousand years, in seconds. A `Date` header has a year of four digits.
const MAX_AHEAD: u64 = 1000 * 366 * 86_400;

/// The system's clock plus an offset. Clones share the offset.
///
/// The clients and the table of a sandbox use this clock. It decides when leases and retentions end.
///
/// ```
/// # doc_examples::run(async |sandbox, _| {
/// use std::time::Duration;
///
/// use dynamodb_idempotency::testing::SandboxClock;
///
/// let pending = sandbox.record("payments", "order-42");
/// pending.pending(Duration::from_secs(30)).await?;
/// let clock: &SandboxClock = sandbox.clock();
/// clock.advance(Duration::from_secs(60));
/// let record = pending.read().await?.expect("a record");
/// assert!(record.abandoned_for().is_some()); // its lease was 30 s
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, Default)]
pub struct SandboxClock {
    /// Whole seconds, like the `Date` header.
    ahead: Arc<AtomicU64>,
}

impl SandboxClock {
    /// Advances the clock. A fraction of a second counts as a whole second. In total, the clock is at most
    /// a thousand years ahead.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// use std::time::Duration;
    ///
    /// let before = sandbox.clock().now();
    /// sandbox.clock().advance(Duration::from_millis(1500));
    /// assert!(sandbox.clock().now() >= before + Duration::from_secs(2));
    /// # Ok(()) });
    /// ```
    pub fn advance(&self, by: Duration) {
        let seconds = by.as_secs().saturating_add(u64::from(by.subsec_nanos() > 0));
        let advanced = |ahead: u64| Some(ahead.saturating_add(seconds).min(MAX_AHEAD));
        // The closure always returns a value.
        let _ = self.ahead.fetch_update(Ordering::SeqCst, Ordering::SeqCst, advanced);
    }

    /// Returns the current time of the clock.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// use std::time::{Duration, SystemTime};
    ///
    /// sandbox.clock().advance(Duration::from_secs(3600));
    /// let ahead = sandbox.clock().now().duration_since(SystemTime::now())?;
    /// assert!(ahead > Duration::from_secs(3500));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn now(&self) -> SystemTime {
        SystemTimeSource::new().now() + Duration::from_secs(self.ahead.load(Ordering::SeqCst))
    }
}

impl TimeSource for SandboxClock {
    fn now(&self) -> SystemTime {
        self.now()
    }
}

/// Shifts the `Date` of responses, which is DynamoDB's clock for the crate.
impl Intercept for SandboxClock {
    fn name(&self) -> &'static str {
        "SandboxClock"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let headers = context.response_mut().headers_mut();
        if let Some(date) = headers.get("date") {
            let date = DateTime::from_str(date, DateTimeFormat::HttpDate)?;
            let ahead = self.ahead.load(Ordering::SeqCst);
            let date = DateTime::from_secs(date.secs().saturating_add_unsigned(ahead));
            headers.try_insert("date", date.fmt(DateTimeFormat::HttpDate)?)?;
        }
        Ok(())
    }
}
