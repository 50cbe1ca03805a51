# What the crate needs of AWS, as plain values: no provider, no resource. The tests of
# infra/cdk/test/terraform.test.ts hold it against infra/contract.json and docs/signals.md.

terraform {
  required_version = ">= 1.9"
}

variable "table_arn" {
  type        = string
  default     = "arn:*:dynamodb:*:*:table/*"
  description = "The idempotency table that the policies are about. Not needed for what is said of no table in particular."
}

variable "scopes" {
  type        = list(list(string))
  default     = []
  description = "The scopes of a function, each as its segments: [[\"payments\"], [\"refunds\", \"v2\"]]."

  validation {
    condition     = alltrue([for scope in var.scopes : try(scope[0], "") != ""])
    error_message = "A scope is empty: name the operation."
  }
}

variable "kms_key_arn" {
  type        = string
  default     = null
  description = "The customer managed key that encrypts the table, if there is one."
}

locals {
  actions = [
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
  ]

  # What `preflight()` asks at a function's start, of the table and not of records in it.
  preflight = [
    "dynamodb:DescribeTable",
    "dynamodb:DescribeTimeToLive",
  ]

  # What the command line asks that only looks: `doctor`, `find`, `show`, `stats`, `stuck`, `watch`.
  inspection = [
    "dynamodb:DescribeContinuousBackups",
    "dynamodb:DescribeTable",
    "dynamodb:DescribeTimeToLive",
    "dynamodb:GetItem",
    "dynamodb:Scan",
  ]

  # What `release` asks beyond that.
  release = ["dynamodb:UpdateItem"]

  # In each segment `%`, `#` and `/` are percent-encoded, as in src/key.rs; then what IAM would read
  # as a wildcard or a variable is escaped.
  prefixes = [
    for scope in var.scopes : replace(
      join("/", [for segment in scope : replace(replace(replace(segment, "%", "%25"), "#", "%23"), "/", "%2F")]),
      "/([*?$])/",
      "$$${$${1}}",
    )
  ]
  leading_keys = flatten([for prefix in local.prefixes : ["${prefix}#*", "${prefix}/*#*"]])

  records = {
    Effect   = "Allow"
    Action   = local.actions
    Resource = var.table_arn
    Condition = {
      "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = local.leading_keys }
      # `ForAllValues` holds of a request without any key too.
      Null = { "dynamodb:LeadingKeys" = "false" }
    }
  }

  # What DynamoDB asks of the caller of a table with a customer managed key, and only through it.
  key = [
    for arn in compact([var.kms_key_arn]) : {
      Effect = "Allow"
      Action = [
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:Encrypt",
        "kms:GenerateDataKey",
        "kms:GenerateDataKeyWithoutPlaintext",
        "kms:ReEncryptFrom",
        "kms:ReEncryptTo",
      ]
      Resource  = arn
      Condition = { StringEquals = { "kms:ViaService" = "dynamodb.${split(":", var.table_arn)[3]}.amazonaws.com" } }
    }
  ]

  looks    = { Effect = "Allow", Action = local.inspection, Resource = var.table_arn }
  releases = { Effect = "Allow", Action = local.release, Resource = var.table_arn }
  starts   = { Effect = "Allow", Action = local.preflight, Resource = var.table_arn }

  # What docs/signals.md says to alarm on: a line of the log with one of these words counts.
  signals = {
    LeaseLost = {
      terms       = ["lease_lost", "the lease was lost", "the lease is lost"]
      description = "A handler outlived its lease and another one owned its key: the operation may have run twice."
    }
    LeaseExpired = {
      terms       = ["lease_expired", "the lease ended while the handler ran"]
      description = "A handler was stopped at the end of its lease: its effect may have happened in part."
    }
    Unconfirmed = {
      terms       = ["unconfirmed", "its completion could not be confirmed"]
      description = "A handler ran and DynamoDB did not confirm its end: it may run again when its lease is over."
    }
    FailOpen = {
      terms       = ["fail_open", "the handler runs WITHOUT idempotency"]
      description = "DynamoDB was out of reach and handlers ran without a record: nothing guarded them."
    }
    SwitchedOff = {
      terms       = ["idempotency is switched OFF", "it is switched off"]
      description = "Idempotency is switched off: handlers run for every repeat."
    }
    StoreError = {
      terms       = ["store_error"]
      description = "Calls ended with DynamoDB out of reach: nothing ran, or a transaction is in doubt; callers get errors."
    }
    ErrorLines = {
      terms       = ["ERROR"]
      description = "A function has logged an error."
    }
  }
}

output "table" {
  description = "The table that `Idempotency::create_table` makes, as CloudFormation writes it."
  value = {
    AttributeDefinitions    = [{ AttributeName = "pk", AttributeType = "S" }]
    KeySchema               = [{ AttributeName = "pk", KeyType = "HASH" }]
    BillingMode             = "PAY_PER_REQUEST"
    TimeToLiveSpecification = { AttributeName = "expires_at", Enabled = true }
  }
}

output "function_policy" {
  description = "What a function may: its records, and to look at the table when it starts. Null without a scope: a grant for every record is no least privilege."
  value = length(var.scopes) == 0 ? null : jsonencode({
    Version   = "2012-10-17"
    Statement = concat([local.records, local.starts], local.key)
  })
}

output "inspection_policy" {
  description = "What an operator may who only looks."
  value       = jsonencode({ Version = "2012-10-17", Statement = concat([local.looks], local.key) })
}

output "release_policy" {
  description = "The same, and to release a key."
  value       = jsonencode({ Version = "2012-10-17", Statement = concat([local.looks, local.releases], local.key) })
}

output "signals" {
  description = "What is counted in functions' logs: by its name the filter pattern, and what it means."
  value = {
    for name, signal in local.signals : name => {
      # By words, not by JSON path: both log formats of Lambda have them.
      pattern     = join(" ", [for term in signal.terms : "${length(signal.terms) > 1 ? "?" : ""}\"${term}\""])
      description = signal.description
    }
  }
}

output "outcomes_pattern" {
  description = "Lines that tell how a call ended, in logs that are JSON."
  value       = "{ $.fields.outcome = \"*\" }"
}
