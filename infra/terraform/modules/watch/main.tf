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

variable "counts_calls" {
  type        = bool
  default     = false
  description = "Whether calls are counted in logs too: of servers, which have no invocations."
}

variable "signals" {
  type        = list(string)
  description = "Namespace, and first part of the names, of the metrics that count lines of logs."
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
  page         = { severity = "page", evaluation_periods = 5, datapoints_to_alarm = 3 }
  ticket       = { severity = "ticket", evaluation_periods = 5, datapoints_to_alarm = 2 }
  ten_a_minute = merge(local.ticket, { threshold = 10 })

  of_function = {
    for prefix, metric in { e = "Errors", i = "Invocations", t = "Throttles" } : prefix => {
      for index, name in var.function_names :
      "${prefix}${index}" => { namespace = "AWS/Lambda", name = metric, dimensions = { FunctionName = name } }
    }
  }
  of_logs = {
    for id, name in { calls = "Calls", errors = "ErrorLines", failed = "Failed" } :
    id => { namespace = var.signals[0], name = "${var.signals[1]}-${name}", dimensions = {} }
  }
  # What failures are compared with.
  calls = merge(local.of_function.i, var.counts_calls ? { calls = local.of_logs.calls } : {})
  sum   = { for name, metrics in merge(local.of_function, { calls = local.calls }) : name => "SUM([${join(", ", keys(metrics))}])" }

  failed_calls = {
    expression = "100 * SUM([failed]) / ${local.sum.calls}"
    metrics    = merge({ failed = local.of_logs.failed }, local.calls)
  }
  failed_invocations = {
    expression = "100 * ${local.sum.e} / ${local.sum.i}"
    metrics    = merge(local.of_function.e, local.of_function.i)
  }

  of_calls = {
    MostCallsFail = merge(local.page, local.failed_calls, {
      description = "More than half of the calls end without an answer: DynamoDB cannot be reached, or the table or a permission is missing."
      threshold   = 50
    })
    CallsFail = merge(local.ticket, local.failed_calls, {
      description = "More than 5 of 100 calls end without an answer: DynamoDB throttles or cannot be reached."
      threshold   = 5
    })
    ErrorLines = merge(local.ticket, {
      description = "dynamodb-idempotency logs more than 5 errors for 100 calls."
      threshold   = 5
      expression  = "100 * SUM([errors]) / ${local.sum.calls}"
      metrics     = merge({ errors = local.of_logs.errors }, local.calls)
    })
  }
  of_functions = {
    MostInvocationsFail = merge(local.page, local.failed_invocations, {
      description = "More than half of the invocations end with an error."
      threshold   = 50
    })
    InvocationsFail = merge(local.ticket, local.failed_invocations, {
      description = "More than 5 of 100 invocations end with an error: a panic, a timeout, too little memory."
      threshold   = 5
    })
    FunctionThrottles = merge(local.ten_a_minute, {
      description = "Lambda throttles a function: its concurrency is used up."
      expression  = local.sum.t
      metrics     = local.of_function.t
    })
  }
  of_table = {
    Throttles = merge(local.ten_a_minute, {
      description = "DynamoDB throttles requests to the idempotency table: callers get errors, nothing runs."
      expression  = "SUM([reads, writes])"
      metrics = {
        for id, metric in { reads = "ReadThrottleEvents", writes = "WriteThrottleEvents" } :
        id => { namespace = "AWS/DynamoDB", name = metric, dimensions = { TableName = var.table_name } }
      }
    })
    SystemErrors = merge(local.ten_a_minute, {
      description = "DynamoDB answers requests to the idempotency table with server errors (HTTP 5xx)."
      expression  = "SUM([gets, puts, updates, transactions])"
      metrics = {
        for id, operation in { gets = "GetItem", puts = "PutItem", updates = "UpdateItem", transactions = "TransactWriteItems" } :
        id => { namespace = "AWS/DynamoDB", name = "SystemErrors", dimensions = { TableName = var.table_name, Operation = operation } }
      }
    })
  }
}

output "alarms" {
  description = "The alarms on an expression of metrics of a minute, by their names."
  value = merge(
    local.of_table,
    { for name, alarm in local.of_calls : name => alarm if length(local.calls) > 0 },
    { for name, alarm in local.of_functions : name => alarm if length(var.function_names) > 0 },
  )
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
