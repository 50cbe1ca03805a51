/** The same words for what SAM and CDK deploy, whatever they call it. */

import type { Json, Object, Resource } from "./cloudformation";

/** CDK knows it when it writes the template, SAM does not. */
export const STACK_NAME = "payments";

export interface Deployment {
  /** By label: a resource's meaning in place of its logical id. */
  readonly resources: { readonly [label: string]: Resource };
  /** The statements of each role, by the label of its function or by its purpose. */
  readonly permissions: { readonly [label: string]: Statement[] };
}

export interface Statement {
  readonly actions: string[];
  readonly resource: Json;
  readonly condition?: Json;
}

type Resources = { readonly [id: string]: Resource };

/** @throws if a resource has no meaning that is known here, or two have the same one */
export function deployment(resources: Resources): Deployment {
  const labels = new Map<string, string>();
  for (const [id, resource] of Object.entries(resources)) {
    const label = meaning(id, resource, resources);
    if (label === undefined) continue;
    if ([...labels.values()].includes(label)) throw new Error(`two resources are the ${label}`);
    labels.set(id, label);
  }
  const spelled = (value: unknown) => spell(value as Json, labels);
  return {
    resources: Object.fromEntries(
      [...labels].map(([id, label]) => [label, spelled(essence(resources[id]!)) as unknown as Resource]),
    ),
    permissions: Object.fromEntries(
      ofType("AWS::IAM::Role", resources).map(([id, role]) => [
        labels.get(functionOf(id, resources) ?? "") ?? String(properties(role)["Description"]),
        statements(id, resources).map((statement) => spelled(statement) as unknown as Statement).sort(byActions),
      ]),
    ),
  };
}

function properties(resource: Resource | undefined): Object {
  return resource?.Properties ?? {};
}

function ofType(type: string, resources: Resources): [string, Resource][] {
  return Object.entries(resources).filter(([, { Type }]) => Type === type);
}

function functions(resources: Resources): [string, Resource][] {
  return ofType("AWS::Lambda::Function", resources);
}

/** The function that has this role. */
function functionOf(role: string, resources: Resources): string | undefined {
  return functions(resources).find(([, fn]) => target(properties(fn)["Role"]) === role)?.[0];
}

/** The id that a `Ref` or an `Fn::GetAtt` is about. */
function target(value: Json | undefined): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const attribute = value["Fn::GetAtt"] as [string, string] | undefined;
  // CDK takes an alias's name from its ARN.
  const nested = value["Fn::Join"] && /"Ref":"(\w+)"/.exec(JSON.stringify(value))?.[1];
  return (value["Ref"] as string | undefined) ?? attribute?.[0] ?? (nested || undefined);
}

