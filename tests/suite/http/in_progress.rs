//! A repeat that comes while the first request runs.

use std::time::Duration;

use bytes::Bytes;
use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::policy::InProgress;
use futures::future::join_all;
use http::Response;

use super::message::{assert_same, is_replay, post, problem, values};
use super::site::{Api, Place, Site, everywhere, has_looked, paid};
use crate::support::Gate;

/// A handler that waits at the gate before it answers.
async fn held(site: &Site, http: Http, gate: &Gate) -> Api {
    let (runs, gate) = (site.runs.clone(), gate.clone());
    let handler = move |_| {
        let (runs, gate) = (runs.clone(), gate.clone());
        async move {
            let run = runs.add();
            gate.pass().await;
            paid(run)
        }
    };
    site.serve(http, handler).await
}

fn waiting(site: &Site, timeout: Duration) -> Http {
    site.http().policy(|policy| policy.in_progress(InProgress::Wait { timeout }))
}

#[track_caller]
fn retry_after(response: &Response<Bytes>) -> u64 {
    let [seconds] = values(response.headers(), "retry-after")[..] else {
        panic!("no Retry-After: {:?}", response.headers());
    };
    seconds.parse().expect("whole seconds")
}

#[tokio::test]
async fn a_repeat_that_waits_gets_the_same_bytes() {
    for site in everywhere().await {
        let gate = Gate::default();
        let api = held(&site, waiting(&site, super::LONG), &gate).await;
        let open_when_both_are_there = async {
            gate.reached().await;
            has_looked(&site.link).await;
            gate.open();
        };
        let (one, other, ()) = tokio::join!(
            api.send(post("k", "{}")),
            api.send(post("k", "{}")),
            open_when_both_are_there,
        );
        assert_ne!(is_replay(&one), is_replay(&other));
        assert_same(&one, &other);
        assert_eq!(site.runs.count(), 1);
    }
}

#[tokio::test]
async fn a_wait_ends_and_says_when_to_come_back() {
    for site in everywhere().await {
        let gate = Gate::default();
        let api = held(&site, waiting(&site, Duration::from_millis(60)), &gate).await;
        tokio::join!(api.send(post("k", "{}")), async {
            gate.reached().await;
            let early = api.send(post("k", "{}")).await;
            problem(&early, 409, "InProgress");
            assert!(retry_after(&early) >= 1);
            gate.open();
        });
        assert_eq!(site.runs.count(), 1);
    }
}

/// The first call has failed meanwhile, so the waiting one runs the handler.
#[tokio::test]
async fn one_that_waits_for_a_failure_runs_itself() {
    for site in everywhere().await {
        let (gate, runs) = (Gate::default(), site.runs.clone());
        let held = gate.clone();
        let handler = move |_| {
            let (gate, runs) = (held.clone(), runs.clone());
            async move {
                let run = runs.add();
                gate.pass().await;
                let mut answer = paid(run);
                if run == 1 {
                    *answer.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
                }
                answer
            }
        };
        let api = site.serve(waiting(&site, super::LONG), handler).await;
        let (one, other, ()) =
            tokio::join!(api.send(post("k", "{}")), api.send(post("k", "{}")), async {
                gate.reached().await;
                has_looked(&site.link).await;
                gate.open();
            });
        let mut seen = [one, other].map(|answer| (answer.status().as_u16(), is_replay(&answer)));
        seen.sort_unstable();
        assert_eq!(seen, [(201, false), (503, false)]);
        assert_eq!(site.runs.count(), 2);
    }
}

#[tokio::test]
async fn of_many_clients_at_once_one_runs_and_all_get_its_answer() {
    const CLIENTS: usize = 50;
    for site in everywhere().await {
        if site.place == Place::Router {
            // As a function.
            continue;
        }
        let api = site.paying(waiting(&site, super::LONG)).await;
        let answers = join_all((0..CLIENTS).map(|_| api.send(post("k", "{}")))).await;
        assert_eq!(site.runs.count(), 1);
        assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1);
        for answer in &answers {
            assert_same(&answers[0], answer);
        }
    }
}
