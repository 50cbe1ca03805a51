//! The names that the record's attributes have in the table.

use std::borrow::Cow;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};
use crate::store::key::{MAX_PARTITION_KEY_BYTES, MAX_SORT_KEY_BYTES};

/// An attribute of the record other than its key. It can be parsed from its default name,
/// such as `expires_at`.
///
/// ```
/// use dynamodb_idempotency::{Attribute, TableSchema};
///
/// let schema = TableSchema::default().attribute(Attribute::ExpiresAt, "ttl");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attribute {
    /// `PENDING`, `COMPLETED`, `FAILED` or `RELEASED`.
    Status,
    /// The owner's id, random for each call.
    Owner,
    /// The number of the last attempt: 1, 2, …; 0 in a released record whose handler never ran.
    Attempt,
    /// The fingerprint of the request: a byte that names how it was computed, and a SHA-256.
    Fingerprint,
    /// When the owner's lease expires, in epoch milliseconds; only while `PENDING`.
    LeaseExpiresAt,
    /// When the record expires, in epoch seconds. The table's TTL attribute.
    ExpiresAt,
    /// When attempt 1 started, in epoch milliseconds; after a release, when the next attempt started.
    CreatedAt,
    /// When the operation succeeded or failed, in epoch milliseconds.
    CompletedAt,
    /// The stored answer.
    Response,
    /// Version of the record's layout.
    Format,
    /// The results of the steps that are done, until the operation completes.
    Steps,
    /// How many earlier attempts were released or undone.
    ReleasedAttempts,
}

const ALL: [(Attribute, &str, &str); 12] = [
    (Attribute::Status, "status", "#status"),
    (Attribute::Owner, "owner", "#owner"),
    (Attribute::Attempt, "attempt", "#attempt"),
    (Attribute::Fingerprint, "fingerprint", "#fingerprint"),
    (Attribute::LeaseExpiresAt, "lease_expires_at", "#lease_expires_at"),
    (Attribute::ExpiresAt, "expires_at", "#expires_at"),
    (Attribute::CreatedAt, "created_at", "#created_at"),
    (Attribute::CompletedAt, "completed_at", "#completed_at"),
    (Attribute::Response, "response", "#response"),
    (Attribute::Format, "format", "#format"),
    (Attribute::Steps, "steps", "#steps"),
    (Attribute::ReleasedAttempts, "released_attempts", "#released_attempts"),
];

/// Parses the default name.
impl FromStr for Attribute {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let known = ALL.into_iter().find(|(_, default, _)| *default == name);
        known.map(|(attribute, ..)| attribute).ok_or_else(|| {
            let names = ALL.map(|(_, default, _)| default).join(", ");
            invalid(&format!("`{name}` is not an attribute of a record: use one of {names}"))
        })
    }
}

impl Attribute {
    /// Returns the placeholder in expressions. Many default names are reserved words of DynamoDB.
    pub(crate) const fn placeholder(self) -> &'static str {
        ALL[self as usize].2
    }
}

