//! What the client gets, and what stays in the table, whatever the handler, the store and the policy do.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::policy::{Failure, Outage, Takeover, Unconfirmed};
use dynamodb_idempotency::{ErrorKind, Execution, Policy, Reconciled};
use http::{Request, Response};

use super::message::{is_replay, post, problem, values, with};
use super::site::{Api, Site, everywhere};
use crate::support::effects::count;
use crate::support::raw::{self, Item};
use crate::support::{Act, Link, Runs, commit_kind};

const STORED: [u16; 14] = [200, 201, 202, 204, 301, 302, 307, 402, 404, 410, 418, 423, 424, 451];
/// The handler rejected the request before it executed anything.
const REFUSED: [u16; 17] =
    [304, 400, 401, 403, 405, 406, 407, 411, 412, 413, 414, 415, 417, 421, 422, 428, 431];
const NOT_STORED: [u16; 8] = [408, 409, 425, 429, 500, 502, 503, 504];

/// What happens in a call, and what comes of it: the status, the body or the kind of the problem, whether
/// it is a replay, the seconds of `Retry-After`, and the record's status.
type Calls<'a> = &'a [(&'a str, &'a str)];

/// The handler's answer is `run 1` with the first word as its status, unless the words say otherwise:
///
/// - `panic`: it panics;
/// - `nothing`: it says that it executed nothing;
/// - `lost`, `overtaken`: another owner takes its record over, and runs or completes it;
/// - `commits`: it commits its answer then, which must not be written;
/// - `frozen`: its machine stops for an hour;
/// - `other`: the request has another body;
/// - `down`, `5xx`, `throttled`: the store executes nothing;
/// - `unconfirmed`: the store does not get the completion;
/// - `expired`: the lease of the record is over.
async fn handle(site: Site, pk: String, request: Request<Bytes>) -> Response<Bytes> {
    let run = site.runs.add();
    let says = |word: &str| has(request.headers()["x-then"].to_str().expect("text"), word);
    let execution: &Execution = request.extensions().get().expect("it is there");
    assert!(!says("panic"), "secret");
    if says("nothing") {
        execution.discard();
    }
    if says("lost") || says("overtaken") {
        let theirs = raw::with(site.store.record(&pk).await, "owner", raw::s(raw::OTHER_OWNER));
        site.store.put(if says("lost") { theirs } else { completed(theirs) }).await;
    }
    if says("frozen") {
        site.link.freeze(3_600);
        tokio::task::yield_now().await;
        panic!("it goes on after its lease");
    }
    if says("commits") {
        let row = [count(site.store.table(), "effect")];
        let lost = execution.commit_response(&Response::new(Bytes::new()), row).await;
        assert_eq!(commit_kind(&lost), ErrorKind::LeaseLost);
        assert_eq!(site.store.counted("effect").await, 0);
    }
    let status = request.headers()["x-then"].to_str().ok().and_then(|then| then.get(..3));
    let response = Response::builder().status(status.expect("a status")).header("x-run", run);
    let has_body = !says("204") && !says("304");
    let body = if has_body { format!("run {run}") } else { String::new() };
    let response = response.header("set-cookie", "a=1").header("content-type", "image/png");
    response.body(body.into()).expect("a response")
}

fn completed(mut record: Item) -> Item {
    for (name, value) in raw::completed("", "") {
        if matches!(name.as_str(), "status" | "completed_at") {
            record.insert(name, value);
        }
    }
    let answer = AttributeValue::M(std::collections::HashMap::from([
        ("status".to_owned(), raw::n(201)),
        ("headers".to_owned(), AttributeValue::L(Vec::new())),
        ("body".to_owned(), raw::s("theirs")),
    ]));
    raw::with(record, "response", answer)
}

fn has(words: &str, word: &str) -> bool {
    words.split(' ').any(|one| one == word)
}

