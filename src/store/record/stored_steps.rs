//! The stored form of steps: a map of texts, `{"reserve": "{\"seat\":1}"}`, or of bytes if the
//! user's codec writes them.

use std::borrow::Cow;
use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::de::DeserializeOwned;

use crate::answer::codec::Coder;
use crate::answer::reason::NOT_ENCODED;
use crate::error::{Error, ErrorKind, json_fault};

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredStep {
    /// Its result as JSON text, stored as S.
    Result(String),
    /// Its result encoded by the user's codec, stored as B after a marker byte.
    Encoded(Vec<u8>),
    /// It is done, but its result could not be stored; stored as NULL.
    Unavailable,
}

/// The first byte of an encoded result. An [answer](crate::answer) that a codec wrote has the same.
const CUSTOM: u8 = 2;
/// The first byte of the codec's input for a step. The input for an answer never begins with it.
const STEP: u8 = b'S';

impl StoredStep {
    pub(crate) fn encode(&self) -> AttributeValue {
        match self {
            Self::Result(json) => AttributeValue::S(json.clone()),
            Self::Encoded(bytes) => {
                AttributeValue::B(Blob::new([&[CUSTOM], bytes.as_slice()].concat()))
            }
            Self::Unavailable => AttributeValue::Null(true),
        }
    }

    fn decode(value: AttributeValue) -> Option<Self> {
        match value {
            AttributeValue::S(json) => Some(Self::Result(json)),
            AttributeValue::B(bytes) => {
                let bytes = bytes.as_ref().strip_prefix(&[CUSTOM])?;
                Some(Self::Encoded(bytes.to_vec()))
            }
            AttributeValue::Null(true) => Some(Self::Unavailable),
            _ => None,
        }
    }

    /// The size in an item: the name, the value (one byte for a NULL), and one byte for the member
    /// ("DynamoDB item sizes and formats", developer guide).
    pub(crate) fn bytes(&self, name: &str) -> usize {
        let value = match self {
            Self::Result(json) => json.len(),
            Self::Encoded(bytes) => 1 + bytes.len(),
            Self::Unavailable => 1,
        };
        name.len() + value + 1
    }

    /// Returns the stored form of a result, or why it cannot be stored.
    pub(crate) fn new(name: &str, json: String, coder: Coder<'_>) -> Result<Self, String> {
        if !coder.is_set() {
            return Ok(Self::Result(json));
        }
        let plain = [head(name).as_slice(), json.as_bytes()].concat();
        let encoded = coder.encode(plain);
        encoded.map(Self::Encoded).map_err(|reason| format!("{NOT_ENCODED}: {reason}"))
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
        match self {
            Self::Result(json) => {
                coder.accept_plain().map_err(unreadable)?;
                Ok(Cow::Borrowed(json))
            }
            Self::Encoded(bytes) => {
                let plain = coder.decode(bytes.clone()).map_err(unreadable)?;
                let json = plain.strip_prefix(head(name).as_slice());
                let json = json.and_then(|json| String::from_utf8(json.to_vec()).ok());
                json.map(Cow::Owned).ok_or_else(|| {
                    let wrong =
                        "its AnswerCodec decoded it to bytes that are not a result of this step";
                    unreadable(wrong.to_owned())
                })
            }
            Self::Unavailable => {
                let message = format!("{step} could not be stored");
                Err(Error::new(ErrorKind::AnswerUnavailable, message))
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

/// Returns whether this codec can read the stored steps.
pub(crate) fn check_steps(steps: &StoredSteps, coder: Coder<'_>) -> Result<(), Error> {
    let mut stored = steps.iter().filter(|(_, step)| !matches!(step, StoredStep::Unavailable));
    stored.try_for_each(|(name, step)| step.json(name, coder).map(drop))
}

pub(crate) fn steps_bytes(steps: &StoredSteps) -> usize {
    steps.iter().map(|(name, step)| step.bytes(name)).sum()
}
