//! A hook judges an operation whose owner vanished; its word is written over the very record that it
//! judged, or not at all.

use std::future::Future;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use dynamodb_idempotency::policy::{Failure, Outage, Takeover};
use dynamodb_idempotency::{
    Abandoned, ErrorKind, Execution, Idempotency, Outcome, Reconciled, RunError,
};

use crate::support::raw::{number, s, status, text, with};
use crate::support::{
    Act, Charging, Declined, Gate, Link, Runs, Store, caller, charge, charge_held, handlers,
    in_record, kind, raw, replayed,
};

type Word = Reconciled<String, Declined>;
type Charged = Result<Outcome<String>, RunError<Declined>>;

/// By when every lease of a present owner is over.
const AN_HOUR: i64 = 3600;

/// Who ran in a call, and how often.
#[derive(Clone, Debug, Default)]
struct Asked {
    hook: Runs,
    handler: Runs,
}

impl Asked {
    fn counts(&self) -> (u32, u32) {
        (self.hook.count(), self.handler.count())
    }
}

/// A store with an abandoned operation under `charge#k`.
async fn abandoned() -> Store {
    let store = Store::open().await;
    store.put(raw::abandoned("charge#k")).await;
    store
}

/// Runs the operation with a hook.
async fn asking<Fut: Future<Output = Result<Word, Declined>> + Send>(
    idempotency: &Idempotency,
    asked: &Asked,
    hook: impl Fn(Abandoned) -> Fut + Send + Sync,
) -> Charged {
    let operation = idempotency.charging().replay_errors::<Declined>();
    operation
        .reconcile(|abandoned| {
            asked.hook.add();
            hook(abandoned)
        })
        .run_with_outcome(async |execution| {
            asked.handler.add();
            Ok(format!("attempt {}", execution.attempt()))
        })
        .await
}

/// Like [`asking`], with a hook that returns `word`.
async fn with_hook(idempotency: &Idempotency, asked: &Asked, word: Word) -> Charged {
    asking(idempotency, asked, async |_| Ok(word.clone())).await
}

async fn never<T>(_: Execution) -> Result<T, String> {
    panic!("it ran")
}

fn found() -> Word {
    Reconciled::Completed("found".to_owned())
}

#[tokio::test]
async fn an_answer_is_stored_given_and_replayed_in_two_round_trips() {
    let (store, link, asked) = (abandoned().await, Link::default(), Asked::default());
    let before = store.record("charge#k").await;
    let idempotency = store.over(&link);
    let outcome = with_hook(&idempotency, &asked, found()).await.unwrap();
    assert_eq!(outcome, Outcome::Reconciled("found".to_owned()));
    assert_eq!(link.wire.requests(), ["PutItem", "PutItem"]);
    let record = store.record("charge#k").await;
    assert_eq!(status(&record), "COMPLETED");
    // A word is no attempt.
    assert_eq!((number(&record, "attempt"), &record["created_at"]), (1, &before["created_at"]));
    assert_ne!(record["owner"], before["owner"]);
    assert_eq!(record.get("lease_expires_at"), None);
    let day = number(&record, "completed_at") / 1000 + 86_400;
    assert!((number(&record, "expires_at") - day).abs() <= 1);
    let repeat = with_hook(&idempotency, &asked, found()).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("found".to_owned()));
    assert_eq!(asked.counts(), (1, 0));
}

#[tokio::test]
async fn a_hook_is_asked_about_no_other_operation() {
    let (store, _, idempotency) = caller().await;
    let asked = Asked::default();
    let first = with_hook(&idempotency, &asked, found()).await.unwrap();
    assert_eq!(first, Outcome::Executed("attempt 1".to_owned()));
    store.put(raw::pending("charge#k")).await;
    assert!(matches!(
        kind(with_hook(&idempotency, &asked, found()).await),
        ErrorKind::InProgress { .. }
    ));
    store.put(with(raw::abandoned("charge#k"), "expires_at", raw::n(1))).await;
    with_hook(&idempotency, &asked, found()).await.unwrap();
    assert_eq!(asked.counts(), (0, 2));
}

