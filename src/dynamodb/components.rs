//! The HTTP client and the cache of credentials that the SDK has made for a client. Where its
//! configuration names none, a copy of the client would get new ones: other connections, and
//! credentials fetched again.
//!
//! The SDK tells nobody of them, except what stands beside them in a call: it asks each part of a call
//! whether it fits the others. A part that says no is enough for the call to end there and then, with nothing
//! sent, before the interceptors of the client learn of more than its beginning.

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

/// The client's configuration, naming what the client has.
pub(super) fn named(client: &Client) -> Builder {
    let mut config = client.config().to_builder();
    let beside_the_cache = beside(client, |call, look| {
        call.set_identity_cache(look);
    });
    if let Some(found) = beside_the_cache {
        config.set_http_client(found.http_client());
        config.set_time_source(found.time_source());
    }
    let beside_the_http_client = beside(client, |call, look| {
        call.set_http_client(Some(SharedHttpClient::new(look)));
    });
    if let Some(found) = beside_the_http_client {
        config.set_identity_cache(found.identity_cache());
    }
    config
}

/// What a call of the client's has beside the part that is replaced. None if the client has not all that
/// a call needs: its calls will say what is missing.
fn beside(client: &Client, replace: impl FnOnce(&mut Builder, Look)) -> Option<RuntimeComponents> {
    let look = Look::default();
    let mut call = Config::builder();
    replace(&mut call, look.clone());
    // It has come to its end, by our own error or another one, before it would wait for anything. It is a
    // call that the crate has anyway: another one would be 30 KB more of a function.
    let _ = client.get_item().customize().config_override(call).send().now_or_never();
    look.0.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A part of a call that never fits, and keeps what it was to fit.
#[derive(Clone, Debug, Default)]
struct Look(Arc<Mutex<Option<RuntimeComponents>>>);

const NOT_A_CALL: &str = "this call is for looking at the client's components";

impl Look {
    fn keep(&self, components: &RuntimeComponents) -> BoxError {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(components.clone());
        NOT_A_CALL.into()
    }
}

impl ResolveCachedIdentity for Look {
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

impl HttpClient for Look {
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

impl HttpConnector for Look {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::ready(Err(ConnectorError::user(NOT_A_CALL.into())))
    }
}
