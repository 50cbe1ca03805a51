import type { Node } from "constructs";

export const STAGES = ["dev", "prod"] as const;
export const ENDPOINTS = ["http-api", "function-url"] as const;
export const ARCHITECTURES = ["arm64", "x86_64"] as const;

/** What the SAM template has as parameters, by the same meaning and with the same defaults. */
export interface Settings {
  /** `prod` protects the tables and keeps data and logs when the stack goes; `dev` leaves nothing. */
  readonly stage: (typeof STAGES)[number];
  /** How clients reach the payments API. Both ask for requests signed with IAM credentials. */
  readonly endpoint: (typeof ENDPOINTS)[number];
  readonly architecture: (typeof ARCHITECTURES)[number];
  /** The customer managed key that encrypts tables, queues and logs; without it keys that AWS owns do. */
  readonly kmsKeyArn: string | undefined;
  /** Days until log events are deleted. */
  readonly logRetentionDays: number;
  /** The SNS topic that hears of alarms. */
  readonly alarmTopicArn: string | undefined;
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
  const logRetentionDays = Number(text("logRetentionDays") ?? 30);
  if (!Number.isInteger(logRetentionDays) || logRetentionDays < 1) {
    throw new Error("the context value logRetentionDays is not a number of days");
  }
  return {
    stage: oneOf("stage", STAGES),
    endpoint: oneOf("endpoint", ENDPOINTS, "http-api"),
    architecture: oneOf("architecture", ARCHITECTURES, "arm64"),
    kmsKeyArn: text("kmsKeyArn"),
    logRetentionDays,
    alarmTopicArn: text("alarmTopicArn"),
  };
}
