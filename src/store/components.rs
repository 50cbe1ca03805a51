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
    Builder, ConfigBag, HttpClient, ResolveCachedIdentity, RuntimeComponents,
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
    let (mut config, probe) = (client.config().to_builder(), ComponentProbe::default());
    // Two calls, because a call cannot show the component that the probe replaces.
    if let Some(found) = probe.capture(client, Config::builder().identity_cache(probe.clone())) {
        config.set_http_client(found.http_client());
        config.set_time_source(found.time_source());
    }
    if let Some(found) = probe.capture(client, Config::builder().http_client(probe.clone())) {
        config.set_identity_cache(found.identity_cache());
    }
    config
}

/// A component that keeps the components it validates, and then fails the validation.
#[derive(Clone, Debug, Default)]
struct ComponentProbe(Arc<Mutex<Option<RuntimeComponents>>>);

const NOT_A_CALL: &str = "this call only reads the client's components";

impl ComponentProbe {
    /// Returns the components of a call with this configuration, which contains the probe. `None` if the
    /// client lacks a component; its calls then report which one.
    fn capture(&self, client: &Client, call: Builder) -> Option<RuntimeComponents> {
        // The call ends before it waits for anything, with this module's error or another one. The
        // request is of a kind that the crate sends anyway: another kind would add 30 KB to a function.
        let _ = client.get_item().customize().config_override(call).send().now_or_never();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

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
