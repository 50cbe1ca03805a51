//! What is wrong with a JSON text.

use serde_json::error::Category;

/// Describes an error of `serde_json` without the values that it quotes, which may be secret.
pub(crate) fn json_fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = match error.classify() {
        // `serde_json` counts these as errors of the syntax, but they are JSON.
        Category::Syntax if text.starts_with("recursion limit exceeded") => {
            "it is nested more than 127 levels deep"
        }
        Category::Syntax if text.starts_with("number out of range") => {
            "a number in it is too large"
        }
        Category::Syntax => "it is not JSON",
        Category::Eof => "it ends too early",
        Category::Data => "it has another shape",
        Category::Io => "it could not be read",
    };
    match error.line() {
        0 => what.to_owned(),
        line => format!("{what}, at line {line}, column {}", error.column()),
    }
}

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
            assert_eq!(json_fault(&fault.unwrap_err()), message);
        }
        let deep = serde_json::from_str::<serde_json::Value>(&"[".repeat(200)).unwrap_err();
        let message = "it is nested more than 127 levels deep, at line 1, column 128";
        assert_eq!(json_fault(&deep), message);
        let large = serde_json::from_str::<f64>("1e999").unwrap_err();
        assert_eq!(json_fault(&large), "a number in it is too large, at line 1, column 5");
        let tree = serde_json::from_value::<u8>("secret".into()).unwrap_err();
        assert_eq!(json_fault(&tree), "it has another shape");
    }
}
