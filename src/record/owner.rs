//! Who has a record.

use std::fmt;
use std::sync::Arc;

use crate::clock::entropy;
use crate::error::Error;
use crate::key::hex;

/// One attempt's identity: whoever holds it may complete, fail or renew the record that carries it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    /// 128 bits from the operating system, in hex.
    pub(crate) fn random() -> Result<Self, Error> {
        Ok(Self(hex(&entropy::<16>()?).into()))
    }

    /// An owner that nobody is, and another one for each owner: its name with other digits at the end.
    pub(crate) fn nobody(&self) -> Self {
        let other = |(place, digit): (usize, char)| match digit.to_digit(16) {
            Some(value) if place >= 16 => char::from_digit(15 - value, 16).unwrap_or(digit),
            Some(_) | None => digit,
        };
        Self(self.0.chars().enumerate().map(other).collect::<String>().into())
    }

    /// As a record names it.
    pub(super) fn of(name: String) -> Self {
        Self(name.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.0)
    }
}
