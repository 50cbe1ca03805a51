import { Duration, Stack } from "aws-cdk-lib";
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import type * as lambda from "aws-cdk-lib/aws-lambda";
import * as logs from "aws-cdk-lib/aws-logs";
import { Construct } from "constructs";

import type { IIdempotencyTable } from "./idempotency-table";
import { CALLS, ERROR_LINES, FAILED, PAGES, type Signal } from "./signals";

const NAMESPACE = "DynamoDbIdempotency";

/** Where a line of the log, written as JSON, says how a call ended. */
const OUTCOME = "$.fields.outcome";

const MINUTE = { period: Duration.minutes(1), statistic: cloudwatch.Stats.SUM };

/** One is enough. */
const ONCE = { threshold: 0, evaluationPeriods: 1 };
/** More than half, in three of five minutes. */
const MOST = { threshold: 50, evaluationPeriods: 5, datapointsToAlarm: 3 };
/** More than 5 in 100, in two of five minutes. */
const SOME = { threshold: 5, evaluationPeriods: 5, datapointsToAlarm: 2 };
/** More than ten a minute, in two of five: what the SDK's retries absorb is not reported. */
const TEN_A_MINUTE = { threshold: 10, evaluationPeriods: 5, datapointsToAlarm: 2 };

type Condition = Pick<cloudwatch.AlarmProps, "threshold" | "evaluationPeriods" | "datapointsToAlarm">;

export interface IdempotencyAlarmsProps {
  /** The table whose throttles and errors are watched. */
  readonly table: IIdempotencyTable;

  /**
   * The log groups of what uses it, with lines that are JSON, from INFO on. Most alarms count lines
   * in them.
   */
  readonly logGroups: logs.ILogGroup[];

  /**
   * The functions that use it. Their errors and throttles are watched, together, and failed calls are
   * compared with their invocations.
   *
   * @default - none: failed calls are compared with the calls that are logged, which are all calls if
   * the code asks for first runs (`Builder::log_first_runs`)
   */
  readonly functions?: lambda.IFunction[];

  /**
   * What happens when a page goes to ALARM, and when it returns to OK.
   *
   * @default - nothing but the alarm's own state
   */
  readonly pageActions?: cloudwatch.IAlarmAction[];

  /**
   * What happens when a ticket goes to ALARM, and when it returns to OK.
   *
   * @default - nothing but the alarm's own state
   */
  readonly ticketActions?: cloudwatch.IAlarmAction[];
}

/**
 * The alarms of `docs/guide/deploy.md`. A page means that answers may be wrong or lost, or that most
 * calls fail. A ticket is a rate above a threshold.
 *
 * To Lambda, an answer of HTTP 5xx is a success: watch your API's 5xx as well.
 */
export class IdempotencyAlarms extends Construct {
  /** Alarms that require action at once. */
  public readonly pages: cloudwatch.Alarm[] = [];
  /** Alarms that have to be looked into within working hours. */
  public readonly tickets: cloudwatch.Alarm[] = [];
  /** Those that a new version of the code may raise: for a deployment that rolls back on them. */
  public readonly ofVersions: cloudwatch.Alarm[] = [];

