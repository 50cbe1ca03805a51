//! What the template counts in the functions' logs, and the alarms on it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::template::Template;

/// Each metric filter with the binary in whose log it counts, and the alarms on its metric; one without
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
    let alarms = template.resources("AWS::CloudWatch::Alarm");
    let alarms = alarms.filter_map(|(id, alarm)| on(&alarm["Properties"], counts, id));
    let alarms: Vec<_> = alarms.collect();
    let dimension = counts["Dimensions"][0]["Value"].as_str();
    ensure!(alarms.is_empty() == dimension.is_some(), "no alarm is on what it counts");
    let pattern = filter["FilterPattern"].as_str().context("it has no pattern")?;
    Ok(json!({
        "function": owner(template, &filter["LogGroupName"]).context("its log is no function's")?,
        "pattern": pattern,
        "alarms": alarms,
        "dimension": dimension,
    }))
}

/// The alarm, if it is on this metric: on its sum, or on its share of the invocations.
fn on(alarm: &Value, counts: &Value, id: &str) -> Option<Value> {
    let is_it = |metric: &Value| {
        (&metric["Namespace"], &metric["MetricName"])
            == (&counts["MetricNamespace"], &counts["MetricName"])
    };
    let metrics = alarm["Metrics"].as_array().map_or(&[][..], Vec::as_slice);
    let is_share = metrics.iter().any(|metric| is_it(&metric["MetricStat"]["Metric"]));
    let described = json!({"name": id, "threshold": alarm["Threshold"], "is_share": is_share});
    (is_share || is_it(alarm)).then_some(described)
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
        let name = json!({"Fn::Sub": "${AWS::StackName}/Lost"});
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
                    "Threshold": 0,
                }},
            }}),
            &[],
        )
    }

    #[test]
    fn a_filter_goes_with_the_function_of_its_log_and_the_alarm_on_its_metric() {
        let found = filters(&template("${AWS::StackName}/Lost", "Log")).unwrap();
        let alarm = json!({"name": "Alarm", "threshold": 0, "is_share": false});
        let expected = json!([{
            "function": "payments", "pattern": "\"lost\"", "alarms": [alarm], "dimension": null,
        }]);
        assert_eq!(found, expected);
    }

    #[test]
    fn an_alarm_may_be_on_the_share_of_what_a_filter_counts() {
        let counts = json!({"MetricNamespace": "N", "MetricName": "Failed"});
        let metric = json!({"Namespace": "N", "MetricName": "Failed"});
        let alarm = json!({"Threshold": 5, "Metrics": [
            {"Id": "result", "Expression": "100 * failed / i0"},
            {"Id": "failed", "MetricStat": {"Metric": metric}},
        ]});
        let found = on(&alarm, &counts, "CallsFail");
        assert_eq!(found, Some(json!({"name": "CallsFail", "threshold": 5, "is_share": true})));
        assert_eq!(on(&json!({"Metrics": []}), &counts, "Other"), None);
    }

    #[test]
    fn a_filter_without_an_alarm_is_an_error() {
        for (metric, log, reason) in [
            ("${AWS::StackName}-Lots", "Log", "no alarm"),
            ("${AWS::StackName}/Lost", "OtherLog", "no function's"),
        ] {
            let error = filters(&template(metric, log)).unwrap_err();
            assert!(format!("{error:#}").contains(reason), "{error:#}");
        }
    }
}
