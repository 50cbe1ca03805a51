//! Rows of your own tables, from `Serialize` types, for a [commit](crate::Execution::commit) or a
//! [`Transaction`](crate::Transaction).
//!
//! A [`Table`] builds the SDK's [`TransactWriteItem`]s. You can still change an item, and use it together with
//! items that you build yourself.
//!
//! ```
//! # doc_examples::run(async |sandbox, idempotency| {
//! use dynamodb_idempotency::rows::Table;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct Order {
//!     pk: String,
//!     cents: u64,
//! }
//!
//! let orders = Table::new(sandbox.table(), "pk"); // a table of yours, and its partition key
//! let order = Order { pk: "order-42".to_owned(), cents: 1200 };
//! let run = idempotency.operation("order").key("42").payload(&order).run(async |execution| {
//!     execution.commit("accepted", [orders.put_new(&order)?]).await?; // the row and the answer, once
//!     Ok::<_, dynamodb_idempotency::Error>("accepted".to_owned())
//! });
//! assert_eq!(run.await?, "accepted");
//!
//! let id = aws_sdk_dynamodb::types::AttributeValue::S("order-42".to_owned());
//! let get = sandbox.client().get_item().table_name(sandbox.table()).key("pk", id);
//! let stored: Order = serde_dynamo::from_item(get.send().await?.item.expect("a row"))?;
//! assert_eq!(stored, order);
//! # Ok(()) });
//! ```
//!
//! # Values
//!
//! Values are serialized by [`serde_dynamo`](https://docs.rs/serde_dynamo) 4, which also reads rows and has types
//! for sets and binary values. `None` is stored as NULL, unless the field has `skip_serializing_if`.
//!
//! A value that DynamoDB cannot hold is an [`ErrorKind::InvalidTransaction`] that names the field, such as
//! `lines[2].price`, before anything is sent:
//!
//! - a float that is infinite or NaN;
//! - a number with more than 38 significant digits, or whose absolute value is neither 0 nor from 1E-130 to
//!   9.99…E+125. Integers of up to 64 bits and floats always have few enough digits, and are stored exactly: a
//!   float as the shortest decimal number that identifies it. `serde_dynamo` does not write `i128` and `u128`;
//! - an empty set, or a set with an equal element twice; an empty name of an attribute or member;
//! - a value below the 32nd level of nesting, where an attribute is the first;
//! - a key attribute that is missing, empty, or neither a string, a number nor binary; a partition key of more than
//!   2,048 bytes, or a sort key of more than 1,024;
//! - a [`Table`] without a name, or without a name of a key attribute.
//!
//! ```
//! use dynamodb_idempotency::{ErrorKind, rows::Table};
//! use serde_json::json;
//!
//! let orders = Table::new("orders", "id");
//! let error = orders.put(&json!({"id": "", "cents": 1200})).unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::InvalidTransaction);
//! assert_eq!(error.to_string(), "an item cannot be built: the row for table `orders`: `id` is a key attribute and empty");
//! ```

mod value;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::builders::PutBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, Delete, Put, TransactWriteItem, Update,
};
use serde::Serialize;

use self::value::{Fault, NO_NAME, check, check_members, serialize};
use crate::error::Error;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::store::record::Item;

/// DynamoDB's limit for the value of a partition key, in bytes.
const MAX_PARTITION_KEY_BYTES: usize = 2048;

/// DynamoDB's limit for the value of a sort key, in bytes.
const MAX_SORT_KEY_BYTES: usize = 1024;

/// A table of yours: its name and the names of its key attributes.
///
/// The methods that take a key accept the value of the partition key, or, if the table has a sort key, a tuple of
/// both values.
///
/// ```
/// use dynamodb_idempotency::{Error, Execution, rows::Table};
/// use serde::Serialize;
///
/// #[derive(Serialize)]
/// struct Ticket<'a> {
///     id: &'a str,
///     show: &'a str,
/// }
///
/// async fn sell(execution: Execution, ticket: Ticket<'_>) -> Result<(), Error> {
///     let (shows, tickets) = (Table::new("shows", "id"), Table::new("tickets", "id"));
///     let seat = shows.take(ticket.show, "seats", 1)?;
///     execution.commit(&(), [seat, tickets.put_new(&ticket)?]).await
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Table {
    name: String,
    partition_key: String,
    sort_key: Option<String>,
}

