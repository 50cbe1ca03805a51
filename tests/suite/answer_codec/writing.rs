//! What is stored, compressed and counted, and what happens where the codec fails to encode.

use dynamodb_idempotency::policy::{Compression, Failure, LargeAnswers};
use dynamodb_idempotency::{
    AnswerCodec, CodecError, Error, ErrorKind, Outcome, Policy, Reconciled, Transaction,
};

use super::{
    Does, Mask, SECRET, bytes, charge, everything, executed, is_refused, masking, replayed, strict,
};
use crate::faq::invalid;
use crate::support::effects::{count, debit};
use crate::support::raw::status;
use crate::support::{Act, Charging, Link, Runs, Store, commit_kind, crates, handlers, kind, raw};

#[tokio::test]
async fn an_answer_that_cannot_be_encoded_is_never_stored_plain_and_never_made_again() {
    for does in [Does::Fail, Does::Panic] {
        for reconciles in [false, true] {
            let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
            let idempotency = masking(&store, &mask).local_cache(1 << 20).build().unwrap();
            mask.encoding(does);
            if reconciles {
                store.put(raw::abandoned("charge#k")).await;
                let operation = idempotency.charging();
                let judged = operation
                    .reconcile(async |_| Ok::<_, String>(Reconciled::Completed(SECRET.to_owned())));
                let outcome = judged
                    .run_with_outcome(async |_| -> Result<String, String> { panic!("it ran") })
                    .await
                    .unwrap();
                assert_eq!(outcome, Outcome::Reconciled(SECRET.to_owned()));
            } else {
                assert_eq!(charge(&idempotency, &runs).await.unwrap(), executed());
            }
            let record = store.record("charge#k").await;
            assert_eq!(status(&record), "COMPLETED");
            let reason = "its AnswerCodec could not encode it";
            assert_eq!(record["response"], raw::answer("unavailable", reason), "{does:?}");
            mask.encoding(Does::Work);
            is_refused(&store, &idempotency, reason).await;
            // It is the crate's own word, and no answer.
            is_refused(&store, &strict(&store, &mask), reason).await;
        }
    }
}

#[tokio::test]
async fn a_failure_that_cannot_be_encoded_is_kept_without_its_answer() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = masking(&store, &mask).build().unwrap();
    let charges = || {
        idempotency.charging_by(|policy| policy.failure(Failure::Replay)).replay_errors::<String>()
    };
    let fail = async |_| {
        runs.add();
        Err::<(), _>(SECRET.to_owned())
    };
    mask.encoding(Does::Fail);
    assert_eq!(handlers(charges().run(fail).await), SECRET);
    let record = store.record("charge#k").await;
    assert_eq!((status(&record), record.get("response")), ("FAILED", None));
    assert_eq!(kind(charges().run(fail).await), ErrorKind::Failed);
    assert_eq!(runs.count(), 1);
}

fn is_not_encoded(error: &Error) {
    assert!(
        invalid(error).starts_with("the answer's AnswerCodec could not encode it: "),
        "{error}"
    );
}

#[tokio::test]
async fn what_cannot_be_encoded_is_not_committed() {
    for does in [Does::Fail, Does::Panic] {
        let (store, mask) = (Store::open().await, Mask::default());
        let idempotency = masking(&store, &mask).build().unwrap();
        mask.encoding(does);
        let committed = idempotency.charging().run(async |execution| {
            execution.commit(SECRET, [count(store.table(), "effect")]).await
        });
        let error = handlers(committed.await);
        is_not_encoded(&error);
        let error = idempotency.charging().run_transaction(async || {
            let items = [count(store.table(), "effect")];
            Ok::<_, String>(Transaction::new(SECRET.to_owned()).items(items))
        });
        is_not_encoded(&crates(error.await));
        let left = everything(&store).await;
        let left: Vec<_> = left.iter().map(raw::status).collect();
        assert_eq!(left, ["RELEASED"], "{does:?}");
    }
}

/// A repeat gets the answer of a completed transaction even if the codec no longer encodes.
#[tokio::test]
async fn a_transaction_that_is_done_is_found_by_a_codec_that_does_not_encode() {
    let (store, mask) = (Store::open().await, Mask::default());
    let idempotency = masking(&store, &mask).build().unwrap();
    for (does, expected) in [(Does::Work, executed()), (Does::Fail, replayed())] {
        mask.encoding(does);
        let ran = idempotency.charging().run_transaction_with_outcome(async || {
            let items = [count(store.table(), "effect")];
            Ok::<_, String>(Transaction::new(SECRET.to_owned()).items(items))
        });
        assert_eq!(ran.await.unwrap(), expected);
    }
    assert_eq!(store.counted("effect").await, 1);
}

