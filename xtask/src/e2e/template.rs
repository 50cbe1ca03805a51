//! What CloudFormation makes of a template and its parameters, as far as tables and functions need
//! it. What is not known here is an error, never left as it stands.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

/// A template with the values of its parameters.
pub(super) struct Template {
    template: Value,
    parameters: BTreeMap<String, Value>,
}

impl Template {
    /// A parameter that is not in `values` has its default.
    pub(super) fn new(template: Value, values: &[(&str, &str)]) -> Self {
        let defaults = entries(&template["Parameters"]).filter_map(|(name, parameter)| {
            Some((name.to_owned(), parameter.get("Default")?.clone()))
        });
        let mut parameters: BTreeMap<_, _> = defaults.collect();
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
        parameters.extend(values);
        Self { template, parameters }
    }

    /// The resources of a type, by their logical ids.
    pub(super) fn resources(&self, of_type: &str) -> impl Iterator<Item = (&str, &Value)> {
        entries(&self.template["Resources"])
            .filter(move |(_, resource)| resource["Type"] == of_type)
    }

    /// The value with its functions applied. `physical` has the names of the resources that it may
    /// refer to. Null where nothing is left of it.
    pub(super) fn resolve(
        &self,
        value: &Value,
        physical: &BTreeMap<String, String>,
    ) -> Result<Value> {
        Ok(self.reduced(value, physical)?.unwrap_or_default())
    }

    /// Returns `None` for `AWS::NoValue`.
    fn reduced(&self, value: &Value, physical: &BTreeMap<String, String>) -> Result<Option<Value>> {
        match value {
            Value::Array(items) => {
                let items =
                    items.iter().filter_map(|item| self.reduced(item, physical).transpose());
                Ok(Some(items.collect::<Result<Vec<_>>>()?.into()))
            }
            Value::Object(members) => match function(members) {
                Some(("Ref", name)) => self.referred(name, physical),
                Some(("Fn::If", branches)) => self.reduced(self.branch(branches)?, physical),
                Some((other, _)) => bail!("{other} is not known here: {value}"),
                None => {
                    let members = members.iter().filter_map(|(name, member)| {
                        let reduced = self.reduced(member, physical).transpose()?;
                        Some(reduced.map(|member| (name.clone(), member)))
                    });
                    Ok(Some(members.collect::<Result<Map<_, _>>>()?.into()))
                }
            },
            plain => Ok(Some(plain.clone())),
        }
    }

    fn referred(&self, name: &Value, physical: &BTreeMap<String, String>) -> Result<Option<Value>> {
        let name = name.as_str().context("a Ref to something without a name")?;
        if name == "AWS::NoValue" {
            return Ok(None);
        }
        let resource = physical.get(name).map(|name| name.as_str().into());
        let known = resource.or_else(|| self.parameters.get(name).cloned());
        known.map(Some).with_context(|| format!("{name} has no value here"))
    }

    fn branch<'a>(&self, branches: &'a Value) -> Result<&'a Value> {
        let [condition, yes, no] = branches.as_array().map_or(&[][..], Vec::as_slice) else {
            bail!("Fn::If takes three values, not {branches}");
        };
        let name = condition.as_str().context("Fn::If takes the name of a condition")?;
        let condition = self.template["Conditions"].get(name);
        let condition = condition.with_context(|| format!("there is no condition {name}"))?;
        Ok(if self.holds(condition)? { yes } else { no })
    }

    fn holds(&self, condition: &Value) -> Result<bool> {
        match condition.as_object().and_then(function) {
            Some(("Fn::Equals", values)) => {
                let [left, right] = values.as_array().map_or(&[][..], Vec::as_slice) else {
                    bail!("Fn::Equals takes two values, not {values}");
                };
                let nothing = BTreeMap::new();
                Ok(self.resolve(left, &nothing)? == self.resolve(right, &nothing)?)
            }
            Some(("Fn::Not", inner)) => Ok(!self.holds(&inner[0])?),
            _ => bail!("this condition is not known here: {condition}"),
        }
    }
}

fn entries(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    object.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// An object with one member whose name is that of an intrinsic function.
fn function(members: &Map<String, Value>) -> Option<(&str, &Value)> {
    let mut members = members.iter();
    match (members.next(), members.next()) {
        (Some((name, argument)), None) if name == "Ref" || name.starts_with("Fn::") => {
            Some((name, argument))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template() -> Template {
        let template = json!({
            "Parameters": {"Stage": {"Type": "String"}, "Key": {"Type": "String", "Default": ""}},
            "Conditions": {
                "IsProduction": {"Fn::Equals": [{"Ref": "Stage"}, "prod"]},
                "HasKey": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Key"}, ""]}]},
                "Odd": {"Fn::Or": []},
            },
            "Resources": {"Table": {"Type": "T"}, "Queue": {"Type": "Q"}},
        });
        Template::new(template, &[("Stage", "dev")])
    }

    fn resolve(value: &Value) -> Result<Value> {
        let physical = BTreeMap::from([("Table".to_owned(), "table-1".to_owned())]);
        template().resolve(value, &physical)
    }

    #[test]
    fn conditions_parameters_and_names_are_put_in() {
        let cases = [
            (json!({"Ref": "Stage"}), json!("dev")),
            (json!({"A": {"Ref": "Table"}, "B": 1}), json!({"A": "table-1", "B": 1})),
            (json!({"Fn::If": ["IsProduction", true, false]}), json!(false)),
            (
                json!({"A": {"Fn::If": ["HasKey", {"B": 1}, {"Ref": "AWS::NoValue"}]}, "C": [1]}),
                json!({"C": [1]}),
            ),
            (json!([{"Ref": "AWS::NoValue"}, 2]), json!([2])),
        ];
        for (value, expected) in cases {
            assert_eq!(resolve(&value).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn what_is_not_known_is_an_error_that_names_it() {
        let cases = [
            (json!({"Fn::GetAtt": ["Table", "Arn"]}), "Fn::GetAtt"),
            (json!({"A": [{"Fn::Sub": "${Stage}"}]}), "Fn::Sub"),
            (json!({"Ref": "Queue"}), "Queue"),
            (json!({"Fn::If": ["Missing", 1, 2]}), "Missing"),
            (json!({"Fn::If": ["Odd", 1, 2]}), "Fn::Or"),
            (json!({"Fn::If": ["Odd"]}), "three values"),
        ];
        for (value, named) in cases {
            let error = resolve(&value).unwrap_err().to_string();
            assert!(error.contains(named), "{value}: {error}");
        }
    }

    #[test]
    fn resources_are_found_by_their_type() {
        assert_eq!(template().resources("T").map(|(id, _)| id).collect::<Vec<_>>(), ["Table"]);
    }
}
