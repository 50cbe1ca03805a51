//! Operator tools: records as plain data, scans, releases of keys, and checks of permissions.
//!
//! The command line in `crates/cli/` is built on this module. Reading is strict: an item that is not a
//! record of a layout that this version knows is an error, and is never overwritten.
//!
//! ```
//! use dynamodb_idempotency::admin::Released;
//! use dynamodb_idempotency::policy::KeyForm;
//! use dynamodb_idempotency::{Error, Idempotency, Scope};
//!
//! async fn unstick(idempotency: &Idempotency) -> Result<(), Error> {
//!     let admin = idempotency.admin();
//!     let scope = Scope::new("payments");
//!     if let Some(record) = admin.record(&scope, "order-42", KeyForm::Verbatim).await? {
//!         println!("{}, attempt {}", record.status(), record.attempt);
//!         if record.dangers().is_empty() {
//!             // Releases exactly the record that was shown, or nothing.
//!             assert!(matches!(admin.release(&record).await?, Released::Released));
//!         }
//!     }
//!     Ok(())
//! }
//! ```

mod answer;
mod block;
mod copy;
mod json;
mod record;
mod release;
mod scan;
mod sweep;

pub use self::answer::StoredAnswer;
pub use self::block::Blocked;
pub use self::copy::{Copied, CopyMode, SourceItem};
#[doc(hidden)]
pub use self::record::SentNote;
pub use self::record::{Danger, StoredRecord, StoredState};
pub use self::release::Released;
pub use self::scan::{Page, Select, Unreadable};
pub use crate::store::Expired;

use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::TableDescription;

use crate::call::core::Core;
use crate::error::Error;
use crate::idempotency::Idempotency;
use crate::ops::preflight::check_scopes;
use crate::ops::preflight::finding::Finding;
use crate::store::create::{expected_keys, keys_of};
use crate::store::key::{KeyForm, RecordKey, Scope};
use crate::store::schema::TableSchema;
use crate::store::{Consistency, Table};

impl Idempotency {
    /// Returns the operator tools for the table.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// assert_eq!(idempotency.admin().table_name(), "idempotency");
    /// # Ok(()) });
    /// ```
    #[must_use]
    #[doc(hidden)]
    pub fn admin(&self) -> Admin<'_> {
        Admin { core: &self.core, scope: None, page_size: None }
    }
}

/// The operator tools for a table. [`Idempotency::admin`] creates this value.
///
/// ```
/// # doc_examples::run(async |sandbox, idempotency| {
/// use dynamodb_idempotency::admin::Admin;
/// use dynamodb_idempotency::policy::KeyForm;
/// use dynamodb_idempotency::{Error, Scope};
///
/// async fn attempts(admin: Admin<'_>, order: &str) -> Result<u32, Error> {
///     let record = admin.record(&Scope::new("payments"), order, KeyForm::Verbatim).await?;
///     Ok(record.map_or(0, |record| record.attempt))
/// }
/// sandbox.record("payments", "order-42").completed("re_1").await?;
/// assert_eq!(attempts(idempotency.admin(), "order-42").await?, 1);
/// assert_eq!(attempts(idempotency.admin(), "order-43").await?, 0);
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("Admin {{ table: {:?} }}", core.table.name)]
pub struct Admin<'a> {
    core: &'a Core,
    /// The scope that limits scans.
    scope: Option<&'a Scope>,
    /// The number of items after which a page of a scan ends.
    page_size: Option<u32>,
}

impl<'a> Admin<'a> {
    /// Reads the record of a key and its answer; `None` if the record does not exist.
    ///
    /// The read is strongly consistent, and includes the parts of the answer.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::policy::KeyForm;
    /// use dynamodb_idempotency::Scope;
    ///
    /// sandbox.record("payments", "order-42").completed("re_1").await?;
    /// let admin = idempotency.admin();
    /// let found = admin.record(&Scope::new("payments"), "order-42", KeyForm::Verbatim).await?;
    /// assert_eq!(found.expect("a record").status(), "COMPLETED");
    /// assert!(admin.record(&Scope::new("refunds"), "order-42", KeyForm::Verbatim).await?.is_none());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::UnknownRecord`](crate::ErrorKind::UnknownRecord) if the item is not a record of
    /// a layout that this version knows; [`InvalidInput`](crate::ErrorKind::InvalidInput) if the
    /// key is empty or too long; [`Configuration`](crate::ErrorKind::Configuration) and
    /// [`Unavailable`](crate::ErrorKind::Unavailable) as for all requests.
    pub async fn record(
        &self,
        scope: &Scope,
        key: &str,
        form: KeyForm,
    ) -> Result<Option<StoredRecord>, Error> {
        let table = self.table();
        let key = RecordKey::new(scope, key, form, table.schema.max_key_bytes())?;
        let reply = table.read(&key, Consistency::Strong, table.request_timeout).await;
        let Some(item) = reply.outcome? else { return Ok(None) };
        let seen_at = self.core.judging_time(reply.time)?;
        let mut record = StoredRecord::read(self.core, key, item, seen_at)?;
        record.read_parts(self.core).await?;
        Ok(Some(record))
    }

