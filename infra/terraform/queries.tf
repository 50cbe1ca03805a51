# The queries of docs/signals.md, saved in CloudWatch Logs Insights. They cost nothing until they run.
resource "aws_cloudwatch_query_definition" "this" {
  for_each = {
    for pair in setproduct(keys(local.log_groups), keys(module.contract.queries)) : "${pair[0]}/${pair[1]}" => {
      log_group_name = local.log_groups[pair[0]]
      query          = module.contract.queries[pair[1]]
    }
  }

  name            = "${var.name}/${each.key}"
  log_group_names = [each.value.log_group_name]
  query_string    = each.value.query
}
