//! The record: one item for each key.
//!
//! See `docs/protocol.md` for the table of attributes. Reading is strict: an item that is not a
//! record of a layout that this version knows is an error, never a guess.
//!
//! Items are read and written by hand instead of by `serde_dynamo` (4.3), whose errors do not name the
//! attribute. What depends on the status, the recipe, the owner or the name of the TTL attribute would
//! stay hand-written, so the code would not become shorter.

mod stored_steps;

use std::collections::HashMap;
use std::str::FromStr;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

#[cfg(any(test, feature = "internals", feature = "testing"))]
pub(crate) use self::stored_steps::encode_steps;
pub(crate) use self::stored_steps::{
    ItemValue, Note, SENT, StepValue, StoredStep, StoredSteps, check_steps, decode_steps, sent_by,
    step_item_bytes, steps_bytes,
};
use crate::answer::Stored;
use crate::clock::{Timestamp, entropy};
use crate::error::{Error, ErrorKind};
use crate::fingerprint::{Fingerprint, NoFingerprint, StoredFingerprint};
#[cfg(any(feature = "admin", test))]
pub(crate) use crate::protocol::Version;
pub(crate) use crate::protocol::{OwnerId, RecordMeta, State};
use crate::store::attribute;
use crate::store::key::RecordKey;
use crate::store::schema::TableSchema;

pub(crate) type Item = HashMap<String, AttributeValue>;

/// An owner's id: 128 random bits from the operating system.
pub(crate) fn random_owner() -> Result<OwnerId, Error> {
    Ok(OwnerId(u128::from_be_bytes(entropy()?)))
}

/// The layout that this version writes.
const FORMAT: i64 = 1;

/// DynamoDB's limit for an item: names and values together, in bytes.
pub(crate) const MAX_ITEM_BYTES: usize = 400 * 1024;

/// A record that was read from the table.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Decoding compares no fingerprints, so `is_same_request` is always true here.
    pub(crate) meta: RecordMeta,
    pub(crate) fingerprint: StoredFingerprint,
    /// Present in a COMPLETED record, and in a FAILED one whose failure can be replayed.
    pub(crate) answer: Option<Stored>,
    /// The outcomes of the operation's steps; `None` if no step was ever stored.
    pub(crate) steps: Option<StoredSteps>,
}

impl Record {
    /// Returns the protocol's view of the record, for a call with this fingerprint.
    pub(crate) fn meta(&self, request: &Fingerprint) -> RecordMeta {
        RecordMeta { is_same_request: request.matches(&self.fingerprint), ..self.meta.clone() }
    }

    /// Decodes an item that was read under a key of the crate.
    pub(crate) fn decode(schema: &TableSchema, item: Item) -> Result<Self, Error> {
        let mut fields = Fields(item);
        let Some(AttributeValue::N(format)) = fields.take(attribute::FORMAT) else {
            let message =
                "the item under this key has no numeric `format`: it is not a record of this crate";
            return Err(unknown(message.to_owned()));
        };
        match format.parse() {
            Ok(FORMAT) => {}
            Ok(later) if later > FORMAT => {
                return Err(newer(&format!("the record has format {format}")));
            }
            _ => {
                let message =
                    format!("the record has format {format}, this version reads format {FORMAT}");
                return Err(unknown(message));
            }
        }
        let owner = fields.required(attribute::OWNER, "32 lowercase hex digits", |owner| {
            OwnerId::parse(owner.as_s().ok()?)
        })?;
        let (state, fingerprint) = (fields.state()?, fields.fingerprint()?);
        let should = "an answer of a known shape";
        let decode = |response| Stored::decode(response, &owner);
        let answer = match state {
            State::Completed => Some(fields.required(attribute::RESPONSE, should, decode)?),
            State::Failed => fields.optional(attribute::RESPONSE, should, decode)?,
            State::Pending { .. } | State::Released => {
                fields.take(attribute::RESPONSE);
                None
            }
        };
        let steps =
            fields.optional(attribute::STEPS, "a map of results, notes and NULL", decode_steps)?;
        let released_attempts =
            fields.optional(attribute::RELEASED_ATTEMPTS, WHOLE_NUMBER, whole_number)?;
        let meta = RecordMeta {
            owner,
            state,
            attempt: fields.number(attribute::ATTEMPT)?,
            released_attempts: released_attempts.unwrap_or_default(),
            created_at: fields.timestamp(attribute::CREATED_AT)?,
            completed_at: fields.timestamp(attribute::COMPLETED_AT).ok(),
            expires_at: fields.number(schema.ttl_name())?,
            steps: steps.as_ref().map(StoredSteps::len),
            is_same_request: true,
        };
        Ok(Self { meta, fingerprint, answer, steps })
    }
}

