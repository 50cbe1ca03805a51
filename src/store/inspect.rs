//! Checks the caller's permissions on the table, with requests that change nothing.

use std::error::Error as StdError;
use std::pin::Pin;
use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{AttributeValue, TableDescription};

use super::expression::{Change, Expression};
use super::observer::Observed;
use super::request_error::{self, RequestError};
use super::{Conditional, Consistency, Reply, Table};
use crate::error::{Error, ErrorKind};
use crate::protocol::Condition;
use crate::store::key::RecordKey;
use crate::store::record::{self, OwnerId};
use crate::store::schema::{Attribute, Keys};

/// The result of a test request.
#[derive(Debug)]
#[must_use]
pub(crate) enum Inspection<T> {
    /// The response.
    Answered(T),
    /// DynamoDB denied the request, with this message.
    Denied(String),
    /// The table is missing or has other keys, or the credentials are missing.
    Misconfigured(Error),
    /// Another error, such as throttling or an unsupported request.
    Failed(Error),
    /// No response.
    NoResponse(Error),
}

/// A request of calls that needs its own permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Get,
    Put,
    Update,
}

impl Access {
    pub(crate) const ALL: [Self; 3] = [Self::Get, Self::Put, Self::Update];

    /// The requests that answers in parts need.
    pub(crate) const OF_PARTS: [Self; 2] = [Self::Get, Self::Put];

    /// Its name in IAM policies.
    pub(crate) const fn action(self) -> &'static str {
        match self {
            Self::Get => "dynamodb:GetItem",
            Self::Put => "dynamodb:PutItem",
            Self::Update => "dynamodb:UpdateItem",
        }
    }
}

impl Table {
    /// Reads the item of a key, eventually consistent.
    pub(crate) async fn try_read(&self, key: &RecordKey) -> Inspection<()> {
        let request = self.get_request(key, Consistency::Eventual).send();
        self.inspect(Box::pin(request), self.request_timeout).await.map(drop)
    }

    /// Tries whether `access` is permitted, on a key that no record has. A write requires an owner
    /// that does not exist, so it never changes an item.
    pub(crate) async fn try_access(
        &self,
        access: Access,
        key: &RecordKey,
        random_owner: &OwnerId,
    ) -> Inspection<()> {
        let limit = self.request_timeout;
        let condition = Expression::of(&self.schema, &Condition::held_by(*random_owner));
        match access {
            Access::Get => {
                let request = self.get_request(key, Consistency::Strong).send();
                self.inspect(Box::pin(request), limit).await.map(drop)
            }
            Access::Put => {
                let item = record::key_item(&self.schema, key);
                let request = self.put_request(item, condition);
                let request = Box::pin(request.send());
                self.inspect(Box::pin(rejected_as_intended(request)), limit).await
            }
            Access::Update => {
                let mut change = Change::on(condition);
                change.set(Attribute::Format, AttributeValue::Null(true));
                let request = self.update_request(key, change);
                let request = Box::pin(request.send());
                self.inspect(Box::pin(rejected_as_intended(request)), limit).await
            }
        }
    }

    /// Describes the table's keys, and compares them with those of the schema: strings with these
    /// names.
    pub(crate) fn compare_keys(&self, table: &TableDescription) -> (String, bool) {
        let kind_of = |name: &str| {
            let mut definitions = table.attribute_definitions().iter();
            let definition = definitions.find(|definition| definition.attribute_name() == name);
            definition.map_or("?", |definition| definition.attribute_type().as_str())
        };
        let keys = table.key_schema().iter().map(|key| {
            let name = key.attribute_name();
            format!("`{name}` ({}, {})", key.key_type().as_str(), kind_of(name))
        });
        let keys = keys.collect::<Vec<_>>().join(" and ");
        let is_ours = keys == self.expected_keys();
        (keys, is_ours)
    }

    /// Describes the schema's keys, in the format of [`compare_keys`](Self::compare_keys).
    pub(crate) fn expected_keys(&self) -> String {
        match self.schema.keys() {
            Keys::Partition { name } => format!("`{name}` (HASH, S)"),
            Keys::Composite { partition, sort, .. } => {
                format!("`{partition}` (HASH, S) and `{sort}` (RANGE, S)")
            }
        }
    }

    pub(super) async fn inspect<O, E>(
        &self,
        request: Pin<Box<impl Future<Output = Result<O, SdkError<E>>>>>,
        limit: Duration,
    ) -> Inspection<O>
    where
        E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
    {
        self.inspect_timed(request, limit).await.outcome
    }

    /// Sends a test request and classifies the result.
    pub(super) async fn inspect_timed<O, E>(
        &self,
        request: Pin<Box<impl Future<Output = Result<O, SdkError<E>>>>>,
        limit: Duration,
    ) -> Reply<Inspection<O>>
    where
        E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
    {
        let limit = limit.min(self.request_timeout);
        let (answer, seen) = self.send(request, limit).await;
        let outcome = match answer {
            Some(Ok(output)) => Inspection::Answered(output),
            Some(Err(error)) => self.classify(error, &seen),
            None => Inspection::NoResponse(request_error::timed_out(limit)),
        };
        Reply::new(outcome, seen.time)
    }

    fn classify<O, E>(&self, error: SdkError<E>, seen: &Observed) -> Inspection<O>
    where
        E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
    {
        if error.code() == Some("AccessDeniedException") {
            return Inspection::Denied(error.message().unwrap_or("no detail").to_owned());
        }
        match self.request_error(error, seen) {
            RequestError::Unknown(error) => Inspection::NoResponse(error),
            fault => match fault.into_error() {
                error if error.kind() == ErrorKind::Configuration => {
                    Inspection::Misconfigured(error)
                }
                error => Inspection::Failed(error),
            },
        }
    }
}

impl<T> Inspection<T> {
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Inspection<U> {
        match self {
            Self::Answered(seen) => Inspection::Answered(f(seen)),
            Self::Denied(message) => Inspection::Denied(message),
            Self::Misconfigured(error) => Inspection::Misconfigured(error),
            Self::Failed(error) => Inspection::Failed(error),
            Self::NoResponse(error) => Inspection::NoResponse(error),
        }
    }
}

/// The result of a write that was permitted and whose condition failed, as intended.
async fn rejected_as_intended<O, E: Conditional>(
    request: Pin<Box<impl Future<Output = Result<O, SdkError<E>>>>>,
) -> Result<(), SdkError<E>> {
    match request.await {
        Err(SdkError::ServiceError(context)) if context.err().is_rejected() => Ok(()),
        answer => answer.map(drop),
    }
}
