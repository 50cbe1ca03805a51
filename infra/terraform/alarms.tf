# What to be told of: docs/signals.md, and docs/guide/deploy.md under "Alarms". A store that cannot
# be reached is an answer of HTTP 5xx, and no error of the function: watch your API's 5xx as well.

locals {
  namespace = "DynamoDbIdempotency"

  # Each signal in each function's log.
  filters = {
    for pair in setproduct(keys(module.contract.signals), keys(var.functions)) :
    "${pair[0]}-${pair[1]}" => { signal = pair[0], log_group_name = var.functions[pair[1]].log_group_name }
  }
}

resource "aws_cloudwatch_log_metric_filter" "signal" {
  for_each = local.filters

  name           = "${var.name}-${each.key}"
  log_group_name = each.value.log_group_name
  pattern        = module.contract.signals[each.value.signal].pattern

  metric_transformation {
    namespace     = local.namespace
    name          = "${var.name}-${each.value.signal}"
    value         = "1"
    default_value = "0"
  }
}

resource "aws_cloudwatch_metric_alarm" "signal" {
  for_each = module.contract.signals

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = local.namespace
  metric_name         = "${var.name}-${each.key}"
  statistic           = "Sum"
  period              = 60
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
}

resource "aws_cloudwatch_metric_alarm" "sum" {
  for_each = module.watch.alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = each.value.evaluation_periods
  datapoints_to_alarm = each.value.datapoints_to_alarm
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions

  metric_query {
    id          = "sum"
    expression  = "SUM([${join(", ", [for index, _ in each.value.metrics : "m${index}"])}])"
    label       = each.key
    return_data = true
  }

  dynamic "metric_query" {
    for_each = each.value.metrics

    content {
      id = "m${metric_query.key}"

      metric {
        namespace   = metric_query.value.namespace
        metric_name = metric_query.value.name
        dimensions  = metric_query.value.dimensions
        period      = 60
        stat        = "Sum"
      }
    }
  }
}

# How calls end, for the dashboard, of functions that log as JSON.
resource "aws_cloudwatch_log_metric_filter" "outcomes" {
  for_each = var.functions

  name           = "${var.name}-Outcomes-${each.key}"
  log_group_name = each.value.log_group_name
  pattern        = module.contract.outcomes_pattern

  metric_transformation {
    namespace  = local.namespace
    name       = "${var.name}-Outcomes"
    value      = "1"
    dimensions = { outcome = "$.fields.outcome" }
  }
}
