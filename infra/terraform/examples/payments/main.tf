# The payments API of lambda-example, with a separate table. Build the function first:
# cargo lambda build --release --arm64 --output-format zip -p lambda-example --bin payments

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
  }
}

variable "name" {
  type        = string
  default     = "payments"
  description = "What everything is called."
}

variable "bundle" {
  type        = string
  default     = "../../../../target/lambda/payments/bootstrap.zip"
  description = "The function, zipped."
}

variable "page_topic_arn" {
  type        = string
  default     = null
  description = "The SNS topic for pages, and their end."
}

variable "ticket_topic_arn" {
  type        = string
  default     = null
  description = "The SNS topic for tickets, and their end."
}

variable "log_retention_days" {
  type        = number
  default     = 30
  description = "Days until log events are deleted."
}

variable "kms_key_arn" {
  type        = string
  default     = null
  description = "The customer managed key that encrypts tables and logs. Its policy must delegate to IAM, and let CloudWatch Logs use it."
}

variable "deletion_protection" {
  type        = bool
  default     = true
  description = "Whether DynamoDB refuses to delete the tables."
}

locals {
  page_actions   = compact([var.page_topic_arn])
  ticket_actions = compact([var.ticket_topic_arn])
  # More than half of the answers, and more than 5 in 100.
  answers_fail = {
    MostAnswersFail = { threshold = 50, datapoints = 3, actions = local.page_actions }
    AnswersFail     = { threshold = 5, datapoints = 2, actions = local.ticket_actions }
  }
  may_log = {
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = "${aws_cloudwatch_log_group.payments.arn}:*"
      },
      {
        Effect   = "Allow"
        Action   = ["xray:PutTelemetryRecords", "xray:PutTraceSegments"]
        Resource = "*"
      },
    ]
  }
  may_pay = {
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"]
      Resource = aws_dynamodb_table.payments.arn
    }]
  }
}

module "idempotency" {
  source = "../.."

  name = "${var.name}-idempotency"
  services = {
    payments = {
      function_name  = aws_lambda_function.payments.function_name
      role_name      = aws_iam_role.payments.name
      log_group_name = aws_cloudwatch_log_group.payments.name
      scopes         = [["payments"], ["transfers"]]
    }
  }
  deletion_protection  = var.deletion_protection
  kms_key_arn          = var.kms_key_arn
  inspector_role_names = [aws_iam_role.person["inspector"].name]
  operator_role_names  = [aws_iam_role.person["operator"].name]
  restorer_role_names  = [aws_iam_role.person["restorer"].name]
  page_actions         = local.page_actions
  ticket_actions       = local.ticket_actions
}

data "aws_caller_identity" "this" {}

data "aws_partition" "this" {}

