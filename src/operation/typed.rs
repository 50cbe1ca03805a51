//! The type parameters of a call: its hook, and the errors that it keeps.

use std::future::{Future, Ready};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::to_json;
use crate::call::hook::{Abandoned, HookResult, Reconciled};

/// The type parameter of a [`Call`](crate::Call) that has no hook, or keeps no errors.
///
/// ```
/// use dynamodb_idempotency::{Call, Idempotency, Unset};
///
/// // The same type as `Call<Unset, Unset>`.
/// fn charge(idempotency: &Idempotency) -> Call {
///     idempotency.operation("charge").key("order-42").payload(&1200)
/// }
///
/// fn charge_once(idempotency: &Idempotency) -> Call<Unset, String> {
///     charge(idempotency).replay_errors::<String>()
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Unset;

/// A hook of a call with answers `T` and errors `E`; [`Unset`] if the call has no hook.
#[diagnostic::on_unimplemented(
    message = "the `reconcile` hook and the handler return different types",
    label = "the handler returns `Result<{T}, {E}>`"
)]
pub trait ReconcileHook<T, E> {
    type Answer: Future<Output = HookResult<T, E>>;
    type Hook: Fn(Abandoned) -> Self::Answer;

    fn hook(self) -> Option<Self::Hook>;
}

impl<T, E> ReconcileHook<T, E> for Unset {
    type Answer = Ready<HookResult<T, E>>;
    type Hook = fn(Abandoned) -> Self::Answer;

    fn hook(self) -> Option<Self::Hook> {
        None
    }
}

impl<T, E, H, Fut> ReconcileHook<T, E> for H
where
    H: Fn(Abandoned) -> Fut,
    Fut: Future<Output = Result<Reconciled<T, E>, E>>,
{
    type Answer = Fut;
    type Hook = H;

    fn hook(self) -> Option<H> {
        Some(self)
    }
}

/// How errors of type `E` are stored and read: as JSON, or with [`Unset`] not at all.
#[diagnostic::on_unimplemented(
    message = "`replay_errors` keeps errors of another type than the handler's",
    label = "the handler's errors have the type `{E}`"
)]
pub trait KeptErrors<E> {
    /// Returns the JSON of an error, or `None` if it is not stored. Repeats then get `Failed`.
    fn encode(_: &E) -> Option<String> {
        None
    }

    /// Returns a stored error, or `None` if it cannot be read.
    fn decode(_: &[u8]) -> Option<E> {
        None
    }
}

impl<E> KeptErrors<E> for Unset {}

impl<E: Serialize + DeserializeOwned> KeptErrors<E> for E {
    fn encode(error: &E) -> Option<String> {
        to_json(error).ok()
    }

    fn decode(json: &[u8]) -> Option<E> {
        serde_json::from_slice(json).ok()
    }
}
