//! The record: one item a key, and nothing else that the crate stores.
//!
//! See `docs/protocol.md` for the table of attributes. Reading is strict: an item that is not a
//! record of a layout that this version knows is an error, never a guess.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::clock::{Timestamp, entropy};
use crate::error::{Error, ErrorKind};
use crate::fault_injection::{Mutant, mutant};
use crate::fingerprint::{Fingerprint, NoFingerprint, StoredFingerprint};
use crate::key::{RecordKey, push_hex};
use crate::response::Stored;
use crate::schema::{Attribute, Keys, TableSchema};
use crate::steps::Checkpoints;

pub(crate) type Item = HashMap<String, AttributeValue>;

/// The layout that this version writes.
const FORMAT: &str = "1";

/// DynamoDB's limit for an item: names and values together, in bytes.
pub(crate) const MAX_ITEM_BYTES: usize = 400 * 1024;

/// One attempt's identity: whoever holds it may complete, fail or renew the record that carries it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Owner(String);

impl Owner {
    /// 128 bits from the operating system, in hex.
    pub(crate) fn random() -> Result<Self, Error> {
        let mut hex = String::with_capacity(32);
        push_hex(&mut hex, &entropy::<16>()?);
        Ok(Self(hex))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.0)
    }
}

/// A record as it was read.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) owner: Owner,
    pub(crate) attempt: u32,
    pub(crate) fingerprint: StoredFingerprint,
    pub(crate) created_at: Timestamp,
    /// Epoch seconds.
    pub(crate) expires_at: i64,
    pub(crate) state: State,
    /// What the operation's steps came to so far; `None` if no step was ever stored.
    pub(crate) steps: Option<Checkpoints>,
    /// How many of the attempts were released, or given back with nothing executed.
    pub(crate) released_attempts: u32,
}

#[derive(Debug)]
pub(crate) enum State {
    Pending {
        lease_expires_at: Timestamp,
    },
    Completed {
        answer: Stored,
    },
    /// A failure that was kept; with an answer if it can be replayed.
    Failed {
        answer: Option<Stored>,
        /// The same as it stands in the table.
        response: Option<AttributeValue>,
    },
    /// In nobody's hands: whoever comes may replace it, by compare-and-set.
    Released,
}

/// The state's name in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Pending,
    Completed,
    Failed,
    Released,
}

impl Status {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Released => "RELEASED",
        }
    }
}

/// Which state of a record was seen: what a compare-and-set compares.
///
/// A renewal keeps the owner and a completion keeps it too, so the owner alone would let a taker
/// overwrite either. A step that an owner stores after its lease changes none of the three, and a
/// taker that does not know of it would run it again: steps only get more, so their number tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) owner: Owner,
    pub(crate) status: Status,
    pub(crate) lease_expires_at: Option<Timestamp>,
    /// How many steps are stored, where the attribute is there.
    pub(crate) steps: Option<usize>,
}

impl Record {
    pub(crate) fn version(&self) -> Version {
        let (status, lease_expires_at) = match self.state {
            State::Pending { lease_expires_at } => (Status::Pending, Some(lease_expires_at)),
            State::Completed { .. } => (Status::Completed, None),
            State::Failed { .. } => (Status::Failed, None),
            State::Released => (Status::Released, None),
        };
        let steps = self.steps.as_ref().map(Checkpoints::count);
        Version { owner: self.owner.clone(), status, lease_expires_at, steps }
    }

    /// Whether it is garbage, at `now` in store time, that TTL has not collected yet; a PENDING one
    /// only once its lease is over as well.
    pub(crate) const fn is_past_retention(&self, now: Timestamp) -> bool {
        now.millis() > self.expires_at.saturating_mul(1000)
    }

    /// Reads an item that was found under a key of ours.
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
                     crate's",
                    schema.name(Attribute::Format)
                )));
            }
        }
        let owner = Owner(fields.string(Attribute::Owner)?);
        Ok(Self {
            state: fields.state(&owner)?,
            owner,
            attempt: fields.number(Attribute::Attempt)?,
            fingerprint: fields.fingerprint()?,
            created_at: fields.timestamp(Attribute::CreatedAt)?,
            expires_at: fields.number(Attribute::ExpiresAt)?,
            steps: fields.steps()?,
            released_attempts: fields.released_attempts()?,
        })
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