impl Table {
    /// Describes a table with this name or ARN, and this attribute as its partition key.
    ///
    /// ```
    /// use dynamodb_idempotency::rows::Table;
    ///
    /// let orders = Table::new("orders", "id");
    /// ```
    pub fn new(name: impl Into<String>, partition_key: impl Into<String>) -> Self {
        Self { name: name.into(), partition_key: partition_key.into(), sort_key: None }
    }

    /// Sets the attribute that is the table's sort key. Default: the table has none.
    ///
    /// ```
    /// # fn main() -> Result<(), dynamodb_idempotency::Error> {
    /// use dynamodb_idempotency::rows::Table;
    ///
    /// let payments = Table::new("payments", "tenant").sort_key("id");
    /// let gone = payments.delete(&("acme", "pay_1"))?;
    /// # Ok(()) }
    /// ```
    pub fn sort_key(self, name: impl Into<String>) -> Self {
        Self { sort_key: Some(name.into()), ..self }
    }

    /// Returns the name or ARN.
    ///
    /// ```
    /// use dynamodb_idempotency::rows::Table;
    ///
    /// assert_eq!(Table::new("orders", "id").name(), "orders");
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes a row, and replaces the row with this key if there is one.
    ///
    /// ```
    /// # fn main() -> Result<(), dynamodb_idempotency::Error> {
    /// use dynamodb_idempotency::rows::Table;
    /// use serde_json::json;
    ///
    /// let put = Table::new("orders", "id").put(&json!({"id": "order-42", "cents": 1200}))?;
    /// assert_eq!(put.put.expect("a put").item["cents"].as_n().map(String::as_str), Ok("1200"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTransaction`] if the row is not a struct or map, or DynamoDB cannot hold it: see
    /// [Values](self#values).
    pub fn put<T: Serialize + ?Sized>(&self, row: &T) -> Result<TransactWriteItem, Error> {
        self.written(row, |put| put)
    }

    /// Writes a row, on the condition that the table has no row with this key.
    ///
    /// If it has one, the commit fails with [`ErrorKind::ConditionFailed`].
    ///
    /// ```
    /// # fn main() -> Result<(), dynamodb_idempotency::Error> {
    /// use dynamodb_idempotency::rows::Table;
    /// use serde_json::json;
    ///
    /// let put = Table::new("orders", "id").put_new(&json!({"id": "order-42"}))?;
    /// let condition = put.put.expect("a put").condition_expression;
    /// assert_eq!(condition.as_deref(), Some("attribute_not_exists(#key)"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The same as those of [`put`](Self::put).
    pub fn put_new<T: Serialize + ?Sized>(&self, row: &T) -> Result<TransactWriteItem, Error> {
        self.written(row, |put| {
            put.condition_expression("attribute_not_exists(#key)")
                .expression_attribute_names("#key", &self.partition_key)
        })
    }

    /// Deletes the row with this key, if there is one.
    ///
    /// To require a row, set a condition:
    ///
    /// ```
    /// # fn main() -> Result<(), dynamodb_idempotency::Error> {
    /// use dynamodb_idempotency::rows::Table;
    ///
    /// let mut item = Table::new("orders", "id").delete("order-42")?;
    /// if let Some(delete) = &mut item.delete {
    ///     delete.condition_expression = Some("attribute_exists(id)".to_owned());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTransaction`] if the value cannot be the key: see [Values](self#values).
    pub fn delete<K: Serialize + ?Sized>(&self, key: &K) -> Result<TransactWriteItem, Error> {
        self.has_names()?;
        let delete = Delete::builder().table_name(&self.name).set_key(Some(self.key(key)?));
        Ok(TransactWriteItem::builder().delete(delete.build().map_err(incomplete)?).build())
    }

    /// Requires that the table has a row with this key.
    ///
    /// If it has none, the commit fails with [`ErrorKind::ConditionFailed`]. A transaction cannot check a row that
    /// it also writes.
    ///
    /// ```
    /// use dynamodb_idempotency::{Error, Execution, rows::Table};
    ///
    /// async fn ship(execution: Execution, order: &str) -> Result<(), Error> {
    ///     let (orders, parcels) = (Table::new("orders", "id"), Table::new("parcels", "order"));
    ///     let parcel = parcels.put(&serde_json::json!({"order": order}))?;
    ///     execution.commit(&(), [orders.check_exists(order)?, parcel]).await
    /// }
    /// ```
    ///
    /// # Errors
    /// The same as those of [`delete`](Self::delete).
    pub fn check_exists<K: Serialize + ?Sized>(&self, key: &K) -> Result<TransactWriteItem, Error> {
        self.checked(key, "attribute_exists(#name)", &self.partition_key, None)
    }

