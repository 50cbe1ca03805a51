import { Duration, Stack } from "aws-cdk-lib";
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import type * as lambda from "aws-cdk-lib/aws-lambda";
import * as logs from "aws-cdk-lib/aws-logs";
import { Construct } from "constructs";

import type { IIdempotencyTable } from "./idempotency-table";
import {
  ERROR_LINES,
  FAIL_OPEN,
  LEASE_EXPIRED,
  LEASE_LOST,
  type Signal,
  STORE_ERROR,
  SWITCHED_OFF,
  UNCONFIRMED,
} from "./signals";

const NAMESPACE = "DynamoDbIdempotency";

/** Where a line of the log, written as JSON, says how a call ended. */
const OUTCOME = "$.fields.outcome";

const MINUTE = { period: Duration.minutes(1), statistic: cloudwatch.Stats.SUM };

/** Of five minutes, two: what fixes itself at once wakes nobody. */
const TWO_OF_FIVE = { evaluationPeriods: 5, datapointsToAlarm: 2 };
const AT_ONCE = { evaluationPeriods: 1 };

export interface IdempotencyAlarmsProps {
  /** The table whose throttles and errors are watched. */
  readonly table: IIdempotencyTable;

  /**
   * The log groups of the functions that use it: most of what is watched is a line of theirs, of
   * the level INFO or above.
   */
  readonly logGroups: logs.ILogGroup[];

  /**
   * The functions that use it. Their errors and throttles are watched, together.
   *
   * @default - none: there are no alarms `functionErrors` and `functionThrottles`
   */
  readonly functions?: lambda.IFunction[];

  /**
   * What happens when an alarm goes to ALARM, and when it comes back to OK.
   *
   * @default - nothing but the alarm's own state
   */
  readonly actions?: cloudwatch.IAlarmAction[];
}

/**
 * Alarms that mean something for idempotency: what `docs/signals.md` says to alarm on, the table's
 * throttles and errors, the functions' errors and throttles.
 *
 * A store that cannot be reached is an answer of HTTP 5xx, and no error of the function: watch the
 * API's 5xx as well.
 */
export class IdempotencyAlarms extends Construct {
  /** Callers get errors, nothing runs. Two minutes out of five. */
  public readonly throttles: cloudwatch.Alarm;
  /** As `throttles`, by DynamoDB's own errors (HTTP 5xx). */
  public readonly systemErrors: cloudwatch.Alarm;
  /** A handler outlived its lease and another one owned its key: it may have run twice. */
  public readonly leaseLost: cloudwatch.Alarm;
  /** A handler was stopped at the end of its lease: its effect may have happened in part. */
  public readonly leaseExpired: cloudwatch.Alarm;
  /** A handler ran and DynamoDB did not confirm its end: it may run again. */
  public readonly unconfirmed: cloudwatch.Alarm;
  /** Handlers ran without a record, by `Outage::Open`. */
  public readonly failOpen: cloudwatch.Alarm;
  /** The kill switch is on. */
  public readonly switchedOff: cloudwatch.Alarm;
  /** Calls ended with DynamoDB out of reach. */
  public readonly storeError: cloudwatch.Alarm;
  /** A function has logged an error, whichever. */
  public readonly errorLines: cloudwatch.Alarm;
  /** Invocations that ended with an error: a panic, a timeout, too little memory. */
  public readonly functionErrors: cloudwatch.Alarm | undefined;
  /** Invocations that Lambda refused for want of concurrency. Two minutes out of five. */
  public readonly functionThrottles: cloudwatch.Alarm | undefined;
  /** All of them. */
  public readonly alarms: cloudwatch.Alarm[];

