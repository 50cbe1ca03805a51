//! Calls user code, which may panic, and catches the panic.
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
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use pin_project_lite::pin_project;

/// A panic of user code.
pub(crate) struct Panic(Option<Box<dyn Any + Send>>);

impl Panic {
    /// The message, if the panic has one.
    #[cfg(any(feature = "http", feature = "messages", feature = "testing"))]
    pub(crate) fn text(&self) -> &str {
        let value = self.0.as_deref();
        let text = value.and_then(|value| value.downcast_ref::<&str>().copied());
        let text = text
            .or_else(|| value.and_then(|value| value.downcast_ref::<String>()).map(String::as_str));
        text.unwrap_or("a value that is not text")
    }

    /// Panics again, in the caller.
    pub(crate) fn resume(mut self) -> ! {
        resume_unwind(self.0.take().unwrap_or_else(|| Box::new(())))
    }
}

/// The value of a panic is the user's too: its destructor may panic.
impl Drop for Panic {
    fn drop(&mut self) {
        let value = self.0.take();
        if let Err(mut again) = call(|| drop(value)) {
            std::mem::forget(again.0.take());
        }
    }
}

/// Calls a function of the user.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn call<T>(code: impl FnOnce() -> T) -> Result<T, Panic> {
    std::panic::catch_unwind(AssertUnwindSafe(code)).map_err(|value| Panic(Some(value)))
}

/// Runs a future of the user.
pub(crate) fn run<F: Future>(code: F) -> Running<F> {
    Running { code: Some(code) }
}

/// Runs a future of the user, and resumes its panic.
pub(crate) fn run_or_resume<F: Future>(code: F) -> impl Future<Output = F::Output> {
    run(code).map(|ended| ended.unwrap_or_else(|panic| panic.resume()))
}

pin_project! {
    /// A future of the user. A panic of its destructor is logged, and changes no result.
    pub(crate) struct Running<F> {
        #[pin]
        code: Option<F>,
    }

    impl<F> PinnedDrop for Running<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut code = this.project().code;
            discard(|| code.set(None));
        }
    }
}

/// Drops what belongs to the user: its destructor may panic.
pub(crate) fn discard(drop: impl FnOnce()) {
    if call(drop).is_err() {
        tracing::error!("a destructor panicked");
    }
}

impl<F: Future> Future for Running<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut code = self.project().code;
        let polled = call(|| code.as_mut().as_pin_mut().map(|code| code.poll(context)));
        let ended = match polled {
            Ok(None | Some(Poll::Pending)) => return Poll::Pending,
            Ok(Some(Poll::Ready(output))) => Ok(output),
            Err(panic) => Err(panic),
        };
        discard(|| code.set(None));
        Poll::Ready(ended)
    }
}

/// The text of an error of the user, with the causes that some types add. The error is dropped here, because
/// its destructor may panic.
pub(crate) fn text(error: impl fmt::Display) -> String {
    let text = call(|| format!("{error:#}")).unwrap_or_else(|_| "its Display panicked".to_owned());
    match call(|| drop(error)) {
        Ok(()) => text,
        Err(_) => format!("{text} (its destructor panicked)"),
    }
}
