//! What a call can come to, with the crate and by hand.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use aws_sdk_dynamodb::Client;
use dynamodb_idempotency::lambda::LambdaResponse;
use dynamodb_idempotency::policy::{Compression, LargeAnswers};
use dynamodb_idempotency::{ErrorKind, Idempotency, Outcome, RunError};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use lambda_http::{Body, Request, Response, service_fn};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower_service::Service;

use crate::canned::Canned;
use crate::{order, raw};

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";

/// One call, ready to be polled.
pub type Work = Pin<Box<dyn Future<Output = Result<()>>>>;

/// Makes a call ready. What that takes does not count.
pub type Prepare = Box<dyn Fn() -> Work>;

/// One thing that a call can come to.
pub struct Case {
    /// What the tables call it.
    pub name: String,
    /// With the crate.
    pub ours: Prepare,
    /// As SDK calls.
    pub bare: Prepare,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A function's answer, and its request, of half a kilobyte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Receipt {
    id: String,
    amount: u64,
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    article: String,
    count: u32,
    price: u64,
}

impl Receipt {
    fn example() -> Self {
        let line = |n: u32| Line {
            article: format!("article number {n:04}"),
            count: n % 5,
            price: u64::from(n) * 25,
        };
        Self { id: KEY.to_owned(), amount: 25_000, lines: (0..8).map(line).collect() }
    }
}

/// All cases, in the order of the tables.
///
/// # Errors
/// When a call does not come to what it should.
pub async fn all() -> Result<Vec<Case>> {
    let mut cases = function(false).await?;
    cases.extend(function(true).await?);
    for (size, bytes) in [("0.5 KB", 512), ("10 KB", 10 * 1024), ("100 KB", 100 * 1024)] {
        cases.extend(http(size, bytes, Compression::Off).await?);
    }
    for (size, bytes) in [("10 KB by zstd", 10 * 1024), ("100 KB by zstd", 100 * 1024)] {
        cases.extend(http(size, bytes, Compression::Auto).await?);
    }
    Ok(cases)
}

/// The writes of a first run, with the crate and by hand, without what is random, hashed or a time.
///
/// # Errors
/// When a call does not come to what it should.
pub async fn first_runs() -> Result<[Vec<Value>; 2]> {
    let (client, ours) = Canned::applied().recorded();
    call(idempotency(client.client()), None, Expected::Executed).await?;
    let (client, bare) = Canned::applied().recorded();
    let client = client.client();
    raw::create(&client, &pk()).await?;
    let json = serde_json::to_string(&Receipt::example())?;
    raw::complete(&client, &pk(), raw::json_answer(json)).await?;
    Ok([ours, bare].map(|heard| {
        let mut requests = heard.take();
        for request in &mut requests {
            // The times go on with the monotonic clock.
            let parts = [
                "/Item/owner",
                "/Item/fingerprint",
                "/ExpressionAttributeValues/:is0",
                "/Item/created_at/N",
                "/Item/lease_expires_at/N",
                "/Item/completed_at/N",
                "/Item/expires_at/N",
            ];
            for part in parts {
                if let Some(part) = request.pointer_mut(part) {
                    *part = Value::Null;
                }
            }
        }
        requests
    }))
}

