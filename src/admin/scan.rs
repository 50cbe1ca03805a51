//! Reading the whole table, in parts side by side.

use std::fmt;
use std::str::FromStr;

use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::record::{pk, record_key};
use super::{Admin, Expired, StoredRecord};
use crate::clock::Timestamp;
use crate::dynamodb::{Only, Part};
use crate::engine::core::Core;
use crate::error::{Error, ErrorKind};
use crate::key::{RecordKey, Scope};
use crate::record::{Item, Status};

/// Which records a scan returns. It reads all of them in any case, and costs the same.
///
/// ```
/// # dynamodb_idempotency::testing::example(async |sandbox, idempotency| {
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
    /// Every one.
    #[default]
    All,
    /// Those of operations that have not ended.
    Pending,
    /// No records; but in [`Page::expired`] what has been expired for more than an hour, parts of
    /// large answers too.
    Expired,
}

/// The place at which a part of a scan continues. It can be kept as text, and another process can
/// continue the scan. It contains a key of the table, in base64.
///
/// ```
/// # dynamodb_idempotency::testing::example(async |sandbox, idempotency| {
/// use std::time::Duration;
///
/// use dynamodb_idempotency::admin::{Cursor, Select};
///
/// let pending = sandbox.record("payments", "order-42");
/// pending.pending(Duration::from_secs(30)).await?;
/// let (mut after, mut records): (Option<Cursor>, _) = (None, 0);
/// loop {
///     let page = idempotency.admin().page(0, 1, Select::All, after).await?;
///     records += page.records.len();
///     after = page.next;
///     let Some(next) = &after else { break };
///     after = Some(next.to_string().parse()?);
/// }
/// assert_eq!(records, 1);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Cursor(Item);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys of tables that fit the schema are texts.
        let texts = self.0.iter().filter_map(|(name, value)| Some((name, value.as_s().ok()?)));
        let mut texts: Vec<_> = texts.collect();
        texts.sort_unstable();
        let json = serde_json::to_string(&texts).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(json))
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let json = URL_SAFE_NO_PAD.decode(text).ok();
        let texts: Option<Vec<(String, String)>> =
            json.and_then(|json| serde_json::from_slice(&json).ok());
        let Some(texts) = texts.filter(|texts| !texts.is_empty()) else {
            let message = "this is not a place in a scan: use one that a scan has returned";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        };
        let values = texts.into_iter().map(|(name, text)| (name, AttributeValue::S(text)));
        Ok(Self(values.collect()))
    }
}

/// The result of one request of a scan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page {
    /// The records.
    pub records: Vec<StoredRecord>,
    /// Under [`Select::Expired`], what may be deleted: [`Admin::delete_expired`] does it.
    pub expired: Vec<Expired>,
    /// Items that are not records of a layout that this version knows.
    pub unreadable: Vec<Unreadable>,
    /// Where this part continues; `None` at its end.
    pub next: Option<Cursor>,
    /// How many items were read, with those that were not selected.
    pub scanned: u64,
    /// The read units that it consumed; 0 if DynamoDB does not say.
    pub consumed: f64,
}

/// An item that this version does not understand.
///
/// ```
/// # dynamodb_idempotency::testing::example(async |sandbox, idempotency| {
/// use aws_sdk_dynamodb::types::AttributeValue;
/// use dynamodb_idempotency::admin::Select;
///
/// let put = sandbox.client().put_item().table_name(sandbox.table());
/// put.item("pk", AttributeValue::S("somebody's".to_owned())).send().await?;
/// let page = idempotency.admin().page(0, 1, Select::All, None).await?;
/// assert_eq!(page.unreadable[0].pk.as_deref(), Some("somebody's"));
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unreadable {
    /// The value of its key attribute, if it has one that is a string.
    pub pk: Option<String>,
    /// Why, in words.
    pub reason: String,
}

/// How large a table is, as DynamoDB counts about every six hours.
///
/// ```
/// # dynamodb_idempotency::testing::example(async |_, idempotency| {
/// let size = idempotency.admin().approximate_size().await?;
/// assert_eq!((size.items, size.bytes, size.read_units()), (0, 0, 0));
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSize {
    /// Its items.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl TableSize {
    /// What reading all of it consumes: half a read unit for each 4 KB.
    #[must_use]
    pub const fn read_units(self) -> u64 {
        self.bytes.div_ceil(8 * 1024)
    }
}

