//! Steps whose request is sent at most once, for services that take no idempotency key.
//!
//! Before the request, the execution stores a note under the name `{step}~sent~{attempt}`. Each attempt has its own
//! name, so a delayed copy of a note replaces nothing. The note is written on the same condition as a step: that the
//! execution holds the key.

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::execution::Execution;
use crate::call::step::NotStored;
use crate::call::user_code;
use crate::error::{Error, ErrorKind, RunError};
use crate::fault_injection::{FaultPoint, is_broken, observe};
use crate::protocol::time::{Interval, Timestamp};
use crate::store::record::{SENT, StepValue};

/// The name of a note.
fn key(step: &str, attempt: u32) -> String {
    format!("{step}{SENT}{attempt}")
}

/// A request that an earlier attempt may have sent, in
/// [`Execution::step_at_most_once`]. [`LookUp`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierSend {
    attempt: u32,
    age: Duration,
}

impl EarlierSend {
    /// Returns the [number of the attempt](Execution::attempt) that may have sent the request.
    ///
    /// ```
    /// # fn log(earlier: dynamodb_idempotency::EarlierSend) {
    /// println!("attempt {} may have sent the refund", earlier.attempt());
    /// # }
    /// ```
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns how long ago the attempt noted that it would send the request, at least. By DynamoDB's clock.
    ///
    /// The request itself may be younger: a paused process can send it at any time after its note.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn is_settled(earlier: dynamodb_idempotency::EarlierSend) -> bool {
    /// earlier.age() > Duration::from_secs(24 * 60 * 60)
    /// # }
    /// ```
    #[must_use]
    pub const fn age(&self) -> Duration {
        self.age
    }
}

/// What is known of an [`EarlierSend`].
///
/// ```
/// # doc_examples::run(async |sandbox, idempotency| {
/// use dynamodb_idempotency::{EarlierSend, LookUp};
///
/// let refund = async |sent: Result<&'static str, &'static str>| {
///     let call = idempotency.operation("refunds").key("order-42").no_payload();
///     let handler = async |execution: dynamodb_idempotency::Execution| {
///         let send = async { sent.map(str::to_owned) };
///         let look_up = async |earlier: EarlierSend| {
///             assert_eq!(earlier.attempt(), 1);
///             Ok(LookUp::Found("re_1".to_owned()))
///         };
///         execution.step_at_most_once("refund", send, look_up).await
///     };
///     call.run(handler).await.ok()
/// };
/// // The first request's response is lost, so the next attempt sends nothing.
/// assert_eq!(refund(Err("no response")).await, None);
/// assert_eq!(refund(Ok("re_2")).await, Some("re_1".to_owned()));
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUp<T> {
    /// The request took effect, with this result. It is stored as the step's result.
    Found(T),
    /// The request has not taken effect and cannot do so any more. **The request is sent again.** Return this only
    /// if the service shows the request as refused, or rejects a request this old by a time inside of it.
    Impossible,
    /// Anything else, also "not found" while the request can still arrive. Nothing is sent.
    Unknown,
}

const fn name_of<T, E>(found: &Result<LookUp<T>, E>) -> &'static str {
    match found {
        Ok(LookUp::Found(_)) => "Found",
        Ok(LookUp::Impossible) => "Impossible",
        Ok(LookUp::Unknown) => "Unknown",
        Err(_) => "with an error",
    }
}