/// An item that is being taken apart.
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

    fn answer(&mut self, owner: &Owner) -> Result<Option<Stored>, Error> {
        match self.take(Attribute::Response) {
            None => Ok(None),
            Some(response) => Stored::decode(response, owner)
                .map(Some)
                .ok_or_else(|| self.corrupt(Attribute::Response, "an answer of a known shape")),
        }
    }

    fn steps(&mut self) -> Result<Option<Checkpoints>, Error> {
        match self.take(Attribute::Steps) {
            None => Ok(None),
            Some(steps) => Checkpoints::decode(steps)
                .map(Some)
                .ok_or_else(|| self.corrupt(Attribute::Steps, "a map of texts")),
        }
    }

    fn state(&mut self, owner: &Owner) -> Result<State, Error> {
        match self.string(Attribute::Status)?.as_str() {
            "PENDING" => {
                Ok(State::Pending { lease_expires_at: self.timestamp(Attribute::LeaseExpiresAt)? })
            }
            "COMPLETED" => match self.answer(owner)? {
                Some(answer) => Ok(State::Completed { answer }),
                None => Err(self.corrupt(Attribute::Response, "there")),
            },
            "FAILED" => {
                let response = self.item.get(self.schema.name(Attribute::Response)).cloned();
                Ok(State::Failed { answer: self.answer(owner)?, response })
            }
            "RELEASED" => Ok(State::Released),
            _ => Err(self.corrupt(Attribute::Status, "PENDING, COMPLETED, FAILED or RELEASED")),
        }
    }
}

/// What an owner knows of its record: enough to write the whole of it again.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) key: RecordKey,
    pub(crate) owner: Owner,
    pub(crate) attempt: u32,
    pub(crate) fingerprint: StoredFingerprint,
    pub(crate) created_at: Timestamp,
    /// How many of the attempts before this one were released, or given back.
    pub(crate) released_attempts: u32,
    pub(crate) taken: Taken,
}

/// What an owner has found in the place of its record: that is given back where nothing is executed.
#[derive(Clone, Debug)]
pub(crate) enum Taken {
    /// Nothing that is to stay: there was no record, or it is gone once it is taken.
    Nothing,
    /// A failure that was kept, with what there was to replay.
    Failed { response: Option<AttributeValue> },
    /// An operation whose owner's lease was over then.
    Abandoned { lease_expires_at: Timestamp },
}

impl Claim {
    /// A new owner, whose attempt is the first unless the record says otherwise.
    pub(crate) fn first(
        key: RecordKey,
        fingerprint: Fingerprint,
        created_at: Timestamp,
    ) -> Result<Self, Error> {
        let fingerprint = fingerprint.to_store();
        Ok(Self {
            key,
            owner: Owner::random()?,
            attempt: 1,
            fingerprint,
            created_at,
            released_attempts: 0,
            taken: Taken::Nothing,
        })
    }

    /// What is left of it where its handler has executed nothing: its attempt was told, and does not
    /// count.
    pub(crate) fn executed_nothing(&self) -> Self {
        Self { released_attempts: self.released_attempts.saturating_add(1), ..self.clone() }
    }

    /// What is left of it where no handler has begun: nobody was told of its attempt.
    pub(crate) fn not_begun(&self) -> Self {
        Self { attempt: self.attempt.saturating_sub(1), ..self.clone() }
    }
}

/// What a failed record has at the most beside its steps and its failure, in bytes.
pub(crate) const FAILED_BYTES: usize = 8 * 1024;

/// How long a released record stays at least: longer than any request can be under way that was
/// signed before it. AWS denies a request that arrives more than 15 minutes after the time stamp in its
/// signature (most services: 5), and takes one that is as far ahead; so 30 minutes are the most, and
/// this is twice as much.
const RELEASED_FOR: Duration = Duration::from_secs(60 * 60);

