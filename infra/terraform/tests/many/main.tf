# What `cargo xtask verify infra` applies to moto: the example, many functions on one table, several services on one role,
# which is inspector, operator and restorer too, a second instance of the module for the same role and table, and two
# instances whose names, joined by `-`, would be those of the first one.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
  }
}

variable "bundle" {
  type        = string
  description = "The zip file that the example deploys."
}

variable "functions" {
  type        = number
  default     = 7
  description = "How many functions use the table."
}

locals {
  names = [for index in range(var.functions) : "function-${index}"]
  # With `-`, `many` and its service `a-service-b` would have the policy, metrics and queries of `many-service-a` and
  # its service `b`, and an alarm of the service `a-Throttles` would be the one on the table of `many-CallsFail-a`.
  servers = ["a-service-b", "service-a-b", "a-Throttles"]
  others  = ["many-service-a", "many-CallsFail-a"]
}

resource "aws_iam_role" "shared" {
  name = "shared"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_cloudwatch_log_group" "of" {
  for_each = toset(concat(local.names, local.servers, local.others))

  name = each.key
}

module "idempotency" {
  source = "../.."

  name                = "many"
  deletion_protection = false
  services = merge(
    {
      for name in local.names : name => {
        function_name  = name
        role_name      = aws_iam_role.shared.name
        log_group_name = aws_cloudwatch_log_group.of[name].name
        scopes         = [[name]]
      }
    },
    {
      for name in local.servers : name => {
        role_name      = aws_iam_role.shared.name
        log_group_name = aws_cloudwatch_log_group.of[name].name
        scopes         = [[name]]
      }
    },
  )
  inspector_role_names = [aws_iam_role.shared.name]
  operator_role_names  = [aws_iam_role.shared.name]
  restorer_role_names  = [aws_iam_role.shared.name]
}

module "second" {
  source = "../.."

  name                = "second-idempotency"
  existing_table_name = module.idempotency.table_name
  services = {
    function-0 = {
      role_name = aws_iam_role.shared.name
      scopes    = [["second"]]
    }
  }
  operator_role_names = [aws_iam_role.shared.name]

  # The module reads the table.
  depends_on = [module.idempotency]
}

module "other" {
  source   = "../.."
  for_each = toset(local.others)

  name                = each.key
  deletion_protection = false
  services = {
    b = {
      role_name      = aws_iam_role.shared.name
      log_group_name = aws_cloudwatch_log_group.of[each.key].name
      scopes         = [[each.key]]
    }
  }
}

module "example" {
  source = "../../examples/payments"

  bundle              = var.bundle
  deletion_protection = false
  kms_key_arn         = "arn:aws:kms:eu-west-1:111122223333:key/00000000-0000-0000-0000-000000000000"
  page_topic_arn      = "arn:aws:sns:eu-west-1:111122223333:pages"
  ticket_topic_arn    = "arn:aws:sns:eu-west-1:111122223333:tickets"
}

output "version_alarm_names" {
  value = module.idempotency.version_alarm_names
}
