//! Bodies that stream: past the wrapper as if it were not there; below it held until they are stored, or,
//! where they are too long for that and may, sent as they come.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::routing::any;
use bytes::Bytes;
use dynamodb_idempotency::http::{AnsweredBy, Http};
use dynamodb_idempotency::lambda::streaming_adapter;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use lambda_http::request::LambdaRequest;
use lambda_http::{Context, LambdaEvent};
use tokio::io::AsyncReadExt;
use tower::{Service, ServiceExt};

use super::client;
use super::event::Kind;
use super::function::{context_of, context_until};
use super::message::{assert_same, by, is_replay, keyless, post, problem};
use super::site::listen;
use crate::support::gate::patiently;
use crate::support::{Link, Runs, Store, made_up_time};

const LIMIT: usize = 1024;

type Chunk = Result<Bytes, &'static str>;

#[derive(Clone, Copy, Debug)]
enum Place {
    /// A layer of a router.
    Layer,
    /// Around a router, under `dynamodb_idempotency::lambda::run_with_streaming_response`.
    Function,
}

/// A handler whose first answer's body is what the test sends.
struct Api {
    place: Place,
    store: Store,
    link: Link,
    runs: Runs,
    status: StatusCode,
    /// `None` once it has ended.
    source: Option<UnboundedSender<Chunk>>,
    body: Arc<Mutex<Option<UnboundedReceiver<Chunk>>>>,
}

async fn in_each_place(test: impl AsyncFn(Api)) {
    for place in [Place::Layer, Place::Function] {
        println!("{place:?}");
        test(Api::new(place).await).await;
    }
}

impl Api {
    async fn new(place: Place) -> Self {
        let (source, body) = mpsc::unbounded();
        Self {
            place,
            store: Store::open_in_real_time().await,
            link: Link::default(),
            runs: Runs::default(),
            status: StatusCode::CREATED,
            source: Some(source),
            body: Arc::new(Mutex::new(Some(body))),
        }
    }

    fn http(&self) -> Http {
        self.whole_http().stream_large_answers()
    }

    fn whole_http(&self) -> Http {
        let http = self.store.over(&self.link).http("pay");
        http.policy(|policy| policy.max_answer_bytes(LIMIT))
    }

    fn router(&self) -> Router {
        let (runs, body, status) = (self.runs.clone(), Arc::clone(&self.body), self.status);
        let handler = any(async move || {
            let run = runs.add();
            let body = body.lock().unwrap().take();
            let body = body.map_or_else(|| Body::from(format!("run {run}")), Body::from_stream);
            (status, body)
        });
        Router::new().route("/payments", handler)
    }

    fn chunk(&self, bytes: usize) {
        let chunk = Bytes::from(vec![b'x'; bytes]);
        self.source.as_ref().unwrap().unbounded_send(Ok(chunk)).unwrap();
    }

    fn fail(&mut self) {
        self.source.take().unwrap().unbounded_send(Err("the disk is gone")).unwrap();
    }

    fn end(&mut self) {
        self.source = None;
    }

    async fn send(&self, http: Http, request: Request<Bytes>) -> Response<Body> {
        let sending = async {
            match self.place {
                Place::Layer => {
                    let router = self.router().layer(http.layer().unwrap());
                    router.oneshot(request.map(Body::from)).await.unwrap()
                }
                Place::Function => self.invoke(http, request, context_of(30)).await,
            }
        };
        patiently("a response's head", sending).await
    }

    async fn invoke(
        &self,
        http: Http,
        request: Request<Bytes>,
        context: Context,
    ) -> Response<Body> {
        let mut function = streaming_adapter(http.wrap_streaming(self.router()).unwrap());
        let event = Kind::HttpApi.event(&request).to_string();
        let event: LambdaRequest = serde_json::from_str(&event).unwrap();
        let answer = function.call(LambdaEvent::new(event, context)).await.unwrap();
        let mut response = Response::new(Body::from_stream(answer.stream));
        *response.status_mut() = answer.metadata_prelude.status_code;
        *response.headers_mut() = answer.metadata_prelude.headers;
        response
    }

