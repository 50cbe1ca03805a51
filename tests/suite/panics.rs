//! User code that panics: before the handler runs nothing has happened, after it has returned its effect has.
//! One test for each row of the table in `docs/guide/guarantees.md`; `http/panics.rs` has those of HTTP.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use dynamodb_idempotency::policy::Failure;
use dynamodb_idempotency::{
    AnswerCodec, Call, CodecError, ErrorKind, Execution, Idempotency, Reconciled, RunError,
    Transaction,
};
use futures::FutureExt;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::faq::invalid;
use crate::support::effects::{count, debit};
use crate::support::panicking::{ErrorPanicsWhenDropped, PanickingError, PanicsWhenDropped};
use crate::support::{
    Act, Charging, Link, Runs, Store, caller, caller_on, crates, handlers, kind, not_run,
    not_stored, raw,
};

/// Its serialization panics.
#[derive(Clone, Debug, Deserialize)]
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("user code")
    }
}

/// Its deserialization panics.
#[derive(Clone, Debug, Serialize)]
struct Unreadable;

impl<'de> Deserialize<'de> for Unreadable {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("user code")
    }
}

/// Asserts that the panic continues in the caller.
async fn panics<F: Future>(call: F) {
    let panic = AssertUnwindSafe(call).catch_unwind().await.err().expect("a panic");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"user code"));
}

fn retained(idempotency: &Idempotency) -> Call {
    let retain = Failure::Retain { max_attempts: 5 };
    idempotency.charging_by(|policy| policy.failure(retain))
}

#[tokio::test]
async fn a_handler_that_panics_has_failed() {
    let (store, _, idempotency) = caller().await;
    let operation = || idempotency.charging();
    panics(operation().run(async |_| -> Result<(), String> { panic!("user code") })).await;
    assert!(store.is_released("charge#k").await);
    panics(retained(&idempotency).run(async |_| -> Result<(), String> { panic!("user code") }))
        .await;
    assert_eq!(store.status("charge#k").await.as_deref(), Some("FAILED"));
}

#[tokio::test]
async fn a_hook_that_panics_changes_nothing() {
    let (store, link) = (Store::open().await, Link::default());
    store.put(raw::abandoned("charge#k")).await;
    let hook = async |_| -> Result<Reconciled<u32, String>, String> { panic!("user code") };
    let operation = store.over(&link).charging().reconcile(hook);
    panics(operation.run(async |_| Ok::<u32, String>(1))).await;
    assert_eq!(store.record("charge#k").await, raw::abandoned("charge#k"));
}

#[tokio::test]
async fn an_answer_whose_serialization_panics_completes_its_operation() {
    let (store, runs, idempotency) = caller().await;
    let run = || {
        idempotency.charging().run(async |_| {
            runs.add();
            Ok::<_, String>(Unwritable)
        })
    };
    run().await.unwrap();
    assert_eq!(store.status("charge#k").await.as_deref(), Some("COMPLETED"));
    assert_eq!((kind(run().await), runs.count()), (ErrorKind::AnswerUnavailable, 1));
}

#[tokio::test]
async fn an_error_whose_serialization_panics_is_kept_without_its_text() {
    let (_store, runs, idempotency) = caller().await;
    let run = || {
        idempotency.charging().replay_errors::<Unwritable>().run(async |_| {
            runs.add();
            Err::<(), _>(Unwritable)
        })
    };
    assert!(matches!(run().await, Err(RunError::Handler(_))));
    assert_eq!((kind(run().await), runs.count()), (ErrorKind::Failed, 1));
}

#[tokio::test]
async fn a_hooks_answer_whose_serialization_panics_completes_the_operation() {
    let (store, runs, idempotency) = caller().await;
    store.put(raw::abandoned("charge#k")).await;
    let run = || {
        let hook = async |_| Ok::<_, String>(Reconciled::Completed(Unwritable));
        idempotency.charging().reconcile(hook).run(async |_| {
            runs.add();
            Ok::<_, String>(Unwritable)
        })
    };
    run().await.unwrap();
    assert_eq!((kind(run().await), runs.count()), (ErrorKind::AnswerUnavailable, 0));
}

