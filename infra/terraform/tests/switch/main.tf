# What `cargo xtask verify infra` applies to moto for the switch to a restored table (docs/guide/operate.md): first with
# the module's own table; then, when it has restored that, with the restored one.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
  }
}

variable "is_switched" {
  type        = bool
  default     = false
  description = "Whether the service uses the restored table, which is no resource of this configuration."
}

resource "aws_iam_role" "service" {
  name = "switch-service"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

module "idempotency" {
  source = "../.."

  name                = "switch-idempotency"
  existing_table_name = var.is_switched ? "switch-idempotency-restored" : null
  services = {
    payments = {
      role_name = aws_iam_role.service.name
      scopes    = [["payments"]]
    }
  }
  operator_role_names = [aws_iam_role.service.name]
}
