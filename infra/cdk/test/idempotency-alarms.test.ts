import { App, NestedStack, Stack } from "aws-cdk-lib";
import { Match, Template } from "aws-cdk-lib/assertions";
import { SnsAction } from "aws-cdk-lib/aws-cloudwatch-actions";
import * as lambda from "aws-cdk-lib/aws-lambda";
import * as logs from "aws-cdk-lib/aws-logs";
import * as sns from "aws-cdk-lib/aws-sns";
import { expect, it } from "vitest";

import { IdempotencyAlarms, type IdempotencyAlarmsProps, type IdempotencyService, IdempotencyTable } from "../lib";

const SERVERS = ["a", "b"];

/** With two servers. */
function stack(): { stack: Stack; props: IdempotencyAlarmsProps } {
  const stack = new Stack(new App(), "shop");
  const table = new IdempotencyTable(stack, "Idempotency");
  const services = Object.fromEntries(SERVERS.map((id) => [id, { logGroup: new logs.LogGroup(stack, id) }]));
  return { stack, props: { table, services } };
}

function fn(stack: Stack, name: string): lambda.IFunction {
  return lambda.Function.fromFunctionArn(stack, name, `arn:aws:lambda:eu-central-1:111122223333:function:${name}`);
}

function alarms(of: Stack): Record<string, any>[] {
  return Object.values(Template.fromStack(of).findResources("AWS::CloudWatch::Alarm"));
}

it("counts the lines of every log group in one metric for each page", () => {
  const shop = stack();
  new IdempotencyAlarms(shop.stack, "Alarms", shop.props);
  const filters = Object.values(Template.fromStack(shop.stack).findResources("AWS::Logs::MetricFilter"));
  const lost = filters.filter((filter) => JSON.stringify(filter).includes("LeaseLost"));
  expect(lost).toHaveLength(2);
  for (const filter of lost) {
    expect(filter["Properties"].MetricTransformations).toMatchObject([
      { MetricNamespace: "DynamoDbIdempotency", MetricName: "shop/Alarms/LeaseLost", MetricValue: "1" },
    ]);
  }
  Template.fromStack(shop.stack).hasResourceProperties("AWS::CloudWatch::Alarm", {
    Namespace: "DynamoDbIdempotency",
    MetricName: "shop/Alarms/LeaseLost",
    Threshold: 0,
    ComparisonOperator: "GreaterThanThreshold",
  });
});

it("has separate metrics for each construct in the same stack", () => {
  const { stack: shop, props } = stack();
  for (const id of ["Payments", "Refunds"]) new IdempotencyAlarms(shop, id, props);
  const counted = alarms(shop).map(({ Properties }) => Properties.MetricName).filter(Boolean);
  expect(counted).toContain("shop/Payments/LeaseLost");
  expect(new Set(counted).size).toBe(counted.length);
});

it("gives no two services of two constructs or stacks one metric or query", () => {
  const names = (stackName: string, id: string, service: string): string[] => {
    const stack = new Stack(new App(), stackName);
    const table = new IdempotencyTable(stack, "Idempotency");
    new IdempotencyAlarms(stack, id, { table, services: { [service]: { logGroup: new logs.LogGroup(stack, "Log") } } });
    const template = Template.fromStack(stack);
    const of = (type: string) => Object.values(template.findResources(type)).map(({ Properties }) => Properties);
    const metrics = of("AWS::Logs::MetricFilter").map(({ MetricTransformations }) => MetricTransformations[0].MetricName);
    return [...metrics, ...of("AWS::Logs::QueryDefinition").map(({ Name }) => Name)];
  };
  const all = [
    names("shop", "payments", "eu-api"),
    names("shop", "payments-eu", "api"),
    names("shop-payments", "eu", "api"),
    names("shop-payments-eu", "api", "a"),
  ];
  // Six pages, outcomes, what is of the service itself, and its queries.
  for (const one of all) expect(new Set(one).size).toBe(6 + 1 + 5 + 3);
  expect(new Set(all.flat()).size).toBe(4 * (6 + 1 + 5 + 3));
});

