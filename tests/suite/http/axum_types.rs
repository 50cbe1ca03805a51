//! The crate's types in axum's places: an execution as an argument, errors as responses.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post as on_post;
use bytes::Bytes;
use dynamodb_idempotency::http::Problem;
use dynamodb_idempotency::{Execution, RunError, Scope, Transaction};
use futures::{StreamExt, stream};

use super::client;
use super::event::Kind;
use super::function::Function;
use super::message::{assert_same, by, is_replay, post, problem, to, without};
use super::site::{Api, listen};
use crate::faq::invalid;
use crate::support::effects::{check, count};
use crate::support::{Act, Charging, Link, Runs, Store};

async fn attempt(execution: Execution) -> String {
    format!("attempt {}", execution.attempt())
}

async fn perhaps(execution: Option<Execution>) -> &'static str {
    if execution.is_some() { "protected" } else { "passed" }
}

#[tokio::test]
async fn a_handler_takes_its_execution_as_an_argument() {
    let store = Store::open_in_real_time().await;
    let http = || store.idempotency().http("pay");
    let layered =
        Router::new().route("/payments", on_post(attempt).route_layer(http().layer().unwrap()));
    let wrapped = http().wrap(Router::new().route("/payments", on_post(attempt))).unwrap();
    let apis =
        [Api::Server(listen(layered).await), Api::Lambda(Kind::HttpApi, Function::new(wrapped))];
    for (key, api) in ["a", "b"].into_iter().zip(apis) {
        let first = api.send(post(key, "{}")).await;
        assert_eq!((first.body().as_ref(), is_replay(&first)), (&b"attempt 1"[..], false));
        assert!(is_replay(&api.send(post(key, "{}")).await));
    }
}

#[tokio::test]
async fn a_handler_without_an_execution_gets_the_reason() {
    let store = Store::open_in_real_time().await;
    let http = || store.idempotency().http("pay").key_optional();
    let router = Router::new()
        .route("/payments", on_post(attempt).put(attempt).route_layer(http().layer().unwrap()))
        .route("/perhaps", on_post(perhaps).put(perhaps).route_layer(http().layer().unwrap()))
        .route("/bare", on_post(attempt));
    let server = listen(router).await;
    let keyless = without(post("", "{}"), "idempotency-key");
    for request in [keyless.clone(), by("PUT", post("k", "{}")), to(post("k", "{}"), "/bare")] {
        let body = problem(&client::send(server, &request).await, 500, "Misconfigured");
        assert!(body["detail"].as_str().is_some_and(|detail| detail.contains("Execution")));
    }
    let cases = [
        (keyless, "passed"),
        (by("PUT", post("k", "{}")), "passed"),
        (post("k", "{}"), "protected"),
    ];
    for (request, expected) in cases {
        assert_eq!(client::send(server, &to(request, "/perhaps")).await.body(), expected);
    }
}

#[tokio::test]
async fn whatever_axum_makes_a_response_of_can_be_committed() {
    let (store, runs) = (Store::open_in_real_time().await, Runs::default());
    let table = store.table().to_owned();
    let book = move |execution: Execution| {
        let (table, run) = (table.clone(), runs.add());
        async move {
            let row = || [count(&table, "effect")];
            let pieces =
                stream::iter([Ok("half of "), Err(std::io::Error::other("the disk is gone"))]);
            let broken = execution.commit_into_response(Body::from_stream(pieces), row()).await;
            let broken = broken.expect_err("the body is broken");
            let reason = "the answer cannot be serialized: reading the response's body failed: ";
            assert!(invalid(&broken).starts_with(reason), "{broken}");
            let answer = (StatusCode::CREATED, [("x-run", run.to_string())], "booked");
            execution.commit_into_response(answer, row()).await.expect("it is committed")
        }
    };
    let route = on_post(book).route_layer(store.idempotency().http("pay").layer().unwrap());
    let server = listen(Router::new().route("/payments", route)).await;
    let first = client::send(server, &post("k", "{}")).await;
    assert_eq!((first.status().as_u16(), first.body().as_ref()), (201, &b"booked"[..]));
    let repeat = client::send(server, &post("k", "{}")).await;
    assert!(is_replay(&repeat));
    assert_same(&first, &repeat);
    assert_eq!((store.counted("effect").await, &repeat.headers()["x-run"] == "1"), (1, true));
}

