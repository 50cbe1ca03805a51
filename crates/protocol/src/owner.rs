//! The identity of an owner.

use std::fmt;

/// Identifies one call: 128 random bits. The owner of a record completes, fails, renews and releases it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub u128);

impl OwnerId {
    /// The length of the text form of an id, in characters.
    pub const TEXT_LENGTH: usize = 32;

    /// Parses the text form: exactly 32 lowercase hex digits, because conditions compare the text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != Self::TEXT_LENGTH || !text.bytes().all(is_digit) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(Self)
    }

    /// The id with its lower half inverted. No call has the inverted id. So if a record has it, DynamoDB
    /// rejects delayed writes of this owner to the record.
    #[must_use]
    pub const fn alternate(self) -> Self {
        Self(self.0 ^ 0xffff_ffff_ffff_ffff)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_from_its_text() {
        for id in [0, 1, 0xab << 120, u128::MAX] {
            let text = OwnerId(id).to_string();
            assert_eq!(
                (text.len(), OwnerId::parse(&text)),
                (OwnerId::TEXT_LENGTH, Some(OwnerId(id)))
            );
        }
    }

    #[test]
    fn text_that_would_be_written_differently_is_not_an_id() {
        let digits = "0123456789abcdef0123456789abcdef";
        let others =
            [&digits[1..], "0123456789ABCDEF0123456789abcdef", "+123456789abcdef0123456789abcdef"];
        assert!(OwnerId::parse(digits).is_some());
        assert!(others.iter().all(|text| OwnerId::parse(text).is_none()));
    }

    #[test]
    fn the_alternate_of_an_owner_is_another_one() {
        let owner = OwnerId(7 << 64 | 7);
        assert_ne!(owner.alternate(), owner);
        assert_eq!(owner.alternate().alternate(), owner);
    }
}
