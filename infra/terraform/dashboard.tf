locals {
  region = split(":", local.table_arn)[3]
}

module "watch" {
  source = "./modules/watch"

  region         = local.region
  table_name     = local.table_name
  function_names = local.function_names
  counts_calls   = length(setintersection(local.servers, keys(local.log_groups))) > 0
  signals        = [local.namespace, var.name]
  outcomes       = [local.namespace, "${var.name}-Outcomes"]
}

# First runs are counted where the code asks for them: Builder::log_first_runs().
resource "aws_cloudwatch_dashboard" "this" {
  dashboard_name = "${var.name}-${local.region}"
  dashboard_body = module.watch.dashboard
}
