//! The writes that store the results of steps.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::expression::{Change, Expression};
use super::{Reply, Table, WriteResult};
use crate::protocol::{Condition, Term};
use crate::store::record::OwnRecord;
use crate::store::schema::Attribute;

impl Table {
    /// Stores a step. A record without a map of steps gets one with this step, and a delayed request finds a
    /// map and changes nothing. An owner stores only one value under a name, so a delayed request of a
    /// further step changes nothing either.
    pub(crate) async fn store_step(
        &self,
        own_record: &OwnRecord,
        (name, value): (&str, AttributeValue),
        has_map: bool,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let held = Condition::held_by(own_record.owner);
        let condition = if has_map { held } else { held.and(Term::NoSteps) };
        let mut change = Change::on(Expression::of(&self.schema, &condition));
        if has_map {
            change.set_member(Attribute::Steps, name, value);
        } else {
            let steps = HashMap::from([(name.to_owned(), value)]);
            change.set(Attribute::Steps, AttributeValue::M(steps));
        }
        self.update(&own_record.key, change, limit).await
    }
}
