//! The results of steps are encoded as answers are.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::policy::Failure;
use dynamodb_idempotency::{Outcome, Policy, Reconciled};

use super::{Does, Mask, SECRET, is_refused, masking, step, strict};
use crate::support::raw::{map, with};
use crate::support::{Charging, Link, Runs, Store, raw};

#[tokio::test]
async fn a_step_whose_result_cannot_be_encoded_is_still_done() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = masking(&store, &mask).build().unwrap();
    mask.encoding(Does::Fail);
    let said = step(&idempotency, "charge", &runs).await;
    assert_eq!(said.unwrap_err(), "not stored: AnswerUnavailable");
    mask.encoding(Does::Work);
    let steps = store.record("charge#k").await["steps"].clone();
    assert_eq!(steps, map("charge", AttributeValue::Null(true)));
    let said = step(&idempotency, "charge", &runs).await;
    assert_eq!((said.unwrap_err().as_str(), runs.count()), ("not run: AnswerUnavailable", 1));
}

#[tokio::test]
async fn a_step_that_cannot_be_decoded_is_not_done_again() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = masking(&store, &mask).build().unwrap();
    assert_eq!(step(&idempotency, "charge", &runs).await.unwrap_err(), SECRET);
    let steps = store.record("charge#k").await["steps"].clone();
    let record = with(raw::abandoned("charge#k"), "steps", steps);
    store.put(record.clone()).await;
    for failure in [Failure::Release, Failure::Replay] {
        let policy = |policy: Policy| policy.failure(failure);
        let bare = store.by(&Link::default(), policy);
        let masked = masking(&store, &mask).policy(policy).build().unwrap();
        for (does, reader) in [(Does::Fail, &masked), (Does::Panic, &masked), (Does::Work, &bare)] {
            mask.decoding(does);
            let said = step(reader, "charge", &runs).await;
            assert_eq!(said.unwrap_err(), "did not run: StepsUnreadable", "{does:?}");
            assert_eq!(store.record("charge#k").await, record);
        }
    }
    assert_eq!(step(&idempotency, "charge", &runs).await.unwrap_err(), SECRET);
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn one_steps_result_does_not_open_as_anothers_nor_as_an_answer() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = masking(&store, &mask).build().unwrap();
    step(&idempotency, "charge", &runs).await.unwrap_err();
    let record = store.record("charge#k").await;
    let stored = record["steps"].as_m().unwrap()["charge"].clone();
    for name in ["charg", "refund"] {
        let steps = map(name, stored.clone());
        store.put(with(record.clone(), "steps", steps)).await;
        let said = step(&idempotency, name, &runs).await;
        assert_eq!(said.unwrap_err(), "did not run: StepsUnreadable", "{name}");
    }
    let sealed = stored.as_b().unwrap().as_ref()[1..].to_vec();
    let answer = [b"\x02\0\0\0\x20".as_slice(), &sealed].concat();
    let completed = raw::completed("charge#k", "");
    store.put(with(completed, "response", AttributeValue::B(Blob::new(answer)))).await;
    is_refused(&store, &idempotency, "are not an answer").await;
    assert_eq!(runs.count(), 1);
}

/// A hook reads the steps of the operation that it judges.
#[tokio::test]
async fn a_hook_gets_the_steps_decoded() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    step(&masking(&store, &mask).build().unwrap(), "charge", &runs).await.unwrap_err();
    let failed = store.record("charge#k").await;
    let abandoned = with(raw::abandoned("charge#k"), "steps", failed["steps"].clone());
    store.put(abandoned).await;
    let idempotency = strict(&store, &mask);
    let judged = idempotency.charging().reconcile(async |abandoned| {
        let step: Option<String> = abandoned.step("charge").map_err(|error| error.to_string())?;
        Ok::<_, String>(Reconciled::Completed(step.expect("it is done")))
    });
    let outcome = judged
        .run_with_outcome(async |_| -> Result<String, String> { panic!("it ran") })
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Reconciled(SECRET.to_owned()));
}
