//! Hashes small values by folded multiplication, as in wyhash, eight bytes at a time.

use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Discriminants and lengths count as one byte each.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    hash: u64,
    pending: u64,
    bytes: u32,
}

impl Fold {
    fn mix(&mut self, word: u64) {
        let word = self.hash ^ word ^ 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(word) * 0xa076_1d64_78bd_642f;
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let folded = (product as u64) ^ (product >> 64) as u64;
        self.hash = folded ^ self.hash.rotate_left(29);
    }

    fn flush(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.bytes = 0;
        self.mix(pending);
    }
}

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.pending = self.pending << 8 | u64::from(byte);
        self.bytes += 1;
        if self.bytes == 8 {
            self.flush();
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_i64(&mut self, number: i64) {
        self.mix(number.cast_unsigned());
    }

    #[expect(clippy::cast_possible_truncation, reason = "nothing here is longer")]
    fn write_usize(&mut self, length: usize) {
        self.write_u8(length as u8);
    }

    #[expect(clippy::cast_possible_truncation, reason = "no enum here has more variants")]
    fn write_isize(&mut self, discriminant: isize) {
        self.write_u8(discriminant.cast_unsigned() as u8);
    }

    fn finish(&self) -> u64 {
        let mut last = Self { ..*self };
        last.flush();
        last.mix(u64::from(self.bytes));
        last.hash
    }
}

pub(crate) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = Fold::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// For keys that are hashes already.
#[derive(Debug, Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) type BuildAsIs = BuildHasherDefault<AsIs>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_place_or_length_alone_has_another_hash() {
        let hashes = [hash(&[1_u8, 0]), hash(&[0_u8, 1]), hash(&[1_u8, 0, 0]), hash(&[1_u8])];
        for (place, one) in hashes.iter().enumerate() {
            assert!(!hashes[..place].contains(one));
        }
    }
}