  constructor(scope: Construct, id: string, props: IdempotencyAlarmsProps) {
    super(scope, id);
    for (const signal of PAGES) {
      const metric = this.count(signal, props.logGroups);
      const page = this.page(signal.name, signal.description, metric, ONCE);
      if (signal.name !== "SwitchedOff") this.ofVersions.push(page);
    }
    const functions = props.functions ?? [];
    this.watchCalls(props.logGroups, functions);
    if (functions.length > 0) this.watchFunctions(functions);
    this.ticket(
      "Throttles",
      "DynamoDB throttles requests to the idempotency table: callers get errors, nothing runs.",
      props.table.metricThrottles(),
      TEN_A_MINUTE,
    );
    this.ticket(
      "SystemErrors",
      "DynamoDB answers requests to the idempotency table with server errors (HTTP 5xx).",
      props.table.metricSystemErrors(),
      TEN_A_MINUTE,
    );
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
    for (const [alarms, actions] of [
      [this.pages, props.pageActions ?? []],
      [this.tickets, props.ticketActions ?? []],
    ] as const) {
      for (const alarm of alarms) {
        alarm.addAlarmAction(...actions);
        alarm.addOkAction(...actions);
      }
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

  /** The share of calls that fail, and of errors in the log. */
  private watchCalls(logGroups: readonly logs.ILogGroup[], functions: readonly lambda.IFunction[]): void {
    const of = functions.length > 0
      ? numbered("i", functions.map((fn) => fn.metricInvocations(MINUTE)))
      : { calls: this.count(CALLS, logGroups) };
    const share = (name: string, part: cloudwatch.IMetric) =>
      percentage(name, { [name]: part }, of);
    const failed = share("failed", this.count(FAILED, logGroups));
    this.page(
      "MostCallsFail",
      "More than half of the calls end without an answer: DynamoDB cannot be reached, or the table or a permission is missing.",
      failed,
      MOST,
    );
    this.ofVersions.push(
      this.ticket(
        "CallsFail",
        "More than 5 of 100 calls end without an answer: DynamoDB throttles or cannot be reached.",
        failed,
        SOME,
      ),
      this.ticket(
        "ErrorLines",
        "dynamodb-idempotency logs more than 5 errors for 100 calls.",
        share("errors", this.count(ERROR_LINES, logGroups)),
        SOME,
      ),
    );
  }

  private watchFunctions(functions: readonly lambda.IFunction[]): void {
    const failed = percentage(
      "errors",
      numbered("e", functions.map((fn) => fn.metricErrors(MINUTE))),
      numbered("i", functions.map((fn) => fn.metricInvocations(MINUTE))),
    );
    this.page("MostInvocationsFail", "More than half of the invocations end with an error.", failed, MOST);
    this.ofVersions.push(
      this.ticket(
        "InvocationsFail",
        "More than 5 of 100 invocations end with an error: a panic, a timeout, too little memory.",
        failed,
        SOME,
      ),
    );
    const throttles = numbered("t", functions.map((fn) => fn.metricThrottles(MINUTE)));
    this.ticket(
      "FunctionThrottles",
      "Lambda throttles a function: its concurrency is used up.",
      new cloudwatch.MathExpression({
        expression: sum(throttles),
        label: "Throttles",
        period: MINUTE.period,
        usingMetrics: throttles,
      }),
      TEN_A_MINUTE,
    );
  }

  /** Counts a signal's lines in all log groups together. */
  private count(signal: Pick<Signal, "name" | "pattern">, logGroups: readonly logs.ILogGroup[]): cloudwatch.IMetric {
    const metricName = this.metricName(signal.name);
    logGroups.forEach((logGroup, index) => {
      new logs.MetricFilter(this, `${signal.name}${index}`, {
        logGroup,
        filterPattern: logs.FilterPattern.literal(signal.pattern),
        metricNamespace: NAMESPACE,
        metricName,
        metricValue: "1",
        defaultValue: 0,
      });
    });
    return new cloudwatch.Metric({ namespace: NAMESPACE, metricName, ...MINUTE });
  }

  private page(id: string, alarmDescription: string, metric: cloudwatch.IMetric, on: Condition): cloudwatch.Alarm {
    const alarm = this.alarm(id, alarmDescription, metric, on);
    this.pages.push(alarm);
    return alarm;
  }

  private ticket(id: string, alarmDescription: string, metric: cloudwatch.IMetric, on: Condition): cloudwatch.Alarm {
    const alarm = this.alarm(id, alarmDescription, metric, on);
    this.tickets.push(alarm);
    return alarm;
  }

  private alarm(id: string, alarmDescription: string, metric: cloudwatch.IMetric, on: Condition): cloudwatch.Alarm {
    return new cloudwatch.Alarm(this, `${id}Alarm`, {
      alarmDescription,
      metric,
      ...on,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
    });
  }
}

type Metrics = Record<string, cloudwatch.IMetric>;

function numbered(prefix: string, metrics: readonly cloudwatch.IMetric[]): Metrics {
  return Object.fromEntries(metrics.map((metric, index) => [`${prefix}${index}`, metric]));
}

function sum(metrics: Metrics): string {
  return `SUM([${Object.keys(metrics).join(", ")}])`;
}

/** How many of a hundred. */
function percentage(label: string, part: Metrics, whole: Metrics): cloudwatch.IMetric {
  return new cloudwatch.MathExpression({
    expression: `100 * ${sum(part)} / ${sum(whole)}`,
    label,
    period: MINUTE.period,
    usingMetrics: { ...part, ...whole },
  });
}
