//! Reading the whole table, in parts side by side.

use super::record::pk;
use super::{Admin, StoredRecord};
use crate::error::Error;
use crate::key::RecordKey;
use crate::record::{Item, Status};
use crate::table::Part;

/// Which records a scan gives. It reads, and costs, all of them in any case.
///
/// ```
/// # use dynamodb_idempotency::testing::Sandbox;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sandbox = Sandbox::start().await?;
/// # let idempotency = sandbox.idempotency();
/// # use std::time::Duration;
/// # let pending = sandbox.record("payments", "order-42");
/// # pending.pending(Duration::from_secs(30)).await?;
/// use dynamodb_idempotency::admin::Select;
///
/// sandbox.record("payments", "order-43").completed("re_1").await?;
/// let admin = idempotency.admin();
/// assert_eq!(admin.page(0, 1, Select::All, None).await?.records.len(), 2);
/// assert_eq!(admin.page(0, 1, Select::Pending, None).await?.records.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Select {
    /// Every one.
    #[default]
    All,
    /// Those of operations that have not ended.
    Pending,
}

/// Where a part of a scan goes on.
///
/// ```
/// # use dynamodb_idempotency::testing::Sandbox;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sandbox = Sandbox::start().await?;
/// # let idempotency = sandbox.idempotency();
/// # use std::time::Duration;
/// # let pending = sandbox.record("payments", "order-42");
/// # pending.pending(Duration::from_secs(30)).await?;
/// use dynamodb_idempotency::admin::{Cursor, Select};
///
/// let (mut after, mut records): (Option<Cursor>, _) = (None, 0);
/// loop {
///     let page = idempotency.admin().page(0, 1, Select::All, after).await?;
///     records += page.records.len();
///     after = page.next;
///     if after.is_none() {
///         break;
///     }
/// }
/// assert_eq!(records, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Cursor(Item);

/// What one request of a scan brought.
///
/// ```
/// # use dynamodb_idempotency::testing::Sandbox;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sandbox = Sandbox::start().await?;
/// # let idempotency = sandbox.idempotency();
/// # use std::time::Duration;
/// # let pending = sandbox.record("payments", "order-42");
/// # pending.pending(Duration::from_secs(30)).await?;
/// use dynamodb_idempotency::admin::{Page, Select};
///
/// let page: Page = idempotency.admin().page(0, 1, Select::All, None).await?;
/// assert_eq!((page.records.len(), page.scanned), (1, 1));
/// assert!(page.unreadable.is_empty() && page.next.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page {
    /// The records.
    pub records: Vec<StoredRecord>,
    /// Items that are no records of a layout that this version knows.
    pub unreadable: Vec<Unreadable>,
    /// Where this part goes on; `None` when it is read.
    pub next: Option<Cursor>,
    /// How many items were read, those that were not selected too.
    pub scanned: u64,
    /// The read units that it consumed; 0 where DynamoDB does not say.
    pub consumed: f64,
}

/// An item that is not understood.
///
/// ```
/// # use dynamodb_idempotency::testing::Sandbox;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sandbox = Sandbox::start().await?;
/// # let idempotency = sandbox.idempotency();
/// use aws_sdk_dynamodb::types::AttributeValue;
/// use dynamodb_idempotency::admin::Select;
///
/// let put = sandbox.client().put_item().table_name(sandbox.table());
/// put.item("pk", AttributeValue::S("somebody's".to_owned())).send().await?;
/// let page = idempotency.admin().page(0, 1, Select::All, None).await?;
/// assert_eq!(page.unreadable[0].pk.as_deref(), Some("somebody's"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unreadable {
    /// The value of its key attribute, where it has one that is a text.
    pub pk: Option<String>,
    /// Why, in words.
    pub reason: String,
}

impl Admin<'_> {
    /// How many items the table has; DynamoDB counts them about every six hours.
    ///
    /// ```
    /// # use dynamodb_idempotency::testing::Sandbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let sandbox = Sandbox::start().await?;
    /// # let idempotency = sandbox.idempotency();
    /// assert_eq!(idempotency.admin().approximate_items().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`page`](Self::page), with `dynamodb:DescribeTable` in the place of the scan.
    pub async fn approximate_items(&self) -> Result<u64, Error> {
        let table = self.table();
        let look = table.describe(table.request_timeout).await;
        let description = look.or_error(&table.name, "dynamodb:DescribeTable")?;
        Ok(description.item_count.and_then(|count| count.try_into().ok()).unwrap_or(0))
    }

    /// Reads one page, up to 1 MB, of part `part` of `parts` of the table: `after` is what the page
    /// before has as [`next`](Page::next), and `None` at first. Parts may be read side by side.
    ///
    /// Reads are eventually consistent: a record that was written less than a second ago may be
    /// missing. Of a table with a composite key, part 0 has all records.
    ///
    /// ```
    /// # use dynamodb_idempotency::testing::Sandbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let sandbox = Sandbox::start().await?;
    /// # let idempotency = sandbox.idempotency();
    /// # use std::time::Duration;
    /// # let pending = sandbox.record("payments", "order-42");
    /// # pending.pending(Duration::from_secs(30)).await?;
    /// use dynamodb_idempotency::admin::Select;
    ///
    /// let admin = idempotency.admin();
    /// let (left, right) = tokio::try_join!(
    ///     admin.page(0, 2, Select::All, None),
    ///     admin.page(1, 2, Select::All, None),
    /// )?;
    /// assert_eq!(left.records.len() + right.records.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) without a table, credentials or
    /// `dynamodb:Scan` (`dynamodb:Query` with a composite key), and for a part beyond `parts`;
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) when DynamoDB throttles or fails.
    pub async fn page(
        &self,
        part: u32,
        parts: u32,
        select: Select,
        after: Option<Cursor>,
    ) -> Result<Page, Error> {
        let table = self.table();
        let only = match select {
            Select::All => None,
            Select::Pending => Some(Status::Pending),
        };
        let part = Part { number: part, of: parts };
        let reply = table.scan(part, only, after.map(|Cursor(key)| key)).await;
        let now = table.clock.judging_time(reply.time, self.core.clock_tolerance);
        let read = reply.outcome.or_error(&table.name, table.scan_action())?;
        let mut page = Page {
            records: Vec::with_capacity(read.items.len()),
            unreadable: Vec::new(),
            next: read.next.map(Cursor),
            scanned: read.scanned,
            consumed: read.consumed,
        };
        for item in read.items {
            let pk = pk(&table.schema, &item).map(str::to_owned);
            if pk.as_deref().is_some_and(RecordKey::is_of_part) {
                continue;
            }
            match StoredRecord::read(self.core, item, now) {
                Ok(record) => page.records.push(record),
                Err(error) => page.unreadable.push(Unreadable { pk, reason: error.to_string() }),
            }
        }
        Ok(page)
    }
}
