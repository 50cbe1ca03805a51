//! The HTTP client and the credentials cache that the SDK created for a client. If the client's
//! configuration names none, a copy of the client would get new ones: other connections, and
//! credentials that are fetched again.
//!
//! The SDK has no API that returns them. But it asks each component of a call to validate the
//! others. This module adds a component that keeps the components that it receives and fails the
//! validation, so that the call ends at once. Nothing is sent, and the client's interceptors only see
//! the start of the call.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::config::{
    Builder, ConfigBag, HttpClient, ResolveCachedIdentity, RuntimeComponents, SharedHttpClient,
};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::identity::{IdentityFuture, SharedIdentityResolver};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use futures_util::FutureExt;

/// Returns the client's configuration with these components.
pub(super) fn named(client: &Client) -> Builder {
    let mut config = client.config().to_builder();
    let without_cache = capture(client, |call, probe| {
        call.set_identity_cache(probe);
    });
    if let Some(found) = without_cache {
        config.set_http_client(found.http_client());
        config.set_time_source(found.time_source());
    }
    let without_http_client = capture(client, |call, probe| {
        call.set_http_client(Some(SharedHttpClient::new(probe)));
    });
    if let Some(found) = without_http_client {
        config.set_identity_cache(found.identity_cache());
    }
    config
}

/// Returns the components of a call, except for the one that is replaced. `None` if the client lacks
/// one: its calls then report what is missing.
fn capture(
    client: &Client,
    replace: impl FnOnce(&mut Builder, ComponentProbe),
) -> Option<RuntimeComponents> {
    let probe = ComponentProbe::default();
    let mut call = Config::builder();
    replace(&mut call, probe.clone());
    // The call ends before it waits for anything, with this module's error or another one. It uses
    // a request that the crate sends anyway: a further one would add 30 KB to a function.
    let _ = client.get_item().customize().config_override(call).send().now_or_never();
    probe.0.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A component that keeps the components it validates, and then fails the validation.
#[derive(Clone, Debug, Default)]
struct ComponentProbe(Arc<Mutex<Option<RuntimeComponents>>>);

const NOT_A_CALL: &str = "this call only reads the client's components";

impl ComponentProbe {
    fn keep(&self, components: &RuntimeComponents) -> BoxError {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(components.clone());
        NOT_A_CALL.into()
    }
}

impl ResolveCachedIdentity for ComponentProbe {
    fn resolve_cached_identity<'a>(
        &'a self,
        _: SharedIdentityResolver,
        _: &'a RuntimeComponents,
        _: &'a ConfigBag,
    ) -> IdentityFuture<'a> {
        IdentityFuture::ready(Err(NOT_A_CALL.into()))
    }

    fn validate_final_config(
        &self,
        components: &RuntimeComponents,
        _: &ConfigBag,
    ) -> Result<(), BoxError> {
        Err(self.keep(components))
    }
}

impl HttpClient for ComponentProbe {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }

    fn validate_final_config(
        &self,
        components: &RuntimeComponents,
        _: &ConfigBag,
    ) -> Result<(), BoxError> {
        Err(self.keep(components))
    }
}

impl HttpConnector for ComponentProbe {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::ready(Err(ConnectorError::user(NOT_A_CALL.into())))
    }
}
