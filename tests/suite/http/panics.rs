//! User code of an HTTP handler that panics: one test for each row of the table in
//! `docs/guide/guarantees.md`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::routing::post as on_post;
use axum::{BoxError, Router};
use bytes::Bytes;
use dynamodb_idempotency::http::{Http, Webhook};
use dynamodb_idempotency::lambda::HandlerResponse;
use dynamodb_idempotency::{Abandoned, Execution, Fingerprint, Reconciled, Transaction};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use lambda_http::{Body, IntoResponse, service_fn};
use tower::Layer;

use super::event::{Kind, response};
use super::failures::serving;
use super::function::Function;
use super::message::{is_replay, post, problem, through};
use super::site::{Place, everywhere};
use crate::support::effects::{count, debit};
use crate::support::panicking::{ErrorPanicsWhenDropped, PanickingError, PanicsWhenDropped};
use crate::support::{Link, Runs, Store, raw};

#[tokio::test]
async fn a_function_of_the_configuration_that_panics_refuses_the_request() {
    let changes: [fn(Http) -> Http; 5] = [
        |http| http.webhook(Webhook::signed(|_, _| panic!("user code"))),
        |http| http.key(|_| panic!("user code")),
        |http| http.tenant(|_| -> Option<String> { panic!("user code") }),
        |http| http.optional_tenant(|_| -> Option<String> { panic!("user code") }),
        |http| http.fingerprint(|_, _| -> Fingerprint { panic!("user code") }),
    ];
    for site in everywhere().await {
        for change in changes {
            let api = site.paying(change(site.http())).await;
            problem(&api.send(post("k", "{}")).await, 500, "HandlerPanicked");
        }
        assert_eq!((site.runs.count(), site.link.wire.requests().len()), (0, 0));
    }
}

#[tokio::test]
async fn a_hook_that_panics_changes_nothing() {
    type Answer = Result<Reconciled<Response<String>, Response<String>>, PanickingError>;
    for site in everywhere().await {
        site.store.put(raw::abandoned(&site.pk("k"))).await;
        let before = site.item("k").await;
        for (is_error, status, kind) in
            [(false, 500, "HandlerPanicked"), (true, 503, "ReconcileFailed")]
        {
            let http = site.http().fingerprint(|_, _| Fingerprint::builder().finish());
            let http = http.reconcile(move |_: Abandoned| async move {
                let answer: Answer =
                    if is_error { Err(PanickingError) } else { panic!("user code") };
                answer
            });
            let api = site.paying(http).await;
            problem(&api.send(post("k", "{}")).await, status, kind);
        }
        assert_eq!((site.item("k").await, site.runs.count()), (before, 0));
    }
}

/// How a body breaks off.
#[derive(Clone, Copy)]
enum Broken {
    Panics,
    ErrorTextPanics,
    ErrorPanicsWhenDropped,
}

impl http_body::Body for Broken {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let error = match *self {
            Self::Panics => panic!("user code"),
            Self::ErrorTextPanics => PanickingError.into(),
            Self::ErrorPanicsWhenDropped => ErrorPanicsWhenDropped.into(),
        };
        Poll::Ready(Some(Err(error)))
    }
}

#[tokio::test]
async fn a_body_that_panics_completes_its_request() {
    for (place, broken) in [
        (Place::Server, Broken::Panics),
        (Place::Server, Broken::ErrorTextPanics),
        (Place::Server, Broken::ErrorPanicsWhenDropped),
        // `lambda_http` panics at an error. The process would abort if the error's destructor panicked too.
        (Place::Router, Broken::Panics),
        (Place::Router, Broken::ErrorTextPanics),
    ] {
        let (store, runs) = (Store::open_in_real_time().await, Runs::default());
        let ran = runs.clone();
        let handler = on_post(move || {
            ran.add();
            async move { Response::new(axum::body::Body::new(broken)) }
        });
        let api = serving(place, store.idempotency().http("payments"), handler).await;
        api.check([
            ("first", post("k", "{}"), "500 BodyBroken"),
            ("repeat", post("k", "{}"), "500 AnswerUnavailable"),
        ])
        .await;
        assert_eq!(runs.count(), 1);
    }
}

/// A service that answers, and whose destructor panics then.
#[derive(Clone)]
struct PanicsOnceAnswered {
    runs: Runs,
    has_answered: bool,
}

impl tower::Service<Request<axum::body::Body>> for PanicsOnceAnswered {
    type Response = Response<axum::body::Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<axum::body::Body>) -> Self::Future {
        self.has_answered = true;
        let body = format!("run {}", self.runs.add());
        std::future::ready(Ok(Response::new(body.into())))
    }
}

impl Drop for PanicsOnceAnswered {
    fn drop(&mut self) {
        assert!(!self.has_answered, "user code");
    }
}

#[tokio::test]
async fn what_a_service_answered_is_stored_though_its_destructor_panics() {
    let store = Store::open().await;
    let service = PanicsOnceAnswered { runs: Runs::default(), has_answered: false };
    let layered = store.idempotency().http("payments").layer().unwrap().layer(service);
    for is_repeat in [false, true] {
        let answer = through(&layered, post("k", "{}")).await;
        assert_eq!((answer.status(), is_replay(&answer)), (StatusCode::OK, is_repeat));
    }
}

/// An answer whose conversion panics; without a status, that too.
struct Unconvertible(Option<StatusCode>);

impl IntoResponse for Unconvertible {
    fn into_response(self) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        panic!("user code")
    }
}

impl HandlerResponse for Unconvertible {
    fn status(&self) -> StatusCode {
        self.0.expect("user code")
    }
}

