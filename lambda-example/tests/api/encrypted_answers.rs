//! The example's codec: what it encrypts comes back by its key, under its record, unchanged, or not at
//! all.

#[path = "../../examples/encrypted-answers/codec.rs"]
mod codec;

use codec::AesGcm;
use dynamodb_idempotency::testing::Sandbox;
use dynamodb_idempotency::{AnswerCodec, ErrorKind, Idempotency, Outcome, RunError};

const PK: &str = "charge#order-42";
const PLAIN: &[u8] = b"{\"iban\":\"DE02120300000000202051\"}";
const OLD: (u32, [u8; 32]) = (1, [1; 32]);
const NEW: (u32, [u8; 32]) = (2, [2; 32]);

fn codec(current: u32, keys: &[(u32, [u8; 32])]) -> AesGcm {
    AesGcm::new(current, keys.iter().copied()).expect("the current one is there")
}

#[test]
fn what_is_encrypted_comes_back_and_is_never_the_same_twice() {
    let codec = codec(1, &[OLD]);
    for plain in [PLAIN, b""] {
        let [first, second] = [(), ()].map(|()| codec.encode(PK, plain.to_vec()).expect("a key"));
        assert_ne!(first, second, "a nonce was used twice");
        assert_eq!(first.len(), plain.len() + 32);
        assert_eq!(first[..4], 1_u32.to_be_bytes());
        for encoded in [first, second] {
            assert_eq!(codec.decode(PK, encoded).expect("its own"), plain);
        }
    }
    let encoded = codec.encode(PK, PLAIN.to_vec()).expect("a key");
    assert!(!encoded.windows(4).any(|four| four == b"iban"));
}

#[test]
fn another_records_answer_is_refused() {
    let codec = codec(1, &[OLD]);
    let encoded = codec.encode(PK, PLAIN.to_vec()).expect("a key");
    for pk in ["charge#order-43", "charge#order-4", "", "refund#order-42"] {
        assert!(codec.decode(pk, encoded.clone()).is_err(), "{pk}");
    }
}

#[test]
fn an_answer_that_was_changed_is_refused() {
    let codec = codec(1, &[OLD, NEW]);
    let encoded = codec.encode(PK, PLAIN.to_vec()).expect("a key");
    for at in 0..encoded.len() {
        let mut changed = encoded.clone();
        changed[at] ^= 1;
        assert!(codec.decode(PK, changed).is_err(), "byte {at}");
        assert!(codec.decode(PK, encoded[..at].to_vec()).is_err(), "cut at {at}");
    }
    // The other key's id before it.
    let mut relabeled = encoded;
    relabeled[..4].copy_from_slice(&2_u32.to_be_bytes());
    assert!(codec.decode(PK, relabeled).is_err());
}

#[test]
fn after_a_rotation_the_old_key_still_reads_and_the_new_one_writes() {
    let old = codec(1, &[OLD]).encode(PK, PLAIN.to_vec()).expect("a key");
    let rotated = codec(2, &[OLD, NEW]);
    assert_eq!(rotated.decode(PK, old.clone()).expect("the old key"), PLAIN);
    let new = rotated.encode(PK, PLAIN.to_vec()).expect("a key");
    assert_eq!(new[..4], 2_u32.to_be_bytes());
    let error = codec(2, &[NEW]).decode(PK, old).expect_err("the old key is gone");
    assert_eq!(error.to_string(), "there is no key with the id 1");
    assert!(AesGcm::new(3, [OLD, NEW]).is_err());
}

async fn charge(idempotency: &Idempotency) -> Result<Outcome<String>, RunError<std::io::Error>> {
    let operation = idempotency.operation("charge").key("order-42").payload(&1200);
    operation.run_with_outcome(async |_| Ok("DE02120300000000202051".to_owned())).await
}

#[tokio::test]
async fn a_repeat_gets_the_answer_by_the_key_that_wrote_it_and_an_error_without() {
    let sandbox = Sandbox::start().await.expect("a port is free");
    let with = |current, keys: &[_]| {
        let builder = sandbox.builder().answer_codec(codec(current, keys));
        builder.reject_plain_answers().build().expect("the settings are right")
    };
    let answer = "DE02120300000000202051".to_owned();
    let first = charge(&with(1, &[OLD])).await;
    assert_eq!(first.expect("it runs"), Outcome::Executed(answer.clone()));
    let repeat = charge(&with(2, &[OLD, NEW])).await;
    assert_eq!(repeat.expect("it is replayed"), Outcome::Replayed(answer));
    for unable in [with(2, &[NEW]), sandbox.idempotency()] {
        let error = charge(&unable).await.expect_err("it cannot be read");
        let kind = error.idempotency().map(dynamodb_idempotency::Error::kind);
        assert_eq!(kind, Some(ErrorKind::AnswerUnavailable));
    }
}
