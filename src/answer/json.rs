//! The user's values as stored JSON.

use serde::Serialize;

use crate::call::user_code;
use crate::json::to_text;

/// Returns the JSON of an answer, a failure or a step's result, or why it cannot be stored.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
    match user_code::call(|| to_text(value)) {
        Ok(json) => json.map_err(|error| error.to_string()),
        Err(_) => Err("its serialization panicked".to_owned()),
    }
}
