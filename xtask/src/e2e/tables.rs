//! Creates the tables of the template in DynamoDB Local, from the properties in the template.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use super::template::Template;
use crate::dynamodb_local::{self, Server};

pub(super) const TYPE: &str = "AWS::DynamoDB::Table";

/// Properties of CloudFormation's that are parameters of `CreateTable` under the same name.
const OF_CREATE_TABLE: [&str; 6] = [
    "AttributeDefinitions",
    "BillingMode",
    "DeletionProtectionEnabled",
    "GlobalSecondaryIndexes",
    "KeySchema",
    "SSESpecification",
];
const TIME_TO_LIVE: &str = "TimeToLiveSpecification";
/// DynamoDB Local has no backups: `UpdateContinuousBackups` is an unknown operation to it.
const NOT_EMULATED: &str = "PointInTimeRecoverySpecification";

/// Makes each table of the template under the name that `names` has for it.
pub(super) fn make(
    template: &Template,
    names: &BTreeMap<String, String>,
    server: &Server,
) -> Result<()> {
    ensure!(!names.is_empty(), "the template has no table");
    for (id, resource) in template.resources(TYPE) {
        let name = names.get(id).with_context(|| format!("{id} has no name"))?;
        let properties = template.resolve(&resource["Properties"], names);
        for (operation, body) in operations(name, &properties.context(id.to_owned())?)
            .with_context(|| format!("the table {id} cannot be made here"))?
        {
            dynamodb_local::perform(server, operation, &body)?;
        }
    }
    Ok(())
}

/// What makes a table of these properties. One that is not known here is an error: the table would
/// not be the template's.
fn operations(name: &str, properties: &Value) -> Result<Vec<(&'static str, Value)>> {
    let properties = properties.as_object().context("its properties are no object")?;
    let mut table = Map::from_iter([("TableName".to_owned(), name.into())]);
    let mut after = Vec::new();
    for (property, value) in properties {
        match property.as_str() {
            known if OF_CREATE_TABLE.contains(&known) => {
                table.insert(property.clone(), value.clone());
            }
            TIME_TO_LIVE => {
                let body = json!({"TableName": name, "TimeToLiveSpecification": value});
                after.push(("UpdateTimeToLive", body));
            }
            NOT_EMULATED => {}
            other => bail!("the property {other} is not known here"),
        }
    }
    Ok([vec![("CreateTable", table.into())], after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_to_live_is_an_operation_of_its_own() {
        let keys = json!([{"AttributeName": "pk", "KeyType": "HASH"}]);
        let time_to_live = json!({"AttributeName": "expires_at", "Enabled": true});
        let properties = json!({
            "KeySchema": keys,
            "TimeToLiveSpecification": time_to_live,
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true},
        });
        let expected = [
            ("CreateTable", json!({"TableName": "t", "KeySchema": keys})),
            (
                "UpdateTimeToLive",
                json!({"TableName": "t", "TimeToLiveSpecification": time_to_live}),
            ),
        ];
        assert_eq!(operations("t", &properties).unwrap(), expected);
    }

    #[test]
    fn an_unknown_property_is_an_error() {
        let error = operations("t", &json!({"KinesisStreamSpecification": {}})).unwrap_err();
        assert!(error.to_string().contains("KinesisStreamSpecification"), "{error}");
    }
}
