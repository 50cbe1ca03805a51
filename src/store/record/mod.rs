//! The record: one item for each key.
//!
//! See `docs/protocol.md` for the table of attributes. Reading is strict: an item that is not a
//! record of a layout that this version knows is an error, never a guess.
//!
//! Items are read and written by hand instead of by `serde_dynamo` (4.3). Its errors do not name the
//! attribute, which a [`TableSchema`] may have renamed, and it does not return the attributes that
//! are left over, in which steps under another name are found. What depends on the status, the
//! recipe or the owner would stay hand-written, so the code would not become shorter.

mod owner;
mod stored_steps;

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

pub(crate) use self::owner::random_owner;
#[cfg(feature = "admin")]
pub(crate) use self::stored_steps::NoResult;
pub(crate) use self::stored_steps::{StoredStep, StoredSteps};
use crate::answer::Stored;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::{Fingerprint, NoFingerprint, StoredFingerprint};
#[cfg(any(feature = "admin", feature = "fuzzing", test))]
pub(crate) use crate::protocol::Version;
pub(crate) use crate::protocol::{Header, OwnerId, State};
use crate::store::key::RecordKey;
use crate::store::schema::{Attribute, Keys, TableSchema};

pub(crate) type Item = HashMap<String, AttributeValue>;

/// The layout that this version writes.
const FORMAT: &str = "1";

/// DynamoDB's limit for an item: names and values together, in bytes.
pub(crate) const MAX_ITEM_BYTES: usize = 400 * 1024;

/// A record that was read from the table.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) owner: OwnerId,
    pub(crate) state: State,
    pub(crate) attempt: u32,
    pub(crate) fingerprint: StoredFingerprint,
    pub(crate) created_at: Timestamp,
    pub(crate) completed_at: Option<Timestamp>,
    /// In seconds since 1970.
    pub(crate) expires_at: i64,
    /// Present in a COMPLETED record, and in a FAILED one whose failure can be replayed.
    pub(crate) answer: Option<Stored>,
    /// The outcomes of the operation's steps; `None` if no step was ever stored.
    pub(crate) steps: Option<StoredSteps>,
    /// How many of the attempts were released or undone, and do not count for `max_attempts`.
    pub(crate) released_attempts: u32,
}

impl Record {
    /// Returns the protocol's view of the record, for a call with this fingerprint.
    pub(crate) fn header(&self, request: &Fingerprint) -> Header {
        Header {
            owner: self.owner,
            state: self.state,
            attempt: self.attempt,
            released_attempts: self.released_attempts,
            created_at: self.created_at,
            completed_at: self.completed_at,
            expires_at: self.expires_at,
            steps: self.steps.as_ref().map(StoredSteps::count),
            is_same_request: request.matches(&self.fingerprint),
        }
    }

    #[cfg(any(feature = "admin", feature = "fuzzing", test))]
    pub(crate) fn version(&self) -> Version {
        let steps = self.steps.as_ref().map(StoredSteps::count);
        Version::new(self.owner, self.state, steps, (self.attempt, self.expires_at))
    }

    /// Decodes an item that was read under a key of the crate.
    pub(crate) fn decode(schema: &TableSchema, item: Item) -> Result<Self, Error> {
        let mut fields = Fields { schema, item };
        match fields.take(Attribute::Format) {
            Some(AttributeValue::N(format)) if format == FORMAT => {}
            Some(AttributeValue::N(format)) => {
                let found = format!("the record has format {format}");
                return Err(match (format.parse::<u64>(), FORMAT.parse::<u64>()) {
                    (Ok(found_format), Ok(own)) if found_format > own => newer(&found),
                    _ => unknown(format!("{found}, this version reads format {FORMAT}")),
                });
            }
            _ => {
                return Err(unknown(format!(
                    "the item under this key has no numeric `{}`: it is not a record of this \
                     crate",
                    schema.name(Attribute::Format)
                )));
            }
        }
        let owner = OwnerId::parse(&fields.string(Attribute::Owner)?).ok_or_else(|| {
            unknown(format!(
                "the record's `{}` is not 32 lowercase hex digits",
                schema.name(Attribute::Owner)
            ))
        })?;
        let state = fields.state()?;
        let record = Self {
            answer: fields.answer_in(state, &owner)?,
            state,
            owner,
            attempt: fields.number(Attribute::Attempt)?,
            fingerprint: fields.fingerprint()?,
            created_at: fields.timestamp(Attribute::CreatedAt)?,
            completed_at: fields.timestamp(Attribute::CompletedAt).ok(),
            expires_at: fields.number(Attribute::ExpiresAt)?,
            steps: fields.steps()?,
            released_attempts: fields.released_attempts()?,
        };
        fields.check_steps_under_another_name(state)?;
        Ok(record)
    }
}