#[tokio::test]
async fn the_status_of_an_answer_whose_conversion_panics_decides() {
    for (status, is_completed) in [
        (Some(StatusCode::CREATED), true),
        (None, true),
        (Some(StatusCode::SERVICE_UNAVAILABLE), false),
    ] {
        let (store, runs) = (Store::open().await, Runs::default());
        let ran = runs.clone();
        let handler = service_fn(move |_: lambda_http::Request| {
            ran.add();
            async move { Ok::<_, Infallible>(Unconvertible(status)) }
        });
        let function = Function::new(store.idempotency().http("payments").wrap(handler).unwrap());
        let event = Kind::HttpApi.event(&post("k", "{}"));
        problem(&response(&function.invoke(&event).await), 500, "BodyBroken");
        let repeat = if is_completed { "AnswerUnavailable" } else { "BodyBroken" };
        problem(&response(&function.invoke(&event).await), 500, repeat);
        assert_eq!(runs.count(), if is_completed { 1 } else { 2 });
    }
}

#[tokio::test]
async fn a_function_that_panics_at_an_answer_completes_its_request() {
    type Change = fn(Http) -> Http;
    let changes: [(Change, &str); 2] = [
        (|http| http.store_if(|_| panic!("user code")), "Http::store_if panicked"),
        (|http| http.on_store(|_| panic!("user code")), "Http::on_store panicked"),
    ];
    for (change, reason) in changes {
        for site in everywhere().await {
            let api = site.paying(change(site.http())).await;
            api.check([
                ("first", post("k", "{}"), "201"),
                ("repeat", post("k", "{}"), "500 AnswerUnavailable"),
            ])
            .await;
            let record = site.item("k").await.unwrap();
            assert_eq!(record["response"], raw::answer("unavailable", reason));
            assert_eq!(site.runs.count(), 1);
        }
    }
}

#[tokio::test]
async fn a_replay_whose_change_panics_is_an_error_and_stays_stored() {
    for site in everywhere().await {
        let fine = site.paying(site.http()).await;
        fine.check([("first", post("k", "{}"), "201")]).await;
        let stored = site.item("k").await;
        let api = site.paying(site.http().on_replay(|_| panic!("user code"))).await;
        api.check([("the hook panics", post("k", "{}"), "500 AnswerUnavailable")]).await;
        assert_eq!((site.item("k").await, site.runs.count()), (stored, 1));
        fine.check([("repeat", post("k", "{}"), "201 replay")]).await;
    }
}

#[tokio::test]
async fn a_renderer_that_panics_is_replaced_by_the_default() {
    for site in everywhere().await {
        let api = site.paying(site.http().render_problem(|_| panic!("user code"))).await;
        problem(&api.send(post("", "{}")).await, 400, "KeyInvalid");
    }
}

#[tokio::test]
async fn a_transaction_whose_on_condition_failed_panics_writes_nothing() {
    let (store, link) = (Store::open().await, Link::default());
    store.deposit("alice", 1).await;
    let table = store.table().to_owned();
    let handler = service_fn(move |_: lambda_http::Request| {
        let items = [count(&table, "effect"), debit(&table, "alice", 5)];
        let transaction = Transaction::new(Response::new(Body::Empty)).items(items);
        let transaction = transaction.on_condition_failed(|_| panic!("user code"));
        async { Ok::<_, Infallible>(transaction) }
    });
    let function =
        Function::new(store.over(&link).http("transfers").wrap_transaction(handler).unwrap());
    let answer = response(&function.invoke(&Kind::HttpApi.event(&post("k", "{}"))).await);
    problem(&answer, 500, "HandlerPanicked");
    assert_eq!((store.counted("effect").await, store.item("transfers#k").await), (0, None));
}

/// A response whose conversion panics, from a step that has happened.
#[tokio::test]
async fn a_step_whose_conversion_panics_never_runs_again() {
    struct Unconvertible;
    impl axum::response::IntoResponse for Unconvertible {
        fn into_response(self) -> axum::response::Response {
            panic!("user code")
        }
    }
    let (store, effects) = (Store::open().await, Runs::default());
    let counted = effects.clone();
    let handler = move |execution: Execution| {
        let effects = counted.clone();
        async move {
            let work = async {
                effects.add();
                Ok::<_, Infallible>(Unconvertible)
            };
            let answer = execution.step_into_response("charge", work).await;
            answer.map_err(axum::response::IntoResponse::into_response)
        }
    };
    let layer = store.idempotency().http("payments").layer().unwrap();
    let router = Router::new().route("/payments", on_post(handler).route_layer(layer));
    for _ in 0..3 {
        assert_eq!(through(&router, post("k", "{}")).await.status(), 500);
    }
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn a_response_is_stored_though_the_destructor_of_its_future_panics() {
    let (store, runs) = (Store::open().await, Runs::default());
    let handler = tower::service_fn({
        let runs = runs.clone();
        move |_: Request<axum::body::Body>| {
            runs.add();
            let answer = Response::builder().status(201).body(axum::body::Body::from("paid"));
            PanicsWhenDropped::returns(Ok::<_, Infallible>(answer.unwrap()))
        }
    });
    let layer = store.idempotency().http("payments").layer().unwrap();
    let service = tower::Layer::layer(&layer, handler);
    for is_repeat in [false, true] {
        let answer = through(&service, post("k", "{}")).await;
        assert_eq!((answer.status(), is_replay(&answer)), (StatusCode::CREATED, is_repeat));
    }
    assert_eq!(runs.count(), 1);
}