#[tokio::test]
async fn a_hook_sees_what_the_record_tells() {
    let (store, asked, seen) = (Store::open().await, Asked::default(), Mutex::new(None));
    let steps = raw::map("reserve", s("{\"seat\":7}"));
    let record = with(with(raw::abandoned("charge#k"), "attempt", raw::n(3)), "steps", steps);
    store.put(record.clone()).await;
    let idempotency = store.idempotency();
    let outcome = asking(&idempotency, &asked, async |abandoned| {
        *seen.lock().unwrap() = Some(abandoned);
        Ok(Reconciled::Refuse)
    });
    assert_eq!(kind(outcome.await), ErrorKind::Abandoned);
    let seen = seen.into_inner().unwrap().unwrap();
    let time = |name| {
        let millis = number(&record, name).try_into().unwrap();
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    };
    assert_eq!(seen.attempt(), 3);
    assert_eq!(seen.created_at(), time("created_at"));
    assert_eq!(seen.lease_ended_at(), time("lease_expires_at"));
    assert_eq!(seen.steps().collect::<Vec<_>>(), ["reserve"]);
    let seat: Option<serde_json::Value> = seen.step("reserve").unwrap();
    assert_eq!(seat, Some(serde_json::json!({"seat": 7})));
    assert_eq!(seen.step::<String>("mail").unwrap(), None);
    let error = seen.step::<String>("reserve").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AnswerUnreadable);
    let operation = idempotency.charging();
    let key = operation.run(async |execution| Ok::<_, String>(execution.derive_key("c").hex()));
    assert_eq!(key.await.unwrap(), seen.derive_key("c").hex());
}

#[tokio::test]
async fn an_operation_that_is_to_run_is_taken_over_with_its_steps() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let steps = raw::map("reserve", s("7"));
    store.put(with(raw::abandoned("charge#k"), "steps", steps)).await;
    let operation = store.over(&link).charging();
    let outcome = operation
        .reconcile(|_| async {
            runs.add();
            Ok::<Reconciled<u32, String>, _>(Reconciled::Execute)
        })
        .run_with_outcome(async |execution| {
            let reserved = execution.step("reserve", async { Err::<u32, _>("again") });
            Ok::<_, String>(execution.attempt() * 10 + reserved.await.unwrap())
        });
    assert_eq!(outcome.await.unwrap(), Outcome::Executed(27));
    assert_eq!(link.wire.requests(), ["PutItem", "UpdateItem", "PutItem"]);
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_refusal_an_error_and_a_panic_leave_the_record_as_it_is() {
    for case in ["refuse", "error", "panic"] {
        let (store, asked) = (abandoned().await, Asked::default());
        let before = store.record("charge#k").await;
        let idempotency = store.idempotency();
        let call = asking(&idempotency, &asked, async |_| match case {
            "refuse" => Ok(Reconciled::Refuse),
            "error" => Err(Declined { run: 9 }),
            _ => panic!("the hook does"),
        });
        let result = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(call)).await;
        match (case, result) {
            ("refuse", Ok(result)) => assert_eq!(kind(result), ErrorKind::Abandoned),
            ("error", Ok(result)) => assert_eq!(handlers(result), Declined { run: 9 }),
            ("panic", Err(panic)) => assert_eq!(panic.downcast_ref(), Some(&"the hook does")),
            other => panic!("{other:?}"),
        }
        assert_eq!((asked.counts(), store.record("charge#k").await), ((1, 0), before), "{case}");
    }
}

#[tokio::test]
async fn a_failure_is_stored_given_and_replayed() {
    let (store, link, asked) = (abandoned().await, Link::default(), Asked::default());
    let idempotency = store.over(&link);
    let failed = Reconciled::Failed(Declined { run: 4 });
    assert_eq!(handlers(with_hook(&idempotency, &asked, failed).await), Declined { run: 4 });
    assert_eq!(link.wire.requests(), ["PutItem", "UpdateItem"]);
    let record = store.record("charge#k").await;
    assert_eq!((status(&record), number(&record, "attempt")), ("FAILED", 1));
    assert_eq!(record["response"], raw::answer("json", "{\"run\":4}"));
    assert_eq!(record.get("lease_expires_at"), None);
    // `replay_errors` makes the policy `Failure::Replay`.
    assert_eq!(handlers(with_hook(&idempotency, &asked, found()).await), Declined { run: 4 });
    assert_eq!(asked.counts(), (1, 0));
}