    /// Requires that the table has no row with this key.
    ///
    /// If it has one, the commit fails with [`ErrorKind::ConditionFailed`].
    ///
    /// ```
    /// # fn main() -> Result<(), dynamodb_idempotency::Error> {
    /// use dynamodb_idempotency::rows::Table;
    ///
    /// let not_blocked = Table::new("blocked", "card").check_absent("card-7")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The same as those of [`delete`](Self::delete).
    pub fn check_absent<K: Serialize + ?Sized>(&self, key: &K) -> Result<TransactWriteItem, Error> {
        self.checked(key, "attribute_not_exists(#name)", &self.partition_key, None)
    }

    /// Requires that an attribute of the row with this key has this value.
    ///
    /// If it has another value, or is absent, the commit fails with [`ErrorKind::ConditionFailed`]. The name is
    /// that of a whole attribute, not a path into one.
    ///
    /// ```
    /// # fn main() -> Result<(), dynamodb_idempotency::Error> {
    /// use dynamodb_idempotency::rows::Table;
    ///
    /// let is_open = Table::new("accounts", "id").check_equals("account-7", "status", "open")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTransaction`] if the first value cannot be the key, or DynamoDB cannot hold the second
    /// one: see [Values](self#values).
    pub fn check_equals<K: Serialize + ?Sized, V: Serialize + ?Sized>(
        &self,
        key: &K,
        attribute: &str,
        value: &V,
    ) -> Result<TransactWriteItem, Error> {
        let checked = serialize(value).and_then(|mut value| check(&mut value, 1).map(|()| value));
        let value =
            checked.map_err(|fault| self.wrong("condition", &fault.in_member(attribute)))?;
        self.checked(key, "#name = :value", attribute, Some(value))
    }

    /// Adds `amount`, which may be negative, to a number in the row with this key.
    ///
    /// An absent number counts as 0, and an absent row is created.
    ///
    /// ```
    /// # fn main() -> Result<(), dynamodb_idempotency::Error> {
    /// use dynamodb_idempotency::rows::Table;
    ///
    /// let sold = Table::new("statistics", "day").add("2026-01-31", "orders", 1)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTransaction`] if the value cannot be the key (see [Values](self#values)), or if the
    /// attribute is part of the key. If the attribute is not a number, the commit fails with this kind.
    pub fn add<K: Serialize + ?Sized>(
        &self,
        key: &K,
        attribute: &str,
        amount: i64,
    ) -> Result<TransactWriteItem, Error> {
        self.counted(key, attribute, &amount.to_string(), "ADD #name :amount", None)
    }

    /// Takes `amount` from a number in the row with this key, on the condition that the number is at least
    /// `amount`.
    ///
    /// If it is less, or is absent, the commit fails with [`ErrorKind::ConditionFailed`].
    ///
    /// ```
    /// # fn main() -> Result<(), dynamodb_idempotency::Error> {
    /// use dynamodb_idempotency::rows::Table;
    ///
    /// let seat = Table::new("shows", "id").take("hamlet", "seats", 1)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTransaction`] if the value cannot be the key (see [Values](self#values)), or if the
    /// attribute is part of the key.
    pub fn take<K: Serialize + ?Sized>(
        &self,
        key: &K,
        attribute: &str,
        amount: u64,
    ) -> Result<TransactWriteItem, Error> {
        let (update, condition) = ("SET #name = #name - :amount", "#name >= :amount");
        self.counted(key, attribute, &amount.to_string(), update, Some(condition))
    }

    fn written<T: Serialize + ?Sized>(
        &self,
        row: &T,
        condition: impl FnOnce(PutBuilder) -> PutBuilder,
    ) -> Result<TransactWriteItem, Error> {
        self.has_names()?;
        let item = self.row(row).map_err(|fault| self.wrong("row", &fault))?;
        let put = condition(Put::builder().table_name(&self.name).set_item(Some(item)));
        Ok(TransactWriteItem::builder().put(put.build().map_err(incomplete)?).build())
    }

    fn checked<K: Serialize + ?Sized>(
        &self,
        key: &K,
        condition: &str,
        attribute: &str,
        value: Option<AttributeValue>,
    ) -> Result<TransactWriteItem, Error> {
        self.has_names()?;
        if attribute.is_empty() {
            return Err(self.wrong("condition", &Fault::new(NO_NAME).in_member(attribute)));
        }
        let values = value.map(|value| Item::from([(":value".to_owned(), value)]));
        let check = ConditionCheck::builder()
            .table_name(&self.name)
            .set_key(Some(self.key(key)?))
            .condition_expression(condition)
            .expression_attribute_names("#name", attribute)
            .set_expression_attribute_values(values);
        Ok(TransactWriteItem::builder().condition_check(check.build().map_err(incomplete)?).build())
    }

