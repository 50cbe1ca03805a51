//! Logs, spans and metrics of a call: each once, under stable names, and never with the key.

use std::time::Duration;

use dynamodb_idempotency::policy::{Failure, Lease, Outage, Takeover, Unconfirmed};
use dynamodb_idempotency::signals::{
    ANSWER_BYTES, CALLS, EXECUTIONS, HANDLER_SECONDS, LogKey, STORE_SECONDS, TAKEOVERS, hashed_key,
};
use dynamodb_idempotency::{Call, ErrorKind, Idempotency, Policy, Reconciled, Transaction};
use futures::FutureExt;
use tracing::Level;

use crate::support::listener::Listener;
use crate::support::raw::{s, with};
use crate::support::{
    Act, Charging, Declined, Gate, Link, Runs, Store, charge, charge_held, decline, decline_kept,
    kind, raw,
};

const ENDED: &str = "an idempotent call has ended";

/// By when every lease of a present owner is over.
const AN_HOUR: i64 = 3600;

/// The outcomes of all calls so far, which event, span and counter must agree on.
fn outcomes(listener: &Listener) -> Vec<String> {
    let ended = listener.logged(ENDED);
    let of_events: Vec<_> = ended.iter().map(|event| event.get("outcome").to_owned()).collect();
    let mut of_spans: Vec<_> = listener
        .spans()
        .into_iter()
        .map(|(_, mut fields)| fields.remove("outcome").expect("the call has ended"))
        .collect();
    let mut counted = Vec::new();
    for (metric, count) in listener.metrics().counts {
        let label = format!("{EXECUTIONS}{{operation=charge,outcome=");
        if let Some(outcome) = metric.strip_prefix(&label) {
            let outcome = outcome.trim_end_matches('}').to_owned();
            counted.extend((0..count).map(|_| outcome.clone()));
        }
    }
    let mut sorted = of_events.clone();
    sorted.sort();
    of_spans.sort();
    counted.sort();
    assert_eq!(of_spans, sorted);
    assert_eq!(counted, sorted);
    of_events
}

fn operation(idempotency: &Idempotency) -> Call {
    idempotency.charging()
}

fn policy_of(idempotency: &Idempotency, change: impl FnOnce(Policy) -> Policy) -> Call {
    idempotency.charging_by(change)
}

#[tokio::test]
async fn a_first_call_is_logged_at_debug_and_other_calls_at_info() {
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    let idempotency = store.idempotency();
    charge(operation(&idempotency), &runs).await.unwrap();
    charge(operation(&idempotency), &runs).await.unwrap();
    charge(idempotency.operation("charge").key("k").payload("another"), &runs).await.unwrap_err();
    let ended = listener.logged(ENDED);
    let levels: Vec<_> = ended.iter().map(|event| event.level).collect();
    assert_eq!(levels, [Level::DEBUG, Level::INFO, Level::INFO]);
    assert_eq!((ended[0].get("operation"), ended[0].get("attempt")), ("charge", "1"));
    assert_eq!(outcomes(&listener), ["first", "replay", "mismatch"]);
}

#[tokio::test]
async fn first_runs_are_logged_at_info_if_configured() {
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    let idempotency = store.builder(&Link::without_retries()).log_first_runs().build().unwrap();
    charge(operation(&idempotency), &runs).await.unwrap();
    charge(operation(&idempotency), &runs).await.unwrap();
    let levels: Vec<_> = listener.logged(ENDED).iter().map(|event| event.level).collect();
    assert_eq!(levels, [Level::INFO, Level::INFO]);
    assert_eq!(outcomes(&listener), ["first", "replay"]);
}

#[tokio::test]
async fn an_owner_at_work_and_the_end_of_its_lease() {
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    let (idempotency, gate) = (store.idempotency(), Gate::default());
    let held = charge_held(operation(&idempotency), &runs, &gate);
    let (late, ()) = tokio::join!(held, async {
        gate.reached().await;
        charge(operation(&idempotency), &runs).await.unwrap_err();
        let later = store.over(&Link::later(AN_HOUR));
        charge(operation(&later), &runs).await.unwrap();
        gate.open();
    });
    late.unwrap();
    let counts = listener.metrics().counts;
    assert_eq!(counts[&format!("{TAKEOVERS}{{operation=charge}}")], 1);
    assert_eq!(counts[&format!("{CALLS}{{operation=charge}}")], 3);
    let taken = listener.logged("an abandoned operation is taken over");
    assert_eq!((taken[0].level, taken[0].get("attempt")), (Level::WARN, "2"));
    let ended = listener.logged(ENDED);
    let ended: Vec<_> = ended.iter().map(|event| event.get("outcome")).collect();
    assert_eq!(ended, ["in_progress", "takeover", "lease_lost"]);
}

