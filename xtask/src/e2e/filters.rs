//! What the template counts in the functions' logs, and which alarm hears of it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::template::Template;

/// Each metric filter with the binary in whose log it counts, and the alarm on its metric; one without
/// an alarm has the dimension that it sorts by.
pub(super) fn filters(template: &Template) -> Result<Value> {
    let filters = template.resources("AWS::Logs::MetricFilter");
    let filters = filters.map(|(id, filter)| {
        described(template, &filter["Properties"]).with_context(|| format!("the filter {id}"))
    });
    let filters = filters.collect::<Result<Vec<_>>>()?;
    ensure!(!filters.is_empty(), "the template counts nothing in the logs");
    Ok(filters.into())
}

fn described(template: &Template, filter: &Value) -> Result<Value> {
    let [counts] = filter["MetricTransformations"].as_array().map_or(&[][..], Vec::as_slice) else {
        anyhow::bail!("it makes no metric, or several");
    };
    let alarm = template.resources("AWS::CloudWatch::Alarm").find(|(_, alarm)| {
        let on = &alarm["Properties"];
        (&on["Namespace"], &on["MetricName"]) == (&counts["MetricNamespace"], &counts["MetricName"])
    });
    let dimension = counts["Dimensions"][0]["Value"].as_str();
    ensure!(alarm.is_some() != dimension.is_some(), "nobody hears of what it counts");
    let pattern = filter["FilterPattern"].as_str().context("it has no pattern")?;
    Ok(json!({
        "function": owner(template, &filter["LogGroupName"]).context("its log is no function's")?,
        "pattern": pattern,
        "alarm": alarm.map(|(id, _)| id),
        "dimension": dimension,
    }))
}

/// The binary of the function that writes to this log group.
fn owner<'a>(template: &'a Template, log_group: &Value) -> Option<&'a str> {
    let mut functions = template.resources("AWS::Lambda::Function");
    let writes =
        |function: &Value| function["Properties"]["LoggingConfig"]["LogGroup"] == *log_group;
    let (_, function) = functions.find(|(_, function)| writes(function))?;
    super::binary(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(metric_of_alarm: &str, log: &str) -> Template {
        let name = json!({"Fn::Sub": "${AWS::StackName}-Lost"});
        Template::new(
            json!({"Resources": {
                "Function": {
                    "Type": "AWS::Lambda::Function",
                    "Metadata": {"BuildProperties": {"Binary": "payments"}},
                    "Properties": {"LoggingConfig": {"LogGroup": {"Ref": "Log"}}},
                },
                "Filter": {"Type": "AWS::Logs::MetricFilter", "Properties": {
                    "LogGroupName": {"Ref": log},
                    "FilterPattern": "\"lost\"",
                    "MetricTransformations": [{"MetricNamespace": "N", "MetricName": name}],
                }},
                "Alarm": {"Type": "AWS::CloudWatch::Alarm", "Properties": {
                    "Namespace": "N",
                    "MetricName": {"Fn::Sub": metric_of_alarm},
                }},
            }}),
            &[],
        )
    }

    #[test]
    fn a_filter_goes_with_the_function_of_its_log_and_the_alarm_on_its_metric() {
        let found = filters(&template("${AWS::StackName}-Lost", "Log")).unwrap();
        let expected = json!([{
            "function": "payments", "pattern": "\"lost\"", "alarm": "Alarm", "dimension": null,
        }]);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_filter_that_nobody_hears_of_is_an_error() {
        for (metric, log, reason) in [
            ("${AWS::StackName}-Lots", "Log", "nobody hears"),
            ("${AWS::StackName}-Lost", "OtherLog", "no function's"),
        ] {
            let error = filters(&template(metric, log)).unwrap_err();
            assert!(format!("{error:#}").contains(reason), "{error:#}");
        }
    }
}
