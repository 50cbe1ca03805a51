//! The key of a record: the scope of an operation, the caller's key, and the `pk` that joins both.
//!
//! `pk = scope '#' key`. A scope is one or more segments (operation, version, region …) joined by
//! `/`. In each segment `%`, `#` and `/` are percent-encoded, so the first `#` of a `pk` always
//! ends the scope, and two different (scope, key) pairs never share a `pk`. A tenant follows a
//! segment `%t`, which no other segment can equal.

pub(crate) mod derived;

use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind};
use crate::protocol::OwnerId;

/// Marks the next segment as a tenant. The user's `%` is encoded as `%25`, so no user's segment
/// equals this one.
const TENANT: &str = "%t";

/// DynamoDB's limit for a partition key value, in bytes of UTF-8.
///
/// Source: "Service, account, and table quotas in Amazon DynamoDB", partition key length.
pub(crate) const MAX_PARTITION_KEY_BYTES: usize = 2048;
/// DynamoDB's limit for a sort key value, in bytes of UTF-8 (same source).
pub(crate) const MAX_SORT_KEY_BYTES: usize = 1024;

/// The namespace of a key: the operation and, optionally, the tenant.
///
/// Operations, tenants or versions with different scopes never share a record, whatever their keys.
///
/// ```
/// use dynamodb_idempotency::Scope;
///
/// let scope = Scope::new("charge").segment("tenant/7");
/// assert_eq!(scope.as_str(), "charge/tenant%2F7");
/// ```
#[derive(Clone, derive_more::Debug, PartialEq, Eq, Hash)]
// Only the first segment, because a scope may contain a tenant's name.
#[debug("Scope({})", self.operation())]
pub struct Scope(String);

impl Scope {
    /// Creates a scope of one segment, usually the name of the operation.
    ///
    /// ```
    /// use dynamodb_idempotency::Scope;
    ///
    /// assert_eq!(Scope::new("charge").as_str(), "charge");
    /// assert_eq!(Scope::from("charge"), Scope::new("charge"));
    /// ```
    #[must_use]
    pub fn new(segment: &str) -> Self {
        let mut encoded = String::with_capacity(segment.len());
        escape_segment(&mut encoded, segment);
        Self(encoded)
    }

    /// Appends a segment, such as a version of the operation or a region.
    ///
    /// For a customer use [`tenant`](Self::tenant).
    ///
    /// ```
    /// use dynamodb_idempotency::Scope;
    ///
    /// assert_eq!(Scope::new("charge").segment("eu").segment("v2").as_str(), "charge/eu/v2");
    /// ```
    #[must_use]
    pub fn segment(mut self, segment: &str) -> Self {
        self.0.push('/');
        escape_segment(&mut self.0, segment);
        self
    }

    /// Appends the tenant that the keys belong to.
    ///
    /// It is marked as a tenant, so the tenant `v2` differs from the segment `v2`.
    /// [`Http::tenant`](crate::http::Http::tenant) appends the tenant that it finds.
    ///
    /// ```
    /// use dynamodb_idempotency::Scope;
    ///
    /// let scope = Scope::new("charge").tenant("acme/eu");
    /// assert_eq!(scope.as_str(), "charge/%t/acme%2Feu");
    /// assert_ne!(scope, Scope::new("charge").segment("acme/eu"));
    /// ```
    #[must_use]
    pub fn tenant(mut self, tenant: &str) -> Self {
        self.0.push('/');
        self.0.push_str(TENANT);
        self.segment(tenant)
    }

