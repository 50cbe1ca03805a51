//! A whole operation as one transaction: it happens once, with its answer, in one round trip.

use std::time::Duration;

use dynamodb_idempotency::policy::{
    Completed, Failure, InProgress, LeaseExpired, Outage, Takeover,
};
use dynamodb_idempotency::{Call, ErrorKind, Idempotency, Outcome, RunError, Transaction};
use futures::future::join_all;

use crate::faq::invalid;
use crate::support::effects::{count, debit, put, row};
use crate::support::raw::{self, number, status};
use crate::support::{
    Act, Declined, Gate, Link, Runs, Store, charge, charge_held, crates, executed, in_record, kind,
    replayed,
};

const AN_HOUR: i64 = 3600;

type Transferred = Result<Outcome<String>, RunError<Declined>>;

/// Counts the row `effect`; the answer contains the number of the call.
async fn transfer(operation: Call, table: &str, runs: &Runs) -> Transferred {
    operation
        .run_transaction_with_outcome(async || {
            let answer = format!("run {}", runs.add());
            Ok(Transaction::new(answer).items([count(table, "effect")]))
        })
        .await
}

/// As `transfer`, of what may not be there; with an answer for that.
async fn pay(operation: Call, table: &str, answer: Option<&'static str>) -> Transferred {
    operation
        .run_transaction_with_outcome(async || {
            let transaction = Transaction::new("paid".to_owned());
            let transaction = transaction.items([count(table, "effect"), debit(table, "alice", 5)]);
            Ok(transaction.on_condition_failed(move |failed| {
                assert_eq!(failed.index(), 1);
                answer.map(str::to_owned)
            }))
        })
        .await
}

fn ran(run: u32) -> Outcome<String> {
    Outcome::Executed(format!("run {run}"))
}

fn hasty(store: &Store, link: &Link) -> Idempotency {
    let timeout = Duration::from_millis(300);
    store.builder(link).policy(|policy| policy.completion_timeout(timeout)).build().unwrap()
}

#[tokio::test]
async fn it_takes_one_round_trip_and_its_repeat_one() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let transfers = || idempotency.operation("transfers").key("k");
    assert_eq!(transfer(transfers(), store.table(), &runs).await.unwrap(), ran(1));
    assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
    let record = store.record("transfers#k").await;
    assert_eq!((status(&record), number(&record, "attempt")), ("COMPLETED", 1));
    link.wire.forget();
    let repeat = transfer(transfers(), store.table(), &runs).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("run 1".to_owned()));
    assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
    assert_eq!(store.counted("effect").await, 1);
    // And `run` knows it as well.
    let runs = Runs::default();
    let repeat = charge(transfers(), &runs).await.unwrap();
    assert_eq!((repeat, runs.count()), (Outcome::Replayed("run 1".to_owned()), 0));
}

#[tokio::test]
async fn of_many_at_once_one_happens_and_all_get_its_answer() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.builder(&Link::default()).build().unwrap();
    let callers = (0..32)
        .map(|_| transfer(idempotency.operation("transfers").key("k"), store.table(), &runs));
    let outcomes: Vec<_> = join_all(callers).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|outcome| !outcome.is_replayed()).count(), 1);
    let first = outcomes[0].clone().into_inner();
    assert!(outcomes.into_iter().all(|outcome| outcome.into_inner() == first));
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn another_request_under_the_key_is_refused() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = store.over(&link);
    let transfers = |amount: u32| idempotency.operation("transfers").key("k").payload(&amount);
    transfer(transfers(1), store.table(), &runs).await.unwrap();
    link.wire.forget();
    assert_eq!(kind(transfer(transfers(2), store.table(), &runs).await), ErrorKind::Mismatch);
    assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn a_lost_response_applies_it_once() {
    for link in [Link::default(), Link::without_retries()] {
        for act in [
            Act::LoseResponse,
            Act::LoseRequest,
            Act::SERVER_ERROR,
            Act::THROTTLE,
            Act::Answer(400, "TransactionInProgressException"),
            Act::Cancel(&["None", "TransactionConflict"]),
            Act::Cancel(&["TransactionConflict", "ConditionalCheckFailed"]),
        ] {
            let (store, runs) = (Store::open().await, Runs::default());
            link.wire.next("TransactWriteItems", act);
            let idempotency = store.over(&link);
            let transfers = || idempotency.operation("transfers").key("k");
            assert_eq!(transfer(transfers(), store.table(), &runs).await.unwrap(), ran(1));
            assert_eq!(store.counted("effect").await, 1);
            assert_eq!(link.wire.requests(), ["TransactWriteItems", "TransactWriteItems"]);
            link.wire.forget();
        }
    }
}

