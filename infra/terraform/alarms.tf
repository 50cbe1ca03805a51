# docs/guide/deploy.md, "Alarms". To Lambda, an answer of HTTP 5xx is a success: watch your API's 5xx as well.

locals {
  namespace  = "DynamoDbIdempotency"
  log_groups = { for name, service in var.services : name => service.log_group_name if service.log_group_name != null }
  actions    = { page = var.page_actions, ticket = var.ticket_actions }

  # What pages is counted in one metric of all services, the rest in each service's own. Servers have no
  # invocations: their calls are counted in their logs.
  filters = {
    for pair in setproduct(keys(module.contract.patterns), keys(local.log_groups)) : "${pair[0]}/${pair[1]}" => {
      signal         = pair[0]
      metric         = contains(keys(module.contract.pages), pair[0]) ? pair[0] : "${pair[1]}/${pair[0]}"
      log_group_name = local.log_groups[pair[1]]
    }
    if pair[0] != "Calls" || var.services[pair[1]].function_name == null
  }
}

resource "aws_cloudwatch_log_metric_filter" "signal" {
  for_each = local.filters

  name           = "${var.name}/${each.key}"
  log_group_name = each.value.log_group_name
  pattern        = module.contract.patterns[each.value.signal]

  metric_transformation {
    namespace     = local.namespace
    name          = "${var.name}/${each.value.metric}"
    value         = "1"
    default_value = "0"
  }
}

resource "aws_cloudwatch_metric_alarm" "page" {
  for_each = length(local.log_groups) > 0 ? module.contract.pages : {}

  alarm_name          = "${var.name}/${each.key}"
  alarm_description   = each.value
  namespace           = local.namespace
  metric_name         = "${var.name}/${each.key}"
  statistic           = "Sum"
  period              = 60
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.page_actions
  ok_actions          = var.page_actions
}

resource "aws_cloudwatch_metric_alarm" "expression" {
  for_each = module.watch.alarms

  alarm_name          = "${var.name}/${each.key}"
  alarm_description   = each.value.description
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  evaluation_periods  = each.value.evaluation_periods
  datapoints_to_alarm = each.value.datapoints_to_alarm
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.actions[each.value.severity]
  ok_actions          = local.actions[each.value.severity]

  metric_query {
    id          = "result"
    expression  = each.value.expression
    label       = each.key
    return_data = true
  }

  dynamic "metric_query" {
    for_each = each.value.metrics

    content {
      id = metric_query.key

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

# How calls end, for the dashboard.
resource "aws_cloudwatch_log_metric_filter" "outcomes" {
  for_each = local.log_groups

  name           = "${var.name}/Outcomes/${each.key}"
  log_group_name = each.value
  pattern        = module.contract.outcomes_pattern

  metric_transformation {
    namespace  = local.namespace
    name       = "${var.name}/Outcomes"
    value      = "1"
    dimensions = { outcome = "$.fields.outcome" }
  }
}
