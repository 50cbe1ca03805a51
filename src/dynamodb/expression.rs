//! Builds expressions: the condition of a write, and its changes.

use std::collections::HashMap;
use std::fmt::Write as _;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::clock::Timestamp;
use crate::fingerprint::StoredFingerprint;
use crate::protocol::{Header, State, Status, Version};
use crate::record::{self, Item, OwnerId};
use crate::schema::{Attribute, TableSchema};

type Names = HashMap<String, String>;

/// Builds a condition expression. Every method adds a term, and all must hold.
pub(super) struct Condition<'a> {
    schema: &'a TableSchema,
    expression: String,
    names: Names,
    values: Item,
}

impl<'a> Condition<'a> {
    pub(super) fn new(schema: &'a TableSchema) -> Self {
        // Enough room for most conditions.
        let expression = String::with_capacity(96);
        Self { schema, expression, names: Names::new(), values: Item::new() }
    }

    pub(super) fn absent(&mut self) {
        let key = self.key();
        self.and(&["attribute_not_exists(", key, ")"]);
    }

    /// Like [`held_by`](Self::held_by); also if the record is absent, or was released after this
    /// attempt or an earlier one.
    pub(super) fn free_or_held_by(&mut self, owner: &OwnerId, attempt: u32) {
        let (key, name, status) =
            (self.key(), self.name(Attribute::Owner), self.name(Attribute::Status));
        self.value(":me", AttributeValue::S(owner.to_string()));
        self.value(":pending", AttributeValue::S(Status::Pending.as_str().into()));
        self.and(&["(attribute_not_exists(", key, ") OR "]);
        let released = Status::Released.as_str().into();
        self.value(":released", AttributeValue::S(released));
        self.value(":later", record::number(attempt.saturating_add(1)));
        let attempt = self.name(Attribute::Attempt);
        self.expression.extend(["(", status, " = :released AND ", attempt, " < :later) OR "]);
        self.expression.extend(["(", name, " = :me AND ", status, " = :pending))"]);
    }

    /// The record is absent, or it is PENDING and belongs to the owner.
    pub(super) fn absent_or_held_by(&mut self, owner: &OwnerId) {
        let (key, name, status) =
            (self.key(), self.name(Attribute::Owner), self.name(Attribute::Status));
        self.value(":me", AttributeValue::S(owner.to_string()));
        self.value(":pending", AttributeValue::S(Status::Pending.as_str().into()));
        let held = [" OR (", name, " = :me AND ", status, " = :pending))"];
        self.and(&["(attribute_not_exists(", key, ")"]);
        self.expression.extend(held);
    }

    /// The record is PENDING and belongs to the owner. Every write of an owner has this condition.
    pub(super) fn held_by(&mut self, owner: &OwnerId) {
        self.owned_by(owner);
        self.pending();
    }

    pub(super) fn owned_by(&mut self, owner: &OwnerId) {
        self.equal(Attribute::Owner, ":me", AttributeValue::S(owner.to_string()));
    }

    pub(super) fn pending(&mut self) {
        self.equal(
            Attribute::Status,
            ":pending",
            AttributeValue::S(Status::Pending.as_str().into()),
        );
    }

    pub(super) fn absent_or_expires_before(&mut self, expires_at: i64) {
        let (key, name) = (self.key(), self.name(Attribute::ExpiresAt));
        self.value(":until", record::number(expires_at));
        self.and(&["(attribute_not_exists(", key, ") OR ", name, " < :until)"]);
    }

    pub(super) fn lease_ends_before(&mut self, end: Timestamp) {
        let name = self.name(Attribute::LeaseExpiresAt);
        self.value(":until", record::number(end.millis()));
        self.and(&[name, " < :until"]);
    }

    /// The record has exactly the state that was read.
    pub(super) fn version(&mut self, seen: &Version) {
        self.equal(Attribute::Owner, ":seen_owner", AttributeValue::S(seen.owner.to_string()));
        self.equal(
            Attribute::Status,
            ":seen_status",
            AttributeValue::S(seen.status.as_str().into()),
        );
        if let Some(lease) = seen.lease_expires_at {
            self.lease_is(lease);
        }
        match seen.steps {
            None => self.no_steps(),
            Some(count) => {
                let name = self.name(Attribute::Steps);
                self.value(":seen_steps", AttributeValue::N(count.to_string()));
                self.and(&["size(", name, ") = :seen_steps"]);
            }
        }
    }

