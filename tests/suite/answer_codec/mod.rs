//! With a codec, the table contains no part of an answer in plain text, and only that codec decodes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::policy::{Completed, Compression, Failure, LargeAnswers};
use dynamodb_idempotency::{
    AnswerCodec, Builder, Call, CodecError, Error, ErrorKind, Idempotency, Outcome, Policy,
    Reconciled, RunError, Transaction,
};

use crate::faq::invalid;
use crate::support::effects::{count, debit};
use crate::support::raw::{self, Item, map, s, status, with};
use crate::support::{Act, Link, Runs, Store, commit_kind, crates, handlers, kind};

const SECRET: &str = "DE02120300000000202051";

/// Masks bytes and binds them to their record; or fails, as configured.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    encoding: Arc<AtomicU8>,
    decoding: Arc<AtomicU8>,
}

/// How one of its two sides does its work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Does {
    Work,
    Fail,
    Panic,
}

impl Mask {
    const LABEL: &[u8] = b"mask";

    /// What it adds to the bytes under a key.
    fn overhead(pk: &str) -> usize {
        Self::LABEL.len() + 8 + pk.len()
    }

    fn encoding(&self, does: Does) {
        self.encoding.store(does as u8, Ordering::SeqCst);
    }

    pub(crate) fn decoding(&self, does: Does) {
        self.decoding.store(does as u8, Ordering::SeqCst);
    }

    fn head(pk: &str) -> Vec<u8> {
        [Self::LABEL, &(pk.len() as u64).to_be_bytes(), pk.as_bytes()].concat()
    }
}

fn obey(does: &AtomicU8) -> Result<(), CodecError> {
    match does.load(Ordering::SeqCst) {
        0 => Ok(()),
        1 => Err(format!("there is no key for {SECRET}").into()),
        _ => panic!("the codec does"),
    }
}

fn masked(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().map(|byte| byte ^ 0x5a)
}

impl AnswerCodec for Mask {
    fn encode(&self, pk: &str, plain: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        obey(&self.encoding)?;
        Ok(Self::head(pk).into_iter().chain(masked(&plain)).collect())
    }

    fn decode(&self, pk: &str, encoded: Vec<u8>) -> Result<Vec<u8>, CodecError> {
        obey(&self.decoding)?;
        let masked_bytes = encoded.strip_prefix(Self::head(pk).as_slice());
        Ok(masked(masked_bytes.ok_or("it is another record's")?).collect())
    }
}

fn masking(store: &Store, mask: &Mask) -> Builder {
    store.builder(&Link::default()).answer_codec(mask.clone())
}

/// A caller that takes nothing but what its codec wrote.
fn strict(store: &Store, mask: &Mask) -> Idempotency {
    masking(store, mask).reject_plain_answers().build().unwrap()
}

async fn everything(store: &Store) -> Vec<Item> {
    let scan = store.raw.scan().table_name(store.table()).consistent_read(true);
    let mut items = scan.into_paginator().items().send();
    let mut all = Vec::new();
    while let Some(item) = items.next().await {
        all.push(item.unwrap());
    }
    all
}

/// Whether the text stands anywhere in these attributes.
pub(crate) fn shows(item: &Item, text: &str) -> bool {
    fn within(value: &AttributeValue, text: &[u8]) -> bool {
        let found = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        match value {
            AttributeValue::S(own) => found(own.as_bytes()),
            AttributeValue::B(own) => found(own.as_ref()),
            AttributeValue::L(values) => values.iter().any(|value| within(value, text)),
            AttributeValue::M(fields) => fields.values().any(|value| within(value, text)),
            AttributeValue::N(_) => false,
            other => panic!("nothing that a record has: {other:?}"),
        }
    }
    item.values().any(|value| within(value, text.as_bytes()))
}

