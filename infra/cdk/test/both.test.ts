/** SAM and CDK deploy the same, and that is what the crate needs. */

import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { describe, expect, it } from "vitest";

import contract from "../../contract.json";
import type { Object } from "./support/cloudformation";
import { deployment, type Deployment, shown, STACK_NAME } from "./support/deployment";
import { ALARMS, QUERIES, rows, SIGNALS } from "./support/pages";
import { KEY, outputs, resources, TICKETS, TOOLS, TOPIC, VARIANTS } from "./support/stacks";

type Variant = (typeof VARIANTS)[string];

const IDEMPOTENCY = "table by pk";
const PAYMENTS = "table by tenant, id";
const LEDGER = "table by account, id";
const API = "function of the API";
const CONSUMER = "function of the consumer";

const RELEASES = "Looks at the idempotency table by the command line, releases keys, and sends dead letters back.";

const RESTORES = "Restores the idempotency table.";

const ROLLOUT = "Shifts traffic to new versions of the functions.";

const SCOPES: { readonly [fn: string]: readonly string[] } = {
  [API]: ["payments", "transfers"],
  [CONSUMER]: ["payment-events"],
};

/** What the alarms of a function begin with. */
const NAMES: { readonly [part: string]: string } = { API: "payments", consumer: "payment-events" };

/** Metrics that one alarm may be on, a limit of CloudWatch, and alarms that a rollout may watch, one of CodeDeploy. */
const MOST_METRICS = 10;
const MOST_ALARMS = 10;

/** Where the idempotency table is: the stack's own, or one that is there. */
function idempotencyTable(variant: Variant): { name: string; arn: string } {
  const name = variant["idempotencyTableName"];
  if (name === undefined) return { name: `<${IDEMPOTENCY}>`, arn: `<${IDEMPOTENCY}: Arn>` };
  return { name, arn: `arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/${name}` };
}

const ENVIRONMENTS: { readonly [fn: string]: { readonly [name: string]: string } } = {
  [API]: { PAYMENTS_TABLE: `<${PAYMENTS}>` },
  [CONSUMER]: { LEDGER_TABLE: `<${LEDGER}>` },
};

function alarms(of: Deployment): Object[] {
  const alarms = Object.values(of.resources).filter(({ Type }) => Type === "AWS::CloudWatch::Alarm");
  return alarms.map(({ Properties }) => Properties!);
}

function properties(of: Deployment, label: string): Object {
  const resource = of.resources[label];
  expect(resource, label).toBeDefined();
  return resource!.Properties!;
}