    async fn whole(&self, request: Request<Bytes>) -> Response<Bytes> {
        let (head, body) = self.send(self.http(), request).await.into_parts();
        let body = patiently("a whole body", body.collect()).await.unwrap().to_bytes();
        Response::from_parts(head, body)
    }

    async fn status(&self) -> Option<String> {
        self.store.status("pay#k").await
    }

    /// Checks that repeats report a completed request whose answer is not available.
    async fn assert_done_without_answer(&self) {
        assert_eq!(self.status().await.as_deref(), Some("COMPLETED"));
        problem(&self.whole(post("k", "{}")).await, 500, "AnswerUnavailable");
        assert_eq!(self.runs.count(), 1);
    }
}

/// How many bytes come next; `None` at the end.
async fn next(body: &mut Body) -> Option<Result<usize, axum::Error>> {
    let frame = patiently("a chunk", body.frame()).await?;
    Some(frame.map(|frame| frame.into_data().expect("no trailers").len()))
}

#[tokio::test]
async fn a_request_that_passes_through_streams() {
    let optional = |http: Http| http.key_optional();
    for request in [keyless(""), by("GET", post("k", ""))] {
        in_each_place(async |mut api: Api| {
            api.chunk(5000);
            let response = api.send(optional(api.http()), request.clone()).await;
            let mut body = response.into_body();
            assert_eq!(next(&mut body).await.unwrap().unwrap(), 5000);
            api.chunk(1);
            assert_eq!(next(&mut body).await.unwrap().unwrap(), 1);
            api.end();
            assert!(next(&mut body).await.is_none());
            assert_eq!(api.link.wire.requests(), [""; 0]);
        })
        .await;
    }
}

#[tokio::test]
async fn an_answer_that_can_be_stored_is_held_until_it_is() {
    in_each_place(async |mut api: Api| {
        api.chunk(LIMIT / 4);
        api.chunk(LIMIT / 4);
        api.end();
        let first = api.whole(post("k", "{}")).await;
        assert_eq!((first.status(), first.body().len()), (StatusCode::CREATED, LIMIT / 2));
        let repeat = api.whole(post("k", "{}")).await;
        assert!(!is_replay(&first) && is_replay(&repeat));
        assert_same(&first, &repeat);
    })
    .await;
}

#[tokio::test]
async fn an_impossible_deadline_counts_as_none_and_one_that_has_passed_does_not() {
    let ago = |seconds| context_until(made_up_time::now() - Duration::from_secs(seconds));
    let in_1970 = |millis| context_until(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
    for (context, status) in [
        (ago(1), 503),
        (ago(3_500), 503),
        (ago(3_700), 201),
        (in_1970(0), 201),
        (in_1970(600_000), 201),
    ] {
        let mut api = Api::new(Place::Function).await;
        api.end();
        let deadline = context.deadline;
        let response = api.invoke(api.http(), post("k", "{}"), context).await;
        assert_eq!(response.status(), status, "{deadline}");
        assert_eq!(api.runs.count(), u32::from(status == 201), "{deadline}");
    }
}

#[tokio::test]
async fn a_longer_one_goes_out_as_it_comes_and_is_never_made_again() {
    in_each_place(async |mut api: Api| {
        api.chunk(LIMIT);
        api.chunk(1);
        let response = api.send(api.http(), post("k", "{}")).await;
        assert_eq!(response.status(), StatusCode::CREATED);
        if let Place::Layer = api.place {
            assert_eq!(response.extensions().get(), Some(&AnsweredBy::Handler));
        }
        // Before its first byte is read: its client may be gone.
        assert_eq!(api.status().await.as_deref(), Some("COMPLETED"));
        let mut body = response.into_body();
        assert_eq!(next(&mut body).await.unwrap().unwrap(), LIMIT + 1);
        api.chunk(77);
        assert_eq!(next(&mut body).await.unwrap().unwrap(), 77);
        api.end();
        assert!(next(&mut body).await.is_none());
        api.assert_done_without_answer().await;
    })
    .await;
}

#[tokio::test]
async fn one_that_ends_in_an_error_half_way_ends_so_for_its_client() {
    in_each_place(async |mut api: Api| {
        api.chunk(LIMIT + 1);
        let mut body = api.send(api.http(), post("k", "{}")).await.into_body();
        assert_eq!(next(&mut body).await.unwrap().unwrap(), LIMIT + 1);
        api.fail();
        let error = next(&mut body).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("the disk is gone"), "{error}");
        api.assert_done_without_answer().await;
    })
    .await;
}