fn corrupt(name: &str, should: &str) -> Error {
    unknown(format!("the record is corrupt: its attribute `{name}` should be {should}"))
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
struct Fields(Item);

impl Fields {
    fn take(&mut self, name: &str) -> Option<AttributeValue> {
        self.0.remove(name)
    }

    /// Reads an attribute, which should be as `should` says.
    fn required<T>(
        &mut self,
        name: &str,
        should: &str,
        read: impl FnOnce(AttributeValue) -> Option<T>,
    ) -> Result<T, Error> {
        self.take(name).and_then(read).ok_or_else(|| corrupt(name, should))
    }

    fn optional<T>(
        &mut self,
        name: &str,
        should: &str,
        read: impl FnOnce(AttributeValue) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| corrupt(name, should))
    }

    fn number<T: FromStr>(&mut self, name: &str) -> Result<T, Error> {
        self.required(name, WHOLE_NUMBER, whole_number)
    }

    fn timestamp(&mut self, name: &str) -> Result<Timestamp, Error> {
        self.number(name).map(Timestamp::from_millis)
    }

    fn fingerprint(&mut self) -> Result<StoredFingerprint, Error> {
        let found = match self.take(attribute::FINGERPRINT) {
            Some(AttributeValue::B(bytes)) => StoredFingerprint::decode(bytes.as_ref()),
            _ => Err(NoFingerprint::Unknown),
        };
        found.map_err(|no_fingerprint| match no_fingerprint {
            NoFingerprint::Newer(recipe) => {
                newer(&format!("the record's fingerprint is of recipe {recipe}"))
            }
            NoFingerprint::Unknown => {
                corrupt(attribute::FINGERPRINT, "a known recipe's number and 32 bytes")
            }
        })
    }

    /// Whether the item has the form of a part of an answer.
    fn are_of_part(&mut self) -> bool {
        self.take(attribute::FORMAT) == Some(format()) && self.take(attribute::STATUS).is_none()
    }

    fn state(&mut self) -> Result<State, Error> {
        let status = self.take(attribute::STATUS);
        let status = status.as_ref().and_then(|status| status.as_s().ok());
        match status.map_or("", String::as_str) {
            "PENDING" => Ok(State::Pending {
                lease_expires_at: self.timestamp(attribute::LEASE_EXPIRES_AT)?,
            }),
            "COMPLETED" => Ok(State::Completed),
            "FAILED" => Ok(State::Failed),
            "RELEASED" => Ok(State::Released),
            _ => Err(corrupt(attribute::STATUS, "PENDING, COMPLETED, FAILED or RELEASED")),
        }
    }
}

/// A COMPLETED record without its answer, for its size. `created_at` and `completed_at` do not change the size.
pub(crate) const fn completed_meta(
    owner: OwnerId,
    attempt: u32,
    at: Timestamp,
    expires_at: i64,
) -> RecordMeta {
    RecordMeta {
        owner,
        state: State::Completed,
        attempt,
        released_attempts: 0,
        created_at: at,
        completed_at: Some(at),
        expires_at,
        steps: None,
        is_same_request: true,
    }
}

/// An upper bound of the size of a record without its answer.
pub(crate) fn bytes_without_answer(
    schema: &TableSchema,
    of: (&RecordKey, &StoredFingerprint),
    meta: &RecordMeta,
) -> usize {
    let one_byte = AttributeValue::Null(true);
    record_bytes(schema, of, meta, Some(one_byte))
}

/// An upper bound of the size of the [`item`] with these contents.
fn record_bytes(
    schema: &TableSchema,
    (key, fingerprint): (&RecordKey, &StoredFingerprint),
    meta: &RecordMeta,
    response: Option<AttributeValue>,
) -> usize {
    let key: usize = key_values(schema, key).map(|(name, value)| name.len() + value.len()).sum();
    let ttl = schema.ttl_name().len() + Value::Number(meta.expires_at).bytes();
    let values = values(fingerprint, meta, response);
    key + ttl + values.map(|(name, value)| name.len() + value.bytes()).sum::<usize>()
}

/// The size limit of a failed record without its steps and its failure, in bytes.
pub(crate) const FAILED_BYTES: usize = 8 * 1024;

/// Returns the complete item of a record, with its answer if it is finished.
pub(crate) fn item(
    schema: &TableSchema,
    (key, fingerprint): (&RecordKey, &StoredFingerprint),
    meta: &RecordMeta,
    response: Option<AttributeValue>,
) -> Item {
    let values = values(fingerprint, meta, response);
    let values = values.map(|(attribute, value)| (attribute, value.encode()));
    item_of(schema, key, meta.expires_at, values)
}