/// DynamoDB forgets the token after ten minutes.
#[tokio::test]
async fn one_whose_token_is_forgotten_recognises_itself() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    link.wire.next("TransactWriteItems", Act::LoseResponse);
    let used = Act::Answer(400, "IdempotentParameterMismatchException");
    link.wire.next("TransactWriteItems", used);
    let idempotency = store.over(&link);
    let outcome = transfer(idempotency.operation("transfers").key("k"), store.table(), &runs).await;
    assert_eq!(outcome.unwrap(), ran(1));
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn a_live_lease_is_respected_and_waited_for() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let gate = Gate::default();
    let (owner, idempotency) = (store.idempotency(), store.over(&link));
    let transfers = || idempotency.operation("transfers").key("k");
    let first = charge_held(owner.operation("transfers").key("k"), &runs, &gate);
    let wait = InProgress::Wait { timeout: Duration::from_secs(60) };
    let (first, waited) = tokio::join!(first, async {
        gate.reached().await;
        let refused = kind(transfer(transfers(), store.table(), &Runs::default()).await);
        assert!(matches!(refused, ErrorKind::InProgress { .. }), "{refused:?}");
        assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
        let waiting = idempotency.operation("transfers").policy(|policy| policy.in_progress(wait));
        let waiting = waiting.unwrap().key("k");
        let unused = Runs::default();
        let (waited, ()) = tokio::join!(transfer(waiting, store.table(), &unused), async {
            link.wire.sent("GetItem", 1).await;
            gate.open();
        });
        waited
    });
    assert_eq!(first.unwrap(), executed(1, 1));
    assert_eq!(waited.unwrap(), replayed(1, 1));
    assert_eq!(store.counted("effect").await, 0);
}

#[tokio::test]
async fn a_lease_that_is_over_is_taken_over_and_its_owner_gets_the_answer() {
    let (store, gate, runs) = (Store::open().await, Gate::default(), Runs::default());
    let link = Link::later(AN_HOUR);
    let (owner, taker) = (store.idempotency(), store.over(&link));
    let first = charge_held(owner.operation("transfers").key("k"), &runs, &gate);
    let (first, ()) = tokio::join!(first, async {
        gate.reached().await;
        let transfers = taker.operation("transfers").key("k");
        let second = transfer(transfers, store.table(), &Runs::default()).await;
        assert_eq!(second.unwrap(), ran(1));
        assert_eq!(link.wire.requests(), ["TransactWriteItems", "TransactWriteItems"]);
        gate.open();
    });
    assert_eq!(first.unwrap(), Outcome::Replayed("run 1".to_owned()));
    assert_eq!(number(&store.record("transfers#k").await, "attempt"), 2);
    assert_eq!(store.counted("effect").await, 1);
}

