/**
 * The Terraform module is what the crate needs, as SAM and CDK are.
 *
 * What it says of the table, the grants, the alarms and the dashboard is in modules without a provider,
 * which Terraform evaluates here. `cargo xtask verify infra` applies the resources around it to moto, where the AWS
 * provider is installed.
 */

import { Stack } from "aws-cdk-lib";
import { Template } from "aws-cdk-lib/assertions";
import * as iam from "aws-cdk-lib/aws-iam";
import * as kms from "aws-cdk-lib/aws-kms";
import * as lambda from "aws-cdk-lib/aws-lambda";
import * as logs from "aws-cdk-lib/aws-logs";
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { beforeAll, describe, expect, it } from "vitest";

import contract from "../../contract.json";
import { IdempotencyAlarms, IdempotencyTable, type IIdempotencyTable, type Scope } from "../lib";
import { deployment, graphs, shown, STACK_NAME } from "./support/deployment";
import { QUERIES, SIGNALS } from "./support/pages";
import { KEY, resources, VARIANTS } from "./support/stacks";

const MODULE = path.resolve("../terraform");
const FUNCTION = "arn:aws:lambda:eu-central-1:111122223333:function:payments";
const TABLE = "arn:aws:dynamodb:eu-central-1:111122223333:table/idempotency";
const SCOPES: readonly (readonly string[])[] = [["payments"], ["refunds", "v2"], ["a*b?c$d", "x/y%#"]];

function terraform(folder: string, ...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const env = { ...process.env, CHECKPOINT_DISABLE: "1", TF_CLI_CONFIG_FILE: "/dev/null", TF_IN_AUTOMATION: "1" };
  return spawnSync("terraform", args, { cwd: folder, encoding: "utf8", env });
}

const IS_THERE = terraform(os.tmpdir(), "version").status === 0;
if (!IS_THERE) console.warn("this machine has no Terraform: infra/terraform is not looked at");

/** The outputs of one of the modules without a provider. */
function evaluated(variables: object, module = "contract"): { [name: string]: any } {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "terraform-"));
  fs.copyFileSync(path.join(MODULE, "modules", module, "main.tf"), path.join(folder, "main.tf"));
  fs.writeFileSync(path.join(folder, "terraform.tfvars.json"), JSON.stringify(variables));
  for (const args of [["init", "-input=false"], ["apply", "-auto-approve", "-input=false"]]) {
    const { status, stderr } = terraform(folder, ...args, "-no-color");
    if (status !== 0) throw new Error(stderr);
  }
  const outputs = JSON.parse(terraform(folder, "output", "-json").stdout) as { [name: string]: { value: any } };
  return Object.fromEntries(Object.entries(outputs).map(([name, { value }]) => [name, value]));
}

/** The alarms on these services. */
function watched(services: object): { [name: string]: any } {
  const variables = { region: "eu-central-1", table_name: "idempotency", outcomes: ["N", "M"], signals: ["DynamoDbIdempotency", "S"] };
  return evaluated({ ...variables, services }, "watch")["alarms"];
}

/** What the CDK construct grants on the same table. */
function granted(grant: (table: IIdempotencyTable, role: iam.Role) => void, withKey: boolean): object[] {
  const stack = new Stack();
  const encryptionKey = withKey ? kms.Key.fromKeyArn(stack, "Key", KEY) : undefined;
  const table = IdempotencyTable.fromTableAttributes(stack, "Table", { tableArn: TABLE, encryptionKey });
  const role = new iam.Role(stack, "Role", { assumedBy: new iam.ServicePrincipal("lambda.amazonaws.com") });
  grant(table, role);
  const [policy] = Object.values(Template.fromStack(stack).findResources("AWS::IAM::Policy"));
  return policy!["Properties"].PolicyDocument.Statement.map(statement);
}

/** With its actions as a list, in one order. */
function statement(of: { [key: string]: any }): object {
  return { ...of, Action: [of["Action"]].flat().sort() };
}

function statements(policy: string): object[] {
  return JSON.parse(policy).Statement.map(statement);
}

function inOrder(of: object[]): string[] {
  return of.map((one) => JSON.stringify(Object.entries(one).sort())).sort();
}

