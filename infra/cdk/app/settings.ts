import type { Node } from "constructs";

export const STAGES = ["dev", "prod"] as const;
export const ENDPOINTS = ["http-api", "function-url"] as const;
export const ROLLOUTS = [
  "AllAtOnce",
  "Canary10Percent5Minutes",
  "Canary10Percent30Minutes",
  "Linear10PercentEvery1Minute",
  "Linear10PercentEvery10Minutes",
] as const;
export const ARCHITECTURES = ["arm64", "x86_64"] as const;

/** What the SAM template has as parameters, by the same meaning and with the same defaults. */
export interface Settings {
  /** `prod` protects the tables and keeps data and logs when the stack goes; `dev` leaves nothing. */
  readonly stage: (typeof STAGES)[number];
  /** How clients reach the payments API. Both ask for requests signed with IAM credentials. */
  readonly endpoint: (typeof ENDPOINTS)[number];
  readonly architecture: (typeof ARCHITECTURES)[number];
  /** An existing idempotency table, restored or shared; without it the stack creates one. */
  readonly idempotencyTableName: string | undefined;
  /** How traffic moves to a new version. Each strategy rolls back automatically when an alarm rings. */
  readonly rollout: (typeof ROLLOUTS)[number];
  /** What the HTTP API takes, on average and in a burst. A function URL has no such limit. */
  readonly requestsPerSecond: number;
  /** Environments that are kept for the payments API, and its most; without it the account's, shared. */
  readonly reservedConcurrency: number | undefined;
  /** Batches of payment events that are consumed at the same time, at most. */
  readonly consumerConcurrency: number;
  /** Where the functions run on Lambda Managed Instances; without it on demand. */
  readonly capacityProviderArn: string | undefined;
  /** The customer managed key that encrypts tables, queues and logs; without it keys that AWS owns do. */
  readonly kmsKeyArn: string | undefined;
  /** Days until log events are deleted. */
  readonly logRetentionDays: number;
  /** The SNS topic for pages. */
  readonly alarmTopicArn: string | undefined;
  /** The SNS topic for tickets. */
  readonly ticketTopicArn: string | undefined;
}

/**
 * Reads the settings from the context: `cdk deploy -c stage=prod -c endpoint=function-url`.
 *
 * @throws if a value is none of those that there are
 */
export function settings(node: Node): Settings {
  const text = (key: string): string | undefined => {
    const value: unknown = node.tryGetContext(key);
    return value === undefined || value === "" ? undefined : String(value);
  };
  const oneOf = <T extends string>(key: string, known: readonly T[], otherwise?: T): T => {
    const value = text(key) ?? otherwise;
    const found = known.find((one) => one === value);
    if (found === undefined) {
      const wrong = value === undefined ? "is not set" : `is ${value}`;
      throw new Error(`the context value ${key} ${wrong}: choose one of ${known.join(", ")}`);
    }
    return found;
  };
  const number = (key: string, least: number, otherwise: number): number => {
    const value = Number(text(key) ?? otherwise);
    if (!Number.isInteger(value) || value < least) {
      throw new Error(`the context value ${key} is not a number from ${least} on`);
    }
    return value;
  };
  return {
    stage: oneOf("stage", STAGES),
    endpoint: oneOf("endpoint", ENDPOINTS, "http-api"),
    architecture: oneOf("architecture", ARCHITECTURES, "arm64"),
    idempotencyTableName: text("idempotencyTableName"),
    rollout: oneOf("rollout", ROLLOUTS, "AllAtOnce"),
    requestsPerSecond: number("requestsPerSecond", 1, 1000),
    reservedConcurrency:
      text("reservedConcurrency") === undefined ? undefined : number("reservedConcurrency", 1, 1),
    consumerConcurrency: number("consumerConcurrency", 2, 50),
    capacityProviderArn: text("capacityProviderArn"),
    kmsKeyArn: text("kmsKeyArn"),
    logRetentionDays: number("logRetentionDays", 1, 30),
    alarmTopicArn: text("alarmTopicArn"),
    ticketTopicArn: text("ticketTopicArn"),
  };
}
