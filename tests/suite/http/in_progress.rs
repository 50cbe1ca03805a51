//! A repeat that comes while the first request runs.

use std::time::Duration;

use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::policy::InProgress;

use super::message::{assert_same, outcome, post, problem};
use super::site::{Api, Site, everywhere, has_looked, paid};
use crate::support::{Gate, Link, Runs};

/// A handler that waits at the gate before it answers; its first answer has this status.
async fn held(site: &Site, http: Http, gate: &Gate, first: u16) -> Api {
    let (runs, gate) = (site.runs.clone(), gate.clone());
    let handler = move |_| {
        let (runs, gate) = (runs.clone(), gate.clone());
        async move {
            let run = runs.add();
            gate.pass().await;
            let mut answer = paid(run);
            if run == 1 {
                *answer.status_mut() = first.try_into().expect("a status");
            }
            answer
        }
    };
    site.serve(http, handler).await
}

fn waiting(site: &Site, timeout: Duration) -> Http {
    site.http().policy(|policy| policy.in_progress(InProgress::Wait { timeout }))
}

/// If the first call fails meanwhile, the waiting one runs the handler.
#[tokio::test]
async fn a_repeat_that_waits_gets_the_first_answer_unless_that_is_a_failure() {
    for site in everywhere().await {
        for (first, expected) in [(201, ["201", "201 replay"]), (503, ["201", "503"])] {
            let site = Site { link: Link::default(), runs: Runs::default(), ..site.clone() };
            let (gate, key) = (Gate::default(), first.to_string());
            let api = held(&site, waiting(&site, super::LONG), &gate, first).await;
            let open_when_both_are_there = async {
                gate.reached().await;
                has_looked(&site.link).await;
                gate.open();
            };
            let (one, other, ()) = tokio::join!(
                api.send(post(&key, "{}")),
                api.send(post(&key, "{}")),
                open_when_both_are_there,
            );
            let mut outcomes = [outcome(&one), outcome(&other)];
            outcomes.sort();
            assert_eq!(outcomes, expected);
            if first == 201 {
                assert_same(&one, &other);
            }
        }
    }
}

#[tokio::test]
async fn a_wait_ends_and_says_when_to_come_back() {
    for site in everywhere().await {
        let gate = Gate::default();
        let api = held(&site, waiting(&site, Duration::from_millis(60)), &gate, 201).await;
        tokio::join!(api.send(post("k", "{}")), async {
            gate.reached().await;
            let early = api.send(post("k", "{}")).await;
            problem(&early, 409, "InProgress");
            let seconds = early.headers()["retry-after"].to_str().unwrap().parse::<u64>();
            assert!(seconds.unwrap() >= 1);
            gate.open();
        });
        assert_eq!(site.runs.count(), 1);
    }
}
