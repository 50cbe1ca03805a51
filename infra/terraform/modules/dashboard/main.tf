# The dashboard's body, as a plain value: no provider, no resource. The tests of
# infra/cdk/test/terraform.test.ts hold it against the dashboard of the CDK app.

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

output "body" {
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