#[tokio::test]
async fn after_a_failure_the_policy_says_what_comes() {
    for (failure, again) in [
        (Failure::Release, true),
        (Failure::Retain { max_attempts: 2 }, true),
        (Failure::Retain { max_attempts: 1 }, false),
        (Failure::Replay, false),
    ] {
        let (store, asked) = (abandoned().await, Asked::default());
        let idempotency = store.idempotency();
        let call = async || {
            idempotency
                .charging_by(|policy| policy.failure(failure))
                .reconcile(|_| async {
                    asked.hook.add();
                    Ok(Reconciled::<u32, &str>::Failed("declined"))
                })
                .run(async |execution| {
                    asked.handler.add();
                    Ok::<_, &str>(execution.attempt())
                })
                .await
        };
        assert_eq!(handlers(call().await), "declined");
        let second = call().await;
        if again {
            assert_eq!(second.unwrap(), 2, "{failure:?}");
        } else {
            assert_eq!(kind(second), ErrorKind::Failed, "{failure:?}");
        }
        assert_eq!(asked.counts(), (1, u32::from(again)), "{failure:?}");
    }
}

#[tokio::test]
async fn a_hook_has_its_say_where_the_policy_forbids_takeovers() {
    for (word, expected) in [(found(), "found"), (Reconciled::Execute, "attempt 2")] {
        let (store, asked) = (abandoned().await, Asked::default());
        let reject = |policy: dynamodb_idempotency::Policy| policy.takeover(Takeover::Reject);
        let idempotency = store.by(&Link::default(), reject);
        assert_eq!(with_hook(&idempotency, &asked, word).await.unwrap().into_inner(), expected);
    }
}

/// Takes about a second and a half: what a caller with a deadline has left.
#[tokio::test]
async fn a_hook_is_dropped_before_the_deadline() {
    let (store, link) = (abandoned().await, Link::default());
    let before = store.record("charge#k").await;
    let idempotency = store.over(&link);
    let deadline = link.clock.in_secs(2);
    let operation = idempotency.charging().deadline(deadline);
    let result = operation
        .reconcile(|_| std::future::pending::<Result<Reconciled<u32, String>, String>>())
        .run(never::<u32>);
    assert_eq!(kind(result.await), ErrorKind::DeadlineExceeded);
    assert!(link.clock.in_secs(0) < deadline, "the caller can still answer");
    assert_eq!(store.record("charge#k").await, before);
}

#[tokio::test]
async fn of_many_hooks_at_once_one_is_heard() {
    let (store, asked, gate) = (abandoned().await, Asked::default(), Gate::default());
    let numbers = Runs::default();
    let idempotency = store.builder(&Link::default()).build().unwrap();
    let calls = (0..20).map(|_| {
        asking(&idempotency, &asked, async |_| {
            let number = numbers.add();
            gate.pass().await;
            Ok(Reconciled::Completed(format!("hook {number}")))
        })
    });
    let (outcomes, ()) = tokio::join!(futures::future::join_all(calls), async {
        gate.reached_by(20).await;
        gate.open();
    });
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    let heard: Vec<_> = outcomes.iter().filter(|o| matches!(o, Outcome::Reconciled(_))).collect();
    assert_eq!(heard.len(), 1);
    let answer = heard[0].clone().into_inner();
    assert!(outcomes.iter().all(|o| o.clone().into_inner() == answer), "{outcomes:?}");
    assert_eq!(asked.counts(), (20, 0));
}

/// The outcome of a call whose hook returns an answer while `change` writes the record.
async fn meanwhile<Fut: Future<Output = ()> + Send>(
    store: &Store,
    asked: &Asked,
    change: impl Fn() -> Fut + Send + Sync,
) -> Charged {
    asking(&store.idempotency(), asked, async |_| {
        if asked.hook.count() == 1 {
            change().await;
        }
        Ok(found())
    })
    .await
}

#[tokio::test]
async fn a_word_on_a_record_that_has_changed_is_not_written() {
    let (store, asked) = (abandoned().await, Asked::default());
    let result = meanwhile(&store, &asked, async || {
        store.put(raw::completed("charge#k", "\"theirs\"")).await;
    });
    assert_eq!(result.await.unwrap(), Outcome::Replayed("theirs".to_owned()));

    let (store, asked) = (abandoned().await, Asked::default());
    let theirs = with(raw::pending("charge#k"), "owner", s("11111111111111111111111111111111"));
    let result = meanwhile(&store, &asked, async || store.put(theirs.clone()).await);
    assert!(matches!(kind(result.await), ErrorKind::InProgress { .. }));
    assert_eq!(store.record("charge#k").await, theirs);

    // The owner was slow and renews.
    let (store, asked) = (abandoned().await, Asked::default());
    let result = meanwhile(&store, &asked, async || store.put(raw::pending("charge#k")).await);
    assert!(matches!(kind(result.await), ErrorKind::InProgress { .. }));

    // Released: the operation is a new one.
    let (store, asked) = (abandoned().await, Asked::default());
    let result = meanwhile(&store, &asked, async || store.delete("charge#k").await);
    assert_eq!(result.await.unwrap(), Outcome::Executed("attempt 1".to_owned()));
    assert_eq!(asked.counts(), (1, 1));
}

