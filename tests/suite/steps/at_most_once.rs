//! A step whose request is sent at most once, whoever continues its operation.

use crate::support::Charging;
use dynamodb_idempotency::{Abandoned, EarlierSend, LookUp, Reconciled};

use super::*;

/// A service without idempotency keys.
#[derive(Clone, Debug, Default)]
struct Service {
    sent: Runs,
    asked: Runs,
}

type Refunded = Result<Outcome<String>, RunError<RunError<&'static str>>>;

/// Sends one refund. The service loses the first `lost` responses.
async fn refund(
    idempotency: &Idempotency,
    service: &Service,
    lost: u32,
    found: LookUp<String>,
) -> Refunded {
    let failure = Failure::Retain { max_attempts: 2 };
    let operation = idempotency.operation("order").policy(|p| p.failure(failure)).unwrap();
    operation
        .key("k")
        .no_payload()
        .run_with_outcome(async |execution| {
            let send = async {
                let number = service.sent.add();
                if number <= lost { Err("no response") } else { Ok(format!("refund {number}")) }
            };
            let look_up = async |earlier: EarlierSend| {
                service.asked.add();
                assert!(earlier.attempt() < execution.attempt(), "{earlier:?}");
                Ok(found)
            };
            execution.step_at_most_once("refund", send, look_up).await
        })
        .await
}

fn kind_of(outcome: Refunded) -> ErrorKind {
    let error = outcome.unwrap_err().flatten();
    error.into_handler().expect_err("the crate's own error").kind()
}

#[tokio::test]
async fn a_request_is_noted_before_it_is_sent_and_its_result_stored() {
    let store = Store::open().await;
    let sent = store.idempotency().calling("order").run(async |execution| {
        let send = async {
            let record = store.record("order#k").await;
            assert_eq!(steps(&record).keys().collect::<Vec<_>>(), ["refund~sent~1"]);
            Ok::<_, &str>("re_1".to_owned())
        };
        let look_up = async |_| panic!("no earlier attempt has sent it");
        execution.step_at_most_once("refund", send, look_up).await?;
        let record = store.record("order#k").await;
        assert_eq!(steps(&record)["refund"], s("\"re_1\""));
        Ok::<_, RunError<&str>>(())
    });
    sent.await.unwrap();
}

#[tokio::test]
async fn a_result_that_is_stored_is_neither_looked_up_nor_sent_again() {
    let (store, service) = (Store::open().await, Service::default());
    let abandoned = raw::map("refund", s("\"re_0\""));
    store.put(with(raw::abandoned("order#k"), "steps", abandoned)).await;
    let outcome = refund(&store.idempotency(), &service, 0, LookUp::Unknown).await.unwrap();
    assert_eq!(outcome, Outcome::Executed("re_0".to_owned()));
    assert_eq!((service.sent.count(), service.asked.count()), (0, 0));
}

#[tokio::test]
async fn what_is_found_is_stored_and_nothing_is_sent_again() {
    let (store, service) = (Store::open().await, Service::default());
    let idempotency = store.idempotency();
    assert!(refund(&idempotency, &service, 1, LookUp::Unknown).await.is_err());
    let found = LookUp::Found("re_1".to_owned());
    let outcome = refund(&idempotency, &service, 1, found).await.unwrap();
    assert_eq!(outcome, Outcome::Executed("re_1".to_owned()));
    assert_eq!((service.sent.count(), service.asked.count()), (1, 1));
}

/// The policy allows two attempts. Those that could not tell do not count.
#[tokio::test]
async fn as_long_as_nothing_is_known_nothing_is_sent_and_each_call_asks_again() {
    let (store, service) = (Store::open().await, Service::default());
    let idempotency = store.idempotency();
    assert!(refund(&idempotency, &service, 1, LookUp::Unknown).await.is_err());
    for asked in 1..=4 {
        let outcome = refund(&idempotency, &service, 1, LookUp::Unknown).await;
        assert_eq!(kind_of(outcome), ErrorKind::OutcomeUnknown);
        assert_eq!((service.sent.count(), service.asked.count()), (1, asked));
        assert!(steps(&store.record("order#k").await).contains_key("refund~sent~1"));
    }
    let found = LookUp::Found("re_1".to_owned());
    assert!(refund(&idempotency, &service, 1, found).await.is_ok());
    assert_eq!(service.sent.count(), 1);
}

#[tokio::test]
async fn a_request_that_cannot_take_effect_any_more_is_noted_and_sent_again() {
    let (store, service) = (Store::open().await, Service::default());
    let idempotency = store.idempotency();
    assert!(refund(&idempotency, &service, 1, LookUp::Unknown).await.is_err());
    let outcome = refund(&idempotency, &service, 1, LookUp::Impossible).await.unwrap();
    assert_eq!(outcome, Outcome::Executed("refund 2".to_owned()));
    assert_eq!((service.sent.count(), service.asked.count()), (2, 1));
}