#[tokio::test]
async fn one_that_ends_in_an_error_while_it_is_held_is_a_problem() {
    in_each_place(async |mut api: Api| {
        api.chunk(LIMIT / 2);
        api.fail();
        problem(&api.whole(post("k", "{}")).await, 500, "BodyBroken");
        api.assert_done_without_answer().await;
    })
    .await;
}

/// What a server sends of a body that breaks once its client has the beginning of it.
async fn sent(mut api: Api, router: Router) -> Vec<u8> {
    let server = listen(router).await;
    api.chunk(LIMIT + 1);
    let (mut connection, mut raw) = (client::begin(server, &post("k", "{}")).await, Vec::new());
    let begun =
        |raw: &[u8]| raw.windows(LIMIT + 1).any(|part| part.iter().all(|byte| *byte == b'x'));
    let beginning = async {
        while !begun(&raw) {
            connection.read_buf(&mut raw).await.expect("the server answers");
        }
    };
    patiently("the beginning of a body", beginning).await;
    api.fail();
    // The server may close the connection in either way.
    let _ = patiently("the end of a connection", connection.read_to_end(&mut raw)).await;
    let end = raw.windows(4).position(|window| window == b"\r\n\r\n").expect("the head ends");
    raw.split_off(end)
}

#[tokio::test]
async fn the_connection_is_broken_as_it_is_without_the_layer() {
    let bare = Api::new(Place::Layer).await;
    let router = bare.router();
    let without = sent(bare, router).await;
    let api = Api::new(Place::Layer).await;
    let router = api.router().layer(api.http().layer().unwrap());
    assert!(without.len() > LIMIT && !without.ends_with(b"0\r\n\r\n"), "it is not whole");
    assert_eq!(sent(api, router).await, without);
}

#[tokio::test]
async fn a_long_failure_goes_out_and_frees_its_key() {
    in_each_place(async |mut api: Api| {
        api.status = StatusCode::INTERNAL_SERVER_ERROR;
        api.chunk(LIMIT + 1);
        let response = api.send(api.http(), post("k", "{}")).await;
        assert_eq!(response.status(), api.status);
        assert_eq!(api.status().await.as_deref(), Some("RELEASED"));
        api.end();
        let body = patiently("a whole body", response.into_body().collect()).await.unwrap();
        assert_eq!(body.to_bytes().len(), LIMIT + 1);
        assert_eq!(api.whole(post("k", "{}")).await.body(), "run 2");
    })
    .await;
}

#[tokio::test]
async fn unless_it_is_chosen_an_answer_is_read_to_its_end_first() {
    in_each_place(async |api: Api| {
        api.chunk(LIMIT + 1);
        let sending = api.send(api.whole_http(), post("k", "{}"));
        let mut sending = std::pin::pin!(sending);
        assert!(futures::poll!(&mut sending).is_pending());
        let source = api.source.clone().unwrap();
        source.unbounded_send(Ok(Bytes::from_static(b"end"))).unwrap();
        source.close_channel();
        assert_eq!(sending.await.into_body().collect().await.unwrap().to_bytes().len(), LIMIT + 4);
        api.assert_done_without_answer().await;
    })
    .await;
}
