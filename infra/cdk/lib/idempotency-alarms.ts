import { Duration, Stack } from "aws-cdk-lib";
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import * as logs from "aws-cdk-lib/aws-logs";
import { Construct } from "constructs";

import type { IdempotencyTable } from "./idempotency-table";

export interface IdempotencyAlarmsProps {
  /** The table whose throttles and errors are watched. */
  readonly table: IdempotencyTable;

  /** The log groups of the functions that use it: a lost lease is a line of theirs. */
  readonly logGroups: readonly logs.ILogGroup[];

  /**
   * What happens in the state ALARM.
   *
   * @default - nothing but the alarm's own state
   */
  readonly actions?: readonly cloudwatch.IAlarmAction[];
}

/**
 * Alarms that mean something for idempotency: the table is throttled, DynamoDB has errors of its
 * own, a lease was lost while its handler ran.
 */
export class IdempotencyAlarms extends Construct {
  /** Callers get errors, nothing runs. Two minutes out of five. */
  public readonly throttles: cloudwatch.Alarm;
  /** As `throttles`, by DynamoDB's own errors (HTTP 5xx). */
  public readonly systemErrors: cloudwatch.Alarm;
  /** A handler outlived its lease and another one owned its key: it may have run twice. */
  public readonly leaseLost: cloudwatch.Alarm;
  /** Lost leases in a minute, in all the log groups. */
  public readonly metricLeaseLost: cloudwatch.IMetric;

  constructor(scope: Construct, id: string, props: IdempotencyAlarmsProps) {
    super(scope, id);
    this.metricLeaseLost = this.countLostLeases(props.logGroups);
    this.throttles = this.alarm("Throttles", {
      alarmDescription:
        "DynamoDB throttles requests to the idempotency table: callers get errors, nothing runs.",
      metric: props.table.metricThrottles(),
      evaluationPeriods: 5,
      datapointsToAlarm: 2,
    });
    this.systemErrors = this.alarm("SystemErrors", {
      alarmDescription:
        "DynamoDB answers requests to the idempotency table with errors of its own (HTTP 5xx).",
      metric: props.table.metricSystemErrors(),
      evaluationPeriods: 5,
      datapointsToAlarm: 2,
    });
    this.leaseLost = this.alarm("LeaseLost", {
      alarmDescription:
        "A handler outlived its lease and another one owned its key: the operation may have run twice.",
      metric: this.metricLeaseLost,
      evaluationPeriods: 1,
    });
    for (const alarm of [this.throttles, this.systemErrors, this.leaseLost]) {
      alarm.addAlarmAction(...(props.actions ?? []));
    }
  }

  private countLostLeases(logGroups: readonly logs.ILogGroup[]): cloudwatch.IMetric {
    const metricNamespace = "DynamoDbIdempotency";
    const metricName = `${Stack.of(this).stackName}-LeaseLost`;
    logGroups.forEach((logGroup, index) => {
      new logs.MetricFilter(this, `LeaseLost${index}`, {
        logGroup,
        // By words, not by JSON path: both log formats of Lambda have them.
        filterPattern: logs.FilterPattern.anyTerm("the lease was lost", "the lease is lost"),
        metricNamespace,
        metricName,
        metricValue: "1",
        defaultValue: 0,
      });
    });
    return new cloudwatch.Metric({
      namespace: metricNamespace,
      metricName,
      period: Duration.minutes(1),
      statistic: cloudwatch.Stats.SUM,
    });
  }

  private alarm(
    id: string,
    props: Omit<cloudwatch.AlarmProps, "threshold" | "comparisonOperator">,
  ): cloudwatch.Alarm {
    return new cloudwatch.Alarm(this, id, {
      ...props,
      threshold: 0,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
    });
  }
}