#[tokio::test]
async fn records_of_earlier_runs_are_met_by_the_policy() {
    let retain = |max_attempts| Failure::Retain { max_attempts };
    for (case, record, failure, takeover, expected) in [
        (
            "abandoned",
            raw::abandoned("o#k"),
            retain(9),
            Takeover::Reject,
            Err(ErrorKind::Abandoned),
        ),
        ("failed", raw::failed("o#k"), retain(2), Takeover::Execute, Ok(2)),
        (
            "failed for good",
            raw::failed("o#k"),
            retain(1),
            Takeover::Execute,
            Err(ErrorKind::Failed),
        ),
        ("failed before", raw::failed("o#k"), Failure::Release, Takeover::Execute, Ok(2)),
        (
            "past its retention",
            raw::with(raw::completed("o#k", "1"), "expires_at", raw::n(raw::now() / 1000 - 60)),
            Failure::Release,
            Takeover::Execute,
            Ok(1),
        ),
        (
            "not a record",
            row("o#k", "something else"),
            Failure::Release,
            Takeover::Execute,
            Err(ErrorKind::UnknownRecord),
        ),
    ] {
        let (store, runs) = (Store::open().await, Runs::default());
        store.put(record.clone()).await;
        let idempotency = store.idempotency();
        let operation = idempotency
            .operation("o")
            .policy(|policy| policy.failure(failure).takeover(takeover))
            .unwrap()
            .key("k");
        let result = transfer(operation, store.table(), &runs).await;
        let after = store.record("o#k").await;
        match expected {
            Ok(attempt) => {
                assert_eq!(result.unwrap(), ran(1), "{case}");
                assert_eq!((status(&after), number(&after, "attempt")), ("COMPLETED", attempt));
                assert_eq!(store.counted("effect").await, 1, "{case}");
            }
            Err(expected) => {
                assert_eq!(kind(result), expected, "{case}");
                assert_eq!((after, store.counted("effect").await), (record, 0), "{case}");
            }
        }
    }
}

#[tokio::test]
async fn a_kept_error_is_replayed() {
    let store = Store::open().await;
    let json = serde_json::to_string(&Declined { run: 7 }).unwrap();
    store.put(raw::with(raw::failed("o#k"), "response", raw::answer("json", &json))).await;
    let idempotency = store.idempotency();
    let operation = idempotency.operation("o").key("k").replay_errors::<Declined>();
    let transaction = async || Ok(Transaction::new("paid".to_owned()));
    let result = operation.run_transaction(transaction).await;
    assert!(matches!(result, Err(RunError::Handler(Declined { run: 7 }))), "{result:?}");
}

#[tokio::test]
async fn an_answer_for_a_failed_condition_is_stored_and_replayed() {
    let (store, link) = (Store::open().await, Link::default());
    let idempotency = store.over(&link);
    store.deposit("alice", 3).await;
    let transfers = || idempotency.operation("transfers").key("k");
    let refused = Some("insufficient funds");
    let first = pay(transfers(), store.table(), refused).await.unwrap();
    assert_eq!(first, Outcome::Executed("insufficient funds".to_owned()));
    assert_eq!(link.wire.requests(), ["TransactWriteItems", "PutItem"]);
    // Whatever the balance is by then.
    store.deposit("alice", 9).await;
    let repeat = pay(transfers(), store.table(), refused).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("insufficient funds".to_owned()));
    assert_eq!((store.counted("alice").await, store.counted("effect").await), (9, 0));
}

/// The repeat's own condition fails too: its record decides.
#[tokio::test]
async fn a_repeat_whose_condition_would_fail_by_now_gets_the_answer() {
    let (store, link) = (Store::open().await, Link::default());
    let idempotency = store.over(&link);
    store.deposit("alice", 5).await;
    let transfers = || idempotency.operation("transfers").key("k");
    let refused = Some("insufficient funds");
    let first = pay(transfers(), store.table(), refused).await.unwrap();
    assert_eq!(first, Outcome::Executed("paid".to_owned()));
    link.wire.forget();
    let repeat = pay(transfers(), store.table(), refused).await.unwrap();
    assert_eq!(repeat, Outcome::Replayed("paid".to_owned()));
    assert_eq!(link.wire.requests(), ["TransactWriteItems"]);
}

#[tokio::test]
async fn a_failed_condition_without_an_answer_leaves_nothing() {
    let store = Store::open().await;
    let idempotency = store.idempotency();
    let transfers = || idempotency.operation("transfers").key("k");
    let result = pay(transfers(), store.table(), None).await;
    assert_eq!(kind(result), ErrorKind::ConditionFailed);
    assert_eq!(store.item("transfers#k").await, None);
    store.deposit("alice", 5).await;
    let next = pay(transfers(), store.table(), None).await.unwrap();
    assert_eq!(next, Outcome::Executed("paid".to_owned()));
}

