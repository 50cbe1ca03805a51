//! The handler finds its `Execution` in the request's extensions, and may outlive its lease.

use bytes::Bytes;
use dynamodb_idempotency::Execution;
use dynamodb_idempotency::http::Http;
use dynamodb_idempotency::policy::Takeover;
use http::{Request, Response};

use super::message::{assert_same, is_replay, post, problem, values};
use super::site::{Api, Site, everywhere};
use crate::support::{Gate, Runs, raw};

/// A handler that answers its attempt; the first run stops at the gate.
async fn attempts(site: &Site, http: Http, gate: &Gate) -> Api {
    let (runs, gate) = (site.runs.clone(), gate.clone());
    let handler = move |request: Request<Bytes>| {
        let (runs, gate) = (runs.clone(), gate.clone());
        async move {
            let execution = request.extensions().get::<Execution>().expect("it is there");
            if runs.add() == 1 {
                gate.pass().await;
            }
            let owner = execution.owner().to_owned();
            let response = Response::builder().status(201).header("x-owner", owner);
            response.body(format!("attempt {}", execution.attempt()).into()).unwrap()
        }
    };
    site.serve(http, handler).await
}

/// Lets the lease of a key's owner end.
async fn expire(site: &Site, key: &str) {
    let record = site.item(key).await.unwrap();
    site.store.put(raw::with(record, "lease_expires_at", raw::n(raw::now() - 60_000))).await;
}

#[tokio::test]
async fn the_handler_reaches_its_execution() {
    everywhere(async |site| {
        let gate = Gate::default();
        gate.open();
        let api = attempts(&site, site.http(), &gate).await;
        let first = api.send(post("k", "{}")).await;
        assert_eq!(first.body(), "attempt 1");
        let record = site.item("k").await.unwrap();
        assert_eq!(values(first.headers(), "x-owner"), [raw::text(&record, "owner")]);
        assert_eq!(raw::number(&record, "attempt"), 1);
    })
    .await;
}

#[tokio::test]
async fn a_request_that_passes_through_has_none() {
    everywhere(async |site| {
        let handler = async |request: Request<Bytes>| {
            let found = request.extensions().get::<Execution>().is_some();
            Response::new(found.to_string().into())
        };
        let handler = move |request| Box::pin(handler(request));
        let api = site.serve(site.http(), handler).await;
        let get = super::message::by("GET", post("k", ""));
        assert_eq!(api.send(get).await.body(), "false");
        assert_eq!(api.send(post("k", "")).await.body(), "true");
    })
    .await;
}

/// Also the case of an owner that comes back after its lease: it gets the answer that counts.
#[tokio::test]
async fn a_repeat_takes_an_expired_lease_over_and_its_answer_counts() {
    everywhere(async |site| {
        let gate = Gate::default();
        let api = attempts(&site, site.http(), &gate).await;
        let (late, taken) = tokio::join!(api.send(post("k", "{}")), async {
            gate.reached().await;
            expire(&site, "k").await;
            let taken = api.send(post("k", "{}")).await;
            gate.open();
            taken
        });
        assert_eq!((taken.body().as_ref(), is_replay(&taken)), (b"attempt 2".as_ref(), false));
        assert!(is_replay(&late));
        assert_same(&taken, &late);
        let repeat = api.send(post("k", "{}")).await;
        assert_same(&taken, &repeat);
        assert_eq!(site.runs.count(), 2);
        let record = site.item("k").await.unwrap();
        assert_eq!(raw::number(&record, "attempt"), 2);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_lost_its_lease_to_a_running_owner_reports_it() {
    everywhere(async |site| {
        let gate = Gate::default();
        let api = attempts(&site, site.http(), &gate).await;
        let (late, theirs) = tokio::join!(api.send(post("k", "{}")), async {
            gate.reached().await;
            let theirs =
                raw::with(site.item("k").await.unwrap(), "owner", raw::s(raw::OTHER_OWNER));
            site.store.put(theirs.clone()).await;
            gate.open();
            theirs
        });
        problem(&late, 409, "LeaseLost");
        assert_eq!(values(late.headers(), "retry-after"), ["1"]);
        assert_eq!(site.item("k").await, Some(theirs));
    })
    .await;
}

#[tokio::test]
async fn an_abandoned_request_is_not_run_again_where_that_is_forbidden() {
    everywhere(async |site| {
        let http = site.http().policy(|policy| policy.takeover(Takeover::Reject));
        let gate = Gate::default();
        let api = attempts(&site, http, &gate).await;
        let (late, ()) = tokio::join!(api.send(post("k", "{}")), async {
            gate.reached().await;
            expire(&site, "k").await;
            problem(&api.send(post("k", "{}")).await, 409, "Abandoned");
            gate.open();
        });
        // No other owner has taken over, so the late answer is still stored.
        assert_eq!((late.body().as_ref(), is_replay(&late)), (b"attempt 1".as_ref(), false));
        assert!(is_replay(&api.send(post("k", "{}")).await));
        assert_eq!(site.runs.count(), 1);
    })
    .await;
}

/// A 5xx releases the key, but not where steps are done.
#[tokio::test]
async fn a_step_of_a_failed_request_is_not_done_again() {
    everywhere(async |site| {
        let (runs, charges) = (site.runs.clone(), Runs::default());
        let counted = charges.clone();
        let handler = move |request: Request<Bytes>| {
            let (runs, charges) = (runs.clone(), counted.clone());
            async move {
                let execution = request.extensions().get::<Execution>().expect("it is there");
                let charging = async { Ok::<_, &str>(charges.add()) };
                let charge = execution.step("charge", charging).await.unwrap();
                let status = if runs.add() == 1 { 500 } else { 201 };
                let response = Response::builder().status(status);
                response.body(format!("charge {charge}").into()).unwrap()
            }
        };
        let api = site.serve(site.http(), handler).await;
        for (status, record) in [(500, "FAILED"), (201, "COMPLETED"), (201, "COMPLETED")] {
            let answer = api.send(post("k", "{}")).await;
            assert_eq!(
                (answer.status().as_u16(), answer.body().as_ref()),
                (status, &b"charge 1"[..])
            );
            assert_eq!(site.status("k").await.as_deref(), Some(record));
        }
        assert_eq!((site.runs.count(), charges.count()), (2, 1));
    })
    .await;
}
