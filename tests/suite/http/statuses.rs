//! Which answers are final, and which leave the key free.

use bytes::Bytes;
use dynamodb_idempotency::policy::Failure;
use http::{Response, StatusCode};

use super::message::{assert_same, is_replay, post, problem, with};
use super::site::{everywhere, paid};

const STORED: [u16; 14] = [200, 201, 202, 204, 301, 302, 307, 402, 404, 410, 418, 423, 424, 451];
/// The request was refused before anything was done.
const REFUSED: [u16; 17] =
    [304, 400, 401, 403, 405, 406, 407, 411, 412, 413, 414, 415, 417, 421, 422, 428, 431];
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
async fn successes_redirects_and_final_errors_are_replayed() {
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

/// An expired token, a body that cannot be parsed: the client fixes its request and sends it under the
/// same key, whatever the policy for failures is.
#[tokio::test]
async fn a_refusal_is_not_stored_and_the_key_takes_a_mended_request() {
    let policies = [Failure::Release, Failure::Replay, Failure::Retain { max_attempts: 1 }];
    for failure in policies {
        everywhere(async |site| {
            for status in REFUSED {
                let http = site.http().policy(|policy| policy.failure(failure));
                let before = site.runs.count();
                let answers = move |run| answer(if run == before + 3 { 201 } else { status })(run);
                let api = site.answering(http, answers).await;
                let key = format!("k{status}");
                for run in before + 1..=before + 2 {
                    let refused = api.send(post(&key, "{}")).await;
                    assert_eq!((refused.status().as_u16(), is_replay(&refused)), (status, false));
                    assert_eq!(refused.headers()["x-run"], run.to_string(), "{status}");
                }
                let fixed = || post(&key, r#"{"fixed":1}"#);
                let done = api.send(fixed()).await;
                assert_eq!((done.status().as_u16(), is_replay(&done)), (201, false), "{status}");
                assert!(is_replay(&api.send(fixed()).await), "{status}");
            }
        })
        .await;
    }
}

/// A failed precondition is not replayed to a repeat whose validator matches now.
#[tokio::test]
async fn a_failed_precondition_is_evaluated_again() {
    everywhere(async |site| {
        let runs = site.runs.clone();
        let api = site.serve(site.http(), move |request| {
            let fits = request.headers().get("if-match").is_some_and(|tag| tag == "\"v2\"");
            let run = runs.add();
            std::future::ready(if fits { paid(run) } else { answer(412)(run) })
        });
        let api = api.await;
        let sent = |tag| with(post("k", "{}"), "if-match", tag);
        assert_eq!(api.send(sent("\"v1\"")).await.status(), 412);
        let done = api.send(sent("\"v2\"")).await;
        assert_eq!((done.status().as_u16(), is_replay(&done)), (201, false));
        // It is done: what the client knows of it by now makes it no other request.
        for tag in ["\"v1\"", "\"v2\"", "\"v3\""] {
            let repeat = api.send(sent(tag)).await;
            assert!(is_replay(&repeat));
            assert_same(&done, &repeat);
        }
        assert_eq!(site.runs.count(), 2);
    })
    .await;
}

#[tokio::test]
async fn refusals_can_be_stored_too() {
    everywhere(async |site| {
        let http = site.http().store_if(|status| (200..500).contains(&status.as_u16()));
        let api = site.answering(http, answer(422)).await;
        let first = api.send(post("k", "{}")).await;
        let repeat = api.send(post("k", "{}")).await;
        assert!(is_replay(&repeat));
        assert_same(&first, &repeat);
    })
    .await;
}

/// The handler has run: what decides on its answer must not make it run again.
#[tokio::test]
async fn a_panic_of_what_says_which_answers_are_stored_completes_the_request() {
    everywhere(async |site| {
        let http = site.http().store_if(|status| {
            status.as_u16() >= 200 && {
                assert_ne!(status, StatusCode::CREATED, "who has thought of that one?");
                true
            }
        });
        let api = site.paying(http).await;
        let first = api.send(post("k", "{}")).await;
        assert_eq!((first.status().as_u16(), is_replay(&first)), (201, false));
        for _ in 0..2 {
            problem(&api.send(post("k", "{}")).await, 500, "AnswerUnavailable");
        }
        assert_eq!(site.runs.count(), 1);
        assert_eq!(site.status("k").await.as_deref(), Some("COMPLETED"));
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
                assert_eq!(site.status(&key).await.as_deref(), Some("RELEASED"), "{status}");
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
        let http = site.http().store_if(|status| status.as_u16() >= 200);
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
        let http = site.http().store_if(|status: StatusCode| status.is_success());
        let api = site.answering(http, answer(402)).await;
        api.send(post("k", "{}")).await;
        assert!(!is_replay(&api.send(post("k", "{}")).await));
        let status = site.status("k").await;
        assert_eq!((site.runs.count(), status.as_deref()), (2, Some("RELEASED")));
    })
    .await;
}
