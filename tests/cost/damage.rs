//! An answer that is not whole is an error that says so, and never a shorter answer.

use std::convert::Infallible;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::policy::Compression;
use dynamodb_idempotency::{ErrorKind, Idempotency, RunError};

use crate::bodies::Kind;
use crate::sizes::KIB;
use crate::support::raw::{Item, n, s, text, with};
use crate::support::{Charging, Link, Runs, Store, kind};

async fn run(idempotency: &Idempotency, runs: &Runs) -> Result<String, RunError<Infallible>> {
    let operation = idempotency.charging_by(|p| p.compression(Compression::Off));
    operation
        .run(async |_| {
            runs.add();
            Ok(Kind::Random
                .bytes(150 * KIB)
                .into_iter()
                .map(|b| char::from(b'0' + b % 64))
                .collect())
        })
        .await
}

async fn part(store: &Store, number: u32) -> Item {
    let record = store.record("charge#k").await;
    let scan = store.raw.scan().table_name(store.table()).consistent_read(true);
    let mut items = scan.into_paginator().items().send();
    let prefix = format!("charge/%p/{}#", text(&record, "owner"));
    while let Some(item) = items.next().await {
        let item = item.unwrap();
        let pk = text(&item, "pk");
        if pk.starts_with(&prefix) && pk.ends_with(&format!("/{number}")) {
            return item;
        }
    }
    panic!("there is no part {number}");
}

type Damage = fn(Item) -> Option<Item>;

#[tokio::test]
async fn a_part_that_is_missing_or_another_is_an_error() {
    let damages: [(&str, Damage); 7] = [
        ("missing", |_| None),
        ("shorter", |part| {
            let mut bytes = part["response"].as_b().unwrap().clone().into_inner();
            bytes.pop();
            Some(with(part, "response", AttributeValue::B(Blob::new(bytes))))
        }),
        ("longer", |part| {
            let mut bytes = part["response"].as_b().unwrap().clone().into_inner();
            bytes.push(b'x');
            Some(with(part, "response", AttributeValue::B(Blob::new(bytes))))
        }),
        ("one bit", |part| {
            let mut bytes = part["response"].as_b().unwrap().clone().into_inner();
            bytes[1000] ^= 1;
            Some(with(part, "response", AttributeValue::B(Blob::new(bytes))))
        }),
        ("another owner's", |part| Some(with(part, "owner", s("0123")))),
        ("a later format", |part| Some(with(part, "format", n(2)))),
        ("a record", |part| Some(with(part, "status", s("PENDING")))),
    ];
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.over(&Link::default());
    let whole = run(&idempotency, &runs).await.unwrap();
    for (name, damage) in damages {
        for number in 0..3 {
            let part = part(&store, number).await;
            match damage(part.clone()) {
                Some(spoilt) => store.put(spoilt).await,
                None => store.delete(text(&part, "pk")).await,
            }
            let repeat = kind(run(&idempotency, &runs).await);
            assert_eq!(repeat, ErrorKind::AnswerUnavailable, "{name}, part {number}");
            store.put(part).await;
        }
    }
    assert!(run(&idempotency, &runs).await.unwrap() == whole);
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_record_that_tells_of_its_parts_in_another_way_is_not_guessed_at() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.over(&Link::default());
    run(&idempotency, &runs).await.unwrap();
    let record = store.record("charge#k").await;
    let fields = record["response"].as_m().unwrap();
    let changed = |name: &str, value: Option<AttributeValue>| {
        let mut fields = fields.clone();
        fields.remove(name);
        fields.extend(value.map(|value| (name.to_owned(), value)));
        with(record.clone(), "response", AttributeValue::M(fields))
    };
    let binary = |bytes: &[u8]| AttributeValue::B(Blob::new(bytes));
    let mut wrong = vec![
        changed("parts", Some(n(0))),
        changed("parts", Some(n(1 << 30))),
        changed("codec", Some(s("brotli"))),
        changed("sha256", Some(binary(b"short"))),
        changed("extent", Some(n(1))),
        with(record.clone(), "response", binary(b"")),
        with(record.clone(), "response", binary(b"\x03\0\0\0\x01x")),
        with(record.clone(), "response", binary(b"\x01\0\0")),
    ];
    wrong.extend(["bytes", "plain_bytes", "codec", "sha256"].map(|name| changed(name, None)));
    for item in wrong {
        store.put(item.clone()).await;
        assert_eq!(kind(run(&idempotency, &runs).await), ErrorKind::UnknownRecord, "{item:?}");
    }
    assert_eq!(runs.count(), 1);
}

/// A record may be written by a faulty or a hostile program: reading it takes no more memory than
/// an answer may have.
#[tokio::test]
async fn bytes_that_are_no_answer_are_an_error() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.over(&Link::default());
    run(&idempotency, &runs).await.unwrap();
    let record = store.record("charge#k").await;
    for bytes in [
        &b"\0\0\0\0\x04text"[..],
        b"\0\0\0\0\x05text",
        b"\0\xff\xff\xff\xfftext",
        b"\x01\0\0\0\x04text",
        b"\x01\xff\xff\xff\xfftext",
        b"\0\0\0\0\x00",
    ] {
        let response = AttributeValue::B(Blob::new(bytes));
        store.put(with(record.clone(), "response", response)).await;
        assert_eq!(kind(run(&idempotency, &runs).await), ErrorKind::AnswerUnavailable, "{bytes:?}");
    }
    assert_eq!(runs.count(), 1);
}
