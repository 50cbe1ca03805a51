//! An item as DynamoDB's own JSON: `{"pk": {"S": "payments#1"}, …}`.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::store::record::Item;

pub(super) fn item(item: &Item) -> Value {
    let members = item.iter().map(|(name, one)| (name.clone(), value(one)));
    Value::Object(members.collect::<Map<_, _>>())
}

fn value(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => json!({"S": text}),
        AttributeValue::N(number) => json!({"N": number}),
        AttributeValue::B(bytes) => json!({"B": base64(bytes)}),
        AttributeValue::Bool(truth) => json!({"BOOL": truth}),
        AttributeValue::Null(truth) => json!({"NULL": truth}),
        AttributeValue::M(members) => json!({"M": item(members)}),
        AttributeValue::L(values) => {
            json!({"L": values.iter().map(self::value).collect::<Vec<_>>()})
        }
        AttributeValue::Ss(texts) => json!({"SS": texts}),
        AttributeValue::Ns(numbers) => json!({"NS": numbers}),
        AttributeValue::Bs(values) => json!({"BS": values.iter().map(base64).collect::<Vec<_>>()}),
        // A type that this version of the SDK does not know.
        _ => json!({}),
    }
}

fn base64(bytes: &Blob) -> String {
    STANDARD.encode(bytes.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_name() {
        let text = || AttributeValue::S("a".into());
        let of = |value| item(&Item::from([("k".to_owned(), value)]));
        let cases = [
            (text(), json!({"S": "a"})),
            (AttributeValue::N("1.50".into()), json!({"N": "1.50"})),
            (AttributeValue::B(Blob::new(b"\xff\0")), json!({"B": "/wA="})),
            (AttributeValue::Bool(false), json!({"BOOL": false})),
            (AttributeValue::Null(true), json!({"NULL": true})),
            (AttributeValue::L(vec![text()]), json!({"L": [{"S": "a"}]})),
            (
                AttributeValue::M(Item::from([("m".to_owned(), text())])),
                json!({"M": {"m": {"S": "a"}}}),
            ),
            (AttributeValue::Ss(vec!["a".into()]), json!({"SS": ["a"]})),
            (AttributeValue::Ns(vec!["1".into()]), json!({"NS": ["1"]})),
            (AttributeValue::Bs(vec![Blob::new(b"a")]), json!({"BS": ["YQ=="]})),
        ];
        for (value, expected) in cases {
            assert_eq!(of(value), json!({"k": expected}));
        }
    }
}