impl Page {
    fn read(&mut self, core: &Core, item: Item, now: Timestamp) -> Result<(), Error> {
        if !pk(&core.table.schema, &item).is_some_and(RecordKey::is_of_part) {
            self.records.push(StoredRecord::read(core, item, now)?);
        }
        Ok(())
    }

    fn sweep(&mut self, core: &Core, item: Item, now: Timestamp) -> Result<(), Error> {
        let key = record_key(&core.table.schema, &item)?;
        self.expired.extend(core.table.long_expired(key, item, now)?.map(Expired));
        Ok(())
    }
}

impl<'a> Admin<'a> {
    /// Limits the scan to this scope and what is below it: [`page`](Self::page) leaves out the
    /// rest. In a table with a composite key, the rest is not read either; in others it is read and
    /// paid for.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, idempotency| {
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

    /// How large the table is, to know what reading it will take.
    ///
    /// # Errors
    /// As [`page`](Self::page), with `dynamodb:DescribeTable` instead of the scan.
    pub async fn approximate_size(&self) -> Result<TableSize, Error> {
        let table = self.table();
        let look = table.describe(table.request_timeout).await;
        let description = look.or_error(&table.name, "dynamodb:DescribeTable")?;
        let count = |count: Option<i64>| count.and_then(|it| it.try_into().ok()).unwrap_or(0);
        Ok(TableSize {
            items: count(description.item_count),
            bytes: count(description.table_size_bytes),
        })
    }

    /// Reads one page, up to 1 MB, of part `part` of `parts` of the table. `after` is
    /// [`next`](Page::next) of the page before, and `None` at first. Parts may be read side by
    /// side.
    ///
    /// Reads are eventually consistent: a record that was written less than a second ago may be
    /// missing. In a table with a composite key, part 0 has all records.
    ///
    /// ```
    /// # dynamodb_idempotency::testing::example(async |sandbox, idempotency| {
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
    /// [`ErrorKind::Configuration`] without a table, credentials or
    /// `dynamodb:Scan` (`dynamodb:Query` with a composite key), and for a part beyond `parts`;
    /// [`ErrorKind::Unavailable`] when DynamoDB throttles or fails.
    pub async fn page(
        &self,
        part: u32,
        parts: u32,
        select: Select,
        after: Option<Cursor>,
    ) -> Result<Page, Error> {
        let table = self.table();
        let status = match select {
            Select::All | Select::Expired => None,
            Select::Pending => Some(Status::Pending),
        };
        let only = Only { status, prefix: self.scope.map(Scope::as_str) };
        let part = Part { number: part, of: parts };
        let reply = table.scan(part, only, after.map(|Cursor(key)| key)).await;
        let now = table.clock.judging_time(reply.time, self.core.clock_tolerance);
        let read = reply.outcome.or_error(&table.name, table.scan_action())?;
        let mut page = Page {
            records: Vec::new(),
            expired: Vec::new(),
            unreadable: Vec::new(),
            next: read.next.map(Cursor),
            scanned: read.scanned,
            consumed: read.consumed,
        };
        for item in read.items {
            let pk = pk(&table.schema, &item).map(str::to_owned);
            if !self.has(pk.as_deref()) {
                continue;
            }
            let sorted = match select {
                Select::Expired => page.sweep(self.core, item, now),
                Select::All | Select::Pending => page.read(self.core, item, now),
            };
            if let Err(error) = sorted {
                page.unreadable.push(Unreadable { pk, reason: error.to_string() });
            }
        }
        Ok(page)
    }

    /// Whether a key is of the scope asked for, or below it: that it begins so is not enough.
    fn has(&self, pk: Option<&str>) -> bool {
        let Some(scope) = self.scope else { return true };
        let rest = pk.and_then(|pk| pk.strip_prefix(scope.as_str()));
        rest.is_some_and(|rest| rest.starts_with(['#', '/']))
    }
}
