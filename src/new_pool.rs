//! An HTTP client that does not wait for every dead connection of its pool.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::{ConfigBag, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;

use crate::clock::Waiting;

/// How long a request waits for the headers of its response before its connection counts as dead. A
/// request that ends sooner says nothing about it: callers drop requests too.
const DEAD_AFTER: Duration = Duration::from_secs(1);

/// Uses another pool after a request without a response.
///
/// A connection that a NAT gateway has forgotten looks open until a request on it gets no response. The
/// SDK drops that connection, but the pool can hold many more of them, and each would cost a try.
#[derive(Clone, Debug)]
pub(crate) struct NewPoolAfterSilence {
    /// Creates a client with an empty pool.
    new: fn() -> SharedHttpClient,
    pool: Arc<Mutex<Pool>>,
}

#[derive(Clone, Debug)]
struct Pool {
    number: u64,
    client: SharedHttpClient,
}

impl NewPoolAfterSilence {
    pub(crate) fn new(new: fn() -> SharedHttpClient) -> Self {
        Self { new, pool: Arc::new(Mutex::new(Pool { number: 0, client: new() })) }
    }

    fn pool(&self) -> Pool {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the pool, unless another request has replaced it. Requests in flight keep their
    /// connections.
    fn replace(&self, number: u64) {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.number == number {
            *pool = Pool { number: number.wrapping_add(1), client: (self.new)() };
        }
    }
}

impl HttpClient for NewPoolAfterSilence {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let Pool { number, client } = self.pool();
        let inner = client.http_connector(settings, components);
        SharedHttpConnector::new(Connector { inner, number, pools: self.clone() })
    }

    fn validate_base_client_config(
        &self,
        components: &RuntimeComponentsBuilder,
        config: &ConfigBag,
    ) -> Result<(), BoxError> {
        self.pool().client.validate_base_client_config(components, config)
    }

    fn validate_final_config(
        &self,
        components: &RuntimeComponents,
        config: &ConfigBag,
    ) -> Result<(), BoxError> {
        self.pool().client.validate_final_config(components, config)
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.pool().client.connector_metadata()
    }
}

/// The connector of one request.
#[derive(Debug)]
struct Connector {
    inner: SharedHttpConnector,
    number: u64,
    pools: NewPoolAfterSilence,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let mut silence = Silence {
            waiting: Some(Waiting::begin()),
            number: self.number,
            pools: self.pools.clone(),
        };
        let response = self.inner.call(request);
        HttpConnectorFuture::new(async move {
            let response = response.await;
            silence.waiting.take_if(|_| response.is_ok());
            response
        })
    }
}

/// Replaces the pool when it is dropped, if the request got no response for too long: the SDK and the
/// crate end such a request by dropping it.
struct Silence {
    waiting: Option<Waiting>,
    number: u64,
    pools: NewPoolAfterSilence,
}

impl Drop for Silence {
    fn drop(&mut self) {
        if self.waiting.as_ref().is_some_and(|waiting| waiting.so_far() >= DEAD_AFTER) {
            self.pools.replace(self.number);
        }
    }
}
