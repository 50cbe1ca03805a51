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
    /// Stores the first step of an operation. A delayed request finds a map and changes nothing.
    pub(crate) async fn store_first_step(
        &self,
        own_record: &OwnRecord,
        name: &str,
        value: AttributeValue,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let condition = Condition::held_by(own_record.owner).and(Term::NoSteps);
        let mut change = Change::on(Expression::of(&self.schema, &condition));
        let steps = HashMap::from([(name.to_owned(), value)]);
        change.set(Attribute::Steps, AttributeValue::M(steps));
        self.update(&own_record.key, change, limit).await
    }

    /// Stores a further step. An owner stores only one value under a name, so a delayed request
    /// changes nothing.
    pub(crate) async fn store_step(
        &self,
        own_record: &OwnRecord,
        name: &str,
        value: AttributeValue,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let condition = Condition::held_by(own_record.owner);
        let mut change = Change::on(Expression::of(&self.schema, &condition));
        change.set_member(Attribute::Steps, name, value);
        self.update(&own_record.key, change, limit).await
    }
}