fn unknown(message: String) -> Error {
    Error::new(ErrorKind::UnknownRecord, message)
}

fn newer(found: &str) -> Error {
    let message =
        format!("{found}, which a newer version writes: finish rolling the newer version out");
    Error::new(ErrorKind::NewerRecord, message)
}

/// An item that is being decoded.
struct Fields<'a> {
    schema: &'a TableSchema,
    item: Item,
}

impl Fields<'_> {
    fn take(&mut self, attribute: Attribute) -> Option<AttributeValue> {
        self.item.remove(self.schema.name(attribute))
    }

    fn corrupt(&self, attribute: Attribute, should: &str) -> Error {
        let name = self.schema.name(attribute);
        unknown(format!("the record is corrupt: its attribute `{name}` should be {should}"))
    }

    fn string(&mut self, attribute: Attribute) -> Result<String, Error> {
        match self.take(attribute) {
            Some(AttributeValue::S(text)) if !text.is_empty() => Ok(text),
            _ => Err(self.corrupt(attribute, "a string")),
        }
    }

    fn number<T: std::str::FromStr>(&mut self, attribute: Attribute) -> Result<T, Error> {
        match self.take(attribute) {
            Some(AttributeValue::N(number)) => {
                number.parse().map_err(|_| self.corrupt(attribute, "a whole number"))
            }
            _ => Err(self.corrupt(attribute, "a whole number")),
        }
    }

    fn released_attempts(&mut self) -> Result<u32, Error> {
        let is_there = self.item.contains_key(self.schema.name(Attribute::ReleasedAttempts));
        if is_there { self.number(Attribute::ReleasedAttempts) } else { Ok(0) }
    }

    fn timestamp(&mut self, attribute: Attribute) -> Result<Timestamp, Error> {
        self.number(attribute).map(Timestamp::from_millis)
    }

    fn fingerprint(&mut self) -> Result<StoredFingerprint, Error> {
        let found = match self.take(Attribute::Fingerprint) {
            Some(AttributeValue::B(bytes)) => StoredFingerprint::decode(bytes.as_ref()),
            _ => Err(NoFingerprint::Unknown),
        };
        found.map_err(|no_fingerprint| match no_fingerprint {
            NoFingerprint::Newer(recipe) => {
                newer(&format!("the record's fingerprint is of recipe {recipe}"))
            }
            NoFingerprint::Unknown => {
                self.corrupt(Attribute::Fingerprint, "a known recipe's number and 32 bytes")
            }
        })
    }

    fn steps(&mut self) -> Result<Option<StoredSteps>, Error> {
        match self.take(Attribute::Steps) {
            None => Ok(None),
            Some(steps) => StoredSteps::decode(steps)
                .map(Some)
                .ok_or_else(|| self.corrupt(Attribute::Steps, "a map of texts")),
        }
    }

    /// Detects steps that a program with another [`TableSchema`] stored. Steps under an unknown
    /// name would run again. Call it after all known attributes are decoded.
    fn check_steps_under_another_name(&self, state: State) -> Result<(), Error> {
        if !matches!(state, State::Pending { .. } | State::Failed) {
            return Ok(());
        }
        let holds_steps = |value: &AttributeValue| {
            let map = value.as_m().ok().filter(|map| !map.is_empty());
            map.is_some_and(|map| StoredSteps::decode(AttributeValue::M(map.clone())).is_some())
        };
        let Some((name, _)) = self.item.iter().find(|(_, value)| holds_steps(value)) else {
            return Ok(());
        };
        let ours = self.schema.name(Attribute::Steps);
        Err(unknown(format!(
            "the record has results of steps in the attribute `{name}`, which the TableSchema calls \
             `{ours}`: nothing runs, since the steps would run again. Give Attribute::Steps the name \
             `{name}`, or use a new scope"
        )))
    }

    fn state(&mut self) -> Result<State, Error> {
        match self.string(Attribute::Status)?.as_str() {
            "PENDING" => {
                Ok(State::Pending { lease_expires_at: self.timestamp(Attribute::LeaseExpiresAt)? })
            }
            "COMPLETED" => Ok(State::Completed),
            "FAILED" => Ok(State::Failed),
            "RELEASED" => Ok(State::Released),
            _ => Err(self.corrupt(Attribute::Status, "PENDING, COMPLETED, FAILED or RELEASED")),
        }
    }

    fn answer_in(&mut self, state: State, owner: &OwnerId) -> Result<Option<Stored>, Error> {
        match (state, self.take(Attribute::Response)) {
            (State::Completed | State::Failed, Some(response)) => Stored::decode(response, owner)
                .map(Some)
                .ok_or_else(|| self.corrupt(Attribute::Response, "an answer of a known shape")),
            (State::Completed, None) => Err(self.corrupt(Attribute::Response, "present")),
            (State::Failed, None) | (State::Pending { .. } | State::Released, _) => Ok(None),
        }
    }
}