impl Execution {
    /// Runs a [step](Self::step) whose request must not be sent twice, although the other service takes no
    /// idempotency key.
    ///
    /// Before `send` is polled, a note that this attempt is about to send is stored and confirmed in the record. A
    /// later attempt that finds a note and no result does not poll `send`. It calls `look_up`, which asks the other
    /// service what became of the request.
    ///
    /// ```
    /// use dynamodb_idempotency::{Execution, LookUp, RunError};
    /// # use std::io::Error;
    /// # async fn send_refund(_: &str) -> Result<String, Error> { Ok("re_1".into()) }
    /// # async fn find_refund(_: &str) -> Result<Option<String>, Error> { Ok(None) }
    ///
    /// async fn refund(execution: &Execution, order: &str) -> Result<String, RunError<Error>> {
    ///     let look_up = async |_earlier| {
    ///         Ok(match find_refund(order).await? {
    ///             Some(id) => LookUp::Found(id),
    ///             // It may be on its way.
    ///             None => LookUp::Unknown,
    ///         })
    ///     };
    ///     execution.step_at_most_once("refund", send_refund(order), look_up).await
    /// }
    /// ```
    ///
    /// | `look_up` returns | then |
    /// |---|---|
    /// | [`LookUp::Found`] | the result is stored and returned |
    /// | [`LookUp::Impossible`] | this attempt notes that it is about to send, and sends |
    /// | [`LookUp::Unknown`] | [`OutcomeUnknown`](ErrorKind::OutcomeUnknown); the execution counts as [discarded](Self::discard), so the attempt does not count, and the next call asks again |
    /// | `Err` | [`RunError::Handler`], and the next attempt asks again |
    ///
    /// **It is at most once while the record is kept.** The note ends with the record,
    /// [`Policy::retention`](crate::Policy::retention) after the last call with the key: by default after 24 h. The next
    /// call then sends again. Set a retention that is longer than a client can retry, and longer than the request can be
    /// found or disputed at the other service.
    ///
    /// An `Err` or a panic of `send` leaves the note, as a drop and a crash do, and so does a note that is not
    /// confirmed: an execution uses the name once. The limits, the errors and the cost
    /// are those of a [step](Self::step), with one more write for the note. Names do not contain `~sent~`.
    ///
    /// # Errors
    /// Those of a [step](Self::step), and before anything is sent: [`ErrorKind::Unavailable`] in an execution without
    /// a record ([`is_protected`](Self::is_protected)), and if the note is not confirmed;
    /// [`ErrorKind::OutcomeUnknown`] with [`Error::step_ran`] `false` if an earlier attempt may have sent the request
    /// and `look_up` returns `Unknown`.
    pub async fn step_at_most_once<T, E, L>(
        &self,
        name: &str,
        send: impl Future<Output = Result<T, E>>,
        look_up: impl FnOnce(EarlierSend) -> L,
    ) -> Result<T, RunError<E>>
    where
        T: Serialize + DeserializeOwned,
        L: Future<Output = Result<LookUp<T>, E>>,
    {
        self.inner.call.stores_answers("a step")?;
        if !self.is_protected() {
            let message = "this execution has no record in which it could be noted";
            return Err(not_sent(name, ErrorKind::Unavailable, message).into());
        }
        let (reserved, done) = self.inner.steps.reserve(name)?;
        if let Some(done) = done {
            reserved.keep();
            return Ok(done.read(name, self.coder())?);
        }
        self.may_start_or_halt(name).await?;
        if let Some(earlier) = self.earlier_send(name)? {
            let found = user_code::run_or_resume(look_up(earlier)).await;
            observe(|| format!("the look-up of step `{name}` answered {}", name_of(&found)));
            match found.map_err(RunError::Handler)? {
                LookUp::Found(value) => {
                    reserved.keep();
                    return self.stored(name, value).await;
                }
                LookUp::Impossible => self.may_start_or_halt(name).await?,
                LookUp::Unknown => {
                    self.discard();
                    let (operation, attempt) = (self.operation(), earlier.attempt);
                    tracing::warn!(
                        operation,
                        attempt,
                        "an earlier attempt may have sent a request, and the look-up could not tell: nothing was sent"
                    );
                    let message = format!(
                        "step `{name}` was not sent: attempt {attempt} may have sent it, and the \
                         look-up could not tell whether it took effect"
                    );
                    return Err(Error::new(ErrorKind::OutcomeUnknown, message).into());
                }
            }
        }
        // Another note of this attempt would have another time, which a delayed copy of this one would replace.
        reserved.keep();
        if !is_broken(FaultPoint::SendBeforeNote) {
            let noted = self.note(name).await;
            self.halt_if_lost().await;
            noted?;
        }
        self.may_start_or_halt(name).await?;
        let value = user_code::run_or_resume(send).await.map_err(RunError::Handler)?;
        self.stored(name, value).await
    }

    fn earlier_send(&self, name: &str) -> Result<Option<EarlierSend>, Error> {
        let Some((attempt, note)) = self.inner.steps.last_note(name) else { return Ok(None) };
        let at: i64 = note.read(&key(name, attempt), self.coder())?;
        let now = self.store_time(name)?.earliest;
        Ok(Some(EarlierSend { attempt, age: now.since(Timestamp::from_millis(at)) }))
    }

    /// Notes that this attempt is about to send.
    async fn note(&self, name: &str) -> Result<(), Error> {
        let at = self.store_time(name)?.latest;
        let key = key(name, self.attempt());
        let note = StepValue::new(&key, at.millis().to_string(), self.coder());
        let note = note.and_then(|note| self.inner.steps.place_in_record(&key, &note));
        let note = note.map_err(|reason| {
            not_sent(name, ErrorKind::InvalidUse, &format!("its note cannot be stored: {reason}"))
        })?;
        let noted = self.write_step(&key, &note, None, self.tries_until()).await;
        noted.map_err(|reason| match reason {
            NotStored::Invalid(source)
            | NotStored::Unconfirmed(source)
            | NotStored::ItemUnconfirmed(source) => {
                let message = "DynamoDB did not confirm the note";
                not_sent(name, ErrorKind::Unavailable, message).with_source(source)
            }
            NotStored::Lost => {
                let message = "another execution owns the key, or its record was deleted";
                not_sent(name, ErrorKind::LeaseLost, message)
            }
            NotStored::Over => not_sent(name, ErrorKind::InvalidUse, "its operation is over"),
        })
    }

    fn store_time(&self, name: &str) -> Result<Interval, Error> {
        let core = &self.inner.core;
        let interval = core.table.clock.moment().interval(core.clock_tolerance);
        interval.ok_or_else(|| {
            not_sent(name, ErrorKind::Unavailable, "no response has shown DynamoDB's time")
        })
    }
}

fn not_sent(name: &str, kind: ErrorKind, why: &str) -> Error {
    Error::new(kind, format!("step `{name}` was not sent: {why}"))
}
