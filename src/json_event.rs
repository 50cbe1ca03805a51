//! An event as Lambda sends it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::to_text;

/// The unchanged JSON text of an event, which this crate's services receive from `lambda_runtime`.
///
/// Each service parses the text itself, so one unreadable message fails alone. In a test, create an
/// event from a text or a serializable value:
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
// Shows only the size, because events contain customers' data.
#[debug("JsonEvent({} bytes)", self.get().len())]
#[serde(transparent)]
pub struct JsonEvent(Box<RawValue>);

impl JsonEvent {
    /// Serializes a value as an event.
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
    /// If the value cannot be serialized as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        RawValue::from_string(to_text(value)?).map(Self)
    }

    /// Returns the JSON text.
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