it("sends pages and tickets, and their ends, where it is asked to", () => {
  const { stack: shop, props } = stack();
  const [pageActions, ticketActions] = ["Pages", "Tickets"].map((id) => [new SnsAction(new sns.Topic(shop, id))]);
  const { pages, tickets } = new IdempotencyAlarms(shop, "Alarms", { ...props, pageActions, ticketActions });
  expect([pages.length, tickets.length]).toEqual([6 + 2 * 3, 2 + 2 * 3]);
  const notifying = (topic: string) => {
    const actions = [{ Ref: expect.stringMatching(`^${topic}`) }];
    return alarms(shop).filter(({ Properties }) => {
      expect(Properties.OKActions).toEqual(Properties.AlarmActions);
      return expect.objectContaining({ AlarmActions: actions }).asymmetricMatch(Properties);
    });
  };
  expect([notifying("Pages").length, notifying("Tickets").length]).toEqual([pages.length, tickets.length]);
  const quiet = stack();
  new IdempotencyAlarms(quiet.stack, "Alarms", quiet.props);
  const absent = { AlarmActions: Match.absent(), OKActions: Match.absent() };
  Template.fromStack(quiet.stack).allResourcesProperties("AWS::CloudWatch::Alarm", absent);
});

it("compares a server's failures with the calls in its log", () => {
  const { stack: shop, props } = stack();
  new IdempotencyAlarms(shop, "Alarms", props);
  const failing = alarms(shop).filter((alarm) => JSON.stringify(alarm).includes("100 * failed / calls"));
  expect(failing.map(({ Properties }) => Properties.Threshold).sort()).toEqual([5, 5, 50, 50]);
  for (const alarm of failing) {
    const [, name] = /^(\w): /.exec(alarm["Properties"].AlarmDescription)!;
    for (const metric of ["Failed", "Calls"]) expect(JSON.stringify(alarm)).toContain(`"shop/Alarms/${name}/${metric}"`);
  }
});

it("watches the errors and the throttles of each function by itself", () => {
  const { stack: shop, props } = stack();
  const services = { One: { fn: fn(shop, "One") }, Two: { fn: fn(shop, "Two") } };
  new IdempotencyAlarms(shop, "Alarms", { ...props, services });
  for (const [metric, times] of [["Errors", 2], ["Throttles", 1], ["Invocations", 2]] as const) {
    for (const name of Object.keys(services)) {
      const of = alarms(shop).map((alarm) => JSON.stringify(alarm)).filter((alarm) => alarm.includes(`"Value":"${name}"`));
      expect(of.filter((alarm) => alarm.includes(`"MetricName":"${metric}"`))).toHaveLength(times);
    }
  }
});

it("has the alarms of fifty functions: each on ten metrics at most, in stacks of less than 500 resources", () => {
  const { stack: shop, props } = stack();
  const names = Array.from({ length: 50 }, (_, index) => `fn${index}`);
  const service = (name: string): IdempotencyService => ({
    fn: fn(shop, name),
    logGroup: logs.LogGroup.fromLogGroupName(shop, `${name}Logs`, name),
  });
  const services = Object.fromEntries(names.map((name) => [name, service(name)]));
  const watch = new IdempotencyAlarms(shop, "Alarms", { ...props, services });
  const stacks = [shop, ...watch.node.findAll().filter((one): one is NestedStack => one instanceof NestedStack)];
  expect(stacks).toHaveLength(5);
  const all = stacks.flatMap((stack) => {
    const { Resources, Parameters } = Template.fromStack(stack).toJSON();
    expect(Object.keys(Resources).length).toBeLessThan(300);
    expect(Object.keys(Parameters ?? {}).length).toBeLessThan(200);
    return alarms(stack);
  });
  expect(all).toHaveLength(6 + 2 + 50 * 9);
  for (const { Properties } of all) {
    const metrics = (Properties.Metrics ?? []).filter((metric: any) => metric.MetricStat);
    expect(metrics.length).toBeLessThanOrEqual(10);
  }
  for (const name of names) {
    // A deployment group of CodeDeploy takes ten.
    expect(watch.alarmsOfVersion(name)).toHaveLength(9);
    expect(all.filter(({ Properties }) => Properties.AlarmDescription.startsWith(`${name}: `))).toHaveLength(9);
  }
  expect(() => watch.alarmsOfVersion("other")).toThrow("there is no service other");
});

it("refuses services that it cannot watch or tell apart", () => {
  const { stack: shop, props } = stack();
  const logGroup = props.services["a"]!.logGroup!;
  const alarms = (id: string, services: { [name: string]: IdempotencyService }) => () =>
    new IdempotencyAlarms(shop, id, { ...props, services });
  expect(alarms("1", { a: {} })).toThrow("the service a has neither fn nor logGroup");
  expect(alarms("3", { "a/b": { logGroup } })).toThrow("the service a/b has other characters");
  expect(alarms("2", { a: { logGroup }, b: { logGroup } })).toThrow("a and b share a log group");
});