/// A completion that meets itself does not read its own answer back.
#[tokio::test]
async fn the_first_caller_gets_its_answer_though_it_cannot_be_read_back() {
    let (store, mask, link) = (Store::open().await, Mask::default(), Link::without_retries());
    let idempotency = store.builder(&link).answer_codec(mask.clone()).build().unwrap();
    mask.decoding(Does::Fail);
    let outcome = idempotency.charging().run_with_outcome(async |execution| {
        let refused = execution.commit("paid", [debit(store.table(), "alice", 1)]).await;
        assert_eq!(commit_kind(&refused), ErrorKind::ConditionFailed);
        link.wire.next("PutItem", Act::LoseResponse);
        Ok::<_, Error>(SECRET.to_owned())
    });
    assert_eq!(outcome.await.unwrap(), executed());
    assert_eq!(link.wire.count("PutItem"), 3);
}

/// An encoded answer is not readable in the table anyway, so it is compressed more eagerly.
#[tokio::test]
async fn what_a_codec_encodes_is_compressed_where_it_may_save_the_unit_that_the_codec_costs() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = masking(&store, &mask).build().unwrap();
    let text = "1234567890".repeat(70);
    let ran = idempotency.charging().run(async |_| {
        runs.add();
        Ok::<_, String>(text.clone())
    });
    assert_eq!(ran.await.unwrap(), text);
    let length = bytes(&store.record("charge#k").await).len();
    assert!(length < 200, "{length}");
    let repeat = idempotency.charging();
    assert_eq!(repeat.run(async |_| Ok::<_, String>(String::new())).await.unwrap(), text);
    assert_eq!(runs.count(), 1);
}

/// There is no part with nothing in it.
#[tokio::test]
async fn a_codec_may_make_nothing_of_an_answer() {
    struct Forgetful;
    impl AnswerCodec for Forgetful {
        fn encode(&self, _: &str, _: Vec<u8>) -> Result<Vec<u8>, CodecError> {
            Ok(Vec::new())
        }
        fn decode(&self, _: &str, _: Vec<u8>) -> Result<Vec<u8>, CodecError> {
            Err("it is gone".into())
        }
    }
    let (store, runs) = (Store::open().await, Runs::default());
    let parts = LargeAnswers::InParts { above: 0 };
    let builder = store.builder(&Link::default()).answer_codec(Forgetful);
    let idempotency = builder.policy(|policy| policy.large_answers(parts)).build().unwrap();
    assert_eq!(charge(&idempotency, &runs).await.unwrap(), executed());
    is_refused(&store, &idempotency, "it is gone").await;
}

/// The limit includes the bytes that the codec adds, so a caller with the same limit can read every
/// stored answer.
#[tokio::test]
async fn the_limit_of_answers_counts_what_the_codec_adds() {
    const LIMIT: usize = 2048;
    // Two quotation marks, the tail, the header inside.
    let bytes = |length: usize| length + 2 + 5 + 5 + Mask::overhead("charge#k");
    let longest = LIMIT - bytes(0);
    for large in [LargeAnswers::InRecord, LargeAnswers::InParts { above: 1000 }] {
        for length in [longest - 1, longest, longest + 1, LIMIT - 7] {
            let (store, mask) = (Store::open().await, Mask::default());
            let policy = |policy: Policy| {
                let policy = policy.compression(Compression::Off).max_answer_bytes(LIMIT);
                policy.large_answers(large)
            };
            let idempotency = masking(&store, &mask).policy(policy).build().unwrap();
            let charges =
                || idempotency.charging().run(async |_| Ok::<_, String>("x".repeat(length)));
            assert_eq!(charges().await.unwrap().len(), length);
            let repeat = charges().await;
            if length <= longest {
                assert_eq!(repeat.unwrap().len(), length);
            } else {
                assert_eq!(kind(repeat), ErrorKind::AnswerUnavailable, "{length}, {large:?}");
                let record = store.record("charge#k").await;
                let reason =
                    format!("it is too large: {} bytes, of at most {LIMIT}", bytes(length));
                assert_eq!(record["response"], raw::answer("unavailable", &reason));
            }
        }
    }
}
