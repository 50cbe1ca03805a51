# The table of the Rust crate dynamodb-idempotency, and what functions and operators may do with it.

locals {
  has_own_table = var.existing_table_name == null
  table_name    = local.has_own_table ? aws_dynamodb_table.this[0].name : data.aws_dynamodb_table.existing[0].name
  table_arn     = local.has_own_table ? aws_dynamodb_table.this[0].arn : data.aws_dynamodb_table.existing[0].arn
}

# A table of one region: in a global one with eventual consistency each region could have its own winner.
resource "aws_dynamodb_table" "this" {
  count = local.has_own_table ? 1 : 0

  name                        = var.name
  billing_mode                = module.contract.table.BillingMode
  hash_key                    = module.contract.table.KeySchema[0].AttributeName
  deletion_protection_enabled = var.deletion_protection

  attribute {
    name = module.contract.table.AttributeDefinitions[0].AttributeName
    type = module.contract.table.AttributeDefinitions[0].AttributeType
  }

  ttl {
    attribute_name = module.contract.table.TimeToLiveSpecification.AttributeName
    enabled        = module.contract.table.TimeToLiveSpecification.Enabled
  }

  point_in_time_recovery {
    enabled = var.point_in_time_recovery
  }

  dynamic "server_side_encryption" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]

    content {
      enabled     = true
      kms_key_arn = server_side_encryption.value
    }
  }
}

data "aws_dynamodb_table" "existing" {
  count = local.has_own_table ? 0 : 1

  name = var.existing_table_name
}

# Its shape, and what is counted: neither depends on which table it is.
module "contract" {
  source = "./modules/contract"
}

module "operators" {
  source = "./modules/contract"

  table_arn   = local.table_arn
  kms_key_arn = var.kms_key_arn
}

module "grant" {
  source   = "./modules/contract"
  for_each = var.services

  table_arn   = local.table_arn
  kms_key_arn = var.kms_key_arn
  scopes      = each.value.scopes
}

# A role has one policy of each name: with a name for each purpose, no grant replaces another, of this module or
# of another one with its own `name`.
resource "aws_iam_role_policy" "service" {
  for_each = var.services

  name   = "${var.name}+service+${each.key}"
  role   = each.value.role_name
  policy = module.grant[each.key].service_policy
}

resource "aws_iam_role_policy" "inspector" {
  for_each = var.inspector_role_names

  name   = "${var.name}+inspector"
  role   = each.value
  policy = module.operators.inspection_policy
}

resource "aws_iam_role_policy" "operator" {
  for_each = var.operator_role_names

  name   = "${var.name}+operator"
  role   = each.value
  policy = module.operators.release_policy
}

resource "aws_iam_role_policy" "restorer" {
  for_each = var.restorer_role_names

  name   = "${var.name}+restorer"
  role   = each.value
  policy = module.operators.restore_policy
}