describe.each(Object.keys(VARIANTS))("%s", (name) => {
  const variant = VARIANTS[name]!;
  const isProduction = variant["stage"] === "prod";
  const isOwn = variant["idempotencyTableName"] === undefined;
  const table = idempotencyTable(variant);
  const [sam, cdk] = TOOLS.map((tool) => deployment(resources(tool, variant))) as [Deployment, Deployment];

  it("is the same stack by either tool", () => {
    const [{ dashboard: ofSam, ...samResources }, { dashboard: ofCdk, ...cdkResources }] = [
      sam.resources,
      cdk.resources,
    ];
    expect(samResources).toEqual(cdkResources);
    expect([ofSam, ofCdk]).not.toContain(undefined);
    expect(shown(sam)).toEqual(shown(cdk));
    expect(sam.permissions).toEqual(cdk.permissions);
  });

  describe.each([
    ["SAM", sam],
    ["CDK", cdk],
  ] as const)("%s", (tool, stack) => {
    it("has the table that `Idempotency::create_table` makes, unless it uses one that is there", () => {
      if (isOwn) expect(properties(stack, IDEMPOTENCY)).toMatchObject(contract.table);
      else expect(stack.resources[IDEMPOTENCY]).toBeUndefined();
    });

    it("can restore its tables, and protects them in production", () => {
      for (const label of [...(isOwn ? [IDEMPOTENCY] : []), PAYMENTS, LEDGER]) {
        const table = stack.resources[label]!;
        expect(table.DeletionPolicy).toBe(isProduction ? "Retain" : "Delete");
        expect(table.UpdateReplacePolicy).toBe(table.DeletionPolicy);
        expect(table.Properties!["DeletionProtectionEnabled"] ?? false).toBe(isProduction);
        const recovery = { PointInTimeRecoveryEnabled: true };
        expect(table.Properties!["PointInTimeRecoverySpecification"]).toEqual(recovery);
        const own = { SSEEnabled: true, SSEType: "KMS", KMSMasterKeyId: KEY };
        expect(table.Properties!["SSESpecification"]).toEqual(variant["kmsKeyArn"] ? own : undefined);
      }
    });

    it("grants what the crate sends, on the records of its scopes, and nothing else", () => {
      for (const [fn, scopes] of Object.entries(SCOPES)) {
        const grants = stack.permissions[fn]!.filter(({ resource }) => resource === table.arn);
        const leadingKeys = scopes.flatMap((scope) => [`${scope}#*`, `${scope}/*#*`]);
        const condition = {
          "ForAllValues:StringLike": { "dynamodb:LeadingKeys": leadingKeys },
          Null: { "dynamodb:LeadingKeys": "false" },
        };
        expect(grants).toEqual([{ actions: contract.actions, resource: table.arn, condition }]);
      }
    });

    it("grants what the example's own code sends to its own tables", () => {
      const source = rustSources("../../lambda-example/src", ["ledger.rs", "payment_events.rs"]);
      const calls: [RegExp, string][] = [
        [/\.put_item\(\)|\bPut::builder/, "dynamodb:PutItem"],
        [/\.get_item\(\)/, "dynamodb:GetItem"],
        [/\.query\(\)/, "dynamodb:Query"],
        [/\.update_item\(\)|\bUpdate::builder/, "dynamodb:UpdateItem"],
        [/\.delete_item\(\)|\bDelete::builder/, "dynamodb:DeleteItem"],
        [/\bConditionCheck::builder/, "dynamodb:ConditionCheckItem"],
        [/\.scan\(\)/, "dynamodb:Scan"],
      ];
      const sent = calls.filter(([call]) => call.test(source)).map(([, action]) => action);
      const grants = (fn: string, table: string) =>
        stack.permissions[fn]!.filter(({ resource }) => resource === `<${table}: Arn>`);
      expect(grants(API, PAYMENTS)).toEqual([{ actions: sent.sort(), resource: `<${PAYMENTS}: Arn>` }]);
      expect(grants(API, LEDGER)).toEqual([]);
      const booking = { actions: ["dynamodb:PutItem"], resource: `<${LEDGER}: Arn>` };
      expect(grants(CONSUMER, LEDGER)).toEqual([booking]);
      expect(grants(CONSUMER, PAYMENTS)).toEqual([]);
    });

    it("grants a wildcard resource to nothing but X-Ray and a restore", () => {
      const xray = ["xray:PutTelemetryRecords", "xray:PutTraceSegments"];
      const list = { actions: ["dynamodb:ListBackups"], resource: "*" };
      const restore = { actions: contract.restore, resource: [table.arn, `${table.arn}-*`, `${table.arn}/backup/*`] };
      for (const [role, statements] of Object.entries(stack.permissions)) {
        const wide = statements.filter(({ resource }) => JSON.stringify(resource).includes("*"));
        if (role === RESTORES) expect(wide).toEqual([restore, list]);
        else expect(wide).toEqual(role in SCOPES ? [{ actions: xray, resource: "*" }] : []);
      }
    });

    it("has outputs for the variables of docs/guide/operate.md that a deployment decides", () => {
      const used = new Set([...PAGE.matchAll(/\$\{?([A-Z][A-Z_]+)\b/g)].map(([, name]) => name!));
      // A new one is either an output of each deployment, or the operator's own choice.
      for (const name of used) expect([...Object.keys(OUTPUTS), ...CHOSEN]).toContain(name);
      for (const output of Object.values(OUTPUTS)) {
        expect(outputs(tool, variant)).toContain(output);
        expect(PAGE.includes(`\`${output}\``), output).toBe(true);
      }
    });

    it("grants the use of a customer managed key through DynamoDB and the queue, if there is one", () => {
      for (const [role, statements] of Object.entries(stack.permissions)) {
        const grants = statements.filter(({ actions }) => actions.some((action) => action.startsWith("kms:")));
        const through = (service: string) => ({
          resource: KEY,
          condition: { StringEquals: { "kms:ViaService": `${service}.<AWS::Region>.amazonaws.com` } },
        });
        const services = role === CONSUMER || role === RELEASES ? ["dynamodb", "sqs"] : ["dynamodb"];
        const restores = grants.filter(({ actions }) => actions.includes("kms:CreateGrant"));
        expect(restores).toHaveLength(role === RESTORES && variant["kmsKeyArn"] ? 1 : 0);
        const isInvolved = variant["kmsKeyArn"] !== undefined && role !== ROLLOUT;
        expect(grants).toMatchObject(isInvolved ? services.map(through) : []);
        const ofQueue = grants.find(({ condition }) => JSON.stringify(condition).includes("sqs."));
        const sends = role === RELEASES ? ["kms:GenerateDataKey"] : [];
        if (ofQueue) expect(ofQueue.actions).toEqual(["kms:Decrypt", ...sends]);
      }
    });

    it("encrypts queues and logs by its own key, where there is one", () => {
      for (const queue of ["queue", "dead-letter queue"]) {
        const own = variant["kmsKeyArn"] ? { KmsMasterKeyId: KEY } : { SqsManagedSseEnabled: true };
        expect(properties(stack, queue)).toMatchObject(own);
      }
      for (const { Properties } of Object.values(stack.resources).filter(({ Type }) => Type === "AWS::Logs::LogGroup")) {
        expect(Properties!["KmsKeyId"]).toBe(variant["kmsKeyArn"]);
      }
    });

    it("lets operators do what the command line does, and no more", () => {
      const [inspector, operator] = ["Looks at the idempotency table by the command line.", RELEASES];
      const of = (role: string) =>
        stack.permissions[role]!.filter(({ actions }) => actions.some((action) => action.startsWith("dynamodb:")));
      const resource = table.arn;
      const inspection = { actions: contract.inspection, resource };
      expect(of(inspector)).toEqual([inspection]);
      expect(of(operator)).toEqual(expect.arrayContaining([inspection, { actions: contract.release, resource }]));
      expect(of(operator)).toHaveLength(2);
      const redrive = stack.permissions[operator]!.filter(({ actions }) => actions.includes("sqs:StartMessageMoveTask"));
      expect(redrive).toMatchObject([{ resource: "<dead-letter queue: Arn>" }]);
      for (const role of [inspector, operator]) {
        const account = { AWS: "arn:<AWS::Partition>:iam::<AWS::AccountId>:root" };
        expect(properties(stack, role)["AssumeRolePolicyDocument"]).toMatchObject({
          Statement: [{ Effect: "Allow", Principal: account, Action: "sts:AssumeRole" }],
        });
      }
    });

    it("runs the example's binaries with the variables that they read", () => {
      for (const [fn, Variables] of Object.entries(ENVIRONMENTS)) {
        expect(properties(stack, fn)).toMatchObject({
          Runtime: "provided.al2023",
          Handler: "bootstrap",
          Architectures: [variant["architecture"] ?? "arm64"],
          TracingConfig: { Mode: "Active" },
        });
        const all = { IDEMPOTENCY_TABLE: table.name, ...Variables };
        expect(properties(stack, fn)["Environment"]).toEqual({ Variables: all });
      }
    });

    it("runs its functions on Managed Instances if a capacity provider is set, and on demand otherwise", () => {
      const CapacityProviderArn = variant["capacityProviderArn"];
      const config = { LambdaManagedInstancesCapacityProviderConfig: { CapacityProviderArn } };
      for (const part of ["API", "consumer"]) {
        const its = properties(stack, `function of the ${part}`);
        expect(its["CapacityProviderConfig"]).toEqual(CapacityProviderArn && config);
        expect(its["MemorySize"]).toBe(CapacityProviderArn ? 2048 : 512);
        // On Managed Instances each version has separate instances, which are billed.
        const version = stack.resources[`version of the ${part}`]!;
        expect(version.DeletionPolicy ?? "Delete").toBe(CapacityProviderArn ? "Delete" : "Retain");
      }
    });

    it("leaves a message hidden for six times as long as the consumer may run", () => {
      const timeout = properties(stack, CONSUMER)["Timeout"] as number;
      const queue = properties(stack, "queue");
      expect(queue["VisibilityTimeout"]).toBeGreaterThanOrEqual(6 * timeout);
      expect(queue["RedrivePolicy"]).toMatchObject({
        deadLetterTargetArn: "<dead-letter queue: Arn>",
        maxReceiveCount: 5,
      });
    });

    it("takes reports of single failures from the consumer", () => {
      expect(properties(stack, "event source")).toMatchObject({
        FunctionName: "<alias of the consumer>",
        ScalingConfig: { MaximumConcurrency: Number(variant["consumerConcurrency"] ?? 50) },
        EventSourceArn: "<queue: Arn>",
        FunctionResponseTypes: ["ReportBatchItemFailures"],
      });
    });

    it("asks for signed requests at its one endpoint", () => {
      const isUrl = variant["endpoint"] === "function-url";
      const [there, absent] = isUrl ? ["function URL", "route"] : ["route", "function URL"];
      const authorization = isUrl ? { AuthType: "AWS_IAM" } : { AuthorizationType: "AWS_IAM" };
      expect(properties(stack, there!)).toMatchObject(authorization);
      expect(stack.resources[absent!]).toBeUndefined();
    });

    it("limits requests to the configured rate", () => {
      const rate = Number(variant["requestsPerSecond"] ?? 1000);
      const limits = { ThrottlingRateLimit: rate, ThrottlingBurstLimit: rate };
      if (variant["endpoint"] !== "function-url") {
        expect(properties(stack, "stage")["DefaultRouteSettings"]).toEqual(limits);
      }
      const reserved = variant["reservedConcurrency"];
      const most = reserved === undefined ? undefined : Number(reserved);
      expect(properties(stack, API)["ReservedConcurrentExecutions"]).toBe(most);
      expect(properties(stack, CONSUMER)["ReservedConcurrentExecutions"]).toBeUndefined();
    });

    it("answers before its API gives up: an HTTP API after 30 s, a REST API after 29", () => {
      expect(properties(stack, API)["Timeout"]).toBeLessThan(29);
    });

    it("moves from version to version, and back when an alarm rings that a version can raise", () => {
      for (const part of ["API", "consumer"]) {
        const { Properties, UpdatePolicy } = stack.resources[`alias of the ${part}`]!;
        expect(Properties).toMatchObject({
          FunctionName: `<function of the ${part}>`,
          FunctionVersion: `<version of the ${part}: Version>`,
        });
        expect(UpdatePolicy).toMatchObject({
          CodeDeployLambdaAliasUpdate: { DeploymentGroupName: `<rollout of the ${part}>` },
        });
        const group = properties(stack, `rollout of the ${part}`);
        const names = alarms(stack).map((alarm) => `<alarm: ${alarm["AlarmDescription"]}>`);
        const watched = (group["AlarmConfiguration"] as Object)["Alarms"] as Object[];
        expect(watched.length).toBeGreaterThan(5);
        expect(watched.length).toBeLessThanOrEqual(MOST_ALARMS);
        for (const { Name } of watched) expect(names).toContain(Name);
        const own = watched.filter(({ Name }) => (Name as string).includes(`: ${NAMES[part]}: `));
        expect(own).toHaveLength(4);
        const events = (group["AutoRollbackConfiguration"] as Object)["Events"];
        expect(events).toContain("DEPLOYMENT_STOP_ON_ALARM");
        expect(events).toContain("DEPLOYMENT_FAILURE");
      }
    });

    it("deletes its logs after a time", () => {
      const groups = Object.values(stack.resources).filter(({ Type }) => Type === "AWS::Logs::LogGroup");
      expect(groups).toHaveLength(variant["endpoint"] === "function-url" ? 2 : 3);
      for (const group of groups) {
        const days = Number(variant["logRetentionDays"] ?? 30);
        expect(group.Properties!["RetentionInDays"]).toBe(days);
      }
    });

    it("has the alarms of docs/signals.md, over the lines that it names", () => {
      expect(SIGNALS.length).toBeGreaterThan(5);
      for (const { name, pattern } of SIGNALS) {
        for (const part of ["API", "consumer"]) {
          const filter = properties(stack, `${name} in the log of the ${part}`);
          expect(filter["FilterPattern"]).toBe(pattern);
          expect(filter["LogGroupName"]).toBe(`<log of the ${part}>`);
          const [{ MetricName }] = filter["MetricTransformations"] as [Object];
          const counting = alarms(stack).filter((alarm) => JSON.stringify(alarm).includes(`"${MetricName}"`));
          expect(counting.length, name).toBeGreaterThan(0);
          for (const alarm of counting) {
            const isPage = alarm["MetricName"] !== undefined;
            expect(alarm).toMatchObject(isPage ? { Statistic: "Sum", Threshold: 0, EvaluationPeriods: 1 } : { EvaluationPeriods: 5 });
            if (!isPage) expect(alarm["AlarmDescription"]).toMatch(new RegExp(`^${NAMES[part]}: `));
          }
        }
      }
      const filters = Object.values(stack.resources).filter(({ Type }) => Type === "AWS::Logs::MetricFilter");
      expect(filters).toHaveLength(2 * SIGNALS.length + 2);
    });

    it("compares failures with what runs: a single one of many is no alarm", () => {
      const shares = alarms(stack).filter((alarm) => JSON.stringify(alarm).includes("100 * "));
      expect(shares).toHaveLength(2 * 8 + 2);
      for (const alarm of shares) {
        const conditions = [{ Threshold: 50, DatapointsToAlarm: 3 }, { Threshold: 5, DatapointsToAlarm: 2 }];
        const [condition] = conditions.filter(({ Threshold }) => Threshold === alarm["Threshold"]);
        expect(alarm).toMatchObject({ ...condition, EvaluationPeriods: 5 });
      }
    });

    it("has no alarm on two functions: with fifty of them, each is still on ten metrics at most", () => {
      for (const alarm of alarms(stack)) {
        const text = JSON.stringify(alarm);
        expect(["API", "consumer"].filter((part) => text.includes(`<function of the ${part}>`)).length).toBeLessThan(2);
        const metrics = ((alarm["Metrics"] ?? []) as Object[]).filter(({ MetricStat }) => MetricStat);
        expect(metrics.length, text).toBeLessThanOrEqual(MOST_METRICS);
      }
    });

    it("names the policies of a role by stack, kind and service: none replaces another", () => {
      const inline = Object.values(resources(tool, variant)).filter(({ Type }) => Type === "AWS::IAM::Role");
      const policies = inline.flatMap(({ Properties }) => (Properties!["Policies"] ?? []) as Object[]);
      const ours = policies.filter(({ PolicyDocument }) => JSON.stringify(PolicyDocument).includes("dynamodb:UpdateTable"));
      const names = policies.map(({ PolicyName }) => JSON.stringify(PolicyName)).filter((name) => name.includes("+idempotency+"));
      expect(new Set(names).size).toBe(names.length);
      for (const name of names) expect(name).toContain("${AWS::StackName}+idempotency+");
      expect(names.length).toBeGreaterThanOrEqual(tool === "SAM" ? 5 : 0);
      expect(ours).toHaveLength(tool === "SAM" ? 1 : 0);
    });

    it("saves the queries of docs/signals.md for each log, named by stack, service and query", () => {
      expect(Object.keys(QUERIES)).toContain("AbandonedByKey");
      for (const [name, QueryString] of Object.entries(QUERIES)) {
        for (const part of ["API", "consumer"]) {
          expect(properties(stack, `query ${name} of the log of the ${part}`)).toEqual({
            Name: `${STACK_NAME}/${NAMES[part]}/${name}`,
            QueryString,
            LogGroupNames: [`<log of the ${part}>`],
          });
        }
      }
      const saved = Object.values(stack.resources).filter(({ Type }) => Type === "AWS::Logs::QueryDefinition");
      expect(saved).toHaveLength(2 * Object.keys(QUERIES).length);
    });

    it("joins the parts of a metric's name by a character that no part contains", () => {
      const filters = Object.values(stack.resources).filter(({ Type }) => Type === "AWS::Logs::MetricFilter");
      const counted = filters.map(({ Properties }) => (Properties!["MetricTransformations"] as Object[])[0]!["MetricName"]);
      const onOneLine = SIGNALS.map(({ name }) => name).filter((name) => ALARMS.some((alarm) => alarm.name === name && !alarm.isOfFunction));
      const shared = [...onOneLine, "Outcomes"].map((name) => `${STACK_NAME}/${name}`);
      const own = SIGNALS.filter(({ name }) => !onOneLine.includes(name)).flatMap(({ name }) =>
        Object.values(NAMES).map((service) => `${STACK_NAME}/${service}/${name}`),
      );
      expect([...new Set(counted)].sort()).toEqual([...shared, ...own].sort());
    });

    it("shows how calls ended, by the names of docs/signals.md", () => {
      const graphs = new Map(shown(stack).map(({ title, metrics }) => [title, JSON.stringify(metrics)]));
      const known = rows("## Outcomes").map(([outcome]) => outcome!.replaceAll("`", ""));
      const outcomes = [...graphs.get("How calls ended")!.matchAll(/Outcomes outcome (\w+)/g)].map(([, of]) => of!);
      expect(outcomes).toEqual(known);
      const share = graphs.get("Replays in 100 first runs and replays")!;
      for (const outcome of ["first", "replay"]) expect(share).toContain(`Outcomes outcome ${outcome}"`);
      for (const part of ["API", "consumer"]) {
        expect(properties(stack, `Outcomes in the log of the ${part}`)).toMatchObject({
          FilterPattern: '{ $.fields.message = "an idempotent call has ended" }',
          MetricTransformations: [{ Dimensions: [{ Key: "outcome", Value: "$.fields.outcome" }] }],
        });
        // Where the field is: as JSON, `tracing-subscriber` writes an event's own below `fields`.
        expect(properties(stack, `function of the ${part}`)["LoggingConfig"]).toMatchObject({ LogFormat: "JSON" });
      }
    });

    it("has alarms on failures that appear in no log line", () => {
      const serverErrors = variant["endpoint"] === "function-url" ? "Url5xxCount" : "5xx";
      for (const [metric, times] of [
        ["WriteThrottleEvents", 1],
        ["SystemErrors", 1],
        [serverErrors, 2],
        ["Errors", 4],
        ["Throttles", 2],
        ["ApproximateNumberOfMessagesVisible", 1],
        ["ApproximateAgeOfOldestMessage", 1],
      ] as const) {
        const watching = alarms(stack).filter((alarm) => JSON.stringify(alarm).includes(`"MetricName":"${metric}"`));
        expect(watching, metric).toHaveLength(times);
      }
    });

    it("sends pages and tickets, and their ends, to topics of their own", () => {
      const hasTopic = variant["alarmTopicArn"] !== undefined;
      const notified = alarms(stack).map((alarm) => {
        expect(alarm["OKActions"]).toEqual(alarm["AlarmActions"]);
        expect(alarm["TreatMissingData"]).toBe("notBreaching");
        return (alarm["AlarmActions"] as string[] | undefined)?.[0];
      });
      const of = (severity?: string) =>
        ALARMS.filter((alarm) => severity === undefined || alarm.severity === severity).flatMap(({ isOfFunction }) =>
          isOfFunction ? ["API", "consumer"] : ["all"],
        );
      expect(notified).toHaveLength(of().length);
      expect(notified.filter((topic) => topic === TOPIC)).toHaveLength(hasTopic ? of("page").length : 0);
      expect(notified.filter((topic) => topic === TICKETS)).toHaveLength(hasTopic ? of("ticket").length : 0);
      for (const alarm of hasTopic ? alarms(stack) : []) {
        const isDropped = (alarm["AlarmDescription"] as string).includes("are dropped");
        const isPage = isDropped || alarm["Threshold"] === 50 || SIGNALS.some(({ name }) => alarm["MetricName"] === `${STACK_NAME}/${name}`);
        expect(alarm["AlarmActions"]).toEqual([isPage ? TOPIC : TICKETS]);
      }
    });
  });
});

describe("docs/signals.md", () => {
  it("names an alarm for each outcome, warning and error that it says to alarm on", () => {
    const outcomes = rows("## Outcomes").filter(([, , advice]) => /\balarm\b/.test(advice!));
    expect(outcomes.length).toBeGreaterThan(4);
    // Of these two, other lines are counted.
    const byLine = ["`unprotected`", "`dropped`"];
    for (const [outcome] of outcomes.filter(([outcome]) => !byLine.includes(outcome!))) {
      const condition = `outcome = "${outcome!.replaceAll("`", "")}"`;
      expect(SIGNALS.some(({ pattern }) => pattern.includes(condition)), outcome).toBe(true);
    }
    const events = rows("## Warnings and errors").filter(([, , advice]) => /\balarm\b/.test(advice!));
    expect(events.length).toBeGreaterThan(4);
    for (const [, text] of events) expect(MESSAGES.some((message) => message.test(text!)), text).toBe(true);
  });

  it("pages for each event that says that repeats get an error", () => {
    const events = rows("## Warnings and errors").map(([, text]) => text!);
    const lost = events.filter((text) => text.includes("repeats get an error"));
    expect(lost.length).toBeGreaterThan(3);
    for (const text of lost) expect(text).toMatch(/: repeats get an error`$/);
  });

  it("counts lines that there are", () => {
    const events = rows("## Warnings and errors").map(([, text]) => text!);
    const ended = "`an idempotent call has ended`";
    for (const message of MESSAGES) {
      expect([...events, ended].some((text) => message.test(text)), String(message)).toBe(true);
    }
    const known = rows("## Outcomes").map(([outcome]) => outcome!.replaceAll("`", ""));
    const counted = SIGNALS.flatMap(({ pattern }) => [...pattern.matchAll(/outcome = "(\w+)"/g)].map(([, of]) => of!));
    expect(known).toEqual(expect.arrayContaining(counted));
  });

  it("counts lines of this crate alone: by their whole message, or by their target", () => {
    for (const { name, pattern } of SIGNALS) {
      const alternatives = pattern.replace(/^\{ | \}$/g, "").split(" || ");
      for (const one of alternatives) {
        expect(one, name).toMatch(/\$\.fields\.message = "|\$\.target = "dynamodb_idempotency\*"/);
      }
    }
  });
});

describe("contract.json", () => {
  it("has what docs/command-line.md says that the commands need", () => {
    const needs = (commands: string[]) => {
      const found = rows("## The command line", "../../docs/command-line.md").filter(([command]) =>
        commands.some((name) => command!.startsWith(`\`${name}`)),
      );
      expect(found).toHaveLength(commands.length);
      // What is needed without further options.
      const texts = found.map(([, , needs]) => needs!.split(";")[0]!);
      const names = texts.flatMap((text) => [...text.matchAll(/`(?:dynamodb:)?(\w+)`/g)].map(([, name]) => name));
      return [...new Set(names.map((name) => `dynamodb:${name}`))].sort();
    };
    const looks = needs(["doctor", "show", "find", "stuck", "stats", "watch"]);
    expect(contract.inspection).toEqual(looks);
    expect(needs(["release"]).filter((action) => !looks.includes(action))).toEqual(contract.release);
  });
});

describe("infra/sam/watch.py", () => {
  const watched = (...functions: string[]) => spawnSync("python3", ["../sam/watch.py", ...functions], { encoding: "utf8" });
  /** The metrics and queries of this function's own, in a stack of this name. */
  const names = (stack: string, fn: string): string[] => {
    const { stdout } = watched(fn);
    const all = [...stdout.matchAll(/Name: !Sub "\$\{AWS::StackName\}(.+)"/g)].map(([, name]) => stack + name);
    return [...new Set(all)].filter((name) => name.includes(fn));
  };

  it("gives no two functions of two stacks one metric or query", () => {
    const [api, eu] = [names("payments", "eu-api"), names("payments-eu", "api")];
    expect(api).toEqual(expect.arrayContaining(["payments/eu-api/Failed", "payments/eu-api/AbandonedByKey"]));
    expect(eu).toHaveLength(api.length);
    expect(api.filter((name) => eu.includes(name))).toEqual([]);
  });

  it("refuses two functions with resources of one id, and what is not the name of a function", () => {
    expect(watched("payments", "payments-most").stderr).toContain("payments and payments-most would both have the resource");
    expect(watched("a-b", "a_b").stderr).toContain("a-b and a_b would both have the resource");
    expect(watched("a/b").stderr).toContain("'a/b' is not the name of a function");
  });

  it("takes a function whose name contains the template's", () => {
    const { stdout } = watched("payment-events-eu");
    const groups = new Set([...stdout.matchAll(/\/aws\/lambda\/[\w-]+/g)].map(([group]) => group));
    expect([...groups]).toEqual(["/aws/lambda/payment-events-eu"]);
  });
});

describe("the SAM template", () => {
  it("rolls out as configured: the transform resolves the parameter, so the stacks above do not show it", () => {
    const template = fs.readFileSync("../sam/template.yaml", "utf8");
    expect(template).toMatch(/DeploymentPreference:\n +Type: !Ref Rollout\n/);
  });
});

describe("the example", () => {
  it("is built so that a panic frees its key: cargo-lambda's own choice is to abort", () => {
    const manifest = fs.readFileSync("../../Cargo.toml", "utf8");
    expect(manifest).toMatch(/^\[profile\.release\]\n(?:[^[].*\n)*panic = "unwind"$/m);
  });

  it("has the scopes that the example's handlers name", () => {
    const source = rustSources("../../lambda-example/src");
    const scopes = [...source.matchAll(/_SCOPE: &str = "([^"]+)"/g)].map(([, scope]) => scope);
    expect(source).not.toMatch(/\.(?:http|sqs|scope)\(\s*"/);
    expect(new Set(scopes)).toEqual(new Set(Object.values(SCOPES).flat()));
  });

  it("has the variables that the example reads", () => {
    const source = rustSources("../../lambda-example/src");
    const variables = [...source.matchAll(/env::var\("([^"]+)"\)/g)].map(([, name]) => name);
    expect(new Set(variables)).toEqual(new Set(Object.values(ENVIRONMENTS).flatMap(Object.keys)));
  });
});

/** The messages that are counted, as a table of the page has them. */
const MESSAGES = SIGNALS.flatMap(({ pattern }) =>
  [...pattern.matchAll(/message = "([^"]+)"/g)].map(([, text]) => {
    const escaped = text!.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    return new RegExp(`^\`${escaped.replaceAll("\\*", ".*")}\`$`);
  }),
);

/** The page whose commands use the outputs of a deployment. */
const PAGE = fs.readFileSync("../../docs/guide/operate.md", "utf8");

/** Its variables, by the outputs that they have. */
const OUTPUTS = {
  TABLE: "IdempotencyTableName",
  FUNCTIONS: "FunctionNames",
  DEAD_LETTER_QUEUE_ARN: "DeadLetterQueueArn",
};

/** Those that the operator decides. */
const CHOSEN = ["BACKUP", "FUNCTION", "OLD", "RESTORED"];

function rustSources(folder: string, without: readonly string[] = []): string {
  const files = fs.readdirSync(folder, { recursive: true, encoding: "utf8" });
  const sources = files.filter((file) => file.endsWith(".rs") && !without.includes(path.basename(file)));
  expect(sources.length).toBeGreaterThan(0);
  return sources.map((file) => fs.readFileSync(path.join(folder, file), "utf8")).join("\n");
}
