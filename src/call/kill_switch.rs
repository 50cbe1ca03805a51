//! `IDEMPOTENCY_DISABLED`: handlers run without records.

/// The environment variable that switches idempotency off for a whole process.
///
/// `true`, `1`, `yes` and `on` switch it off, in upper or lower case. Unset, empty, `false`, `0`,
/// `no` and `off` leave it on. Any other value also leaves it on, with an error in the log. See
/// [`Builder::disabled`](crate::Builder::disabled).
///
/// ```
/// use dynamodb_idempotency::DISABLED_ENV;
///
/// /// The environment of a function.
/// fn variables(off: bool) -> Vec<(&'static str, &'static str)> {
///     if off { vec![(DISABLED_ENV, "true")] } else { Vec::new() }
/// }
/// assert_eq!(variables(true), [("IDEMPOTENCY_DISABLED", "true")]);
/// ```
pub const DISABLED_ENV: &str = "IDEMPOTENCY_DISABLED";

/// Returns whether the environment switches idempotency off.
pub(crate) fn is_set() -> bool {
    let value = std::env::var_os(DISABLED_ENV).unwrap_or_default();
    let value = value.to_string_lossy();
    is_yes(&value).unwrap_or_else(|| {
        tracing::error!(
            "{DISABLED_ENV} is `{value}`, which is neither true nor false: idempotency stays on. Set it to `true` or `false`"
        );
        false
    })
}

fn is_yes(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "" | "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_word_switches_idempotency_off() {
        for yes in ["true", "TRUE", "1", "yes", "On"] {
            assert_eq!(is_yes(yes), Some(true), "{yes}");
        }
        for no in ["", "false", "False", "0", "no", "off"] {
            assert_eq!(is_yes(no), Some(false), "{no}");
        }
        for neither in ["ture", " true", "2", "disabled"] {
            assert_eq!(is_yes(neither), None, "{neither}");
        }
    }
}