    /// Returns the encoded scope: the part of the record's key before the `#`.
    ///
    /// ```
    /// use dynamodb_idempotency::Scope;
    ///
    /// assert_eq!(Scope::new("charge").segment("tenant/7").as_str(), "charge/tenant%2F7");
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses an encoded scope: the form of [`as_str`](Self::as_str), which tables and logs show.
    ///
    /// ```
    /// use dynamodb_idempotency::Scope;
    ///
    /// let scope = Scope::from_encoded("charge/tenant%2F7")?;
    /// assert_eq!(scope, Scope::new("charge").segment("tenant/7"));
    /// # Ok::<_, dynamodb_idempotency::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the text is not an encoded scope: it has no operation, has a
    /// `#`, has a `%` outside of `%25`, `%23`, `%2F` and a segment `%t`, or has a segment `%t`
    /// without a tenant.
    pub fn from_encoded(encoded: &str) -> Result<Self, Error> {
        let scope = Self(encoded.to_owned());
        let mut segments = encoded.split('/');
        let mut is_valid = scope.check().is_ok() && segments.next().is_some_and(is_escaped);
        while let Some(segment) = segments.next() {
            let named = if segment == TENANT { segments.next() } else { Some(segment) };
            is_valid &= named.is_some_and(is_escaped);
        }
        if !is_valid {
            let message = format!(
                "`{encoded}` is not an encoded scope: segments are joined by `/`, in each of them `%`, \
                 `#` and `/` are written `%25`, `%23` and `%2F`, and a tenant follows a segment `%t`"
            );
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(scope)
    }
}

impl From<&str> for Scope {
    fn from(segment: &str) -> Self {
        Self::new(segment)
    }
}

impl From<String> for Scope {
    fn from(segment: String) -> Self {
        Self::new(&segment)
    }
}

impl Scope {
    /// The first segment, which is safe to log.
    pub(crate) fn operation(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    fn check(&self) -> Result<(), Error> {
        if self.operation().is_empty() {
            let message = "the scope is empty: name the operation";
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        // Otherwise all calls whose tenant is the empty text would share one scope.
        let mut segments = self.0.split('/');
        while segments.any(|segment| segment == TENANT) {
            if segments.next() == Some("") {
                let message = "the tenant of the scope has no name";
                return Err(Error::new(ErrorKind::InvalidInput, message));
            }
        }
        Ok(())
    }
}

/// How the caller's key is stored in the record's key.
///
/// Change it only together with the scope: a record that was written in one form is not found in
/// the other.
///
/// ```
/// # fn example(idempotency: &dynamodb_idempotency::Idempotency) -> Result<(), dynamodb_idempotency::Error> {
/// use dynamodb_idempotency::policy::KeyForm;
///
/// // An e-mail address must not appear in the table's keys.
/// let operation = idempotency
///     .operation("sign-up")
///     .policy(|policy| policy.key_form(KeyForm::Sha256))?
///     .key("ada@example.com")
///     .no_payload();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyForm {
    /// Unchanged, readable in the DynamoDB console. The default.
    #[default]
    Verbatim,
    /// The SHA-256 of the key in lower-case hex: always 64 bytes, without personal data.
    Sha256,
}

/// The value of the record's key attribute: `scope#key`.
#[derive(Clone, derive_more::Debug, PartialEq, Eq, Hash)]
// Without the key, which belongs to the caller.
#[debug("RecordKey({}#…)", self.operation())]
pub(crate) struct RecordKey {
    pk: String,
    scope_len: usize,
}

impl RecordKey {
    /// Joins scope and key. `max_bytes` is the limit of the key attribute.
    pub(crate) fn new(
        scope: &Scope,
        key: &str,
        form: KeyForm,
        max_bytes: usize,
    ) -> Result<Self, Error> {
        scope.check()?;
        if key.is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "the idempotency key is empty"));
        }
        let mut pk = String::with_capacity(scope.0.len() + 1 + key.len());
        pk.push_str(&scope.0);
        pk.push('#');
        match form {
            KeyForm::Verbatim => pk.push_str(key),
            KeyForm::Sha256 => pk.push_str(&hex::encode(Sha256::digest(key.as_bytes()))),
        }
        if pk.len() > max_bytes {
            let message = format!(
                "scope and idempotency key are {} bytes together, DynamoDB's limit is {max_bytes}: \
                 shorten them or use KeyForm::Sha256",
                pk.len()
            );
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(Self { pk, scope_len: scope.0.len() })
    }

    /// Returns the key of this scope for probes: no record has it, because a caller's key is never empty.
    pub(crate) fn probe(scope: &Scope) -> Result<Self, Error> {
        scope.check()?;
        Ok(Self { pk: format!("{}#", scope.0), scope_len: scope.0.len() })
    }

    /// Parses the key of one of the crate's items, a record or a part of an answer. `None` if it is
    /// the key of another item.
    #[cfg(feature = "admin")]
    pub(crate) fn of_item(pk: &str) -> Option<Self> {
        let (scope, key) = pk.split_once('#')?;
        let of_item = Self { pk: pk.to_owned(), scope_len: scope.len() };
        let is_record = || Scope::from_encoded(scope).is_ok() && !key.is_empty();
        (of_item.is_of_part() || is_record()).then_some(of_item)
    }

    /// Returns the key of the part of an answer that `name` identifies:
    /// `scope/%p/owner#digest/number`.
    ///
    /// No user's scope has a segment `%p`, because a user's `%` is encoded. So no record has such a
    /// key. A role whose `dynamodb:LeadingKeys` contain `scope/*#*` may use this key. `None` if the key
    /// is longer than `max_bytes`.
    pub(crate) fn part(&self, name: &PartName<'_>, max_bytes: usize) -> Option<Self> {
        let PartName { owner, digest, number } = *name;
        let scope = format!("{}/%p/{owner}", self.scope());
        let pk = format!("{scope}#{}/{number}", hex::encode(digest));
        (pk.len() <= max_bytes).then_some(Self { pk, scope_len: scope.len() })
    }