# For the command line. Who of the account may take these roles, its own policies say.
resource "aws_iam_role" "person" {
  for_each = toset(["inspector", "operator", "restorer"])

  name = "${var.name}-${each.key}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { AWS = "arn:${data.aws_partition.this.partition}:iam::${data.aws_caller_identity.this.account_id}:root" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_dynamodb_table" "payments" {
  name                        = var.name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "tenant"
  range_key                   = "id"
  deletion_protection_enabled = var.deletion_protection

  attribute {
    name = "tenant"
    type = "S"
  }

  attribute {
    name = "id"
    type = "S"
  }

  point_in_time_recovery {
    enabled = true
  }

  dynamic "server_side_encryption" {
    for_each = compact([var.kms_key_arn])

    content {
      enabled     = true
      kms_key_arn = server_side_encryption.value
    }
  }
}

resource "aws_cloudwatch_log_group" "payments" {
  name              = "/aws/lambda/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
}

resource "aws_cloudwatch_log_group" "access" {
  name              = "/aws/apigateway/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
}

resource "aws_iam_role" "payments" {
  name = "${var.name}-function"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "payments" {
  for_each = { logs-and-traces = local.may_log, payments = local.may_pay }

  name   = each.key
  role   = aws_iam_role.payments.name
  policy = jsonencode(each.value)
}

resource "aws_lambda_function" "payments" {
  function_name    = var.name
  role             = aws_iam_role.payments.arn
  filename         = var.bundle
  source_code_hash = filebase64sha256(var.bundle)
  runtime          = "provided.al2023"
  handler          = "bootstrap"
  architectures    = ["arm64"]
  memory_size      = 512
  # Seconds. Less than its API waits (an HTTP API 30 s): the client gets the timeout error.
  timeout = 25
  publish = true

  environment {
    variables = {
      IDEMPOTENCY_TABLE = module.idempotency.table_name
      PAYMENTS_TABLE    = aws_dynamodb_table.payments.name
    }
  }

  tracing_config {
    mode = "Active"
  }

  logging_config {
    log_format = "JSON"
    log_group  = aws_cloudwatch_log_group.payments.name
  }
}

resource "aws_lambda_alias" "live" {
  name             = "live"
  function_name    = aws_lambda_function.payments.function_name
  function_version = aws_lambda_function.payments.version
}

resource "aws_apigatewayv2_api" "payments" {
  name          = var.name
  protocol_type = "HTTP"
}

resource "aws_apigatewayv2_integration" "payments" {
  api_id                 = aws_apigatewayv2_api.payments.id
  integration_type       = "AWS_PROXY"
  integration_uri        = aws_lambda_alias.live.invoke_arn
  payload_format_version = "2.0"
}

resource "aws_apigatewayv2_route" "payments" {
  api_id             = aws_apigatewayv2_api.payments.id
  route_key          = "$default"
  authorization_type = "AWS_IAM"
  target             = "integrations/${aws_apigatewayv2_integration.payments.id}"
}

resource "aws_apigatewayv2_stage" "payments" {
  api_id      = aws_apigatewayv2_api.payments.id
  name        = "$default"
  auto_deploy = true

  access_log_settings {
    destination_arn = aws_cloudwatch_log_group.access.arn
    format = jsonencode({
      requestId = "$context.requestId"
      ip        = "$context.identity.sourceIp"
      time      = "$context.requestTime"
      method    = "$context.httpMethod"
      path      = "$context.path"
      status    = "$context.status"
      latency   = "$context.responseLatency"
      error     = "$context.integrationErrorMessage"
    })
  }

  default_route_settings {
    throttling_rate_limit  = 1000
    throttling_burst_limit = 1000
  }
}

resource "aws_lambda_permission" "payments" {
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_alias.live.function_name
  qualifier     = aws_lambda_alias.live.name
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.payments.execution_arn}/*/$default"
}

resource "aws_cloudwatch_metric_alarm" "answers_fail" {
  for_each = local.answers_fail

  alarm_name          = "${var.name}/${each.key}"
  alarm_description   = "More than ${each.value.threshold} of 100 of the payments API's answers are HTTP 5xx. See docs/guide/faq.md#kinds-of-errors."
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  evaluation_periods  = 5
  datapoints_to_alarm = each.value.datapoints
  treat_missing_data  = "notBreaching"
  alarm_actions       = each.value.actions
  ok_actions          = each.value.actions

  metric_query {
    id          = "result"
    expression  = "100 * errors / requests"
    label       = each.key
    return_data = true
  }

  dynamic "metric_query" {
    for_each = { errors = { name = "5xx", stat = "Sum" }, requests = { name = "Count", stat = "SampleCount" } }

    content {
      id = metric_query.key

      metric {
        namespace   = "AWS/ApiGateway"
        metric_name = metric_query.value.name
        dimensions  = { ApiId = aws_apigatewayv2_api.payments.id }
        period      = 60
        stat        = metric_query.value.stat
      }
    }
  }
}

output "url" {
  description = "The payments API. Requests must be signed (SigV4, service execute-api)."
  value       = aws_apigatewayv2_api.payments.api_endpoint
}

output "idempotency_table_name" {
  description = "For the command line, and TABLE in docs/guide/operate.md."
  value       = module.idempotency.table_name
}

output "function_names" {
  description = "FUNCTIONS in docs/guide/operate.md."
  value       = aws_lambda_function.payments.function_name
}

output "role_arns" {
  description = "The roles for the command line: to look, to release keys too, and to restore the table."
  value       = { for name, role in aws_iam_role.person : name => role.arn }
}
