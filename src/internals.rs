//! Parts of a call, and switches that break rules, for the project's own tests. Not part of the API:
//! available only with the feature `internals`, and may change with every release.

use std::borrow::Cow;
use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use http::{HeaderMap, HeaderName, Response};

pub use crate::fault_injection::{set_entropy, set_part_bytes};
pub use crate::protocol::fault_point::{FaultPoint, set_broken as set_fault_points};

use crate::answer::codec::Coding;
use crate::answer::{Answer, Body, HttpAnswer, Stored, pack};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::fingerprint::canonical_json::canonical;
use crate::http::{answer, key_header};
use crate::idempotency::Idempotency;
use crate::policy::{Compression, LargeAnswers, Policy};
use crate::protocol::{Condition, Form, RecordMeta, Write};
use crate::store::key::{KeyForm, RecordKey};
use crate::store::record::{self, Item, Record, State, random_owner};
use crate::store::schema::TableSchema;
use crate::store::{Expression, WriteResult};

/// The default header of the idempotency key.
pub const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Reads the key in the header.
///
/// # Errors
/// If the key is malformed.
pub fn find_key(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    key_header::parse(headers, &KEY_HEADER)
}

/// Returns the canonical form of a JSON text.
#[must_use]
pub fn canonical_json(text: &[u8]) -> Option<Vec<u8>> {
    canonical(str::from_utf8(text).ok()?).map(Cow::into_owned)
}

/// Returns whether a pending record that is decoded and encoded again has the same version and steps.
///
/// # Errors
/// If the item is not a record.
pub fn record_reads_back(item: Item) -> Result<bool, Error> {
    let schema = TableSchema::default();
    let record = Record::decode(&schema, item)?;
    let version = record.meta.version();
    let State::Pending { .. } = record.meta.state else { return Ok(true) };
    let meta = record.meta(&Fingerprint::empty());
    let mut again = record::item(&schema, (&key()?, &record.fingerprint), &meta, None);
    if let Some(steps) = &record.steps {
        again.insert("steps".to_owned(), record::encode_steps(steps));
    }
    let again = Record::decode(&schema, again)?;
    Ok((again.meta.version(), again.steps) == (version, record.steps))
}

/// Returns whether a readable stored answer that is decoded and encoded again is the same, in the same
/// form.
#[must_use]
pub fn answer_reads_back(stored: AttributeValue) -> Option<bool> {
    let (owner, key, coding) = (random_owner().ok()?, key().ok()?, Coding::default());
    let coder = coding.of(&key);
    let answer = match Stored::decode(stored, &owner)?.in_record(1 << 20, coder) {
        Ok(answer) => answer,
        Err(parts) => {
            let again = Stored::decode(parts.encode(), &owner);
            return Some(again == Some(Stored::Parts(parts)));
        }
    };
    let policy = Policy::default().compression(Compression::Off);
    let policy = policy.large_answers(LargeAnswers::InRecord);
    let again = pack(answer.clone(), 0, None, coder, &policy).ok();
    let again = again.map(|packed| Stored::decode(packed.stored.attribute(), &owner));
    let is_same = again.is_none_or(|again| again == Some(Stored::Readable(answer.clone())));
    let Answer::Http(http) = answer else { return Some(is_same) };
    let response = answer::replay(http.clone());
    let is_stored = |response: Response<Body>| {
        let stored = answer::stored(&response, response.body().clone());
        stored
            .is_ok_and(|HttpAnswer { status, body, .. }| (status, body) == (http.status, http.body))
    };
    Some(is_same && response.is_none_or(is_stored))
}

/// A condition as DynamoDB evaluates it, with the names and values that it refers to.
#[must_use]
pub fn condition_expression(
    condition: &Condition,
) -> (String, HashMap<String, String>, Option<Item>) {
    Expression::of(&TableSchema::default(), condition).finish()
}

fn key() -> Result<RecordKey, Error> {
    RecordKey::new(&"payments".into(), "order-42", KeyForm::Verbatim, 2048)
}

/// Sends a write for a call without a payload, as the driver of the machines does, with this response or this
/// step. Returns whether DynamoDB has applied it.
///
/// # Errors
/// If the write was neither applied nor rejected.
pub async fn send_write(
    idempotency: &Idempotency,
    (scope, key): (&str, &str),
    write: &Write,
    response: Option<AttributeValue>,
    step: (&str, AttributeValue),
) -> Result<bool, Error> {
    let table = &idempotency.core.table;
    let key = RecordKey::new(&scope.into(), key, KeyForm::Verbatim, 2048)?;
    let fingerprint = Fingerprint::empty().to_store();
    let (of, limit) = ((&key, &fingerprint), table.request_timeout);
    if write.form() == Form::Transaction {
        let token = random_owner()?.to_string();
        let reply = table.transact(of, write, response, (&[], token.as_str()), limit).await;
        return is_applied(reply.outcome);
    }
    if write.form() == Form::Step {
        return is_applied(table.store_step(&key, write, step, limit).await.outcome);
    }
    is_applied(table.write_record(of, write, response, limit).await.outcome)
}

fn is_applied<I: Into<Error>>(result: WriteResult<I>) -> Result<bool, Error> {
    match result {
        WriteResult::Applied => Ok(true),
        WriteResult::Rejected(_) => Ok(false),
        WriteResult::ItemsRejected(error) => Err(error.into()),
        WriteResult::Conflict(error)
        | WriteResult::TokenUsed(error)
        | WriteResult::Invalid(error)
        | WriteResult::NotApplied(error)
        | WriteResult::Unknown(error) => Err(error),
    }
}

/// The part of an item that the machines read, for a call without a payload.
///
/// # Errors
/// If the item is not a record.
pub fn meta(item: Item) -> Result<RecordMeta, Error> {
    Ok(Record::decode(&TableSchema::default(), item)?.meta(&Fingerprint::empty()))
}
