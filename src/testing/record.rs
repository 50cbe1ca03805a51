//! Records in the states that tests need.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::Serialize;

use super::Sandbox;
use crate::answer::Answer;
use crate::call::steps::{MAX_BYTES, check_name};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::json::to_text;
use crate::ops::admin::StoredRecord;
use crate::store::attribute;
use crate::store::key::{KeyForm, RecordKey, Scope};
use crate::store::record::{
    self, Item, Record, RecordMeta, State, StepValue, StoredStep, completed_meta, encode_steps,
    random_owner, steps_bytes,
};
use crate::store::{Consistency, Table};

/// How long ago leases and retentions ended.
const LONG_AGO: Duration = Duration::from_secs(60);
/// The default of [`Policy::retention`](crate::Policy::retention).
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// The record of one key in a [`Sandbox`]. [`Sandbox::record`] creates it.
///
/// Its methods write the record like another caller, with an owner that no call has. An existing record keeps
/// its fingerprint, attempt and start, and unless it is completed, its [steps](Self::step). A new record belongs
/// to the request that [`payload`](Self::payload), `request` (feature `http`) or
/// [`fingerprint`](Self::fingerprint) sets, and otherwise to a call with
/// [`no_payload`](crate::CallNeedsPayload::no_payload).
///
/// The key is written verbatim, so this type does not work with
/// [`KeyForm::Sha256`](crate::policy::KeyForm::Sha256).
///
/// ```
/// # doc_examples::run(async |sandbox, _| {
/// use std::time::Duration;
///
/// let record = sandbox.record("charge", "order-42").payload(&1200);
/// record.pending(Duration::from_secs(30)).await?;
/// record.completed("re_1").await?;
/// let stored = record.read().await?.expect("a record");
/// assert_eq!((stored.status(), stored.attempt), ("COMPLETED", 1));
/// # Ok(()) });
/// ```
#[derive(derive_more::Debug)]
#[debug("SandboxRecord {{ scope: {scope:?}, .. }}")]
#[must_use = "call a method such as `pending` to write the record"]
pub struct SandboxRecord<'a> {
    sandbox: &'a Sandbox,
    scope: Scope,
    key: String,
    fingerprint: Result<Option<Fingerprint>, String>,
    /// The names of the steps to write, and their results as JSON.
    steps: Vec<(String, Result<String, String>)>,
}

impl<'a> SandboxRecord<'a> {
    pub(super) fn new(sandbox: &'a Sandbox, scope: Scope, key: String) -> Self {
        Self { sandbox, scope, key, fingerprint: Ok(None), steps: Vec::new() }
    }

    /// Sets the request by its payload, like [`CallNeedsPayload::payload`](crate::CallNeedsPayload::payload).
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::ErrorKind;
    ///
    /// sandbox.record("charge", "order-42").payload(&1200).completed("re_1").await?;
    /// let charge = |amount: u32| idempotency.operation("charge").key("order-42").payload(&amount);
    /// let never = async |_| Ok::<_, std::io::Error>("re_2".to_owned());
    /// assert_eq!(charge(1200).run(never).await?, "re_1");
    /// let error = charge(1300).run(never).await.unwrap_err();
    /// assert_eq!(error.idempotency().unwrap().kind(), ErrorKind::Mismatch);
    /// # Ok(()) });
    /// ```
    pub fn payload<T: Serialize + ?Sized>(self, payload: &T) -> Self {
        let fingerprint = Fingerprint::of(payload).map(Some).map_err(|error| error.to_string());
        Self { fingerprint, ..self }
    }

    /// Sets the request by its fingerprint.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::Fingerprint;
    ///
    /// let request = Fingerprint::builder().bytes(b"order-42").finish();
    /// sandbox.record("charge", "order-42").fingerprint(request).completed("re_1").await?;
    /// let charge = idempotency.operation("charge").key("order-42").fingerprint(request);
    /// assert_eq!(charge.run(async |_| Ok::<_, std::io::Error>("re_2".to_owned())).await?, "re_1");
    /// # Ok(()) });
    /// ```
    pub fn fingerprint(self, fingerprint: Fingerprint) -> Self {
        Self { fingerprint: Ok(Some(fingerprint)), ..self }
    }

