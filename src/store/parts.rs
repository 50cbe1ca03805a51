//! The items that hold the parts of an answer.

use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use super::expression::Expression;
use super::{Consistency, Reply, Table, WriteResult};
use crate::error::Error;
use crate::protocol::{Condition, Term};
use crate::store::key::RecordKey;
use crate::store::record::{self, OwnerId, Part};

impl Table {
    /// Writes one part of an answer. Its key identifies its content. So if the condition fails
    /// because the part exists and stays long enough, the part is in the table.
    pub(crate) async fn put_part(
        &self,
        key: &RecordKey,
        owner: &OwnerId,
        expires_at: i64,
        bytes: Vec<u8>,
        limit: Duration,
    ) -> Reply<WriteResult> {
        let condition = Condition::absent().or(&[Term::ExpiresBefore(expires_at)]);
        let condition = Expression::of(&self.schema, &condition);
        let bytes = AttributeValue::B(Blob::new(bytes));
        let item = record::part_item(&self.schema, key, owner, expires_at, bytes);
        self.put(item, condition, limit).await
    }

    /// Reads one part of an answer that `owner` stored.
    pub(crate) async fn get_part(
        &self,
        key: &RecordKey,
        owner: &OwnerId,
        consistency: Consistency,
        limit: Duration,
    ) -> Result<Option<Part>, Error> {
        let item = self.read(key, consistency, limit).await.outcome?;
        Ok(item.map(|item| Part::decode(&self.schema, item, owner)))
    }
}
