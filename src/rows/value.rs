//! The values of a row. Those that DynamoDB would reject are rejected here, with their place in the row.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::hash::Hash;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::Serialize;
use serde_path_to_error::Segment;

use crate::store::record::Item;

/// DynamoDB's limit for the levels of nested values. An attribute's own value is the first level.
const MAX_LEVELS: usize = 32;

/// DynamoDB's limit for the significant digits of a number.
const MAX_DIGITS: usize = 38;

/// DynamoDB's limits for the decimal exponent of a number's first digit.
const MIN_EXPONENT: i64 = -130;
const MAX_EXPONENT: i64 = 125;

/// The reason against an empty name.
pub(super) const NO_NAME: &str = "is no name of an attribute or member";

/// As what `serde_json` serializes a number with its feature `arbitrary_precision`: a map with this name.
const JSON_NUMBER: &str = "$serde_json::private::Number";

/// What is wrong with a value, and where.
#[derive(Debug)]
pub(super) struct Fault {
    /// From the value outwards. Empty for the whole row or key.
    place: Vec<Step>,
    reason: String,
}

#[derive(Debug)]
enum Step {
    Member(String),
    Element(usize),
}

impl Fault {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { place: Vec::new(), reason: reason.into() }
    }

    pub(super) fn in_member(mut self, name: &str) -> Self {
        self.place.push(Step::Member(name.to_owned()));
        self
    }

    fn in_element(mut self, index: usize) -> Self {
        self.place.push(Step::Element(index));
        self
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some((outermost, inner)) = self.place.split_last() else {
            return f.write_str(&self.reason);
        };
        write!(f, "`{outermost}")?;
        for step in inner.iter().rev() {
            match step {
                Step::Member(_) => write!(f, ".{step}")?,
                Step::Element(_) => write!(f, "{step}")?,
            }
        }
        write!(f, "` {}", self.reason)
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(name) => f.write_str(name),
            Self::Element(index) => write!(f, "[{index}]"),
        }
    }
}

impl<E: Display> From<serde_path_to_error::Error<E>> for Fault {
    fn from(error: serde_path_to_error::Error<E>) -> Self {
        let reason = Self::new(format!("cannot be serialized: {}", error.inner()));
        let segments: Vec<_> = error.path().iter().collect();
        segments.into_iter().rev().fold(reason, |fault, segment| match segment {
            Segment::Seq { index } => fault.in_element(*index),
            Segment::Map { key } => fault.in_member(key),
            Segment::Enum { variant } => fault.in_member(variant),
            Segment::Unknown => fault.in_member("?"),
        })
    }
}

/// Serializes a value. It still has to be [checked](check).
pub(super) fn serialize<T: Serialize + ?Sized>(value: &T) -> Result<AttributeValue, Fault> {
    // `serde_dynamo` panics at a map whose keys are sequences or bytes, which JSON cannot represent either.
    let json = &mut serde_json::Serializer::new(std::io::sink());
    serde_path_to_error::serialize(value, json)?;
    Ok(serde_path_to_error::serialize(value, serde_dynamo::Serializer)?.into())
}

/// Checks that DynamoDB can hold a value of this level, and replaces the numbers of `serde_json`.
pub(super) fn check(value: &mut AttributeValue, level: usize) -> Result<(), Fault> {
    if level > MAX_LEVELS {
        return Err(Fault::new("is nested more than 32 levels deep"));
    }
    match value {
        AttributeValue::N(number) => check_number(number).map_err(Fault::new),
        AttributeValue::Ss(set) => check_set(set),
        AttributeValue::Bs(set) => check_set(set),
        AttributeValue::Ns(set) => {
            check_set(set)?;
            set.iter().try_for_each(|number| check_number(number)).map_err(Fault::new)
        }
        AttributeValue::L(list) => list.iter_mut().enumerate().try_for_each(|(index, element)| {
            check(element, level + 1).map_err(|fault| fault.in_element(index))
        }),
        AttributeValue::M(map) => {
            if let Some(number) = json_number(map) {
                *value = AttributeValue::N(number);
                return check(value, level);
            }
            check_members(map, level + 1)
        }
        _ => Ok(()),
    }
}

/// Checks the attributes of a row (level 1) or the members of a map.
pub(super) fn check_members(members: &mut Item, level: usize) -> Result<(), Fault> {
    members.iter_mut().try_for_each(|(name, member)| {
        let named = if name.is_empty() { Err(Fault::new(NO_NAME)) } else { Ok(()) };
        named.and_then(|()| check(member, level)).map_err(|fault| fault.in_member(name))
    })
}

fn json_number(map: &Item) -> Option<String> {
    let number = map.get(JSON_NUMBER).filter(|_| map.len() == 1)?;
    number.as_s().ok().cloned()
}

fn check_set<T: Eq + Hash>(set: &[T]) -> Result<(), Fault> {
    if set.is_empty() {
        return Err(Fault::new("is an empty set"));
    }
    let mut seen = HashSet::new();
    if !set.iter().all(|element| seen.insert(element)) {
        return Err(Fault::new("is a set with an equal element twice"));
    }
    Ok(())
}

/// Checks a decimal number, which may have an exponent.
pub(super) fn check_number(text: &str) -> Result<(), &'static str> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("is infinite or not a number");
    }
    let Some(first) = digits.find(|digit| digit != '0') else {
        return Ok(());
    };
    if digits[first..].trim_end_matches('0').len() > MAX_DIGITS {
        return Err("has more than 38 significant digits");
    }
    // The number of digits fits, and an exponent that is no `i64` is out of range.
    let position = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let exponent = exponent.parse::<i64>().ok();
    let exponent = exponent.and_then(|exponent| {
        exponent.checked_add(position(whole.len()))?.checked_sub(position(first))?.checked_sub(1)
    });
    match exponent {
        Some(MIN_EXPONENT..=MAX_EXPONENT) => Ok(()),
        _ => Err("is outside the range of DynamoDB's numbers"),
    }
}
