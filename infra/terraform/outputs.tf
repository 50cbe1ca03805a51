output "table_name" {
  description = "For the functions' variable IDEMPOTENCY_TABLE."
  value       = local.table_name
}

output "table_arn" {
  description = "The idempotency table."
  value       = local.table_arn
}

output "alarm_names" {
  description = "All alarms; a deployment can go back on them."
  value = concat(
    [for alarm in aws_cloudwatch_metric_alarm.signal : alarm.alarm_name],
    [for alarm in aws_cloudwatch_metric_alarm.sum : alarm.alarm_name],
  )
}
