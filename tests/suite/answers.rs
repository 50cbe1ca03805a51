//! Every answer comes back exactly, or as an error that says why not.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use dynamodb_idempotency::{ErrorKind, Outcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::raw::status;
use crate::support::{Act, Charging, Link, Runs, Store, in_record, kind, raw};

/// Runs with this answer, and gets it again.
async fn again<T: Clone + Serialize + DeserializeOwned + 'static>(store: &Store, answer: &T) -> T {
    let (idempotency, runs) = (store.idempotency(), Runs::default());
    let key = format!("{}", serde_json::to_string(answer).unwrap().len());
    let run = async || {
        let operation = idempotency.operation(std::any::type_name::<T>()).key(&key).no_payload();
        let outcome = operation.run_with_outcome(async |_| {
            runs.add();
            Ok::<_, String>(answer.clone())
        });
        outcome.await.unwrap()
    };
    assert!(!run().await.is_replayed());
    let replay = run().await;
    assert!(replay.is_replayed() && runs.count() == 1);
    replay.into_inner()
}

async fn comes_back<T>(store: &Store, answer: T)
where
    T: Clone + Debug + PartialEq + Serialize + DeserializeOwned + 'static,
{
    assert_eq!(again(store, &answer).await, answer);
}

#[tokio::test]
async fn empty_answers_come_back() {
    let store = Store::open().await;
    comes_back(&store, ()).await;
    comes_back(&store, None::<u32>).await;
    comes_back(&store, Some(0)).await;
    comes_back(&store, String::new()).await;
    comes_back(&store, Vec::<u8>::new()).await;
    comes_back(&store, BTreeMap::<String, u8>::new()).await;
    comes_back(&store, json!(null)).await;
    comes_back(&store, json!({"": [{}, [], "", null]})).await;
}

#[tokio::test]
async fn numbers_come_back_to_the_last_digit() {
    let store = Store::open().await;
    comes_back(&store, vec![u64::MAX, 0, 9_007_199_254_740_993]).await;
    comes_back(&store, vec![i64::MIN, i64::MAX, -1]).await;
    comes_back(&store, u128::MAX).await;
    let mut floats = vec![0.1 + 0.2, 1e300, -0.0, 5e-324, f64::MAX, f64::EPSILON, 1.0, 2.5e-8];
    // And a thousand of any kind: a parser that rounds in haste is wrong in some of them.
    let bits = (1..=1000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    floats.extend(bits.map(f64::from_bits).filter(|float| float.is_finite()));
    let back = again(&store, &floats).await;
    let bits = |floats: &[f64]| floats.iter().map(|float| float.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&back), bits(&floats));
}

#[tokio::test]
async fn a_json_value_comes_back_in_its_own_spelling() {
    let store = Store::open().await;
    let value: Value = serde_json::from_str(r#"{"a":1.0,"b":1,"c":1e300,"d":-0.0}"#).unwrap();
    let text = value.to_string();
    assert_eq!(again(&store, &value).await.to_string(), text);
    assert!(text.contains("1.0"), "{text}");
}

#[tokio::test]
async fn any_text_comes_back() {
    let store = Store::open().await;
    for text in ["\"\\\n\t\r\u{8}", "\0\u{1f}\u{7f}", "é 漢字 🦀 \u{2028}", "{\"json\":1}"] {
        comes_back(&store, format!("{}{text}", "x".repeat(text.len() * 7))).await;
    }
}

/// Runs with an answer that cannot be stored; what its record says in the answer's place.
async fn unstorable<T>(link: &Link, answer: T) -> String
where
    T: Clone + Debug + PartialEq + Serialize + DeserializeOwned + 'static,
{
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.by(link, in_record);
    let run = async || {
        let operation = idempotency.charging();
        operation
            .run_with_outcome(async |_| {
                runs.add();
                Ok::<_, String>(answer.clone())
            })
            .await
    };
    assert_eq!(run().await.unwrap(), Outcome::Executed(answer.clone()));
    let record = store.record("charge#k").await;
    assert_eq!(status(&record), "COMPLETED");
    for _ in 0..2 {
        assert_eq!(kind(run().await), ErrorKind::AnswerUnavailable);
    }
    assert_eq!((runs.count(), store.record("charge#k").await), (1, record.clone()));
    let response = record["response"].as_m().unwrap();
    assert_eq!(response.len(), 1);
    response["unavailable"].as_s().unwrap().clone()
}

#[tokio::test]
async fn an_answer_that_serde_cannot_write_completes_with_the_reason() {
    let by_pair = HashMap::from([((1_u8, 2_u8), 3_u8)]);
    let link = Link::default();
    let reason = unstorable(&link, by_pair).await;
    assert!(reason.contains("serialize"), "{reason}");
    assert_eq!(link.wire.requests()[..2], ["PutItem", "PutItem"]);
    // As `null`, it would be replayed as `None`.
    let reason = unstorable(&Link::default(), Some(f64::INFINITY)).await;
    assert!(reason.contains("serialize"), "{reason}");
}

#[tokio::test]
async fn an_answer_over_the_limit_completes_with_the_reason() {
    // Letters of one byte, and of two: DynamoDB counts bytes.
    for answer in ["x".repeat(400 * 1024), "é".repeat(210 * 1024)] {
        let link = Link::default();
        let reason = unstorable(&link, answer).await;
        assert!(reason.contains("too large"), "{reason}");
        assert_eq!(link.wire.requests()[..2], ["PutItem", "PutItem"], "it is not sent in vain");
    }
}

#[tokio::test]
async fn an_answer_that_the_store_refuses_completes_with_the_reason() {
    let link = Link::default();
    link.wire.next("PutItem", Act::Deliver);
    link.wire.next("PutItem", Act::Answer(400, "ValidationException"));
    let reason = unstorable(&link, "answer".to_owned()).await;
    assert!(reason.contains("rejected"), "{reason}");
}

#[tokio::test]
async fn an_answer_just_under_the_limit_is_stored() {
    let (store, answer) = (Store::open().await, "x".repeat(400 * 1024 - 500));
    let idempotency = store.by(&Link::default(), in_record);
    for _ in 0..2 {
        let operation = idempotency.charging();
        assert_eq!(operation.run(async |_| Ok::<_, String>(answer.clone())).await.unwrap(), answer);
    }
    let record = store.record("charge#k").await;
    let stored = &record["response"].as_m().unwrap()["json"];
    assert_eq!(stored.as_s().unwrap().len(), answer.len() + 2);
}

#[tokio::test]
async fn a_denied_completion_does_not_cost_the_answer() {
    for code in ["AccessDeniedException", "ExpiredTokenException"] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        link.wire.next("PutItem", Act::Deliver);
        link.wire.next("PutItem", Act::Answer(400, code));
        let operation = store.over(&link).charging();
        let outcome = operation.run_with_outcome(async |_| Ok::<_, String>(runs.add())).await;
        assert_eq!(outcome.unwrap(), Outcome::Executed(1));
        let record = store.record("charge#k").await;
        assert_eq!(record["response"], raw::answer("json", "1"), "{code}");
    }
}

#[tokio::test]
async fn an_answer_of_another_type_is_unreadable_and_stays() {
    let (store, runs) = (Store::open().await, Runs::default());
    let record = raw::completed("charge#k", "\"text\"");
    store.put(record.clone()).await;
    let result = store.idempotency().charging().run(async |_| Ok::<u32, String>(runs.add())).await;
    assert_eq!((kind(result), runs.count()), (ErrorKind::AnswerUnreadable, 0));
    assert_eq!(store.record("charge#k").await, record);
}