/// A function, with its request's fingerprint or without.
async fn function(with_payload: bool) -> Result<Vec<Case>> {
    let payload = with_payload.then(Receipt::example);
    let (client, heard) = Canned::applied().recorded();
    call(idempotency(client.client()), payload.clone(), Expected::Executed).await?;
    let [pending, completed] = items(heard.take())?;

    let named = |name: &str| {
        let suffix = if with_payload { ", payload of 0.5 KB" } else { "" };
        format!("{name}{suffix}")
    };
    let ours = |client: Client, expected| {
        let payload = payload.clone();
        prepare(idempotency(client), move |idempotency| {
            call(idempotency, payload.clone(), expected)
        })
    };
    let applied = Canned::applied().client();
    let replayed = Canned::refused(&completed).client();
    let mut cases = Vec::new();
    if !with_payload {
        // Where no repeat needs an answer, one write before the effect is enough.
        cases.push(Case {
            name: "first run; by hand one write".to_owned(),
            ours: ours(applied.clone(), Expected::Executed),
            bare: prepare(applied.clone(), |client| async move {
                raw::create(&client, &pk()).await.map_err(anyhow::Error::from)
            }),
        });
    }
    cases.extend([
        Case {
            name: named("first run"),
            ours: ours(applied.clone(), Expected::Executed),
            bare: prepare(applied, |client| {
                let answer = Receipt::example();
                async move {
                    raw::create(&client, &pk()).await?;
                    let json = serde_json::to_string(&answer)?;
                    raw::complete(&client, &pk(), raw::json_answer(json)).await
                }
            }),
        },
        Case {
            name: named("replay"),
            ours: ours(replayed.clone(), Expected::Replayed),
            bare: prepare(replayed.clone(), |client| async move {
                let json = raw::answer(raw::refused(&client, &pk()).await?, "json")?;
                let answer: Receipt = serde_json::from_str(&json)?;
                ensure!(answer.id == KEY, "the answer is lost");
                Ok(())
            }),
        },
    ]);
    let (name, client, expected) = if with_payload {
        ("mismatch", Canned::refused(&of_another_request(completed)).client(), Expected::Mismatch)
    } else {
        ("in progress", Canned::refused(&pending).client(), Expected::InProgress)
    };
    cases.push(Case {
        name: named(name),
        ours: ours(client.clone(), expected),
        bare: prepare(client, |client| async move {
            let item = raw::refused(&client, &pk()).await?;
            ensure!(item.contains_key("status"), "the record is lost");
            Ok(())
        }),
    });
    Ok(cases)
}

fn of_another_request(mut record: Value) -> Value {
    record["fingerprint"] = json!({ "B": "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" });
    record
}

/// What a call must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Executed,
    Replayed,
    Mismatch,
    InProgress,
}

fn idempotency(client: Client) -> Idempotency {
    Idempotency::new(client, "idempotency")
}

/// Request and answer are there before the call begins.
fn call(
    idempotency: Idempotency,
    payload: Option<Receipt>,
    expected: Expected,
) -> impl Future<Output = Result<()>> {
    let answer = Receipt::example();
    async move {
        let operation = idempotency.operation("payments").key(KEY);
        let operation = match &payload {
            Some(payload) => operation.payload(payload),
            None => operation.no_payload(),
        };
        let handler = async |_| Ok::<_, Infallible>(answer);
        let came_to = match operation.run_with_outcome(handler).await {
            Ok(Outcome::Executed(_)) => Expected::Executed,
            Ok(Outcome::Replayed(_)) => Expected::Replayed,
            Ok(other) => bail!("{other:?}"),
            Err(RunError::Idempotency(error)) => match error.kind() {
                ErrorKind::Mismatch => Expected::Mismatch,
                ErrorKind::InProgress { .. } => Expected::InProgress,
                _ => return Err(error.into()),
            },
            Err(RunError::Handler(never)) => match never {},
        };
        ensure!(came_to == expected, "{came_to:?} and not {expected:?}");
        Ok(())
    }
}