    #[cfg_attr(not(feature = "admin"), expect(dead_code, reason = "only tools delete"))]
    pub(super) fn expires_at_is(&mut self, seen: i64) {
        self.equal(Attribute::ExpiresAt, ":seen_expires_at", record::number(seen));
    }

    pub(super) fn lease_is(&mut self, seen: Timestamp) {
        self.equal(Attribute::LeaseExpiresAt, ":seen_lease", record::number(seen.millis()));
    }

    /// The record has never stored a step.
    pub(super) fn no_steps(&mut self) {
        let name = self.name(Attribute::Steps);
        self.and(&["attribute_not_exists(", name, ")"]);
    }

    fn equal(&mut self, attribute: Attribute, placeholder: &str, value: AttributeValue) {
        let name = self.name(attribute);
        self.value(placeholder, value);
        self.and(&[name, " = ", placeholder]);
    }

    /// Adds a term, which consists of several pieces.
    fn and(&mut self, term: &[&str]) {
        if !self.expression.is_empty() {
            self.expression.push_str(" AND ");
        }
        self.expression.extend(term.iter().copied());
    }

    /// The attribute that shows whether the item exists.
    fn key(&mut self) -> &'static str {
        let name = self.schema.partition_key_name().to_owned();
        self.names.insert("#key".to_owned(), name);
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

    pub(super) fn finish(self) -> (String, Names, Option<Item>) {
        let values = (!self.values.is_empty()).then_some(self.values);
        (self.expression, self.names, values)
    }
}

/// Builds an update expression and the condition that fences it.
pub(super) struct Change<'a> {
    pub(super) condition: Condition<'a>,
    set: String,
    remove: String,
}

impl<'a> Change<'a> {
    pub(super) fn new(schema: &'a TableSchema) -> Self {
        Self::on(Condition::new(schema))
    }

    pub(super) const fn on(condition: Condition<'a>) -> Self {
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
        let status = record.state.status();
        self.set(Attribute::Status, AttributeValue::S(status.as_str().into()));
        self.set(Attribute::Owner, AttributeValue::S(record.owner.to_string()));
        self.set(Attribute::Attempt, record::number(record.attempt));
        self.set(Attribute::ExpiresAt, record::number(record.expires_at));
        if record.released_attempts > 0 && record.state != State::Released {
            let released = record::number(record.released_attempts);
            self.set(Attribute::ReleasedAttempts, released);
        }
        let time = |at: Timestamp| record::number(at.millis());
        let lease = record.state.lease_expires_at().map(time);
        self.set_or_remove(Attribute::LeaseExpiresAt, lease);
        self.set_or_remove(Attribute::CompletedAt, record.completed_at.map(time));
        self.set_or_remove(Attribute::Response, response);
    }

    /// Sets the attributes that no write changes later. Needed if the record may be absent.
    pub(super) fn beginning(&mut self, fingerprint: &StoredFingerprint, record: &Header) {
        let fingerprint = AttributeValue::B(Blob::new(fingerprint.encode()));
        self.set(Attribute::Fingerprint, fingerprint);
        self.set(Attribute::CreatedAt, record::number(record.created_at.millis()));
        self.set(Attribute::Format, record::format());
    }

    /// Changes the version of the record, but nothing else.
    pub(super) fn touch(&mut self, record: &Header) {
        self.set(Attribute::Owner, AttributeValue::S(record.owner.to_string()));
        if let Some(end) = record.state.lease_expires_at() {
            self.set(Attribute::LeaseExpiresAt, record::number(end.millis()));
        }
        if record.steps == Some(0) {
            self.set(Attribute::Steps, AttributeValue::M(HashMap::new()));
        }
    }

    /// Moves the end of the lease.
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

    /// Releases the record.
    #[cfg(feature = "admin")]
    pub(super) fn release(&mut self, attempt: u32, expires_at: i64) {
        self.set(Attribute::Status, AttributeValue::S(Status::Released.as_str().into()));
        self.set(Attribute::Attempt, record::number(attempt));
        self.set(Attribute::ExpiresAt, record::number(expires_at));
        self.remove(Attribute::LeaseExpiresAt);
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
