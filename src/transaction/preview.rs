//! What a transaction would be refused for, before what is dear is written for it.
//!
//! An answer's parts are in the table before the transaction that completes their record, and nothing
//! deletes them but TTL. So a client that can have a condition fail would have ten megabytes written as
//! often as it likes.

use std::time::Duration;

use aws_sdk_dynamodb::types::TransactWriteItem;

use super::reasons::{Refusal, refusal};
use super::{items, token};
use crate::idempotency::Core;
use crate::record::{Item, Owner};
use crate::table::{Guard, Sent, Transacted};

/// Asks by a transaction of the same items that never lands, because its record asks for an owner that
/// there is not. Its word counts where the record is the one that the transaction will ask for;
/// where it has none, the transaction itself finds out.
pub(super) async fn preview(
    core: &Core,
    record: Item,
    items: &[TransactWriteItem],
    limit: Duration,
    is_expected: impl Fn(Option<&Item>) -> bool,
) -> Option<Refusal> {
    // Without a record it would land.
    if core.table.is_disabled || !items.iter().any(items::has_condition) {
        return None;
    }
    let nobody = Owner::random().ok()?;
    let token = token(nobody.as_str(), 0);
    let guard = Guard::Never(&nobody);
    let Sent { outcome, .. } = core.table.transact(record, guard, items, &token, limit).await;
    match outcome {
        Transacted::Canceled(reasons) => refusal(reasons, is_expected),
        Transacted::Applied
        | Transacted::TokenUsed(_)
        | Transacted::Invalid(_)
        | Transacted::NotApplied(_)
        | Transacted::Unknown(_) => None,
    }
}
