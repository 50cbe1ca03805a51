//! Checks the caller's permissions on the table, with requests that change nothing.

use std::pin::Pin;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{AttributeValue, TableDescription};

use super::expression::{Change, Expression};
use super::request_error::{DynamoError, RequestError};
use super::{Consistency, Reply, Table};
use crate::error::{Error, ErrorKind};
use crate::protocol::Condition;
use crate::store::key::RecordKey;
use crate::store::record::{self, OwnerId};
use crate::store::schema::Attribute;

/// The result of a test request.
pub(crate) type Inspection<T> = Result<T, Obstacle>;

/// Why a test request has no result.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// DynamoDB denied the request, with this message.
    Denied(String),
    /// Another error. Its kind is [`ErrorKind::Configuration`] if the table is missing or has other
    /// keys, or if the credentials are missing.
    Failed(Error),
    /// No response.
    NoResponse(Error),
}

impl Obstacle {
    /// Whether every other request to the table would meet it too.
    pub(crate) fn is_general(&self) -> bool {
        match self {
            Self::NoResponse(_) => true,
            Self::Failed(error) => error.kind() == ErrorKind::Configuration,
            Self::Denied(_) => false,
        }
    }

    /// Returns the error. A denied request becomes one that names the action to allow.
    pub(crate) fn into_error(self, table: &str, action: &str) -> Error {
        match self {
            Self::Denied(message) => {
                let message =
                    format!("grant {action} on table `{table}` (DynamoDB says: {message})");
                Error::new(ErrorKind::Configuration, message)
            }
            Self::Failed(error) | Self::NoResponse(error) => error,
        }
    }
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
        self.inspect(Box::pin(request)).await.outcome.map(drop)
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
        let tried = match access {
            Access::Get => {
                let request = self.get_request(key, Consistency::Strong).send();
                self.send(Box::pin(request), limit).await.0.map(drop)
            }
            Access::Put => {
                let request = self.put_request(record::key_item(&self.schema, key), condition);
                self.send(Box::pin(request.send()), limit).await.0.map(drop)
            }
            Access::Update => {
                let mut change = Change::on(condition);
                change.set(Attribute::Format, AttributeValue::Null(true));
                let request = self.update_request(key, change);
                self.send(Box::pin(request.send()), limit).await.0.map(drop)
            }
        };
        match tried {
            // Permitted. The condition failed, as intended.
            Err(RequestError::NotExecuted(DynamoError::ConditionalCheckFailedException(_))) => {
                Ok(())
            }
            tried => tried.map_err(|error| self.obstacle(error)),
        }
    }

    /// Describes the schema's keys, in the format of [`keys_of`].
    pub(crate) fn expected_keys(&self) -> String {
        let keys = self.schema.key_names().zip(["HASH", "RANGE"]);
        let keys = keys.map(|(name, key_type)| format!("`{name}` ({key_type}, S)"));
        keys.collect::<Vec<_>>().join(" and ")
    }

    /// Sends a test request.
    pub(super) async fn inspect<T, E: Into<DynamoError>>(
        &self,
        request: Pin<Box<impl Future<Output = Result<T, SdkError<E>>>>>,
    ) -> Reply<Inspection<T>> {
        let (answer, seen) = self.send(request, self.request_timeout).await;
        Reply::new(answer.map_err(|error| self.obstacle(error)), seen.time)
    }

    fn obstacle(&self, error: RequestError) -> Obstacle {
        match error {
            RequestError::NotExecuted(error) if error.code() == Some("AccessDeniedException") => {
                Obstacle::Denied(error.message().unwrap_or("no detail").to_owned())
            }
            error if error.is_unknown() => Obstacle::NoResponse(error.explain(&self.name)),
            error => Obstacle::Failed(error.explain(&self.name)),
        }
    }
}

/// Describes the keys of a table.
pub(crate) fn keys_of(table: &TableDescription) -> String {
    let kind_of = |name: &str| {
        let mut definitions = table.attribute_definitions().iter();
        let definition = definitions.find(|definition| definition.attribute_name() == name);
        definition.map_or("?", |definition| definition.attribute_type().as_str())
    };
    let keys = table.key_schema().iter().map(|key| {
        let name = key.attribute_name();
        format!("`{name}` ({}, {})", key.key_type().as_str(), kind_of(name))
    });
    keys.collect::<Vec<_>>().join(" and ")
}
