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

output "version_alarm_names" {
  description = "For each service with a log, the alarms that a new version of its code may raise: ten at most, as many as a deployment group of CodeDeploy takes."
  value = {
    for name in keys(local.log_groups) : name => concat(
      [for page, alarm in aws_cloudwatch_metric_alarm.page : alarm.alarm_name if page != "SwitchedOff"],
      [
        for kind in ["CallsDropped", "CallsFail", "ErrorLines", "InvocationsFail"] :
        aws_cloudwatch_metric_alarm.expression["${kind}/${name}"].alarm_name
        if kind != "InvocationsFail" || var.services[name].function_name != null
      ],
    )
  }
}