#[tokio::test]
async fn what_was_refused_or_failed_before_it_was_sent_leaves_nothing() {
    let (store, link) = (Store::open().await, Link::default());
    let idempotency = store.over(&link);
    let operation = || {
        idempotency
            .operation("o")
            .policy(|policy| policy.failure(Failure::Retain { max_attempts: 2 }))
            .unwrap()
            .key("k")
    };
    let failed: Transferred =
        operation().run_transaction_with_outcome(async || Err(Declined { run: 1 })).await;
    assert!(matches!(failed, Err(RunError::Handler(Declined { run: 1 }))), "{failed:?}");
    let refused: Transferred = operation()
        .run_transaction_with_outcome(async || Ok(Transaction::discard("no".to_owned())))
        .await;
    assert_eq!(refused.unwrap(), Outcome::NothingExecuted("no".to_owned()));
    let late = operation().deadline(link.clock.in_secs(-1));
    let late = transfer(late, store.table(), &Runs::default()).await;
    assert_eq!(kind(late), ErrorKind::DeadlineExceeded);
    let no_key = idempotency.operation("o").key("");
    let no_key = transfer(no_key, store.table(), &Runs::default()).await;
    assert_eq!(kind(no_key), ErrorKind::InvalidInput);
    // Each of the first two has looked whether there is an answer already.
    assert_eq!(link.wire.requests(), ["GetItem"; 2]);
    assert_eq!(store.item("o#k").await, None);
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    let (store, link) = (Store::open().await, Link::default());
    let (idempotency, table) = (store.over(&link), store.table());
    let many = (0..100).map(|i| count(table, &format!("row{i}"))).collect();
    let large = put(table, row("a", &"x".repeat(400 << 10)));
    for (items, expected) in [
        (many, "100 items are more than the 99 that fit"),
        (
            vec![count(table, "a"), count(table, "a")],
            "items 0 and 1 are about the same item of a table",
        ),
        (vec![count(table, "o#k")], "item 0 is about the operation's own record"),
        (vec![large], "item 0 has 409607 bytes, more than DynamoDB's 400 KB"),
    ] {
        let result = idempotency
            .operation("o")
            .key("k")
            .run_transaction(async || Ok::<_, Declined>(Transaction::new(1_u8).items(items)));
        assert_eq!(invalid(&crates(result.await)), expected);
    }
    let result = idempotency
        .operation("o")
        .policy(in_record)
        .unwrap()
        .key("k")
        .run_transaction(async || Ok::<_, Declined>(Transaction::new("x".repeat(400 << 10))));
    let message = invalid(&crates(result.await));
    assert!(message.starts_with("the answer, or the record with it, has "), "{message}");
    // Whether it was executed with another answer is looked up.
    assert_eq!(link.wire.requests(), ["GetItem"]);
}

#[tokio::test]
async fn one_that_has_landed_unheard_is_found_to_have() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = hasty(&store, &link);
    link.wire.every("TransactWriteItems", Act::LoseResponse);
    let outcome = transfer(idempotency.operation("o").key("k"), store.table(), &runs).await;
    assert_eq!(outcome.unwrap(), ran(1));
    assert_eq!((link.wire.count("PutItem"), store.counted("effect").await), (1, 1));
}

#[tokio::test]
async fn one_of_which_nothing_was_heard_is_an_error_that_says_so() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = hasty(&store, &link);
    link.wire.down(Act::LoseRequest);
    let operation =
        || idempotency.operation("o").policy(|p| p.outage(Outage::Open)).unwrap().key("k");
    let result = transfer(operation(), store.table(), &runs).await;
    assert_eq!(kind(result), ErrorKind::OutcomeUnknown);
    link.wire.up();
    assert_eq!(transfer(operation(), store.table(), &runs).await.unwrap(), ran(2));
    assert_eq!(store.counted("effect").await, 1);
}

