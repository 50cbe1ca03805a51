//! Copies items of another table, for a restore.

use super::Admin;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind};
use crate::protocol::{Condition, State, Term};
use crate::store::WriteResult;
use crate::store::attribute;
use crate::store::key::RecordKey;
use crate::store::record::{Bound, Item, Record, item_bytes};
use crate::store::schema::TableSchema;

/// An item of [`Page::items`](super::Page::items): a record of any format, or an item that belongs to
/// one, such as a part of a large answer.
///
/// ```
/// # doc_examples::run(async |sandbox, idempotency| {
/// use dynamodb_idempotency::admin::{Select, SourceItem};
///
/// sandbox.record("payments", "order-42").completed("re_1").await?;
/// let page = idempotency.admin().page(0, 1, Select::RecordItems, None).await?;
/// let described = |item: &SourceItem| (item.pk().to_owned(), item.status().to_owned());
/// let items: Vec<_> = page.items.iter().map(described).collect();
/// assert_eq!(items, [("payments#order-42".to_owned(), "COMPLETED".to_owned())]);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct SourceItem {
    key: RecordKey,
    item: Item,
    content: Content,
    expires_at: Option<i64>,
    is_expired: bool,
}

/// What an item is.
#[derive(Clone, Debug)]
enum Content {
    Record(Box<Record>),
    /// A record of a newer version.
    Newer,
    /// Not a record of a known layout.
    Unreadable,
}

impl Content {
    fn of(schema: &TableSchema, item: Item) -> Self {
        match Record::decode(schema, item) {
            Ok(record) => Self::Record(Box::new(record)),
            Err(error) if error.kind() == ErrorKind::NewerRecord => Self::Newer,
            Err(_) => Self::Unreadable,
        }
    }

    fn status(&self) -> &'static str {
        match self {
            Self::Newer => "newer",
            Self::Unreadable => "unreadable",
            Self::Record(record) if record.meta.state == State::Released => "RELEASED",
            Self::Record(record) if record.fingerprint.is_blocker() => "BLOCKER",
            Self::Record(record) => record.meta.state.status().as_str(),
        }
    }
}

/// Whether a copy is written.
///
/// ```
/// use dynamodb_idempotency::admin::CopyMode;
///
/// let mode = CopyMode::DryRun;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMode {
    /// Writes the item.
    Write,
    /// Reads the target's item and reports what a copy would do now.
    DryRun,
}

/// The outcome of a copy in the target.
///
/// ```
/// # doc_examples::run(async |sandbox, idempotency| {
/// use dynamodb_idempotency::admin::{Copied, CopyMode, Select};
///
/// sandbox.record("payments", "order-42").completed("re_1").await?;
/// let admin = idempotency.admin();
/// let page = admin.page(0, 1, Select::RecordItems, None).await?;
/// // The source is the target here.
/// assert_eq!(admin.copy(&page.items[0], CopyMode::DryRun).await?, Copied::Same);
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The target had no item with this key.
    Copied,
    /// The target's item was replaced by the source's, which is further.
    Replaced,
    /// The target has an equal item. Also if a request that was sent twice has written it, unless a
    /// response has proved that the target had another item before.
    Same,
    /// The target has another item, which stays. The text is its [status](SourceItem::status).
    Kept(&'static str),
    /// The source's item is past its retention, so it was left out.
    Expired,
}

/// What to do with an item that the target has.
enum Decision {
    Replace(Condition),
    Keep(Copied),
}

/// How many times an item is sent whose target changes meanwhile, or does not respond.
const TRIES: u32 = 6;

impl SourceItem {
    pub(super) fn new(schema: &TableSchema, key: RecordKey, item: Item, now: Timestamp) -> Self {
        let expires_at = number(&item, schema.ttl_name());
        let has_ended = |end: i64| Timestamp::from_millis(end) < now;
        // As a record counts for a call, but for items of every format.
        let is_expired = expires_at.is_some_and(|end| has_ended(end.saturating_mul(1000)))
            && number(&item, attribute::LEASE_EXPIRES_AT).is_none_or(has_ended);
        let is_part = key.is_of_part();
        let content = if is_part { Content::Unreadable } else { Content::of(schema, item.clone()) };
        Self { key, item, content, expires_at, is_expired }
    }