/// A release whose response is lost is retried and finds the record of the next owner.
#[tokio::test]
async fn an_applied_release_is_reported_as_a_release() {
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    let (link, retry, next) = (Link::without_retries(), Gate::default(), Gate::default());
    link.wire.next("UpdateItem", Act::LoseResponse);
    link.wire.next("UpdateItem", Act::HoldRequest(retry.clone()));
    let (failing, other) = (store.over(&link), store.idempotency());
    let taken = async {
        retry.reached().await;
        let held = charge_held(operation(&other), &runs, &next);
        let end = async {
            next.reached().await;
            retry.open();
            tokio::task::yield_now().await;
            next.open();
        };
        tokio::join!(held, end).0.unwrap();
    };
    let (failed, ()) = tokio::join!(decline(operation(&failing), &runs), taken);
    failed.unwrap_err();
    let mut reported = outcomes(&listener);
    reported.sort();
    assert_eq!(reported, ["first", "released"]);
}

/// A renewal in flight during a release does not report a lost lease.
#[tokio::test]
async fn a_renewal_beside_a_release_tells_of_no_lost_lease() {
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    let (link, retry) = (Link::without_retries(), Gate::default());
    link.wire.next("UpdateItem", Act::LoseResponse);
    link.wire.next("UpdateItem", Act::HoldRequest(retry.clone()));
    let (failing, other) = (store.over(&link), store.idempotency());
    let lease = Lease::Renewed(Duration::from_secs(3));
    let release = decline(policy_of(&failing, |policy| policy.lease(lease)), &runs);
    let renewal = async {
        retry.reached().await;
        charge(operation(&other), &runs).await.unwrap();
        // The renewal comes after the two tries of the release.
        link.wire.sent("UpdateItem", 3).await;
        // Its answer is on the way while nothing else is.
        tokio::time::sleep(Duration::from_millis(300)).await;
        retry.open();
    };
    let (failed, ()) = tokio::join!(release, renewal);
    failed.unwrap_err();
    let lost = "the lease is lost while the handler runs: another execution owns the key";
    assert!(listener.logged(lost).is_empty());
}

#[tokio::test]
async fn failures_tell_what_they_leave() {
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    let idempotency = store.idempotency();
    let with = |failure| policy_of(&idempotency, |policy| policy.failure(failure));
    decline(with(Failure::Release), &runs).await.unwrap_err();
    let retain = Failure::Retain { max_attempts: 2 };
    decline(with(retain), &runs).await.unwrap_err();
    charge(with(retain), &runs).await.unwrap();
    let refused =
        idempotency.operation("charge").segment("b").key("k").no_payload().run(async |execution| {
            execution.discard();
            Ok::<_, String>(())
        });
    refused.await.unwrap();
    let final_one =
        || idempotency.operation("charge").key("final").no_payload().replay_errors::<Declined>();
    decline_kept(final_one(), &runs).await.unwrap_err();
    decline_kept(final_one(), &runs).await.unwrap_err();
    let panicking = idempotency.operation("charge").segment("c").key("k").no_payload();
    let panicking = panicking.run(async |_| -> Result<(), String> { panic!("its own words") });
    std::panic::AssertUnwindSafe(panicking).catch_unwind().await.unwrap_err();
    let expected =
        ["released", "failed", "retry", "released", "failed", "replay_failure", "released"];
    assert_eq!(outcomes(&listener), expected);
}

#[tokio::test]
async fn the_outcome_of_an_outage_depends_on_the_policy() {
    let (store, link, runs) = (Store::open().await, Link::without_retries(), Runs::default());
    let listener = Listener::start();
    let closed = store.over(&link);
    let open = store.by(&link, |policy| policy.outage(Outage::Open));
    link.wire.down(Act::LoseRequest);
    charge(operation(&closed), &runs).await.unwrap_err();
    charge(operation(&open), &runs).await.unwrap();
    link.wire.up();
    let short = Duration::from_millis(200);
    let unconfirmed = policy_of(&closed, |policy| {
        policy.completion_timeout(short).unconfirmed(Unconfirmed::Answer)
    });
    let unconfirmed = unconfirmed.run(async |_| {
        link.wire.down(Act::LoseRequest);
        Ok::<_, String>(())
    });
    unconfirmed.await.unwrap();
    assert_eq!(outcomes(&listener), ["store_error", "fail_open", "unconfirmed"]);
}

