import { Duration, RemovalPolicy, Stack } from "aws-cdk-lib";
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import * as dynamodb from "aws-cdk-lib/aws-dynamodb";
import * as iam from "aws-cdk-lib/aws-iam";
import * as kms from "aws-cdk-lib/aws-kms";
import { Construct } from "constructs";

import { leadingKeys, type Scope } from "./scope";

const MINUTE = { period: Duration.minutes(1), statistic: cloudwatch.Stats.SUM };

export interface IdempotencyTableProps {
  /**
   * The table's name. A table with a name of its own cannot be replaced in an update.
   *
   * @default - CloudFormation makes one up
   */
  readonly tableName?: string;

  /**
   * The customer managed key that encrypts the table.
   *
   * @default - a key that AWS owns
   */
  readonly encryptionKey?: kms.IKey;

  /**
   * Whether the table can be restored to any second of the last 35 days.
   *
   * @default true
   */
  readonly pointInTimeRecovery?: boolean;

  /**
   * What becomes of the table when it leaves the stack.
   *
   * @default RemovalPolicy.RETAIN - a lost table is a second payment for each key in it
   */
  readonly removalPolicy?: RemovalPolicy;

  /**
   * Whether DynamoDB refuses to delete the table.
   *
   * @default true, unless the removal policy is DESTROY
   */
  readonly deletionProtection?: boolean;

  /**
   * The partition key, where the code renames it (`TableSchema::partition_key`).
   *
   * @default "pk"
   */
  readonly partitionKey?: string;

  /**
   * The attribute that DynamoDB deletes records by, where the code renames it
   * (`Attribute::ExpiresAt`).
   *
   * @default "expires_at"
   */
  readonly timeToLiveAttribute?: string;
}

export interface IdempotencyGrantOptions {
  /** The scopes whose records may be read and written; at least one. All others are denied. */
  readonly scopes: readonly Scope[];
}

/**
 * The DynamoDB table of the Rust crate `dynamodb-idempotency`.
 *
 * On demand, with the partition key and the time to live that the crate expects, point-in-time
 * recovery, and protected from deletion unless it is told to go with its stack. It is a table of
 * one region: in a global one with eventual consistency each region could have its own winner.
 *
 * ```ts
 * const idempotency = new IdempotencyTable(this, "Idempotency");
 * const payments = new RustFunction(this, "Payments", {
 *   environment: { IDEMPOTENCY_TABLE: idempotency.tableName },
 * });
 * idempotency.grantIdempotency(payments, { scopes: ["payments"] });
 * ```
 */
export class IdempotencyTable extends Construct {
  /** What the crate asks of DynamoDB. In a transaction the same actions are asked for. */
  public static readonly ACTIONS: readonly string[] = [
    "dynamodb:DeleteItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
  ];

  /** What its `preflight()` asks at a function's start, of the table and not of records in it. */
  public static readonly PREFLIGHT_ACTIONS: readonly string[] = [
    "dynamodb:DescribeTable",
    "dynamodb:DescribeTimeToLive",
  ];

  /** The table itself, for what this construct has no word for. */
  public readonly table: dynamodb.Table;

  constructor(scope: Construct, id: string, props: IdempotencyTableProps = {}) {
    super(scope, id);
    const removalPolicy = props.removalPolicy ?? RemovalPolicy.RETAIN;
    this.table = new dynamodb.Table(this, "Table", {
      ...(props.tableName !== undefined && { tableName: props.tableName }),
      partitionKey: { name: props.partitionKey ?? "pk", type: dynamodb.AttributeType.STRING },
      billingMode: dynamodb.BillingMode.PAY_PER_REQUEST,
      timeToLiveAttribute: props.timeToLiveAttribute ?? "expires_at",
      pointInTimeRecoverySpecification: {
        pointInTimeRecoveryEnabled: props.pointInTimeRecovery ?? true,
      },
      ...(props.encryptionKey && {
        encryption: dynamodb.TableEncryption.CUSTOMER_MANAGED,
        encryptionKey: props.encryptionKey,
      }),
      deletionProtection: props.deletionProtection ?? removalPolicy !== RemovalPolicy.DESTROY,
      removalPolicy,
    });
  }

  /** For the function's environment variable `IDEMPOTENCY_TABLE`. */
  public get tableName(): string {
    return this.table.tableName;
  }

  /**
   * Lets a function keep its records: the four actions of {@link ACTIONS}, on this table, and on
   * records of its own scopes only; and look at the table when it starts
   * ({@link PREFLIGHT_ACTIONS}). With a customer managed key, the use of that key through DynamoDB
   * as well.
   *
   * @throws if there is no scope: a grant for every record is no least privilege
   */
  public grantIdempotency(grantee: iam.IGrantable, options: IdempotencyGrantOptions): iam.Grant {
    if (options.scopes.length === 0) {
      throw new Error("grantIdempotency: name at least one scope");
    }
    const records = iam.Grant.addToPrincipal({
      grantee,
      actions: [...IdempotencyTable.ACTIONS],
      resourceArns: [this.table.tableArn],
      conditions: {
        "ForAllValues:StringLike": {
          "dynamodb:LeadingKeys": options.scopes.flatMap(leadingKeys),
        },
      },
    });
    const table = iam.Grant.addToPrincipal({
      grantee,
      actions: [...IdempotencyTable.PREFLIGHT_ACTIONS],
      resourceArns: [this.table.tableArn],
    });
    const grant = records.combine(table);
    const key = this.table.encryptionKey;
    return key ? grant.combine(grantKey(grantee, key)) : grant;
  }

  /** Requests to the table that DynamoDB throttled, reads and writes, in a minute. */
  public metricThrottles(): cloudwatch.IMetric {
    return new cloudwatch.MathExpression({
      expression: "SUM([reads, writes])",
      label: "Throttled requests",
      period: MINUTE.period,
      usingMetrics: {
        reads: this.table.metric("ReadThrottleEvents", MINUTE),
        writes: this.table.metric("WriteThrottleEvents", MINUTE),
      },
    });
  }

  /** Requests to the table that DynamoDB answered with an error of its own, in a minute. */
  public metricSystemErrors(): cloudwatch.IMetric {
    const errors = (operation: string) =>
      this.table.metric("SystemErrors", {
        ...MINUTE,
        dimensionsMap: { TableName: this.tableName, Operation: operation },
      });
    return new cloudwatch.MathExpression({
      expression: "SUM([deletes, gets, puts, updates, transactions])",
      label: "System errors",
      period: MINUTE.period,
      usingMetrics: {
        deletes: errors("DeleteItem"),
        gets: errors("GetItem"),
        puts: errors("PutItem"),
        updates: errors("UpdateItem"),
        transactions: errors("TransactWriteItems"),
      },
    });
  }
}

/** What DynamoDB asks of the caller of a table with a customer managed key, and only through it. */
function grantKey(grantee: iam.IGrantable, key: kms.IKey): iam.Grant {
  return iam.Grant.addToPrincipal({
    grantee,
    actions: [
      "kms:Decrypt",
      "kms:DescribeKey",
      "kms:Encrypt",
      "kms:GenerateDataKey",
      "kms:GenerateDataKeyWithoutPlaintext",
      "kms:ReEncryptFrom",
      "kms:ReEncryptTo",
    ],
    resourceArns: [key.keyArn],
    conditions: {
      StringEquals: { "kms:ViaService": `dynamodb.${Stack.of(key).region}.amazonaws.com` },
    },
  });
}
