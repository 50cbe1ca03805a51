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

it("has metrics of its own beside another one in the same stack", () => {
  const { stack: shop, props } = stack();
  for (const id of ["Payments", "Refunds"]) new IdempotencyAlarms(shop, id, props);
  const counted = alarms(shop).map(({ Properties }) => Properties.MetricName).filter(Boolean);
  expect(counted).toContain("shop-Payments-LeaseLost");
  expect(new Set(counted).size).toBe(counted.length);
});

it("tells every alarm, and its end, to whom it is asked to tell it", () => {
  const { stack: shop, props } = stack();
  const actions = [new SnsAction(new sns.Topic(shop, "Topic"))];
  expect(new IdempotencyAlarms(shop, "Alarms", { ...props, actions }).alarms).toHaveLength(9);
  const told = [{ Ref: expect.stringMatching("^Topic") }];
  for (const { Properties } of alarms(shop)) {
    expect(Properties).toMatchObject({ AlarmActions: told, OKActions: told });
  }
  const quiet = stack();
  new IdempotencyAlarms(quiet.stack, "Alarms", quiet.props);
  const absent = { AlarmActions: Match.absent(), OKActions: Match.absent() };
  Template.fromStack(quiet.stack).allResourcesProperties("AWS::CloudWatch::Alarm", absent);
});

it("watches the errors and the throttles of functions together, where it is given some", () => {
  const { stack: shop, props } = stack();
  const functions = ["One", "Two"].map((id) =>
    lambda.Function.fromFunctionArn(shop, id, `arn:aws:lambda:eu-central-1:111122223333:function:${id}`),
  );
  const { functionErrors, functionThrottles } = new IdempotencyAlarms(shop, "Alarms", { ...props, functions });
  expect([functionErrors, functionThrottles]).not.toContain(undefined);
  for (const metric of ["Errors", "Throttles"]) {
    const of = alarms(shop).filter((alarm) => JSON.stringify(alarm).includes(`"MetricName":"${metric}"`));
    expect(of).toHaveLength(1);
    expect(JSON.stringify(of[0])).toContain('"Value":"One"');
    expect(JSON.stringify(of[0])).toContain('"Value":"Two"');
  }
});
