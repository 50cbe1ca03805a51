import { Stack } from "aws-cdk-lib";
import { Match, Template } from "aws-cdk-lib/assertions";
import { SnsAction } from "aws-cdk-lib/aws-cloudwatch-actions";
import * as lambda from "aws-cdk-lib/aws-lambda";
import * as logs from "aws-cdk-lib/aws-logs";
import * as sns from "aws-cdk-lib/aws-sns";
import { expect, it } from "vitest";

import { IdempotencyAlarms, type IdempotencyAlarmsProps, IdempotencyTable } from "../lib";

function stack(): { stack: Stack; props: IdempotencyAlarmsProps } {
  const stack = new Stack(undefined, "shop");
  const table = new IdempotencyTable(stack, "Idempotency");
  const logGroups = ["A", "B"].map((id) => new logs.LogGroup(stack, id));
  return { stack, props: { table, logGroups } };
}

function alarms(of: Stack): Record<string, any>[] {
  return Object.values(Template.fromStack(of).findResources("AWS::CloudWatch::Alarm"));
}

it("counts the lines of every log group in one metric a signal", () => {
  const shop = stack();
  new IdempotencyAlarms(shop.stack, "Alarms", shop.props);
  const filters = Object.values(Template.fromStack(shop.stack).findResources("AWS::Logs::MetricFilter"));
  const lost = filters.filter((filter) => JSON.stringify(filter).includes("LeaseLost"));
  expect(lost).toHaveLength(2);
  for (const filter of lost) {
    expect(filter["Properties"].MetricTransformations).toMatchObject([
      { MetricNamespace: "DynamoDbIdempotency", MetricName: "shop-Alarms-LeaseLost", MetricValue: "1" },
    ]);
  }
  Template.fromStack(shop.stack).hasResourceProperties("AWS::CloudWatch::Alarm", {
    Namespace: "DynamoDbIdempotency",
    MetricName: "shop-Alarms-LeaseLost",
    Threshold: 0,
    ComparisonOperator: "GreaterThanThreshold",
  });
});

it("has separate metrics for each construct in the same stack", () => {
  const { stack: shop, props } = stack();
  for (const id of ["Payments", "Refunds"]) new IdempotencyAlarms(shop, id, props);
  const counted = alarms(shop).map(({ Properties }) => Properties.MetricName).filter(Boolean);
  expect(counted).toContain("shop-Payments-LeaseLost");
  expect(new Set(counted).size).toBe(counted.length);
});

it("sends pages and tickets, and their ends, where it is asked to", () => {
  const { stack: shop, props } = stack();
  const [pageActions, ticketActions] = ["Pages", "Tickets"].map((id) => [new SnsAction(new sns.Topic(shop, id))]);
  const { pages, tickets } = new IdempotencyAlarms(shop, "Alarms", { ...props, pageActions, ticketActions });
  expect([pages.length, tickets.length]).toEqual([7, 4]);
  const notifying = (topic: string) => {
    const actions = [{ Ref: expect.stringMatching(`^${topic}`) }];
    return alarms(shop).filter(({ Properties }) => {
      expect(Properties.OKActions).toEqual(Properties.AlarmActions);
      return expect.objectContaining({ AlarmActions: actions }).asymmetricMatch(Properties);
    });
  };
  expect([notifying("Pages").length, notifying("Tickets").length]).toEqual([7, 4]);
  const quiet = stack();
  new IdempotencyAlarms(quiet.stack, "Alarms", quiet.props);
  const absent = { AlarmActions: Match.absent(), OKActions: Match.absent() };
  Template.fromStack(quiet.stack).allResourcesProperties("AWS::CloudWatch::Alarm", absent);
});

it("compares failures with the calls in the logs, where no function counts invocations", () => {
  const { stack: shop, props } = stack();
  new IdempotencyAlarms(shop, "Alarms", props);
  const shares = alarms(shop).filter((alarm) => JSON.stringify(alarm).includes("100 * SUM([failed]) / SUM([calls])"));
  expect(shares.map(({ Properties }) => Properties.Threshold).sort()).toEqual([5, 50]);
});

it("watches the errors and the throttles of functions together, where it is given some", () => {
  const { stack: shop, props } = stack();
  const functions = ["One", "Two"].map((id) =>
    lambda.Function.fromFunctionArn(shop, id, `arn:aws:lambda:eu-central-1:111122223333:function:${id}`),
  );
  new IdempotencyAlarms(shop, "Alarms", { ...props, functions });
  for (const [metric, times] of [["Errors", 2], ["Throttles", 1], ["Invocations", 5]] as const) {
    const of = alarms(shop).filter((alarm) => JSON.stringify(alarm).includes(`"MetricName":"${metric}"`));
    expect(of).toHaveLength(times);
    expect(JSON.stringify(of[0])).toContain('"Value":"One"');
    expect(JSON.stringify(of[0])).toContain('"Value":"Two"');
  }
});
