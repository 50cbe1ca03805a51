//! All that stores an answer, or something like one: nothing of it is readable in the table.

use dynamodb_idempotency::policy::{Compression, Failure};
use dynamodb_idempotency::{Call, Error, Idempotency, Policy, Reconciled, RunError, Transaction};

use super::{Mask, SECRET, everything, is_custom, shows, strict};
use crate::support::effects::{count, debit};
use crate::support::raw::Item;
use crate::support::{Charging, Runs, Store, handlers, raw};

/// All that stores something of an answer's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    Small,
    Compressed,
    InParts,
    Failure,
    Commit,
    Transaction,
    InPlaceOfATransaction,
    Reconciled,
    ReconciledFailure,
    Step,
}

const WAYS: [Way; 10] = [
    Way::Small,
    Way::Compressed,
    Way::InParts,
    Way::Failure,
    Way::Commit,
    Way::Transaction,
    Way::InPlaceOfATransaction,
    Way::Reconciled,
    Way::ReconciledFailure,
    Way::Step,
];

impl Way {
    pub(super) fn answer(self) -> String {
        match self {
            Self::Compressed => format!("{SECRET}{}", "x".repeat(4000)),
            Self::InParts => SECRET.repeat(2000),
            _ => SECRET.to_owned(),
        }
    }

    /// One call; it counts its effect, where it has one.
    pub(super) async fn call(
        self,
        store: &Store,
        idempotency: &Idempotency,
        runs: &Runs,
    ) -> String {
        let with = |change: &dyn Fn(Policy) -> Policy| idempotency.charging_by(change);
        let operation = with(&|policy| policy);
        let ran = || {
            runs.add();
            self.answer()
        };
        let keep = |policy: Policy| policy.failure(Failure::Replay);
        let effect = || count(store.table(), "effect");
        match self {
            Self::Small | Self::Compressed => {
                operation.run(async |_| Ok::<_, String>(ran())).await.unwrap()
            }
            Self::InParts => {
                let operation = with(&|policy| policy.compression(Compression::Off));
                operation.run(async |_| Ok::<_, String>(ran())).await.unwrap()
            }
            Self::Failure => {
                let operation = with(&keep).replay_errors::<String>();
                handlers(operation.run(async |_| Err::<(), _>(ran())).await)
            }
            Self::Commit => operation
                .run(async |execution| {
                    execution.commit(&ran(), [effect()]).await?;
                    Ok::<_, Error>(String::new())
                })
                .await
                .unwrap(),
            Self::Transaction | Self::InPlaceOfATransaction => {
                self.run_transaction(operation, store).await
            }
            Self::Reconciled => operation
                .reconcile(async |_| Ok::<_, String>(Reconciled::Completed(ran())))
                .run(async |_| -> Result<String, String> { panic!("it ran") })
                .await
                .unwrap(),
            Self::ReconciledFailure => {
                let operation = with(&keep).replay_errors::<String>();
                let judged = operation.reconcile(async |_| Ok(Reconciled::<(), _>::Failed(ran())));
                handlers(judged.run(async |_| -> Result<(), String> { panic!("it ran") }).await)
            }
            Self::Step => step_and_fail_first(operation, ran).await,
        }
    }

    async fn run_transaction(self, operation: Call, store: &Store) -> String {
        let answer = self.answer();
        let transaction = if self == Self::Transaction {
            Transaction::new(answer).items([count(store.table(), "effect")])
        } else {
            let items = [debit(store.table(), "missing account", 1)];
            Transaction::new(String::new()).items(items).on_condition_failed(|_| Some(answer))
        };
        operation.run_transaction(async move || Ok::<_, String>(transaction)).await.unwrap()
    }

    async fn prepare(self, store: &Store) {
        if matches!(self, Self::Reconciled | Self::ReconciledFailure) {
            store.put(raw::abandoned("charge#k")).await;
        }
    }

    /// How often its handler, hook or step has run after all calls.
    fn counts(self) -> u32 {
        u32::from(!matches!(self, Self::Transaction | Self::InPlaceOfATransaction))
    }
}

/// Answers with its step's result; the first attempt fails after its step.
async fn step_and_fail_first(operation: Call, ran: impl Fn() -> String) -> String {
    let stepped = operation.run(async |execution| {
        let step = execution.step("charge", async { Ok::<_, String>(ran()) }).await?;
        if execution.attempt() == 1 { Err(RunError::Handler(step)) } else { Ok(step) }
    });
    match stepped.await {
        Ok(step) | Err(RunError::Handler(RunError::Handler(step))) => step,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn nothing_of_an_answer_stands_in_the_table_as_it_is_and_repeats_get_it() {
    for way in WAYS {
        let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
        way.prepare(&store).await;
        for call in 1..=3 {
            // A new process for each call.
            let answer = way.call(&store, &strict(&store, &mask), &runs).await;
            assert_eq!(answer, way.answer(), "{way:?}, call {call}");
            let all = everything(&store).await;
            assert!(!all.iter().any(|item| shows(item, SECRET)), "{way:?}, call {call}: {all:?}");
            // Whose words its reader has to trust.
            let coded = all.iter().flat_map(Item::values).filter(|value| is_custom(value));
            assert_eq!(coded.count(), 1, "{way:?}, call {call}: {all:?}");
        }
        assert_eq!(runs.count(), way.counts(), "{way:?}");
        let effects = u32::from(matches!(way, Way::Commit | Way::Transaction));
        assert_eq!(store.counted("effect").await, i64::from(effects), "{way:?}");
    }
}

/// The check would see it.
#[tokio::test]
async fn without_a_codec_it_does() {
    for way in WAYS {
        let (store, runs) = (Store::open().await, Runs::default());
        way.prepare(&store).await;
        way.call(&store, &store.idempotency(), &runs).await;
        let shown = everything(&store).await.iter().any(|item| shows(item, SECRET));
        assert_eq!(shown, way != Way::Compressed, "{way:?}");
    }
}