/// All that stores something of an answer's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
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
    fn answer(self) -> String {
        match self {
            Self::Compressed => format!("{SECRET}{}", "x".repeat(4000)),
            Self::InParts => SECRET.repeat(2000),
            _ => SECRET.to_owned(),
        }
    }

    /// One call; it counts its effect, where it has one.
    async fn call(self, store: &Store, idempotency: &Idempotency, runs: &Runs) -> String {
        let with = |change: &dyn Fn(Policy) -> Policy| {
            idempotency.operation("charge").policy(change).unwrap().key("k")
        };
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
            Self::Transaction => operation
                .run_transaction(async || {
                    Ok::<_, String>(Transaction::new(self.answer()).items([effect()]))
                })
                .await
                .unwrap(),
            Self::InPlaceOfATransaction => operation
                .run_transaction(async || {
                    let items = [debit(store.table(), "missing account", 1)];
                    let transaction = Transaction::new(String::new()).items(items);
                    let answer = self.answer();
                    Ok::<_, String>(transaction.on_condition_failed(|_| Some(answer)))
                })
                .await
                .unwrap(),
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
            // Fails after its step the first time.
            Self::Step => {
                let stepped = operation.run(async |execution| {
                    let step = execution.step("charge", async { Ok::<_, String>(ran()) }).await?;
                    if execution.attempt() == 1 { Err(RunError::Handler(step)) } else { Ok(step) }
                });
                match stepped.await {
                    Ok(step) | Err(RunError::Handler(RunError::Handler(step))) => step,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
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

/// Whether a codec wrote the attribute, or one nested in it.
fn is_custom(value: &AttributeValue) -> bool {
    match value {
        AttributeValue::B(bytes) => bytes.as_ref().starts_with(b"\x02"),
        AttributeValue::M(fields) => {
            fields.get("codec") == Some(&s("custom")) || fields.values().any(is_custom)
        }
        _ => false,
    }
}

async fn outcome(operation: Call, runs: &Runs) -> Result<Outcome<String>, RunError<String>> {
    operation
        .run_with_outcome(async |_| {
            runs.add();
            Ok(SECRET.to_owned())
        })
        .await
}

async fn charge(
    idempotency: &Idempotency,
    runs: &Runs,
) -> Result<Outcome<String>, RunError<String>> {
    outcome(idempotency.operation("charge").key("k"), runs).await
}

fn executed() -> Outcome<String> {
    Outcome::Executed(SECRET.to_owned())
}

fn replayed() -> Outcome<String> {
    Outcome::Replayed(SECRET.to_owned())
}

/// That a repeat gets an error which says `why`, runs nothing and changes nothing.
async fn is_refused(store: &Store, idempotency: &Idempotency, why: &str) {
    let (before, runs) = (everything(store).await, Runs::default());
    let error = charge(idempotency, &runs).await.unwrap_err();
    let error = error.idempotency().expect("the crate's");
    assert_eq!(error.kind(), ErrorKind::AnswerUnavailable, "{why}");
    assert!(error.to_string().contains(why), "{error}");
    assert_eq!(runs.count(), 0, "{why}");
    let sorted = |mut all: Vec<Item>| {
        all.sort_by_key(|item| raw::text(item, "pk").to_owned());
        all
    };
    assert_eq!(sorted(everything(store).await), sorted(before), "{why}");
}

#[tokio::test]
async fn an_answer_that_was_copied_under_another_key_does_not_open() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = masking(&store, &mask).build().unwrap();
    let other = idempotency.operation("charge").key("other");
    assert_eq!(outcome(other, &runs).await.unwrap(), executed());
    let copied = with(store.record("charge#other").await, "pk", s("charge#k"));
    store.put(copied).await;
    is_refused(&store, &idempotency, "it is another record's").await;
}

#[tokio::test]
async fn a_call_without_the_codec_gets_an_error_that_names_the_fix() {
    for way in [Way::Small, Way::Compressed, Way::InParts] {
        let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
        way.call(&store, &strict(&store, &mask), &runs).await;
        is_refused(&store, &store.idempotency(), "Builder::answer_codec").await;
    }
}

/// A record of each form that was there before codecs.
async fn plain(way: Way) -> (Store, Mask) {
    let (store, runs) = (Store::open().await, Runs::default());
    assert_eq!(way.call(&store, &store.idempotency(), &runs).await, way.answer());
    (store, Mask::default())
}

#[tokio::test]
async fn answers_from_before_the_codec_are_read_unless_that_is_refused() {
    for way in [Way::Small, Way::Compressed, Way::InParts, Way::Failure] {
        let (store, mask) = plain(way).await;
        let runs = Runs::default();
        let lenient = masking(&store, &mask).build().unwrap();
        assert_eq!(way.call(&store, &lenient, &runs).await, way.answer(), "{way:?}");
        assert_eq!(runs.count(), 0, "{way:?}");
        if way != Way::Failure {
            is_refused(&store, &strict(&store, &mask), "reject_plain_answers rejects").await;
        }
    }
}

#[tokio::test]
async fn a_plain_failure_is_not_replayed_where_plain_ones_are_refused() {
    let (store, mask) = plain(Way::Failure).await;
    let idempotency = strict(&store, &mask);
    let operation = idempotency.operation("charge").key("k").replay_errors::<String>();
    let repeat = operation.run(async |_| -> Result<(), String> { panic!("it ran") }).await;
    assert_eq!(kind(repeat), ErrorKind::Failed);
}

#[tokio::test]
async fn a_plain_step_is_read_unless_that_is_refused() {
    for (accepts, expected) in [(true, None), (false, Some(ErrorKind::StepsUnreadable))] {
        let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
        let steps = map("charge", s(&format!("\"{SECRET}\"")));
        store.put(with(raw::abandoned("charge#k"), "steps", steps)).await;
        let builder = masking(&store, &mask);
        let builder = if accepts { builder } else { builder.reject_plain_answers() };
        let idempotency = builder.build().unwrap();
        let operation = idempotency.operation("charge").key("k");
        let step = operation.run(async |execution| {
            let work = async { Ok::<_, String>(format!("{}", runs.add())) };
            execution.step("charge", work).await
        });
        match (step.await, expected) {
            (Ok(step), None) => assert_eq!(step, SECRET),
            (Err(RunError::Idempotency(error)), Some(kind)) => assert_eq!(error.kind(), kind),
            other => panic!("{other:?}"),
        }
        assert_eq!(runs.count(), 0);
    }
}

#[tokio::test]
async fn to_refuse_plain_answers_without_a_codec_is_a_mistake() {
    let store = Store::open().await;
    let built = store.builder(&Link::default()).reject_plain_answers().build();
    assert_eq!(built.unwrap_err().kind(), ErrorKind::Configuration);
}

#[tokio::test]
async fn an_answer_that_cannot_be_encoded_is_never_stored_plain_and_never_made_again() {
    for does in [Does::Fail, Does::Panic] {
        for reconciles in [false, true] {
            let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
            let idempotency = masking(&store, &mask).local_cache(1 << 20).build().unwrap();
            mask.encoding(does);
            if reconciles {
                store.put(raw::abandoned("charge#k")).await;
                let operation = idempotency.operation("charge").key("k");
                let judged = operation
                    .reconcile(async |_| Ok::<_, String>(Reconciled::Completed(SECRET.to_owned())));
                let outcome = judged
                    .run_with_outcome(async |_| -> Result<String, String> { panic!("it ran") })
                    .await
                    .unwrap();
                assert_eq!(outcome, Outcome::Reconciled(SECRET.to_owned()));
            } else {
                assert_eq!(charge(&idempotency, &runs).await.unwrap(), executed());
            }
            let record = store.record("charge#k").await;
            assert_eq!(status(&record), "COMPLETED");
            let reason = "its AnswerCodec could not encode it";
            assert_eq!(record["response"], raw::answer("unavailable", reason), "{does:?}");
            mask.encoding(Does::Work);
            is_refused(&store, &idempotency, reason).await;
            // It is the crate's own word, and no answer.
            is_refused(&store, &strict(&store, &mask), reason).await;
        }
    }
}

#[tokio::test]
async fn a_failure_that_cannot_be_encoded_is_kept_without_its_answer() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = masking(&store, &mask).build().unwrap();
    let charges = || {
        idempotency
            .operation("charge")
            .policy(|policy| policy.failure(Failure::Replay))
            .unwrap()
            .key("k")
            .replay_errors::<String>()
    };
    let fail = async |_| {
        runs.add();
        Err::<(), _>(SECRET.to_owned())
    };
    mask.encoding(Does::Fail);
    assert_eq!(handlers(charges().run(fail).await), SECRET);
    let record = store.record("charge#k").await;
    assert_eq!((status(&record), record.get("response")), ("FAILED", None));
    assert_eq!(kind(charges().run(fail).await), ErrorKind::Failed);
    assert_eq!(runs.count(), 1);
}

fn is_not_encoded(error: &Error) {
    assert!(
        invalid(error).starts_with("the answer's AnswerCodec could not encode it: "),
        "{error}"
    );
}

#[tokio::test]
async fn what_cannot_be_encoded_is_not_committed() {
    for does in [Does::Fail, Does::Panic] {
        let (store, mask) = (Store::open().await, Mask::default());
        let idempotency = masking(&store, &mask).build().unwrap();
        mask.encoding(does);
        let operation = idempotency.operation("charge").key("k");
        let committed = operation.run(async |execution| {
            execution.commit(SECRET, [count(store.table(), "effect")]).await
        });
        let error = handlers(committed.await);
        is_not_encoded(&error);
        let operation = idempotency.operation("charge").key("k");
        let error = operation.run_transaction(async || {
            let items = [count(store.table(), "effect")];
            Ok::<_, String>(Transaction::new(SECRET.to_owned()).items(items))
        });
        is_not_encoded(&crates(error.await));
        let left = everything(&store).await;
        let left: Vec<_> = left.iter().map(raw::status).collect();
        assert_eq!(left, ["RELEASED"], "{does:?}");
    }
}

/// A repeat gets the answer of a completed transaction even if the codec no longer encodes.
#[tokio::test]
async fn a_transaction_that_is_done_is_found_by_a_codec_that_does_not_encode() {
    let (store, mask) = (Store::open().await, Mask::default());
    let idempotency = masking(&store, &mask).build().unwrap();
    for (does, expected) in [(Does::Work, executed()), (Does::Fail, replayed())] {
        mask.encoding(does);
        let operation = idempotency.operation("charge").key("k");
        let ran = operation.run_transaction_with_outcome(async || {
            let items = [count(store.table(), "effect")];
            Ok::<_, String>(Transaction::new(SECRET.to_owned()).items(items))
        });
        assert_eq!(ran.await.unwrap(), expected);
    }
    assert_eq!(store.counted("effect").await, 1);
}

/// A completion that meets itself does not read its own answer back.
#[tokio::test]
async fn the_first_caller_gets_its_answer_though_it_cannot_be_read_back() {
    let (store, mask, link) = (Store::open().await, Mask::default(), Link::without_retries());
    let idempotency = store.builder(&link).answer_codec(mask.clone()).build().unwrap();
    mask.decoding(Does::Fail);
    let outcome = idempotency.operation("charge").key("k").run_with_outcome(async |execution| {
        let refused = execution.commit("paid", [debit(store.table(), "alice", 1)]).await;
        assert_eq!(commit_kind(&refused), ErrorKind::ConditionFailed);
        link.wire.next("PutItem", Act::LoseResponse);
        Ok::<_, Error>(SECRET.to_owned())
    });
    assert_eq!(outcome.await.unwrap(), executed());
    assert_eq!(link.wire.count("PutItem"), 3);
}

/// An encoded answer is not readable in the table anyway, so it is compressed more eagerly.
#[tokio::test]
async fn what_a_codec_encodes_is_compressed_where_it_may_save_the_unit_that_the_codec_costs() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = masking(&store, &mask).build().unwrap();
    let text = "1234567890".repeat(70);
    let ran = idempotency.operation("charge").key("k").run(async |_| {
        runs.add();
        Ok::<_, String>(text.clone())
    });
    assert_eq!(ran.await.unwrap(), text);
    let length = bytes(&store.record("charge#k").await).len();
    assert!(length < 200, "{length}");
    let repeat = idempotency.operation("charge").key("k");
    assert_eq!(repeat.run(async |_| Ok::<_, String>(String::new())).await.unwrap(), text);
    assert_eq!(runs.count(), 1);
}

