//! Scans of the whole table, in concurrent parts.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::{Admin, Expired, SourceItem, StoredRecord};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind};
use crate::protocol::Status;
use crate::store::Consistency;
use crate::store::admin::{NoPage, ScanRequest};
use crate::store::attribute;
use crate::store::key::{RecordKey, Scope};
use crate::store::record::Item;

/// Which records a scan returns. All records are read and billed, whatever is selected.
///
/// ```
/// # doc_examples::run(async |sandbox, idempotency| {
/// use std::time::Duration;
///
/// use dynamodb_idempotency::admin::Select;
///
/// let pending = sandbox.record("payments", "order-42");
/// pending.pending(Duration::from_secs(30)).await?;
/// sandbox.record("payments", "order-43").completed("re_1").await?;
/// let admin = idempotency.admin();
/// assert_eq!(admin.page(0, 1, Select::All, None).await?.records.len(), 2);
/// assert_eq!(admin.page(0, 1, Select::Pending, None).await?.records.len(), 1);
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Select {
    /// All records.
    #[default]
    All,
    /// Records of operations that have not ended, and blockers.
    Pending,
    /// Records of failures that are kept.
    Failed,
    /// No records. Instead, [`Page::expired`] has the items that have been expired for more than an
    /// hour, including the parts of large answers.
    Expired,
    /// No records. Instead, [`Page::items`] has the crate's items that belong to a record but are none,
    /// such as the parts of large answers, in the whole table. Reads are strongly consistent.
    PartItems,
    /// No records. Instead, [`Page::items`] has the items that represent a record, of any format. Reads
    /// are strongly consistent.
    RecordItems,
}

/// The result of one request of a scan.
///
/// ```
/// # doc_examples::run(async |sandbox, idempotency| {
/// use dynamodb_idempotency::admin::{Page, Select};
///
/// sandbox.record("payments", "order-42").completed("re_1").await?;
/// let (mut records, mut after) = (0, None::<String>);
/// loop {
///     let page: Page = idempotency.admin().page(0, 1, Select::All, after.as_deref()).await?;
///     assert!(page.unreadable.is_empty());
///     records += page.records.len();
///     after = page.next;
///     if after.is_none() {
///         break;
///     }
/// }
/// assert_eq!(records, 1);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Page {
    /// The records.
    pub records: Vec<StoredRecord>,
    /// Under [`Select::Expired`], the items that [`Admin::delete_expired`] can delete.
    pub expired: Vec<Expired>,
    /// Under [`Select::PartItems`] and [`Select::RecordItems`], the items that [`Admin::copy`] can copy.
    pub items: Vec<SourceItem>,
    /// Items that are not records of a layout that this version knows.
    pub unreadable: Vec<Unreadable>,
    /// The position at which this part continues; `None` at its end. Another process can continue the
    /// scan from it. It contains a key of the table, in base64.
    pub next: Option<String>,
    /// The number of items read, including those that were not selected.
    pub scanned: u64,
    /// The consumed read units; 0 if DynamoDB does not report them.
    pub consumed: f64,
    /// The number of items after which the next page of this part should end, for
    /// [`Admin::page_size`]: the one that was asked for, or a smaller one if requests timed out.
    pub page_size: Option<u32>,
}

/// The size of the first page after one without a size has timed out. A page of 1 MB has at least
/// about twice as many records, unless their answers are large.
const FIRST_SMALLER_PAGE: u32 = 512;

/// An item that this version does not understand.
///
/// ```
/// # doc_examples::run(async |sandbox, idempotency| {
/// use aws_sdk_dynamodb::types::AttributeValue;
/// use dynamodb_idempotency::admin::Select;
///
/// let put = sandbox.client().put_item().table_name(sandbox.table());
/// put.item("pk", AttributeValue::S("another item".to_owned())).send().await?;
/// let page = idempotency.admin().page(0, 1, Select::All, None).await?;
/// assert_eq!(page.unreadable[0].pk.as_deref(), Some("another item"));
/// assert!(!page.unreadable[0].is_record);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unreadable {
    /// The value of its key attribute, if that is a string.
    pub pk: Option<String>,
    /// Whether its key has the form of a record's (the scope of an operation, `#` and a key), and it has at least one
    /// of the attributes `owner`, `attempt`, `fingerprint` and `format`. A request with this key fails. Other items are
    /// taken for those of other programs.
    pub is_record: bool,
    /// Whether a newer version wrote it.
    pub is_newer: bool,
    /// The reason, as a sentence.
    pub reason: String,
}

