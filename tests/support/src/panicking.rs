//! User code that panics.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// An error whose `Display` panics.
#[derive(Debug)]
pub struct PanickingError;

impl fmt::Display for PanickingError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("user code")
    }
}

impl std::error::Error for PanickingError {}

/// An error whose destructor panics.
#[derive(Debug)]
pub struct ErrorPanicsWhenDropped;

impl fmt::Display for ErrorPanicsWhenDropped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("no")
    }
}

impl std::error::Error for ErrorPanicsWhenDropped {}

impl Drop for ErrorPanicsWhenDropped {
    fn drop(&mut self) {
        panic!("user code");
    }
}

/// A future that returns at once or never, and whose destructor panics.
#[derive(Debug)]
pub struct PanicsWhenDropped<T>(Option<T>);

impl<T> PanicsWhenDropped<T> {
    pub const fn returns(value: T) -> Self {
        Self(Some(value))
    }

    pub const fn hangs() -> Self {
        Self(None)
    }
}

impl<T: Unpin> Future for PanicsWhenDropped<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        self.0.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> Drop for PanicsWhenDropped<T> {
    fn drop(&mut self) {
        panic!("user code");
    }
}
