//! An event as Lambda sends it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// The JSON text of an event, unchanged: the services of this crate take it from `lambda_runtime`.
///
/// Each service reads it itself, so that one message that cannot be read fails alone. In a test,
/// make it from a text or from any serialisable value:
///
/// ```
/// use dynamodb_idempotency::event::JsonEvent;
///
/// let one: JsonEvent = r#"{"file": "a.csv"}"#.parse()?;
/// assert_eq!(one.get(), r#"{"file": "a.csv"}"#); // letter for letter
/// let other = JsonEvent::of(&serde_json::json!({"file": "a.csv"}))?;
/// assert_eq!(other.get(), r#"{"file":"a.csv"}"#);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, derive_more::Debug, Deserialize, Serialize)]
// Events carry what customers sent: only their size is shown.
#[debug("JsonEvent({} bytes)", self.get().len())]
#[serde(transparent)]
pub struct JsonEvent(Box<RawValue>);

impl JsonEvent {
    /// The event of a value's JSON.
    ///
    /// ```
    /// use dynamodb_idempotency::event::JsonEvent;
    ///
    /// let event = JsonEvent::of(&["a.csv"])?;
    /// assert_eq!(event.get(), r#"["a.csv"]"#);
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the value cannot be written as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        to_raw_value(value).map(Self)
    }

    /// The text.
    ///
    /// ```
    /// use dynamodb_idempotency::event::JsonEvent;
    ///
    /// let event: JsonEvent = r#"{ "amount": 1.0 }"#.parse()?;
    /// assert_eq!(event.get(), r#"{ "amount": 1.0 }"#); // letter for letter
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl FromStr for JsonEvent {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text).map(Self)
    }
}
