import { Duration, NestedStack, Stack } from "aws-cdk-lib";
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import type * as lambda from "aws-cdk-lib/aws-lambda";
import * as logs from "aws-cdk-lib/aws-logs";
import { Construct } from "constructs";

import type { IIdempotencyTable } from "./idempotency-table";
import { CALLS, DROPPED, ERROR_LINES, FAILED, OUTCOME, OUTCOMES, PAGES, QUERIES, type Signal, UNRESOLVED } from "./signals";

const NAMESPACE = "DynamoDbIdempotency";

const MINUTE = { period: Duration.minutes(1), statistic: cloudwatch.Stats.SUM };

/** One is enough. */
const ONCE = { threshold: 0, evaluationPeriods: 1 };
/** More than half, in three of five minutes. */
const MOST = { threshold: 50, evaluationPeriods: 5, datapointsToAlarm: 3 };
/** More than 5 in 100, in two of five minutes. */
const SOME = { threshold: 5, evaluationPeriods: 5, datapointsToAlarm: 2 };
/** More than ten a minute, in two of five: what the SDK's retries absorb is not reported. */
const TEN_A_MINUTE = { threshold: 10, evaluationPeriods: 5, datapointsToAlarm: 2 };

/** A service has about 25 filters, queries and alarms, and a stack at most 500 resources. */
const SERVICES_PER_STACK = 10;

type Condition = Pick<cloudwatch.AlarmProps, "threshold" | "evaluationPeriods" | "datapointsToAlarm">;

/** A function or server that uses the table. */
export interface IdempotencyService {
  /**
   * The function. Its errors and throttles are watched, and failed calls are compared with its
   * invocations.
   *
   * @default - a server: failed calls are compared with the calls that are logged, which are all calls
   * if the code asks for first runs (`Builder::log_first_runs`)
   */
  readonly fn?: lambda.IFunction;

  /**
   * Its own log group, with lines that are JSON, from INFO on. Most alarms count lines in it.
   *
   * @default - none: only the function's errors and throttles are watched
   */
  readonly logGroup?: logs.ILogGroup;
}

export interface IdempotencyAlarmsProps {
  /** The table whose throttles and errors are watched. */
  readonly table: IIdempotencyTable;

  /**
   * The functions and servers that use it, by names of your choice, which begin the descriptions of
   * their alarms. Each has alarms of its own. From the eleventh on, they are in nested stacks.
   */
  readonly services: { [name: string]: IdempotencyService };

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

  private readonly ofAnyVersion: cloudwatch.Alarm[] = [];
  private readonly ofVersions: { [service: string]: cloudwatch.Alarm[] } = {};

