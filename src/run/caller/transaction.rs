//! A whole operation as one transaction. The record is never PENDING. DynamoDB cancels the
//! transaction of a duplicate, and returns the record with the stored answer.

use aws_sdk_dynamodb::types::TransactWriteItem;

use super::{Caller, Progress};
use crate::answer::{Answer, Stored, Unstorable};
use crate::protocol::Goal;
use crate::run::call::End;
use crate::run::transaction::items;
use crate::store::record::completed_header;

impl Caller<'_> {
    pub(super) async fn transact(
        &mut self,
        answer: Answer,
        mut items: Vec<TransactWriteItem>,
    ) -> Result<Progress, End> {
        if let Some(replay) = self.call.cached(self.core) {
            return Err(End::Replayed(replay));
        }
        let (stored, record_bytes) = match self.place(answer).await {
            Ok(placed) => placed,
            Err(unstorable) => {
                // The transaction is not sent, but an earlier call may have completed the operation.
                *self = Self::new(self.core, self.call, Goal::LookUp, false)?;
                return match self.send().await? {
                    Progress::NothingWritten => Ok(Progress::ItemsRejected(unstorable.into())),
                    found => Ok(found),
                };
            }
        };
        let (table, key) = (&self.core.table, &self.call.key);
        if let Err(invalid) = items::prepare(table, key, record_bytes, &mut items) {
            return Ok(Progress::ItemsRejected(invalid));
        }
        (self.session.answer, self.session.items) = (Some(stored), items);
        self.send().await
    }

    pub(super) async fn answer_without_items(&mut self, answer: Answer) -> Result<Progress, End> {
        let stored = match self.place(answer).await {
            Ok((stored, _)) => stored,
            Err(unstorable) => return Ok(Progress::ItemsRejected(unstorable.into())),
        };
        (self.session.answer, self.session.items) = (Some(stored), Vec::new());
        let command = self.machine.answer_without_items(self.core.table.clock.moment());
        self.proceed(command).await
    }

    /// Chooses the form of an answer, which must lie in the record. Also returns the record's size.
    async fn place(&self, answer: Answer) -> Result<(Stored, usize), Unstorable> {
        let now = self.core.table.clock.guess();
        // An estimate of the record, to compute its size.
        let expires_at = now.plus(self.call.policy.retention).seconds_up();
        let record = completed_header(self.session.me, 1, now, expires_at);
        let answer = self.call.answers.stored(answer);
        self.core.place_answer(answer, self.call, &record, None).await
    }
}