    /// Sets the request by an HTTP request, with the default fingerprint of
    /// [`Http`](crate::http::Http).
    ///
    /// It covers method, path, query and body. Pass the request with its body in memory (`String`,
    /// `Bytes`, `lambda_http::Body`). If [`Http::fingerprint`](crate::http::Http::fingerprint) is
    /// set, use [`fingerprint`](Self::fingerprint) instead.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, _| {
    /// use std::time::Duration;
    ///
    /// use http::Request;
    ///
    /// let request = Request::post("/orders").body(r#"{"item":"a pen"}"#)?;
    /// let record = sandbox.record("orders", "order-42").request(&request);
    /// record.pending(Duration::from_secs(30)).await?; // another call handles this request
    /// # Ok(()) });
    /// ```
    #[cfg(feature = "http")]
    pub fn request<B: AsRef<[u8]>>(self, request: &http::Request<B>) -> Self {
        let fingerprint = crate::http::fingerprint_of(request);
        Self { fingerprint: Ok(Some(fingerprint)), ..self }
    }

    /// Adds a finished [step](crate::Execution::step) with this result, stored in plain form.
    ///
    /// [`pending`](Self::pending), [`abandoned`](Self::abandoned) and the methods for failures write it. A
    /// completed record has no steps. They refuse a name that `step` refuses or that is given twice, and results of
    /// over 256 KiB, with [`ErrorKind::InvalidInput`].
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// // The owner died after its first step.
    /// sandbox.record("order", "order-42").step("charge", "ch_1").abandoned().await?;
    /// let order = idempotency.operation("order").key("order-42").no_payload();
    /// let charge = order
    ///     .run(async |execution| {
    ///         execution.step("charge", async { Ok::<_, std::io::Error>("ch_2".to_owned()) }).await
    ///     })
    ///     .await?;
    /// assert_eq!(charge, "ch_1");
    /// # Ok(()) });
    /// ```
    pub fn step<T: Serialize + ?Sized>(mut self, name: impl Into<String>, result: &T) -> Self {
        self.steps.push((name.into(), to_text(result).map_err(|error| error.to_string())));
        self
    }

    /// Writes a record whose owner runs the operation, with this much of its lease left.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::ErrorKind;
    ///
    /// sandbox.record("charge", "order-42").payload(&1200).pending(Duration::from_secs(30)).await?;
    /// let charge = idempotency.operation("charge").key("order-42").payload(&1200);
    /// let ran = charge.run(async |_| Ok::<_, std::io::Error>(())).await;
    /// let error = ran.unwrap_err().into_handler().unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::InProgress { .. }));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the payload or a step cannot be serialized, if the key is empty or too
    /// long, or if the scope is an encoded scope as text (`orders/%t/acme`): pass
    /// `Scope::new("orders").tenant("acme")`. [`ErrorKind::UnknownRecord`] if the item is not a
    /// record.
    pub async fn pending(&self, lease_left: Duration) -> Result<(), Error> {
        self.write(State::Pending { lease_expires_at: self.now().plus(lease_left) }, None).await
    }

    /// Writes a record whose owner died, and whose lease expired one minute ago.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// sandbox.record("charge", "order-42").payload(&1200).abandoned().await?;
    /// let charge = idempotency.operation("charge").key("order-42").payload(&1200);
    /// let attempt = charge.run(async |execution| Ok::<_, std::io::Error>(execution.attempt())).await?;
    /// assert_eq!(attempt, 2);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`pending`](Self::pending).
    pub async fn abandoned(&self) -> Result<(), Error> {
        self.write(State::Pending { lease_expires_at: self.now().minus(LONG_AGO) }, None).await
    }

