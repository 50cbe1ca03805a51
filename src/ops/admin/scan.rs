//! Scans of the whole table, in concurrent parts.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::{Admin, Expired, StoredRecord};
use crate::error::{Error, ErrorKind};
use crate::protocol::Status;
use crate::store::key::{RecordKey, Scope};
use crate::store::record::Item;
use crate::store::schema::Attribute;

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
    /// Records of operations that have not ended.
    Pending,
    /// No records. Instead, [`Page::expired`] has the items that have been expired for more than an
    /// hour, including the parts of large answers.
    Expired,
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
    /// Items that are not records of a layout that this version knows.
    pub unreadable: Vec<Unreadable>,
    /// The position at which this part continues; `None` at its end. Another process can continue the
    /// scan from it. It contains a key of the table, in base64.
    pub next: Option<String>,
    /// The number of items read, including those that were not selected.
    pub scanned: u64,
    /// The consumed read units; 0 if DynamoDB does not report them.
    pub consumed: f64,
}

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
    /// Whether it has the key, the owner and the format of this crate's items. Otherwise it belongs
    /// to another program.
    pub is_record: bool,
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

    /// Reads one page, of up to 1 MB, from one part of the table.
    ///
    /// The table is divided into `parts` parts, and `part` is the number of one of them, from 0. `after` is
    /// [`next`](Page::next) of its previous page; `None` for its first page. Parts can be read concurrently.
    ///
    /// Reads are eventually consistent: a record that was written less than a second ago may be
    /// missing. In a table with a composite key, part 0 contains all records.
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
        let status = match select {
            Select::All | Select::Expired => None,
            Select::Pending => Some(Status::Pending),
        };
        let prefix = self.scope.map(Scope::as_str);
        let after = after.map(key_at_position).transpose()?;
        let reply = table.scan((part, parts), (status, prefix), after).await;
        let read = reply.outcome?;
        let now = self.core.judging_time(reply.time)?;
        let mut page = Page {
            next: read.next.as_ref().map(position_after),
            scanned: read.scanned,
            consumed: read.consumed,
            ..Page::default()
        };
        for item in read.items {
            let pk = item.get(table.schema.key_name()).and_then(|pk| pk.as_s().ok()).cloned();
            let text = pk.as_deref().unwrap_or_default();
            // A common prefix is not enough.
            let is_within = |scope| {
                text.strip_prefix(scope).is_some_and(|rest: &str| rest.starts_with(['#', '/']))
            };
            if !prefix.is_none_or(is_within) {
                continue;
            }
            let key = RecordKey::of_item(text);
            let has = |attribute| item.contains_key(table.schema.name(attribute));
            let is_record = key.is_some() && has(Attribute::Owner) && has(Attribute::Format);
            let result = match (key, select) {
                (None, _) => Err(no_key(text)),
                (Some(key), Select::Expired) => {
                    table.long_expired(key, item, now).map(|expired| page.expired.extend(expired))
                }
                (Some(key), Select::All | Select::Pending) if key.is_of_part() => continue,
                (Some(key), Select::All | Select::Pending) => {
                    StoredRecord::read(self.core, key, item, now)
                        .map(|record| page.records.push(record))
                }
            };
            if let Err(error) = result {
                page.unreadable.push(Unreadable { pk, is_record, reason: error.to_string() });
            }
        }
        Ok(page)
    }
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
