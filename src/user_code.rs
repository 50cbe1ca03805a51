//! Calls user code, which may panic. Nothing else in the crate catches a panic.
//!
//! Before the handler runs, a panic means that nothing happened: the caller gets the panic or an error, and
//! the record stays as it was. After the handler has returned, its effect has happened: the record is
//! completed, with a reason in place of an answer that cannot be stored. The table is in
//! `docs/guide/guarantees.md`; `tests/suite/panics.rs` and `tests/suite/http/panics.rs` have a test for each
//! row.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt as _;

/// A panic of user code.
pub(crate) struct Panic(Box<dyn Any + Send>);

impl Panic {
    /// The message, if the panic has one.
    #[cfg(any(feature = "http", feature = "messages"))]
    pub(crate) fn text(&self) -> &str {
        let text = self.0.downcast_ref::<&str>().copied();
        let text = text.or_else(|| self.0.downcast_ref::<String>().map(String::as_str));
        text.unwrap_or("a value that is not text")
    }

    /// Panics again, in the caller.
    pub(crate) fn resume(self) -> ! {
        resume_unwind(self.0)
    }
}

/// Calls a function of the user.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn call<T>(code: impl FnOnce() -> T) -> Result<T, Panic> {
    std::panic::catch_unwind(AssertUnwindSafe(code)).map_err(Panic)
}

/// Runs a future of the user.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn run<F: Future>(code: F) -> impl Future<Output = Result<F::Output, Panic>> {
    AssertUnwindSafe(code).catch_unwind().map(|ended| ended.map_err(Panic))
}

/// The text of a value of the user, such as an error.
pub(crate) fn text(value: &(impl fmt::Display + ?Sized)) -> String {
    call(|| value.to_string()).unwrap_or_else(|_| "its Display panicked".to_owned())
}
