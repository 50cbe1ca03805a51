//! A store whose answers are none that DynamoDB is known to give, or that answers in part: nothing is taken
//! for done that is not.

use std::convert::Infallible;

use dynamodb_idempotency::Transaction;

use crate::support::effects::count;
use crate::support::gate::patiently;
use crate::support::{Act, Link, caller_on, charge};

#[tokio::test]
async fn no_odd_answer_to_a_transaction_is_taken_for_success_or_keeps_the_key() {
    for act in [
        Act::Cancel(&[]),
        Act::Cancel(&["None"]),
        Act::Cancel(&["None", "None"]),
        Act::Cancel(&["ConditionalCheckFailed"]),
        Act::Cancel(&["ConditionalCheckFailed", "ConditionalCheckFailed"]),
        Act::Cancel(&["DuplicateItem", "None"]),
        Act::Cancel(&["Whatever", "None"]),
        Act::Cancel(&["None", "Whatever"]),
        Act::Cancel(&["ItemCollectionSizeLimitExceeded", "None"]),
        Act::Answer(400, "TransactionInProgressException"),
        Act::Answer(400, "IdempotentParameterMismatchException"),
        Act::Answer(400, "Whatever"),
        Act::Answer(418, "Teapot"),
        Act::Answer(302, "Moved"),
    ] {
        let (store, link, runs, idempotency) = caller_on(Link::default()).await;
        link.wire.every("TransactWriteItems", act.clone());
        let whole =
            idempotency.operation("charge").key("whole").no_payload().run_transaction(async || {
                let items = [count(store.table(), "effect")];
                Ok::<_, Infallible>(Transaction::new("paid".to_owned()).items(items))
            });
        let whole = patiently("an end", whole).await;
        assert!(whole.is_err(), "{act:?}: {whole:?}");
        let ended =
            idempotency.operation("charge").key("end").no_payload().run(async |execution| {
                let result = execution.commit("paid", [count(store.table(), "effect")]).await;
                assert!(result.is_err(), "{act:?}: {result:?}");
                result.map(|()| "paid".to_owned())
            });
        let ended = patiently("an end", ended).await;
        assert!(ended.is_err(), "{act:?}: {ended:?}");
        link.wire.up();
        for (run, key) in [(1, "whole"), (2, "end")] {
            let next = charge(idempotency.operation("charge").key(key).no_payload(), &runs).await;
            assert!(next.is_ok() && runs.count() == run, "{act:?}, {key}: {next:?}");
        }
        assert_eq!(store.counted("effect").await, 0);
    }
}
