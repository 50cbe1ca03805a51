//! Amazon S3 event notifications: an asynchronous invocation, which Lambda retries as a whole.

use aws_lambda_events::s3::S3EventRecord;
use serde_json::Value;

use super::{Body, Incoming, Raw, Source, split_records};
use crate::fingerprint::Fingerprint;
use crate::messages::key::{Attributes, MessageKey};
use crate::messages::response::Reporting;

pub(in crate::messages) const SOURCE: Source<S3EventRecord> = Source {
    name: "Amazon S3",
    reporting: Reporting::Event,
    key: MessageKey::broker_id,
    split: |service, event, _| split_records(service, event, incoming),
};

fn incoming(raw: &Raw<'_>) -> Incoming<S3EventRecord> {
    let parsed = raw.read("/eventSource", "aws:s3").map(|record: S3EventRecord| {
        let (bucket, object) = (&record.s3.bucket, &record.s3.object);
        // Neither the bucket's name nor the version nor the sequencer contains a `/`.
        let version = object.version_id.as_deref().unwrap_or_default();
        // Only events of writes and deletions have a sequencer. Others are identified by name and
        // time.
        let change = object.sequencer.clone().or_else(|| {
            let time = raw.tree.pointer("/eventTime").and_then(Value::as_str)?;
            Some(format!("{}@{time}", record.event_name.as_deref()?))
        });
        let ids = bucket.name.as_ref().zip(object.key.as_ref()).zip(change);
        let broker_id =
            ids.map(|((bucket, key), change)| format!("{bucket}/{key}/{version}/{change}"));
        // S3 may notify twice of one change, with different request ids.
        let of = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
        let fingerprint = Fingerprint::builder()
            .bytes(&of(&record.event_name))
            .bytes(&of(&bucket.name))
            .bytes(&of(&object.key))
            .bytes(version.as_bytes())
            .bytes(&of(&object.sequencer))
            .finish();
        let (payload, attributes) = (raw.text.as_bytes().to_vec(), Attributes::default());
        (record, Body { payload, attributes, broker_id, fingerprint })
    });
    // Used in the log only: S3's request id instead of the object's name.
    let item = raw.item("/responseElements/x-amz-request-id");
    Incoming { item, group: None, parsed }
}