/// After the call reports that nothing was written, none of its tries is applied, whatever record they
/// require.
#[tokio::test]
async fn one_that_was_given_up_never_lands() {
    let over = raw::now() / 1000 - 60;
    let (released, failed) =
        (raw::with(raw::failed("o#k"), "status", raw::s("RELEASED")), raw::failed("o#k"));
    for (case, planted, completed, attempt) in [
        ("none", None, Completed::Replay, 1),
        ("released", Some(released), Completed::Replay, 2),
        ("failed", Some(failed.clone()), Completed::Replay, 2),
        (
            "past its retention",
            Some(raw::with(failed, "expires_at", raw::n(over))),
            Completed::Replay,
            1,
        ),
        ("abandoned", Some(raw::abandoned("o#k")), Completed::Replay, 2),
        ("completed", Some(raw::completed("o#k", "1")), Completed::Execute, 2),
    ] {
        for fault in [None, Some(Act::LoseResponse), Some(Act::LoseRequest)] {
            let (store, link) = (Store::open().await, Link::without_retries());
            let (idempotency, runs) = (hasty(&store, &link), Runs::default());
            if let Some(planted) = &planted {
                store.put(planted.clone()).await;
                // This one finds it.
                link.wire.next("TransactWriteItems", Act::Deliver);
            }
            let (gate, write) =
                (Gate::default(), if planted.is_some() { "UpdateItem" } else { "PutItem" });
            link.wire.every("TransactWriteItems", Act::ArriveLate(gate.clone()));
            if let Some(fault) = fault {
                link.wire.next(write, fault);
            }
            let operation = || {
                idempotency
                    .operation("o")
                    .policy(|policy| policy.completed(completed))
                    .unwrap()
                    .key("k")
            };
            let result = transfer(operation(), store.table(), &runs).await;
            assert_eq!(kind(result), ErrorKind::Unavailable, "{case}");
            let left = store.record("o#k").await;
            let late = link.wire.count("TransactWriteItems") - usize::from(planted.is_some());
            gate.open();
            link.wire.late_arrivals(u32::try_from(late).unwrap()).await;
            assert_eq!(
                (store.record("o#k").await, store.counted("effect").await),
                (left.clone(), 0),
                "{case}"
            );
            let before = planted.as_ref().map_or("RELEASED", |planted| status(planted));
            assert_eq!(
                (status(&left), left.get("response")),
                (before, planted.as_ref().and_then(|planted| planted.get("response"))),
                "{case}"
            );
            link.wire.up();
            assert_eq!(
                transfer(operation(), store.table(), &runs).await.unwrap(),
                ran(2),
                "{case}"
            );
            let record = store.record("o#k").await;
            assert_eq!(
                (number(&record, "attempt"), store.counted("effect").await),
                (attempt, 1),
                "{case}"
            );
        }
    }
}

/// A slow owner can still complete its record after a transaction of another call was rejected.
#[tokio::test]
async fn one_that_was_given_up_leaves_a_slow_owner_its_record() {
    let (store, gate, runs) = (Store::open().await, Gate::default(), Runs::default());
    let link = Link::later(AN_HOUR);
    let (owner, taker) = (store.idempotency(), hasty(&store, &link));
    link.wire.next("TransactWriteItems", Act::Deliver);
    link.wire.every("TransactWriteItems", Act::LoseRequest);
    let first = owner
        .operation("transfers")
        .policy(|policy| policy.lease_expired(LeaseExpired::Continue))
        .unwrap()
        .key("k");
    let first = charge_held(first, &runs, &gate);
    let (first, ()) = tokio::join!(first, async {
        gate.reached().await;
        let second = transfer(taker.operation("transfers").key("k"), store.table(), &runs).await;
        assert_eq!(kind(second), ErrorKind::Unavailable);
        gate.open();
    });
    assert_eq!(first.unwrap(), executed(1, 1));
    assert_eq!(store.counted("effect").await, 0);
}

#[tokio::test]
async fn one_that_never_gets_through_has_not_happened() {
    for act in [Act::THROTTLE, Act::Cancel(&["TransactionConflict", "None"])] {
        let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
        let idempotency = hasty(&store, &link);
        link.wire.every("TransactWriteItems", act);
        let result = transfer(idempotency.operation("o").key("k"), store.table(), &runs).await;
        assert_eq!(kind(result), ErrorKind::Unavailable);
        assert_eq!(store.item("o#k").await, None);
    }
}

#[tokio::test]
async fn a_delayed_request_changes_nothing() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let (idempotency, gate) = (store.over(&link), Gate::default());
    link.wire.next("TransactWriteItems", Act::ArriveLate(gate.clone()));
    let outcome = transfer(idempotency.operation("o").key("k"), store.table(), &runs).await;
    assert_eq!(outcome.unwrap(), ran(1));
    let before = store.record("o#k").await;
    gate.open();
    link.wire.late_arrivals(1).await;
    assert_eq!((store.record("o#k").await, store.counted("effect").await), (before, 1));
}