/// What an owner knows of its record, which is enough to write all of it again.
#[derive(Clone, Debug)]
pub(crate) struct OwnRecord {
    pub(crate) key: RecordKey,
    pub(crate) owner: OwnerId,
    pub(crate) attempt: u32,
    pub(crate) fingerprint: StoredFingerprint,
    pub(crate) created_at: Timestamp,
}

#[cfg(feature = "testing")]
impl OwnRecord {
    /// Creates a new owner. Its attempt is 1 unless a record changes that.
    pub(crate) fn first(
        key: RecordKey,
        fingerprint: Fingerprint,
        created_at: Timestamp,
    ) -> Result<Self, Error> {
        let fingerprint = fingerprint.to_store();
        Ok(Self { key, owner: random_owner()?, attempt: 1, fingerprint, created_at })
    }
}

/// The size limit of a failed record without its steps and its failure, in bytes.
pub(crate) const FAILED_BYTES: usize = 8 * 1024;

/// Returns the complete item of a record, with its answer if it is finished.
pub(crate) fn item(
    schema: &TableSchema,
    (key, fingerprint): (&RecordKey, &StoredFingerprint),
    header: &Header,
    response: Option<AttributeValue>,
) -> Item {
    let mut item = key_item(schema, key);
    for (attribute, value) in [
        (Attribute::Status, AttributeValue::S(header.state.status().as_str().to_owned())),
        (Attribute::Owner, AttributeValue::S(header.owner.to_string())),
        (Attribute::Attempt, number(header.attempt)),
        (Attribute::Fingerprint, AttributeValue::B(Blob::new(fingerprint.encode()))),
        (Attribute::CreatedAt, number(header.created_at.millis())),
        (Attribute::ExpiresAt, number(header.expires_at)),
        (Attribute::Format, format()),
    ] {
        set(&mut item, schema, attribute, value);
    }
    let finished = header.completed_at.map(|at| (Attribute::CompletedAt, at));
    let lease = header.state.lease_expires_at().map(|at| (Attribute::LeaseExpiresAt, at));
    for (attribute, at) in finished.into_iter().chain(lease) {
        set(&mut item, schema, attribute, number(at.millis()));
    }
    if header.released_attempts > 0 && header.state != State::Completed {
        set(&mut item, schema, Attribute::ReleasedAttempts, number(header.released_attempts));
    }
    if let Some(response) = response {
        set(&mut item, schema, Attribute::Response, response);
    }
    item
}

/// Returns the item of a new owner.
#[cfg(any(feature = "testing", test))]
pub(crate) fn pending_item(
    schema: &TableSchema,
    own_record: &OwnRecord,
    lease_expires_at: Timestamp,
    expires_at: i64,
) -> Item {
    own_record.item(schema, State::Pending { lease_expires_at }, None, expires_at, None)
}

/// Returns the complete item of a finished operation. It can be written even if the pending record
/// no longer exists.
pub(crate) fn completed_item(
    schema: &TableSchema,
    own_record: &OwnRecord,
    completed_at: Timestamp,
    expires_at: i64,
    response: AttributeValue,
) -> Item {
    own_record.item(schema, State::Completed, Some(completed_at), expires_at, Some(response))
}

impl OwnRecord {
    fn item(
        &self,
        schema: &TableSchema,
        state: State,
        completed_at: Option<Timestamp>,
        expires_at: i64,
        response: Option<AttributeValue>,
    ) -> Item {
        let header = Header {
            owner: self.owner,
            state,
            attempt: self.attempt,
            released_attempts: 0,
            created_at: self.created_at,
            completed_at,
            expires_at,
            steps: None,
            is_same_request: true,
        };
        item(schema, (&self.key, &self.fingerprint), &header, response)
    }
}

