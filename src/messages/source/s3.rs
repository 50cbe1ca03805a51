//! Amazon S3 event notifications.

use aws_lambda_events::s3::S3EventRecord;
use serde_json::Value;

use super::{Batch, Body, Content, Incoming, Raw, Source, Split, Unreadable};
use crate::fingerprint::Fingerprint;
use crate::messages::error::BatchError;
use crate::messages::key::{Attributes, MessageKey};
use crate::messages::response::{BatchResponse, Reporting};
use crate::messages::settings::Order;

/// Amazon S3 event notifications: an asynchronous invocation, which Lambda retries as a whole.
#[derive(Clone, Copy, Debug)]
pub struct S3;

impl Source for S3 {
    type Record = S3EventRecord;
    type Response = ();
}

impl Split for S3 {
    const NAME: &'static str = "Amazon S3";
    const REPORTING: Reporting = Reporting::Event;
    const PARTIAL_BY_DEFAULT: bool = false;

    fn split(event: &str, _: Order) -> Result<Batch<Self>, BatchError> {
        Batch::of_records(event, incoming)
    }

    fn default_key() -> MessageKey<S3EventRecord> {
        MessageKey::broker_id()
    }

    fn respond(_: BatchResponse) {}
}

fn incoming(raw: &Raw<'_>) -> Incoming<S3EventRecord> {
    // Only the log is told of it: by what S3 calls the change, not by the name of the object.
    let item = raw.item("/responseElements/x-amz-request-id");
    Incoming { item, group: None, content: content(raw) }
}

fn content(raw: &Raw<'_>) -> Result<Content<S3EventRecord>, Unreadable> {
    let record: S3EventRecord = raw.read("/eventSource", "aws:s3", S3::NAME)?;
    let (bucket, object) = (&record.s3.bucket, &record.s3.object);
    // Neither a bucket's name nor a version nor what follows it has a `/`.
    let version = object.version_id.as_deref().unwrap_or_default();
    // Only events of writes and deletions have a sequencer; of others, the name and the time tell.
    let change = object.sequencer.clone().or_else(|| {
        let time = raw.tree.pointer("/eventTime").and_then(Value::as_str)?;
        Some(format!("{}@{time}", record.event_name.as_deref()?))
    });
    let broker_id = match (&bucket.name, &object.key, &change) {
        (Some(bucket), Some(key), Some(change)) => {
            Some(format!("{bucket}/{key}/{version}/{change}"))
        }
        _ => None,
    };
    // S3 may notify twice of one change, with other request ids.
    let of = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
    let fingerprint = Fingerprint::builder()
        .bytes(&of(&record.event_name))
        .bytes(&of(&bucket.name))
        .bytes(&of(&object.key))
        .bytes(version.as_bytes())
        .bytes(&of(&object.sequencer))
        .finish();
    let payload = raw.text.as_bytes().to_vec();
    let attributes = Attributes::default();
    Ok(Content { record, body: Body { payload, attributes, broker_id, fingerprint } })
}