    /// Returns the key of the item of a step's result: `scope/%p/hash#digest`, with the first 16 bytes of the
    /// SHA-256 of the name's length, the step's name and the record's key. `digest` identifies the result. `None`
    /// if the key is longer than `max_bytes`.
    pub(crate) fn step_item(&self, name: &str, digest: [u8; 8], max_bytes: usize) -> Option<Self> {
        let length = (name.len() as u64).to_be_bytes();
        let hash = Sha256::new().chain_update(length).chain_update(name).chain_update(&self.pk);
        let scope = format!("{}/%p/{}", self.scope(), hex::encode(&hash.finalize()[..16]));
        let pk = format!("{scope}#{}", hex::encode(digest));
        (pk.len() <= max_bytes).then_some(Self { pk, scope_len: scope.len() })
    }

    /// Returns the length of the longest key of a part of an answer.
    pub(crate) const fn longest_part(&self) -> usize {
        let [digest, number] = [16, "/4294967295".len()];
        self.scope_len + "/%p/".len() + OwnerId::TEXT_LENGTH + "#".len() + digest + number
    }

    /// Returns whether this is the key of a part of an answer, or of a step's item.
    #[cfg(feature = "admin")]
    pub(crate) fn is_of_part(&self) -> bool {
        self.scope().contains("/%p/")
    }

    /// The caller's key, in its stored form.
    #[cfg(feature = "admin")]
    pub(crate) fn key(&self) -> &str {
        &self.pk[self.scope_len + 1..]
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.pk
    }

    /// The encoded scope.
    pub(crate) fn scope(&self) -> &str {
        &self.pk[..self.scope_len]
    }

    /// The operation's name for logs, without tenant and key.
    pub(crate) fn operation(&self) -> &str {
        self.scope().split('/').next().unwrap_or_default()
    }
}

/// The name of a part of an answer within its scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartName<'a> {
    pub(crate) owner: OwnerId,
    pub(crate) digest: &'a [u8],
    pub(crate) number: u32,
}

/// Returns whether the text is an escaped segment.
fn is_escaped(segment: &str) -> bool {
    let is_escape = |after: &str| ["25", "23", "2F"].iter().any(|code| after.starts_with(code));
    !segment.contains('#') && segment.split('%').skip(1).all(is_escape)
}

