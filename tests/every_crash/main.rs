//! What `testing::every_crash` finds in users' handlers, and how it reports it.
#![allow(clippy::disallowed_methods, reason = "tests own their time")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails so")]

mod defects;
mod guide;
mod limits;
mod places;
mod transport;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, Put,
    ScalarAttributeType, TransactWriteItem,
};
use dynamodb_idempotency::testing::{World, every_crash};

/// The report of a test that must fail.
fn finding(test: impl AsyncFnMut(World)) -> String {
    report(|| every_crash(test))
}

fn report(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("a failure is found");
    let literal = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let report = panic.downcast::<String>().map_or(literal, |report| Some(*report));
    let report = report.expect("the report is text");
    println!("{report}");
    report
}

fn assert_names(report: &str, place: &str) {
    let names = report.lines().find(|line| line.starts_with("where:")).expect("a place");
    assert!(names.contains(place), "`{place}` is not in: {report}");
}

/// The double of a bank. Requests with a key that it has seen have no effect.
#[derive(Clone)]
struct Bank {
    world: World,
    refunds: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Bank {
    fn new(world: &World) -> Self {
        Self { world: world.clone(), refunds: Arc::default() }
    }

    /// Refunds an order; once for each key, if there is one.
    async fn refund(&self, order: &str, key: Option<String>) -> String {
        let number = {
            let mut refunds = self.refunds.lock().unwrap();
            let number = u32::try_from(refunds.len()).unwrap() + 1;
            let key = key.unwrap_or_else(|| format!("{order}, refund {number}"));
            refunds.insert(key, 1);
            number
        };
        self.world.point("refunded").await;
        format!("re_{number}")
    }

    fn refunds(&self) -> usize {
        self.refunds.lock().unwrap().len()
    }
}

/// A counter in the test's own memory.
#[derive(Clone, Default)]
struct Counter(Rc<RefCell<u32>>);

impl Counter {
    fn next(&self) -> u32 {
        *self.0.borrow_mut() += 1;
        *self.0.borrow()
    }
}

/// Creates a table with the partition key `id`.
async fn create_table(client: &Client, name: &str) {
    let definition = AttributeDefinition::builder().attribute_name("id");
    let definition = definition.attribute_type(ScalarAttributeType::S).build().unwrap();
    let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
    let table = client.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
    let table = table.attribute_definitions(definition).key_schema(key.build().unwrap());
    table.send().await.unwrap();
}

fn row(table: &str, id: &str) -> TransactWriteItem {
    let put = Put::builder().table_name(table).item("id", AttributeValue::S(id.to_owned()));
    TransactWriteItem::builder().put(put.build().unwrap()).build()
}

async fn rows(client: &Client, table: &str) -> usize {
    let scan = client.scan().table_name(table).consistent_read(true).send().await.unwrap();
    scan.items().len()
}