    /// Writes a completed record with this answer, stored in plain form.
    ///
    /// For an HTTP response, and if plain answers are
    /// [rejected](crate::Builder::reject_plain_answers), let the operation run once instead.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::{AnswerCodec, CodecError};
    ///
    /// sandbox.record("charge", "order-42").payload(&1200).completed("re_1").await?;
    /// let charge = idempotency.operation("charge").key("order-42").payload(&1200);
    /// let never = async |_| Ok::<_, std::io::Error>("re_2".to_owned());
    /// assert_eq!(charge.run(never).await?, "re_1");
    ///
    /// // Where answers are encoded.
    /// struct Reversed;
    /// # fn reversed(mut bytes: Vec<u8>) -> Result<Vec<u8>, CodecError> { bytes.reverse(); Ok(bytes) }
    /// impl AnswerCodec for Reversed {
    ///     # fn encode(&self, _: &str, plain: Vec<u8>) -> Result<Vec<u8>, CodecError> { reversed(plain) }
    ///     # fn decode(&self, _: &str, encoded: Vec<u8>) -> Result<Vec<u8>, CodecError> { reversed(encoded) }
    ///     // …
    /// }
    /// let coded = sandbox.builder().answer_codec(Reversed).reject_plain_answers().build()?;
    /// let charge = || coded.operation("charge").key("order-43").payload(&1200);
    /// charge().run(async |_| Ok::<_, std::io::Error>("re_3".to_owned())).await?;
    /// assert_eq!(charge().run(never).await?, "re_3");
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`pending`](Self::pending).
    pub async fn completed<T: Serialize + ?Sized>(&self, answer: &T) -> Result<(), Error> {
        self.write(State::Completed, Some(in_plain_form("answer", answer)?)).await
    }

    /// Writes a record of a failure that is kept, without an error to replay.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::policy::Failure;
    /// use dynamodb_idempotency::ErrorKind;
    ///
    /// sandbox.record("charge", "order-42").payload(&1200).failed().await?;
    /// let charge = idempotency.operation("charge");
    /// let charge = charge.policy(|policy| policy.failure(Failure::Replay))?;
    /// let ran = charge.key("order-42").payload(&1200).run(async |_| Ok::<_, std::io::Error>(())).await;
    /// assert_eq!(ran.unwrap_err().idempotency().unwrap().kind(), ErrorKind::Failed);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`pending`](Self::pending).
    pub async fn failed(&self) -> Result<(), Error> {
        self.write(State::Failed, None).await
    }

    /// Writes a record of a failure that is kept with this error, stored in plain form.
    ///
    /// Calls that [keep errors](crate::Call::replay_errors) of this type get the error. For an HTTP response,
    /// let the operation run once instead.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::RunError;
    ///
    /// sandbox.record("charge", "order-42").failed_with("the card is stolen").await?;
    /// let charge = idempotency.operation("charge").key("order-42").no_payload().replay_errors::<String>();
    /// let error = charge.run(async |_| Ok::<_, String>(1200)).await.unwrap_err();
    /// assert!(matches!(error, RunError::Handler(text) if text == "the card is stolen"));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`pending`](Self::pending), and [`ErrorKind::InvalidInput`] if the error cannot be
    /// serialized.
    pub async fn failed_with<E: Serialize + ?Sized>(&self, error: &E) -> Result<(), Error> {
        self.write(State::Failed, Some(in_plain_form("error", error)?)).await
    }

    /// Changes the existing record so that its lease and its retention have ended.
    ///
    /// It counts as absent, although DynamoDB has not deleted it yet.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// let record = sandbox.record("charge", "order-42").payload(&1200);
    /// record.completed("re_1").await?;
    /// record.expired().await?;
    /// let charge = idempotency.operation("charge").key("order-42").payload(&1200);
    /// assert_eq!(charge.run(async |_| Ok::<_, std::io::Error>("re_2".to_owned())).await?, "re_2");
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`pending`](Self::pending); [`ErrorKind::InvalidInput`] if there is no
    /// record.
    pub async fn expired(&self) -> Result<(), Error> {
        let mut item = self.item().await?.ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "there is no record that could expire")
        })?;
        let ended = self.now().minus(LONG_AGO);
        let expires_at = record::number(ended.seconds_up());
        item.insert(self.table().schema.ttl_name().to_owned(), expires_at);
        if let Some(lease) = item.get_mut(attribute::LEASE_EXPIRES_AT) {
            *lease = record::number(ended.millis());
        }
        self.put(item).await
    }

    /// Returns the stored record, with its answer, its kept error and its finished steps; `None` if it does not
    /// exist.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::testing::{StoredAnswer, StoredState};
    ///
    /// let record = sandbox.record("order", "order-42");
    /// let order = idempotency.operation("order").key("order-42").no_payload().replay_errors::<String>();
    /// let ran = order
    ///     .run(async |execution| {
    ///         let charge = execution.step("charge", async { Ok::<_, String>(1200) }).await;
    ///         charge.map_err(|error| error.to_string())?;
    ///         Err::<(), _>("out of stock".to_owned())
    ///     })
    ///     .await;
    /// assert!(ran.is_err());
    /// let stored = record.read().await?.expect("a record");
    /// let error = StoredAnswer::Json(r#""out of stock""#.to_owned());
    /// assert!(matches!(stored.state, StoredState::Failed { answer: Some(kept), .. } if kept == error));
    /// assert_eq!(stored.steps.expect("steps")["charge"], StoredAnswer::Json("1200".to_owned()));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The same as for [`pending`](Self::pending).
    pub async fn read(&self) -> Result<Option<StoredRecord>, Error> {
        let admin = self.sandbox.idempotency.admin();
        self.record_key()?;
        admin.record(&self.scope, &self.key, KeyForm::Verbatim).await
    }

    /// Writes the record of another caller.
    async fn write(&self, state: State, response: Option<AttributeValue>) -> Result<(), Error> {
        let invalid = |message| Error::new(ErrorKind::InvalidInput, message);
        let named = self.fingerprint.clone().map_err(invalid)?;
        let (key, now, schema) = (self.record_key()?, self.now(), &self.table().schema);
        let found = self.item().await?.map(|item| Record::decode(schema, item)).transpose()?;
        let (attempt, created_at, kept, steps) = match found {
            Some(Record { meta, fingerprint, steps, .. }) => {
                (meta.attempt, meta.created_at, Some(fingerprint), steps)
            }
            None => (1, now, None, None),
        };
        let mut steps = steps.unwrap_or_default();
        for (index, (name, json)) in self.steps.iter().enumerate() {
            check_name(name).map_err(invalid)?;
            if self.steps[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(invalid(format!("step `{name}` is given twice: give it another name")));
            }
            let json =
                json.as_ref().map_err(|error| not_serializable("result of a step", error))?;
            steps.insert(name.clone(), StoredStep::Inline(StepValue::Json(json.clone())));
        }
        let bytes = steps_bytes(&steps);
        if bytes > MAX_BYTES {
            return Err(invalid(format!(
                "the steps have {bytes} bytes of at most 256 KiB: give them smaller results"
            )));
        }
        let fingerprint = match (named, kept) {
            (None, Some(kept)) => kept,
            (named, _) => named.unwrap_or_else(|| Fingerprint::builder().finish()).to_store(),
        };
        let lease_expires_at = state.lease_expires_at();
        let completed_at = lease_expires_at.is_none().then_some(now);
        let expires_at = lease_expires_at.unwrap_or(now).plus(RETENTION).seconds_up();
        let meta = completed_meta(random_owner()?, attempt, created_at, expires_at);
        let meta = RecordMeta { state, completed_at, ..meta };
        let mut item = record::item(schema, (&key, &fingerprint), &meta, response);
        if state != State::Completed && !steps.is_empty() {
            item.insert(attribute::STEPS.to_owned(), encode_steps(&steps));
        }
        self.put(item).await
    }

    async fn item(&self) -> Result<Option<Item>, Error> {
        let table = self.table();
        let key = self.record_key()?;
        table.read(&key, Consistency::Strong, table.request_timeout).await.outcome
    }

    async fn put(&self, item: Item) -> Result<(), Error> {
        let put = self.sandbox.client.put_item().table_name(&self.table().name);
        // Boxed, because the SDK's futures are nested deeply and the compiler limits the depth of
        // types.
        let written = Box::pin(put.set_item(Some(item)).send()).await;
        written.map(drop).map_err(|source| {
            Error::new(ErrorKind::Unavailable, "the sandbox could not write the record")
                .with_source(source)
        })
    }

    /// Rejects an encoded scope, as the command line writes it, that was passed as text. It would be encoded
    /// twice, as one segment, and no request uses the record of that scope.
    fn record_key(&self) -> Result<RecordKey, Error> {
        let scope = self.scope.as_str();
        let is_encoded_again = ["%2F%25t%2F", "%2525", "%2523", "%252F"];
        let is_text = !scope.contains('/');
        if is_text && is_encoded_again.iter().any(|part| scope.contains(part)) {
            let text = scope.replace("%2F", "/").replace("%23", "#").replace("%25", "%");
            let message = format!(
                "`{text}` is an encoded scope: pass Scope::from_encoded(\"{text}\")?, or \
                 Scope::new(..).tenant(..)"
            );
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let limit = self.table().schema.max_key_bytes();
        RecordKey::new(&self.scope, &self.key, KeyForm::Verbatim, limit)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_system(self.sandbox.clock.now())
    }

    fn table(&self) -> &Table {
        &self.sandbox.idempotency.core.table
    }
}

/// The stored form of an answer or an error.
fn in_plain_form<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<AttributeValue, Error> {
    let json = to_text(value).map_err(|error| not_serializable(what, &error.to_string()))?;
    Ok(Answer::Json(json.into()).readable())
}

fn not_serializable(what: &str, reason: &str) -> Error {
    let message = format!("the {what} cannot be serialized to JSON: {reason}");
    Error::new(ErrorKind::InvalidInput, message)
}
