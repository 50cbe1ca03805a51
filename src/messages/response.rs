//! The response to Lambda for a batch.

use std::collections::{BTreeMap, HashSet};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::error::BatchError;

/// The partial batch response: the messages that must be delivered again.
///
/// It is serialized as `{"batchItemFailures": [{"itemIdentifier": "…"}]}`. It only has an effect if
/// the event source mapping has `FunctionResponseTypes: [ReportBatchItemFailures]`.
///
/// ```
/// use dynamodb_idempotency::messages::BatchResponse;
///
/// let response = BatchResponse::default();
/// assert_eq!(response.batch_item_failures, []);
/// assert_eq!(serde_json::json!(response), serde_json::json!({"batchItemFailures": []}));
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BatchResponse {
    /// The messages that failed, were in progress elsewhere, or did not run. For a stream, only the
    /// first of them.
    #[serde(serialize_with = "named")]
    pub batch_item_failures: Vec<ItemIdentifier>,
    /// The state of a tumbling window, unchanged from the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<Box<RawValue>>,
}

fn named<S: Serializer>(items: &[ItemIdentifier], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(items.iter().map(|item| BTreeMap::from([("itemIdentifier", item)])))
}

/// The identifier of a message in its batch.
///
/// ```
/// use dynamodb_idempotency::messages::ItemIdentifier;
///
/// let record = ItemIdentifier::Kafka { partition: "orders-0".to_owned(), offset: 7 };
/// assert_eq!(record.to_string(), "orders-0-7");
/// ```
#[derive(Clone, Debug, derive_more::Display, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ItemIdentifier {
    /// SQS: the `messageId`. Kinesis and DynamoDB Streams: the sequence number.
    Id(String),
    /// Kafka: the partition and the offset.
    #[display("{partition}-{offset}")]
    Kafka {
        /// The topic and the number of its partition, joined with `-`: `orders-0`.
        partition: String,
        /// The record's offset.
        offset: i64,
    },
}

/// How a source accepts reports of failures.
#[derive(Clone, Copy)]
pub(super) enum Reporting {
    /// Each message that is not done.
    Items,
    /// Like `Items` after [`report_each()`](super::Consumer::report_each). Without that call, like `Event`.
    /// Only Kafka's provisioned pollers with `ReportBatchItemFailures` read partial responses. Other
    /// pollers treat every response as success.
    ItemsIfAsked,
    /// The first message that is not done; the source delivers it and all later ones again.
    First,
    /// An error for the whole event; the source delivers all of it again.
    Event,
}

/// Creates the response from the messages that are not done, in order. `None` is a message without
/// an identifier.
pub(super) fn report(
    reporting: Reporting,
    mut failed: Vec<Option<ItemIdentifier>>,
    total: usize,
    state: Option<Box<RawValue>>,
) -> Result<BatchResponse, BatchError> {
    let (count, mut seen) = (failed.len(), HashSet::new());
    match reporting {
        Reporting::Event | Reporting::ItemsIfAsked if count > 0 => {
            return Err(BatchError::Failed { failed: count, total });
        }
        Reporting::First => failed.truncate(1),
        Reporting::Items | Reporting::Event | Reporting::ItemsIfAsked => {}
    }
    // Lambda treats an empty or unknown identifier as a failure of the whole batch. A message that the
    // response cannot name would be lost. So the invocation fails, and the whole batch is delivered again.
    if failed.contains(&None) {
        return Err(BatchError::Nameless { failed: count, total });
    }
    failed.retain(|item| seen.insert(item.clone()));
    Ok(BatchResponse { batch_item_failures: failed.into_iter().flatten().collect(), state })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: &str) -> ItemIdentifier {
        ItemIdentifier::Id(id.to_owned())
    }

    fn json(response: Result<BatchResponse, BatchError>) -> String {
        serde_json::to_string(&response.unwrap()).unwrap()
    }

    #[test]
    fn the_response_has_the_names_that_lambda_reads() {
        assert_eq!(
            json(report(Reporting::Items, [id("a"), id("b"), id("a")].map(Some).into(), 4, None)),
            r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"b"}]}"#
        );
        let kafka = ItemIdentifier::Kafka { partition: "orders-0".into(), offset: 7 };
        assert_eq!(
            json(report(Reporting::Items, vec![Some(kafka)], 4, None)),
            r#"{"batchItemFailures":[{"itemIdentifier":{"partition":"orders-0","offset":7}}]}"#
        );
        assert_eq!(json(report(Reporting::Event, vec![], 4, None)), r#"{"batchItemFailures":[]}"#);
    }

    #[test]
    fn a_stream_gets_the_first_failure_and_its_state() {
        let state = RawValue::from_string(r#"{"count":1.0}"#.into()).unwrap();
        assert_eq!(
            json(report(Reporting::First, vec![Some(id("5")), None], 4, Some(state))),
            r#"{"batchItemFailures":[{"itemIdentifier":"5"}],"state":{"count":1.0}}"#
        );
    }

    #[test]
    fn a_failure_that_cannot_be_named_fails_the_whole_batch() {
        let nameless = report(Reporting::Items, vec![Some(id("a")), None], 2, None);
        assert!(matches!(nameless, Err(BatchError::Nameless { failed: 2, total: 2 })));
        let event = report(Reporting::Event, vec![Some(id("a"))], 2, None);
        assert!(matches!(event, Err(BatchError::Failed { failed: 1, total: 2 })));
    }
}
