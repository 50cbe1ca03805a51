//! The crate's types in axum's places: an execution as an argument, errors as responses.

use axum::Router;
use axum::body::Body;
use axum::handler::Handler;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use dynamodb_idempotency::http::Problem;
use dynamodb_idempotency::{Execution, Idempotency, RunError, Scope, Transaction};
use futures::{StreamExt, stream};

use super::client;
use super::event::Kind;
use super::function::Function;
use super::message::{by, keyless, outcome, post, problem, to};
use super::site::{Api, listen};
use crate::faq::invalid;
use crate::support::effects::{check, count};
use crate::support::{Act, Charging, Link, Runs, Store};

/// Serves `POST /payments` by this handler, with the layer on its route.
async fn serve<H, T>(store: &Store, handler: H) -> Api
where
    H: Handler<T, ()>,
    T: 'static,
{
    let route = on_post(handler).route_layer(store.idempotency().http("pay").layer().unwrap());
    Api::Server(listen(Router::new().route("/payments", route)).await)
}

/// A body that breaks off half-way.
fn broken() -> Body {
    Body::from_stream(stream::iter([
        Ok("half of "),
        Err(std::io::Error::other("the disk is gone")),
    ]))
}

async fn attempt(execution: Execution) -> String {
    format!("attempt {}", execution.attempt())
}

async fn perhaps(execution: Option<Execution>) -> &'static str {
    if execution.is_some() { "protected" } else { "passed" }
}

#[tokio::test]
async fn a_handler_takes_its_execution_as_an_argument() {
    let store = Store::open_in_real_time().await;
    let router = Router::new().route("/payments", on_post(attempt));
    let function = Function::new(store.idempotency().http("pay").wrap(router).unwrap());
    let apis = [serve(&store, attempt).await, Api::Lambda(Kind::HttpApi, function)];
    for (key, api) in ["a", "b"].into_iter().zip(apis) {
        assert_eq!(api.replayed(post(key, "{}")).await.body(), "attempt 1");
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
    for request in [keyless("{}"), by("PUT", post("k", "{}")), to(post("k", "{}"), "/bare")] {
        let body = problem(&client::send(server, &request).await, 500, "Misconfigured");
        assert!(body["detail"].as_str().is_some_and(|detail| detail.contains("Execution")));
    }
    let cases = [
        (keyless("{}"), "passed"),
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
            let broken = execution.commit_into_response(broken(), row()).await;
            let broken = broken.expect_err("the body is broken");
            let reason = "the answer cannot be serialized: reading the response's body failed: ";
            assert!(invalid(&broken).starts_with(reason), "{broken}");
            let answer = (StatusCode::CREATED, [("x-run", run.to_string())], "booked");
            execution.commit_into_response(answer, row()).await.expect("it is committed")
        }
    };
    let api = serve(&store, book).await;
    let first = api.replayed(post("k", "{}")).await;
    assert_eq!((first.status().as_u16(), first.body().as_ref()), (201, &b"booked"[..]));
    assert_eq!((store.counted("effect").await, &first.headers()["x-run"] == "1"), (1, true));
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
    let api = serve(&store, book).await;
    api.check([("first", post("k", "{}"), "502")]).await;
    let second = api.replayed(post("k", "{}")).await;
    assert_eq!(second.status(), 201);
    assert_eq!(
        (second.headers()["x-bytes"].as_bytes(), &second.body()[..]),
        (&b"caf\xe9"[..], &[0xff][..])
    );
}

#[tokio::test]
async fn a_step_whose_response_breaks_off_is_not_done_again() {
    broken_off(broken).await;
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
    let api = serve(&store, book).await;
    for expected in ["not stored: AnswerUnavailable", "not run: AnswerUnavailable"] {
        assert_eq!(api.send(post("k", "{}")).await.body(), expected);
    }
    assert_eq!(steps.count(), 1);
}