/// The attributes of a record, without its key and its TTL attribute.
fn values(
    fingerprint: &StoredFingerprint,
    meta: &RecordMeta,
    response: Option<AttributeValue>,
) -> impl Iterator<Item = (&'static str, Value)> {
    let state = state_values(meta, response).into_iter();
    let state = state.filter_map(|(attribute, value)| Some((attribute, value?)));
    state.chain(beginning_values(fingerprint, meta))
}

/// The value of an attribute, whose size is known before it is encoded.
pub(crate) enum Value {
    Text(&'static str),
    Owner(OwnerId),
    Number(i64),
    Fingerprint(StoredFingerprint),
    Response(AttributeValue),
}

impl Value {
    fn time(at: Timestamp) -> Self {
        Self::Number(at.millis())
    }

    /// An upper bound of its size.
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Owner(_) => OwnerId::TEXT_LENGTH,
            Self::Number(number) => {
                let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
                number_bytes(digits + usize::from(*number < 0))
            }
            Self::Fingerprint(_) => StoredFingerprint::BYTES,
            Self::Response(value) => value_bytes(value, Bound::Upper),
        }
    }

    pub(crate) fn encode(self) -> AttributeValue {
        match self {
            Self::Text(text) => AttributeValue::S(text.to_owned()),
            Self::Owner(owner) => AttributeValue::S(owner.to_string()),
            Self::Number(value) => number(value),
            Self::Fingerprint(fingerprint) => AttributeValue::B(Blob::new(fingerprint.encode())),
            Self::Response(value) => value,
        }
    }
}