/// Until when a record stays that is released at `now`, in epoch seconds: not less than the lease that
/// it was under.
pub(crate) fn released_until(now: Timestamp, lease_expires_at: Timestamp) -> i64 {
    if mutant(Mutant::ReleaseDeletes) {
        return 0;
    }
    now.plus(RELEASED_FOR).max(lease_expires_at).seconds_up()
}

/// The item of a record that nobody has held.
pub(crate) fn released_item(schema: &TableSchema, claim: &Claim, now: Timestamp) -> Item {
    common(schema, claim, Status::Released, released_until(now, now))
}

/// The item of an operation that starts from its beginning.
pub(crate) fn first_item(
    schema: &TableSchema,
    claim: &Claim,
    lease_expires_at: Timestamp,
    expires_at: i64,
) -> Item {
    let mut item = pending_item(schema, claim, lease_expires_at, expires_at);
    if claim.released_attempts > 0 {
        set(&mut item, schema, Attribute::ReleasedAttempts, number(claim.released_attempts));
    }
    item
}

/// The item of a new owner.
pub(crate) fn pending_item(
    schema: &TableSchema,
    claim: &Claim,
    lease_expires_at: Timestamp,
    expires_at: i64,
) -> Item {
    let mut item = common(schema, claim, Status::Pending, expires_at);
    set(&mut item, schema, Attribute::LeaseExpiresAt, number(lease_expires_at.millis()));
    item
}

/// The item of a finished operation: the whole record, so that it can also be written where the
/// pending one is gone.
pub(crate) fn completed_item(
    schema: &TableSchema,
    claim: &Claim,
    completed_at: Timestamp,
    expires_at: i64,
    response: AttributeValue,
) -> Item {
    let mut item = common(schema, claim, Status::Completed, expires_at);
    set(&mut item, schema, Attribute::CompletedAt, number(completed_at.millis()));
    set(&mut item, schema, Attribute::Response, response);
    item
}

fn common(schema: &TableSchema, claim: &Claim, status: Status, expires_at: i64) -> Item {
    let mut item = key_item(schema, &claim.key);
    let fingerprint = AttributeValue::B(Blob::new(claim.fingerprint.encode()));
    for (attribute, value) in [
        (Attribute::Status, AttributeValue::S(status.as_str().to_owned())),
        (Attribute::Owner, AttributeValue::S(claim.owner.as_str().to_owned())),
        (Attribute::Attempt, number(claim.attempt)),
        (Attribute::Fingerprint, fingerprint),
        (Attribute::CreatedAt, number(claim.created_at.millis())),
        (Attribute::ExpiresAt, number(expires_at)),
        (Attribute::Format, AttributeValue::N(FORMAT.to_owned())),
    ] {
        set(&mut item, schema, attribute, value);
    }
    item
}

/// The item of one part of an answer. It has no status, so that it is never taken for a record.
pub(crate) fn part_item(
    schema: &TableSchema,
    key: &RecordKey,
    owner: &Owner,
    expires_at: i64,
    bytes: AttributeValue,
) -> Item {
    let mut item = key_item(schema, key);
    for (attribute, value) in [
        (Attribute::Owner, AttributeValue::S(owner.as_str().to_owned())),
        (Attribute::ExpiresAt, number(expires_at)),
        (Attribute::Format, AttributeValue::N(FORMAT.to_owned())),
        (Attribute::Response, bytes),
    ] {
        set(&mut item, schema, attribute, value);
    }
    item
}

/// When a part of an answer expires, in epoch seconds.
///
/// # Errors
/// [`ErrorKind::UnknownRecord`] for what is no part that this version knows.
#[cfg_attr(not(feature = "admin"), expect(dead_code, reason = "only tools look for parts"))]
pub(crate) fn part_expires_at(schema: &TableSchema, item: &Item) -> Result<i64, Error> {
    let of = |attribute| item.get(schema.name(attribute));
    let is_known = of(Attribute::Format) == Some(&AttributeValue::N(FORMAT.to_owned()))
        && of(Attribute::Status).is_none();
    let expires_at = of(Attribute::ExpiresAt).and_then(|at| at.as_n().ok()?.parse().ok());
    expires_at.filter(|_| is_known).ok_or_else(|| unknown("it is no part of an answer".to_owned()))
}

