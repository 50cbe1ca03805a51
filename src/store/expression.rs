//! Renders the condition of a write and its changes as expressions of DynamoDB.

use std::collections::HashMap;
use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::clock::Timestamp;
use crate::fingerprint::StoredFingerprint;
use crate::protocol::{Condition, RecordMeta, Term};
use crate::store::attribute;
use crate::store::record::{self, Item, Value};
use crate::store::schema::TableSchema;

type Names = HashMap<String, String>;

/// Stands for the TTL attribute, whose name can have characters that a placeholder cannot have.
const TTL: &str = "expires_at";

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
                // The partition key shows whether the item exists.
                let key = self.schema.key_names().next().unwrap_or_default();
                self.name_as("key", key);
                self.push(&["attribute_not_exists(#key)"]);
            }
            Term::NoSteps => {
                self.name(attribute::STEPS);
                self.push(&["attribute_not_exists(#", attribute::STEPS, ")"]);
            }
            Term::Steps(count) => {
                self.name(attribute::STEPS);
                let count = self.bind(AttributeValue::N(count.to_string()));
                self.push(&["size(#", attribute::STEPS, ") = ", &count]);
            }
            Term::Owner(owner) => self.compare(attribute::OWNER, "=", text(&owner.to_string())),
            Term::Status(status) => self.compare(attribute::STATUS, "=", text(status.as_str())),
            Term::LeaseExpiresAt(at) => self.compare(attribute::LEASE_EXPIRES_AT, "=", time(at)),
            Term::LeaseExpiresBefore(at) => {
                self.compare(attribute::LEASE_EXPIRES_AT, "<", time(at));
            }
            Term::AttemptAtMost(attempt) => {
                self.compare(attribute::ATTEMPT, "<=", record::number(attempt));
            }
            Term::ExpiresAt(at) => self.compare(TTL, "=", record::number(at)),
            Term::ExpiresBefore(at) => self.compare(TTL, "<", record::number(at)),
        }
    }

    fn compare(&mut self, attribute: &'static str, operator: &str, value: AttributeValue) {
        self.name(attribute);
        let value = self.bind(value);
        self.push(&["#", attribute, " ", operator, " ", &value]);
    }

    fn push(&mut self, pieces: &[&str]) {
        self.text.extend(pieces.iter().copied());
    }

    /// Adds a value, and returns its placeholder.
    fn bind(&mut self, value: AttributeValue) -> String {
        let placeholder = format!(":is{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    /// Adds the name of an attribute under the placeholder `#attribute`. Many names are reserved words of
    /// DynamoDB.
    fn name(&mut self, attribute: &'static str) {
        let name = if attribute == TTL { self.schema.ttl_name() } else { attribute };
        self.name_as(attribute, name);
    }

    fn name_as(&mut self, placeholder: &str, name: &str) {
        self.names.insert(format!("#{placeholder}"), name.to_owned());
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

    pub(super) fn set(&mut self, attribute: &'static str, value: AttributeValue) {
        self.condition.name(attribute);
        self.begin_assignment();
        let _ = write!(self.set, "#{attribute} = :{attribute}");
        self.condition.values.insert(format!(":{attribute}"), value);
    }

    pub(super) fn set_expiry(&mut self, expires_at: i64) {
        self.set(TTL, record::number(expires_at));
    }

    /// Sets a step, in a map that already exists.
    pub(super) fn set_step(&mut self, name: &str, value: AttributeValue) {
        self.condition.name(attribute::STEPS);
        self.condition.name_as("member", name);
        self.condition.values.insert(":member".to_owned(), value);
        self.begin_assignment();
        let _ = write!(self.set, "#{}.#member = :member", attribute::STEPS);
    }

    fn begin_assignment(&mut self) {
        self.set.push_str(if self.set.is_empty() { "SET " } else { ", " });
    }

    /// Sets the record's attributes. Others stay, such as those of a later version.
    pub(super) fn record(&mut self, record: &RecordMeta, response: Option<AttributeValue>) {
        for (attribute, value) in record::state_values(record, response) {
            self.set_or_remove(attribute, value.map(Value::encode));
        }
        self.set_expiry(record.expires_at);
    }

    /// Sets the attributes that no update changes later. Needed if the record may be absent.
    pub(super) fn beginning(&mut self, fingerprint: &StoredFingerprint, record: &RecordMeta) {
        for (attribute, value) in record::beginning_values(fingerprint, record) {
            self.set(attribute, value.encode());
        }
    }

    /// Changes the version of the record, but nothing else.
    pub(super) fn touch(&mut self, record: &RecordMeta) {
        self.set(attribute::OWNER, AttributeValue::S(record.owner.to_string()));
        if let Some(end) = record.state.lease_expires_at() {
            self.set(attribute::LEASE_EXPIRES_AT, record::number(end.millis()));
        }
    }

    /// Sets the end of the lease, if there is one, and `expires_at`.
    pub(super) fn lease(&mut self, record: &RecordMeta) {
        let lease = record.state.lease_expires_at().map(|at| record::number(at.millis()));
        self.set_or_remove(attribute::LEASE_EXPIRES_AT, lease);
        self.set_expiry(record.expires_at);
    }

    fn set_or_remove(&mut self, attribute: &'static str, value: Option<AttributeValue>) {
        match value {
            Some(value) => self.set(attribute, value),
            None => self.remove(attribute),
        }
    }

    pub(super) fn remove(&mut self, attribute: &'static str) {
        self.condition.name(attribute);
        self.remove.push_str(if self.remove.is_empty() { " REMOVE #" } else { ", #" });
        self.remove.push_str(attribute);
    }

    pub(super) fn expression(&self) -> String {
        format!("{}{}", self.set, self.remove)
    }
}
