//! The items that hold the parts of an answer.

use std::time::Duration;

use super::expression::Expression;
use super::{Reply, Table, WriteResult};
use crate::protocol::{Condition, Term};
use crate::store::key::RecordKey;
use crate::store::record::{self, OwnerId};

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
        let item = record::part_item(&self.schema, key, owner, expires_at, bytes);
        self.put(item, condition, limit).await
    }
}
