//! JSON text, which this crate writes and reads without `serde_json`'s tree. The tree limits the depth
//! and the size of numbers, may change the text of numbers, and has another form under features of
//! `serde_json` that any crate of the user's program can switch on.

mod finite;
#[cfg(any(feature = "event", feature = "http"))]
mod key;
#[cfg(any(feature = "event", feature = "http"))]
mod part;

use serde::Serialize;

#[cfg(any(feature = "event", feature = "http"))]
pub use self::key::JsonKey;
#[cfg(any(feature = "http", feature = "messages"))]
pub(crate) use self::key::NoKey;
#[cfg(feature = "messages")]
pub(crate) use self::part::{part, with_member, without_bom};

use self::finite::Finite;

/// Serializes a value as JSON. Rejects an infinite number and a NaN, for which `serde_json` writes `null`,
/// as it does for `None`.
pub(crate) fn to_text<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    value.serialize(Finite)?;
    serde_json::to_string(value)
}
