/** What CloudFormation makes of a template and its parameters, as far as the templates here need it. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Object = { [key: string]: Json };

export interface Resource {
  readonly Type: string;
  readonly Condition?: string;
  readonly DeletionPolicy?: Json;
  readonly UpdateReplacePolicy?: Json;
  readonly UpdatePolicy?: Object;
  readonly Properties?: Object;
}

export interface Template {
  readonly Parameters?: { [name: string]: { readonly Type: string; readonly Default?: Json } };
  readonly Mappings?: Object;
  readonly Conditions?: { [name: string]: Json };
  readonly Resources: { readonly [id: string]: Resource };
  readonly Outputs?: { readonly [name: string]: Json };
}

const NO_VALUE = Symbol("AWS::NoValue");

/**
 * The resources of a stack with these parameters: conditions decided, parameters put in.
 *
 * @throws on a parameter without a value, or a condition function that is not known here
 */
export function deployed(
  template: Template,
  parameters: { [name: string]: string } = {},
): { [id: string]: Resource } {
  const values = new Map<string, Json>();
  for (const [name, { Type, Default }] of Object.entries(template.Parameters ?? {})) {
    const value = parameters[name] ?? Default;
    if (value === undefined) throw new Error(`the parameter ${name} has no value`);
    values.set(name, Type === "Number" ? Number(value) : value);
  }

  const holds = (condition: Json): boolean => {
    const [fn, args] = onlyEntry(condition);
    switch (fn) {
      case "Fn::Equals":
        return resolve((args as Json[])[0]!) === resolve((args as Json[])[1]!);
      case "Fn::Not":
        return !holds((args as Json[])[0]!);
      default:
        throw new Error(`the condition function ${fn} is not known here`);
    }
  };
  const named = (name: string): boolean => {
    const condition = template.Conditions?.[name];
    if (condition === undefined) throw new Error(`there is no condition ${name}`);
    return holds(condition);
  };
  const found = (path: string[]): Json => {
    const value = path.reduce<Json | undefined>((of, key) => (of as Object | undefined)?.[key], template.Mappings);
    if (value === undefined) throw new Error(`there is no mapping ${path.join(", ")}`);
    return value;
  };
  const resolve = (value: Json): Json | typeof NO_VALUE => {
    if (Array.isArray(value)) return value.map(resolve).filter((item) => item !== NO_VALUE);
    if (typeof value !== "object" || value === null) return value;
    const branches = value["Fn::If"] as [string, Json, Json] | undefined;
    if (branches) return resolve(named(branches[0]) ? branches[1] : branches[2]);
    const path = value["Fn::FindInMap"] as string[] | undefined;
    if (path) return found(path);
    if (value["Ref"] === "AWS::NoValue") return NO_VALUE;
    if (typeof value["Ref"] === "string" && values.has(value["Ref"])) return values.get(value["Ref"])!;
    if (typeof value["Fn::Sub"] === "string") {
      const text = value["Fn::Sub"].replace(/\$\{(\w+)\}/g, (all, name) => String(values.get(name) ?? all));
      return { "Fn::Sub": text };
    }
    const members = Object.entries(value).map(([key, member]) => [key, resolve(member)] as const);
    return Object.fromEntries(members.filter(([, member]) => member !== NO_VALUE)) as Object;
  };

  const resources = Object.entries(template.Resources)
    .filter(([, resource]) => resource.Condition === undefined || named(resource.Condition))
    .map(([id, { Condition: _, ...resource }]) => [id, resolve(resource as unknown as Json)]);
  return Object.fromEntries(resources) as { [id: string]: Resource };
}

function onlyEntry(value: Json): [string, Json] {
  const entries = Object.entries(value as Object);
  if (entries.length !== 1) throw new Error(`not a function: ${JSON.stringify(value)}`);
  return entries[0]!;
}
