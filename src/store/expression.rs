//! Renders the condition of a write and its changes as expressions of DynamoDB.

use std::collections::HashMap;
use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::clock::Timestamp;
use crate::fingerprint::StoredFingerprint;
use crate::protocol::{Condition, Header, Term};
use crate::store::record::{self, Item};
use crate::store::schema::{Attribute, TableSchema};

type Names = HashMap<String, String>;

/// A condition expression, with the names and values that it refers to.
pub(crate) struct Expression<'a> {
    schema: &'a TableSchema,
    text: String,
    names: Names,
    values: Item,
}

impl<'a> Expression<'a> {
    /// Renders a condition.
    pub(crate) fn of(schema: &'a TableSchema, condition: &Condition) -> Self {
        // Enough room for most conditions.
        let text = String::with_capacity(96);
        let mut expression = Self { schema, text, names: Names::new(), values: Item::new() };
        for (index, terms) in condition.alternatives().enumerate() {
            expression.text.push_str(if index == 0 { "(" } else { " OR (" });
            for (index, term) in terms.iter().enumerate() {
                expression.text.push_str(if index == 0 { "" } else { " AND " });
                expression.term(*term);
            }
            expression.text.push(')');
        }
        expression
    }

    fn term(&mut self, term: Term) {
        let time = |at: Timestamp| record::number(at.millis());
        let text = |text: &str| AttributeValue::S(text.to_owned());
        match term {
            Term::Absent => {
                let key = self.key();
                self.push(&["attribute_not_exists(", key, ")"]);
            }
            Term::NoSteps => {
                let steps = self.name(Attribute::Steps);
                self.push(&["attribute_not_exists(", steps, ")"]);
            }
            Term::Steps(count) => {
                let steps = self.name(Attribute::Steps);
                let count = self.bind(AttributeValue::N(count.to_string()));
                self.push(&["size(", steps, ") = ", &count]);
            }
            Term::Owner(owner) => self.compare(Attribute::Owner, "=", text(&owner.to_string())),
            Term::Status(status) => self.compare(Attribute::Status, "=", text(status.as_str())),
            Term::LeaseExpiresAt(at) => self.compare(Attribute::LeaseExpiresAt, "=", time(at)),
            Term::LeaseExpiresBefore(at) => self.compare(Attribute::LeaseExpiresAt, "<", time(at)),
            Term::AttemptAtMost(attempt) => {
                self.compare(Attribute::Attempt, "<=", record::number(attempt));
            }
            Term::ExpiresAt(at) => self.compare(Attribute::ExpiresAt, "=", record::number(at)),
            Term::ExpiresBefore(at) => self.compare(Attribute::ExpiresAt, "<", record::number(at)),
        }
    }

    fn compare(&mut self, attribute: Attribute, operator: &str, value: AttributeValue) {
        let (name, value) = (self.name(attribute), self.bind(value));
        self.push(&[name, " ", operator, " ", &value]);
    }

    fn push(&mut self, pieces: &[&str]) {
        self.text.extend(pieces.iter().copied());
    }

    /// Adds a value, and returns its placeholder.
    fn bind(&mut self, value: AttributeValue) -> String {
        let placeholder = format!(":is{}", self.values.len());
        self.value(&placeholder, value);
        placeholder
    }

    /// The attribute that shows whether the item exists.
    fn key(&mut self) -> &'static str {
        let partition_key = self.schema.key_names().next();
        self.names.insert("#key".to_owned(), partition_key.unwrap_or_default().to_owned());
        "#key"
    }

    fn name(&mut self, attribute: Attribute) -> &'static str {
        let placeholder = attribute.placeholder();
        if !self.names.contains_key(placeholder) {
            let name = self.schema.name(attribute).to_owned();
            self.names.insert(placeholder.to_owned(), name);
        }
        placeholder
    }

    fn value(&mut self, placeholder: &str, value: AttributeValue) {
        self.values.insert(placeholder.to_owned(), value);
    }

    pub(crate) fn finish(self) -> (String, Names, Option<Item>) {
        let values = (!self.values.is_empty()).then_some(self.values);
        (self.text, self.names, values)
    }
}

/// An update expression under construction, and the condition of the update.
pub(super) struct Change<'a> {
    pub(super) condition: Expression<'a>,
    set: String,
    remove: String,
}

impl<'a> Change<'a> {
    pub(super) const fn on(condition: Expression<'a>) -> Self {
        Self { condition, set: String::new(), remove: String::new() }
    }

    pub(super) fn set(&mut self, attribute: Attribute, value: AttributeValue) {
        let name = self.condition.name(attribute);
        let placeholder = name.replace('#', ":");
        self.set.push_str(if self.set.is_empty() { "SET " } else { ", " });
        let _ = write!(self.set, "{name} = {placeholder}");
        self.condition.value(&placeholder, value);
    }

    /// Sets one member of an attribute that already is a map.
    pub(super) fn set_member(&mut self, attribute: Attribute, member: &str, value: AttributeValue) {
        let name = self.condition.name(attribute);
        self.condition.names.insert("#member".to_owned(), member.to_owned());
        self.condition.value(":member", value);
        self.set.push_str(if self.set.is_empty() { "SET " } else { ", " });
        let _ = write!(self.set, "{name}.#member = :member");
    }

    /// Sets the record's attributes. Others stay, such as those of a later version.
    pub(super) fn record(&mut self, record: &Header, response: Option<AttributeValue>) {
        for (attribute, value) in record::state_values(record, response) {
            self.set_or_remove(attribute, value);
        }
    }

    /// Sets the attributes that no update changes later. Needed if the record may be absent.
    pub(super) fn beginning(&mut self, fingerprint: &StoredFingerprint, record: &Header) {
        for (attribute, value) in record::beginning_values(fingerprint, record) {
            self.set(attribute, value);
        }
    }

    /// Changes the version of the record, but nothing else.
    pub(super) fn touch(&mut self, record: &Header) {
        self.set(Attribute::Owner, AttributeValue::S(record.owner.to_string()));
        if let Some(end) = record.state.lease_expires_at() {
            self.set(Attribute::LeaseExpiresAt, record::number(end.millis()));
        }
    }

    /// Sets the end of the lease, if there is one, and `expires_at`.
    pub(super) fn lease(&mut self, record: &Header) {
        let lease = record.state.lease_expires_at().map(|at| record::number(at.millis()));
        self.set_or_remove(Attribute::LeaseExpiresAt, lease);
        self.set(Attribute::ExpiresAt, record::number(record.expires_at));
    }

    fn set_or_remove(&mut self, attribute: Attribute, value: Option<AttributeValue>) {
        match value {
            Some(value) => self.set(attribute, value),
            None => self.remove(attribute),
        }
    }

    pub(super) fn remove(&mut self, attribute: Attribute) {
        let name = self.condition.name(attribute);
        self.remove.push_str(if self.remove.is_empty() { " REMOVE " } else { ", " });
        self.remove.push_str(name);
    }

    pub(super) fn expression(&self) -> String {
        format!("{}{}", self.set, self.remove)
    }
}