/// There is no part with nothing in it.
#[tokio::test]
async fn a_codec_may_make_nothing_of_an_answer() {
    struct Forgetful;
    impl AnswerCodec for Forgetful {
        fn encode(&self, _: &str, _: Vec<u8>) -> Result<Vec<u8>, CodecError> {
            Ok(Vec::new())
        }
        fn decode(&self, _: &str, _: Vec<u8>) -> Result<Vec<u8>, CodecError> {
            Err("it is gone".into())
        }
    }
    let (store, runs) = (Store::open().await, Runs::default());
    let parts = LargeAnswers::InParts { above: 0 };
    let builder = store.builder(&Link::default()).answer_codec(Forgetful);
    let idempotency = builder.policy(|policy| policy.large_answers(parts)).build().unwrap();
    assert_eq!(charge(&idempotency, &runs).await.unwrap(), executed());
    is_refused(&store, &idempotency, "it is gone").await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_decoded_is_an_error_that_passes() {
    for way in [Way::Small, Way::Compressed, Way::InParts] {
        let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
        way.call(&store, &strict(&store, &mask), &runs).await;
        let reader = masking(&store, &mask).local_cache(1 << 20).build().unwrap();
        for (does, why) in [(Does::Fail, "there is no key"), (Does::Panic, "it panicked")] {
            mask.decoding(does);
            is_refused(&store, &reader, why).await;
        }
        mask.decoding(Does::Work);
        assert_eq!(way.call(&store, &reader, &runs).await, way.answer(), "{way:?}");
        assert_eq!(runs.count(), 1, "{way:?}");
    }
}

#[tokio::test]
async fn what_the_process_keeps_is_not_decoded_again() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let keeping = || masking(&store, &mask).local_cache(1 << 20).build().unwrap();
    let (owner, reader) = (keeping(), keeping());
    assert_eq!(charge(&owner, &runs).await.unwrap(), executed());
    assert_eq!(charge(&reader, &runs).await.unwrap(), replayed());
    mask.decoding(Does::Fail);
    assert_eq!(charge(&owner, &runs).await.unwrap(), replayed());
    assert_eq!(charge(&reader, &runs).await.unwrap(), replayed());
}

