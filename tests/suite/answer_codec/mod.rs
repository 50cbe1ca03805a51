//! With a codec, the table contains no part of an answer in plain text, and only that codec decodes it.

mod reading;
mod steps;
#[cfg(feature = "admin")]
mod tools;
mod ways;
mod writing;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::{
    AnswerCodec, Builder, Call, CodecError, ErrorKind, Idempotency, Outcome, RunError,
};

use crate::support::raw::{Item, s};
use crate::support::{Charging, Link, Runs, Store, raw};

const SECRET: &str = "DE02120300000000202051";

/// Masks bytes and binds them to their record; or fails, as configured.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    encoding: Arc<AtomicU8>,
    decoding: Arc<AtomicU8>,
}

/// How one of its two sides does its work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Does {
    Work,
    Fail,
    Panic,
}

impl Mask {
    const LABEL: &[u8] = b"mask";

    /// What it adds to the bytes under a key.
    pub(super) fn overhead(pk: &str) -> usize {
        Self::LABEL.len() + 8 + pk.len()
    }

    pub(super) fn encoding(&self, does: Does) {
        self.encoding.store(does as u8, Ordering::SeqCst);
    }

    pub(crate) fn decoding(&self, does: Does) {
        self.decoding.store(does as u8, Ordering::SeqCst);
    }

    fn head(pk: &str) -> Vec<u8> {
        [Self::LABEL, &(pk.len() as u64).to_be_bytes(), pk.as_bytes()].concat()
    }
}

fn obey(does: &AtomicU8) -> Result<(), CodecError> {
    match does.load(Ordering::SeqCst) {
        0 => Ok(()),
        1 => Err(format!("there is no key for {SECRET}").into()),
        _ => panic!("the codec does"),
    }
}

fn masked(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().map(|byte| byte ^ 0x5a)
}

impl AnswerCodec for Mask {
    fn encode(&self, pk: &str, plain: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        obey(&self.encoding)?;
        Ok(Self::head(pk).into_iter().chain(masked(&plain)).collect())
    }

    fn decode(&self, pk: &str, encoded: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        obey(&self.decoding)?;
        let masked_bytes = encoded.strip_prefix(Self::head(pk).as_slice());
        Ok(masked(masked_bytes.ok_or("it is another record's")?).collect())
    }
}

pub(crate) fn masking(store: &Store, mask: &Mask) -> Builder {
    store.builder(&Link::default()).answer_codec(mask.clone())
}

/// A caller that takes nothing but what its codec wrote.
fn strict(store: &Store, mask: &Mask) -> Idempotency {
    masking(store, mask).reject_plain_answers().build().unwrap()
}

async fn everything(store: &Store) -> Vec<Item> {
    let scan = store.raw.scan().table_name(store.table()).consistent_read(true);
    let mut items = scan.into_paginator().items().send();
    let mut all = Vec::new();
    while let Some(item) = items.next().await {
        all.push(item.unwrap());
    }
    all
}

/// Whether the text stands anywhere in these attributes.
pub(crate) fn shows(item: &Item, text: &str) -> bool {
    fn within(value: &AttributeValue, text: &[u8]) -> bool {
        let found = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        match value {
            AttributeValue::S(own) => found(own.as_bytes()),
            AttributeValue::B(own) => found(own.as_ref()),
            AttributeValue::L(values) => values.iter().any(|value| within(value, text)),
            AttributeValue::M(fields) => fields.values().any(|value| within(value, text)),
            AttributeValue::N(_) => false,
            other => panic!("nothing that a record has: {other:?}"),
        }
    }
    item.values().any(|value| within(value, text.as_bytes()))
}

/// Whether a codec wrote the attribute, or one nested in it.
fn is_custom(value: &AttributeValue) -> bool {
    match value {
        AttributeValue::B(bytes) => bytes.as_ref().starts_with(b"\x02"),
        AttributeValue::M(fields) => {
            fields.get("codec") == Some(&s("custom")) || fields.values().any(is_custom)
        }
        _ => false,
    }
}

async fn outcome(operation: Call, runs: &Runs) -> Result<Outcome<String>, RunError<String>> {
    operation
        .run_with_outcome(async |_| {
            runs.add();
            Ok(SECRET.to_owned())
        })
        .await
}

async fn charge(
    idempotency: &Idempotency,
    runs: &Runs,
) -> Result<Outcome<String>, RunError<String>> {
    outcome(idempotency.charging(), runs).await
}

fn executed() -> Outcome<String> {
    Outcome::Executed(SECRET.to_owned())
}

fn replayed() -> Outcome<String> {
    Outcome::Replayed(SECRET.to_owned())
}

/// That a repeat gets an error which says `why`, runs nothing and changes nothing.
async fn is_refused(store: &Store, idempotency: &Idempotency, why: &str) {
    let (before, runs) = (everything(store).await, Runs::default());
    let error = charge(idempotency, &runs).await.unwrap_err();
    let error = error.idempotency().expect("the crate's");
    assert_eq!(error.kind(), ErrorKind::AnswerUnavailable, "{why}");
    assert!(error.to_string().contains(why), "{error}");
    assert_eq!(runs.count(), 0, "{why}");
    let sorted = |mut all: Vec<Item>| {
        all.sort_by_key(|item| raw::text(item, "pk").to_owned());
        all
    };
    assert_eq!(sorted(everything(store).await), sorted(before), "{why}");
}

/// The bytes of an answer in its record.
fn bytes(record: &Item) -> Vec<u8> {
    record["response"].as_b().expect("bytes").clone().into_inner()
}

async fn step(idempotency: &Idempotency, name: &str, runs: &Runs) -> Result<String, String> {
    let ran = idempotency.charging().run(async |execution| {
        let work = async {
            runs.add();
            Ok::<_, String>(SECRET.to_owned())
        };
        let step = execution.step(name, work).await;
        Err::<String, _>(match step {
            Ok(step) => step,
            Err(RunError::Idempotency(error)) if error.step_ran() => {
                format!("not stored: {:?}", error.kind())
            }
            Err(RunError::Idempotency(error)) => format!("not run: {:?}", error.kind()),
            Err(other) => panic!("{other:?}"),
        })
    });
    ran.await.map_err(|error| match error {
        RunError::Handler(said) => said,
        RunError::Idempotency(error) => format!("did not run: {:?}", error.kind()),
    })
}
