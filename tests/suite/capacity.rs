//! What each way costs in capacity units, answers in their records as they are: the table in
//! `docs/exactly-once.md`.

use dynamodb_idempotency::{Error, Idempotency, Transaction};

use crate::support::effects::{count, put, row};
use crate::support::{Charging, Link, Store, caller_on, in_record};

const KIB: usize = 1024;

/// An item whose size, rounded up, is so many KB.
fn effect(table: &str, pk: &str, kib: usize) -> aws_sdk_dynamodb::types::TransactWriteItem {
    put(table, row(pk, &"x".repeat(kib * KIB - 200)))
}

async fn separately(
    store: &Store,
    link: &Link,
    idempotency: &Idempotency,
    answer: &str,
    kib: usize,
) {
    let done = idempotency.operation("o").key("separately").no_payload().run(async |_| {
        let item = effect(store.table(), "effect 1", kib).put.expect("a put").item;
        let put = store.client(link).put_item().table_name(store.table());
        put.set_item(Some(item)).send().await.expect("the store is there");
        Ok::<_, Error>(answer.to_owned())
    });
    done.await.unwrap();
}

async fn commit(store: &Store, idempotency: &Idempotency, answer: &str, kib: usize) {
    let done = idempotency.operation("o").key("commit").no_payload().run(async |execution| {
        execution.commit(answer, [effect(store.table(), "effect 2", kib)]).await?;
        Ok::<_, Error>(answer.to_owned())
    });
    done.await.unwrap();
}

async fn transaction(store: &Store, idempotency: &Idempotency, answer: &str, kib: usize) {
    let done =
        idempotency.operation("o").key("transaction").no_payload().run_transaction(async || {
            let transaction = Transaction::new(answer.to_owned());
            Ok::<_, Error>(transaction.items([effect(store.table(), "effect 3", kib)]))
        });
    done.await.unwrap();
}

/// Run it with `--nocapture` for the rows of the table. Local engines report no consumption for
/// canceled transactions; the service bills it.
#[tokio::test]
async fn the_documented_figures_are_those_of_the_engine() {
    // Size of answer and effect in KB; units separately, by a commit, by a transaction.
    for (kib, expected) in [(1, [3.0, 5.0, 4.0]), (10, [21.0, 41.0, 40.0])] {
        let (store, link) = (Store::open().await, Link::default());
        let idempotency = store.by(&link, in_record);
        let answer = "x".repeat(kib * KIB - 500);
        let mut units = Vec::new();
        link.wire.measure();
        separately(&store, &link, &idempotency, &answer, kib).await;
        units.push(link.wire.consumed());
        link.wire.measure();
        commit(&store, &idempotency, &answer, kib).await;
        units.push(link.wire.consumed());
        link.wire.measure();
        transaction(&store, &idempotency, &answer, kib).await;
        units.push(link.wire.consumed());
        println!(
            "{kib} KB: separately {}, commit {}, transaction {}",
            units[0], units[1], units[2]
        );
        assert_eq!(units, expected, "{kib} KB");
    }
}

#[tokio::test]
async fn a_repeat_writes_nothing() {
    let (store, link, _, idempotency) = caller_on(Link::default()).await;
    let item = count(store.table(), "effect");
    for _ in 0..2 {
        let done = idempotency
            .calling("o")
            .run_transaction(async || Ok::<_, Error>(Transaction::new(1).items([item.clone()])));
        assert_eq!(done.await.unwrap(), 1);
        link.wire.measure();
    }
    // Of the second: what local engines say of a canceled transaction.
    assert!(link.wire.consumed() < f64::EPSILON);
}