/// Returns the item of a part of an answer. It has no status, so it is never decoded as a record.
pub(crate) fn part_item(
    schema: &TableSchema,
    key: &RecordKey,
    owner: &OwnerId,
    expires_at: i64,
    bytes: AttributeValue,
) -> Item {
    let mut item = key_item(schema, key);
    for (attribute, value) in [
        (Attribute::Owner, AttributeValue::S(owner.to_string())),
        (Attribute::ExpiresAt, number(expires_at)),
        (Attribute::Format, format()),
        (Attribute::Response, bytes),
    ] {
        set(&mut item, schema, attribute, value);
    }
    item
}

/// Returns when a part of an answer expires, in seconds since 1970.
///
/// # Errors
/// [`ErrorKind::UnknownRecord`] if the item is not a part that this version knows.
#[cfg_attr(not(feature = "admin"), expect(dead_code, reason = "only tools find parts"))]
pub(crate) fn part_expires_at(schema: &TableSchema, item: &Item) -> Result<i64, Error> {
    let of = |attribute| item.get(schema.name(attribute));
    let is_known = of(Attribute::Format) == Some(&format()) && of(Attribute::Status).is_none();
    let expires_at = of(Attribute::ExpiresAt).and_then(|at| at.as_n().ok()?.parse().ok());
    expires_at
        .filter(|_| is_known)
        .ok_or_else(|| unknown("the item is not a part of an answer".to_owned()))
}

/// An item that was read under the key of a part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Bytes(Vec<u8>),
    /// The item is not a part of this owner's answer.
    Foreign,
}

impl Part {
    pub(crate) fn decode(schema: &TableSchema, item: Item, owner: &OwnerId) -> Self {
        let mut fields = Fields { schema, item };
        let is_known = fields.take(Attribute::Format) == Some(format());
        let is_record = fields.take(Attribute::Status).is_some();
        let is_owners =
            fields.string(Attribute::Owner).is_ok_and(|found| found == owner.to_string());
        match fields.take(Attribute::Response) {
            Some(AttributeValue::B(bytes)) if is_known && is_owners && !is_record => {
                Self::Bytes(bytes.into_inner())
            }
            _ => Self::Foreign,
        }
    }
}

/// The attributes of the item's key.
pub(crate) fn key_item(schema: &TableSchema, key: &RecordKey) -> Item {
    let mut item = Item::with_capacity(12);
    let own = AttributeValue::S(key.as_str().to_owned());
    match schema.keys() {
        Keys::Partition { name } => {
            item.insert(name.to_string(), own);
        }
        Keys::Composite { partition, value, sort } => {
            item.insert(partition.to_string(), AttributeValue::S(value.clone()));
            item.insert(sort.to_string(), own);
        }
    }
    item
}

fn set(item: &mut Item, schema: &TableSchema, attribute: Attribute, value: AttributeValue) {
    item.insert(schema.name(attribute).to_owned(), value);
}

/// The format that this version writes.
pub(crate) fn format() -> AttributeValue {
    AttributeValue::N(FORMAT.to_owned())
}

pub(crate) fn number(value: impl Into<i64>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

/// An upper bound of the bytes that DynamoDB counts for an item ("DynamoDB item sizes and formats"
/// in its developer guide).
pub(crate) fn item_bytes(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

/// The [`item_bytes`] of a [`completed_item`] with a one-byte answer.
pub(crate) fn completed_bytes(
    schema: &TableSchema,
    own_record: &OwnRecord,
    completed_at: Timestamp,
    expires_at: i64,
) -> usize {
    let response = AttributeValue::Null(true);
    item_bytes(&completed_item(schema, own_record, completed_at, expires_at, response))
}

pub(crate) fn value_bytes(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        // One byte for every two digits, one byte of overhead, and one for a sign; at most 21.
        AttributeValue::N(digits) => (digits.len().div_ceil(2) + 2).min(21),
        AttributeValue::M(fields) => 3 + fields.len() + item_bytes(fields),
        AttributeValue::L(values) => {
            3 + values.iter().map(|value| 1 + value_bytes(value)).sum::<usize>()
        }
        // The crate writes no other types. The remaining ones count one byte.
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
