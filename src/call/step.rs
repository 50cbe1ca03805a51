//! Steps: parts of an operation whose results a later attempt gets back.

use std::future::Future;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::codec::Coder;
use crate::answer::to_json;
use crate::call::execution::{Execution, Inner};
use crate::call::steps::{Placed, Room, StepItem};
use crate::call::user_code;
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, RunError};
use crate::protocol::{Command, StepCommand, StepResult, StepWrite};
use crate::store::record::{self, ItemValue, StepValue, StoredStep};

impl Execution {
    /// Runs one part of the operation once, and stores its result. A later attempt of the operation gets the
    /// stored result instead of running the part again.
    ///
    /// ```
    /// use dynamodb_idempotency::{Execution, RunError};
    /// # async fn reserve(_: &str) -> Result<u32, std::io::Error> { Ok(1) }
    /// # async fn charge(_: u32, _: &str) -> Result<String, std::io::Error> { Ok("ch_1".into()) }
    ///
    /// async fn order(execution: Execution) -> Result<String, RunError<std::io::Error>> {
    ///     let seat = execution.step("reserve", reserve("A1")).await?;
    ///     let key = execution.derive_key("charge").uuid();
    ///     execution.step("charge", charge(seat, &key)).await
    /// }
    /// ```
    ///
    /// The result is stored before this returns. A step that is done therefore never runs again, whether
    /// the next attempt follows a crash, a lost lease or a failure of the handler. A step can happen twice
    /// only if, between its effect and the write, the owner dies, is stopped at the end of its lease, or
    /// cannot confirm the write. Therefore also send a [derived key](Self::derive_key) with a call to
    /// another service.
    ///
    /// The work must be lazy, as `async` blocks and functions are: if the result is stored already, the
    /// work is dropped and never polled. Only an `Ok` is stored. After an `Err` the name can be used again.
    /// The result is stored as JSON: see [`run`](crate::Call::run) for values that JSON cannot represent.
    ///
    /// Names have 1 to 255 bytes, and an execution uses each name once. Names and result types are stored:
    /// do not change them while operations are unfinished. An owner never releases a record with steps.
    /// After a failure under [`Failure::Release`](crate::policy::Failure::Release), and after a
    /// [`discard`](Self::discard) that follows a step, the record is kept as FAILED, and the next call
    /// continues after the steps. The completion removes the steps.
    ///
    /// A step costs one write of the record, and nothing if its result is stored already. A result for which
    /// the record would take a further write unit (usually more than 1 KB) is stored in an item of its own,
    /// which costs one write unit per KB, and the record only notes it.
    ///
    /// A result has at most 400 KB, as JSON or as encoded by the [`AnswerCodec`](crate::AnswerCodec). Those in
    /// items have at most [`Policy::max_answer_bytes`](crate::Policy::max_answer_bytes) together. Names, notes
    /// and results in the record have at most 256 KiB. If a result is too large or cannot be serialized, or if
    /// DynamoDB does not store its item in time and the record has no room for it, its
    /// step still counts as done, so no later attempt repeats it. Without a record
    /// ([`is_protected`](Self::is_protected)) a step runs, and nothing is stored.
    ///
    /// # Errors
    /// [`RunError::Handler`] with the work's own error. Nothing is stored, and the next attempt runs the
    /// work again.
    ///
    /// Before the work runs: [`ErrorKind::InvalidUse`] if the name is empty, too long or already used, if
    /// the record has no room for a step, or after a [`commit`](Self::commit) or the handler's return;
    /// [`ErrorKind::LeaseLost`] if the lease has expired or is lost. For a stored result:
    /// [`ErrorKind::AnswerUnreadable`] if it has another type, [`ErrorKind::AnswerUnavailable`] if it could
    /// not be stored or its item is lost, and [`ErrorKind::StepsUnreadable`] if the codec cannot decode it.
    ///
    /// After the work has run, [`Error::step_ran`] is `true`: [`ErrorKind::AnswerUnavailable`] if the
    /// result cannot be stored, [`ErrorKind::LeaseLost`] if the owner lost the key,
    /// [`ErrorKind::OutcomeUnknown`] if DynamoDB did not confirm the write within
    /// [`Policy::completion_timeout`](crate::Policy::completion_timeout) and before the deadline, and
    /// [`ErrorKind::InvalidUse`] if the operation had ended. By default a handler that loses its lease is
    /// stopped. It sees `LeaseLost` only under
    /// [`LeaseExpired::Continue`](crate::policy::LeaseExpired::Continue), or in a task that it has spawned.
    pub async fn step<T, E>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, RunError<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        self.inner.call.stores_answers("a step")?;
        let (reserved, done) = self.inner.steps.reserve(name)?;
        if let Some(done) = done {
            reserved.keep();
            return Ok(done.read(name, self.coder())?);
        }
        self.may_start_or_halt(name).await?;
        let value = user_code::run_or_resume(work).await.map_err(RunError::Handler)?;
        // The work has run: whatever happens to its result, the name is used.
        reserved.keep();
        self.stored(name, value).await
    }

    /// Stores the result of a step that has run.
    pub(super) async fn stored<T: Serialize, E>(
        &self,
        name: &str,
        value: T,
    ) -> Result<T, RunError<E>> {
        let stored = self.store(name, to_json(&value)).await;
        self.halt_if_lost().await;
        stored.map_err(Error::of_step_that_ran)?;
        Ok(value)
    }

    /// The handler of a call that has lost its lease is stopped here.
    pub(super) async fn may_start_or_halt(&self, name: &str) -> Result<(), Error> {
        let may_start = self.may_start(name);
        if may_start.as_ref().is_err_and(|error| error.kind() == ErrorKind::LeaseLost) {
            self.halt().await;
        }
        may_start
    }

    /// The handler of a call whose write has shown that it lost its lease is stopped here.
    pub(super) async fn halt_if_lost(&self) {
        if self.is_lease_lost() {
            self.halt().await;
        }
    }

    pub(super) fn coder(&self) -> Coder<'_> {
        self.inner.core.coding.of(&self.inner.call.key)
    }

    /// After the lease has expired, no work starts: its effect could overlap with the next owner's effect.
    fn may_start(&self, name: &str) -> Result<(), Error> {
        if self.tenure().is_over() {
            let message = format!(
                "step `{name}` was not started: a commit or the handler's return has ended the operation"
            );
            return Err(Error::new(ErrorKind::InvalidUse, message));
        }
        if self.is_protected() && self.lease_remaining() == Duration::ZERO {
            let message = format!("step `{name}` was not started: the lease is over");
            return Err(Error::new(ErrorKind::LeaseLost, message));
        }
        Ok(())
    }

    /// Stores the result of a step, or only that it is done if the result cannot be stored.
    /// Boxed, as [`acquire`](crate::call::acquiring::acquire) is.
    fn store<'a>(
        &'a self,
        name: &'a str,
        json: Result<String, String>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let storing = async move {
            if !self.is_protected() {
                return Ok(());
            }
            // Encoded only once, because a later try recognizes an earlier one by its bytes.
            let made = json.and_then(|json| StepValue::new(name, json, self.coder()));
            let error = match made.and_then(|value| self.place_step(name, &value)) {
                Ok(placed) => match self.write_placed(name, placed).await {
                    Ok(()) => return Ok(()),
                    Err(NotStored::Invalid(invalid)) => {
                        unstorable(name, "DynamoDB rejects it").with_source(invalid)
                    }
                    Err(NotStored::ItemUnconfirmed(error)) => {
                        let reason =
                            "its item was not confirmed, and the record has no room for it";
                        unstorable(name, reason).with_source(error)
                    }
                    Err(other) => return Err(Self::not_stored(name, other)),
                },
                Err(reason) => {
                    self.inner.steps.place_unavailable(name);
                    unstorable(name, &reason)
                }
            };
            let unavailable = StoredStep::Unavailable.encode();
            let written = self.write_step(name, &unavailable, None, self.tries_until()).await;
            written.map_err(|reason| Self::not_stored(name, reason))?;
            tracing::error!(operation = self.operation(), %error, "a step cannot be stored");
            Err(error)
        };
        storing.boxed()
    }

    /// Chooses where a result is stored. The error is why it cannot be stored.
    fn place_step(&self, name: &str, value: &StepValue) -> Result<Placed, String> {
        let Inner { core, call, steps, .. } = &*self.inner;
        let fingerprint = call.fingerprint.to_store();
        let record = self.completed_meta();
        let of = (&call.key, &fingerprint);
        let room = Room {
            record_without_steps: record::pending_bytes(&core.table.schema, of, &record),
            max_item_bytes: call.policy.max_answer_bytes,
        };
        steps.place(name, value, room, || core.step_item(&call.key, name, value))
    }

    /// Writes a result. If its item is not confirmed, the result goes into the record if it fits.
    async fn write_placed(&self, name: &str, placed: Placed) -> Result<(), NotStored> {
        let until = self.tries_until();
        let item = match placed {
            Placed::InRecord(value) => return self.write_step(name, &value, None, until).await,
            Placed::InItem(item) => item,
        };
        let note = StoredStep::InItem(item.note, ItemValue::Unread).encode();
        let error = match self.write_step(name, &note, Some(&item), until).await {
            Err(NotStored::ItemUnconfirmed(error)) => error,
            written => return written,
        };
        let Some(value) = self.inner.steps.move_into_record(name, item) else {
            return Err(NotStored::ItemUnconfirmed(error));
        };
        tracing::warn!(
            operation = self.operation(), %error,
            "a step's item was not confirmed: its result goes into the record"
        );
        self.write_step(name, &value, None, until).await
    }

    /// Tries to write a step until the write is confirmed or finally rejected, or the time is over. `value` is
    /// what the record stores under the name: the result, or the note of its item.
    pub(super) async fn write_step(
        &self,
        name: &str,
        value: &AttributeValue,
        item: Option<&StepItem>,
        until: Deadline,
    ) -> Result<(), NotStored> {
        let clock = &self.inner.core.table.clock;
        let mut session = self.session();
        session.step = Some(Box::new((name.to_owned(), value.clone())));
        let (mut write, mut command) =
            StepWrite::start(&mut self.tenure(), clock.moment(), until, item);
        let result = loop {
            let reply = match command {
                StepCommand::PutItem { item, expires_at, limit } => {
                    session.put_step_item(item, expires_at, limit).await
                }
                StepCommand::Record(Command::Return(result)) => break result,
                StepCommand::Record(Command::Pause { bound, max }) => {
                    clock.pause(bound, max).await;
                    command = write.woke(&mut self.tenure(), clock.moment());
                    continue;
                }
                StepCommand::Record(Command::Read { is_consistent, limit }) => {
                    session.read(is_consistent, limit).await
                }
                StepCommand::Record(Command::Send { write, limit }) => {
                    session.write(&write, limit).await
                }
            };
            let has_step = session.shows_step();
            command = write.replied(&mut self.tenure(), clock.moment(), &reply, has_step);
        };
        match result {
            StepResult::Stored => Ok(()),
            StepResult::Invalid => Err(NotStored::Invalid(session.take_error())),
            StepResult::Lost => {
                self.inner.handler.wake();
                Err(NotStored::Lost)
            }
            StepResult::Over => Err(NotStored::Over),
            StepResult::Unconfirmed => Err(NotStored::Unconfirmed(session.take_error())),
            StepResult::ItemUnconfirmed => Err(NotStored::ItemUnconfirmed(session.take_error())),
        }
    }

    /// The error of a step whose work has run.
    fn not_stored(name: &str, reason: NotStored) -> Error {
        match reason {
            NotStored::Invalid(source)
            | NotStored::Unconfirmed(source)
            | NotStored::ItemUnconfirmed(source) => unconfirmed(name, source),
            NotStored::Lost => {
                let message = format!(
                    "step `{name}` HAS run and is not stored: another execution owns the key, or its \
                     record was deleted"
                );
                Error::new(ErrorKind::LeaseLost, message)
            }
            NotStored::Over => {
                let message =
                    format!("step `{name}` HAS run and is not stored: its operation is over");
                Error::new(ErrorKind::InvalidUse, message)
            }
        }
    }
}

/// Why a step is not in the record, as far as the execution knows.
#[derive(Debug)]
pub(super) enum NotStored {
    /// DynamoDB rejects the value.
    Invalid(Error),
    /// Another execution owns the key, or the record was deleted.
    Lost,
    /// The operation had ended.
    Over,
    /// DynamoDB did not confirm the write in time.
    Unconfirmed(Error),
    /// DynamoDB did not confirm the item of the result in time. The record does not note it.
    ItemUnconfirmed(Error),
}

fn unstorable(name: &str, reason: &str) -> Error {
    let message = format!("step `{name}` HAS run and its result cannot be stored: {reason}");
    Error::new(ErrorKind::AnswerUnavailable, message)
}

fn unconfirmed(name: &str, source: Error) -> Error {
    let message = format!("step `{name}` HAS run and DynamoDB did not confirm its result");
    Error::new(ErrorKind::OutcomeUnknown, message).with_source(source)
}
