/** The stack of `lambda-example` by SAM and by CDK, for the same settings. */

import { App } from "aws-cdk-lib";
import { Template as Synthesized } from "aws-cdk-lib/assertions";
import { BUNDLING_STACKS } from "aws-cdk-lib/cx-api";
import * as fs from "node:fs";
import * as path from "node:path";

import { PaymentsStack } from "../../app/payments-stack";
import { settings, type Settings } from "../../app/settings";
import { deployed, type Resource, type Template } from "./cloudformation";
import { STACK_NAME } from "./deployment";

/** Where `cargo xtask verify infra` leaves what it makes of the SAM templates, before it runs these tests. */
const SAM = process.env["TRANSLATED_SAM_TEMPLATES"] ?? path.resolve("../../target/infra");

export const KEY = "arn:aws:kms:eu-central-1:111122223333:key/00000000-0000-0000-0000-000000000000";
export const CAPACITY_PROVIDER = "arn:aws:lambda:eu-central-1:111122223333:capacity-provider:payments";
export const TOPIC = "arn:aws:sns:eu-central-1:111122223333:alarms";
export const TICKETS = "arn:aws:sns:eu-central-1:111122223333:tickets";

/** The settings that are tried, by name: each value of each one. */
export const VARIANTS: { readonly [name: string]: { readonly [key: string]: string } } = {
  dev: { stage: "dev" },
  prod: { stage: "prod", alarmTopicArn: TOPIC, ticketTopicArn: TICKETS },
  "function URL": { stage: "dev", endpoint: "function-url" },
  "own key": { stage: "prod", kmsKeyArn: KEY },
  "a table that is there": {
    stage: "prod",
    kmsKeyArn: KEY,
    idempotencyTableName: "restored",
    requestsPerSecond: "50",
    reservedConcurrency: "20",
    consumerConcurrency: "5",
  },
  x86_64: { stage: "dev", architecture: "x86_64", logRetentionDays: "7" },
  "Managed Instances": { stage: "prod", capacityProviderArn: CAPACITY_PROVIDER },
};

export function cdkStack(context: { readonly [key: string]: string }): PaymentsStack {
  // Nothing is built: the templates are what is looked at.
  const app = new App({ context: { ...context, [BUNDLING_STACKS]: [] } });
  return new PaymentsStack(app, STACK_NAME, { settings: settings(app.node) });
}

export type Tool = "SAM" | "CDK";
export const TOOLS: readonly Tool[] = ["SAM", "CDK"];

const synthesized = new Map<string, Template>();

/** The resources that this tool deploys with these settings. */
export function resources(tool: Tool, context: { readonly [key: string]: string }): { [id: string]: Resource } {
  if (tool === "SAM") return deployed(sam(context), parameters(context));
  const key = JSON.stringify(context);
  const known = synthesized.get(key) ?? (Synthesized.fromStack(cdkStack(context)).toJSON() as Template);
  synthesized.set(key, known);
  return deployed(known);
}

/** The names of the stack's outputs. CDK appends a hash to none that is the stack's own child. */
export function outputs(tool: Tool, context: { readonly [key: string]: string }): string[] {
  const template = tool === "SAM" ? sam(context) : (Synthesized.fromStack(cdkStack(context)).toJSON() as Template);
  return Object.keys(template.Outputs ?? {});
}

/** There are two templates: a capacity provider is none that a condition can leave out. */
function sam({ capacityProviderArn }: { readonly [key: string]: string }): Template {
  const file = path.join(SAM, capacityProviderArn === undefined ? "template.json" : "managed-instances.json");
  if (!fs.existsSync(file)) {
    throw new Error(`${file} is not there: run \`cargo xtask verify infra\`, which translates the templates`);
  }
  return JSON.parse(fs.readFileSync(file, "utf8")) as Template;
}

function parameters(context: { readonly [key: string]: string }): { [name: string]: string } {
  const names: { [key in keyof Settings]: string } = {
    stage: "Stage",
    endpoint: "Endpoint",
    architecture: "Architecture",
    idempotencyTableName: "IdempotencyTableName",
    rollout: "Rollout",
    requestsPerSecond: "RequestsPerSecond",
    reservedConcurrency: "ReservedConcurrency",
    consumerConcurrency: "ConsumerConcurrency",
    capacityProviderArn: "CapacityProviderArn",
    kmsKeyArn: "KmsKeyArn",
    logRetentionDays: "LogRetentionDays",
    alarmTopicArn: "AlarmTopicArn",
    ticketTopicArn: "TicketTopicArn",
  };
  return Object.fromEntries(
    Object.entries(context).map(([key, value]) => [names[key as keyof typeof names], value]),
  );
}