  constructor(scope: Construct, id: string, props: IdempotencyAlarmsProps) {
    super(scope, id);
    this.throttles = this.alarm("Throttles", {
      alarmDescription:
        "DynamoDB throttles requests to the idempotency table: callers get errors, nothing runs.",
      metric: props.table.metricThrottles(),
      ...TWO_OF_FIVE,
    });
    this.systemErrors = this.alarm("SystemErrors", {
      alarmDescription:
        "DynamoDB answers requests to the idempotency table with errors of its own (HTTP 5xx).",
      metric: props.table.metricSystemErrors(),
      ...TWO_OF_FIVE,
    });
    const signal = (signal: Signal) => this.signal(signal, props.logGroups);
    this.leaseLost = signal(LEASE_LOST);
    this.leaseExpired = signal(LEASE_EXPIRED);
    this.unconfirmed = signal(UNCONFIRMED);
    this.failOpen = signal(FAIL_OPEN);
    this.switchedOff = signal(SWITCHED_OFF);
    this.storeError = signal(STORE_ERROR);
    this.errorLines = signal(ERROR_LINES);
    props.logGroups.forEach((logGroup, index) => {
      new logs.MetricFilter(this, `Outcomes${index}`, {
        logGroup,
        filterPattern: logs.FilterPattern.exists(OUTCOME),
        metricNamespace: NAMESPACE,
        metricName: this.metricName("Outcomes"),
        metricValue: "1",
        dimensions: { outcome: OUTCOME },
      });
    });
    const functions = props.functions ?? [];
    if (functions.length > 0) {
      this.functionErrors = this.alarm("FunctionErrors", {
        alarmDescription: "Invocations of a function ended with an error.",
        metric: sumOf(functions.map((fn) => fn.metricErrors(MINUTE)), "Errors"),
        ...AT_ONCE,
      });
      this.functionThrottles = this.alarm("FunctionThrottles", {
        alarmDescription: "Lambda throttles a function: its concurrency is used up.",
        metric: sumOf(functions.map((fn) => fn.metricThrottles(MINUTE)), "Throttles"),
        ...TWO_OF_FIVE,
      });
    }
    this.alarms = this.node.children.filter((child) => child instanceof cloudwatch.Alarm);
    for (const alarm of this.alarms) {
      alarm.addAlarmAction(...(props.actions ?? []));
      alarm.addOkAction(...(props.actions ?? []));
    }
  }

  /**
   * Calls that ended so in a minute, by their name in `docs/signals.md`: `replay`, `mismatch`. Of
   * functions that log as JSON, from INFO on; `first` of those that ask for it
   * (`Builder::log_first_runs`).
   */
  public metricOutcome(outcome: string): cloudwatch.IMetric {
    return new cloudwatch.Metric({
      namespace: NAMESPACE,
      metricName: this.metricName("Outcomes"),
      dimensionsMap: { outcome },
      label: outcome,
      ...MINUTE,
    });
  }

  /**
   * How many of a hundred first runs and replays were replays, in a minute. Of functions as
   * {@link metricOutcome} has them for `first`.
   */
  public metricReplayShare(): cloudwatch.IMetric {
    return new cloudwatch.MathExpression({
      expression: "100 * FILL(replays, 0) / SUM([first, replays])",
      label: "Replays",
      period: MINUTE.period,
      usingMetrics: { first: this.metricOutcome("first"), replays: this.metricOutcome("replay") },
    });
  }

  /** By its path: two of these constructs in one stack have metrics of their own. */
  private metricName(name: string): string {
    const stack = Stack.of(this);
    const within = this.node.scopes.slice(stack.node.scopes.length).map(({ node }) => node.id);
    return [stack.stackName, ...within, name].join("-");
  }

  /** Counts a signal's lines in all log groups together; one is enough. */
  private signal(signal: Signal, logGroups: readonly logs.ILogGroup[]): cloudwatch.Alarm {
    const metricName = this.metricName(signal.name);
    logGroups.forEach((logGroup, index) => {
      new logs.MetricFilter(this, `${signal.name}${index}`, {
        logGroup,
        // By words, not by JSON path: both log formats of Lambda have them.
        filterPattern: logs.FilterPattern.anyTerm(...signal.terms),
        metricNamespace: NAMESPACE,
        metricName,
        metricValue: "1",
        defaultValue: 0,
      });
    });
    return this.alarm(signal.name, {
      alarmDescription: signal.description,
      metric: new cloudwatch.Metric({ namespace: NAMESPACE, metricName, ...MINUTE }),
      ...AT_ONCE,
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

/** One metric of them all. */
function sumOf(metrics: readonly cloudwatch.IMetric[], label: string): cloudwatch.IMetric {
  const usingMetrics = Object.fromEntries(metrics.map((metric, index) => [`f${index}`, metric]));
  const expression = `SUM([${Object.keys(usingMetrics).join(", ")}])`;
  return new cloudwatch.MathExpression({ expression, label, period: MINUTE.period, usingMetrics });
}
