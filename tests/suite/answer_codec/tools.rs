//! What the tools on records show of an encoded answer.

use dynamodb_idempotency::Idempotency;

use super::ways::Way;
use super::{Mask, SECRET, masking, step, strict};
use crate::support::{Link, Runs, Store};

#[tokio::test]
async fn tools_say_that_it_is_encoded_or_show_it_where_they_have_the_codec() {
    use dynamodb_idempotency::admin::{Select, StoredAnswer, StoredState};
    use dynamodb_idempotency::policy::KeyForm;

    for way in [Way::Small, Way::InParts] {
        let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
        way.call(&store, &strict(&store, &mask), &runs).await;
        let answer = async |tool: Idempotency| {
            let found = tool.admin().record(&"charge".into(), "k", KeyForm::Verbatim).await;
            match found.unwrap().expect("a record").state {
                StoredState::Completed { answer, .. } => answer,
                other => panic!("{other:?}"),
            }
        };
        let shown = answer(masking(&store, &mask).build().unwrap()).await;
        assert_eq!(shown, StoredAnswer::Json(format!("\"{}\"", way.answer())));
        let tool = store.tool(&Link::default());
        let encoded = way.answer().len() + 2 + 5 + 5 + Mask::overhead("charge#k");
        let encoded = StoredAnswer::Encoded { bytes: encoded.try_into().unwrap() };
        let page = tool.admin().page(0, 1, Select::All, None).await.unwrap();
        assert_eq!((page.records.len(), page.unreadable.len()), (1, 0));
        assert!(
            matches!(&page.records[0].state, StoredState::Completed { answer, .. } if *answer == encoded)
        );
        assert_eq!(answer(tool).await, encoded, "{way:?}");
    }
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    step(&masking(&store, &mask).build().unwrap(), "charge", &runs).await.unwrap_err();
    for (tool, result) in [
        (store.tool(&Link::default()), None),
        (masking(&store, &mask).build().unwrap(), Some(format!("\"{SECRET}\""))),
    ] {
        let found = tool.admin().record(&"charge".into(), "k", KeyForm::Verbatim).await;
        let steps = found.unwrap().expect("a record").steps.expect("steps");
        let shown = steps.into_values().next().expect("a step");
        match result {
            Some(json) => assert_eq!(shown, StoredAnswer::Json(json)),
            None => assert!(matches!(shown, StoredAnswer::Encoded { .. }), "{shown:?}"),
        }
    }
}