  /**
   * @throws if a service has neither function nor log group, two share a log group, or a name has other
   * characters than `A-Z`, `a-z`, `0-9`, `_`, `.` and `-`
   */
  constructor(scope: Construct, id: string, props: IdempotencyAlarmsProps) {
    super(scope, id);
    const services = Object.entries(props.services);
    const owners = new Map<string, string>();
    for (const [name, { fn, logGroup }] of services) {
      if (!/^[\w.-]+$/.test(name)) throw new Error(`the service ${name} has other characters than A-Z, a-z, 0-9, _, . and - in its name`);
      if (!fn && !logGroup) throw new Error(`the service ${name} has neither fn nor logGroup: nothing can be watched`);
      const owner = logGroup && owners.get(logGroup.logGroupName);
      if (owner) throw new Error(`${owner} and ${name} share a log group: give each its own, or their calls cannot be distinguished`);
      if (logGroup) owners.set(logGroup.logGroupName, name);
    }
    for (const { name, description } of owners.size > 0 ? PAGES : []) {
      const page = this.page(this, name, description, this.counted(name), ONCE);
      if (name !== "SwitchedOff") this.ofAnyVersion.push(page);
    }
    const parts: Construct[] = [this];
    services.forEach(([name, service], index) => {
      const part = Math.floor(index / SERVICES_PER_STACK);
      this.watch((parts[part] ??= new NestedStack(this, `Part${part}`)), name, service);
    });
    this.ticket(
      this,
      "Throttles",
      "DynamoDB throttles requests to the idempotency table: callers get errors, nothing runs. See docs/guide/scale.md#limits.",
      props.table.metricThrottles(),
      TEN_A_MINUTE,
    );
    this.ticket(
      this,
      "SystemErrors",
      "DynamoDB answers requests to the idempotency table with server errors (HTTP 5xx). See docs/guide/faq.md#kinds-of-errors.",
      props.table.metricSystemErrors(),
      TEN_A_MINUTE,
    );
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
   * The alarms that a new version of this service's code may raise, for a deployment that rolls back on
   * them: nine at most, and a deployment group of CodeDeploy takes ten.
   *
   * @throws if there is no service of this name
   */
  public alarmsOfVersion(service: string): cloudwatch.Alarm[] {
    const its = this.ofVersions[service];
    if (its === undefined) throw new Error(`there is no service ${service}`);
    return [...this.ofAnyVersion, ...its];
  }

  /**
   * Calls that ended so in a minute, by their name in `docs/signals.md`: `replay`, `mismatch`. Of
   * services that log as JSON, from INFO on; `first` of those that ask for it
   * (`Builder::log_first_runs`).
   */
  public metricOutcome(outcome: string): cloudwatch.IMetric {
    return new cloudwatch.Metric({
      namespace: NAMESPACE,
      metricName: this.nameOf(OUTCOMES.name),
      dimensionsMap: { outcome },
      label: outcome,
      ...MINUTE,
    });
  }

  /**
   * How many of a hundred first runs and replays were replays, in a minute. Of services as
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

  /**
   * The name of a metric or query, by the construct's path: two of these constructs in one stack have
   * metrics of their own. No part contains the separator.
   */
  private nameOf(...name: string[]): string {
    const stack = Stack.of(this);
    const within = this.node.scopes.slice(stack.node.scopes.length).map(({ node }) => node.id);
    return [stack.stackName, ...within, ...name].join("/");
  }

  private counted(...name: string[]): cloudwatch.IMetric {
    return new cloudwatch.Metric({ namespace: NAMESPACE, metricName: this.nameOf(...name), ...MINUTE });
  }

  private watch(scope: Construct, name: string, { fn, logGroup }: IdempotencyService): void {
    const ofVersion: cloudwatch.Alarm[] = [];
    this.ofVersions[name] = ofVersion;
    if (logGroup) {
      for (const page of PAGES) this.count(scope, name, page, logGroup);
      this.count(scope, name, OUTCOMES, logGroup);
      this.saveQueries(scope, name, logGroup);
      const own = (signal: Signal) => this.count(scope, name, signal, logGroup, name);
      const calls = fn?.metricInvocations(MINUTE) ?? own(CALLS);
      const failed = percentage("failed", own(FAILED), calls);
      const unresolved = percentage("unresolved", own(UNRESOLVED), calls);
      this.page(
        scope,
        `MostCallsFail-${name}`,
        `${name}: more than half of the calls end without an answer: DynamoDB cannot be reached, or the table or a permission is missing. See docs/signals.md#outcomes.`,
        failed,
        MOST,
      );
      this.page(
        scope,
        `MostUnresolved-${name}`,
        `${name}: more than half of the calls find or leave an operation that is not completed: its effect must be checked. See docs/guide/operate.md#a-key-is-stuck.`,
        unresolved,
        MOST,
      );
      this.ticket(
        scope,
        `Unresolved-${name}`,
        `${name}: more than 5 of 100 calls find or leave an operation that is not completed: its effect must be checked. See docs/guide/operate.md#a-key-is-stuck.`,
        unresolved,
        SOME,
      );
      ofVersion.push(
        this.page(
          scope,
          `CallsDropped-${name}`,
          `${name}: more than 5 of 100 calls are dropped while their handler runs: effects may be repeated when the leases end. See docs/signals.md#outcomes.`,
          percentage("dropped", own(DROPPED), calls),
          SOME,
        ),
        this.ticket(
          scope,
          `CallsFail-${name}`,
          `${name}: more than 5 of 100 calls end without an answer: DynamoDB throttles or cannot be reached. See docs/signals.md#outcomes.`,
          failed,
          SOME,
        ),
        this.ticket(
          scope,
          `ErrorLines-${name}`,
          `${name}: dynamodb-idempotency logs more than 5 errors for 100 calls. See docs/signals.md#warnings-and-errors.`,
          percentage("errors", own(ERROR_LINES), calls),
          SOME,
        ),
      );
    }
    if (fn) ofVersion.push(this.watchFunction(scope, name, fn));
  }

  /** Returns the alarm that a new version may raise. */
  private watchFunction(scope: Construct, name: string, fn: lambda.IFunction): cloudwatch.Alarm {
    const failed = percentage("errors", fn.metricErrors(MINUTE), fn.metricInvocations(MINUTE));
    this.page(
      scope,
      `MostInvocationsFail-${name}`,
      `${name}: more than half of the invocations end with an error. See docs/guide/operate.md#failed-invocations.`,
      failed,
      MOST,
    );
    this.ticket(
      scope,
      `FunctionThrottles-${name}`,
      `${name}: Lambda throttles the function: its concurrency is used up. See docs/guide/scale.md#limits.`,
      fn.metricThrottles(MINUTE),
      TEN_A_MINUTE,
    );
    return this.ticket(
      scope,
      `InvocationsFail-${name}`,
      `${name}: more than 5 of 100 invocations end with an error: a panic, a timeout, too little memory. See docs/guide/operate.md#failed-invocations.`,
      failed,
      SOME,
    );
  }

  /** Counts a signal's lines in this log: in a metric of all services, or in the service's own. */
  private count(scope: Construct, service: string, signal: Signal, logGroup: logs.ILogGroup, ...own: string[]): cloudwatch.IMetric {
    const isByOutcome = signal === OUTCOMES;
    new logs.MetricFilter(scope, `${signal.name}Of-${service}`, {
      logGroup,
      filterPattern: logs.FilterPattern.literal(signal.pattern),
      metricNamespace: NAMESPACE,
      metricName: this.nameOf(...own, signal.name),
      metricValue: "1",
      // One or the other: CloudWatch takes no default for a metric with a dimension.
      ...(isByOutcome ? { dimensions: { outcome: OUTCOME } } : { defaultValue: 0 }),
    });
    return this.counted(...own, signal.name);
  }

  /** Saves the queries of `docs/signals.md` for this log. They cost nothing until they run. */
  private saveQueries(scope: Construct, service: string, { logGroupName }: logs.ILogGroup): void {
    for (const [name, queryString] of Object.entries(QUERIES)) {
      new logs.CfnQueryDefinition(scope, `${name}Of-${service}`, {
        name: this.nameOf(service, name),
        queryString,
        logGroupNames: [logGroupName],
      });
    }
  }

  private page(scope: Construct, id: string, description: string, metric: cloudwatch.IMetric, on: Condition): cloudwatch.Alarm {
    const alarm = this.alarm(scope, id, description, metric, on);
    this.pages.push(alarm);
    return alarm;
  }

  private ticket(scope: Construct, id: string, description: string, metric: cloudwatch.IMetric, on: Condition): cloudwatch.Alarm {
    const alarm = this.alarm(scope, id, description, metric, on);
    this.tickets.push(alarm);
    return alarm;
  }

  private alarm(scope: Construct, id: string, alarmDescription: string, metric: cloudwatch.IMetric, on: Condition): cloudwatch.Alarm {
    return new cloudwatch.Alarm(scope, `${id}-Alarm`, {
      alarmDescription,
      metric,
      ...on,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
    });
  }
}

/** How many of a hundred. */
function percentage(label: string, part: cloudwatch.IMetric, calls: cloudwatch.IMetric): cloudwatch.IMetric {
  return new cloudwatch.MathExpression({
    expression: `100 * ${label} / calls`,
    label,
    period: MINUTE.period,
    usingMetrics: { [label]: part, calls },
  });
}