/// The bytes of an answer in its record.
fn bytes(record: &Item) -> Vec<u8> {
    record["response"].as_b().expect("bytes").clone().into_inner()
}

#[tokio::test]
async fn what_stands_before_the_codecs_bytes_cannot_be_changed_unseen() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = strict(&store, &mask);
    charge(&idempotency, &runs).await.unwrap();
    let record = store.record("charge#k").await;
    for at in 0..5 {
        for bit in [1, 2, 4] {
            let mut changed = bytes(&record);
            changed[at] ^= bit;
            // An unknown codec number means a record of a later version.
            let is_known = at > 0 || changed[0] < 3;
            let changed = AttributeValue::B(Blob::new(changed));
            store.put(with(record.clone(), "response", changed)).await;
            let found = kind(charge(&idempotency, &runs).await);
            let expected =
                if is_known { ErrorKind::AnswerUnavailable } else { ErrorKind::UnknownRecord };
            assert_eq!(found, expected, "byte {at}, bit {bit}");
        }
    }
    // Encoded twice.
    let twice = mask.encode("charge#k", bytes(&record)).unwrap();
    let twice = [&bytes(&record)[..5], &twice].concat();
    store.put(with(record, "response", AttributeValue::B(Blob::new(twice)))).await;
    is_refused(&store, &idempotency, "it was encoded twice").await;
    assert_eq!(runs.count(), 1);
}