/// The first attempt fails after its step, the second gets the step's response back.
#[tokio::test]
async fn whatever_axum_makes_a_response_of_can_be_a_step() {
    let (store, runs, steps) = (Store::open_in_real_time().await, Runs::default(), Runs::default());
    let bytes = HeaderValue::from_bytes(b"caf\xe9").expect("a header");
    let book = move |execution: Execution| {
        let (run, steps, bytes) = (runs.add(), steps.clone(), bytes.clone());
        async move {
            let step = async {
                let answer =
                    (StatusCode::CREATED, [("x-bytes", bytes)], vec![0xff; steps.add() as usize]);
                let mut answer = answer.into_response();
                answer.headers_mut().insert("set-cookie", HeaderValue::from_static("a=b"));
                Ok::<_, StatusCode>(answer)
            };
            let answer = execution.step_into_response("reserve", step).await.expect("it is stored");
            let has_cookie = answer.headers().contains_key("set-cookie");
            assert_eq!(has_cookie, run == 1, "a cookie is in the first response alone");
            if run == 1 { StatusCode::BAD_GATEWAY.into_response() } else { answer }
        }
    };
    let route = on_post(book).route_layer(store.idempotency().http("pay").layer().unwrap());
    let server = listen(Router::new().route("/payments", route)).await;
    assert_eq!(client::send(server, &post("k", "{}")).await.status(), 502);
    for replayed in [false, true] {
        let second = client::send(server, &post("k", "{}")).await;
        assert_eq!((second.status().as_u16(), is_replay(&second)), (201, replayed));
        assert_eq!(
            (second.headers()["x-bytes"].as_bytes(), &second.body()[..]),
            (&b"caf\xe9"[..], &[0xff][..])
        );
    }
}

#[tokio::test]
async fn a_step_whose_response_breaks_off_is_not_done_again() {
    let gone =
        || Body::from_stream(stream::iter([Ok("half of "), Err(std::io::Error::other("gone"))]));
    broken_off(gone).await;
    let panicking = || {
        let pieces = stream::iter([true, false]).map(|is_good| {
            assert!(is_good, "the body panics");
            Ok::<_, std::io::Error>("half of ")
        });
        Body::from_stream(pieces)
    };
    broken_off(panicking).await;
}

async fn broken_off(body: impl Fn() -> Body + Clone + Send + Sync + 'static) {
    let (store, steps) = (Store::open_in_real_time().await, Runs::default());
    let counted = steps.clone();
    let book = move |execution: Execution| {
        let (steps, body) = (counted.clone(), body.clone());
        async move {
            let step = async {
                steps.add();
                Ok::<_, StatusCode>(body())
            };
            let said = match execution.step_into_response("reserve", step).await {
                Err(RunError::Idempotency(error)) if error.step_ran() => {
                    format!("not stored: {:?}", error.kind())
                }
                Err(RunError::Idempotency(error)) => format!("not run: {:?}", error.kind()),
                other => format!("{other:?}"),
            };
            (StatusCode::BAD_GATEWAY, said)
        }
    };
    let route = on_post(book).route_layer(store.idempotency().http("pay").layer().unwrap());
    let server = listen(Router::new().route("/payments", route)).await;
    for expected in ["not stored: AnswerUnavailable", "not run: AnswerUnavailable"] {
        assert_eq!(client::send(server, &post("k", "{}")).await.body(), expected);
    }
    assert_eq!(steps.count(), 1);
}

#[tokio::test]
async fn errors_are_the_responses_that_the_layer_gives() {
    let (store, link, runs) =
        (Store::open_in_real_time().await, Link::without_retries(), Runs::default());
    let idempotency = store.over(&link);
    let charge = move |body: Bytes| {
        let (idempotency, run) = (idempotency.clone(), runs.add());
        async move {
            let operation = idempotency.operation("charge").key("k").payload(&body[..]);
            operation
                .run(
                    async |_| {
                        if run == 1 { Err(StatusCode::IM_A_TEAPOT) } else { Ok(run.to_string()) }
                    },
                )
                .await
        }
    };
    let refuse = async || Problem::from(&Scope::from_encoded("%").unwrap_err());
    let router =
        Router::new().route("/payments", on_post(charge)).route("/refused", on_post(refuse));
    let server = listen(router).await;
    let sent = async |body: &'static str| client::send(server, &post("", body)).await;
    assert_eq!(sent("1").await.status(), 418);
    assert_eq!(sent("1").await.body(), "2");
    problem(&sent("2").await, 422, "Mismatch");
    problem(&client::send(server, &to(post("", ""), "/refused")).await, 400, "KeyInvalid");
    link.wire.down(Act::LoseRequest);
    let down = sent("3").await;
    problem(&down, 503, "Unavailable");
    assert_eq!(down.headers()["retry-after"], "1");
}