    /// Returns the key in its stored form, `scope#key`.
    ///
    /// ```
    /// fn log(item: &dynamodb_idempotency::admin::SourceItem) {
    ///     println!("{}", item.pk());
    /// }
    /// ```
    #[must_use]
    pub fn pk(&self) -> &str {
        self.key.as_str()
    }

    /// Returns the status of a record; `BLOCKER` for a blocker, `PART` for an item that belongs to a
    /// record, `newer` for a record of a newer version, and `unreadable` for a damaged one.
    ///
    /// ```
    /// fn is_unfinished(item: &dynamodb_idempotency::admin::SourceItem) -> bool {
    ///     item.status() == "PENDING"
    /// }
    /// ```
    #[must_use]
    pub fn status(&self) -> &'static str {
        if self.key.is_of_part() { "PART" } else { self.content.status() }
    }

    /// Returns the write units that writing the item consumes.
    ///
    /// ```
    /// fn units(items: &[dynamodb_idempotency::admin::SourceItem]) -> u64 {
    ///     items.iter().map(|item| item.write_units()).sum()
    /// }
    /// ```
    #[must_use]
    pub fn write_units(&self) -> u64 {
        write_units(&self.item)
    }

    /// The condition of the first write.
    fn condition(&self) -> Condition {
        match self.expires_at {
            // The key identifies the content, so one that is kept longer replaces the other.
            Some(expires_at) if self.key.is_of_part() => {
                Condition::absent_or_expires_before(expires_at)
            }
            _ => Condition::absent(),
        }
    }

    /// Decides about a key that the target has.
    fn decide(&self, schema: &TableSchema, found: Item, now: Timestamp) -> Decision {
        if found == self.item {
            return Decision::Keep(Copied::Same);
        }
        if self.key.is_of_part() {
            return match (self.expires_at, number(&found, schema.ttl_name())) {
                (Some(ours), Some(theirs)) if theirs < ours => Decision::Replace(self.condition()),
                _ => Decision::Keep(Copied::Kept("PART")),
            };
        }
        let target = Content::of(schema, found);
        let kept = Decision::Keep(Copied::Kept(target.status()));
        let (Content::Record(source), Content::Record(target)) = (&self.content, target) else {
            return kept;
        };
        let counts_as_absent = target.meta.is_past_retention(now) && !is_running(&target, now);
        if !counts_as_absent && !is_further(source, &target, now) {
            return kept;
        }
        let expires_at = Term::ExpiresAt(target.meta.expires_at);
        Decision::Replace(Condition::unchanged(&target.meta.version()).and(expires_at))
    }
}

/// The write units that writing an item consumes, at most.
pub(super) fn write_units(item: &Item) -> u64 {
    (item_bytes(item, Bound::Upper) as u64).div_ceil(1024).max(1)
}

/// Whether the record has a live lease.
fn is_running(record: &Record, now: Timestamp) -> bool {
    match record.meta.state {
        State::Pending { lease_expires_at } => now <= lease_expires_at,
        State::Completed | State::Failed | State::Released => false,
    }
}

fn number(item: &Item, name: &str) -> Option<i64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// Whether the source's record is the later state of the operation.
///
/// 1. The source is finished, and the target's last attempt, which is not a later one, is not known to
///    be completed. The record was PENDING when the backup was made, for example.
/// 2. The source is a later attempt of one chain of takeovers.
///
/// A COMPLETED record is final, so only another one replaces it. A failure, after which a request may
/// run, replaces neither a blocker nor the record of an owner that is running, nor one that was released
/// by hand. A blocker says that the effect has happened, whatever the target knows of it.
fn is_further(source: &Record, target: &Record, now: Timestamp) -> bool {
    let (from, to) = (&source.meta, &target.meta);
    if source.fingerprint.is_blocker() {
        let is_blocked = target.fingerprint.is_blocker();
        return to.state != State::Completed && !is_running(target, now) && !is_blocked;
    }
    // The attempt of a FAILED record is only released by hand, which writes an id that no call has.
    let is_released_by_hand = to.state == State::Released
        && (from.attempt, from.created_at) == (to.attempt, to.created_at)
        && from.owner != to.owner;
    let is_protected =
        is_running(target, now) || is_released_by_hand || target.fingerprint.is_blocker();
    let is_later_attempt = from.attempt > to.attempt && from.created_at == to.created_at;
    let is_finished_first = match to.state {
        State::Pending { .. } | State::Released | State::Failed => to.attempt <= from.attempt,
        State::Completed => false,
    };
    match from.state {
        State::Completed => is_finished_first || is_later_attempt,
        _ if to.state == State::Completed || is_protected => false,
        State::Failed => is_finished_first || is_later_attempt,
        State::Pending { .. } | State::Released => is_later_attempt,
    }
}

