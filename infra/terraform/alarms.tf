# What to be told of: docs/signals.md, and docs/deploy.md under "What is watched". A store that cannot
# be reached is an answer of HTTP 5xx, and no error of the function: watch your API's 5xx as well.

locals {
  namespace = "DynamoDbIdempotency"

  # Each signal in each function's log.
  filters = {
    for pair in setproduct(keys(module.contract.signals), keys(var.functions)) :
    "${pair[0]}-${pair[1]}" => { signal = pair[0], log_group_name = var.functions[pair[1]].log_group_name }
  }

  # Sums of one metric over several dimensions, two minutes of five.
  of_table = {
    Throttles = {
      description = "DynamoDB throttles requests to the idempotency table: callers get errors, nothing runs."
      metrics = [
        for metric in ["ReadThrottleEvents", "WriteThrottleEvents"] :
        { namespace = "AWS/DynamoDB", name = metric, dimensions = { TableName = local.table_name } }
      ]
    }
    SystemErrors = {
      description = "DynamoDB answers requests to the idempotency table with errors of its own (HTTP 5xx)."
      metrics = [
        for operation in ["GetItem", "PutItem", "UpdateItem", "TransactWriteItems"] :
        { namespace = "AWS/DynamoDB", name = "SystemErrors", dimensions = { TableName = local.table_name, Operation = operation } }
      ]
    }
  }
  of_functions = {
    FunctionThrottles = {
      description = "Lambda throttles a function: its concurrency is used up."
      metrics = [
        for function in var.functions :
        { namespace = "AWS/Lambda", name = "Throttles", dimensions = { FunctionName = function.function_name } }
      ]
    }
    FunctionErrors = {
      description = "Invocations of a function ended with an error."
      metrics = [
        for function in var.functions :
        { namespace = "AWS/Lambda", name = "Errors", dimensions = { FunctionName = function.function_name } }
      ]
    }
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
  for_each = merge(local.of_table, length(var.functions) > 0 ? local.of_functions : {})

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  # Of five minutes, two; an invocation's error counts at once.
  evaluation_periods  = each.key == "FunctionErrors" ? 1 : 5
  datapoints_to_alarm = each.key == "FunctionErrors" ? 1 : 2
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
