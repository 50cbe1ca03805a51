import { Duration, Stack } from "aws-cdk-lib";
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import type * as lambda from "aws-cdk-lib/aws-lambda";
import type * as logs from "aws-cdk-lib/aws-logs";
import type * as sqs from "aws-cdk-lib/aws-sqs";
import { Construct } from "constructs";

import { IdempotencyAlarms, type IIdempotencyTable } from "../lib";

const MINUTE = { period: Duration.minutes(1) };
const SUM = { ...MINUTE, statistic: cloudwatch.Stats.SUM };

/** The outcomes of `docs/signals.md`. */
const OUTCOMES = [
  "first",
  "retry",
  "takeover",
  "replay",
  "replay_failure",
  "reconciled",
  "reconcile_failed",
  "in_progress",
  "mismatch",
  "abandoned",
  "released",
  "failed",
  "lease_lost",
  "lease_expired",
  "unconfirmed",
  "dropped",
  "fail_open",
  "unprotected",
  "not_written",
  "store_error",
  "error",
];

export interface WatchProps {
  readonly table: IIdempotencyTable;
  readonly functions: readonly { readonly name: string; readonly fn: lambda.Function; readonly logGroup: logs.LogGroup }[];
  /** The API's answers in a minute: those of 5xx, and all. */
  readonly answers: { readonly errors: cloudwatch.IMetric; readonly all: cloudwatch.IMetric };
  readonly queue: sqs.Queue;
  readonly deadLetters: sqs.Queue;
  /** When a page goes to ALARM, and when it comes back. */
  readonly pageActions: cloudwatch.IAlarmAction[];
  /** When a ticket does. */
  readonly ticketActions: cloudwatch.IAlarmAction[];
}

/** The alarms and the dashboard of the stack. */
export class Watch extends Construct {
  /** The API's answers, which a new version of its function may spoil too. */
  public readonly answersFail: cloudwatch.Alarm;

  private readonly alarms: IdempotencyAlarms;

  constructor(scope: Construct, id: string, props: WatchProps) {
    super(scope, id);
    this.alarms = new IdempotencyAlarms(this, "Alarms", {
      table: props.table,
      services: Object.fromEntries(props.functions.map(({ name, fn, logGroup }) => [name, { fn, logGroup }])),
      pageActions: props.pageActions,
      ticketActions: props.ticketActions,
    });
    const failed = new cloudwatch.MathExpression({
      expression: "100 * errors / requests",
      label: "Answers of 5xx",
      ...MINUTE,
      usingMetrics: { errors: props.answers.errors, requests: props.answers.all },
    });
    this.alarm("MostAnswersFailAlarm", props.pageActions, {
      alarmDescription: "More than half of the payments API's answers are HTTP 5xx. See docs/guide/faq.md#kinds-of-errors.",
      metric: failed,
      threshold: 50,
      evaluationPeriods: 5,
      datapointsToAlarm: 3,
    });
    this.answersFail = this.alarm("AnswersFailAlarm", props.ticketActions, {
      alarmDescription: "More than 5 of 100 of the payments API's answers are HTTP 5xx. See docs/guide/faq.md#kinds-of-errors.",
      metric: failed,
      threshold: 5,
      evaluationPeriods: 5,
      datapointsToAlarm: 2,
    });
    this.alarm("DeadLettersAlarm", props.ticketActions, {
      alarmDescription:
        "Payment events were given up after five deliveries and wait in the dead-letter queue. See docs/guide/operate.md#dead-letters.",
      metric: props.deadLetters.metricApproximateNumberOfMessagesVisible(MINUTE),
      threshold: 0,
      evaluationPeriods: 1,
    });
    this.alarm("OldestMessageAlarm", props.ticketActions, {
      alarmDescription: "A payment event has waited in the queue for more than ten minutes. See docs/guide/messages.md#what-is-reported.",
      metric: props.queue.metricApproximateAgeOfOldestMessage(MINUTE),
      threshold: 600,
      evaluationPeriods: 1,
    });
    this.dashboard(props);
  }

  /** On these, traffic goes back to the old version of a function. */
  public alarmsOfVersion(name: string): cloudwatch.Alarm[] {
    return this.alarms.alarmsOfVersion(name);
  }

  private alarm(
    id: string,
    actions: cloudwatch.IAlarmAction[],
    alarm: Omit<cloudwatch.AlarmProps, "comparisonOperator">,
  ): cloudwatch.Alarm {
    const made = new cloudwatch.Alarm(this, id, {
      ...alarm,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
    });
    made.addAlarmAction(...actions);
    made.addOkAction(...actions);
    return made;
  }

  private dashboard(props: WatchProps): void {
    const { table } = props.table;
    const functions = props.functions.map(({ fn }) => fn);
    const graph = (title: string, left: cloudwatch.IMetric[]) =>
      new cloudwatch.GraphWidget({ title, left, width: 12 });
    const { stackName, region } = Stack.of(this);
    new cloudwatch.Dashboard(this, "Dashboard", {
      dashboardName: `${stackName}-${region}`,
      widgets: [
        [
          graph(
            "Functions",
            functions.flatMap((fn) => [fn.metricInvocations(MINUTE), fn.metricErrors(MINUTE)]),
          ),
          graph(
            "Duration (ms, p99)",
            functions.map((fn) => fn.metricDuration({ ...MINUTE, statistic: "p99" })),
          ),
        ],
        [
          graph("Idempotency table", [
            table.metricConsumedWriteCapacityUnits(MINUTE),
            table.metricConsumedReadCapacityUnits(MINUTE),
            table.metric("ConditionalCheckFailedRequests", SUM),
            table.metric("ReadThrottleEvents", SUM),
            table.metric("WriteThrottleEvents", SUM),
          ]),
          graph("Payment events waiting", [
            props.queue.metricApproximateNumberOfMessagesVisible(MINUTE),
            props.deadLetters.metricApproximateNumberOfMessagesVisible(MINUTE),
          ]),
        ],
        [
          graph(
            "How calls ended",
            OUTCOMES.map((outcome) => this.alarms.metricOutcome(outcome)),
          ),
          graph("Replays in 100 first runs and replays", [this.alarms.metricReplayShare()]),
        ],
      ],
    });
  }
}
