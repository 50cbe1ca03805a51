//! The three places that the crate must work in, behind one face.

use std::convert::Infallible;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use bytes::Bytes;
use dynamodb_idempotency::http::Http;
use http::{Request, Response};
use lambda_http::{Body, service_fn};
use tokio::net::TcpListener;

use super::client;
use super::event::{self, Kind};
use super::function::Function;
use super::message::{assert_same, is_replay, outcome};
use crate::support::gate::patiently;
use crate::support::made_up_time;
use crate::support::raw::{self, Item};
use crate::support::{Link, Runs, Store};

/// Where a handler is made idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Around a `service_fn`, under `dynamodb_idempotency::lambda::run` behind a REST API.
    Function,
    /// Around an axum `Router`, under `lambda_http::run` behind an HTTP API.
    Router,
    /// On a route of a server that listens on the loopback address.
    Server,
}

/// One place, with a separate scope in the table of the test.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) place: Place,
    pub(crate) store: Arc<Store>,
    /// The handler's connection to the table.
    pub(crate) link: Link,
    /// How often the handler ran.
    pub(crate) runs: Runs,
}

/// Each of the three places, around one table.
pub(crate) async fn everywhere() -> impl Iterator<Item = Site> {
    let store = Arc::new(Store::open().await);
    [Place::Function, Place::Router, Place::Server].into_iter().map(move |place| {
        // Shown where the test fails.
        println!("{place:?}");
        if place == Place::Server {
            made_up_time::end();
        }
        let (link, runs) = (Link::default(), Runs::default());
        Site { place, store: Arc::clone(&store), link, runs }
    })
}

impl Site {
    pub(crate) fn scope(&self) -> &'static str {
        match self.place {
            Place::Function => "function",
            Place::Router => "router",
            Place::Server => "listener",
        }
    }

    pub(crate) fn pk(&self, key: &str) -> String {
        format!("{}#{key}", self.scope())
    }

    /// The raw record of a key.
    pub(crate) async fn item(&self, key: &str) -> Option<Item> {
        self.store.item(&self.pk(key)).await
    }

    /// The status of a key's record.
    pub(crate) async fn status(&self, key: &str) -> Option<String> {
        self.item(key).await.map(|item| raw::status(&item).to_owned())
    }

    /// The defaults, on this site's connection and under its scope.
    pub(crate) fn http(&self) -> Http {
        self.store.over(&self.link).http(self.scope())
    }

    /// A handler that answers 201 and says which run it is.
    pub(crate) async fn paying(&self, http: Http) -> Api {
        self.answering(http, paid).await
    }

    /// A handler that answers by the number of the run.
    pub(crate) async fn answering(
        &self,
        http: Http,
        answer: impl Fn(u32) -> Response<Bytes> + Clone + Send + Sync + 'static,
    ) -> Api {
        let runs = self.runs.clone();
        self.serve(http, move |_| std::future::ready(answer(runs.add()))).await
    }

    /// Any handler; it has to count its own runs.
    pub(crate) async fn serve<H, Fut>(&self, http: Http, handler: H) -> Api
    where
        H: Fn(Request<Bytes>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response<Bytes>> + Send + 'static,
    {
        match self.place {
            Place::Function => Api::Lambda(Kind::Rest, function(http, handler)),
            Place::Router => {
                let router = Router::new().fallback(on_axum(handler));
                Api::Lambda(Kind::HttpApi, Function::under_lambda_http(http.wrap(router).unwrap()))
            }
            Place::Server => {
                let route = any(on_axum(handler));
                let router =
                    Router::new().route("/{*rest}", route).route_layer(http.layer().unwrap());
                Api::Server(listen(router).await)
            }
        }
    }
}

/// An idempotent handler, for its clients.
#[derive(Clone)]
pub(crate) enum Api {
    Lambda(Kind, Function),
    Server(SocketAddr),
}

impl Api {
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Response<Bytes> {
        match self {
            Self::Lambda(kind, function) => {
                event::response(&function.invoke(&kind.event(&request)).await)
            }
            Self::Server(address) => client::send(*address, &request).await,
        }
    }

    /// Sends requests one after the other. Each row is a name, the request and its
    /// [`outcome`].
    pub(crate) async fn check<N: Display, O: AsRef<str>>(
        &self,
        rows: impl IntoIterator<Item = (N, Request<Bytes>, O)>,
    ) {
        for (name, request, expected) in rows {
            assert_eq!(outcome(&self.send(request).await), expected.as_ref(), "{name}");
        }
    }

    /// Sends a request twice. Returns the first answer; the second must be its replay.
    pub(crate) async fn replayed(&self, request: Request<Bytes>) -> Response<Bytes> {
        let first = self.send(request.clone()).await;
        let repeat = self.send(request).await;
        assert!(!is_replay(&first) && is_replay(&repeat), "{first:?} {repeat:?}");
        assert_same(&first, &repeat);
        first
    }
}

/// 201 with a location and a JSON body, both with the number of the run.
pub(crate) fn paid(run: u32) -> Response<Bytes> {
    let response = Response::builder().status(201).header("content-type", "application/json");
    let response = response.header("location", format!("/payments/{run}"));
    response.body(format!(r#"{{"run":{run}}}"#).into()).expect("it is a response")
}

fn function<H, Fut>(http: Http, handler: H) -> Function
where
    H: Fn(Request<Bytes>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<Bytes>> + Send + 'static,
{
    Function::new(
        http.wrap(service_fn(move |request: lambda_http::Request| {
            let answering = handler(request.map(|body| Bytes::copy_from_slice(&body)));
            async move {
                let response = answering.await.map(|bytes| match String::from_utf8(bytes.into()) {
                    Ok(text) => Body::Text(text),
                    Err(error) => Body::Binary(error.into_bytes()),
                });
                Ok::<_, Infallible>(response)
            }
        }))
        .unwrap(),
    )
}

fn on_axum<H, Fut>(
    handler: H,
) -> impl Fn(axum::extract::Request) -> futures::future::BoxFuture<'static, axum::response::Response>
+ Clone
+ Send
+ Sync
+ 'static
where
    H: Fn(Request<Bytes>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<Bytes>> + Send + 'static,
{
    move |request| {
        let handler = handler.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.expect("a whole body");
            handler(Request::from_parts(head, body)).await.map(axum::body::Body::from)
        })
    }
}

/// Waits until a repeat on this link has found another owner and has read the record again.
pub(crate) async fn has_looked(link: &Link) {
    let looking = async {
        while link.wire.count("GetItem") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    patiently("a repeat's second look", looking).await;
}

/// Serves a router on a free port, as long as the test's runtime lives.
pub(crate) async fn listen(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async { axum::serve(listener, router).await });
    address
}
