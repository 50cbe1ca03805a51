//! A hook judges a request whose handler vanished, and answers it with responses.

use bytes::Bytes;
use dynamodb_idempotency::{Fingerprint, Reconciled};
use http::Response;
use http_body_util::Full;

use super::message::{assert_same, is_replay, post, problem, values};
use super::site::{Site, everywhere};
use crate::support::effects::count;
use crate::support::{Gate, raw};

type Word = Reconciled<Response<Full<Bytes>>, Response<Full<Bytes>>>;

/// The answer to a request whose first handler vanished, with a hook that says this; and the answer
/// to the request after it.
async fn judged(
    site: &Site,
    key: &'static str,
    word: impl Fn() -> Result<Word, String> + Clone + Send + Sync + 'static,
) -> [Response<Bytes>; 2] {
    let (gate, runs) = (Gate::default(), site.runs.clone());
    let http = site.http().reconcile(move |_| {
        let word = word();
        async { word }
    });
    let held = gate.clone();
    let handler = move |_| {
        let (runs, gate) = (runs.clone(), held.clone());
        async move {
            let run = runs.add();
            if run == 1 {
                gate.pass().await;
            }
            super::site::paid(run)
        }
    };
    let api = site.serve(http, handler).await;
    let first = api.send(post(key, "{}"));
    let judged = async {
        gate.reached().await;
        let record = site.item(key).await.unwrap();
        site.store.put(raw::with(record, "lease_expires_at", raw::n(raw::now() - 60_000))).await;
        let answers = [api.send(post(key, "{}")).await, api.send(post(key, "{}")).await];
        gate.open();
        answers
    };
    tokio::join!(first, judged).1
}

fn found(status: u16) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header("x-found", "1");
    response.body(r#"{"found":true}"#.into()).unwrap()
}

#[tokio::test]
async fn a_response_that_was_found_is_sent_stored_and_replayed() {
    everywhere(async |site| {
        let answers = judged(&site, "k", || Ok(Reconciled::Completed(found(201)))).await;
        assert_eq!((answers[0].status().as_u16(), is_replay(&answers[0])), (201, false));
        assert_eq!(values(answers[0].headers(), "x-found"), ["1"]);
        assert!(is_replay(&answers[1]));
        assert_same(&answers[0], &answers[1]);
        assert_eq!(site.runs.count(), 1);
        assert_eq!(site.status("k").await.as_deref(), Some("COMPLETED"));
    })
    .await;
}

#[tokio::test]
async fn a_response_is_stored_with_the_rows_of_its_hook() {
    everywhere(async |site| {
        let effect = site.pk("effect");
        let row = count(site.store.table(), &effect);
        let word = move || Ok(Reconciled::Commit { answer: found(201), items: vec![row.clone()] });
        let answers = judged(&site, "k", word).await;
        assert_eq!((answers[0].status().as_u16(), is_replay(&answers[0])), (201, false));
        assert!(is_replay(&answers[1]));
        assert_same(&answers[0], &answers[1]);
        assert_eq!((site.runs.count(), site.store.counted(&effect).await), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn the_length_of_a_hooks_response_is_that_of_its_body() {
    everywhere(async |site| {
        let word = || {
            let mut found = found(201);
            found.headers_mut().insert("content-length", 77.into());
            Ok(Reconciled::Completed(found))
        };
        for answer in judged(&site, "k", word).await {
            let lengths = values(answer.headers(), "content-length");
            assert!(lengths.iter().all(|length| *length == "14"), "{lengths:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_endless_body_of_a_hook_fails_like_the_hook() {
    let endless = || {
        let frames = futures::stream::repeat_with(|| {
            Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from_static(&[b'x'; 16_000])))
        });
        Ok::<_, String>(Reconciled::Completed(Response::new(http_body_util::StreamBody::new(
            frames,
        ))))
    };
    everywhere(async |site| {
        site.store.put(raw::abandoned(&site.pk("k"))).await;
        let http = site.http().fingerprint(|_, _| Fingerprint::builder().finish());
        let api = site.paying(http.reconcile(move |_| std::future::ready(endless()))).await;
        problem(&api.send(post("k", "{}")).await, 503, "ReconcileFailed");
        assert_eq!(site.runs.count(), 0);
    })
    .await;
}

#[tokio::test]
async fn an_interim_response_of_a_hook_fails_like_the_hook_and_is_not_stored() {
    for found_as in [Reconciled::Completed, Reconciled::Failed, |answer| Reconciled::Commit {
        answer,
        items: Vec::new(),
    }] {
        everywhere(async |site| {
            // The second request asks the hook again, so the first one has stored nothing.
            for answer in judged(&site, "k", move || Ok(found_as(found(103)))).await {
                problem(&answer, 503, "ReconcileFailed");
            }
            assert_eq!(site.runs.count(), 1);
        })
        .await;
    }
}

#[tokio::test]
async fn a_failure_that_was_found_is_sent_and_the_next_request_runs() {
    everywhere(async |site| {
        let answers = judged(&site, "k", || Ok(Reconciled::Failed(found(502)))).await;
        assert_eq!((answers[0].status().as_u16(), answers[1].status().as_u16()), (502, 201));
        assert_eq!(site.runs.count(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_hook_that_cannot_tell_leaves_the_record_as_it_is() {
    everywhere(async |site| {
        for answer in judged(&site, "k", || Ok(Reconciled::Refuse)).await {
            problem(&answer, 409, "Abandoned");
        }
        assert_eq!(site.runs.count(), 1);
    })
    .await;
    everywhere(async |site| {
        for answer in judged(&site, "k", || Err("secret".to_owned())).await {
            problem(&answer, 503, "ReconcileFailed");
            assert_eq!(values(answer.headers(), "retry-after"), ["1"]);
            assert!(!String::from_utf8_lossy(answer.body()).contains("secret"));
        }
        assert_eq!(site.runs.count(), 1);
    })
    .await;
    everywhere(async |site| {
        for answer in judged(&site, "k", || panic!("the hook does")).await {
            problem(&answer, 500, "HandlerPanicked");
        }
        assert_eq!(site.runs.count(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_request_that_is_to_run_is_taken_over() {
    everywhere(async |site| {
        let answers = judged(&site, "k", || Ok(Reconciled::Execute)).await;
        assert_eq!(answers[0].body(), r#"{"run":2}"#);
        assert!(is_replay(&answers[1]));
    })
    .await;
}
