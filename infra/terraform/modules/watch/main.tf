# What is watched of the table and the functions, as plain values: no provider, no resource. The tests of
# infra/cdk/test/terraform.test.ts hold them against the alarms and the dashboard of the CDK.

terraform {
  required_version = ">= 1.9"
}

variable "region" {
  type        = string
  description = "Where the metrics are."
}

variable "table_name" {
  type        = string
  description = "The idempotency table."
}

variable "function_names" {
  type        = list(string)
  description = "The functions that use it."
}

variable "outcomes" {
  type        = list(string)
  description = "Namespace and name of the metric that counts how calls ended."
}

locals {
  functions = flatten([
    for name in var.function_names : [
      for metric in ["Invocations", "Errors"] : { path = ["AWS/Lambda", metric, "FunctionName", name] }
    ]
  ])
  durations = [for name in var.function_names : { path = ["AWS/Lambda", "Duration", "FunctionName", name] }]
  table = [
    for metric in [
      "ConsumedWriteCapacityUnits",
      "ConsumedReadCapacityUnits",
      "ConditionalCheckFailedRequests",
      "ReadThrottleEvents",
      "WriteThrottleEvents",
    ] : { path = ["AWS/DynamoDB", metric, "TableName", var.table_name] }
  ]
  outcomes = [
    for outcome in [
      "first",
      "replay",
      "in_progress",
      "mismatch",
      "takeover",
      "released",
      "lease_lost",
      "lease_expired",
      "unconfirmed",
      "store_error",
      "error",
    ] : { path = concat(var.outcomes, ["outcome", outcome]) }
  ]
  replays = [
    { path = [{ label = "Replays", expression = "100 * FILL(replays, 0) / SUM([first, replays])" }] },
    { path = concat(var.outcomes, ["outcome", "first"], [{ id = "first", visible = false }]) },
    { path = concat(var.outcomes, ["outcome", "replay"], [{ id = "replays", visible = false }]) },
  ]

  graphs = [
    { title = "Functions", stat = "Sum", metrics = local.functions[*].path },
    { title = "Duration (ms, p99)", stat = "p99", metrics = local.durations[*].path },
    { title = "Idempotency table", stat = "Sum", metrics = local.table[*].path },
    { title = "How calls ended", stat = "Sum", metrics = local.outcomes[*].path },
    { title = "Replays in 100 first runs and replays", stat = "Sum", metrics = local.replays[*].path },
  ]
}

locals {
  # Of five minutes, two: what fixes itself at once wakes nobody.
  two_of_five = { evaluation_periods = 5, datapoints_to_alarm = 2 }
  at_once     = { evaluation_periods = 1, datapoints_to_alarm = 1 }

  of_table = {
    Throttles = merge(local.two_of_five, {
      description = "DynamoDB throttles requests to the idempotency table: callers get errors, nothing runs."
      metrics = [
        for metric in ["ReadThrottleEvents", "WriteThrottleEvents"] :
        { namespace = "AWS/DynamoDB", name = metric, dimensions = { TableName = var.table_name } }
      ]
    })
    SystemErrors = merge(local.two_of_five, {
      description = "DynamoDB answers requests to the idempotency table with errors of its own (HTTP 5xx)."
      metrics = [
        for operation in ["GetItem", "PutItem", "UpdateItem", "TransactWriteItems"] :
        { namespace = "AWS/DynamoDB", name = "SystemErrors", dimensions = { TableName = var.table_name, Operation = operation } }
      ]
    })
  }
  of_functions = {
    FunctionThrottles = merge(local.two_of_five, {
      description = "Lambda throttles a function: its concurrency is used up."
      metrics = [
        for name in var.function_names :
        { namespace = "AWS/Lambda", name = "Throttles", dimensions = { FunctionName = name } }
      ]
    })
    FunctionErrors = merge(local.at_once, {
      description = "Invocations of a function ended with an error."
      metrics = [
        for name in var.function_names :
        { namespace = "AWS/Lambda", name = "Errors", dimensions = { FunctionName = name } }
      ]
    })
  }
}

output "alarms" {
  description = "The alarms on a sum of metrics, by their names: more than 0 in a minute."
  value       = merge(local.of_table, { for name, alarm in local.of_functions : name => alarm if length(var.function_names) > 0 })
}

output "dashboard" {
  description = "The functions and the table, how calls ended, and the share of replays."
  value = jsonencode({
    widgets = [
      for index, graph in local.graphs : {
        type   = "metric"
        x      = 12 * (index % 2)
        y      = 6 * floor(index / 2)
        width  = 12
        height = 6
        properties = {
          title   = graph.title
          region  = var.region
          view    = "timeSeries"
          stat    = graph.stat
          period  = 60
          metrics = graph.metrics
        }
      }
    ]
  })
}
