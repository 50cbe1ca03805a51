//! Checks the caller's permissions on the table, with requests that change nothing.

use aws_sdk_dynamodb::types::AttributeValue;

use super::expression::{Change, Expression};
use super::request_error::{DynamoError, RequestError};
use super::{Consistency, Table};
use crate::error::Error;
use crate::protocol::Condition;
use crate::store::attribute;
use crate::store::key::RecordKey;
use crate::store::record::{self, OwnerId};

/// The result of a test request.
pub(super) type Inspection<T> = Result<T, Obstacle>;

/// Why a test request has no result.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// DynamoDB denied the request, with this message.
    Denied(String),
    /// DynamoDB rejected this request for another reason, for example because it throttles.
    Failed(Error),
    /// Every request to the table would fail: [`Unavailable`](crate::ErrorKind::Unavailable) if DynamoDB does not
    /// respond or the credentials have lapsed, [`Configuration`](crate::ErrorKind::Configuration) if the table is missing or
    /// has other keys, or if the credentials are missing.
    General(Error),
}

/// A kind of request that calls send. IAM permits each kind separately.
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
        let (answer, _) = self.send(Box::pin(request), self.request_timeout).await;
        answer.map(drop).map_err(|error| self.obstacle(error))
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
                change.set(attribute::FORMAT, AttributeValue::Null(true));
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

    fn obstacle(&self, error: RequestError) -> Obstacle {
        if let Some(says) = error.denied() {
            return Obstacle::Denied(says);
        }
        let is_unknown = error.is_unknown();
        let error = error.explain(self.destination());
        if is_unknown || !error.is_outage() {
            Obstacle::General(error)
        } else {
            Obstacle::Failed(error)
        }
    }
}
