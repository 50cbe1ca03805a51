//! The stored form of steps: a map of texts, `{"reserve": "{\"seat\":1}"}`.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind};

/// What a step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// Its result as JSON text: S.
    Result(String),
    /// It is done, and its result could not be stored: NULL.
    Unavailable,
}

impl Checkpoint {
    pub(crate) fn encode(&self) -> AttributeValue {
        match self {
            Self::Result(json) => AttributeValue::S(json.clone()),
            Self::Unavailable => AttributeValue::Null(true),
        }
    }

    fn decode(value: AttributeValue) -> Option<Self> {
        match value {
            AttributeValue::S(json) => Some(Self::Result(json)),
            AttributeValue::Null(true) => Some(Self::Unavailable),
            _ => None,
        }
    }

    /// What it takes in an item under this name: both texts, and one byte each for the member and
    /// for a NULL ("DynamoDB item sizes and formats", developer guide).
    pub(crate) fn bytes(&self, name: &str) -> usize {
        let value = match self {
            Self::Result(json) => json.len(),
            Self::Unavailable => 1,
        };
        name.len() + value + 1
    }

    /// The result, in the type that is asked for.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        match self {
            Self::Result(json) => serde_json::from_str(json).map_err(|source| {
                let message =
                    format!("the stored result of step `{name}` is not of the type asked for");
                Error::new(ErrorKind::AnswerUnreadable, message).with_source(source)
            }),
            Self::Unavailable => {
                let message = format!(
                    "step `{name}` was done in an earlier attempt, and its result could not be stored"
                );
                Err(Error::new(ErrorKind::AnswerUnavailable, message))
            }
        }
    }
}

/// The steps of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoints(HashMap<String, Checkpoint>);

impl Checkpoints {
    /// Takes the stored map apart; `None` if it is of no shape that this version writes.
    pub(crate) fn decode(steps: AttributeValue) -> Option<Self> {
        let AttributeValue::M(steps) = steps else { return None };
        let read = |(name, value)| Some((name, Checkpoint::decode(value)?));
        steps.into_iter().map(read).collect::<Option<_>>().map(Self)
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn encode(&self) -> AttributeValue {
        let written = |(name, value): (&String, &Checkpoint)| (name.clone(), value.encode());
        AttributeValue::M(self.0.iter().map(written).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Checkpoint> {
        self.0.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(name, step)| step.bytes(name)).sum()
    }
}
