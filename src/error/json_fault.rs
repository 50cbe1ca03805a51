//! What is wrong with a JSON text.

use std::error::Error as StdError;
use std::fmt;

/// Where JSON is invalid. The parser's own message quotes the text, which may be personal data.
#[derive(Debug)]
pub(crate) struct JsonFault {
    what: &'static str,
    line: usize,
    column: usize,
}

impl From<serde_json::Error> for JsonFault {
    fn from(error: serde_json::Error) -> Self {
        use serde_json::error::Category;
        let what = match error.classify() {
            Category::Syntax => "it is not JSON",
            Category::Eof => "it ends too early",
            Category::Data => "it has another shape",
            Category::Io => "it could not be read",
        };
        Self { what, line: error.line(), column: error.column() }
    }
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        match self.line {
            0 => Ok(()),
            line => write!(f, ", at line {line}, column {}", self.column),
        }
    }
}

impl StdError for JsonFault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_json_names_its_position_and_quotes_nothing() {
        for (text, message) in [
            (r#"{"n": "secret"}"#, "it has another shape, at line 1, column 14"),
            (r#"{"secret": "#, "it ends too early, at line 1, column 11"),
            ("{secret", "it is not JSON, at line 1, column 2"),
        ] {
            let fault = serde_json::from_str::<std::collections::BTreeMap<String, u8>>(text);
            assert_eq!(JsonFault::from(fault.unwrap_err()).to_string(), message);
        }
        let tree = serde_json::from_value::<u8>("secret".into()).unwrap_err();
        assert_eq!(JsonFault::from(tree).to_string(), "it has another shape");
    }
}