/// A try is in flight when a condition of a later one fails.
#[tokio::test]
async fn a_refusal_is_final_or_the_earlier_try_is_the_answer() {
    let refusal = || Act::Cancel(&["None", "None", "ConditionalCheckFailed"]);
    for (answer, arrives_first) in [
        (Some("insufficient funds"), false),
        (Some("insufficient funds"), true),
        (None, false),
        (None, true),
    ] {
        let (store, link, gate) = (Store::open().await, Link::without_retries(), Gate::default());
        store.deposit("alice", 5).await;
        let idempotency = store.over(&link);
        link.wire.next("TransactWriteItems", Act::ArriveLate(gate.clone()));
        link.wire.next("TransactWriteItems", refusal());
        let held = Gate::default();
        link.wire.next("PutItem", Act::HoldRequest(held.clone()));
        let first = pay(idempotency.operation("o").key("k"), store.table(), answer);
        let (first, ()) = tokio::join!(first, async {
            held.reached().await;
            if arrives_first {
                gate.open();
                link.wire.late_arrivals(1).await;
            }
            held.open();
        });
        match (answer, arrives_first) {
            (Some(answer), false) => {
                assert_eq!(first.unwrap(), Outcome::Executed(answer.to_owned()));
            }
            (Some(_), true) => assert_eq!(first.unwrap(), Outcome::Replayed("paid".to_owned())),
            (None, false) => {
                assert_eq!(kind(first), ErrorKind::ConditionFailed);
            }
            (None, true) => assert_eq!(first.unwrap(), Outcome::Executed("paid".to_owned())),
        }
        if !arrives_first {
            gate.open();
            link.wire.late_arrivals(1).await;
        }
        assert_eq!(store.counted("effect").await, i64::from(arrives_first), "{answer:?}");
    }
}

/// A try may be in flight when the call finds another request's record. The try requires that no record
/// exists, and the record exists for as long as the try can be delayed.
#[tokio::test]
async fn a_try_in_doubt_can_land_no_more_once_a_record_was_seen() {
    let (store, link, runs) = (Store::open().await, Link::default(), Runs::default());
    let idempotency = hasty(&store, &link);
    let operation = || idempotency.operation("charge").key("k").payload("mine");
    store.put(raw::pending("charge#k")).await;
    link.wire.next("TransactWriteItems", Act::LoseRequest);
    assert_eq!(kind(transfer(operation(), store.table(), &runs).await), ErrorKind::Mismatch);
    assert_eq!(kind(transfer(operation(), store.table(), &runs).await), ErrorKind::Mismatch);
    store.put(raw::completed("charge#k", "1")).await;
    link.wire.next("TransactWriteItems", Act::LoseRequest);
    assert_eq!(kind(transfer(operation(), store.table(), &runs).await), ErrorKind::Mismatch);
    assert_eq!(store.counted("effect").await, 0);
}

/// Whatever `build` makes of a repeat, by what has changed since: it has an answer already.
#[tokio::test]
async fn a_repeat_that_would_be_refused_by_now_gets_the_answer() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.idempotency();
    let operation = || idempotency.operation("charge").key("k").payload("mine");
    assert_eq!(transfer(operation(), store.table(), &runs).await.unwrap(), ran(1));
    let refused = async || Ok::<_, Declined>(Transaction::discard("paid already".to_owned()));
    let failed = async || Err(Declined { run: 2 });
    let replayed = Outcome::Replayed("run 1".to_owned());
    let repeat = operation().run_transaction_with_outcome(refused).await;
    assert_eq!(repeat.unwrap(), replayed);
    let repeat: Transferred = operation().run_transaction_with_outcome(failed).await;
    assert_eq!(repeat.unwrap(), replayed);
    let other = operation().payload("other").run_transaction_with_outcome(refused).await;
    assert_eq!(kind(other), ErrorKind::Mismatch);
    assert_eq!(store.counted("effect").await, 1);
}