impl Admin<'_> {
    /// Copies an item of another table with the same schema into this one.
    ///
    /// The item is copied as it is, with attributes of newer versions. It is put only if the target has
    /// no item with its key. An item that the target has is replaced, by compare-and-set, only if:
    ///
    /// - the source is COMPLETED or FAILED, and the target is PENDING, RELEASED or FAILED with no higher
    ///   attempt; or
    /// - the source has a higher attempt, and both have the same `created_at`;
    /// - the source is a [blocker](Self::block), and the target is PENDING without a live lease, RELEASED or FAILED;
    /// - the target has expired, which counts as absent; or
    /// - it is a part of an answer that expires earlier.
    ///
    /// A COMPLETED record is replaced only by another one. A record that is not COMPLETED replaces
    /// neither a blocker, nor a record with a live lease, nor one whose last attempt was released by hand.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::Idempotency;
    /// use dynamodb_idempotency::admin::{Copied, CopyMode, Select};
    ///
    /// sandbox.record("payments", "order-42").completed("re_1").await?;
    /// let restored = Idempotency::new(sandbox.client().clone(), "restored");
    /// restored.create_table().await?;
    /// let page = idempotency.admin().page(0, 1, Select::RecordItems, None).await?;
    /// for item in &page.items {
    ///     assert_eq!(restored.admin().copy(item, CopyMode::Write).await?, Copied::Copied);
    /// }
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::OutcomeUnknown`] if DynamoDB does not respond: a retry is safe. Other errors are
    /// those of every request.
    pub async fn copy(&self, source: &SourceItem, mode: CopyMode) -> Result<Copied, Error> {
        let table = self.table();
        if source.is_expired {
            return Ok(Copied::Expired);
        }
        if mode == CopyMode::DryRun {
            let Some(found) = table.read_same_key(&source.item).await? else {
                return Ok(Copied::Copied);
            };
            return Ok(match source.decide(&table.schema, found, table.clock.guess()) {
                Decision::Replace(_) => Copied::Replaced,
                Decision::Keep(kept) => kept,
            });
        }
        let (mut condition, mut result) = (source.condition(), Copied::Copied);
        // What a try has done whose response was lost, if it was applied.
        let mut in_doubt = None;
        // An equal item is ours only if a response has proved that the target had none or another before.
        let mut was_different = false;
        let mut failed = None;
        for _ in 0..TRIES {
            let reply = table.put_item(source.item.clone(), &condition).await;
            if reply.is_in_doubt {
                in_doubt = Some(result);
            }
            match reply.outcome {
                WriteResult::Applied => return Ok(result),
                WriteResult::Rejected(None) => {
                    was_different = true;
                    (condition, result) = (source.condition(), Copied::Copied);
                }
                WriteResult::Rejected(Some(found)) => {
                    let now = self.core.judging_time(reply.time)?;
                    match source.decide(&table.schema, found, now) {
                        Decision::Keep(Copied::Same) => {
                            let ours = in_doubt.filter(|_| was_different);
                            return Ok(ours.unwrap_or(Copied::Same));
                        }
                        Decision::Keep(kept) => return Ok(kept),
                        Decision::Replace(other) => {
                            was_different = true;
                            (condition, result) = (other, Copied::Replaced);
                        }
                    }
                }
                WriteResult::Unknown(error) => {
                    in_doubt = Some(result);
                    if failed.replace(error).is_some() {
                        break;
                    }
                }
                WriteResult::Conflict(error)
                | WriteResult::TokenUsed(error)
                | WriteResult::Invalid(error)
                | WriteResult::NotApplied(error) => return Err(error),
            }
        }
        let message = "it is unknown whether an item is copied: copy it again";
        let error = Error::new(ErrorKind::OutcomeUnknown, message);
        Err(match failed {
            Some(cause) => error.with_source(cause),
            None => error,
        })
    }
}