/// The limit includes the bytes that the codec adds, so a caller with the same limit can read every
/// stored answer.
#[tokio::test]
async fn the_limit_of_answers_counts_what_the_codec_adds() {
    const LIMIT: usize = 2048;
    // Two quotation marks, the tail, the header inside.
    let bytes = |length: usize| length + 2 + 5 + 5 + Mask::overhead("charge#k");
    let longest = LIMIT - bytes(0);
    for large in [LargeAnswers::InRecord, LargeAnswers::InParts { above: 1000 }] {
        for length in [longest - 1, longest, longest + 1, LIMIT - 7] {
            let (store, mask) = (Store::open().await, Mask::default());
            let policy = |policy: Policy| {
                let policy = policy.compression(Compression::Off).max_answer_bytes(LIMIT);
                policy.large_answers(large)
            };
            let idempotency = masking(&store, &mask).policy(policy).build().unwrap();
            let charges = || {
                let operation = idempotency.operation("charge").key("k");
                operation.run(async |_| Ok::<_, String>("x".repeat(length)))
            };
            assert_eq!(charges().await.unwrap().len(), length);
            let repeat = charges().await;
            if length <= longest {
                assert_eq!(repeat.unwrap().len(), length);
            } else {
                assert_eq!(kind(repeat), ErrorKind::AnswerUnavailable, "{length}, {large:?}");
                let record = store.record("charge#k").await;
                let reason =
                    format!("it is too large: {} bytes, of at most {LIMIT}", bytes(length));
                assert_eq!(record["response"], raw::answer("unavailable", &reason));
            }
        }
    }
}

