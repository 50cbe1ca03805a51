//! The writes that keep an unfinished operation: its steps, its settled outcome, what is given back.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::expression::{Change, Condition};
use super::{Reply, Table, Write};
use crate::clock::Timestamp;
use crate::fault_injection::{Mutant, mutant};
use crate::record::{self, Claim, Item, Owner, Taken, Version};
use crate::schema::Attribute;

impl Table {
    /// Stores the first of an operation's steps. A late copy finds a map and changes nothing of it.
    pub(crate) async fn store_first_step(
        &self,
        claim: &Claim,
        name: &str,
        value: AttributeValue,
        limit: Duration,
    ) -> Reply<Write> {
        let mut change = Change::new(&self.schema);
        if !mutant(Mutant::StepUnfenced) {
            change.condition.held_by(&claim.owner);
        }
        change.condition.no_steps();
        let steps = HashMap::from([(name.to_owned(), value)]);
        change.set(Attribute::Steps, AttributeValue::M(steps));
        self.update(&claim.key, change, limit).await
    }

    /// Stores a step beside others. An owner stores one value under a name, so a late copy changes
    /// nothing.
    pub(crate) async fn store_step(
        &self,
        claim: &Claim,
        name: &str,
        value: AttributeValue,
        limit: Duration,
    ) -> Reply<Write> {
        let mut change = Change::new(&self.schema);
        change.condition.held_by(&claim.owner);
        change.set_member(Attribute::Steps, name, value);
        self.update(&claim.key, change, limit).await
    }

    /// Leaves a record as its owner has found it, who has executed nothing: what there was before stays
    /// counted. A record that was abandoned is again, its lease over, and another owner's in name, so
    /// that nothing which this one has sent changes it any more.
    pub(crate) async fn give_back(
        &self,
        claim: &Claim,
        lease_expires_at: Timestamp,
        expires_at: i64,
        limit: Duration,
    ) -> Reply<Write> {
        let mut change = Change::new(&self.schema);
        change.condition.held_by(&claim.owner);
        match &claim.taken {
            Taken::Nothing => return self.release(claim, lease_expires_at, limit).await,
            Taken::Failed { .. } | Taken::Abandoned { .. }
                if mutant(Mutant::ForgetWhatWasTaken) =>
            {
                return self.release(claim, lease_expires_at, limit).await;
            }
            Taken::Failed { response } => {
                change.fail(claim, self.clock.store_now(), expires_at, response.clone());
            }
            Taken::Abandoned { lease_expires_at } => {
                let nobody = match Owner::random() {
                    Ok(nobody) => nobody,
                    Err(error) => return Reply { outcome: Write::NotApplied(error), time: None },
                };
                change.set(Attribute::Owner, AttributeValue::S(nobody.as_str().into()));
                change.set(Attribute::Attempt, record::number(claim.attempt));
                change.set(Attribute::LeaseExpiresAt, record::number(lease_expires_at.millis()));
            }
        }
        if claim.released_attempts > 0 {
            change.set(Attribute::ReleasedAttempts, record::number(claim.released_attempts));
        }
        self.update(&claim.key, change, limit).await
    }

    /// Writes the finished record over an abandoned one that is still as it was seen.
    pub(crate) async fn settle_completed(
        &self,
        item: Item,
        seen: &Version,
        limit: Duration,
    ) -> Reply<Write> {
        let mut condition = Condition::new(&self.schema);
        if !mutant(Mutant::SettleUnfenced) {
            condition.version(seen);
        }
        self.put(item, condition, limit).await
    }

    /// Makes an abandoned record that is still as it was seen a failed one of the claim's owner's.
    pub(crate) async fn settle_failed(
        &self,
        claim: &Claim,
        failed_at: Timestamp,
        expires_at: i64,
        response: Option<AttributeValue>,
        seen: &Version,
        limit: Duration,
    ) -> Reply<Write> {
        let mut change = Change::new(&self.schema);
        change.condition.version(seen);
        change.set(Attribute::Owner, AttributeValue::S(claim.owner.as_str().into()));
        change.fail(claim, failed_at, expires_at, response);
        self.update(&claim.key, change, limit).await
    }
}