async fn send(site: &Site, api: &Api, key: &str, act: &str) -> String {
    let wire = &site.link.wire;
    for (word, fault) in
        [("down", Act::LoseRequest), ("5xx", Act::SERVER_ERROR), ("throttled", Act::THROTTLE)]
    {
        if has(act, word) {
            wire.down(fault);
        }
    }
    if has(act, "unconfirmed") {
        wire.next("PutItem", Act::Deliver);
        wire.every("PutItem", Act::LoseRequest);
    }
    if has(act, "expired") {
        let record = site.item(key).await.expect("a record");
        let over = raw::n(raw::now() - 60_000);
        site.store.put(raw::with(record, "lease_expires_at", over)).await;
    }
    let body = if has(act, "other") { r#"{"other":1}"# } else { "{}" };
    let response = api.send(with(post(key, body), "x-then", act)).await;
    wire.up();
    let record = site.status(key).await;
    format!("{} {}", describe(&response), record.as_deref().unwrap_or("no record"))
}

fn describe(response: &Response<Bytes>) -> String {
    let status = response.status().as_u16();
    if values(response.headers(), "content-type") == ["application/problem+json"] {
        let uri = serde_json::from_slice::<serde_json::Value>(response.body()).expect("JSON");
        let kind = uri["type"].as_str().and_then(|uri| uri.rsplit(':').next()).expect("a type");
        assert!(!problem(response, status, kind).to_string().contains("secret"));
        return match values(response.headers(), "retry-after")[..] {
            [seconds] => format!("{status} {kind} retry:{seconds}"),
            _ => format!("{status} {kind}"),
        };
    }
    let replayed = if is_replay(response) { " replayed" } else { "" };
    let cookies = values(response.headers(), "set-cookie").len();
    let run = response.headers().get("x-run").map(|run| run.to_str().expect("a number"));
    assert_eq!(cookies == 0, run.is_none() || is_replay(response), "cookies are not replayed");
    let body = String::from_utf8_lossy(response.body());
    let body = if body.is_empty() { format!("run {}", run.expect("a run")) } else { body.into() };
    format!("{status} {body}{replayed}")
}

/// Sends these calls under one key, in each place.
async fn check(http: impl Fn(Http) -> Http, calls: Calls<'_>) {
    for site in everywhere().await {
        let site = Site { link: Link::without_retries(), runs: Runs::default(), ..site };
        let (place, pk) = (site.clone(), site.pk("k"));
        let handler = move |request| handle(place.clone(), pk.clone(), request);
        let api = site.serve(http(site.http()), handler).await;
        for (act, expected) in calls {
            assert_eq!(send(&site, &api, "k", act).await, *expected, "{act} of {calls:?}");
        }
    }
}

fn by(policy: impl Fn(Policy) -> Policy) -> impl Fn(Http) -> Http {
    move |http| http.policy(&policy)
}

fn failing(failure: Failure) -> impl Fn(Http) -> Http {
    by(move |policy| policy.failure(failure))
}

/// A hook that answers so.
fn judging<F>(word: F) -> impl Fn(Http) -> Http
where
    F: Fn() -> Result<Reconciled<Response<String>, Response<String>>, String>,
    F: Copy + Send + Sync + 'static,
{
    move |http| http.reconcile(move |_| async move { word() })
}

fn found(status: u16) -> Response<String> {
    Response::builder().status(status).body("found".to_owned()).expect("a response")
}

const POLICIES: [Failure; 3] =
    [Failure::Release, Failure::Replay, Failure::Retain { max_attempts: 1 }];

#[tokio::test]
async fn successes_redirects_and_final_errors_are_replayed() {
    for status in STORED {
        let first = format!("{status} run 1 COMPLETED");
        let repeat = format!("{status} run 1 replayed COMPLETED");
        check(|http| http, &[(&status.to_string(), &first), ("201", &repeat)]).await;
    }
}

/// The client fixes its request and sends it under the same key, whatever the policy for failures is.
#[tokio::test]
async fn a_refusal_is_not_stored_and_the_key_takes_another_request() {
    for (status, failure) in REFUSED.into_iter().flat_map(|one| POLICIES.map(|it| (one, it))) {
        let refused = [1, 2].map(|run| format!("{status} run {run} RELEASED"));
        let status = status.to_string();
        let calls = [
            (status.as_str(), refused[0].as_str()),
            (&status, &refused[1]),
            ("201 other", "201 run 3 COMPLETED"),
            ("201 other", "201 run 3 replayed COMPLETED"),
        ];
        check(failing(failure), &calls).await;
    }
}

#[tokio::test]
async fn answers_that_ask_to_try_again_leave_no_trace() {
    for status in NOT_STORED {
        let failed = [1, 2].map(|run| format!("{status} run {run} RELEASED"));
        let status = status.to_string();
        let calls = [
            (status.as_str(), failed[0].as_str()),
            (&status, &failed[1]),
            ("201 other", "201 run 3 COMPLETED"),
        ];
        check(|http| http, &calls).await;
    }
}

/// A name, a configuration, and the calls.
macro_rules! outcomes {
    ($($name:ident: $http:expr, [$($act:literal => $expected:literal),+ $(,)?];)*) => {
        $(#[tokio::test]
        async fn $name() {
            check($http, &[$(($act, $expected)),+]).await;
        })*
    };
}

outcomes! {
    a_repeat_is_replayed_and_another_request_is_refused: |http| http,
        ["201" => "201 run 1 COMPLETED", "503" => "201 run 1 replayed COMPLETED", "201 other" => "422 Mismatch COMPLETED"];
    a_failure_is_followed_by_a_run_that_is_stored: |http| http,
        ["503" => "503 run 1 RELEASED", "201" => "201 run 2 COMPLETED", "503" => "201 run 2 replayed COMPLETED"];
    a_panic_is_answered_and_frees_the_key: |http| http,
        ["panic" => "500 HandlerPanicked RELEASED", "201" => "201 run 2 COMPLETED", "201" => "201 run 2 replayed COMPLETED"];
    a_failure_that_is_kept_is_replayed_as_it_was: failing(Failure::Replay),
        ["503" => "503 run 1 FAILED", "201" => "503 run 1 replayed FAILED", "201 other" => "422 Mismatch FAILED"];
    a_panic_that_is_kept_is_never_run_again: failing(Failure::Replay),
        ["panic" => "500 HandlerPanicked FAILED", "201" => "500 Failed FAILED"];
    a_failure_runs_again_until_its_attempts_are_used_up: failing(Failure::Retain { max_attempts: 2 }),
        ["503" => "503 run 1 FAILED", "503" => "503 run 2 FAILED", "201" => "503 run 2 replayed FAILED"];
    a_success_after_a_kept_failure_is_final: failing(Failure::Retain { max_attempts: 9 }),
        ["503" => "503 run 1 FAILED", "201" => "201 run 2 COMPLETED", "503" => "201 run 2 replayed COMPLETED"];
    a_handler_that_executed_nothing_keeps_nothing: |http| http,
        ["422 nothing" => "422 run 1 RELEASED", "503 nothing" => "503 run 2 RELEASED", "201 other" => "201 run 3 COMPLETED"];
    a_handler_that_executed_nothing_keeps_nothing_to_replay: failing(Failure::Replay),
        ["422 nothing" => "422 run 1 RELEASED", "503 nothing" => "503 run 2 RELEASED", "201 other" => "201 run 3 COMPLETED"];
    a_handler_that_executed_nothing_uses_up_no_attempt: failing(Failure::Retain { max_attempts: 1 }),
        ["422 nothing" => "422 run 1 RELEASED", "503 nothing" => "503 run 2 RELEASED", "201 other" => "201 run 3 COMPLETED"];
    refusals_can_be_stored_too: |http| http.store_if(|status| (200..500).contains(&status.as_u16())),
        ["422" => "422 run 1 COMPLETED", "201" => "422 run 1 replayed COMPLETED"];
    server_errors_can_be_stored_too: |http| http.store_if(|status| status.as_u16() >= 200),
        ["500" => "500 run 1 COMPLETED", "201" => "500 run 1 replayed COMPLETED"];
    fewer_answers_can_be_stored: |http| http.store_if(|status| status.is_success()),
        ["402" => "402 run 1 RELEASED", "402" => "402 run 2 RELEASED"];
    while_the_store_is_down_nothing_runs: |http| http,
        ["201 down" => "503 Unavailable retry:1 no record", "201 5xx" => "503 Unavailable retry:1 no record",
         "201 throttled" => "503 Unavailable retry:1 no record", "201" => "201 run 1 COMPLETED"];
    while_the_store_is_down_the_handler_runs_unprotected_where_that_was_chosen: by(|policy| policy.outage(Outage::Open)),
        ["201 down" => "201 run 1 no record", "201 down" => "201 run 2 no record"];
    an_answer_whose_completion_is_not_confirmed_is_sent: by(|policy| policy.completion_timeout(Duration::from_millis(150))),
        ["201 unconfirmed" => "201 run 1 PENDING"];
    an_answer_whose_completion_is_not_confirmed_can_be_an_error:
        by(|policy| policy.completion_timeout(Duration::from_millis(150)).unconfirmed(Unconfirmed::Error)),
        ["201 unconfirmed" => "500 OutcomeUnknown PENDING"];
    a_lost_lease_is_reported_and_its_key_is_locked_until_the_other_lease_expires: |http| http,
        ["201 lost" => "409 LeaseLost retry:1 PENDING", "201" => "409 InProgress retry:5 PENDING",
         "201 other" => "422 Mismatch PENDING", "201 expired" => "201 run 2 COMPLETED", "201" => "201 run 2 replayed COMPLETED"];
    an_owner_that_was_taken_over_gets_the_answer_that_counts: |http| http,
        ["201 overtaken" => "201 theirs replayed COMPLETED", "201" => "201 theirs replayed COMPLETED"];
    an_owner_that_lost_its_lease_commits_nothing: |http| http,
        ["201 lost commits" => "409 LeaseLost retry:1 PENDING"];
    an_owner_that_was_taken_over_commits_nothing_and_gets_the_answer_that_counts: |http| http,
        ["201 overtaken commits" => "201 theirs replayed COMPLETED"];
    a_handler_whose_lease_expires_is_stopped: |http| http,
        ["201 frozen" => "503 LeaseExpired retry:1 PENDING"];
    an_abandoned_request_is_not_run_again_where_that_is_forbidden: by(|policy| policy.takeover(Takeover::Reject)),
        ["201 lost" => "409 LeaseLost retry:1 PENDING", "201 expired" => "409 Abandoned PENDING"];
    a_response_that_a_hook_found_is_sent_stored_and_replayed: judging(|| Ok(Reconciled::Completed(found(201)))),
        ["201 lost" => "409 LeaseLost retry:1 PENDING", "201 expired" => "201 found COMPLETED", "201" => "201 found replayed COMPLETED"];
    a_failure_that_a_hook_found_is_sent_and_the_next_request_runs: judging(|| Ok(Reconciled::Failed(found(502)))),
        ["201 lost" => "409 LeaseLost retry:1 PENDING", "201 expired" => "502 found FAILED", "201" => "201 run 2 COMPLETED"];
    a_hook_that_refuses_leaves_the_record_as_it_is: judging(|| Ok(Reconciled::Refuse)),
        ["201 lost" => "409 LeaseLost retry:1 PENDING", "201 expired" => "409 Abandoned PENDING", "201" => "409 Abandoned PENDING"];
    a_hook_that_fails_leaves_the_record_as_it_is: judging(|| Err("secret".to_owned())),
        ["201 lost" => "409 LeaseLost retry:1 PENDING", "201 expired" => "503 ReconcileFailed retry:1 PENDING"];
    a_hook_that_panics_leaves_the_record_as_it_is: judging(|| panic!("secret")),
        ["201 lost" => "409 LeaseLost retry:1 PENDING", "201 expired" => "500 HandlerPanicked PENDING"];
    a_request_that_a_hook_lets_run_is_taken_over: judging(|| Ok(Reconciled::Execute)),
        ["201 lost" => "409 LeaseLost retry:1 PENDING", "201 expired" => "201 run 2 COMPLETED", "201" => "201 run 2 replayed COMPLETED"];
}