    fn counted<K: Serialize + ?Sized>(
        &self,
        key: &K,
        attribute: &str,
        amount: &str,
        expression: &str,
        condition: Option<&str>,
    ) -> Result<TransactWriteItem, Error> {
        self.has_names()?;
        let is_key = self.key_attributes().any(|(name, _)| name == attribute);
        let no_update = "is a key attribute, which no update can change";
        if let Some(reason) =
            is_key.then_some(no_update).or(attribute.is_empty().then_some(NO_NAME))
        {
            return Err(self.wrong("update", &Fault::new(reason).in_member(attribute)));
        }
        let update = Update::builder()
            .table_name(&self.name)
            .set_key(Some(self.key(key)?))
            .update_expression(expression)
            .set_condition_expression(condition.map(str::to_owned))
            .expression_attribute_names("#name", attribute)
            .expression_attribute_values(":amount", AttributeValue::N(amount.to_owned()));
        Ok(TransactWriteItem::builder().update(update.build().map_err(incomplete)?).build())
    }

    fn row<T: Serialize + ?Sized>(&self, row: &T) -> Result<Item, Fault> {
        let AttributeValue::M(mut item) = serialize(row)? else {
            return Err(Fault::new("it is neither a struct nor a map"));
        };
        check_members(&mut item, 1)?;
        self.check_keys(&item).map(|()| item)
    }

    fn key<K: Serialize + ?Sized>(&self, key: &K) -> Result<Item, Error> {
        self.key_item(key).map_err(|fault| self.wrong("key", &fault))
    }

    fn key_item<K: Serialize + ?Sized>(&self, key: &K) -> Result<Item, Fault> {
        let values = match (serialize(key)?, &self.sort_key) {
            (value, None) => vec![value],
            (AttributeValue::L(values), Some(_)) if values.len() == 2 => values,
            (_, Some(_)) => {
                return Err(Fault::new("it is not a tuple of the partition key and the sort key"));
            }
        };
        let names = self.key_attributes().map(|(name, _)| name.to_owned());
        let mut item = names.zip(values).collect();
        check_members(&mut item, 1)?;
        self.check_keys(&item).map(|()| item)
    }

    /// Without one of its names, no item is valid.
    fn has_names(&self) -> Result<(), Error> {
        let empty = if self.name.is_empty() {
            "the name of the table"
        } else if self.partition_key.is_empty() {
            "the name of the partition key"
        } else if self.sort_key.as_ref().is_some_and(String::is_empty) {
            "the name of the sort key"
        } else {
            return Ok(());
        };
        let table = &self.name;
        let message = format!("an item cannot be built: the Table `{table}`: {empty} is empty");
        Err(Error::invalid_transaction(message))
    }

    fn check_keys(&self, item: &Item) -> Result<(), Fault> {
        for (name, limit) in self.key_attributes() {
            let value = item.get(name).ok_or("is a key attribute and missing");
            let valid = value.and_then(|value| check_key(value, limit));
            valid.map_err(|reason| Fault::new(reason).in_member(name))?;
        }
        Ok(())
    }

    /// The names of the key attributes, each with its limit in bytes.
    fn key_attributes(&self) -> impl Iterator<Item = (&str, usize)> {
        let sort_key = self.sort_key.as_deref().map(|name| (name, MAX_SORT_KEY_BYTES));
        std::iter::once((self.partition_key.as_str(), MAX_PARTITION_KEY_BYTES)).chain(sort_key)
    }

    fn wrong(&self, what: &str, fault: &Fault) -> Error {
        let table = &self.name;
        let message = format!("an item cannot be built: the {what} for table `{table}`: {fault}");
        Error::invalid_transaction(message)
    }
}

fn check_key(value: &AttributeValue, limit: usize) -> Result<(), &'static str> {
    let bytes = match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::B(binary) => binary.as_ref().len(),
        AttributeValue::N(_) => return Ok(()),
        _ => return Err("is a key attribute and neither a string, a number nor binary"),
    };
    match bytes {
        0 => Err("is a key attribute and empty"),
        _ if bytes > limit => Err("is a key attribute and larger than DynamoDB accepts"),
        _ => Ok(()),
    }
}

/// Each required member is set.
fn incomplete(source: BuildError) -> Error {
    Error::invalid_transaction("an item cannot be built").with_source(source)
}

#[cfg(test)]
mod tests;
