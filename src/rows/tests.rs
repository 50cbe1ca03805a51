use std::collections::{BTreeMap, HashMap};

use serde_dynamo::{number_set::NumberSet, string_set::StringSet};
use serde_json::json;

use super::*;
use crate::error::ErrorKind;

fn orders() -> Table {
    Table::new("orders", "id")
}

fn payments() -> Table {
    Table::new("payments", "tenant").sort_key("id")
}

fn written(item: Result<TransactWriteItem, Error>) -> Item {
    item.unwrap().put.unwrap().item
}

fn fault<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidTransaction);
    let message = error.to_string();
    let (title, reason) = message.split_once("`: ").expect("a reason");
    assert!(title.starts_with("an item cannot be built: the "), "{title}");
    reason.to_owned()
}

/// An order with one more attribute.
#[derive(Serialize)]
struct Order<T> {
    id: &'static str,
    value: T,
}

fn number<T: Serialize>(value: T) -> Result<String, Error> {
    let item = orders().put(&Order { id: "o", value })?.put.unwrap().item;
    Ok(item["value"].as_n().unwrap().clone())
}

fn fault_of<T: Serialize>(value: T) -> String {
    fault(orders().put(&Order { id: "o", value }))
}

#[test]
fn a_row_is_stored_as_serde_dynamo_stores_it() {
    #[derive(Serialize)]
    struct Row {
        id: u8,
        tags: StringSet<Vec<&'static str>>,
        note: Option<String>,
        lines: Vec<(String, f64)>,
        paid: bool,
    }
    let tags = StringSet(vec!["a", "b"]);
    let row = Row { id: 7, tags, note: None, lines: vec![("l".to_owned(), 0.1)], paid: true };
    let expected: Item = serde_dynamo::to_item(&row).unwrap();
    assert_eq!(written(orders().put(&row)), expected);
    assert_eq!(expected["note"], AttributeValue::Null(true));
}

#[test]
fn numbers_are_exact() {
    assert_eq!(number(u64::MAX).unwrap(), "18446744073709551615");
    assert_eq!(number(i64::MIN).unwrap(), "-9223372036854775808");
    assert_eq!(number(0.1_f64).unwrap(), "0.1");
    assert_eq!(number(0.1_f32).unwrap(), "0.1");
    for value in [f64::EPSILON, 9_007_199_254_740_993.0, 1e125, -1.5e-129] {
        assert_eq!(number(value).unwrap().parse(), Ok(value));
    }
}

#[test]
fn what_dynamodb_cannot_hold_is_an_error_that_names_its_field() {
    let not_finite = "`value` is infinite or not a number";
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(fault_of(value), not_finite);
    }
    assert_eq!(fault_of(f32::NAN), not_finite);
    assert_eq!(
        fault_of(BTreeMap::from([("lines", vec![1.0, f64::NAN])])),
        "`value.lines[1]` is infinite or not a number"
    );
    for value in [1e126, f64::MAX, 1e-131, f64::MIN_POSITIVE] {
        assert_eq!(fault_of(value), "`value` is outside the range of DynamoDB's numbers");
    }
    assert_eq!(fault_of(vec![1_i128]), "`value[0]` cannot be serialized: i128 is not supported");
    assert_eq!(fault_of(StringSet(Vec::<String>::new())), "`value` is an empty set");
    let twice = "`value` is a set with an equal element twice";
    assert_eq!(fault_of(StringSet(vec!["a", "b", "a"])), twice);
    assert_eq!(fault_of(NumberSet(vec![1.0, f64::NAN])), not_finite);
    assert!(fault_of(StringSet(vec![1])).starts_with("`value` cannot be serialized: "));
}

/// `serde_dynamo` panics at some of these keys.
#[test]
fn a_map_with_keys_that_are_not_names_is_an_error() {
    assert!(
        fault_of(HashMap::from([(vec![1], 1)])).starts_with("`value` cannot be serialized: key")
    );
    assert!(
        fault_of(HashMap::from([((1, 2), 1)])).starts_with("`value` cannot be serialized: key")
    );
    assert!(orders().put(&Order { id: "o", value: HashMap::from([(1, 1)]) }).is_ok());
}

#[test]
fn the_limits_of_numbers_are_those_of_dynamodb() {
    let nines = |count: usize| "9".repeat(count);
    let zeros = |count: usize| "0".repeat(count);
    for accepted in [
        nines(38),
        format!("{}{}", nines(38), zeros(88)),
        format!("-{}e88", nines(38)),
        format!("0.{}{}", zeros(129), nines(38)),
        format!("{}1.50{}", zeros(50), zeros(50)),
        "1e-130".to_owned(),
        "1E+125".to_owned(),
        "-0".to_owned(),
        "0e999999999999999999999".to_owned(),
    ] {
        assert_eq!(value::check_number(&accepted), Ok(()), "{accepted}");
    }
    for rejected in [
        nines(39),
        format!("1{}1", zeros(37)),
        format!("1{}", zeros(126)),
        format!("0.{}1", zeros(130)),
        "1e126".to_owned(),
        "1e99999999999999999999".to_owned(),
        format!("1e{}", i64::MAX),
        format!("1e{}", i64::MIN),
        "NaN".to_owned(),
        "-inf".to_owned(),
        String::new(),
    ] {
        assert!(value::check_number(&rejected).is_err(), "{rejected}");
    }
}

