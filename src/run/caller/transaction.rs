//! A whole operation as one transaction. The record is never PENDING, and the transaction of a
//! duplicate is canceled with the stored answer.

use std::sync::Arc;

use aws_sdk_dynamodb::types::TransactWriteItem;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{Caller, Progress};
use crate::answer::{Answer, Stored, Unstorable};
use crate::error::Error;
use crate::protocol::{Form, Goal};
use crate::run::call::CallContext;
use crate::run::core::Core;
use crate::run::transaction::items;
use crate::store::record::{ONE_BYTE, OwnRecord};

impl<'a> Caller<'a> {
    /// A call that writes a transaction.
    pub(crate) fn of_transaction(
        core: &'a Arc<Core>,
        call: &'a CallContext,
    ) -> Result<Self, Error> {
        Self::new(core, call, Goal::Transact { form: Form::Transaction }, false)
    }

    /// Writes `items` and the completed record, unless the operation is completed already.
    pub(crate) fn transact(
        &mut self,
        answer: Answer,
        items: Vec<TransactWriteItem>,
    ) -> BoxFuture<'_, Result<Progress, Error>> {
        let transacting = async move {
            let progress = self.write(answer, items).await;
            self.signaled(progress)
        };
        transacting.boxed()
    }

    /// Continues after [`Progress::ItemsRejected`] with an answer, which is stored on the condition of the
    /// transaction. So DynamoDB applies either it or an earlier try of the transaction, or neither.
    pub(crate) fn answer_without_items(
        &mut self,
        answer: Answer,
    ) -> BoxFuture<'_, Result<Progress, Error>> {
        let answering = async move {
            let progress = self.write_without_items(answer).await;
            self.signaled(progress)
        };
        answering.boxed()
    }

    /// Continues after [`Progress::ItemsRejected`] without an answer: returns once no earlier try of the
    /// transaction can be applied.
    pub(crate) fn no_answer(&mut self) -> BoxFuture<'_, Result<Progress, Error>> {
        let ending = async move {
            let command = self.machine.no_answer(self.core.table.clock.moment());
            let progress = self.proceed(command).await;
            self.signaled(progress)
        };
        ending.boxed()
    }

    async fn write(
        &mut self,
        answer: Answer,
        mut items: Vec<TransactWriteItem>,
    ) -> Result<Progress, Error> {
        if let Some(answer) = self.call.cached(self.core) {
            return Ok(Progress::Replay(answer));
        }
        let own_record = self.own_record();
        let stored = match self.place(&own_record, answer).await {
            Ok(stored) => stored,
            Err(unstorable) => {
                // Nothing is sent, but the operation may be completed already.
                *self = Self::new(self.core, self.call, Goal::LookUp, false)?;
                return match self.send().await? {
                    Progress::NothingWritten => Ok(Progress::ItemsRejected(unstorable.into())),
                    found => Ok(found),
                };
            }
        };
        let (schema, expires_at) = (&self.core.table.schema, self.expires_at(&own_record));
        let bytes = own_record.completed_bytes(
            schema,
            own_record.created_at,
            expires_at,
            stored.attribute(),
        );
        let prepared = items::prepare(&self.core.table, &own_record.key, bytes, &mut items);
        if let Err(invalid) = prepared {
            return Ok(Progress::ItemsRejected(invalid));
        }
        self.body.write_transaction(stored, items);
        self.send().await
    }

    async fn write_without_items(&mut self, answer: Answer) -> Result<Progress, Error> {
        match self.place(&self.own_record(), answer).await {
            Ok(stored) => self.body.write_transaction(stored, Vec::new()),
            Err(unstorable) => return Ok(Progress::ItemsRejected(unstorable.into())),
        }
        let command = self.machine.answer_without_items(self.core.table.clock.moment());
        self.proceed(command).await
    }

    /// Chooses the form of an answer, which must lie in the record.
    async fn place(&self, own_record: &OwnRecord, answer: Answer) -> Result<Stored, Unstorable> {
        let (schema, expires_at) = (&self.core.table.schema, self.expires_at(own_record));
        let rest = own_record.completed_bytes(schema, own_record.created_at, expires_at, ONE_BYTE);
        self.body.place(answer, rest, None).await
    }

    /// An estimate of the record, to compute its size.
    fn own_record(&self) -> OwnRecord {
        OwnRecord {
            key: self.call.key.clone(),
            owner: self.body.owner,
            attempt: 1,
            fingerprint: self.call.fingerprint.to_store(),
            created_at: self.core.table.clock.guess(),
        }
    }

    fn expires_at(&self, own_record: &OwnRecord) -> i64 {
        own_record.created_at.plus(self.call.policy.retention).seconds_up()
    }
}
