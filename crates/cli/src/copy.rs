//! `idempotency copy`: first what belongs to records, then the records, so that no record is in the
//! target before its answer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use aws_sdk_dynamodb::types::{TableDescription, TableStatus};
use dynamodb_idempotency::admin::{Admin, Copied, CopyMode, Page, Select, SourceItem};
use dynamodb_idempotency::{ErrorKind, Idempotency};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::args::Scan;
use crate::describe;
use crate::estimate::{Estimate, TableSize};
use crate::failure::Failure;
use crate::progress::Pace;
use crate::release::agreed;
use crate::scan::{Next, Read, scan_after};
use crate::stuck::{self, LeftOut, document, report, text_of};
use crate::words::{count, plain, span};
use crate::{interrupt, output, table};

/// How many items a part of the scan writes at once.
const AT_ONCE: usize = 16;

/// How many keys of each kind are listed, for programs and for people. All are counted.
const MOST_LISTED: usize = 1000;
const MOST_PRINTED: usize = 20;

/// How often an item is written again after an error that passes, and how long the first pause is. Each
/// other pause is twice as long.
const RETRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) mode: CopyMode,
    /// Do not look at the items of the target.
    pub(crate) force: bool,
    pub(crate) yes: bool,
    pub(crate) max_write_units: u32,
    pub(crate) scan: Scan,
}

