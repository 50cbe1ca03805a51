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
  description = "The scopes of a function or server, each as its segments: [[\"payments\"], [\"refunds\", \"v2\"]]."

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

  # What a restore asks of the table, and of the table that replaces it (docs/guide/operate.md).
  restore = [
    "dynamodb:BatchWriteItem",
    "dynamodb:DeleteItem",
    "dynamodb:DescribeContinuousBackups",
    "dynamodb:DescribeTable",
    "dynamodb:DescribeTimeToLive",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:Query",
    "dynamodb:RestoreTableFromBackup",
    "dynamodb:RestoreTableToPointInTime",
    "dynamodb:Scan",
    "dynamodb:UpdateContinuousBackups",
    "dynamodb:UpdateItem",
    "dynamodb:UpdateTable",
    "dynamodb:UpdateTimeToLive",
  ]

  # In each segment `%`, `#` and `/` are percent-encoded, as in src/store/key/mod.rs; then what IAM would read
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
  key_actions = [
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
  ]
  key = [
    for arn in compact([var.kms_key_arn]) : {
      Effect    = "Allow"
      Action    = local.key_actions
      Resource  = arn
      Condition = { StringEquals = { "kms:ViaService" = "dynamodb.${split(":", var.table_arn)[3]}.amazonaws.com" } }
    }
  ]

  looks    = { Effect = "Allow", Action = local.inspection, Resource = var.table_arn }
  releases = { Effect = "Allow", Action = local.release, Resource = var.table_arn }
  restores = {
    Effect   = "Allow"
    Action   = local.restore
    Resource = [var.table_arn, "${var.table_arn}-*", "${var.table_arn}/backup/*"]
  }
  # It knows no resource.
  lists_backups = { Effect = "Allow", Action = ["dynamodb:ListBackups"], Resource = "*" }

  # Filter patterns of docs/signals.md, for lines that are JSON: a whole message, or the crate's target.
  message = "$.fields.message = \"%s\""
  ended   = format(local.message, "an idempotent call has ended")
  outcome = "(${local.ended} && $.fields.outcome = \"%s\")"
  counted = {
    LeaseLost = [
      format(local.outcome, "lease_lost"),
      format(local.message, "the lease was lost before*"),
      format(local.message, "the lease is lost while*"),
    ]
    LeaseExpired = [
      format(local.outcome, "lease_expired"),
      format(local.message, "the lease ended while the handler ran*"),
    ]
    Unconfirmed = [
      format(local.outcome, "unconfirmed"),
      format(local.message, "the handler ran and its completion could not be confirmed*"),
    ]
    FailOpen = [
      format(local.outcome, "fail_open"),
      format(local.message, "DynamoDB is out of reach: the handler runs WITHOUT idempotency*"),
    ]
    SwitchedOff = [
      format(local.message, "idempotency is switched OFF*"),
      format(local.message, "a call runs WITHOUT idempotency: it is switched off"),
    ]
    AnswerLost = [format(local.message, "*: repeats get an error")]
    Failed     = [format(local.outcome, "store_error"), format(local.outcome, "error")]
    Unresolved = [
      format(local.outcome, "abandoned"),
      format(local.outcome, "failed"),
      format(local.outcome, "reconcile_failed"),
    ]
    Dropped    = [format(local.message, "the future of a running operation was dropped*")]
    ErrorLines = ["$.level = \"ERROR\" && $.target = \"dynamodb_idempotency*\""]
    Calls      = [local.ended]
  }

  # One line of these requires action at once.
  pages = {
    LeaseLost    = "A handler outlived its lease and another call owned its key: the operation may have run twice. See docs/signals.md#outcomes."
    LeaseExpired = "A handler was stopped when its lease expired: its effect may have happened in part. See docs/signals.md#outcomes."
    Unconfirmed  = "A handler ran and DynamoDB did not confirm its completion: it may run again after its lease. See docs/signals.md#outcomes."
    FailOpen     = "DynamoDB could not be reached and handlers ran without a record. See docs/signals.md#outcomes."
    SwitchedOff  = "Idempotency is switched off: handlers run for every repeat. See docs/command-line.md#switching-it-off."
    AnswerLost   = "A completed operation has no answer that can be replayed: its repeats get an error. See docs/signals.md#warnings-and-errors."
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

output "service_policy" {
  description = "What a function or server may: read and write its records. Null without a scope: a grant for every record is no least privilege."
  value = length(var.scopes) == 0 ? null : jsonencode({
    Version   = "2012-10-17"
    Statement = concat([local.records], local.key)
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

output "restore_policy" {
  description = "What a restore needs: to read the table and its backups, and to make, fill and configure a table whose name is this one's with `-` and more behind it."
  value = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [local.restores, local.lists_backups],
      [for key in local.key : merge(key, { Action = concat(["kms:CreateGrant"], local.key_actions) })],
    )
  })
}

output "patterns" {
  description = "What is counted in logs, by its name."
  value       = { for name, conditions in local.counted : name => "{ ${join(" || ", conditions)} }" }
}

output "pages" {
  description = "Of what is counted, that of which one line is enough, with what it means."
  value       = local.pages
}

output "queries" {
  description = "The queries of CloudWatch Logs Insights in docs/signals.md, by their names."
  value = {
    AbandonedByOperation = "filter fields.outcome = \"abandoned\" | stats count_distinct(span.key) by fields.operation"
    AbandonedByKey       = "filter fields.outcome = \"abandoned\" | stats count(*) by span.key"
    UnresolvedByOutcome  = "filter fields.outcome in [\"abandoned\", \"failed\", \"reconcile_failed\"] | stats count(*) by fields.outcome"
  }
}

output "outcomes_pattern" {
  description = "The log lines in JSON that have the outcome of a call."
  value       = "{ ${local.ended} }"
}