#[tokio::test]
async fn the_outcome_of_an_abandoned_operation_names_who_decided() {
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    let idempotency = store.idempotency();
    store.put(raw::abandoned("charge#k")).await;
    let reject = |policy: Policy| policy.takeover(Takeover::Reject);
    charge(policy_of(&idempotency, reject), &runs).await.unwrap_err();
    let hooked = |word: Result<Reconciled<String, Declined>, Declined>| {
        operation(&idempotency).reconcile(move |_| {
            let word = word.clone();
            async move { word }
        })
    };
    let never = async |_| -> Result<String, Declined> { unreachable!("the hook has its say") };
    hooked(Err(Declined { run: 0 })).run(never).await.unwrap_err();
    hooked(Ok(Reconciled::Completed("found".to_owned()))).run(never).await.unwrap();
    assert_eq!(outcomes(&listener), ["abandoned", "reconcile_failed", "reconciled"]);
}

/// A query of the log finds the keys of abandoned operations by it.
#[tokio::test]
async fn the_event_of_an_abandoned_operation_is_inside_a_span_with_its_key() {
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    let idempotency = store.idempotency();
    store.put(raw::abandoned("charge#k")).await;
    let reject = |policy: Policy| policy.takeover(Takeover::Reject);
    for _ in 0..2 {
        charge(policy_of(&idempotency, reject), &runs).await.unwrap_err();
    }
    let spans = listener.spans();
    for (event, (span, fields)) in listener.logged(ENDED).iter().zip(&spans) {
        assert_eq!((event.get("outcome"), &event.inside[..]), ("abandoned", &[*span][..]));
        assert_eq!(fields.get("key"), Some(&hashed_key("charge#k")));
    }
    assert_eq!(spans.len(), 2);
}

/// An attempt that was abandoned counts too.
#[tokio::test]
async fn an_abandoned_operation_without_attempts_left_is_a_final_failure() {
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    let idempotency = store.idempotency();
    store.put(raw::abandoned("charge#k")).await;
    let once = |policy: Policy| policy.failure(Failure::Retain { max_attempts: 1 });
    assert_eq!(kind(charge(policy_of(&idempotency, once), &runs).await), ErrorKind::Failed);
    assert_eq!(outcomes(&listener), ["replay_failure"]);
}

#[tokio::test]
async fn a_dropped_call_is_reported() {
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    let (idempotency, gate) = (store.idempotency(), Gate::default());
    tokio::select! {
        _ = charge_held(operation(&idempotency), &runs, &gate) => unreachable!("it is held"),
        () = gate.reached() => {}
    }
    assert_eq!(outcomes(&listener), ["dropped"]);
}

#[tokio::test]
async fn commits_and_transactions_are_reported_like_other_calls() {
    let (store, listener) = (Store::open().await, Listener::start());
    let idempotency = store.idempotency();
    let committing = operation(&idempotency).run(async |execution| {
        execution.commit(&1, []).await.unwrap();
        Ok::<_, String>(1)
    });
    committing.await.unwrap();
    let whole = || idempotency.operation("charge").key("whole").no_payload();
    for _ in 0..2 {
        let build = async || Ok::<_, String>(Transaction::new(1));
        whole().run_transaction(build).await.unwrap();
    }
    let nothing = idempotency.operation("charge").key("nothing").no_payload();
    let failing = async || Err::<Transaction<u8>, _>("declined".to_owned());
    nothing.run_transaction(failing).await.unwrap_err();
    store.put(with(raw::pending("charge#busy"), "owner", s(raw::ANOTHER))).await;
    let busy =
        idempotency.operation("charge").policy(|policy| policy).unwrap().key("busy").no_payload();
    busy.run_transaction(async || Ok::<_, String>(Transaction::new(1))).await.unwrap_err();
    let reported = outcomes(&listener);
    assert_eq!(reported[..4], ["first", "first", "replay", "not_written"]);
    assert!(["in_progress", "mismatch"].contains(&reported[4].as_str()), "{reported:?}");
}

