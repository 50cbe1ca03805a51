//! A program's own requests and the crate's go over one connection, whichever way it makes the crate's
//! client: one TLS handshake, one reading of the root certificates.

use std::convert::Infallible;
use std::process::Command;
use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use dynamodb_idempotency::{Idempotency, TABLE_ENV, sdk_config_loader};
use http::Request;
use lambda_http::{Body, Response, Service, service_fn};
use one_pool::Store;
use tower::ServiceExt;

const TABLE: &str = "idempotency";

/// What the business asks of DynamoDB by its own client.
async fn business(client: &Client) {
    client.list_tables().send().await.expect("the store is there");
}

/// A first run and its replay, with requests of the business before, within and after.
async fn work(idempotency: &Idempotency, client: &Client) {
    business(client).await;
    idempotency.create_table().await.expect("the table can be made");
    for _ in 0..2 {
        let charge = idempotency.operation("charge").key("order-42").no_payload();
        let answer = charge.run(async |_| {
            business(client).await;
            Ok::<_, Infallible>("paid".to_owned())
        });
        assert_eq!(answer.await.expect("it runs"), "paid");
        business(client).await;
    }
}

#[tokio::test]
async fn through_new() {
    let store = Store::open().await.expect("a port is free");
    let client = Client::new(&store.config().load().await);
    work(&Idempotency::new(client.clone(), TABLE), &client).await;
    assert_eq!(store.connections(), 1);
}

/// What is open then serves the first request.
#[tokio::test]
async fn that_warming_up_opens() {
    let store = Store::open().await.expect("a port is free");
    let client = Client::new(&store.config().load().await);
    let idempotency = Idempotency::new(client.clone(), TABLE);
    idempotency.create_table().await.expect("the table can be made");
    let again = Idempotency::new(Client::new(&store.config().load().await), TABLE);
    again.warm().await.expect("the store is there");
    assert_eq!(store.connections(), 2);
    work(&again, &again.client().clone()).await;
    assert_eq!(store.connections(), 2);
}

/// With time-outs that are neither the SDK's nor those of the crate's own configuration.
#[tokio::test]
async fn through_builder_whatever_the_time_outs() {
    let store = Store::open().await.expect("a port is free");
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(7))
        .read_timeout(Duration::from_secs(8))
        .operation_attempt_timeout(Duration::from_secs(9));
    let config = store.config().timeout_config(timeouts.build()).load().await;
    let client = Client::new(&config);
    let idempotency = Idempotency::builder(client.clone(), TABLE)
        .request_timeout(Duration::from_secs(11))
        .build()
        .expect("the settings are right");
    work(&idempotency, &client).await;
    assert_eq!(store.connections(), 1);
}

/// Clients of one configuration share, as the crate's configuration promises.
#[tokio::test]
async fn through_clients_of_one_configuration() {
    let store = Store::open().await.expect("a port is free");
    let theirs = store.config().load().await;
    let config = sdk_config_loader()
        .region(theirs.region().cloned())
        .credentials_provider(theirs.credentials_provider().expect("it was given"))
        .endpoint_url(store.endpoint())
        .load()
        .await;
    work(&Idempotency::new(Client::new(&config), TABLE), &Client::new(&config)).await;
    assert_eq!(store.connections(), 1);
}

#[tokio::test]
async fn through_from_env() {
    let store = Store::open().await.expect("a port is free");
    let this = std::env::current_exe().expect("it runs");
    let mut child = Command::new(this);
    child
        .args(["--exact", "in_an_environment", "--ignored", "--nocapture"])
        .env(TABLE_ENV, TABLE)
        .env("AWS_ENDPOINT_URL_DYNAMODB", store.endpoint())
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test");
    let ended = tokio::task::spawn_blocking(move || child.status()).await.expect("it ends");
    assert!(ended.expect("it starts").success());
    assert_eq!(store.connections(), 1);
}

#[tokio::test]
#[ignore = "through_from_env runs it, in its own process"]
async fn in_an_environment() {
    let idempotency = Idempotency::from_env().await.expect("the environment is right");
    work(&idempotency, &idempotency.client().clone()).await;
}

#[tokio::test]
async fn through_axum() {
    async fn pay(State(client): State<Client>) -> &'static str {
        business(&client).await;
        "paid"
    }
    let store = Store::open().await.expect("a port is free");
    let client = Client::new(&store.config().load().await);
    business(&client).await;
    let idempotency = Idempotency::new(client.clone(), TABLE);
    idempotency.create_table().await.expect("the table can be made");
    let pay = post(pay).route_layer(idempotency.http("payments").layer().unwrap());
    let router = Router::new().route("/payments", pay).with_state(client);
    for _ in 0..2 {
        let request = Request::post("/payments").header("idempotency-key", "order-42");
        let request = request.body(axum::body::Body::empty()).expect("a request");
        let response = router.clone().oneshot(request).await.expect("it cannot fail");
        assert_eq!(response.status(), 200);
    }
    assert_eq!(store.connections(), 1);
}

#[tokio::test]
async fn through_a_lambda_service() {
    let store = Store::open().await.expect("a port is free");
    let client = Client::new(&store.config().load().await);
    business(&client).await;
    let idempotency = Idempotency::new(client.clone(), TABLE);
    idempotency.create_table().await.expect("the table can be made");
    let mut function = idempotency.http("payments").wrap(service_fn(|_: lambda_http::Request| {
        let client = client.clone();
        async move {
            business(&client).await;
            Ok::<_, Infallible>(Response::new(Body::from("paid")))
        }
    })).unwrap();
    for _ in 0..2 {
        let request = Request::post("/payments").header("idempotency-key", "order-42");
        let request = request.body(Body::Empty).expect("a request");
        function.call(request).await.expect("it cannot fail");
    }
    assert_eq!(store.connections(), 1);
}
