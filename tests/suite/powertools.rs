//! The migration guide's code reads what Powertools wrote. `powertools/records.json` has records of the real libraries.

// In the guide as well, word for word.
include!("powertools/old_answer.rs");

use dynamodb_idempotency::TableSchema;
use serde_json::{Value, json};

use crate::support::{Link, Store};

const PAGE: &str = include_str!("../../docs/guide/migrating-from-powertools.md");
const CODE: &str = include_str!("powertools/old_answer.rs");
const RECORDS: &str = include_str!("powertools/records.json");
/// Before the records expire.
const NOW: u64 = 1_795_409_000;

type Item = HashMap<String, AttributeValue>;

fn attribute(value: &Value) -> AttributeValue {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    match kind.as_str() {
        "S" => AttributeValue::S(value.as_str().unwrap().into()),
        "N" => AttributeValue::N(value.as_str().unwrap().into()),
        "BOOL" => AttributeValue::Bool(value.as_bool().unwrap()),
        "NULL" => AttributeValue::Null(true),
        "L" => AttributeValue::L(value.as_array().unwrap().iter().map(attribute).collect()),
        "M" => AttributeValue::M(item(value)),
        other => panic!("{other}"),
    }
}

fn item(value: &Value) -> Item {
    let members = value.as_object().unwrap().iter();
    members.map(|(name, value)| (name.clone(), attribute(value))).collect()
}

/// The record under `id` of the library's table.
fn record(library: &str, id: &str) -> Item {
    let records: Value = serde_json::from_str(RECORDS).unwrap();
    let records = records[library].as_array().unwrap().iter().map(item);
    records
        .into_iter()
        .find(|record| record["id"] == AttributeValue::S(format!("pay#{id}")))
        .unwrap()
}

fn object() -> Value {
    json!({"receipt": "re_1", "amount": 1250, "rate": 0.1, "lines": [1, "two", null]})
}

/// The hash of the key, as the library writes it, and the answer.
type Answer = (&'static str, Value);

fn answers() -> [(&'static str, Writer, Vec<Answer>); 2] {
    let python = vec![
        ("20cd815523e5806aec29a57282b0d49f", json!("paid")),
        ("df2bca0cd9b22c6eb4c65825831ce26d", json!("{\"paid\": true}")),
        ("48c8a2b8c9140f3bf0084d3eaaee4acf", object()),
        ("b4a2cfacdecc3c74a32585e9182f722d", json!(42)),
        ("50818b7dc50ab8cfe2a9198978f0fd26", json!(["a", "b"])),
        ("c07fbc0b2a1a865fe9e3a55c05b4f690", json!(false)),
        ("147709a84314f836b64e2724c3dc4a61", Value::Null),
    ];
    let typescript = vec![
        ("IM2BVSPlgGrsKaVygrDUnw==", json!("paid")),
        ("3yvKDNmyLG60xlglgxzibQ==", json!("{\"paid\": true}")),
        ("SMiiuMkUDzvwCE0+qu5Kzw==", object()),
        ("tKLPrN7MPHSjJYXpGC9yLQ==", json!(42)),
        ("UIGLfcUKuM/iqRmJePD9Jg==", json!(["a", "b"])),
        ("wH+8Cyoahl/p46VcBbT2kA==", json!(false)),
        ("m0HvZ2UcGEiKiwi7Z8dWmQ==", Value::Null),
        ("FHcJqEMU+Da2Tickw9xKYQ==", Value::Null),
    ];
    [("python", Writer::JsonText, python), ("typescript", Writer::Native, typescript)]
}

#[test]
fn every_answer_of_powertools_is_read_back() {
    for (library, writer, answers) in answers() {
        for (id, expected) in answers {
            let found = answer_of::<Value>(record(library, id), writer, NOW).unwrap();
            assert_eq!(found, Some(expected), "{library} {id}");
        }
    }
}

#[test]
fn an_expired_record_is_none_and_a_running_one_an_error() {
    for (library, writer, running) in [
        ("python", Writer::JsonText, "cda3b38d3b78ec2edfc3b77cee0ac0d7"),
        ("typescript", Writer::Native, "zaOzjTt47C7fw7d87grA1w=="),
    ] {
        let error = answer_of::<Value>(record(library, running), writer, NOW).unwrap_err();
        assert!(error.to_string().contains("in progress"), "{error}");
        let later = NOW + 3 * 3600;
        assert_eq!(answer_of::<Value>(record(library, running), writer, later).unwrap(), None);
    }
}

#[test]
fn a_record_that_is_not_understood_is_an_error_and_never_an_empty_answer() {
    let native = record("typescript", "SMiiuMkUDzvwCE0+qu5Kzw==");
    assert!(answer_of::<Value>(native, Writer::JsonText, NOW).is_err());
    let missing = record("typescript", "FHcJqEMU+Da2Tickw9xKYQ==");
    assert!(answer_of::<Value>(missing, Writer::JsonText, NOW).is_err());
    let mut other = record("python", "b4a2cfacdecc3c74a32585e9182f722d");
    other.insert("status".into(), AttributeValue::S("DONE".into()));
    assert!(answer_of::<Value>(other, Writer::JsonText, NOW).is_err());
}

#[tokio::test]
async fn the_old_table_is_read_by_the_old_key() {
    let store = Store::with_schema(TableSchema::default().partition_key("id")).await;
    let mut completed = record("python", "b4a2cfacdecc3c74a32585e9182f722d");
    completed.insert("expiration".into(), AttributeValue::N("99999999999".into()));
    store.put(completed).await;
    let client = store.client(&Link::default());
    let answer = |id| old_answer::<u32>(&client, store.table(), id, Writer::JsonText);
    assert_eq!(answer("pay#b4a2cfacdecc3c74a32585e9182f722d").await.unwrap(), Some(42));
    assert_eq!(answer("pay#another").await.unwrap(), None);
}

#[test]
fn the_guide_has_this_code() {
    assert!(PAGE.contains(CODE), "copy tests/suite/powertools/old_answer.rs into the page");
}