/// Ends with the error that `act` names.
async fn failing(
    idempotency: Idempotency,
    table: String,
    execution: Execution,
    act: String,
) -> Response {
    let own = || Err::<String, _>(StatusCode::IM_A_TEAPOT);
    let refused = || vec![count(&table, "e"), check(&table, "nothing")];
    let reserve = async || -> Result<String, RunError<StatusCode>> {
        execution.step("reserve", async { Ok("reserved".to_owned()) }).await
    };
    match act.as_str() {
        "an operation's own" => {
            idempotency.calling("own").run(async |_| own()).await.into_response()
        }
        "an operation's mismatch" => {
            let charge = async |amount: u8| {
                let operation = idempotency.operation("charge").key("k").payload(&amount);
                operation.run(async |_| Ok::<_, StatusCode>("charged".to_owned())).await
            };
            charge(1).await.expect("it is the first");
            charge(2).await.into_response()
        }
        "a scope's" => Problem::from(&Scope::from_encoded("%").unwrap_err()).into_response(),
        "a step's own" => {
            let step: Result<_, RunError<_>> = execution.step("charge", async { own() }).await;
            step.into_response()
        }
        "a step done twice" => {
            reserve().await.expect("it is the first");
            reserve().await.into_response()
        }
        "a commit's condition" => {
            execution.commit_into_response("booked", refused()).await.into_response()
        }
        "a commit of a row twice" => {
            let items = vec![count(&table, "e"), count(&table, "e")];
            execution.commit_into_response("booked", items).await.into_response()
        }
        "a transaction's condition" => {
            let transfer = Transaction::new("transferred".to_owned()).items(refused());
            let built = async || Ok::<_, StatusCode>(transfer);
            idempotency.calling("transfer").run_transaction(built).await.into_response()
        }
        "a transaction's own" => {
            let built = async || Err::<Transaction<String>, _>(StatusCode::IM_A_TEAPOT);
            idempotency.calling("transfer").run_transaction(built).await.into_response()
        }
        other => panic!("{other} is no case"),
    }
}

#[tokio::test]
async fn errors_are_the_responses_that_the_layer_gives() {
    let (store, link) = (Store::open_in_real_time().await, Link::without_retries());
    let (idempotency, table) = (store.idempotency(), store.table().to_owned());
    let api = serve(&store, move |execution: Execution, act: String| {
        failing(idempotency.clone(), table.clone(), execution, act)
    })
    .await;
    for (act, expected) in [
        ("an operation's own", "418"),
        ("an operation's mismatch", "422 Mismatch"),
        ("a scope's", "400 KeyInvalid"),
        ("a step's own", "418"),
        ("a step done twice", "500 Misconfigured"),
        ("a commit's condition", "409 ConditionFailed"),
        ("a commit of a row twice", "500 Misconfigured"),
        ("a transaction's condition", "409 ConditionFailed"),
        ("a transaction's own", "418"),
    ] {
        let answer = api.send(post(act, act)).await;
        assert_eq!(outcome(&answer), expected, "{act}");
        // The names of the service's own parts are not the client's business.
        let body = String::from_utf8_lossy(answer.body());
        assert!(!body.contains("reserve") && !body.contains("item"), "{act}: {body}");
    }
    assert_eq!(store.counted("e").await, 0);

    let unreachable = store.over(&link);
    let charge = async move || {
        unreachable.calling("o").run(async |_| Err::<String, _>(StatusCode::OK)).await
    };
    link.wire.down(Act::LoseRequest);
    let server = listen(Router::new().route("/payments", on_post(charge))).await;
    let down = client::send(server, &post("", "")).await;
    problem(&down, 503, "Unavailable");
    assert_eq!(down.headers()["retry-after"], "1");
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_not_found() {
    let store = Store::open_in_real_time().await;
    let http = || store.idempotency().http("pay");
    let route = Router::new().route("/payments", on_post(attempt));
    let on_routes = listen(route.clone().route_layer(http().layer().unwrap())).await;
    let on_all = listen(route.layer(http().layer().unwrap())).await;
    let [no_key, key] = [keyless("{}"), post("k", "{}")].map(|request| to(request, "/nowhere"));
    Api::Server(on_routes)
        .check([("no key", no_key.clone(), "404"), ("a key", key.clone(), "404")])
        .await;
    // A layer that also covers the fallback does not know the route, so it fails closed.
    Api::Server(on_all).check([("no key", no_key, "400 KeyMissing"), ("a key", key, "404")]).await;
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