/// An item that was found in the place of a part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Bytes(Vec<u8>),
    /// It is no part of this owner's.
    Foreign,
}

impl Part {
    pub(crate) fn decode(schema: &TableSchema, item: Item, owner: &Owner) -> Self {
        let mut fields = Fields { schema, item };
        let format = fields.take(Attribute::Format);
        let is_known = format == Some(AttributeValue::N(FORMAT.to_owned()));
        let is_record = fields.take(Attribute::Status).is_some();
        let is_owners = fields.string(Attribute::Owner).is_ok_and(|found| found == owner.as_str());
        match fields.take(Attribute::Response) {
            Some(AttributeValue::B(bytes)) if is_known && is_owners && !is_record => {
                Self::Bytes(bytes.into_inner())
            }
            _ => Self::Foreign,
        }
    }
}

/// The attributes that name the item.
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

pub(crate) fn number(value: impl Into<i64>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

/// Gives a whole record another attempt.
pub(crate) fn set_attempt(schema: &TableSchema, item: &mut Item, attempt: u32) {
    set(item, schema, Attribute::Attempt, number(attempt));
}

/// Whose record it is.
pub(crate) fn owner<'a>(schema: &TableSchema, item: &'a Item) -> Option<&'a str> {
    item.get(schema.name(Attribute::Owner))?.as_s().ok().map(String::as_str)
}

/// When the operation of this record ended; what tells the finished records of one owner apart.
pub(crate) fn completed_at(schema: &TableSchema, item: &Item) -> Option<Timestamp> {
    let number = item.get(schema.name(Attribute::CompletedAt))?.as_n().ok()?;
    number.parse().ok().map(Timestamp::from_millis)
}

/// An upper bound of the bytes that DynamoDB counts for an item ("DynamoDB item sizes and formats"
/// in its developer guide).
pub(crate) fn item_bytes(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

/// The [`item_bytes`] of a [`completed_item`] with a byte for its answer, without making one.
pub(crate) fn completed_bytes(
    schema: &TableSchema,
    claim: &Claim,
    completed_at: Timestamp,
    expires_at: i64,
) -> usize {
    let keys = schema.key_names().map(str::len).sum::<usize>() + claim.key.as_str().len();
    let beside = match schema.keys() {
        Keys::Partition { .. } => 0,
        Keys::Composite { value, .. } => value.len(),
    };
    let attributes = [
        (Attribute::Status, Status::Completed.as_str().len()),
        (Attribute::Owner, claim.owner.as_str().len()),
        (Attribute::Attempt, number_bytes(i64::from(claim.attempt))),
        (Attribute::Fingerprint, StoredFingerprint::BYTES),
        (Attribute::CreatedAt, number_bytes(claim.created_at.millis())),
        (Attribute::ExpiresAt, number_bytes(expires_at)),
        (Attribute::Format, digits_bytes(FORMAT.len())),
        (Attribute::CompletedAt, number_bytes(completed_at.millis())),
        (Attribute::Response, 1),
    ];
    let attributes = attributes.map(|(attribute, value)| schema.name(attribute).len() + value);
    keys + beside + attributes.into_iter().sum::<usize>()
}

fn number_bytes(number: i64) -> usize {
    let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    digits_bytes(digits + usize::from(number < 0))
}

/// About one byte for two digits, one more, and one for a sign; never more than 21.
fn digits_bytes(digits: usize) -> usize {
    (digits.div_ceil(2) + 2).min(21)
}

pub(crate) fn value_bytes(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::N(digits) => digits_bytes(digits.len()),
        AttributeValue::M(fields) => 3 + fields.len() + item_bytes(fields),
        AttributeValue::L(values) => {
            3 + values.iter().map(|value| 1 + value_bytes(value)).sum::<usize>()
        }
        // Nothing that the crate writes; the fixed-size types count one byte.
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
