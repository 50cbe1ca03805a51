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

variable "services" {
  type        = map(object({ function_name = optional(string), has_log = bool }))
  description = "The functions and servers that use it: by their names, the name of a function, and whether lines of its log are counted."
}

variable "signals" {
  type        = list(string)
  description = "Namespace of the metrics that count lines of logs, and the first part of their names; a service's name follows."
}

variable "outcomes" {
  type        = list(string)
  description = "Namespace and name of the metric that counts how calls ended."
}

locals {
  function_names = [for service in var.services : service.function_name if service.function_name != null]
  functions = flatten([
    for name in local.function_names : [
      for metric in ["Invocations", "Errors"] : { path = ["AWS/Lambda", metric, "FunctionName", name] }
    ]
  ])
  durations = [for name in local.function_names : { path = ["AWS/Lambda", "Duration", "FunctionName", name] }]
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
      "retry",
      "takeover",
      "replay",
      "replay_failure",
      "reconciled",
      "reconcile_failed",
      "in_progress",
      "mismatch",
      "abandoned",
      "released",
      "failed",
      "lease_lost",
      "lease_expired",
      "unconfirmed",
      "dropped",
      "fail_open",
      "unprotected",
      "not_written",
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
  page         = { severity = "page", evaluation_periods = 5 }
  ticket       = { severity = "ticket", evaluation_periods = 5 }
  most         = { threshold = 50, datapoints_to_alarm = 3 }
  some         = { threshold = 5, datapoints_to_alarm = 2 }
  ten_a_minute = merge(local.ticket, { threshold = 10, datapoints_to_alarm = 2 })

  # An alarm of CloudWatch is on ten metrics at most, so each service has alarms of its own.
  of_lambda = {
    for name, service in var.services : name => {
      for id, metric in { calls = "Invocations", errors = "Errors", throttles = "Throttles" } :
      id => { namespace = "AWS/Lambda", name = metric, dimensions = { FunctionName = service.function_name } }
    }
  }
  of_log = {
    for name, service in var.services : name => {
      for id, signal in { calls = "Calls", failed = "Failed", unresolved = "Unresolved", dropped = "Dropped", errors = "ErrorLines" } :
      id => { namespace = var.signals[0], name = "${var.signals[1]}/${name}/${signal}", dimensions = {} }
    }
  }
  # What failures are compared with: a server's calls are counted in its log.
  calls = {
    for name, service in var.services :
    name => service.function_name == null ? local.of_log[name].calls : local.of_lambda[name].calls
  }
  shares = {
    for name, service in var.services : name => {
      for part in ["failed", "unresolved", "dropped", "errors"] : part => {
        expression = "100 * ${part} / calls"
        metrics    = { (part) = local.of_log[name][part], calls = local.calls[name] }
      }
    }
  }
  of_calls = [
    for name, service in var.services : {
      "MostCallsFail/${name}" = merge(local.page, local.most, local.shares[name].failed, {
        description = "${name}: more than half of the calls end without an answer: DynamoDB cannot be reached, or the table or a permission is missing. See docs/signals.md#outcomes."
      })
      "CallsFail/${name}" = merge(local.ticket, local.some, local.shares[name].failed, {
        description = "${name}: more than 5 of 100 calls end without an answer: DynamoDB throttles or cannot be reached. See docs/signals.md#outcomes."
      })
      "MostUnresolved/${name}" = merge(local.page, local.most, local.shares[name].unresolved, {
        description = "${name}: more than half of the calls find or leave an operation that is not completed: its effect must be checked. See docs/guide/operate.md#a-key-is-stuck."
      })
      "Unresolved/${name}" = merge(local.ticket, local.some, local.shares[name].unresolved, {
        description = "${name}: more than 5 of 100 calls find or leave an operation that is not completed: its effect must be checked. See docs/guide/operate.md#a-key-is-stuck."
      })
      "CallsDropped/${name}" = merge(local.page, local.some, local.shares[name].dropped, {
        description = "${name}: more than 5 of 100 calls are dropped while their handler runs: effects may be repeated when the leases end. See docs/signals.md#outcomes."
      })
      "ErrorLines/${name}" = merge(local.ticket, local.some, local.shares[name].errors, {
        description = "${name}: dynamodb-idempotency logs more than 5 errors for 100 calls. See docs/signals.md#warnings-and-errors."
      })
    } if service.has_log
  ]
  failed_invocations = {
    for name, service in var.services : name => {
      expression = "100 * errors / calls"
      metrics    = { errors = local.of_lambda[name].errors, calls = local.of_lambda[name].calls }
    }
  }
  of_functions = [
    for name, service in var.services : {
      "MostInvocationsFail/${name}" = merge(local.page, local.most, local.failed_invocations[name], {
        description = "${name}: more than half of the invocations end with an error. See docs/guide/operate.md#failed-invocations."
      })
      "InvocationsFail/${name}" = merge(local.ticket, local.some, local.failed_invocations[name], {
        description = "${name}: more than 5 of 100 invocations end with an error: a panic, a timeout, too little memory. See docs/guide/operate.md#failed-invocations."
      })
      "FunctionThrottles/${name}" = merge(local.ten_a_minute, {
        description = "${name}: Lambda throttles the function: its concurrency is used up. See docs/guide/scale.md#limits."
        expression  = "throttles"
        metrics     = { throttles = local.of_lambda[name].throttles }
      })
    } if service.function_name != null
  ]
  of_table = {
    Throttles = merge(local.ten_a_minute, {
      description = "DynamoDB throttles requests to the idempotency table: callers get errors, nothing runs. See docs/guide/scale.md#limits."
      expression  = "SUM([reads, writes])"
      metrics = {
        for id, metric in { reads = "ReadThrottleEvents", writes = "WriteThrottleEvents" } :
        id => { namespace = "AWS/DynamoDB", name = metric, dimensions = { TableName = var.table_name } }
      }
    })
    SystemErrors = merge(local.ten_a_minute, {
      description = "DynamoDB answers requests to the idempotency table with server errors (HTTP 5xx). See docs/guide/faq.md#kinds-of-errors."
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
  value       = merge(concat([local.of_table], local.of_calls, local.of_functions)...)
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
