//! What a caller reads, with its codec, without one, or with one that fails.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::{AnswerCodec, ErrorKind, RunError};

use super::ways::Way;
use super::{
    Does, Mask, SECRET, bytes, charge, executed, is_custom, is_refused, masking, outcome, replayed,
    strict,
};
use crate::support::raw::{map, s, with};
use crate::support::{Charging, Link, Runs, Store, kind, raw};

#[tokio::test]
async fn an_answer_that_was_copied_under_another_key_does_not_open() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = masking(&store, &mask).build().unwrap();
    let other = idempotency.operation("charge").key("other").no_payload();
    assert_eq!(outcome(other, &runs).await.unwrap(), executed());
    let copied = with(store.record("charge#other").await, "pk", s("charge#k"));
    store.put(copied).await;
    is_refused(&store, &idempotency, "it is another record's").await;
}

#[tokio::test]
async fn a_call_without_the_codec_gets_an_error_that_names_the_fix() {
    for way in [Way::Small, Way::Compressed, Way::InParts] {
        let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
        way.call(&store, &strict(&store, &mask), &runs).await;
        is_refused(&store, &store.idempotency(), "Builder::answer_codec").await;
    }
}

/// A record of each form that was there before codecs.
async fn plain(way: Way) -> (Store, Mask) {
    let (store, runs) = (Store::open().await, Runs::default());
    assert_eq!(way.call(&store, &store.idempotency(), &runs).await, way.answer());
    (store, Mask::default())
}

#[tokio::test]
async fn answers_from_before_the_codec_are_read_unless_that_is_refused() {
    for way in [Way::Small, Way::Compressed, Way::InParts, Way::Failure] {
        let (store, mask) = plain(way).await;
        let runs = Runs::default();
        let lenient = masking(&store, &mask).build().unwrap();
        assert_eq!(way.call(&store, &lenient, &runs).await, way.answer(), "{way:?}");
        assert_eq!(runs.count(), 0, "{way:?}");
        if way != Way::Failure {
            is_refused(&store, &strict(&store, &mask), "reject_plain_answers rejects").await;
        }
    }
}

#[tokio::test]
async fn a_plain_failure_is_not_replayed_where_plain_ones_are_refused() {
    let (store, mask) = plain(Way::Failure).await;
    let idempotency = strict(&store, &mask);
    let operation = idempotency.charging().replay_errors::<String>();
    let repeat = operation.run(async |_| -> Result<(), String> { panic!("it ran") }).await;
    assert_eq!(kind(repeat), ErrorKind::Failed);
}

#[tokio::test]
async fn a_plain_step_is_read_unless_that_is_refused() {
    for (accepts, expected) in [(true, None), (false, Some(ErrorKind::StepsUnreadable))] {
        let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
        let steps = map("charge", s(&format!("\"{SECRET}\"")));
        store.put(with(raw::abandoned("charge#k"), "steps", steps)).await;
        let builder = masking(&store, &mask);
        let builder = if accepts { builder } else { builder.reject_plain_answers() };
        let idempotency = builder.build().unwrap();
        let step = idempotency.charging().run(async |execution| {
            let work = async { Ok::<_, String>(format!("{}", runs.add())) };
            execution.step("charge", work).await
        });
        match (step.await, expected) {
            (Ok(step), None) => assert_eq!(step, SECRET),
            (Err(RunError::Idempotency(error)), Some(kind)) => assert_eq!(error.kind(), kind),
            other => panic!("{other:?}"),
        }
        assert_eq!(runs.count(), 0);
    }
}

#[tokio::test]
async fn to_refuse_plain_answers_without_a_codec_is_a_mistake() {
    let store = Store::open().await;
    let built = store.builder(&Link::default()).reject_plain_answers().build();
    assert_eq!(built.unwrap_err().kind(), ErrorKind::Configuration);
}

#[tokio::test]
async fn an_answer_that_cannot_be_decoded_is_an_error_that_passes() {
    for way in [Way::Small, Way::Compressed, Way::InParts] {
        let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
        way.call(&store, &strict(&store, &mask), &runs).await;
        let reader = masking(&store, &mask).local_cache(1 << 20).build().unwrap();
        for (does, why) in [(Does::Fail, "there is no key"), (Does::Panic, "it panicked")] {
            mask.decoding(does);
            is_refused(&store, &reader, why).await;
        }
        mask.decoding(Does::Work);
        assert_eq!(way.call(&store, &reader, &runs).await, way.answer(), "{way:?}");
        assert_eq!(runs.count(), 1, "{way:?}");
    }
}

#[tokio::test]
async fn what_the_process_keeps_is_not_decoded_again() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let keeping = || masking(&store, &mask).local_cache(1 << 20).build().unwrap();
    let (owner, reader) = (keeping(), keeping());
    assert_eq!(charge(&owner, &runs).await.unwrap(), executed());
    assert_eq!(charge(&reader, &runs).await.unwrap(), replayed());
    mask.decoding(Does::Fail);
    assert_eq!(charge(&owner, &runs).await.unwrap(), replayed());
    assert_eq!(charge(&reader, &runs).await.unwrap(), replayed());
}

#[tokio::test]
async fn what_stands_before_the_codecs_bytes_cannot_be_changed_unseen() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = strict(&store, &mask);
    charge(&idempotency, &runs).await.unwrap();
    let record = store.record("charge#k").await;
    for at in 0..5 {
        for bit in [1, 2, 4] {
            let mut changed = bytes(&record);
            changed[at] ^= bit;
            // An unknown codec number means a record of a later version.
            let is_known = at > 0 || changed[0] < 3;
            let changed = AttributeValue::B(Blob::new(changed));
            store.put(with(record.clone(), "response", changed)).await;
            let found = kind(charge(&idempotency, &runs).await);
            let expected =
                if is_known { ErrorKind::AnswerUnavailable } else { ErrorKind::UnknownRecord };
            assert_eq!(found, expected, "byte {at}, bit {bit}");
        }
    }
    // Encoded twice.
    let twice = mask.encode("charge#k", bytes(&record)).unwrap();
    let twice = [&bytes(&record)[..5], &twice].concat();
    store.put(with(record, "response", AttributeValue::B(Blob::new(twice)))).await;
    is_refused(&store, &idempotency, "it was encoded twice").await;
    assert_eq!(runs.count(), 1);
}

/// A message's answer says no more than that it is done; and still a reader that takes nothing plain
/// has to take it.
#[cfg(feature = "messages")]
#[tokio::test]
async fn a_message_that_is_done_is_done_for_a_strict_reader_too() {
    use crate::messages::function::{Ran, invoke, noting};
    use crate::messages::queue::{message, sqs};

    let (store, ran, mask) = (Store::open().await, Ran::default(), Mask::default());
    for _ in 0..2 {
        let service = strict(&store, &mask).sqs("book").handler(noting(&ran)).unwrap();
        let answer = invoke(&service, &sqs([message("1", "k", "a")])).await;
        assert_eq!(answer, serde_json::json!({"batchItemFailures": []}));
    }
    assert!(is_custom(&store.record("book#k").await["response"]));
    assert_eq!(ran.all(), ["a"]);
}
