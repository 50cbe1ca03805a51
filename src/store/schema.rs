//! The names that a table gives to the key of a record and to its TTL attribute.

use std::borrow::Cow;

use crate::error::{Error, ErrorKind};
use crate::store::attribute;
use crate::store::key::{MAX_PARTITION_KEY_BYTES, MAX_SORT_KEY_BYTES};

/// The names of the table's key and of its TTL attribute. By default these are `pk` and `expires_at`. The
/// other attributes of a record have fixed names, which are in `docs/protocol.md`.
///
/// ```
/// use dynamodb_idempotency::TableSchema;
///
/// // A table shared with others: partition key `PK` of one fixed value, sort key `SK`.
/// let schema = TableSchema::default()
///     .composite_key("PK", "IDEMPOTENCY", "SK")
///     .ttl_attribute("ttl");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// The attribute with the record's key: the partition key, or the sort key of a composite key.
    key: Cow<'static, str>,
    /// The partition key of a composite key, and its one value for all records.
    partition: Option<(Cow<'static, str>, String)>,
    ttl: Cow<'static, str>,
}

impl Default for TableSchema {
    fn default() -> Self {
        Self { key: "pk".into(), partition: None, ttl: "expires_at".into() }
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

    /// Sets the name of the table's TTL attribute, which holds the time when a record expires. Default:
    /// `expires_at`.
    ///
    /// Set it before the first record is written. A record without this attribute is an error:
    /// [`ErrorKind::UnknownRecord`](crate::ErrorKind::UnknownRecord).
    ///
    /// ```
    /// use dynamodb_idempotency::TableSchema;
    ///
    /// let schema = TableSchema::default().ttl_attribute("ttl");
    /// ```
    #[must_use]
    pub fn ttl_attribute(self, name: impl Into<Cow<'static, str>>) -> Self {
        Self { ttl: name.into(), ..self }
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

    /// The name of the TTL attribute.
    #[doc(hidden)]
    #[must_use]
    pub fn ttl_name(&self) -> &str {
        &self.ttl
    }

    /// The longest value that the attribute with the record's key can hold, in bytes.
    pub(crate) fn max_key_bytes(&self) -> usize {
        if self.partition.is_some() { MAX_SORT_KEY_BYTES } else { MAX_PARTITION_KEY_BYTES }
    }

    pub(crate) fn validate(&self) -> Result<(), Error> {
        if self.partition().is_some_and(|(_, value)| value.is_empty()) {
            return Err(invalid("the fixed value of the partition key is empty"));
        }
        let mut names = attribute::ALL.to_vec();
        names.push(self.ttl_name());
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
    fn names_must_be_distinct_and_valid() {
        let schema = TableSchema::default;
        assert!(schema().validate().is_ok());
        assert!(schema().composite_key("PK", "I", "SK").validate().is_ok());
        assert!(schema().partition_key("expires_at").ttl_attribute("ttl").validate().is_ok());
        for wrong in [
            schema().ttl_attribute("status"),
            schema().ttl_attribute("pk"),
            schema().partition_key("status"),
            schema().partition_key(""),
            schema().composite_key("k", "I", "k"),
            schema().composite_key("PK", "", "SK"),
            schema().ttl_attribute("t".repeat(256)),
        ] {
            assert_eq!(wrong.validate().unwrap_err().kind(), ErrorKind::Configuration);
        }
    }
}
