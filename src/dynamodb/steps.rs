//! The writes that store the results of steps.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::expression::Change;
use super::{Reply, Table, WriteOutcome};
use crate::record::Claim;
use crate::schema::Attribute;

impl Table {
    /// Stores the first step of an operation. A delayed request finds a map and changes nothing.
    pub(crate) async fn store_first_step(
        &self,
        claim: &Claim,
        name: &str,
        value: AttributeValue,
        limit: Duration,
    ) -> Reply<WriteOutcome> {
        let mut change = Change::new(&self.schema);
        change.condition.held_by(&claim.owner);
        change.condition.no_steps();
        let steps = HashMap::from([(name.to_owned(), value)]);
        change.set(Attribute::Steps, AttributeValue::M(steps));
        self.update(&claim.key, change, limit).await
    }

    /// Stores a further step. An owner stores only one value under a name, so a delayed request
    /// changes nothing.
    pub(crate) async fn store_step(
        &self,
        claim: &Claim,
        name: &str,
        value: AttributeValue,
        limit: Duration,
    ) -> Reply<WriteOutcome> {
        let mut change = Change::new(&self.schema);
        change.condition.held_by(&claim.owner);
        change.set_member(Attribute::Steps, name, value);
        self.update(&claim.key, change, limit).await
    }
}