fn escape_segment(into: &mut String, segment: &str) {
    for c in segment.chars() {
        match c {
            '%' => into.push_str("%25"),
            '#' => into.push_str("%23"),
            '/' => into.push_str("%2F"),
            other => into.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pk(scope: &Scope, key: &str) -> String {
        RecordKey::new(scope, key, KeyForm::Verbatim, usize::MAX).unwrap().as_str().to_owned()
    }

    #[test]
    fn segments_are_encoded_and_the_key_is_verbatim() {
        let scope = Scope::new("charge#1").segment("a/b%").segment("v2");
        assert_eq!(pk(&scope, "k#/%é\"'"), "charge%231/a%2Fb%25/v2#k#/%é\"'");
    }

    #[test]
    fn an_invalid_encoded_scope_is_rejected() {
        let marks = ["%t", "%t/a", "a/%t", "a/%t/%t", "a/%t/b/%t", "a/%tb/c", "a/b%t/c"];
        let others = ["", "/a", "a#b", "a%", "a%2", "a%2f", "a%20b", "100%/day", "a/%p/5f"];
        for wrong in marks.into_iter().chain(others) {
            let error = Scope::from_encoded(wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
        }
    }

    #[test]
    fn neighboring_scopes_and_keys_do_not_collide() {
        let pairs = [
            (Scope::new("a"), "b#c"),
            (Scope::new("a#b"), "c"),
            (Scope::new("a").segment("b"), "c"),
            (Scope::new("a/b"), "c"),
            (Scope::new("a%2Fb"), "c"),
            (Scope::new("a").segment(""), "b#c"),
            (Scope::new("a%23b"), "c"),
            (Scope::new("a").tenant("b"), "c"),
            (Scope::new("a").segment("%t").segment("b"), "c"),
            (Scope::new("a").segment("").segment("b"), "c"),
            (Scope::new("a").tenant("b").tenant("c"), "c"),
        ];
        let mut seen: Vec<String> = pairs.iter().map(|(scope, key)| pk(scope, key)).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), pairs.len());
    }

    #[test]
    fn sha256_form_is_hex_of_the_key() {
        let key = RecordKey::new(&"s".into(), "abc", KeyForm::Sha256, 100).unwrap();
        assert_eq!(
            key.as_str(),
            "s#ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn limits_count_bytes_and_name_the_fix() {
        let scope = Scope::new("s");
        let fits = "é".repeat((MAX_PARTITION_KEY_BYTES - 2) / 2);
        assert!(RecordKey::new(&scope, &fits, KeyForm::Verbatim, MAX_PARTITION_KEY_BYTES).is_ok());
        let error =
            RecordKey::new(&scope, &(fits + "é"), KeyForm::Verbatim, MAX_PARTITION_KEY_BYTES)
                .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("KeyForm::Sha256"), "{error}");
    }

    #[test]
    fn an_empty_key_and_an_empty_operation_are_rejected() {
        assert!(RecordKey::new(&"s".into(), "", KeyForm::Verbatim, 100).is_err());
        assert!(RecordKey::new(&"".into(), "k", KeyForm::Verbatim, 100).is_err());
    }

    #[test]
    fn keys_of_parts_are_inside_their_scope_and_equal_no_record() {
        let scope = Scope::new("charge").tenant("tenant/7");
        let key = RecordKey::new(&scope, "k#1", KeyForm::Verbatim, 100).unwrap();
        let name = PartName { owner: OwnerId(0x5f), digest: &[0xab, 0x01], number: 12 };
        let part = key.part(&name, 100).unwrap();
        assert_eq!(
            part.as_str(),
            "charge/%t/tenant%2F7/%p/0000000000000000000000000000005f#ab01/12"
        );
        assert_eq!(part.operation(), "charge");
        assert!(key.part(&name, part.as_str().len() - 1).is_none());
        let longest = PartName { owner: OwnerId(0x5f), digest: &[0xab; 8], number: u32::MAX };
        let longest = key.part(&longest, 100).unwrap();
        assert_eq!(longest.as_str().len(), key.longest_part());
        // The most similar segment that a user can choose.
        for segment in ["%p", "%p/5f", "p"] {
            let scope = scope.clone().segment(segment).segment("5f");
            assert_ne!(pk(&scope, "ab01/12"), part.as_str());
        }
    }

    #[test]
    fn keys_of_step_items_differ_by_record_step_and_result() {
        let scope = Scope::new("charge").tenant("7");
        let of = |key: &str, name: &str, digest: u8| {
            let key = RecordKey::new(&scope, key, KeyForm::Verbatim, 100).unwrap();
            key.step_item(name, [digest; 8], 100).unwrap().as_str().to_owned()
        };
        let keys = [of("k", "ab", 1), of("k", "ab", 2), of("k", "a", 1), of("bk", "a", 1)];
        let (hash, digest) = keys[0].split_once('#').unwrap();
        assert_eq!((hash.len(), digest), ("charge/%t/7/%p/".len() + 32, "0101010101010101"));
        assert!(hash.starts_with("charge/%t/7/%p/"));
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        let key = RecordKey::new(&scope, "k", KeyForm::Verbatim, 100).unwrap();
        assert!(key.step_item("ab", [1; 8], keys[0].len() - 1).is_none());
    }

    #[test]
    fn debug_shows_neither_key_nor_tenant() {
        let scope = Scope::new("charge").tenant("tenant-7");
        let key = RecordKey::new(&scope, "secret", KeyForm::Verbatim, 100).unwrap();
        assert_eq!(format!("{key:?} {scope:?}"), "RecordKey(charge#…) Scope(charge)");
    }

    proptest! {
        #[test]
        fn pk_is_injective(
            a in prop::collection::vec((any::<bool>(), "[abpt/#%é]{0,3}"), 0..3),
            b in prop::collection::vec((any::<bool>(), "[abpt/#%é]{0,3}"), 0..3),
            oa in "[abt/#%]{1,3}", ka in "[ab/#%]{1,4}", ob in "[abt/#%]{1,3}", kb in "[ab/#%]{1,4}",
        ) {
            let scope = |operation: &str, segments: &[(bool, String)]| {
                segments.iter().fold(Scope::new(operation), |scope, (is_tenant, name)| {
                    if *is_tenant { scope.tenant(name) } else { scope.segment(name) }
                })
            };
            prop_assume!(!a.iter().chain(&b).any(|(is_tenant, name)| *is_tenant && name.is_empty()));
            let (one, other) = (scope(&oa, &a), scope(&ob, &b));
            prop_assert_eq!(&Scope::from_encoded(one.as_str()).unwrap(), &one);
            let same = pk(&one, &ka) == pk(&other, &kb);
            prop_assert_eq!(same, oa == ob && a == b && ka == kb);
        }
    }
}