#[tokio::test]
async fn the_age_of_a_note_is_counted_by_the_stores_clock() {
    let (store, service) = (Store::open().await, Service::default());
    assert!(refund(&store.idempotency(), &service, 1, LookUp::Unknown).await.is_err());
    let later = store.over(&Link::later(AN_HOUR));
    let operation =
        later.operation("order").policy(|p| p.failure(Failure::Retain { max_attempts: 2 }));
    let ages = operation.unwrap().key("k").no_payload().run(async |execution| {
        let look_up = async |earlier: EarlierSend| {
            Ok(LookUp::Found((earlier.attempt(), earlier.age().as_secs())))
        };
        execution.step_at_most_once("refund", never(), look_up).await
    });
    let (attempt, age) = ages.await.unwrap();
    assert_eq!(attempt, 1);
    // A `Date` has whole seconds.
    assert!((3595..=3605).contains(&age), "{age}");
}

/// Each call extends the retention, of 24 hours by default.
#[tokio::test]
async fn a_note_ends_with_its_record_a_retention_after_the_last_call() {
    let (store, service) = (Store::open().await, Service::default());
    assert!(refund(&store.idempotency(), &service, 1, LookUp::Unknown).await.is_err());
    for hours in [23, 46] {
        let later = store.over(&Link::later(hours * AN_HOUR));
        let outcome = refund(&later, &service, 1, LookUp::Unknown).await;
        assert_eq!(kind_of(outcome), ErrorKind::OutcomeUnknown);
    }
    assert_eq!((service.sent.count(), service.asked.count()), (1, 2));
    let later = store.over(&Link::later(71 * AN_HOUR));
    let outcome = refund(&later, &service, 1, LookUp::Unknown).await.unwrap();
    assert_eq!(outcome, Outcome::Executed("refund 2".to_owned()));
    assert_eq!(service.asked.count(), 2);
}

#[tokio::test]
async fn without_a_confirmed_note_nothing_is_sent() {
    let (link, service) = (Link::without_retries(), Service::default());
    let store = Store::open().await;
    for _ in 0..50 {
        link.wire.next("UpdateItem", Act::LoseRequest);
    }
    let operation = store.over(&link).operation("order");
    let short = Duration::from_secs(1);
    let operation =
        operation.policy(|p| p.completion_timeout(short)).unwrap().key("k").no_payload();
    let outcome = operation.run_with_outcome(async |execution| {
        let again = || async { Ok::<_, &str>(service.sent.add()) };
        let first =
            execution.step_at_most_once("refund", again(), async |_| Ok(LookUp::Unknown)).await;
        // A second note of this attempt would have another time.
        let second =
            execution.step_at_most_once("refund", again(), async |_| Ok(LookUp::Unknown)).await;
        let second = second.unwrap_err().into_handler().unwrap_err();
        assert_eq!(second.kind(), ErrorKind::InvalidUse);
        first
    });
    let error = outcome.await.unwrap_err().flatten().into_handler().unwrap_err();
    assert_eq!((error.kind(), error.step_ran()), (ErrorKind::Unavailable, false));
    assert_eq!(service.sent.count(), 0);
}

/// As a step whose result is not stored for the same reason.
#[tokio::test]
async fn a_handler_whose_note_finds_the_lease_lost_is_stopped() {
    for sends in [true, false] {
        let (store, returned) = (Store::open().await, Cell::new(false));
        let ran = store.idempotency().calling("order").run(async |execution| {
            let other = with(store.record("order#k").await, "owner", s(raw::ANOTHER));
            store.put(other).await;
            if sends {
                let look_up = async |_| Ok(LookUp::<u32>::Unknown);
                execution.step_at_most_once("refund", never(), look_up).await.unwrap_err()
            } else {
                execution.step("refund", async { Ok::<_, &str>(1) }).await.unwrap_err()
            };
            returned.set(true);
            Ok::<_, RunError<&str>>(1)
        });
        let error = ran.await.unwrap_err().flatten().into_handler().unwrap_err();
        assert_eq!((error.kind(), returned.get()), (ErrorKind::LeaseExpired, false), "{sends}");
    }
}

#[tokio::test]
async fn without_a_record_nothing_is_sent() {
    let (store, service) = (Store::open().await, Service::default());
    let off = store.builder(&Link::default()).disabled().build().unwrap();
    assert_eq!(kind_of(refund(&off, &service, 0, LookUp::Unknown).await), ErrorKind::Unavailable);
    assert_eq!(service.sent.count(), 0);
}

#[tokio::test]
async fn a_step_is_not_named_like_a_note() {
    let (store, service) = (Store::open().await, Service::default());
    let idempotency = store.idempotency();
    let outcome = idempotency.calling("order").run_with_outcome(async |execution| {
        execution.step("refund~sent~1", async { Ok::<_, &str>(service.sent.add()) }).await
    });
    let error = outcome.await.unwrap_err().flatten().into_handler().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidUse);
    assert_eq!(service.sent.count(), 0);
}

#[tokio::test]
async fn a_hook_does_not_see_a_note_as_a_step() {
    let store = Store::open().await;
    let steps = raw::map("refund~sent~1", s("1790000000000"));
    store.put(with(raw::abandoned("order#k"), "steps", steps)).await;
    let call = store.idempotency().calling("order");
    let call = call.reconcile(async |abandoned: Abandoned| {
        assert_eq!(abandoned.steps().count(), 0);
        for name in ["refund", "refund~sent~1"] {
            assert_eq!(abandoned.step::<i64>(name).unwrap(), None, "{name}");
        }
        Ok::<_, &str>(Reconciled::Completed(1))
    });
    assert_eq!(call.run(async |_| Ok(2)).await.unwrap(), 1);
}