    /// Reads the item of a key, also one that is not a record, in DynamoDB's JSON.
    ///
    /// # Errors
    /// Those of [`record`](Self::record), except for `UnknownRecord`.
    #[doc(hidden)]
    pub async fn raw(
        &self,
        scope: &Scope,
        key: &str,
        form: KeyForm,
    ) -> Result<Option<serde_json::Value>, Error> {
        let table = self.table();
        let key = RecordKey::new(scope, key, form, table.schema.max_key_bytes())?;
        let reply = table.read(&key, Consistency::Strong, table.request_timeout).await;
        Ok(reply.outcome?.as_ref().map(json::item))
    }

    /// Returns the form of a key in log lines: [`hashed_key`](crate::signals::hashed_key).
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the key is empty or too long.
    #[doc(hidden)]
    pub fn key_hash(&self, scope: &Scope, key: &str, form: KeyForm) -> Result<String, Error> {
        let key = RecordKey::new(scope, key, form, self.table().schema.max_key_bytes())?;
        Ok(crate::signals::hashed_key(key.as_str()))
    }

    /// Tries the requests that calls of these scopes send. Nothing is written.
    ///
    /// [`preflight`](crate::Idempotency::preflight) does the same, and returns errors among the
    /// findings as one error.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::{Scope, Severity};
    ///
    /// let findings = idempotency.admin().permissions(&[Scope::new("payments")]).await?;
    /// assert_eq!(findings[0].severity, Severity::Ok);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// [`Configuration`](crate::ErrorKind::Configuration) if the table or the credentials are
    /// missing, if the table has other keys, or if a scope has no name;
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if DynamoDB does not respond.
    pub async fn permissions(&self, scopes: &[Scope]) -> Result<Vec<Finding>, Error> {
        check_scopes(self.table(), scopes).await
    }

    /// Returns two values: how many milliseconds DynamoDB's clock is ahead of this machine's clock,
    /// according to the responses so far, and the tolerated difference.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// idempotency.warm().await?;
    /// let (offset_ms, tolerance) = idempotency.admin().clock_offset();
    /// assert!(u128::from(offset_ms.unsigned_abs()) <= tolerance.as_millis());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn clock_offset(&self) -> (i64, Duration) {
        (self.table().clock.offset(), self.core.clock_tolerance)
    }

    /// Converts the error of a request that a tool itself has sent to the table.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// use dynamodb_idempotency::ErrorKind;
    ///
    /// let failed = sandbox.client().describe_table().table_name("orders").send().await;
    /// let error = idempotency.admin().explain(failed.unwrap_err());
    /// assert_eq!(error.kind(), ErrorKind::Configuration);
    /// # Ok(()) });
    /// ```
    pub fn explain(&self, error: SdkError<impl Into<aws_sdk_dynamodb::Error>>) -> Error {
        self.table().explained(error)
    }

    /// Returns the part of DynamoDB's message that an output may contain: not the values of the request.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// let failed = sandbox.client().describe_table().table_name("orders").send().await;
    /// let says = idempotency.admin().says(&failed.unwrap_err());
    /// assert!(says.contains("not found"), "{says}");
    /// # Ok(()) });
    /// ```
    pub fn says(&self, error: &impl ProvideErrorMetadata) -> String {
        Table::says(error)
    }

    /// Returns the name of the table.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// assert_eq!(idempotency.admin().table_name(), sandbox.table());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn table_name(&self) -> &'a str {
        &self.table().name
    }

    /// Returns the schema of the table.
    ///
    /// ```
    /// # doc_examples::run(async |_, idempotency| {
    /// use dynamodb_idempotency::TableSchema;
    ///
    /// assert_eq!(*idempotency.admin().schema(), TableSchema::default());
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn schema(&self) -> &'a TableSchema {
        &self.table().schema
    }

    /// Describes the keys of a table, and the keys that the schema expects. Both are equal if the table fits.
    ///
    /// ```
    /// # doc_examples::run(async |sandbox, idempotency| {
    /// let described = sandbox.client().describe_table().table_name(sandbox.table()).send().await?;
    /// let (found, expected) = idempotency.admin().keys(&described.table.expect("a table"));
    /// assert_eq!(found, expected);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn keys(&self, table: &TableDescription) -> (String, String) {
        (keys_of(table), expected_keys(self.schema()))
    }

    fn table(&self) -> &'a Table {
        &self.core.table
    }
}