/// An HTTP request, and an answer, with a JSON body of about so many bytes. By hand nothing is
/// compressed; neither side stores an answer in parts.
async fn http(size: &str, bytes: usize, compression: Compression) -> Result<Vec<Case>> {
    let body = order::text(bytes);
    let applied = Canned::applied().client();
    let refused = refusing(&body, compression).await?;
    let refused_by_hand = refusing(&body, Compression::Off).await?;
    let ours = |client: &Client, replayed| {
        let body = body.clone();
        let service = service(client.clone(), compression, &body)?;
        let prepare: Prepare = Box::new(move || match exchange(&service, body.clone(), replayed) {
            Ok(exchange) => Box::pin(exchange),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        });
        anyhow::Ok(prepare)
    };
    let answer = body.clone();
    Ok(vec![
        Case {
            name: format!("HTTP first run, {size}"),
            ours: ours(&applied, false)?,
            bare: prepare(applied, move |client| {
                let answer = answer.clone();
                async move {
                    raw::create(&client, &pk()).await?;
                    let response = created(answer);
                    let Body::Text(text) = response.body() else { bail!("no text") };
                    raw::complete(&client, &pk(), raw::http_answer(text)).await
                }
            }),
        },
        Case {
            name: format!("HTTP replay, {size}"),
            ours: ours(&refused, true)?,
            bare: prepare(refused_by_hand, |client| async move {
                let body = raw::answer(raw::refused(&client, &pk()).await?, "body")?;
                let response = created(body);
                ensure!(response.status() == StatusCode::CREATED, "{}", response.status());
                Ok(())
            }),
        },
    ])
}

/// Refuses, for the sake of the record that a first run with this answer leaves.
async fn refusing(body: &str, compression: Compression) -> Result<Client> {
    let (client, heard) = Canned::applied().recorded();
    let service = service(client.client(), compression, body)?;
    exchange(&service, body.to_owned(), false)?.await?;
    let [_, completed] = items(heard.take())?;
    Ok(Canned::refused(&completed).client())
}

/// A payments API as a function has it, set up once.
fn service(
    client: Client,
    compression: Compression,
    answer: &str,
) -> Result<
    impl Service<Request, Response = LambdaResponse, Error = Infallible, Future: 'static>
    + Clone
    + 'static
    + use<>,
> {
    let answer: Arc<str> = answer.into();
    let handler = service_fn(move |_: Request| {
        let answer = Arc::clone(&answer);
        async move { Ok::<_, Infallible>(created(answer.to_string())) }
    });
    let idempotency = Idempotency::builder(client, "idempotency")
        .policy(|policy| policy.compression(compression).large_answers(LargeAnswers::InRecord))
        .build()?;
    Ok(idempotency.http("payments").wrap(handler)?)
}

/// The request is there before the exchange begins.
fn exchange<S>(
    service: &S,
    body: String,
    replayed: bool,
) -> Result<impl Future<Output = Result<()>> + use<S>>
where
    S: Service<Request, Response = LambdaResponse, Error = Infallible> + Clone,
{
    let request = http::Request::builder()
        .method("POST")
        .uri("https://api.example.com/payments")
        .header(CONTENT_TYPE, "application/json")
        .header("idempotency-key", KEY)
        .body(Body::Text(body))?;
    let mut service = service.clone();
    Ok(async move {
        let response = service.call(request).await.map(LambdaResponse::into_inner)?;
        ensure!(response.status() == StatusCode::CREATED, "{}", response.status());
        ensure!(response.headers().contains_key("idempotency-replayed") == replayed);
        Ok(())
    })
}

fn created(body: String) -> Response<Body> {
    let mut response = Response::new(Body::Text(body));
    *response.status_mut() = StatusCode::CREATED;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn prepare<T, F, Fut>(with: T, work: F) -> Prepare
where
    T: Clone + 'static,
    F: Fn(T) -> Fut + 'static,
    Fut: Future<Output = Result<()>> + 'static,
{
    Box::new(move || Box::pin(work(with.clone())))
}

fn pk() -> String {
    format!("payments#{KEY}")
}

/// The pending and the completed record of a first run.
fn items(requests: Vec<Value>) -> Result<[Value; 2]> {
    let items = requests.into_iter().map(|mut request| request["Item"].take());
    let items: Vec<Value> = items.collect();
    <[Value; 2]>::try_from(items).ok().context("a first run sends two requests")
}
