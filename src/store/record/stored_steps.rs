//! The stored form of steps: a map of texts, `{"reserve": "{\"seat\":1}"}`, or of bytes if the
//! user's codec writes them, or if a result is in an item of its own.

use std::borrow::Cow;
use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::de::DeserializeOwned;

use crate::answer::codec::Coder;
use crate::answer::reason::NOT_ENCODED;
use crate::answer::split::digest;
use crate::error::{Error, ErrorKind, json_fault};

/// In the name of a note, between the step's name and the attempt.
pub(crate) const SENT: &str = "~sent~";

/// The step and the attempt of a note, by its name.
pub(crate) fn sent_by(name: &str) -> Option<(&str, u32)> {
    let (step, attempt) = name.rsplit_once(SENT)?;
    Some((step, attempt.parse().ok()?))
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredStep {
    /// Its result is in the record.
    Inline(StepValue),
    /// Its result is in an item of its own, which the record notes.
    InItem(Note, ItemValue),
    /// It is done, but its result could not be stored; stored as NULL.
    Unavailable,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepValue {
    /// As JSON text, stored as S.
    Json(String),
    /// Encoded by the user's codec, stored as B after a marker byte.
    Encoded(Vec<u8>),
}

/// What the record says about a result in an item. Stored as B: a marker byte, the digest, and the length as a
/// big-endian number without leading zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) digest: [u8; 8],
    /// The length of the value.
    pub(crate) bytes: u32,
}

/// What is known about the item of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemValue {
    Unread,
    /// It is missing, or is not the item that was written.
    Missing,
    Read(StepValue),
}

/// The first byte of an encoded result. An [answer](crate::answer) that a codec wrote has the same.
const CUSTOM: u8 = 2;
/// The first byte of a note.
const NOTE: u8 = 3;
/// The first byte of the codec's input for a step. The input for an answer never begins with it.
const STEP: u8 = b'S';

impl StepValue {
    pub(crate) fn encode(&self) -> AttributeValue {
        match self {
            Self::Json(json) => AttributeValue::S(json.clone()),
            Self::Encoded(bytes) => {
                AttributeValue::B(Blob::new([&[CUSTOM], bytes.as_slice()].concat()))
            }
        }
    }

    pub(crate) fn decode(value: AttributeValue) -> Option<Self> {
        match value {
            AttributeValue::S(json) => Some(Self::Json(json)),
            AttributeValue::B(bytes) => {
                let bytes = bytes.as_ref().strip_prefix(&[CUSTOM])?;
                Some(Self::Encoded(bytes.to_vec()))
            }
            _ => None,
        }
    }

    /// Returns the stored form of a result, or why it cannot be stored.
    pub(crate) fn new(name: &str, json: String, coder: Coder<'_>) -> Result<Self, String> {
        if !coder.is_set() {
            return Ok(Self::Json(json));
        }
        let plain = [head(name).as_slice(), json.as_bytes()].concat();
        let encoded = coder.encode(plain);
        encoded.map(Self::Encoded).map_err(|reason| format!("{NOT_ENCODED}: {reason}"))
    }

    /// The length of the stored value.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(json) => json.len(),
            Self::Encoded(bytes) => 1 + bytes.len(),
        }
    }

    /// The size in a record: see [`StoredStep::bytes`].
    pub(crate) fn bytes(&self, name: &str) -> usize {
        name.len() + self.len() + 1
    }

    /// The note of this value. JSON text never begins with the marker byte of an encoded value, so the digest
    /// covers the type too.
    pub(crate) fn note(&self) -> Note {
        let whole = match self {
            Self::Json(json) => digest([json.as_bytes()]),
            Self::Encoded(bytes) => digest([[CUSTOM].as_slice(), bytes]),
        };
        let mut digest = [0; 8];
        digest.copy_from_slice(&whole[..8]);
        Note { digest, bytes: u32::try_from(self.len()).unwrap_or(u32::MAX) }
    }
}

impl Note {
    fn encode(self) -> AttributeValue {
        let length = self.bytes.to_be_bytes();
        let length = &length[length.len() - self.length_bytes()..];
        AttributeValue::B(Blob::new([&[NOTE], self.digest.as_slice(), length].concat()))
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (digest, length) = value.strip_prefix(&[NOTE])?.split_first_chunk()?;
        let mut bytes = [0; 4];
        bytes.get_mut(4_usize.checked_sub(length.len())?..)?.copy_from_slice(length);
        let note = Self { digest: *digest, bytes: u32::from_be_bytes(bytes) };
        (note.length_bytes() == length.len()).then_some(note)
    }

    /// How many bytes the length takes.
    fn length_bytes(self) -> usize {
        4 - usize::try_from(self.bytes.leading_zeros() / 8).unwrap_or_default()
    }

    /// The size in a record: see [`StoredStep::bytes`].
    pub(crate) fn bytes(self, name: &str) -> usize {
        name.len() + 1 + self.digest.len() + self.length_bytes() + 1
    }

    pub(crate) fn value_bytes(self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }
}

