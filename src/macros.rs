//! The attribute `#[idempotent]`, and what its expansion needs.

/// Makes an async function idempotent: its body runs once for each key.
///
/// All callers with the same key get the same answer.
///
/// ```
/// # doc_examples::run(async |_, idempotency| {
/// use dynamodb_idempotency::{Idempotency, RunError, idempotent};
/// use serde::Serialize;
///
/// #[derive(Serialize)]
/// struct Order { id: u64, amount: u32 }
///
/// #[derive(Debug)]
/// struct Declined;
///
/// #[idempotent(scope = "charge", key = order.id, payload = order)]
/// async fn charge(idempotency: &Idempotency, order: &Order) -> Result<String, RunError<Declined>> {
///     if order.amount > 1_000 {
///         return Err(Declined);
///     }
///     Ok(format!("charged {}", order.amount))
/// }
///
/// let order = Order { id: 42, amount: 5 };
/// assert_eq!(charge(&idempotency, &order).await.unwrap(), "charged 5");
/// let refused = charge(&idempotency, &Order { id: 43, amount: 2_000 }).await;
/// assert!(matches!(refused, Err(RunError::Handler(Declined))));
/// # Ok(()) });
/// ```
///
/// The attribute expands to this call:
///
/// ```
/// # use dynamodb_idempotency::{Idempotency, RunError};
/// # #[derive(serde::Serialize)] struct Order { id: u64, amount: u32 }
/// # #[derive(Debug)] struct Declined;
/// async fn charge(idempotency: &Idempotency, order: &Order) -> Result<String, RunError<Declined>> {
///     idempotency
///         .operation("charge")
///         .key(order.id.to_string())
///         .payload(&order)
///         .run(async move |_| -> Result<String, Declined> {
///             if order.amount > 1_000 {
///                 return Err(Declined);
///             }
///             Ok(format!("charged {}", order.amount))
///         })
///         .await
/// }
/// ```
///
/// The function returns `Result<T, RunError<E>>`, and its body returns `Result<T, E>`.
///
/// | argument | meaning |
/// |---|---|
/// | `scope = ..` | required: the name of the [operation](crate::Idempotency::operation) |
/// | `key = ..` | required: the [key](crate::Operation::key), of any type that implements `Display` |
/// | `payload = ..` | the [payload](crate::CallNeedsPayload::payload), by reference; or `payload_bytes = ..`, `fingerprint = ..`, or [`no_payload`](crate::CallNeedsPayload::no_payload), which has no value |
/// | `execution = name` | the name of the [`Execution`] in the body |
/// | `idempotency = ..` | the [`Idempotency`], such as `self.idempotency`; default: the function's argument `idempotency` |
/// | `policy = ..`, `segment = ..` | the [`Operation`]'s [policy](crate::Operation::policy) and [segment](crate::Operation::segment) |
/// | any other name | the method of [`Call`] with this name: `deadline = context.deadline()` |
///
/// ```
/// use dynamodb_idempotency::policy::Failure;
/// use dynamodb_idempotency::{Idempotency, RunError, idempotent};
///
/// type BoxError = Box<dyn std::error::Error + Send + Sync>;
///
/// struct Shop { idempotency: Idempotency }
///
/// impl Shop {
///     #[idempotent(
///         scope = "book",
///         key = seat,
///         no_payload,
///         idempotency = self.idempotency,
///         execution = execution,
///         policy = |policy| policy.failure(Failure::Retain { max_attempts: 3 }),
///     )]
///     #[tracing::instrument(skip_all)]
///     async fn book(&self, seat: &str) -> Result<u32, RunError<BoxError>> {
///         Ok(execution.step("reserve", async { Ok::<_, std::io::Error>(7) }).await?)
///     }
/// }
/// # doc_examples::run(async |_, idempotency| {
/// # assert_eq!(Shop { idempotency }.book("1A").await.unwrap(), 7);
/// # Ok(()) });
/// ```
///
/// Put the attribute above `#[tracing::instrument]`. A method of an `#[async_trait]` impl cannot have it,
/// because that attribute comes first and changes the function: write the plain call there.
///
/// A function with another return type does not compile:
///
/// ```compile_fail,E0277
/// use dynamodb_idempotency::{Idempotency, idempotent};
///
/// #[idempotent(scope = "charge", key = "order-42", no_payload)]
/// async fn charge(idempotency: &Idempotency) -> Result<u32, std::io::Error> {
///     Ok(5)
/// }
/// ```
///
/// [`Call`]: crate::Call
/// [`Execution`]: crate::Execution
/// [`Idempotency`]: crate::Idempotency
/// [`Operation`]: crate::Operation
pub use dynamodb_idempotency_macros::idempotent;

use crate::error::RunError;

/// The return types of an idempotent function and of its body.
#[diagnostic::on_unimplemented(
    message = "an idempotent function returns `Result<T, RunError<E>>`, not `{Self}`",
    label = "its body ends in `Result<T, E>`"
)]
pub trait Answer {
    /// The return type of the body.
    type Own;
}

impl<T, E> Answer for Result<T, RunError<E>> {
    type Own = Result<T, E>;
}