async fn step(idempotency: &Idempotency, name: &str, runs: &Runs) -> Result<String, String> {
    let operation = idempotency.operation("charge").key("k");
    let ran = operation.run(async |execution| {
        let work = async {
            runs.add();
            Ok::<_, String>(SECRET.to_owned())
        };
        let step = execution.step(name, work).await;
        Err::<String, _>(match step {
            Ok(step) => step,
            Err(RunError::Idempotency(error)) if error.step_ran() => {
                format!("not stored: {:?}", error.kind())
            }
            Err(RunError::Idempotency(error)) => format!("not run: {:?}", error.kind()),
            Err(other) => panic!("{other:?}"),
        })
    });
    ran.await.map_err(|error| match error {
        RunError::Handler(said) => said,
        RunError::Idempotency(error) => format!("did not run: {:?}", error.kind()),
    })
}

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
        let bare = store.builder(&Link::default()).policy(policy).build().unwrap();
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
    let operation = idempotency.operation("charge").key("k");
    let judged = operation.reconcile(async |abandoned| {
        let step: Option<String> = abandoned.step("charge").map_err(|error| error.to_string())?;
        Ok::<_, String>(Reconciled::Completed(step.expect("it is done")))
    });
    let outcome = judged
        .run_with_outcome(async |_| -> Result<String, String> { panic!("it ran") })
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Reconciled(SECRET.to_owned()));
}

/// The answer of a second run takes the place of the first's, encoded as well.
#[tokio::test]
async fn an_operation_that_runs_again_stores_its_new_answer_encoded() {
    let (store, runs, mask) = (Store::open().await, Runs::default(), Mask::default());
    let idempotency = strict(&store, &mask);
    for _ in 0..2 {
        let operation = idempotency
            .operation("charge")
            .policy(|policy| policy.completed(Completed::Execute))
            .unwrap()
            .key("k");
        assert_eq!(outcome(operation, &runs).await.unwrap(), executed());
        assert!(is_custom(&store.record("charge#k").await["response"]));
    }
    assert_eq!((charge(&idempotency, &runs).await.unwrap(), runs.count()), (replayed(), 2));
}

/// A message's answer says no more than that it is done; and still a reader that takes nothing plain
/// has to take it.
#[cfg(feature = "messages")]
#[tokio::test]
async fn a_message_that_is_done_is_done_for_a_strict_reader_too() {
    use crate::messages::function::{Ran, invoke, noting};
    use crate::messages::queue::{message, sqs};

    let (store, ran, mask) = (Store::open().await, Ran::default(), Mask::default());
    for _ in 0..2 {
        let service = strict(&store, &mask).sqs("book").handler(noting(&ran)).unwrap();
        let answer = invoke(&service, &sqs([message("1", "k", "a")])).await;
        assert_eq!(answer, serde_json::json!({"batchItemFailures": []}));
    }
    assert!(is_custom(&store.record("book#k").await["response"]));
    assert_eq!(ran.all(), ["a"]);
}

#[cfg(feature = "admin")]
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