#[tokio::test]
async fn a_step_whose_result_panics_when_it_is_serialized_never_runs_again() {
    let (store, effects) = (Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    let attempt = async || {
        let run = idempotency.charging().run(async |execution| {
            let work = async {
                effects.add();
                Ok::<_, Infallible>(Unwritable)
            };
            execution.step("charge", work).await
        });
        let Err(RunError::Handler(error)) = run.await else { panic!("the step's error") };
        error
    };
    assert_eq!(not_stored(attempt().await).kind(), ErrorKind::AnswerUnavailable);
    for _ in 0..2 {
        assert_eq!(not_run(attempt().await).kind(), ErrorKind::AnswerUnavailable);
    }
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn a_commit_whose_answer_panics_when_it_is_serialized_is_not_sent() {
    let (store, link) = (Store::open().await, Link::default());
    let run = store.over(&link).charging().run(async |execution| {
        execution.commit(&Unwritable, [count(store.table(), "effect")]).await
    });
    assert!(invalid(&handlers(run.await)).starts_with("the answer cannot be serialized: "));
    assert_eq!(link.wire.count("TransactWriteItems"), 0);
}

#[tokio::test]
async fn a_transaction_whose_answer_panics_when_it_is_serialized_is_not_sent() {
    let (store, link, _, idempotency) = caller_on(Link::default()).await;
    let items = [count(store.table(), "effect")];
    let run = idempotency
        .charging()
        .run_transaction(async || Ok::<_, Infallible>(Transaction::new(Unwritable).items(items)));
    assert!(invalid(&crates(run.await)).starts_with("the answer cannot be serialized: "));
    assert_eq!(link.wire.requests(), [""; 0]);
}

#[tokio::test]
async fn a_transaction_whose_closure_panics_writes_nothing() {
    let (store, link) = (Store::open().await, Link::default());
    let operation = store.over(&link).charging();
    let build = async || -> Result<Transaction<u32>, Infallible> { panic!("user code") };
    panics(operation.run_transaction(build)).await;
    assert_eq!(link.wire.requests(), [""; 0]);
}

/// An earlier try of the transaction may be delayed: no panic leaves it in doubt.
#[tokio::test]
async fn a_transaction_whose_on_condition_failed_panics_is_not_applied_later() {
    let (store, link) = (Store::open().await, Link::without_retries());
    store.deposit("alice", 1).await;
    store.put(raw::with(raw::abandoned("charge#k"), "status", raw::s("FAILED"))).await;
    link.wire.next("TransactWriteItems", Act::Deliver);
    link.wire.next("TransactWriteItems", Act::LoseRequest);
    let before = store.record("charge#k").await;
    let operation = store.over(&link).charging();
    let items = [count(store.table(), "effect"), debit(store.table(), "alice", 5)];
    let transaction = Transaction::new(1).items(items);
    let transaction = transaction.on_condition_failed(|_| panic!("user code"));
    panics(operation.run_transaction(async || Ok::<_, Infallible>(transaction))).await;
    // The write that keeps a delayed copy of the first try from being applied.
    assert_ne!(store.record("charge#k").await["owner"], before["owner"]);
    assert_eq!(store.status("charge#k").await.as_deref(), Some("FAILED"));
    assert_eq!(store.counted("effect").await, 0);
}

/// Each way in which a codec can panic.
#[derive(Clone, Copy)]
enum Broken {
    Encode,
    EncodeError,
    EncodeErrorDrop,
    Decode,
    DecodeError,
    DecodeErrorDrop,
}

impl AnswerCodec for Broken {
    fn encode(&self, _: &str, plain: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        match self {
            Self::Encode => panic!("user code"),
            Self::EncodeError => Err(PanickingError.into()),
            Self::EncodeErrorDrop => Err(ErrorPanicsWhenDropped.into()),
            Self::Decode | Self::DecodeError | Self::DecodeErrorDrop => Ok(plain),
        }
    }

    fn decode(&self, _: &str, encoded: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        match self {
            Self::Decode => panic!("user code"),
            Self::DecodeError => Err(PanickingError.into()),
            Self::DecodeErrorDrop => Err(ErrorPanicsWhenDropped.into()),
            Self::Encode | Self::EncodeError | Self::EncodeErrorDrop => Ok(encoded),
        }
    }
}

#[tokio::test]
async fn an_answer_whose_codec_panics_completes_its_operation() {
    for broken in [
        Broken::Encode,
        Broken::EncodeError,
        Broken::EncodeErrorDrop,
        Broken::Decode,
        Broken::DecodeError,
        Broken::DecodeErrorDrop,
    ] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let idempotency = store.builder(&link).answer_codec(broken).build().unwrap();
        let run = || idempotency.charging().run(async |_| Ok::<_, String>(runs.add()));
        assert_eq!(run().await.unwrap(), 1);
        assert_eq!((kind(run().await), runs.count()), (ErrorKind::AnswerUnavailable, 1));
    }
}

#[tokio::test]
async fn a_commit_whose_codec_panics_is_not_sent() {
    let (store, link) = (Store::open().await, Link::default());
    let idempotency = store.builder(&link).answer_codec(Broken::Encode).build().unwrap();
    let run = idempotency
        .charging()
        .run(async |execution| execution.commit(&1, [count(store.table(), "effect")]).await);
    assert!(
        invalid(&handlers(run.await)).starts_with("the answer's AnswerCodec could not encode it: ")
    );
    assert_eq!(link.wire.count("TransactWriteItems"), 0);
}

#[tokio::test]
async fn a_stored_answer_whose_deserialization_panics_stays_stored() {
    let (store, runs, idempotency) = caller().await;
    let run = || {
        idempotency.charging().run(async |_| {
            runs.add();
            Ok::<_, String>(Unreadable)
        })
    };
    run().await.unwrap();
    let stored = store.record("charge#k").await;
    panics(run()).await;
    assert_eq!((store.record("charge#k").await, runs.count()), (stored, 1));
}

#[tokio::test]
async fn a_steps_result_whose_deserialization_panics_stays_stored() {
    let (store, effects) = (Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    let attempt = || {
        retained(&idempotency).run(async |execution| {
            let work = async {
                effects.add();
                Ok::<_, Infallible>(Unreadable)
            };
            execution.step("charge", work).await.map_err(|_| "a step's error")?;
            Err::<(), _>("later")
        })
    };
    attempt().await.unwrap_err();
    panics(attempt()).await;
    panics(attempt()).await;
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn what_a_handler_returned_is_stored_though_its_destructor_panics() {
    let (_store, runs, idempotency) = caller().await;
    for _ in 0..2 {
        let handler = |_| {
            runs.add();
            PanicsWhenDropped::returns(Ok::<_, Infallible>("paid".to_owned()))
        };
        let answer = idempotency.charging().run(handler).await.unwrap();
        assert_eq!((answer.as_str(), runs.count()), ("paid", 1));
    }
}

#[tokio::test]
async fn what_a_step_returned_is_stored_though_its_destructor_panics() {
    let (_store, runs, idempotency) = caller().await;
    let handler = async |execution: Execution| {
        let work = PanicsWhenDropped::returns(Ok::<_, Infallible>(runs.add()));
        execution.step("charge", work).await.unwrap();
        Err::<(), _>("the handler fails after the step")
    };
    let call = || idempotency.charging().run(handler);
    call().await.unwrap_err();
    let second = async |execution: Execution| {
        let work = async { panic!("the step runs again") };
        Ok::<u32, &str>(execution.step::<u32, Infallible>("charge", work).await.unwrap())
    };
    idempotency.charging().run(second).await.unwrap();
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_panic_whose_value_panics_when_it_is_dropped_is_a_panic_like_others() {
    struct Value;
    impl Drop for Value {
        fn drop(&mut self) {
            panic!("user code");
        }
    }
    #[derive(Debug)]
    struct Answer;
    impl Serialize for Answer {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            std::panic::panic_any(Value)
        }
    }
    impl<'de> Deserialize<'de> for Answer {
        fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Ok(Self)
        }
    }
    let (_store, _, idempotency) = caller().await;
    let call = || idempotency.charging();
    call().run(async |_| Ok::<_, Infallible>(Answer)).await.unwrap();
    let repeat = call().run(async |_| Ok::<_, Infallible>(Answer)).await;
    assert_eq!(kind(repeat), ErrorKind::AnswerUnavailable);
}