#[tokio::test]
async fn no_signal_shows_a_key_unless_that_is_chosen() {
    let key = "card-4111";
    for (choice, shown) in [
        (LogKey::Hashed, Some(hashed_key(&format!("charge/tenant-7#{key}")))),
        (LogKey::Verbatim, Some(format!("charge/tenant-7#{key}"))),
        (LogKey::Omitted, None),
    ] {
        let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
        let idempotency = store.builder(&Link::default()).log_key(choice).build().unwrap();
        let operation = || idempotency.operation("charge").segment("tenant-7").key(key);
        charge(operation().no_payload(), &runs).await.unwrap();
        charge(operation().no_payload(), &runs).await.unwrap();
        charge(operation().payload("another"), &runs).await.unwrap_err();
        for (_, fields) in listener.spans() {
            assert_eq!(fields.get("key"), shown.as_ref());
        }
        if choice != LogKey::Verbatim {
            // The SDK's own events show whole requests, at TRACE.
            let events = listener.events().into_iter();
            let ours: Vec<_> = events.filter(|event| event.level <= Level::DEBUG).collect();
            let text = format!("{ours:?} {:?} {:?}", listener.spans(), listener.metrics());
            assert!(!text.contains(key) && !text.contains("tenant-7"), "{text}");
        }
    }
}

#[tokio::test]
async fn what_a_handler_logs_is_inside_the_span_of_its_call() {
    let (store, listener) = (Store::open().await, Listener::start());
    let idempotency = store.idempotency();
    let run = operation(&idempotency).run(async |_| {
        tracing::info!("charging");
        Ok::<_, String>(())
    });
    run.await.unwrap();
    let (span, _) = listener.spans()[0];
    assert_eq!(listener.logged("charging")[0].inside, [span]);
}

#[tokio::test]
async fn each_request_to_dynamodb_is_logged_and_measured() {
    let (store, runs) = (Store::open().await, Runs::default());
    let idempotency = store.builder(&Link::default()).report_capacity().build().unwrap();
    let listener = Listener::start();
    charge(operation(&idempotency), &runs).await.unwrap();
    charge(operation(&idempotency), &runs).await.unwrap();
    let requests = listener.logged("DynamoDB has answered");
    let results: Vec<_> =
        requests.iter().map(|event| (event.get("action"), event.get("result"))).collect();
    assert_eq!(results, [("PutItem", "ok"), ("PutItem", "ok"), ("PutItem", "refused")]);
    let units: Vec<_> = requests.iter().map(|event| event.get("units")).collect();
    assert_eq!(units, ["1.0", "1.0", ""]);
    let metrics = listener.metrics().sums;
    let label = |name: &str, labels: &str| format!("{name}{{{labels}}}");
    assert!(metrics[&label(STORE_SECONDS, "action=PutItem,result=ok")] > 0.0);
    assert!(metrics[&label(STORE_SECONDS, "action=PutItem,result=refused")] > 0.0);
    assert!(metrics.contains_key(&label(HANDLER_SECONDS, "operation=charge")));
    let units = &metrics[&label("idempotency_capacity_units", "action=PutItem")];
    assert_eq!(units.to_string(), "2");
}

#[tokio::test]
async fn capacity_is_not_asked_for_unless_that_is_chosen() {
    let (store, runs, listener) = (Store::open().await, Runs::default(), Listener::start());
    charge(operation(&store.idempotency()), &runs).await.unwrap();
    let metrics = listener.metrics().sums;
    assert!(!metrics.is_empty());
    assert!(metrics.keys().all(|name| !name.contains("capacity")), "{metrics:?}");
}

#[tokio::test]
async fn the_size_of_an_answer_is_measured_before_and_after_compression() {
    let (store, listener) = (Store::open().await, Listener::start());
    let idempotency = store.idempotency();
    let run = operation(&idempotency).run(async |_| Ok::<_, String>("x".repeat(50_000)));
    run.await.unwrap();
    let sizes = listener.metrics().sums;
    let size = |form: &str| sizes[&format!("{ANSWER_BYTES}{{operation=charge,form={form}}}")];
    assert_eq!(size("plain").to_string(), "50002");
    assert!((1.0..5_000.0).contains(&size("stored")), "{}", size("stored"));
}
