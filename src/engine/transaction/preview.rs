//! What a transaction would be refused for, before what is dear is written for it.
//!
//! An answer's parts are in the table before the transaction that completes their record, and nothing
//! deletes them but TTL. So a client that can have a condition fail would have ten megabytes written as
//! often as it likes.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};

use super::{items, token};
use crate::dynamodb::{ItemsRefusal, Transacted};
use crate::engine::core::Core;
use crate::fingerprint::StoredFingerprint;
use crate::key::RecordKey;
use crate::protocol::{Form, Guard, Header, Write};
use crate::record::{Item, random_owner};

/// Asks by a transaction of the same items that never lands, because its record asks for an owner that
/// there is not. Its word counts where the record is the one that the transaction will ask for;
/// where it has none, the transaction itself finds out.
pub(super) async fn preview(
    core: &Core,
    of: (&RecordKey, &StoredFingerprint),
    record: &Header,
    items: &[TransactWriteItem],
    limit: Duration,
    is_expected: impl Fn(Option<Item>) -> bool,
) -> Option<ItemsRefusal> {
    if !items.iter().any(items::has_condition) {
        return None;
    }
    let nobody = random_owner().ok()?;
    let token = token(nobody, 0);
    let write = Write { form: Form::Transaction, guard: Guard::Held, record: record.clone() };
    let response = Some(AttributeValue::Null(true));
    let with = (items, token.as_str());
    let sent = core.table.transact(of, (&nobody, &write), response, with, limit).await;
    match sent.outcome {
        Transacted::Refused { record, items } => items.filter(|_| is_expected(record)),
        Transacted::Applied
        | Transacted::ItemsRefused(_)
        | Transacted::Conflict(_)
        | Transacted::TokenUsed(_)
        | Transacted::NotApplied(_)
        | Transacted::Unknown(_) => None,
    }
}