/// The attribute names of records in the table. By default the partition key is `pk`, and the other
/// names are those in `docs/protocol.md`.
///
/// ```
/// use dynamodb_idempotency::{Attribute, TableSchema};
///
/// // A table shared with others: partition key `PK` of one fixed value, sort key `SK`.
/// let schema = TableSchema::default()
///     .composite_key("PK", "IDEMPOTENCY", "SK")
///     .attribute(Attribute::ExpiresAt, "ttl");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// The attribute with the record's key: the partition key, or the sort key of a composite key.
    key: Cow<'static, str>,
    /// The partition key of a composite key, and its one value for all records.
    partition: Option<(Cow<'static, str>, String)>,
    names: [Cow<'static, str>; ALL.len()],
}

impl Default for TableSchema {
    fn default() -> Self {
        let names = ALL.map(|(_, name, _)| Cow::Borrowed(name));
        Self { key: "pk".into(), partition: None, names }
    }
}

impl TableSchema {
    /// Sets the name of the partition key, which holds `scope#key`. Default: `pk`.
    ///
    /// ```
    /// use dynamodb_idempotency::TableSchema;
    ///
    /// let schema = TableSchema::default().partition_key("id");
    /// ```
    #[must_use]
    pub fn partition_key(self, name: impl Into<Cow<'static, str>>) -> Self {
        Self { key: name.into(), partition: None, ..self }
    }

    /// Sets a composite key, for a table that has one. The partition key `partition` always has the
    /// value `value`. The sort key `sort` holds `scope#key`, of at most 1024 bytes.
    ///
    /// All records then share one partition and its limit of 1,000 write units per second.
    ///
    /// ```
    /// use dynamodb_idempotency::TableSchema;
    ///
    /// let schema = TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK");
    /// ```
    #[must_use]
    pub fn composite_key(
        self,
        partition: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
        sort: impl Into<Cow<'static, str>>,
    ) -> Self {
        let partition = Some((partition.into(), value.into()));
        Self { key: sort.into(), partition, ..self }
    }

    /// Renames an attribute. Do this before the first record is written. Records keep the names that
    /// they were written with, and a record under other names is an error:
    /// [`ErrorKind::UnknownRecord`](crate::ErrorKind::UnknownRecord).
    ///
    /// ```
    /// use dynamodb_idempotency::{Attribute, TableSchema};
    ///
    /// let schema = TableSchema::default().attribute(Attribute::ExpiresAt, "ttl");
    /// ```
    #[must_use]
    pub fn attribute(mut self, attribute: Attribute, name: impl Into<Cow<'static, str>>) -> Self {
        self.names[attribute as usize] = name.into();
        self
    }

    /// The attribute that holds the record's key.
    pub(crate) fn key_name(&self) -> &str {
        &self.key
    }

    /// The partition key of a composite key, and its one value.
    pub(crate) fn partition(&self) -> Option<(&str, &str)> {
        self.partition.as_ref().map(|(name, value)| (name.as_ref(), value.as_str()))
    }

    /// The attributes that make up the table's key; the partition key is first.
    pub(crate) fn key_names(&self) -> impl Iterator<Item = &str> {
        self.partition().map(|(name, _)| name).into_iter().chain([self.key_name()])
    }

    /// The name of an attribute in the table.
    #[doc(hidden)]
    #[must_use]
    pub fn name(&self, attribute: Attribute) -> &str {
        &self.names[attribute as usize]
    }

    /// The longest value that the attribute with the record's key can hold, in bytes.
    pub(crate) fn max_key_bytes(&self) -> usize {
        if self.partition.is_some() { MAX_SORT_KEY_BYTES } else { MAX_PARTITION_KEY_BYTES }
    }

    pub(crate) fn validate(&self) -> Result<(), Error> {
        if self.partition().is_some_and(|(_, value)| value.is_empty()) {
            return Err(invalid("the fixed value of the partition key is empty"));
        }
        let mut names: Vec<&str> = self.names.iter().map(AsRef::as_ref).collect();
        names.extend(self.key_names());
        names.sort_unstable();
        if names.iter().any(|name| name.is_empty() || name.len() > 255) {
            return Err(invalid("an attribute name has 1 to 255 bytes"));
        }
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(invalid(&format!("two attributes are named `{}`", pair[0]))),
            None => Ok(()),
        }
    }
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::Configuration, format!("table schema: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_the_order_of_the_enum() {
        for (index, (attribute, name, placeholder)) in ALL.into_iter().enumerate() {
            assert_eq!(attribute as usize, index);
            assert_eq!(placeholder, format!("#{name}"));
            assert_eq!(TableSchema::default().name(attribute), name);
            assert_eq!(name.parse::<Attribute>().unwrap(), attribute);
        }
    }

    #[test]
    fn names_must_be_distinct_and_valid() {
        let schema = TableSchema::default;
        assert!(schema().validate().is_ok());
        assert!(schema().composite_key("PK", "I", "SK").validate().is_ok());
        for wrong in [
            schema().attribute(Attribute::Owner, "status"),
            schema().partition_key("status"),
            schema().partition_key(""),
            schema().composite_key("k", "I", "k"),
            schema().composite_key("PK", "", "SK"),
            schema().attribute(Attribute::Format, "f".repeat(256)),
        ] {
            assert_eq!(wrong.validate().unwrap_err().kind(), ErrorKind::Configuration);
        }
    }
}