/// Encodes the position after this key as text.
fn position_after(key: &Item) -> String {
    // The key attributes of the schema are strings.
    let texts = key.iter().filter_map(|(name, value)| Some((name, value.as_s().ok()?)));
    let texts: BTreeMap<_, _> = texts.collect();
    URL_SAFE_NO_PAD.encode(json!(texts).to_string())
}

fn key_at_position(position: &str) -> Result<Item, Error> {
    let json = URL_SAFE_NO_PAD.decode(position).ok();
    let texts: Option<BTreeMap<String, String>> =
        json.and_then(|json| serde_json::from_slice(&json).ok());
    let Some(texts) = texts.filter(|texts| !texts.is_empty()) else {
        let message = "this is not a position in a scan: pass one that a scan has returned";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    };
    Ok(texts.into_iter().map(|(name, text)| (name, AttributeValue::S(text))).collect())
}

impl<'a> Admin<'a> {
    /// Limits scans to this scope and the scopes below it.
    ///
    /// [`page`](Self::page) leaves out the records of all other scopes. In a table with a composite key it
    /// does not read them either. In other tables it reads them, and they are billed.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::Scope;
    /// use dynamodb_idempotency::admin::Select;
    ///
    /// sandbox.record("payments", "order-42").completed("re_1").await?;
    /// sandbox.record("refunds", "order-42").completed("re_2").await?;
    /// let refunds = Scope::new("refunds");
    /// let page = idempotency.admin().within(&refunds).page(0, 1, Select::All, None).await?;
    /// assert_eq!((page.records.len(), page.records[0].scope.as_str()), (1, "refunds"));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn within(self, scope: &'a Scope) -> Self {
        Self { scope: Some(scope), ..self }
    }

    /// Ends each page of a scan after this number of items. By default a page ends after 1 MB.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::admin::Select;
    ///
    /// sandbox.record("payments", "order-42").completed("re_1").await?;
    /// sandbox.record("payments", "order-43").completed("re_2").await?;
    /// let page = idempotency.admin().page_size(Some(1)).page(0, 1, Select::All, None).await?;
    /// assert_eq!((page.records.len(), page.next.is_some()), (1, true));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn page_size(self, items: Option<u32>) -> Self {
        Self { page_size: items.map(|items| items.max(1)), ..self }
    }

    /// Reads one page, of up to 1 MB, from one part of the table.
    ///
    /// The table is divided into `parts` parts, and `part` is the number of one of them, from 0. `after` is
    /// [`next`](Page::next) of its previous page; `None` for its first page. Parts can be read concurrently.
    ///
    /// Reads are eventually consistent, unless `select` says otherwise: a record that was written less
    /// than a second ago may be missing. In a table with a composite key, part 0 contains all records.
    ///
    /// If there is no response within [`Builder::request_timeout`](crate::Builder::request_timeout), the
    /// page is requested again with half of the items, down to one.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use std::time::Duration;
    ///
    /// use dynamodb_idempotency::admin::Select;
    ///
    /// let pending = sandbox.record("payments", "order-42");
    /// pending.pending(Duration::from_secs(30)).await?;
    /// let admin = idempotency.admin();
    /// let (left, right) = tokio::try_join!(
    ///     admin.page(0, 2, Select::All, None),
    ///     admin.page(1, 2, Select::All, None),
    /// )?;
    /// assert_eq!(left.records.len() + right.records.len(), 1);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if the table, the credentials or the permission `dynamodb:Scan`
    /// (`dynamodb:Query` with a composite key) are missing, or if `part` is not below `parts`;
    /// [`ErrorKind::InvalidInput`] if `after` is not from a page; [`ErrorKind::Unavailable`] if
    /// DynamoDB throttles or fails.
    pub async fn page(
        &self,
        part: u32,
        parts: u32,
        select: Select,
        after: Option<&str>,
    ) -> Result<Page, Error> {
        let table = self.table();
        if part > 0 && table.schema.partition().is_some() {
            // Part 0 is a query of the only partition.
            return Ok(Page { page_size: self.page_size, ..Page::default() });
        }
        // Not "only of a status": a damaged record may have none.
        let without = match select {
            Select::All | Select::Expired | Select::PartItems | Select::RecordItems => None,
            Select::Pending => Some([Status::Completed, Status::Failed, Status::Released]),
            Select::Failed => Some([Status::Pending, Status::Completed, Status::Released]),
        };
        let consistency = match select {
            Select::All | Select::Pending | Select::Failed | Select::Expired => {
                Consistency::Eventual
            }
            Select::PartItems | Select::RecordItems => Consistency::Strong,
        };
        let prefix = self.scope.map(Scope::as_str);
        let after = after.map(key_at_position).transpose()?;
        let mut page_size = self.page_size;
        let (read, now) = loop {
            let request = ScanRequest {
                part: (part, parts),
                without,
                prefix,
                after: after.clone(),
                items_at_most: page_size,
                consistency,
            };
            let reply = table.scan(request).await;
            match reply.outcome {
                Ok(read) => break (read, self.core.judging_time(reply.time)?),
                Err(NoPage::TimedOut(_)) if page_size != Some(1) => {
                    page_size = Some(page_size.map_or(FIRST_SMALLER_PAGE, |items| items / 2));
                }
                Err(NoPage::TimedOut(error) | NoPage::Failed(error)) => return Err(error),
            }
        };
        let mut page = Page {
            next: read.next.as_ref().map(position_after),
            scanned: read.scanned,
            consumed: read.consumed,
            page_size,
            ..Page::default()
        };
        for item in read.items {
            self.add(&mut page, item, select, now);
        }
        Ok(page)
    }

    /// Adds an item to a page, if it is selected.
    fn add(&self, page: &mut Page, item: Item, select: Select, now: Timestamp) {
        let table = self.table();
        let pk = item.get(table.schema.key_name()).and_then(|pk| pk.as_s().ok()).cloned();
        let text = pk.as_deref().unwrap_or_default();
        // A common prefix is not enough.
        let is_within = |scope: &Scope| {
            let rest = text.strip_prefix(scope.as_str());
            rest.is_some_and(|rest| rest.starts_with(['#', '/']))
        };
        if !self.scope.is_none_or(is_within) {
            return;
        }
        let key = RecordKey::of_item(text);
        let own = [attribute::OWNER, attribute::ATTEMPT, attribute::FINGERPRINT, attribute::FORMAT];
        let found = own.into_iter().filter(|name| item.contains_key(*name)).count();
        // A copy leaves the items of other programs alone. A damaged record may lack one of these. No other
        // software has a key with a segment `%p`, and the item of a step has only a format.
        let least = if key.as_ref().is_some_and(RecordKey::is_of_part) { 1 } else { 2 };
        let is_ours = found >= least;
        let is_record = key.is_some() && found > 0;
        let result = match (key, select) {
            // Reported by the scan of records.
            (None, Select::PartItems) => return,
            (None, _) => Err(no_key(text)),
            (Some(key), Select::Expired) => {
                table.long_expired(key, item, now).map(|expired| page.expired.extend(expired))
            }
            (Some(key), Select::PartItems | Select::RecordItems) => {
                let is_selected = key.is_of_part() == (select == Select::PartItems);
                if is_selected && is_ours {
                    page.items.push(SourceItem::new(&table.schema, key, item, now));
                }
                if is_selected && !is_ours { Err(no_record(text)) } else { Ok(()) }
            }
            (Some(key), Select::All | Select::Pending | Select::Failed) if key.is_of_part() => {
                return;
            }
            (Some(key), Select::All | Select::Pending | Select::Failed) => {
                StoredRecord::read(self.core, key, item, now)
                    .map(|record| page.records.push(record))
            }
        };
        if let Err(error) = result {
            let is_newer = error.kind() == ErrorKind::NewerRecord;
            page.unreadable.push(Unreadable { pk, is_record, is_newer, reason: error.to_string() });
        }
    }
}

fn no_record(pk: &str) -> Error {
    let message = format!("the item `{pk}` lacks the attributes of a record, so it is not copied");
    Error::new(ErrorKind::UnknownRecord, message)
}

fn no_key(pk: &str) -> Error {
    let message =
        format!("the key `{pk}` is not of the form `scope#key`: the item is not a record");
    Error::new(ErrorKind::UnknownRecord, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_round_trips() {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let key = [("PK", "I"), ("SK", "payments#1")];
        let key: Item = key.map(|(name, value)| (name.to_owned(), text(value))).into();
        assert_eq!(key_at_position(&position_after(&key)).unwrap(), key);
    }

    #[test]
    fn an_invalid_position_is_rejected() {
        for wrong in ["", "!", "W10", "e30"] {
            assert_eq!(
                key_at_position(wrong).unwrap_err().kind(),
                ErrorKind::InvalidInput,
                "{wrong}"
            );
        }
    }
}