pub(crate) async fn run(
    from: &Idempotency,
    to: &Idempotency,
    options: &Options,
    json: bool,
) -> Result<ExitCode, Failure> {
    let is_dry = options.mode == CopyMode::DryRun;
    if json && !options.yes && !is_dry && !options.scan.estimate {
        return Err(Failure::Usage("--json cannot ask for consent: add --yes".to_owned()));
    }
    let (source, target) = check(from, to).await?;
    let size = TableSize::described(&source);
    let mut scan = options.scan.clone();
    scan.of = format!("{}\0{}", scan.of, describe::identity(&target));
    let names = (from.admin().table_name(), to.admin().table_name());
    if !options.force && !options.scan.estimate {
        look_at_target(to.admin()).await?;
    }
    if options.scan.estimate || (!is_dry && !options.yes) {
        estimate(size, options, names, json);
    }
    if options.scan.estimate {
        return Ok(ExitCode::SUCCESS);
    }
    let question = format!("Copy from `{}` to `{}`?", names.0, names.1);
    if !is_dry && !options.yes && !agreed(&[], &question).await? {
        let message = "the copy was not confirmed, so nothing was written";
        return Err(Failure::Refused(message.to_owned()));
    }
    let copy = Copy::new(to.admin(), options);
    // A place of the second scan means that the first one has reached its end.
    let is_second = scan.resume.as_ref().is_some_and(|place| !place.is_first_of_copy);
    let read = if is_second {
        copy.scan(from, &scan, Select::RecordItems).await?
    } else {
        let parts = copy.scan(from, &scan, Select::PartItems).await?;
        if parts.is_whole() {
            let rest = scan.without_place();
            copy.scan(from, &rest, Select::RecordItems).await?.after(&parts)
        } else {
            parts
        }
    };
    let (counts, left_out) = (copy.counts.into_inner(), copy.left_out.into_inner());
    if json {
        output::document(counts.document(&left_out, &read));
    } else {
        output::print(counts.text(names.1));
        output::line(text_of(&read));
    }
    report(&left_out, json);
    if counts.records.is_empty() {
        stuck::known_scope(from, &options.scan, &read).await?;
    }
    // A resumed copy does not know what was copied before.
    let is_all = read.is_whole() && options.scan.resume.is_none();
    read.end()?;
    if is_all {
        counts.not_nothing(&options.scan, names.0, left_out.others)?;
    }
    counts.no_damage(names)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses tables between which no record may be copied. Returns their descriptions.
async fn check(
    from: &Idempotency,
    to: &Idempotency,
) -> Result<(TableDescription, TableDescription), Failure> {
    let (source, target) = (describe::required(from).await?, describe::required(to).await?);
    let (one, other) = (from.admin().table_name(), to.admin().table_name());
    if source.table_arn == target.table_arn && source.table_name == target.table_name {
        let message = format!("`{one}` and `{other}` are the same table; nothing was written");
        return Err(Failure::Refused(message));
    }
    for (name, table) in [(one, &source), (other, &target)] {
        let (keys, expected) = from.admin().keys(table);
        if keys != expected {
            return Err(Failure::Refused(format!(
                "table `{name}` has the key {keys}, but both tables need {expected} (or describe \
                 their key by --partition-key or --composite-key); nothing was written"
            )));
        }
        if !matches!(table.table_status, Some(TableStatus::Active | TableStatus::Updating)) {
            let status = table.table_status.as_ref().map_or("in no state", TableStatus::as_str);
            return Err(Failure::Refused(format!(
                "table `{name}` is {status}; nothing was written: wait until it is ACTIVE"
            )));
        }
    }
    Ok((source, target))
}

/// How many items of the target are read, at most, and how many in a request.
const SAMPLED_ITEMS: u64 = 1000;
const SAMPLED_AT_ONCE: u32 = 200;

/// Refuses a target that has items, but none of this crate: it is the table of another program. DynamoDB
/// returns items in the order of their hashes, so the first ones are a sample.
async fn look_at_target(to: Admin<'_>) -> Result<(), Failure> {
    let (sampled, mut after, mut items) = (to.page_size(Some(SAMPLED_AT_ONCE)), None, 0);
    let table = to.table_name();
    loop {
        let page = match sampled.page(0, 1, Select::RecordItems, after.as_deref()).await {
            Ok(page) => page,
            // A missing permission, which the copy itself does not need.
            Err(error) if error.kind() == ErrorKind::Configuration => {
                output::remark(format_args!(
                    "it is not checked whether `{table}` belongs to another program: {error}"
                ));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        items += page.scanned;
        // The parts of answers are neither selected nor listed, and are of this crate.
        if page.scanned > page.unreadable.len() as u64 {
            return Ok(());
        }
        after = page.next;
        if after.is_none() || items >= SAMPLED_ITEMS {
            break;
        }
    }
    if items == 0 {
        return Ok(());
    }
    let items = count(items, "item that was read is", "items that were read are");
    Err(Failure::Refused(format!(
        "{items} of another program, and none of this crate, so `{table}` may be the wrong table; \
         nothing was written: look at the name after --to; --force copies to a table that both share"
    )))
}

/// Says how long a copy takes at most at the limits, by the size of the source.
fn estimate(size: TableSize, options: &Options, (from, to): (&str, &str), json: bool) {
    // Both scans read the table, strongly consistent, so each unit is 4 KB.
    let reads = Estimate::of(size, options.scan.max_units).times(4);
    let units = size.write_units();
    let seconds = units.checked_div(u64::from(options.max_write_units));
    if json {
        output::document(json!({
            "items": size.items,
            "read_units": reads.units(),
            "read_seconds": reads.seconds(),
            "write_units": units,
            "write_seconds": seconds,
        }));
        return;
    }
    let time = seconds.map_or("no limit of time".to_owned(), |it| span(Duration::from_secs(it)));
    output::line(format!("`{from}`: {reads}"));
    output::line(format!("`{to}`: at most {units} write units and {time}"));
}

/// A running copy.
struct Copy<'a> {
    to: Admin<'a>,
    mode: CopyMode,
    pace: Pace,
    counts: RefCell<Counts>,
    left_out: RefCell<LeftOut>,
}

impl<'a> Copy<'a> {
    fn new(to: Admin<'a>, options: &Options) -> Self {
        let counts = Counts { is_dry: options.mode == CopyMode::DryRun, ..Counts::default() };
        let (counts, left_out) = (RefCell::new(counts), RefCell::default());
        // A dry run reads the target.
        let units = match options.mode {
            CopyMode::Write => options.max_write_units,
            CopyMode::DryRun => options.scan.max_units,
        };
        Self { to, mode: options.mode, pace: Pace::new(units), counts, left_out }
    }

    async fn scan(
        &self,
        from: &Idempotency,
        options: &Scan,
        select: Select,
    ) -> Result<Read, Failure> {
        let work = async |page: &Page| -> Result<(), Failure> {
            for some in page.items.chunks(AT_ONCE) {
                self.copy(some).await?;
            }
            Ok(())
        };
        let done = || self.counts.borrow().line(select);
        scan_after(from, options, select, work, done, |page| {
            // Listed with those that are copied.
            for one in page.unreadable.iter().filter(|one| one.is_record) {
                self.counts.borrow_mut().source_damaged.add(one.pk.as_deref().unwrap_or_default());
            }
            self.left_out.borrow_mut().add(page.unreadable);
            Next::GoesOn
        })
        .await
    }

    /// Copies some items and counts them, also those that are copied when another one fails.
    async fn copy(&self, some: &[SourceItem]) -> Result<(), Failure> {
        self.pace.wait().await;
        if interrupt::has_come() {
            return Err(Failure::Interrupted);
        }
        let units: u64 = some.iter().map(SourceItem::write_units).sum();
        self.pace.wrote(units);
        let copied = join_all(some.iter().map(|item| self.copy_one(item))).await;
        let mut failed = None;
        for (item, copied) in some.iter().zip(copied) {
            match copied {
                Ok(copied) => self.counts.borrow_mut().add(item, copied),
                Err(failure) => failed = Some(failure.of_item(item.pk())),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn copy_one(&self, item: &SourceItem) -> Result<Copied, Failure> {
        let mut pause = FIRST_PAUSE;
        for retries_left in (0..=RETRIES).rev() {
            match self.to.copy(item, self.mode).await {
                Err(error) if error.is_retryable() && retries_left > 0 => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                copied => return Ok(copied?),
            }
        }
        Err(Failure::Other("a defect of this program: an item was not tried".to_owned()))
    }
}

/// The outcomes of some items.
#[derive(Debug, Default)]
struct Outcomes {
    /// By the status of the source.
    copied: BTreeMap<&'static str, u64>,
    replaced: u64,
    same: u64,
    /// By the status of the target.
    kept: BTreeMap<&'static str, u64>,
    expired: u64,
}

impl Outcomes {
    fn add(&mut self, status: &'static str, copied: Copied) {
        let count = match copied {
            Copied::Copied => self.copied.entry(status).or_default(),
            Copied::Replaced => &mut self.replaced,
            Copied::Same => &mut self.same,
            Copied::Kept(status) => self.kept.entry(status).or_default(),
            Copied::Expired => &mut self.expired,
        };
        *count += 1;
    }

    fn is_empty(&self) -> bool {
        self.copied.is_empty()
            && self.kept.is_empty()
            && self.replaced + self.same + self.expired == 0
    }

    fn document(&self) -> Value {
        let sum = |counts: &BTreeMap<_, u64>| counts.values().sum::<u64>();
        json!({
            "copied": sum(&self.copied),
            "copied_by_status": self.copied,
            "replaced": self.replaced,
            "same": self.same,
            "kept": sum(&self.kept),
            "kept_by_status": self.kept,
            "expired": self.expired,
        })
    }
}

/// The counts of a copy.
#[derive(Debug, Default)]
struct Counts {
    is_dry: bool,
    records: Outcomes,
    parts: Outcomes,
    write_units: u64,
    /// Of writes that DynamoDB rejected, by the size of the source's item, and that are billed.
    rejected_units: u64,
    /// Of the target's items that a dry run has read.
    target_reads: u64,
    /// Operations that were copied as PENDING.
    pending: Keys,
    replaced: Keys,
    /// The target's items that cannot be read, and stay.
    damaged: Keys,
    /// The source's items that have a record's key and cannot be read.
    source_damaged: Keys,
}

/// The first keys of a kind, and how many there are.
#[derive(Debug, Default)]
struct Keys {
    first: Vec<String>,
    number: u64,
}

impl Keys {
    fn add(&mut self, pk: &str) {
        self.number += 1;
        if self.first.len() < MOST_LISTED {
            self.first.push(pk.to_owned());
        }
    }

    const fn not_listed(&self) -> u64 {
        self.number - self.first.len() as u64
    }

    fn text(&self, most: usize) -> String {
        let first = self.first.iter().take(most);
        let mut lines: Vec<_> = first.map(|pk| plain(pk)).collect();
        let more = self.number - lines.len() as u64;
        if more > 0 {
            lines.push(format!("and {}", count(more, "other", "others")));
        }
        lines.join("\n")
    }
}

impl Counts {
    fn add(&mut self, item: &SourceItem, copied: Copied) {
        let status = item.status();
        if status == "unreadable" && copied != Copied::Expired {
            self.source_damaged.add(item.pk());
        }
        if matches!(copied, Copied::Copied | Copied::Replaced) {
            self.write_units += item.write_units();
            if status == "PENDING" {
                self.pending.add(item.pk());
            }
        }
        // Each of these was written in vain on the condition that the target has none.
        if matches!(copied, Copied::Replaced | Copied::Same | Copied::Kept(_)) && !self.is_dry {
            self.rejected_units += item.write_units();
        }
        match copied {
            Copied::Replaced if status != "PART" => self.replaced.add(item.pk()),
            Copied::Kept("unreadable") => self.damaged.add(item.pk()),
            Copied::Copied
            | Copied::Replaced
            | Copied::Same
            | Copied::Kept(_)
            | Copied::Expired => {}
        }
        self.target_reads += u64::from(self.is_dry && copied != Copied::Expired);
        let outcomes = if status == "PART" { &mut self.parts } else { &mut self.records };
        outcomes.add(status, copied);
    }

    /// Fails if one of the tables has items that cannot be read.
    fn no_damage(&self, (from, to): (&str, &str)) -> Result<(), Failure> {
        let mut messages = Vec::new();
        for (keys, table, what_to_do) in [
            (&self.damaged, to, "delete them (`aws dynamodb delete-item`), and copy again"),
            (&self.source_damaged, from, "look at each with `show --json`"),
        ] {
            if keys.number > 0 {
                let items = count(keys.number, "item", "items");
                messages.push(format!(
                    "{items} of table `{table}` cannot be read, and no request with their keys runs: \
                     {what_to_do}"
                ));
            }
        }
        if messages.is_empty() { Ok(()) } else { Err(Failure::Other(messages.join("; "))) }
    }

    /// Fails if a complete copy has found nothing of this crate, or no record of its scope: the source is
    /// the wrong table, or has lost its records.
    fn not_nothing(&self, scan: &Scan, from: &str, others: u64) -> Result<(), Failure> {
        let damaged = self.source_damaged.number;
        match scan.scope()? {
            _ if !self.records.is_empty() => Ok(()),
            Some(scope) if damaged == 0 => {
                let scope = plain(scope.as_str());
                Err(Failure::Absent(format!("table `{from}` has no record of scope `{scope}`")))
            }
            None if self.parts.is_empty() => {
                let is_empty = others + damaged == 0;
                let what = if is_empty { "no item" } else { "no item that is one of this crate" };
                Err(Failure::Refused(format!(
                    "table `{from}` has {what}; nothing was written: look at the name after --from, \
                     and whether it was restored from the right table"
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What the scan of these items has copied, for a line about its progress.
    fn line(&self, select: Select) -> String {
        let (scan, what, outcomes) = if select == Select::PartItems {
            ("first of two scans", "parts and items of steps", &self.parts)
        } else {
            ("second of two scans", "records", &self.records)
        };
        let number = outcomes.copied.values().sum::<u64>() + outcomes.replaced;
        let verb = if self.is_dry { "would be copied" } else { "copied" };
        format!("{scan}: {number} {what} {verb}")
    }

    fn document(&self, left_out: &LeftOut, read: &Read) -> Value {
        json!({
            "dry_run": self.is_dry,
            "records": self.records.document(),
            "parts": self.parts.document(),
            "other_items": left_out.others,
            "write_units": self.write_units,
            "rejected_write_units": self.rejected_units,
            "target_reads": self.target_reads,
            "pending": self.pending.first,
            "pending_not_listed": self.pending.not_listed(),
            "replaced": self.replaced.first,
            "replaced_not_listed": self.replaced.not_listed(),
            "damaged": self.damaged.first,
            "damaged_not_listed": self.damaged.not_listed(),
            "source_damaged": self.source_damaged.first,
            "source_damaged_not_listed": self.source_damaged.not_listed(),
            "read": document(read),
        })
    }

    fn text(&self, to: &str) -> String {
        let by_status = |counts: &BTreeMap<&str, u64>| {
            let sum: u64 = counts.values().sum();
            let each = counts.iter().map(|(status, number)| format!("{number} {status}"));
            let each: Vec<_> = each.collect();
            if sum == 0 { "0".to_owned() } else { format!("{sum}: {}", each.join(", ")) }
        };
        let records = &self.records;
        let parts = |parts: &Outcomes| {
            let written = parts.copied.values().sum::<u64>() + parts.replaced;
            let kept = parts.same + parts.kept.values().sum::<u64>();
            format!("{written} copied, {kept} were there, {} expired", parts.expired)
        };
        let mut fields = vec![
            ("copied", by_status(&records.copied)),
            ("replaced", records.replaced.to_string()),
            ("same", records.same.to_string()),
            ("kept", by_status(&records.kept)),
            ("expired", records.expired.to_string()),
            ("parts and items of steps", parts(&self.parts)),
            ("write units", self.write_units.to_string()),
        ];
        if self.is_dry {
            fields.push(("items read in target", self.target_reads.to_string()));
        } else if self.rejected_units > 0 {
            let units = format!("about {}, billed too", self.rejected_units);
            fields.push(("rejected writes", units));
        }
        for (name, keys) in [
            ("replaced keys", &self.replaced),
            ("unreadable in target", &self.damaged),
            ("unreadable in source", &self.source_damaged),
        ] {
            if keys.number > 0 {
                fields.push((name, keys.text(MOST_PRINTED)));
            }
        }
        if self.pending.number > 0 {
            let operations = count(self.pending.number, "operation", "operations");
            let stuck =
                format!("`idempotency --table {to} stuck` lists those whose lease has expired");
            let keys = self.pending.text(MOST_LISTED);
            fields.push(("PENDING", format!("{operations}; {stuck}\n{keys}")));
        }
        let dry = if self.is_dry { "nothing was written; a copy now would do this:\n" } else { "" };
        dry.to_owned() + &table::fields(&fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_unfinished_operations_than_are_listed_are_counted() {
        let mut counts = Counts::default();
        for number in 0..1003 {
            counts.pending.add(&format!("payments#{number}"));
        }
        let text = counts.text("restored");
        assert!(text.contains("1003 operations; `idempotency --table restored stuck`"), "{text}");
        assert!(text.contains("payments#999\n") && !text.contains("payments#1000"), "{text}");
        assert!(text.ends_with(" and 3 others\n"), "{text}");
    }

    #[test]
    fn a_line_about_the_progress_counts_what_its_scan_has_copied() {
        let mut counts = Counts::default();
        counts.records.add("COMPLETED", Copied::Copied);
        counts.records.add("PENDING", Copied::Replaced);
        counts.records.add("COMPLETED", Copied::Same);
        assert_eq!(
            counts.line(Select::PartItems),
            "first of two scans: 0 parts and items of steps copied"
        );
        assert_eq!(counts.line(Select::RecordItems), "second of two scans: 2 records copied");
    }
}
