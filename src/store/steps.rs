//! The writes that store the results of steps.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::expression::{Change, Expression};
use super::{Reply, Table, WriteResult};
use crate::protocol::{Condition, Term};
use crate::store::key::RecordKey;
use crate::store::record::OwnerId;
use crate::store::schema::Attribute;

impl Table {
    /// Stores a step of an operation: as a member of the map of steps, or as a new map. An owner
    /// stores only one value under a name, and a delayed request for a new map finds one, so delayed
    /// requests change nothing.
    pub(crate) async fn store_step(
        &self,
        (key, owner): (&RecordKey, OwnerId),
        (name, value): (&str, AttributeValue),
        has_map: bool,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let held = Condition::held_by(owner);
        let condition = if has_map { held } else { held.and(Term::NoSteps) };
        let mut change = Change::on(Expression::of(&self.schema, &condition));
        if has_map {
            change.set_member(Attribute::Steps, name, value);
        } else {
            let steps = HashMap::from([(name.to_owned(), value)]);
            change.set(Attribute::Steps, AttributeValue::M(steps));
        }
        self.update(key, change, limit).await
    }
}