/// The owner is slow, not dead: what it did meanwhile may change the hook's mind.
#[tokio::test]
async fn a_hook_is_asked_again_when_the_owner_has_stored_a_step_meanwhile() {
    let (store, asked) = (abandoned().await, Asked::default());
    let idempotency = store.idempotency();
    let result = asking(&idempotency, &asked, async |abandoned| {
        if abandoned.steps().next().is_some() {
            return Ok(found());
        }
        let stepped = with(store.record("charge#k").await, "steps", raw::map("charge", s("1")));
        store.put(stepped).await;
        Ok(Reconciled::Failed(Declined { run: 0 }))
    });
    assert_eq!(result.await.unwrap(), Outcome::Reconciled("found".to_owned()));
    assert_eq!(asked.counts(), (2, 0));
}

#[tokio::test]
async fn what_the_hook_has_found_done_is_not_run_when_the_store_goes_away() {
    let (store, link, asked) = (abandoned().await, Link::without_retries(), Asked::default());
    let before = store.record("charge#k").await;
    let idempotency = store.by(&link, |policy| policy.outage(Outage::Open));
    let result = asking(&idempotency, &asked, async |_| {
        link.wire.down(Act::LoseRequest);
        Ok(found())
    });
    assert_eq!(kind(result.await), ErrorKind::Unavailable);
    assert_eq!((asked.counts(), store.record("charge#k").await), ((1, 0), before));
}

#[tokio::test]
async fn an_answer_that_cannot_be_stored_is_given_once_and_completes_the_operation() {
    let store = abandoned().await;
    let idempotency = store.by(&Link::default(), in_record);
    let call = async || {
        let operation = idempotency.charging();
        let hook = |_| async { Ok::<_, String>(Reconciled::Completed("x".repeat(400 * 1024))) };
        operation.reconcile(hook).run_with_outcome(never::<String>).await
    };
    assert!(matches!(call().await, Ok(Outcome::Reconciled(answer)) if answer.len() == 400 * 1024));
    assert_eq!(kind(call().await), ErrorKind::AnswerUnavailable);
}

#[tokio::test]
async fn a_clone_of_an_operation_is_the_same_operation() {
    let (store, asked) = (abandoned().await, Asked::default());
    let operation = store.idempotency().operation("charge").key("k").payload(&1200);
    let operation = operation.replay_errors::<Declined>().reconcile(async |_| {
        asked.hook.add();
        Ok(Reconciled::<String, _>::Failed(Declined { run: 3 }))
    });
    store.delete("charge#k").await;
    let fail = async |_| {
        asked.handler.add();
        Err::<String, _>(Declined { run: 1 })
    };
    for operation in [operation.clone(), operation] {
        assert_eq!(handlers(operation.run(fail).await), Declined { run: 1 });
    }
    assert_eq!(asked.counts(), (0, 1));
}

#[tokio::test]
async fn an_owner_that_comes_back_gets_the_hooks_answer() {
    let (store, gate, runs) = (Store::open().await, Gate::default(), Runs::default());
    let (owner, taker) = (store.idempotency(), store.over(&Link::later(AN_HOUR)));
    let first = charge_held(owner.charging(), &runs, &gate);
    let (first, ()) = tokio::join!(first, async {
        gate.reached().await;
        let outcome = with_hook(&taker, &Asked::default(), found()).await.unwrap();
        assert_eq!(outcome, Outcome::Reconciled("found".to_owned()));
        gate.open();
    });
    assert_eq!(first.unwrap(), Outcome::Replayed("found".to_owned()));
    let repeat = charge(owner.charging(), &runs).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("found".to_owned()));
    assert_ne!(repeat, replayed(1, 1));
    assert_eq!(text(&store.record("charge#k").await, "status"), "COMPLETED");
}
