//! Recipes: how a request becomes 32 bytes. A record stores the number of its recipe, so a later
//! version can change the recipe and still compare earlier requests. Each adapter decides which parts
//! of a request are hashed.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// Everything that determines a hash, except the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    /// The number in records.
    number: u8,
    /// Separates its hashes from all other uses of SHA-256.
    domain: &'static [u8],
    /// The canonical form of a JSON text.
    canonical: fn(&str) -> Option<Cow<'_, [u8]>>,
}

/// The recipes that this version reads. It writes the first. To add one, see "Rolling out" in
/// `docs/protocol.md`.
pub(crate) const RECIPES: [Recipe; 1] = [Recipe {
    number: 1,
    domain: b"dynamodb-idempotency/fingerprint/1\0",
    canonical: super::canonical_json::canonical,
}];

/// The type of a part. JSON text and raw bytes of the same content have different hashes.
#[derive(Clone, Copy)]
enum Part {
    Bytes = 0,
    Json = 1,
}

/// The hashes of one request before they are finished, one for each recipe.
#[derive(Clone, Debug)]
pub(super) struct Hashing<const N: usize>([(Recipe, Sha256); N]);

impl<const N: usize> Hashing<N> {
    pub(super) fn new(recipes: [Recipe; N]) -> Self {
        Self(recipes.map(|recipe| (recipe, Sha256::new_with_prefix(recipe.domain))))
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for (_, hasher) in &mut self.0 {
            add(hasher, Part::Bytes, bytes);
        }
    }

    pub(super) fn json(&mut self, text: &str) {
        let without_bom = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (recipe, hasher) in &mut self.0 {
            match (recipe.canonical)(without_bom) {
                Some(canonical) => add(hasher, Part::Json, &canonical),
                None => add(hasher, Part::Bytes, text.as_bytes()),
            }
        }
    }

    pub(super) fn finish(self) -> [StoredFingerprint; N] {
        self.0.map(|(recipe, hasher)| StoredFingerprint {
            recipe: recipe.number,
            hash: hasher.finalize().into(),
        })
    }
}

fn add(hasher: &mut Sha256, part: Part, bytes: &[u8]) {
    hasher.update([part as u8]);
    hasher.update((bytes.len() as u64).to_be_bytes());
    hasher.update(bytes);
}

/// The stored fingerprint: the hash and the number of its recipe.
#[derive(Clone, Copy, derive_more::Debug, PartialEq, Eq, Hash)]
// Four bytes are enough for a log. From the whole hash, a small payload can be guessed.
#[debug("Fingerprint({}…)", hex::encode(&self.hash[..4]))]
pub(crate) struct StoredFingerprint {
    pub(super) recipe: u8,
    pub(super) hash: [u8; 32],
}

/// Why a stored fingerprint cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoFingerprint {
    /// A later version wrote it, so the requests may be equal or not.
    Newer(u8),
    /// It is not a fingerprint, or its recipe is no longer supported.
    Unknown,
}

impl StoredFingerprint {
    /// The size of the recipe's number and the hash, in bytes.
    pub(crate) const BYTES: usize = 33;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [self.recipe; Self::BYTES];
        bytes[1..].copy_from_slice(&self.hash);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, NoFingerprint> {
        Self::by(&RECIPES, bytes)
    }

    /// The fingerprint of a blocker. No request has it, so every request is a mismatch.
    #[cfg(feature = "admin")]
    pub(crate) const BLOCKER: Self = Self { recipe: RECIPES[0].number, hash: [0; 32] };

    /// Whether the record is a blocker, under any recipe.
    #[cfg(feature = "admin")]
    pub(crate) fn is_blocker(&self) -> bool {
        self.hash == Self::BLOCKER.hash
    }

    fn by(recipes: &[Recipe], bytes: &[u8]) -> Result<Self, NoFingerprint> {
        let Ok([recipe, hash @ ..]) = <[u8; Self::BYTES]>::try_from(bytes) else {
            return Err(NoFingerprint::Unknown);
        };
        if recipes.iter().any(|known| known.number == recipe) {
            Ok(Self { recipe, hash })
        } else if recipes.iter().all(|known| known.number < recipe) {
            Err(NoFingerprint::Newer(recipe))
        } else {
            Err(NoFingerprint::Unknown)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A possible recipe of a later version, for which spaces matter.
    const LATER: Recipe =
        Recipe { number: 2, domain: b"dynamodb-idempotency/fingerprint/2\0", canonical: |_| None };
    const FIRST: Recipe = RECIPES[0];

    fn hashed<const N: usize>(recipes: [Recipe; N], json: &str) -> [StoredFingerprint; N] {
        let mut hashing = Hashing::new(recipes);
        hashing.bytes(b"POST");
        hashing.json(json);
        hashing.finish()
    }

    /// Versions before, during and after a change of the recipe read each other's records.
    #[test]
    fn a_record_of_an_earlier_recipe_is_compared_by_that_recipe() {
        let [before] = hashed([FIRST], "{ }");
        for (known, writes) in [([FIRST, LATER], 1), ([LATER, FIRST], 2)] {
            let own = hashed(known, "{}");
            assert_eq!(own[0].encode()[0], writes);
            // By the first recipe both spellings are the same request.
            let stored = StoredFingerprint::by(&known, &before.encode()).unwrap();
            assert!(own.contains(&stored));
            assert!(!hashed(known, "{\"a\":1}").contains(&stored));
            // By the later recipe they differ.
            let [after] = hashed([LATER], "{ }");
            let stored = StoredFingerprint::by(&known, &after.encode()).unwrap();
            assert!(!own.contains(&stored));
            assert!(hashed(known, "{ }").contains(&stored));
        }
    }

    #[test]
    fn a_recipe_that_is_not_known_is_newer_or_unknown() {
        let [later] = hashed([LATER], "{}");
        let [first] = hashed([FIRST], "{}");
        let by = |recipes: &[Recipe], bytes: &[u8]| StoredFingerprint::by(recipes, bytes);
        assert_eq!(by(&[FIRST], &later.encode()), Err(NoFingerprint::Newer(2)));
        assert_eq!(by(&[LATER], &first.encode()), Err(NoFingerprint::Unknown));
        for bytes in [&[][..], &[1], &[2; 32], &[1; 34]] {
            assert_eq!(by(&[FIRST], bytes), Err(NoFingerprint::Unknown), "{bytes:?}");
        }
        assert_eq!(by(&[FIRST], &first.encode()), Ok(first));
    }
}
