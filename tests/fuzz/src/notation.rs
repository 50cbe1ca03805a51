//! A notation of attribute values: a letter for the type, then text to the end of the line.
//!
//! Every input is a value, even if it is truncated or duplicated, as a fuzzer needs. Corpus files are
//! readable:
//!
//! ```text
//! Mjson
//! S{"id":1}
//! }
//! ```

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

/// Decodes an input as an item.
pub fn item(input: &[u8]) -> HashMap<String, AttributeValue> {
    Input { rest: input, depth: 0 }.item()
}

/// Decodes an input as a value.
pub fn value(input: &[u8]) -> AttributeValue {
    Input { rest: input, depth: 0 }.value()
}

struct Input<'a> {
    rest: &'a [u8],
    depth: usize,
}

impl Input<'_> {
    /// Deeper values do not exist in DynamoDB.
    const MAX_DEPTH: usize = 32;

    fn item(&mut self) -> HashMap<String, AttributeValue> {
        let mut item = HashMap::new();
        while !self.ends_with(b'}') {
            let name = self.text();
            item.insert(name, self.value());
        }
        item
    }

    fn value(&mut self) -> AttributeValue {
        let kind = self.byte();
        self.depth += 1;
        let value = match kind {
            Some(b'M') if self.depth < Self::MAX_DEPTH => AttributeValue::M(self.item()),
            Some(b'L') if self.depth < Self::MAX_DEPTH => AttributeValue::L(self.list()),
            Some(b'S') => AttributeValue::S(self.text()),
            Some(b'N') => AttributeValue::N(self.text()),
            Some(b'B') => AttributeValue::B(Blob::new(self.line())),
            Some(b'T') => AttributeValue::Bool(true),
            _ => AttributeValue::Null(true),
        };
        self.depth -= 1;
        value
    }

    fn list(&mut self) -> Vec<AttributeValue> {
        let mut values = Vec::new();
        while !self.ends_with(b']') {
            values.push(self.value());
        }
        values
    }

    /// Whether a map or a list ends here: with its bracket and the rest of the line, or with the
    /// input.
    fn ends_with(&mut self, bracket: u8) -> bool {
        let ends = self.rest.first().is_none_or(|byte| *byte == bracket);
        if ends {
            self.line();
        }
        ends
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(self.line()).into_owned()
    }

    fn line(&mut self) -> &[u8] {
        let end = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        line
    }
}
