locals {
  region = split(":", local.table_arn)[3]

  graphs = [
    {
      title = "Functions"
      metrics = flatten([
        for function in var.functions : [
          for metric in module.contract.dashboard.functions :
          { path = ["AWS/Lambda", metric, "FunctionName", function.function_name] }
        ]
      ])
    },
    {
      title = "Idempotency table"
      metrics = [
        for metric in module.contract.dashboard.table : { path = ["AWS/DynamoDB", metric, "TableName", local.table_name] }
      ]
    },
    {
      title = "How calls ended (but for first runs)"
      metrics = [
        for outcome in module.contract.dashboard.outcomes : { path = [local.namespace, "${var.name}-Outcomes", "outcome", outcome] }
      ]
    },
  ]
}

resource "aws_cloudwatch_dashboard" "this" {
  dashboard_name = "${var.name}-${local.region}"

  dashboard_body = jsonencode({
    widgets = [
      for index, graph in local.graphs : {
        type   = "metric"
        x      = 12 * (index % 2)
        y      = 6 * floor(index / 2)
        width  = 12
        height = 6
        properties = {
          title   = graph.title
          region  = local.region
          view    = "timeSeries"
          stat    = "Sum"
          period  = 60
          metrics = graph.metrics[*].path
        }
      }
    ]
  })
}
