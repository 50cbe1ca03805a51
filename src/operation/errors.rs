//! Whether a handler's own errors are kept for repeats.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answer::serialise;

/// The handler's errors are not stored: the default.
///
/// ```
/// use dynamodb_idempotency::{ForgetErrors, Idempotency, Operation};
///
/// fn charge<'a>(idempotency: &'a Idempotency, order: &str) -> Operation<'a, ForgetErrors> {
///     idempotency.operation("charge").key(order)
/// }
/// ```
#[derive(Debug)]
pub enum ForgetErrors {}

/// The handler's errors are stored and replayed: after
/// [`Operation::replay_errors`](crate::Operation::replay_errors).
///
/// ```
/// use dynamodb_idempotency::{Idempotency, Operation, ReplayErrors};
///
/// fn charge<'a>(idempotency: &'a Idempotency, order: &str) -> Operation<'a, ReplayErrors> {
///     idempotency.operation("charge").key(order).replay_errors()
/// }
/// ```
#[derive(Debug)]
pub enum ReplayErrors {}

/// Whether an operation can store and replay errors of type `E`. Implemented by the crate alone.
///
/// ```
/// use dynamodb_idempotency::{ErrorReplay, Operation, RunError};
///
/// /// For operations that keep their errors, and for those that do not.
/// async fn charge<Errors: ErrorReplay<String>>(
///     operation: Operation<'_, Errors>,
/// ) -> Result<u32, RunError<String>> {
///     operation.run(async |_| Err("declined".to_owned())).await
/// }
/// ```
pub trait ErrorReplay<E>: sealed::Sealed {
    /// The error as JSON, if it is to be stored.
    #[doc(hidden)]
    fn encode(error: &E) -> Option<String>;
    /// A stored error.
    #[doc(hidden)]
    fn decode(json: &str) -> Option<E>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ForgetErrors {}
    impl Sealed for super::ReplayErrors {}
}

impl<E> ErrorReplay<E> for ForgetErrors {
    fn encode(_: &E) -> Option<String> {
        None
    }

    fn decode(_: &str) -> Option<E> {
        None
    }
}

impl<E: Serialize + DeserializeOwned> ErrorReplay<E> for ReplayErrors {
    fn encode(error: &E) -> Option<String> {
        // An error that serde cannot write, or panics at, is kept without itself: repeats get `Failed`.
        serialise(error).ok()
    }

    fn decode(json: &str) -> Option<E> {
        serde_json::from_str(json).ok()
    }
}
