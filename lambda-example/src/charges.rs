//! `POST /charges`: an effect in another company's system, outside of DynamoDB transactions.
//!
//! The card network is an API that honors idempotency keys, here items in the table of payments. A charge is
//! made in a step, with a derived key. If the function crashed, a hook looks the charge up under that key.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use dynamodb_idempotency::{Abandoned, Execution, Reconciled};
use lambda_http::http::StatusCode;
use lambda_http::http::header::CONTENT_TYPE;
use lambda_http::{Body, Error, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::charge::{Order, Source, random_id};

/// The label of the derived key. The network stores keys that contain it, so it must not change.
const LABEL: &str = "charge";

/// A charge as returned by the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NetworkCharge {
    /// The partition and sort key of the network's items.
    tenant: String,
    id: String,
    charge: String,
    amount: u64,
    currency: String,
    status: String,
}

/// The card network.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    client: Client,
    table: String,
}

impl Network {
    pub(crate) fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// Charges once per key, and returns the same charge for each repeat.
    async fn charge(&self, key: &str, order: &Order) -> Result<NetworkCharge, Error> {
        let declined = matches!(order.source, Source::Declined);
        let charge = NetworkCharge {
            tenant: "card-network".to_owned(),
            id: key.to_owned(),
            charge: random_id("ch")?,
            amount: order.amount,
            currency: order.currency.clone(),
            status: if declined { "declined" } else { "succeeded" }.to_owned(),
        };
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(serde_dynamo::to_item(&charge)?))
            .condition_expression("attribute_not_exists(id)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let put = put.send().await.map_err(aws_sdk_dynamodb::Error::from);
        let charge = match put {
            Ok(_) => charge,
            Err(aws_sdk_dynamodb::Error::ConditionalCheckFailedException(earlier)) => {
                serde_dynamo::from_item(earlier.item.unwrap_or_default())?
            }
            Err(error) => return Err(error.into()),
        };
        match order.source {
            Source::Slow => tokio::time::sleep(Duration::from_millis(1500)).await,
            Source::Stuck => std::future::pending().await,
            Source::Visa | Source::Declined | Source::ProcessingError | Source::Crash => {}
        }
        Ok(charge)
    }

    /// Returns the charge that was made with a key, if any.
    async fn find(&self, key: &str) -> Result<Option<NetworkCharge>, Error> {
        let get = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("tenant", AttributeValue::S("card-network".to_owned()))
            .key("id", AttributeValue::S(key.to_owned()))
            .consistent_read(true);
        Ok(get.send().await?.item.map(serde_dynamo::from_item).transpose()?)
    }
}

/// Charges an order. `tok_crash` panics in the first attempt, after the charge.
pub(crate) async fn create(
    network: &Network,
    execution: &Execution,
    order: &Order,
) -> Result<Response<Body>, Error> {
    let key = execution.derive_key(LABEL).uuid();
    let charge = execution.step("charge", network.charge(&key, order)).await?;
    let crashes = matches!(order.source, Source::Crash) && execution.attempt() == 1;
    assert!(!crashes, "tok_crash was asked for");
    Ok(answer(&charge)?.map(Body::from))
}

/// Decides how to continue a request whose function crashed. For routes other than `/charges` the network
/// has no charge, so the request runs again as without this hook.
pub(crate) async fn reconcile(
    network: Network,
    abandoned: Abandoned,
) -> Result<Reconciled<Response<String>, Response<String>>, Error> {
    Ok(match network.find(&abandoned.derive_key(LABEL).uuid()).await? {
        Some(charge) => Reconciled::Completed(answer(&charge)?),
        // The same key is sent again, so a charge that is still in flight is not made twice.
        None => Reconciled::Execute,
    })
}

/// The response, equal for the request that made the charge and for the one that found it.
fn answer(charge: &NetworkCharge) -> Result<Response<String>, Error> {
    let (status, body) = if charge.status == "succeeded" {
        let NetworkCharge { charge: id, amount, currency, status, .. } = charge;
        let body = json!({"id": id, "amount": amount, "currency": currency, "status": status});
        (StatusCode::CREATED, body)
    } else {
        let error = json!({"code": "card_declined", "attempt_id": charge.charge});
        (StatusCode::PAYMENT_REQUIRED, json!({"error": error}))
    };
    let response = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    Ok(response.body(body.to_string())?)
}
