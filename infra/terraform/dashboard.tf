locals {
  region = split(":", local.table_arn)[3]
}

module "watch" {
  source = "./modules/watch"

  region     = local.region
  table_name = local.table_name
  services = {
    for name, service in var.services :
    name => { function_name = service.function_name, has_log = contains(keys(local.log_groups), name) }
  }
  signals  = [local.namespace, var.name]
  outcomes = [local.namespace, "${var.name}/Outcomes"]
}

# First runs are counted where the code asks for them: Builder::log_first_runs().
resource "aws_cloudwatch_dashboard" "this" {
  dashboard_name = "${var.name}-${local.region}"
  dashboard_body = module.watch.dashboard
}
