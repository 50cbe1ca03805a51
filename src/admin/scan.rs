//! Reading the whole table, in parts side by side.

use super::record::pk;
use super::{Admin, StoredRecord};
use crate::error::Error;
use crate::key::RecordKey;
use crate::record::{Item, Status};
use crate::table::Part;

/// Which records a scan gives. It reads, and costs, all of them in any case.
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
#[derive(Clone, Debug)]
pub struct Cursor(Item);

/// What one request of a scan brought.
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
