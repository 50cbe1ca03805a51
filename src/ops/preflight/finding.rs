//! The result of a check of a table.

use std::fmt;

/// The severity of a [`Finding`].
///
/// ```
/// use dynamodb_idempotency::Severity;
///
/// assert!(Severity::Ok < Severity::Warning && Severity::Warning < Severity::Error);
/// assert_eq!(Severity::Warning.as_str(), "warning");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Everything is correct.
    Ok,
    /// The crate works, but something is wrong or could not be checked.
    Warning,
    /// The crate does not work.
    Error,
}

impl Severity {
    /// `ok`, `warning` or `error`.
    ///
    /// ```
    /// use dynamodb_idempotency::Severity;
    ///
    /// assert_eq!(Severity::Error.as_str(), "error");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One result of [`Idempotency::preflight`](crate::Idempotency::preflight), with its fix.
///
/// Its text is one line: the result and, after a colon, the fix.
///
/// ```
/// use dynamodb_idempotency::{Finding, Severity};
///
/// /// The lines for an operator.
/// fn lines(findings: &[Finding]) -> Vec<String> {
///     let wrong = findings.iter().filter(|finding| finding.severity > Severity::Ok);
///     wrong.map(|finding| format!("{}: {finding}", finding.subject)).collect()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was checked: `connection`, `keys`, `records of payments` …
    pub subject: String,
    /// The severity.
    pub severity: Severity,
    /// The result.
    pub detail: String,
    /// The fix, if one is needed.
    pub fix: Option<String>,
}

impl Finding {
    #[doc(hidden)]
    pub fn ok(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        let (subject, detail) = (subject.into(), detail.into());
        Self { subject, severity: Severity::Ok, detail, fix: None }
    }

    #[doc(hidden)]
    pub fn warning(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::ok(subject, detail) }
    }

    #[doc(hidden)]
    pub fn error(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { severity: Severity::Error, ..Self::ok(subject, detail) }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        match &self.fix {
            Some(fix) => write!(f, ": {fix}"),
            None => Ok(()),
        }
    }
}