impl StoredStep {
    pub(crate) fn encode(&self) -> AttributeValue {
        match self {
            Self::Inline(value) => value.encode(),
            Self::InItem(note, _) => note.encode(),
            Self::Unavailable => AttributeValue::Null(true),
        }
    }

    fn decode(value: AttributeValue) -> Option<Self> {
        match value {
            AttributeValue::Null(true) => Some(Self::Unavailable),
            AttributeValue::B(bytes) if bytes.as_ref().first() == Some(&NOTE) => {
                Note::decode(bytes.as_ref()).map(|note| Self::InItem(note, ItemValue::Unread))
            }
            value => StepValue::decode(value).map(Self::Inline),
        }
    }

    /// The size in an item: the name, the value (one byte for a NULL), and one byte for the member
    /// ("DynamoDB item sizes and formats", developer guide).
    pub(crate) fn bytes(&self, name: &str) -> usize {
        match self {
            Self::Inline(value) => value.bytes(name),
            Self::InItem(note, _) => note.bytes(name),
            Self::Unavailable => name.len() + 1 + 1,
        }
    }

    /// The size of its result in an item; 0 without an item.
    pub(crate) fn item_bytes(&self) -> usize {
        match self {
            Self::InItem(note, _) => note.value_bytes(),
            Self::Inline(_) | Self::Unavailable => 0,
        }
    }

    /// Returns the result in the requested type.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        name: &str,
        coder: Coder<'_>,
    ) -> Result<T, Error> {
        let json = self.json(name, coder)?;
        serde_json::from_str(&json).map_err(|source| {
            let message =
                format!("the stored result of step `{name}` does not have the requested type");
            Error::new(ErrorKind::AnswerUnreadable, message).with_source(json_fault(&source))
        })
    }

    /// Returns the result as JSON text.
    pub(crate) fn json(&self, name: &str, coder: Coder<'_>) -> Result<Cow<'_, str>, Error> {
        let step = format_args!("step `{name}` was done in an earlier attempt, and its result");
        let unreadable = |reason: String| {
            Error::new(ErrorKind::StepsUnreadable, format!("{step} cannot be read: {reason}"))
        };
        let unavailable =
            |why: &str| Err(Error::new(ErrorKind::AnswerUnavailable, format!("{step} {why}")));
        let value = match self {
            Self::Inline(value) | Self::InItem(_, ItemValue::Read(value)) => value,
            Self::InItem(_, ItemValue::Unread) => {
                return unavailable("is in an item of its own, which was not read");
            }
            Self::InItem(_, ItemValue::Missing) => {
                return unavailable("was in an item that is missing or damaged");
            }
            Self::Unavailable => return unavailable("could not be stored"),
        };
        match value {
            StepValue::Json(json) => {
                coder.accept_plain().map_err(unreadable)?;
                Ok(Cow::Borrowed(json))
            }
            StepValue::Encoded(bytes) => {
                let plain = coder.decode(bytes.clone()).map_err(unreadable)?;
                let json = plain.strip_prefix(head(name).as_slice());
                let json = json.and_then(|json| String::from_utf8(json.to_vec()).ok());
                json.map(Cow::Owned).ok_or_else(|| {
                    let wrong =
                        "its AnswerCodec decoded it to bytes that are not a result of this step";
                    unreadable(wrong.to_owned())
                })
            }
        }
    }
}

/// The codec's input before a result. It contains the step's name, so that the results of two steps
/// cannot be exchanged.
fn head(name: &str) -> Vec<u8> {
    [&[STEP], (name.len() as u64).to_be_bytes().as_slice(), name.as_bytes()].concat()
}

/// The steps of a record, by name.
pub(crate) type StoredSteps = HashMap<String, StoredStep>;

/// Parses the stored map; `None` if this version does not write such a map.
pub(crate) fn decode_steps(steps: AttributeValue) -> Option<StoredSteps> {
    let AttributeValue::M(steps) = steps else { return None };
    steps.into_iter().map(|(name, value)| Some((name, StoredStep::decode(value)?))).collect()
}

#[cfg(any(test, feature = "internals", feature = "testing"))]
pub(crate) fn encode_steps(steps: &StoredSteps) -> AttributeValue {
    let written = |(name, step): (&String, &StoredStep)| (name.clone(), step.encode());
    AttributeValue::M(steps.iter().map(written).collect())
}

/// Returns whether this codec can read the stored steps. Those whose result is not available need no codec.
pub(crate) fn check_steps(steps: &StoredSteps, coder: Coder<'_>) -> Result<(), Error> {
    for (name, step) in steps {
        match step {
            StoredStep::Inline(_) | StoredStep::InItem(_, ItemValue::Read(_)) => {
                step.json(name, coder)?;
            }
            StoredStep::InItem(_, ItemValue::Unread | ItemValue::Missing)
            | StoredStep::Unavailable => {}
        }
    }
    Ok(())
}

pub(crate) fn steps_bytes(steps: &StoredSteps) -> usize {
    steps.iter().map(|(name, step)| step.bytes(name)).sum()
}

/// The size of the results in items.
pub(crate) fn step_item_bytes(steps: &StoredSteps) -> usize {
    steps.values().map(StoredStep::item_bytes).sum()
}