/// The attributes that depend on the state of a record, without its TTL attribute. A write sets them, or
/// removes those without a value.
pub(crate) fn state_values(
    meta: &RecordMeta,
    response: Option<AttributeValue>,
) -> [(&'static str, Option<Value>); 7] {
    let released = Some(meta.released_attempts).filter(|released| *released > 0);
    [
        (attribute::STATUS, Some(Value::Text(meta.state.status().as_str()))),
        (attribute::OWNER, Some(Value::Owner(meta.owner))),
        (attribute::ATTEMPT, Some(Value::Number(meta.attempt.into()))),
        (attribute::LEASE_EXPIRES_AT, meta.state.lease_expires_at().map(Value::time)),
        (attribute::COMPLETED_AT, meta.completed_at.map(Value::time)),
        (attribute::RESPONSE, response.map(Value::Response)),
        (attribute::RELEASED_ATTEMPTS, released.map(|attempts| Value::Number(attempts.into()))),
    ]
}

/// The attributes that no update changes later.
pub(crate) fn beginning_values(
    fingerprint: &StoredFingerprint,
    meta: &RecordMeta,
) -> [(&'static str, Value); 3] {
    [
        (attribute::FINGERPRINT, Value::Fingerprint(*fingerprint)),
        (attribute::CREATED_AT, Value::time(meta.created_at)),
        (attribute::FORMAT, Value::Number(FORMAT)),
    ]
}

/// Returns the item of a part of an answer. It has no status, so it is never decoded as a record.
pub(crate) fn part_item(
    schema: &TableSchema,
    key: &RecordKey,
    owner: &OwnerId,
    expires_at: i64,
    bytes: Vec<u8>,
) -> Item {
    let values = [
        (attribute::OWNER, AttributeValue::S(owner.to_string())),
        (attribute::FORMAT, format()),
        (attribute::RESPONSE, AttributeValue::B(Blob::new(bytes))),
    ];
    item_of(schema, key, expires_at, values)
}

/// Returns the item of a step's result. Like a part, it has no status. It has no owner either, because a takeover
/// keeps the steps of earlier owners.
pub(crate) fn step_item(
    schema: &TableSchema,
    key: &RecordKey,
    expires_at: i64,
    value: &StepValue,
) -> Item {
    let values = [(attribute::FORMAT, format()), (attribute::RESPONSE, value.encode())];
    item_of(schema, key, expires_at, values)
}

/// Returns an upper bound of the size of a step's item without its value.
pub(crate) fn step_item_overhead(schema: &TableSchema, key: &RecordKey) -> usize {
    let empty = StepValue::Json(String::new());
    item_bytes(&step_item(schema, key, i64::MAX, &empty), Bound::Upper)
}

/// Returns an upper bound of the size of a PENDING record, with an empty map of steps.
pub(crate) fn pending_bytes(
    schema: &TableSchema,
    of: (&RecordKey, &StoredFingerprint),
    meta: &RecordMeta,
) -> usize {
    let lease_expires_at = Timestamp::from_seconds(meta.expires_at);
    let state = State::Pending { lease_expires_at };
    // The largest form: with `released_attempts`.
    let pending = RecordMeta { state, completed_at: None, released_attempts: 1, ..meta.clone() };
    let no_steps = AttributeValue::M(Item::new());
    let steps = attribute::STEPS.len() + value_bytes(&no_steps, Bound::Upper);
    record_bytes(schema, of, &pending, None) + steps
}

/// Returns the value in a step's item, and when the item expires, in epoch seconds; `None` if it is not the item
/// that the record notes.
pub(crate) fn step_item_value(
    schema: &TableSchema,
    item: Item,
    note: Note,
) -> Option<(StepValue, i64)> {
    let mut fields = Fields(item);
    if !fields.are_of_part() {
        return None;
    }
    let value = StepValue::decode(fields.take(attribute::RESPONSE)?)?;
    let expires_at = fields.number(schema.ttl_name()).ok()?;
    (value.note() == note).then_some((value, expires_at))
}

/// Returns when a part of an answer expires, in seconds since 1970.
///
/// # Errors
/// [`ErrorKind::UnknownRecord`] if the item is not a part that this version knows.
#[cfg(feature = "admin")]
pub(crate) fn part_expires_at(schema: &TableSchema, item: Item) -> Result<i64, Error> {
    let mut fields = Fields(item);
    if fields.are_of_part() {
        return fields.number(schema.ttl_name());
    }
    Err(unknown("the item is not a part of an answer".to_owned()))
}

/// Returns the bytes of a part of an answer; `None` if the item is not a part of this owner's answer.
pub(crate) fn part_bytes(item: Item, owner: &OwnerId) -> Option<Vec<u8>> {
    let mut fields = Fields(item);
    let is_part = fields.are_of_part();
    let is_owners = fields.take(attribute::OWNER) == Some(AttributeValue::S(owner.to_string()));
    match fields.take(attribute::RESPONSE) {
        Some(AttributeValue::B(bytes)) if is_part && is_owners => Some(bytes.into_inner()),
        _ => None,
    }
}

/// The attributes of the item's key.
pub(crate) fn key_item(schema: &TableSchema, key: &RecordKey) -> Item {
    let mut item = Item::with_capacity(12);
    for (name, value) in key_values(schema, key) {
        item.insert(name.to_owned(), AttributeValue::S(value.to_owned()));
    }
    item
}

fn key_values<'a>(
    schema: &'a TableSchema,
    key: &'a RecordKey,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    schema.partition().into_iter().chain([(schema.key_name(), key.as_str())])
}

fn item_of(
    schema: &TableSchema,
    key: &RecordKey,
    expires_at: i64,
    values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
) -> Item {
    let mut item = key_item(schema, key);
    item.insert(schema.ttl_name().to_owned(), number(expires_at));
    item.extend(values.into_iter().map(|(name, value)| (name.to_owned(), value)));
    item
}

/// The format that this version writes.
pub(crate) fn format() -> AttributeValue {
    number(FORMAT)
}

const WHOLE_NUMBER: &str = "a whole number";

fn whole_number<T: FromStr>(value: AttributeValue) -> Option<T> {
    let AttributeValue::N(number) = value else { return None };
    number.parse().ok()
}

pub(crate) fn number(value: impl Into<i64>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

/// Which bound of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Lower,
    Upper,
}

/// A bound of the bytes that DynamoDB counts for an item ("DynamoDB item sizes and formats" in its
/// developer guide).
pub(crate) fn item_bytes(item: &Item, bound: Bound) -> usize {
    item.iter().map(|(name, value)| name.len() + value_bytes(value, bound)).sum()
}

/// One byte for every two digits, one byte of overhead, and one for a sign; at most 21.
fn number_bytes(digits: usize) -> usize {
    (digits.div_ceil(2) + 2).min(21)
}

pub(crate) fn value_bytes(value: &AttributeValue, bound: Bound) -> usize {
    // A member of a map or a list.
    let member = usize::from(bound == Bound::Upper);
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::N(digits) if bound == Bound::Upper => number_bytes(digits.len()),
        AttributeValue::M(fields) => 3 + member * fields.len() + item_bytes(fields, bound),
        AttributeValue::L(values) => {
            3 + values.iter().map(|value| member + value_bytes(value, bound)).sum::<usize>()
        }
        // The crate writes no sets.
        AttributeValue::Ss(texts) => texts.iter().map(String::len).sum(),
        AttributeValue::Bs(all) => all.iter().map(|bytes| bytes.as_ref().len()).sum(),
        AttributeValue::Ns(numbers) => numbers.len(),
        // Numbers, booleans, NULL, and types of later SDK versions.
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
