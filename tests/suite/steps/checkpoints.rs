//! What a step costs and stores when its requests fail or are delayed.

use super::*;
use crate::support::Charging;

#[tokio::test]
async fn a_step_costs_one_write_and_a_replayed_one_none() {
    let (store, link, effects) = (Store::open().await, Link::default(), Effects::default());
    let idempotency = store.over(&link);
    let first = order(&idempotency, Failure::Release, &effects, false).await.unwrap();
    assert_eq!(first, Outcome::Executed(DONE.to_owned()));
    let [own, steps, complete] = ["PutItem", "UpdateItem", "PutItem"];
    assert_eq!(link.wire.requests(), [own, steps, steps, steps, complete]);
    link.wire.forget();

    store.delete("order#k").await;
    let abandoned = NAMES.map(|name| (name.to_owned(), s(&format!("\"{name} 1\""))));
    let abandoned = aws_sdk_dynamodb::types::AttributeValue::M(abandoned.into());
    store.put(with(raw::abandoned("order#k"), "steps", abandoned)).await;
    let again = order(&idempotency, Failure::Release, &effects, false).await.unwrap();
    assert_eq!(again, Outcome::Executed(DONE.to_owned()));
    assert_eq!(link.wire.requests(), ["PutItem", "UpdateItem", "PutItem"]);
    assert_eq!(effects.counts(), [1, 1, 1]);
}

#[tokio::test]
async fn a_result_is_in_the_record_before_the_next_step_and_gone_with_the_completion() {
    let store = Store::open().await;
    let operation = store.idempotency().calling("order");
    operation
        .run(async |execution| {
            execution
                .step("reserve", async { Ok::<_, &str>(serde_json::json!({"seat": 1})) })
                .await?;
            let record = store.record("order#k").await;
            assert_eq!(steps(&record), &Item::from([("reserve".into(), s("{\"seat\":1}"))]));
            execution.step("mail", async { Ok(()) }).await?;
            assert_eq!(steps(&store.record("order#k").await).len(), 2);
            Ok::<_, RunError<&str>>(())
        })
        .await
        .unwrap();
    let record = store.record("order#k").await;
    assert_eq!((status(&record), record.get("steps")), ("COMPLETED", None));
}

#[tokio::test]
async fn a_lost_response_to_a_step_stores_it_once() {
    for link in [Link::default(), Link::without_retries()] {
        for act in [Act::LoseResponse, Act::LoseRequest, Act::SERVER_ERROR, Act::THROTTLE] {
            let (store, effects) = (Store::open().await, Effects::default());
            for _ in NAMES {
                link.wire.next("UpdateItem", act.clone());
                link.wire.next("UpdateItem", Act::Deliver);
            }
            let idempotency = store.over(&link);
            let outcome = order(&idempotency, Failure::Release, &effects, false).await.unwrap();
            assert_eq!((outcome.into_inner().as_str(), effects.counts()), (DONE, [1, 1, 1]));
            assert!(link.wire.count("UpdateItem") >= 6, "{:?}", link.wire.requests());
            link.wire.forget();
        }
    }
}

/// A delayed write of the first step must not remove later steps.
#[tokio::test]
async fn a_delayed_write_of_a_step_changes_nothing() {
    let (store, link, effects) = (Store::open().await, Link::without_retries(), Effects::default());
    let gates = [Gate::default(), Gate::default()];
    for gate in &gates {
        link.wire.next("UpdateItem", Act::ArriveLate(gate.clone()));
        link.wire.next("UpdateItem", Act::Deliver);
    }
    let result = store.over(&link).calling("order").run(async |execution| {
        three(&execution, &effects).await?;
        let before = store.record("order#k").await;
        assert_eq!(steps(&before).len(), 3);
        for gate in &gates {
            gate.open();
        }
        link.wire.late_arrivals(2).await;
        assert_eq!(store.record("order#k").await, before);
        Ok::<_, RunError<&str>>(())
    });
    result.await.unwrap();
    assert_eq!(effects.counts(), [1, 1, 1]);
}

#[tokio::test]
async fn steps_at_once_are_all_stored() {
    let (store, runs) = (Store::open().await, Runs::default());
    let result = store.idempotency().calling("order").run(async |execution| {
        let gate = Gate::default();
        let names: Vec<String> = (0..5).map(|n| format!("step {n}")).collect();
        let all = names.iter().map(|name| {
            let (execution, gate) = (execution.clone(), &gate);
            async move {
                let work = async {
                    gate.pass().await;
                    Ok::<_, &str>(name.clone())
                };
                execution.step(name, work).await
            }
        });
        let (results, ()) = join(futures::future::join_all(all), async {
            gate.reached_by(5).await;
            gate.open();
        })
        .await;
        let results: Result<Vec<String>, _> = results.into_iter().collect();
        assert_eq!(results?, names);
        assert_eq!(steps(&store.record("order#k").await).len(), 5);
        runs.add();
        Ok::<_, RunError<&str>>(())
    });
    result.await.unwrap();
    assert_eq!(runs.count(), 1);
}

/// As in a `select!` whose other branch executes another step.
#[tokio::test]
async fn a_step_that_is_not_polled_for_a_while_stops_no_other() {
    let (store, link) = (Store::open().await, Link::default());
    let gate = Gate::default();
    link.wire.next("UpdateItem", Act::HoldResponse(gate.clone()));
    let result = store.over(&link).calling("order").run(async |execution| {
        let mut first = pin!(execution.step("first", async { Ok::<_, &str>(1) }));
        tokio::select! {
            biased;
            _ = &mut first => unreachable!(),
            () = gate.reached() => {}
        }
        let second = execution.step("second", async { Ok(2) }).await?;
        gate.open();
        Ok::<_, RunError<&str>>(first.await? + second)
    });
    assert_eq!(result.await.unwrap(), 3);
}