#[tokio::test]
async fn an_error_of_a_step_is_the_steps_own_response_or_a_problem() {
    let store = Store::open_in_real_time().await;
    let book = async |execution: Execution, body: Bytes| -> Result<String, RunError<StatusCode>> {
        execution.step("reserve", async { Ok::<_, StatusCode>(1) }).await?;
        if body == "\"twice\"" {
            execution.step("reserve", async { Ok::<_, StatusCode>(2) }).await?;
        }
        execution.step("charge", async { Err::<u8, _>(StatusCode::IM_A_TEAPOT) }).await?;
        Ok("booked".to_owned())
    };
    let route = on_post(book).route_layer(store.idempotency().http("pay").layer().unwrap());
    let server = listen(Router::new().route("/payments", route)).await;
    assert_eq!(client::send(server, &post("a", "\"once\"")).await.status(), 418);
    let body = problem(&client::send(server, &post("b", "\"twice\"")).await, 500, "Misconfigured");
    assert!(!body["detail"].to_string().contains("reserve"), "{body}");
}

#[tokio::test]
async fn a_commit_that_is_refused_is_a_problem() {
    let store = Store::open_in_real_time().await;
    let table = store.table().to_owned();
    let book = move |execution: Execution, body: Bytes| {
        let items = match &body[..] {
            b"\"twice\"" => vec![count(&table, "e"), count(&table, "e")],
            _ => vec![count(&table, "e"), check(&table, "nothing")],
        };
        async move { execution.commit_into_response("booked", items).await }
    };
    let route = on_post(book).route_layer(store.idempotency().http("pay").layer().unwrap());
    let server = listen(Router::new().route("/payments", route)).await;
    for (key, body, status, kind) in
        [("a", "\"never\"", 409, "ConditionFailed"), ("b", "\"twice\"", 500, "Misconfigured")]
    {
        let body = problem(&client::send(server, &post(key, body)).await, status, kind);
        assert!(!body["detail"].to_string().contains("item"), "{body}");
    }
    assert_eq!(store.counted("e").await, 0);
}

#[tokio::test]
async fn a_transaction_that_is_refused_is_a_problem() {
    let store = Store::open_in_real_time().await;
    let (idempotency, table) = (store.idempotency(), store.table().to_owned());
    let transfer = move |body: Bytes| {
        let items = vec![count(&table, "e"), check(&table, "nothing")];
        let idempotency = idempotency.clone();
        async move {
            let operation = idempotency.calling("transfer");
            let built = async || match &body[..] {
                b"\"declined\"" => Err(StatusCode::IM_A_TEAPOT),
                _ => Ok(Transaction::new("transferred".to_owned()).items(items)),
            };
            operation.run_transaction(built).await
        }
    };
    let server = listen(Router::new().route("/payments", on_post(transfer))).await;
    let sent = async |body: &'static str| client::send(server, &post("", body)).await;
    problem(&sent("\"never\"").await, 409, "ConditionFailed");
    assert_eq!(sent("\"declined\"").await.status(), 418);
    assert_eq!(store.counted("e").await, 0);
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_not_found() {
    let store = Store::open_in_real_time().await;
    let http = || store.idempotency().http("pay");
    let route = Router::new().route("/payments", on_post(attempt));
    let on_routes = listen(route.clone().route_layer(http().layer().unwrap())).await;
    let on_all = listen(route.layer(http().layer().unwrap())).await;
    let nowhere = to(without(post("", "{}"), "idempotency-key"), "/nowhere");
    assert_eq!(client::send(on_routes, &nowhere).await.status(), 404);
    let with_key = to(post("k", "{}"), "/nowhere");
    assert_eq!(client::send(on_routes, &with_key).await.status(), 404);
    assert_eq!(client::send(on_all, &with_key).await.status(), 404);
    // A layer that also covers the fallback does not know the route, so it fails closed.
    problem(&client::send(on_all, &nowhere).await, 400, "KeyMissing");
}

/// `?` takes it out of a handler that fails with a boxed error.
#[test]
fn a_run_error_of_a_boxed_error_is_an_error() {
    type Boxed = Box<dyn std::error::Error + Send + Sync>;
    fn out_of(error: RunError<Boxed>) -> Result<(), Boxed> {
        Err(error)?
    }
    let error = out_of(RunError::Handler("declined".into())).unwrap_err();
    assert_eq!(error.to_string(), "declined");
}