describe.skipIf(!IS_THERE)("infra/terraform", () => {
  let plain: { [name: string]: any };
  let withKey: { [name: string]: any };

  beforeAll(() => {
    plain = evaluated({ table_arn: TABLE, scopes: SCOPES });
    withKey = evaluated({ table_arn: TABLE, scopes: SCOPES, kms_key_arn: KEY });
  });

  it("is formatted, each file of it", () => {
    const { status, stdout, stderr } = terraform(MODULE, "fmt", "-check", "-recursive", "-no-color");
    expect(stdout + (status === 0 ? "" : stderr)).toBe("");
  });

  it("has the table that `Idempotency::create_table` makes", () => {
    expect(plain["table"]).toEqual(contract.table);
  });

  it("grants a function what the CDK construct does", () => {
    const grant = (table: IIdempotencyTable, role: iam.Role) =>
      void table.grantIdempotency(role, { scopes: SCOPES as Scope[] });
    for (const [outputs, key] of [[plain, false], [withKey, true]] as const) {
      expect(inOrder(statements(outputs["service_policy"]))).toEqual(inOrder(granted(grant, key)));
    }
    expect(statements(plain["service_policy"])).toMatchObject([{ Action: contract.actions }]);
  });

  it("never grants access to every record", () => {
    expect(evaluated({ table_arn: TABLE })["service_policy"]).toBeUndefined();
    expect(() => evaluated({ table_arn: TABLE, scopes: [["", "v2"]] })).toThrow("name the operation");
  });

  it("grants operators what the CDK construct does", () => {
    const of = (name: string) => inOrder(statements(withKey[name]));
    expect(of("inspection_policy")).toEqual(inOrder(granted((table, role) => void table.grantInspection(role), true)));
    expect(of("release_policy")).toEqual(inOrder(granted((table, role) => void table.grantRelease(role), true)));
    expect(of("restore_policy")).toEqual(inOrder(granted((table, role) => void table.grantRestore(role), true)));
    expect(statements(plain["release_policy"])).toMatchObject([
      { Action: contract.inspection },
      { Action: contract.release },
    ]);
    expect(statements(plain["restore_policy"])).toMatchObject([{ Action: contract.restore }, { Resource: "*" }]);
  });

  it("counts the lines that docs/signals.md names", () => {
    const { Calls: _, ...patterns } = plain["patterns"] as { [name: string]: string };
    expect(patterns).toEqual(Object.fromEntries(SIGNALS.map(({ name, pattern }) => [name, pattern])));
  });

  it("saves the queries of docs/signals.md", () => {
    expect(plain["queries"]).toEqual(QUERIES);
  });

  it("shows on its dashboard what the CDK app shows of functions, table and outcomes", () => {
    const services = {
      a: { function_name: "<function of the API>", has_log: true },
      b: { function_name: "<function of the consumer>", has_log: true },
    };
    const variables = { region: "<AWS::Region>", table_name: "<table by pk>", services };
    const outcomes = ["DynamoDbIdempotency", `${STACK_NAME}/Outcomes`];
    const { dashboard } = evaluated({ ...variables, outcomes, signals: ["N", "S"] }, "watch");
    const queues = "Payment events waiting";
    const ofCdk = shown(deployment(resources("CDK", VARIANTS["dev"]!))).filter(({ title }) => title !== queues);
    expect(graphs(dashboard)).toEqual(ofCdk);
  });

  it("has the alarms of the CDK construct, with the same meaning", () => {
    const stack = new Stack();
    const table = IdempotencyTable.fromTableName(stack, "Table", "idempotency");
    const server = { logGroup: new logs.LogGroup(stack, "ServerLogs") };
    const fn = lambda.Function.fromFunctionArn(stack, "Function", FUNCTION);
    const payments = { fn, logGroup: new logs.LogGroup(stack, "Logs") };
    new IdempotencyAlarms(stack, "Alarms", { table, services: { payments, server } });
    const alarms = Object.values(Template.fromStack(stack).findResources("AWS::CloudWatch::Alarm")).map(({ Properties }) => Properties);
    const counts = alarms.filter(({ Namespace }) => Namespace === "DynamoDbIdempotency");
    const pages = Object.values<string>(plain["pages"]);
    expect(pages.sort()).toEqual(counts.map(({ AlarmDescription }) => AlarmDescription).sort());

    const metric = ({ Namespace, MetricName, Dimensions }: any) => ({
      namespace: Namespace,
      name: MetricName.replace(/^.*\/Alarms\//, "S/"),
      dimensions: Object.fromEntries((Dimensions ?? []).map(({ Name, Value }: any) => [Name, Value])),
    });
    const ofCdk = alarms.filter((alarm) => !counts.includes(alarm)).map((alarm) => {
      const { AlarmDescription, EvaluationPeriods, DatapointsToAlarm, Metrics, Threshold } = alarm;
      return {
        description: AlarmDescription,
        severity: Threshold === 50 || AlarmDescription.includes("are dropped") ? "page" : "ticket",
        threshold: Threshold,
        evaluation_periods: EvaluationPeriods,
        datapoints_to_alarm: DatapointsToAlarm,
        // The one alarm on a single metric.
        expression: Metrics ? Metrics.find((metric: any) => metric.Expression).Expression : "throttles",
        metrics: Metrics
          ? Object.fromEntries(Metrics.filter((metric: any) => metric.MetricStat).map(({ Id, MetricStat }: any) => [Id, metric(MetricStat.Metric)]))
          : { throttles: metric(alarm) },
      };
    });
    const byDescription = (a: { description: string }, b: { description: string }) => (a.description < b.description ? -1 : 1);
    const services = { payments: { function_name: "payments", has_log: true }, server: { has_log: true } };
    expect(Object.values<any>(watched(services)).sort(byDescription)).toEqual(ofCdk.sort(byDescription));
    expect(Object.keys(watched({})).sort()).toEqual(["SystemErrors", "Throttles"]);
    const ofServer = Object.keys(watched({ server: services.server }));
    expect(ofServer).toEqual(expect.arrayContaining(["MostCallsFail/server", "CallsDropped/server"]));
    expect(ofServer).not.toContain("InvocationsFail/server");
  });

  it("has the alarms of fifty functions, each on ten metrics at most", () => {
    const names = Array.from({ length: 50 }, (_, index) => `fn${index}`);
    const alarms = Object.values<any>(watched(Object.fromEntries(names.map((name) => [name, { function_name: name, has_log: true }]))));
    expect(alarms).toHaveLength(2 + 50 * 9);
    for (const { metrics } of alarms) expect(Object.keys(metrics).length).toBeLessThanOrEqual(10);
  });

  it("takes no name that contains what joins the parts of names", () => {
    const variables = fs.readFileSync(path.join(MODULE, "variables.tf"), "utf8");
    const patterns = [...variables.matchAll(/regex\("(\^.+\$)", (?:var\.name|name)\)/g)].map(([, pattern]) => new RegExp(pattern!));
    expect(patterns).toHaveLength(2);
    for (const pattern of patterns) {
      expect("eu-api").toMatch(pattern);
      for (const name of ["eu/api", "eu+api"]) expect(name).not.toMatch(pattern);
    }
  });

  it("asks for no function's name and no log group: a server has none", () => {
    const variables = fs.readFileSync(path.join(MODULE, "variables.tf"), "utf8");
    for (const name of ["function_name", "log_group_name"]) expect(variables).toMatch(new RegExp(`${name} += optional\\(string\\)`));
  });

  it("counts outcomes by the pattern of the CDK construct", () => {
    const { resources: all } = deployment(resources("CDK", VARIANTS["dev"]!));
    expect(all["Outcomes in the log of the API"]!.Properties!["FilterPattern"]).toBe(plain["outcomes_pattern"]);
  });

  it("deploys the example's function with what it reads and may do", () => {
    const example = fs.readFileSync(path.join(MODULE, "examples/payments/main.tf"), "utf8");
    const variables = [...example.matchAll(/^ +([A-Z_]+) += /gm)].map(([, name]) => name);
    expect(variables.sort()).toEqual(["IDEMPOTENCY_TABLE", "PAYMENTS_TABLE"]);
    expect(example).toContain('scopes         = [["payments"], ["transfers"]]');
    expect(example).toContain('"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"');
    expect(Number(/timeout = (\d+)/.exec(example)![1])).toBeLessThan(29);
  });
});
