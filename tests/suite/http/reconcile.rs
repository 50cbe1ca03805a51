//! A hook judges a request whose handler vanished, and answers it with responses.

use bytes::Bytes;
use dynamodb_idempotency::{Fingerprint, Reconciled};
use http::Response;
use http_body_util::Full;

use super::message::{assert_same, is_replay, post, problem, values};
use super::site::{Site, everywhere};
use crate::support::effects::count;
use crate::support::raw;

type Word = Reconciled<Response<Full<Bytes>>, Response<Full<Bytes>>>;

/// The answers to two requests whose first handler vanished, with a hook that says this.
async fn judged(
    site: &Site,
    key: &'static str,
    word: impl Fn() -> Result<Word, String> + Clone + Send + Sync + 'static,
) -> [Response<Bytes>; 2] {
    site.store.put(raw::abandoned(&site.pk(key))).await;
    let http = site.http().fingerprint(|_, _| Fingerprint::builder().finish());
    let api = site.paying(http.reconcile(move |_| std::future::ready(word()))).await;
    let answers = [api.send(post(key, "{}")).await, api.send(post(key, "{}")).await];
    assert_eq!(site.runs.count(), 0);
    answers
}

fn found(status: u16) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header("x-found", "1");
    response.body(r#"{"found":true}"#.into()).unwrap()
}

#[tokio::test]
async fn a_response_is_stored_with_the_rows_of_its_hook() {
    for site in everywhere().await {
        let effect = site.pk("effect");
        let row = count(site.store.table(), &effect);
        let word = move || Ok(Reconciled::Commit { answer: found(201), items: vec![row.clone()] });
        let answers = judged(&site, "k", word).await;
        assert_eq!((answers[0].status().as_u16(), is_replay(&answers[0])), (201, false));
        assert!(is_replay(&answers[1]));
        assert_same(&answers[0], &answers[1]);
        assert_eq!(site.store.counted(&effect).await, 1);
    }
}

#[tokio::test]
async fn the_length_of_a_hooks_response_is_that_of_its_body() {
    for site in everywhere().await {
        let word = || {
            let mut found = found(201);
            found.headers_mut().insert("content-length", 77.into());
            Ok(Reconciled::Completed(found))
        };
        for answer in judged(&site, "k", word).await {
            let lengths = values(answer.headers(), "content-length");
            assert!(lengths.iter().all(|length| *length == "14"), "{lengths:?}");
        }
    }
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
    for site in everywhere().await {
        site.store.put(raw::abandoned(&site.pk("k"))).await;
        let http = site.http().fingerprint(|_, _| Fingerprint::builder().finish());
        let api = site.paying(http.reconcile(move |_| std::future::ready(endless()))).await;
        problem(&api.send(post("k", "{}")).await, 503, "ReconcileFailed");
        assert_eq!(site.runs.count(), 0);
    }
}

#[tokio::test]
async fn an_interim_response_of_a_hook_fails_like_the_hook_and_is_not_stored() {
    for found_as in [Reconciled::Completed, Reconciled::Failed, |answer| Reconciled::Commit {
        answer,
        items: Vec::new(),
    }] {
        for site in everywhere().await {
            // The second request asks the hook again, so the first one has stored nothing.
            for answer in judged(&site, "k", move || Ok(found_as(found(103)))).await {
                problem(&answer, 503, "ReconcileFailed");
            }
        }
    }
}