function meaning(id: string, resource: Resource, resources: Resources): string | undefined {
  const its = properties(resource);
  /** A function, where its alias is named too. */
  const behind = (value: Json | undefined): string | undefined => {
    const one = target(value);
    const { Type, Properties } = resources[one ?? ""] ?? {};
    return Type === "AWS::Lambda::Alias" ? target(Properties?.["FunctionName"]) : one;
  };
  const fn = (functionId: string | undefined) => {
    const isConsumer = Object.values(resources).some(
      ({ Type, Properties }) =>
        Type === "AWS::Lambda::EventSourceMapping" && behind(Properties?.["FunctionName"]) === functionId,
    );
    return isConsumer ? "consumer" : "API";
  };
  const functionWith = (property: (fn: Object) => Json | undefined) =>
    functions(resources).find(([, candidate]) => target(property(properties(candidate))) === id)?.[0];
  const writer = (log: Json) => {
    const owner = functions(resources).find(
      ([, one]) => target((properties(one)["LoggingConfig"] as Object)["LogGroup"]) === target(log),
    );
    return fn(owner?.[0]);
  };
  /** Of a name whose parts are joined by `/`. */
  const lastPart = (name: Json) => /\/(\w+)"/.exec(JSON.stringify(name))![1];
  const queue = (queueId: string | undefined) =>
    properties(resources[queueId ?? ""])["RedrivePolicy"] ? "queue" : "dead-letter queue";
  switch (resource.Type) {
    case "AWS::DynamoDB::Table":
      return `table by ${(its["KeySchema"] as Object[]).map((key) => key["AttributeName"]).join(", ")}`;
    case "AWS::Lambda::Function":
      return `function of the ${fn(id)}`;
    case "AWS::Logs::LogGroup": {
      const owner = functionWith((fn) => (fn["LoggingConfig"] as Object)["LogGroup"]);
      return owner === undefined ? "access log" : `log of the ${fn(owner)}`;
    }
    case "AWS::Logs::MetricFilter":
      return `${lastPart(its["MetricTransformations"]!)} in the log of the ${writer(its["LogGroupName"]!)}`;
    case "AWS::Logs::QueryDefinition":
      return `query ${lastPart(its["Name"]!)} of the log of the ${writer((its["LogGroupNames"] as Json[])[0]!)}`;
    case "AWS::SQS::Queue":
      return queue(id);
    case "AWS::SQS::QueuePolicy":
      return `policy of the ${queue(target((its["Queues"] as Json[])[0]))}`;
    case "AWS::CloudWatch::Alarm":
      return `alarm: ${its["AlarmDescription"]}`;
    case "AWS::Lambda::EventSourceMapping":
      return "event source";
    case "AWS::Lambda::Version":
      return `version of the ${fn(target(its["FunctionName"]))}`;
    case "AWS::Lambda::Alias":
      return `alias of the ${fn(target(its["FunctionName"]))}`;
    case "AWS::CodeDeploy::Application":
      return "rollout";
    case "AWS::CodeDeploy::DeploymentGroup": {
      const alias = Object.values(resources).find((one) => target(groupOf(one)) === id);
      return `rollout of the ${fn(target(alias?.Properties?.["FunctionName"]))}`;
    }
    case "AWS::Lambda::Url":
      return "function URL";
    case "AWS::Lambda::Permission":
      return "permission of the HTTP API";
    case "AWS::ApiGatewayV2::Api":
      return "HTTP API";
    case "AWS::ApiGatewayV2::Integration":
      return "integration";
    case "AWS::ApiGatewayV2::Route":
      return "route";
    case "AWS::ApiGatewayV2::Stage":
      return "stage";
    case "AWS::CloudWatch::Dashboard":
      return "dashboard";
    // What they allow is under `permissions`.
    case "AWS::IAM::Role":
      return functionOf(id, resources) === undefined ? String(its["Description"]) : undefined;
    case "AWS::IAM::Policy":
      return undefined;
    default:
      throw new Error(`${id} is a ${resource.Type}: what is it?`);
  }
}

/** The deployment group that moves an alias. */
function groupOf(alias: Resource): Json | undefined {
  const update = alias.UpdatePolicy?.["CodeDeployLambdaAliasUpdate"] as Object | undefined;
  return update?.["DeploymentGroupName"];
}

/** Without what the tools write each in its own way, and what is a role's. */
function essence(resource: Resource): Object {
  let { Code: _code, Role: _role, Policies: _policies, Tags: _tags, ...its } = properties(resource);
  switch (resource.Type) {
    case "AWS::ApiGatewayV2::Api":
      delete its["Name"];
      break;
    case "AWS::ApiGatewayV2::Stage":
      // The destination counts, not the wording.
      (its["AccessLogSettings"] as Object)["Format"] = "";
      break;
    case "AWS::Lambda::Permission":
      delete its["SourceArn"];
      break;
    case "AWS::Lambda::EventSourceMapping":
      its["FunctionName"] = { Ref: target(its["FunctionName"])! };
      break;
    case "AWS::Lambda::Version":
      // Each version has a unique name, so none is ever replaced.
      resource = { ...resource, UpdateReplacePolicy: null };
      break;
    case "AWS::CodeDeploy::DeploymentGroup":
      its["AutoRollbackConfiguration"] = sorted(its["AutoRollbackConfiguration"]!);
      break;
    case "AWS::CloudWatch::Alarm":
      its = sortedMetrics(its) as Object;
      break;
    case "AWS::CloudWatch::Dashboard":
      return { Type: resource.Type, body: its["DashboardBody"]! };
  }
  return {
    Type: resource.Type,
    DeletionPolicy: (resource.DeletionPolicy ?? null) as Json,
    UpdateReplacePolicy: (resource.UpdateReplacePolicy ?? null) as Json,
    UpdatePolicy: (resource.UpdatePolicy ?? null) as Json,
    Properties: its,
  };
}

/** With its lists of names in one order. */
function sorted(value: Json): Json {
  if (Array.isArray(value)) return [...value].sort();
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, sorted(member)]));
}

