import { Stack } from "aws-cdk-lib";
import { Match, Template } from "aws-cdk-lib/assertions";
import { SnsAction } from "aws-cdk-lib/aws-cloudwatch-actions";
import * as logs from "aws-cdk-lib/aws-logs";
import * as sns from "aws-cdk-lib/aws-sns";
import { expect, it } from "vitest";

import { IdempotencyAlarms, IdempotencyTable } from "../lib";

function template(withTopic: boolean): Template {
  const stack = new Stack(undefined, "shop");
  const actions = withTopic ? [new SnsAction(new sns.Topic(stack, "Topic"))] : [];
  new IdempotencyAlarms(stack, "Alarms", {
    table: new IdempotencyTable(stack, "Idempotency"),
    logGroups: ["A", "B"].map((id) => new logs.LogGroup(stack, id)),
    actions,
  });
  return Template.fromStack(stack);
}

it("counts the lost leases of every log group in one metric", () => {
  const filters = Object.values(template(false).findResources("AWS::Logs::MetricFilter"));
  expect(filters).toHaveLength(2);
  for (const filter of filters) {
    expect(filter["Properties"].MetricTransformations).toMatchObject([
      { MetricNamespace: "DynamoDbIdempotency", MetricName: "shop-LeaseLost", MetricValue: "1" },
    ]);
  }
  template(false).hasResourceProperties("AWS::CloudWatch::Alarm", {
    Namespace: "DynamoDbIdempotency",
    MetricName: "shop-LeaseLost",
    Threshold: 0,
    ComparisonOperator: "GreaterThanThreshold",
  });
});

it("tells every alarm to whom it is asked to tell it", () => {
  const told = template(true);
  told.resourceCountIs("AWS::CloudWatch::Alarm", 3);
  told.allResourcesProperties("AWS::CloudWatch::Alarm", { AlarmActions: [{ Ref: Match.stringLikeRegexp("^Topic") }] });
  template(false).allResourcesProperties("AWS::CloudWatch::Alarm", { AlarmActions: Match.absent() });
});