/// With its feature `arbitrary_precision`, `serde_json` serializes a number as such a map.
#[test]
fn a_number_of_serde_json_is_a_number() {
    let of = |text: &str| BTreeMap::from([("$serde_json::private::Number", text.to_owned())]);
    assert_eq!(number(of("1.50")).unwrap(), "1.50");
    assert!(fault_of(of(&"9".repeat(39))).starts_with("`value` has more than 38"));
    assert_eq!(number(json!(1.5)).unwrap(), "1.5");
    assert_eq!(number(json!(u64::MAX)).unwrap(), "18446744073709551615");
}

#[test]
fn values_are_nested_at_most_32_levels_deep() {
    let nested = |lists: usize| (0..lists).fold(json!(true), |inner, _| json!([inner]));
    assert!(orders().put(&Order { id: "o", value: nested(31) }).is_ok());
    let deep = fault_of(nested(32));
    assert_eq!(deep, format!("`value{}` is nested more than 32 levels deep", "[0]".repeat(32)));
}

#[test]
fn a_row_has_the_keys_of_its_table() {
    for (row, reason) in [
        (json!({"tenant": "a"}), "`id` is a key attribute and missing"),
        (json!({"tenant": "", "id": "p"}), "`tenant` is a key attribute and empty"),
        (
            json!({"tenant": "a", "id": true}),
            "`id` is a key attribute and neither a string, a number nor binary",
        ),
        (
            json!({"tenant": "a", "id": null}),
            "`id` is a key attribute and neither a string, a number nor binary",
        ),
        (
            json!({"tenant": "a", "id": "p".repeat(1025)}),
            "`id` is a key attribute and larger than DynamoDB accepts",
        ),
        (
            json!({"tenant": "a".repeat(2049), "id": 1}),
            "`tenant` is a key attribute and larger than DynamoDB accepts",
        ),
        (json!(["a", "p"]), "it is neither a struct nor a map"),
        (json!({"tenant": "a", "id": "p", "": 1}), "`` is no name of an attribute or member"),
    ] {
        assert_eq!(fault(payments().put(&row)), reason);
        assert_eq!(fault(payments().put_new(&row)), reason);
    }
    assert!(payments().put(&json!({"tenant": "a".repeat(2048), "id": "p".repeat(1024)})).is_ok());
}

#[test]
fn a_key_is_a_value_or_a_tuple_of_two() {
    let key = |item: TransactWriteItem| item.delete.unwrap().key;
    let expected = Item::from([("id".to_owned(), AttributeValue::S("o".to_owned()))]);
    assert_eq!(key(orders().delete("o").unwrap()), expected);
    let expected = Item::from([
        ("tenant".to_owned(), AttributeValue::S("a".to_owned())),
        ("id".to_owned(), AttributeValue::N("7".to_owned())),
    ]);
    assert_eq!(key(payments().delete(&("a", 7)).unwrap()), expected);
    for fault in [
        fault(payments().delete("a")),
        fault(payments().delete(&["a"])),
        fault(payments().delete(&("a", "p", "q"))),
    ] {
        assert_eq!(fault, "it is not a tuple of the partition key and the sort key");
    }
    assert_eq!(fault(payments().delete(&("a", ""))), "`id` is a key attribute and empty");
    let no_key = "`id` is a key attribute and neither a string, a number nor binary";
    assert_eq!(fault(orders().delete(&("a", "p"))), no_key);
    assert_eq!(fault(orders().check_exists(&Some(""))), "`id` is a key attribute and empty");
    assert_eq!(fault(orders().check_absent(&())), no_key);
    assert_eq!(fault(orders().add(&f64::NAN, "n", 1)), "`id` is infinite or not a number");
}

#[test]
fn a_key_does_not_change() {
    let reason = "`id` is a key attribute, which no update can change";
    assert_eq!(fault(payments().add(&("a", 1), "id", 1)), reason);
    assert_eq!(fault(payments().take(&("a", 1), "id", 1)), reason);
}

#[test]
fn a_name_is_not_empty() {
    let reason = "`` is no name of an attribute or member";
    assert_eq!(fault(orders().add("o", "", 1)), reason);
    assert_eq!(fault(orders().check_equals("o", "", "open")), reason);
    assert_eq!(fault_of(json!([{"": 1}])), "`value[0].` is no name of an attribute or member");
}

#[test]
fn a_compared_value_is_checked_too() {
    let error = orders().check_equals("o", "price", &[f64::NAN]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "an item cannot be built: the condition for table `orders`: `price[0]` is infinite or not a number"
    );
}

#[test]
fn a_table_without_a_name_or_a_key_builds_no_item() {
    let row = json!({"id": "o", "": "o"});
    for (table, empty) in [
        (Table::new("", "id"), "the name of the table"),
        (Table::new("orders", ""), "the name of the partition key"),
        (Table::new("orders", "id").sort_key(""), "the name of the sort key"),
    ] {
        for item in [
            table.put(&row),
            table.put_new(&row),
            table.delete(&("o", "o")),
            table.check_exists("o"),
            table.check_absent("o"),
            table.check_equals("o", "status", "open"),
            table.check_equals("o", "", "open"),
            table.add("o", "", 1),
            table.take("o", "seats", 1),
        ] {
            assert_eq!(fault(item), format!("{empty} is empty"));
        }
    }
}