/** An alarm's metrics without what CDK adds, and with their dimensions in one order. */
function sortedMetrics(value: Json): Json {
  if (Array.isArray(value)) return value.map(sortedMetrics);
  if (typeof value !== "object" || value === null) return value;
  const { ReturnData, ...members } = value;
  if (members["Expression"] !== undefined) delete members["Id"];
  if (ReturnData === false) members["ReturnData"] = false;
  const dimensions = members["Dimensions"] as Object[] | undefined;
  dimensions?.sort((a, b) => (String(a["Name"]) < String(b["Name"]) ? -1 : 1));
  return Object.fromEntries(
    Object.entries(members).map(([key, member]) => [key, sortedMetrics(member)]),
  );
}

/** A graph of a dashboard: what it shows, whichever way that was written. */
export interface Graph {
  readonly title: string;
  readonly metrics: readonly object[];
}

/** The graphs of a dashboard's body, in their order. */
export function graphs(body: string): Graph[] {
  const { widgets } = JSON.parse(body) as { widgets: { properties: any }[] };
  return widgets.map(({ properties: { title, metrics, stat, period } }) => ({
    title,
    metrics: metrics.map((metric: (string | object)[]) => {
      const of = metric.filter((part) => typeof part === "string").join(" ");
      const own = metric.find((part) => typeof part === "object") as { [name: string]: unknown } | undefined;
      const { label: _, ...rest } = own ?? {};
      const shared = "expression" in rest ? { period } : { stat, period };
      return { of: of.replace(/\S+\/(Outcomes)/, "$1"), ...defined(shared), ...rest };
    }),
  }));
}

function defined(of: object): object {
  return Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined));
}

/** The graphs of a stack's dashboard. */
export function shown(of: Deployment): Graph[] {
  return graphs((of.resources["dashboard"] as unknown as { body: string }).body);
}

/** The statements of a role, inline and attached. */
function statements(role: string, resources: Resources): Object[] {
  const inline = (properties(resources[role])["Policies"] ?? []) as Object[];
  const attached = Object.values(resources)
    .filter(({ Type }) => Type === "AWS::IAM::Policy")
    .map(properties)
    .filter((policy) => (policy["Roles"] as Json[]).some((one) => target(one) === role));
  const managed = properties(resources[role])["ManagedPolicyArns"];
  const isLambdas = functionOf(role, resources) !== undefined;
  if (managed !== undefined && isLambdas) throw new Error(`${role} has managed policies`);
  return [...inline, ...attached]
    .flatMap((policy) => (policy["PolicyDocument"] as Object)["Statement"] as Object[])
    .map((statement) => {
      if (statement["Effect"] !== "Allow") throw new Error("a role denies something");
      return {
        actions: [statement["Action"]!].flat().sort() as Json,
        resource: statement["Resource"]!,
        ...(statement["Condition"] !== undefined && { condition: statement["Condition"] }),
      };
    });
}

function byActions(a: Statement, b: Statement): number {
  const key = (statement: Statement) => JSON.stringify([statement.actions, statement.resource]);
  return key(a) < key(b) ? -1 : 1;
}

/** A metric or query of the stack's own without the path of the construct that it belongs to. */
function named(key: string, value: Json): Json {
  if ((key !== "MetricName" && key !== "Name") || typeof value !== "string") return value;
  return value.replace(`${STACK_NAME}/Watch/Alarms/`, `${STACK_NAME}/`);
}

/** Labels for logical ids, and one spelling for texts with references in them. */
function spell(value: Json, labels: Map<string, string>): Json {
  const reference = (id: string, attribute = "") =>
    id === "AWS::StackName" ? STACK_NAME : `<${labels.get(id) ?? id}${attribute}>`;
  const inner = (value: Json): Json => {
    if (Array.isArray(value)) return value.map(inner);
    if (typeof value !== "object" || value === null) return value;
    if (typeof value["Ref"] === "string") return reference(value["Ref"]);
    const attribute = value["Fn::GetAtt"] as [string, string] | undefined;
    if (attribute) return reference(attribute[0], `: ${attribute[1]}`);
    const join = value["Fn::Join"] as [string, Json[]] | undefined;
    if (join) return join[1].map((part) => String(inner(part))).join(join[0]);
    const sub = value["Fn::Sub"];
    if (sub !== undefined) {
      const [text, variables] = (Array.isArray(sub) ? sub : [sub, {}]) as [string, Object];
      return text.replace(/\$\{([\w:]+)(?:\.(\w+))?\}/g, (_, id, of?: string) =>
        variables[id] === undefined ? reference(id, of && `: ${of}`) : String(inner(variables[id]!)),
      );
    }
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, named(key, inner(member))]));
  };
  return inner(value);
}
