import { App, Stack } from "aws-cdk-lib";
import { Template } from "aws-cdk-lib/assertions";
import { CfnInclude } from "aws-cdk-lib/cloudformation-include";
import { AwsSolutionsChecks } from "cdk-nag";
import type { IConstruct } from "constructs";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { describe, expect, it } from "vitest";

import { settings } from "../app/settings";
import { cdkStack, resources, VARIANTS } from "./support/stacks";

/** What the AWS Solutions pack has against a stack, beyond what is acknowledged there. */
function violations(stack: IConstruct): string[] {
  const report = new AwsSolutionsChecks(stack).validateScope(stack);
  return report.violations.map(({ ruleName }) => ruleName).sort();
}

describe.each(Object.entries(VARIANTS))("%s", (_, variant) => {
  it("is clean by the AWS Solutions rules", () => {
    expect(violations(cdkStack(variant))).toEqual([]);
  });

  it("is clean by the AWS Solutions rules from the SAM template too", () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "sam-"));
    const templateFile = path.join(folder, "template.json");
    fs.writeFileSync(templateFile, JSON.stringify({ Resources: resources("SAM", variant) }));
    const stack = new Stack(new App(), "sam");
    new CfnInclude(stack, "Template", { templateFile });
    fs.rmSync(folder, { recursive: true });
    const table = variant["idempotencyTableName"];
    const arn = table ? `arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/${table}` : "<IdempotencyTable.Arn>";
    // X-Ray's, CodeDeploy's, and those of a restore, as they are acknowledged in the CDK app.
    expect(violations(stack)).toEqual([
      "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSCodeDeployRoleForLambdaLimited]",
      "AwsSolutions-IAM5[Resource::*]",
      ...["-*", "/backup/*"].map((more) => `AwsSolutions-IAM5[Resource::${arn}${more}]`),
    ].sort());
  });
});

// The variant with the most resources; test/both.test.ts checks how the others differ.
it("is what it was", () => {
  const template: object = Template.fromStack(cdkStack(VARIANTS["own key"]!)).toJSON();
  const text = JSON.stringify(template, undefined, 2);
  // The hashes of the functions' sources.
  expect(text.replace(/[0-9a-f]{64}/g, "<hash>")).toMatchSnapshot();
});

describe("settings", () => {
  const of = (context: object) => settings(new App({ context }).node);

  it("have the defaults of the SAM template", () => {
    expect(of({ stage: "dev" })).toEqual({
      stage: "dev",
      endpoint: "http-api",
      architecture: "arm64",
      idempotencyTableName: undefined,
      rollout: "AllAtOnce",
      requestsPerSecond: 1000,
      reservedConcurrency: undefined,
      consumerConcurrency: 50,
      capacityProviderArn: undefined,
      kmsKeyArn: undefined,
      logRetentionDays: 30,
      alarmTopicArn: undefined,
      ticketTopicArn: undefined,
    });
  });

  it.each([
    [{}, "stage is not set: choose one of dev, prod"],
    [{ stage: "test" }, "stage is test"],
    [{ stage: "dev", endpoint: "rest" }, "endpoint is rest"],
    [{ stage: "dev", architecture: "arm" }, "architecture is arm"],
    [{ stage: "dev", logRetentionDays: "long" }, "logRetentionDays is not a number"],
    [{ stage: "dev", rollout: "Canary" }, "rollout is Canary"],
    [{ stage: "dev", consumerConcurrency: "1" }, "consumerConcurrency is not a number from 2 on"],
    [{ stage: "dev", reservedConcurrency: "0" }, "reservedConcurrency is not a number from 1 on"],
  ])("%j is refused", (context, reason) => {
    expect(() => of(context)).toThrow(reason);
  });
});
