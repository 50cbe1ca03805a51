output "table_name" {
  description = "For the variable IDEMPOTENCY_TABLE."
  value       = local.table_name
}

output "table_arn" {
  description = "The idempotency table."
  value       = local.table_arn
}

output "alarm_names" {
  description = "All alarms. A deployment can roll back when one is raised."
  value = concat(
    [for alarm in aws_cloudwatch_metric_alarm.page : alarm.alarm_name],
    [for alarm in aws_cloudwatch_metric_alarm.expression : alarm.alarm_name],
  )
}
