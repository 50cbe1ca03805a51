//! Which answers are final, and which leave the key free.

use bytes::Bytes;
use http::{Response, StatusCode};

use super::message::{assert_same, is_replay, post};
use super::site::everywhere;

const STORED: [u16; 14] = [200, 201, 202, 204, 301, 302, 304, 307, 400, 402, 404, 410, 422, 451];
const NOT_STORED: [u16; 8] = [408, 409, 425, 429, 500, 502, 503, 504];

/// An answer with this status that names its run where it may have a body.
fn answer(status: u16) -> impl Fn(u32) -> Response<Bytes> + Clone + Send + Sync + 'static {
    move |run| {
        let response = Response::builder().status(status).header("x-run", run);
        let body = if matches!(status, 204 | 304) { String::new() } else { format!("run {run}") };
        response.body(body.into()).unwrap()
    }
}

#[tokio::test]
async fn successes_redirects_and_refusals_are_replayed() {
    everywhere(async |site| {
        for status in STORED {
            let api = site.answering(site.http(), answer(status)).await;
            let key = format!("k{status}");
            let first = api.send(post(&key, "{}")).await;
            let repeat = api.send(post(&key, "{}")).await;
            assert_eq!(first.status(), status);
            assert!(is_replay(&repeat), "{status}");
            assert_same(&first, &repeat);
            assert_eq!(site.status(&key).await.as_deref(), Some("COMPLETED"), "{status}");
        }
    })
    .await;
}

#[tokio::test]
async fn answers_that_ask_to_try_again_leave_no_trace() {
    everywhere(async |site| {
        for status in NOT_STORED {
            let api = site.answering(site.http(), answer(status)).await;
            let (key, before) = (format!("k{status}"), site.runs.count());
            for run in before + 1..=before + 2 {
                let first = api.send(post(&key, "{}")).await;
                assert_eq!((first.status().as_u16(), is_replay(&first)), (status, false));
                assert_eq!(first.body(), &format!("run {run}"));
                assert_eq!(site.item(&key).await, None, "{status}");
            }
            // The key is free for any request.
            let other = api.send(post(&key, r#"{"other":1}"#)).await;
            assert_eq!(other.body(), &format!("run {}", before + 3));
        }
    })
    .await;
}

#[tokio::test]
async fn a_failure_is_followed_by_a_run_that_is_stored() {
    everywhere(async |site| {
        let api =
            site.answering(site.http(), |run| answer(if run == 1 { 503 } else { 201 })(run)).await;
        let answers = [
            api.send(post("k", "{}")).await,
            api.send(post("k", "{}")).await,
            api.send(post("k", "{}")).await,
        ];
        let seen = answers.each_ref().map(|answer| (answer.status().as_u16(), is_replay(answer)));
        assert_eq!(seen, [(503, false), (201, false), (201, true)]);
        assert_eq!(answers[2].body(), "run 2");
    })
    .await;
}

/// As Stripe does.
#[tokio::test]
async fn server_errors_can_be_stored_too() {
    everywhere(async |site| {
        let http = site.http().stored(|status| status.as_u16() >= 200);
        let api = site.answering(http, answer(500)).await;
        let first = api.send(post("k", "{}")).await;
        let repeat = api.send(post("k", "{}")).await;
        assert_eq!((first.status().as_u16(), is_replay(&first)), (500, false));
        assert!(is_replay(&repeat));
        assert_same(&first, &repeat);
        assert_eq!(site.status("k").await.as_deref(), Some("COMPLETED"));
    })
    .await;
}

#[tokio::test]
async fn fewer_answers_can_be_stored() {
    everywhere(async |site| {
        let http = site.http().stored(|status: StatusCode| status.is_success());
        let api = site.answering(http, answer(402)).await;
        api.send(post("k", "{}")).await;
        assert!(!is_replay(&api.send(post("k", "{}")).await));
        assert_eq!((site.runs.count(), site.item("k").await), (2, None));
    })
    .await;
}
