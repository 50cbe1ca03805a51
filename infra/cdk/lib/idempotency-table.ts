import { Arn, ArnFormat, Duration, FeatureFlags, RemovalPolicy, Stack } from "aws-cdk-lib";
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import * as dynamodb from "aws-cdk-lib/aws-dynamodb";
import * as iam from "aws-cdk-lib/aws-iam";
import * as kms from "aws-cdk-lib/aws-kms";
import { IAM_IMPORTED_ROLE_STACK_SAFE_DEFAULT_POLICY_NAME as SAFE_NAME } from "aws-cdk-lib/cx-api";
import { Construct, type IConstruct } from "constructs";

import { leadingKeys, type Scope } from "./scope";

/** What the crate asks of DynamoDB. In a transaction the same actions are asked for. */
const ACTIONS = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"];

/** What the command line asks that only looks: `doctor`, `find`, `show`, `stats`, `stuck`, `watch`. */
const INSPECTION_ACTIONS = [
  "dynamodb:DescribeContinuousBackups",
  "dynamodb:DescribeTable",
  "dynamodb:DescribeTimeToLive",
  "dynamodb:GetItem",
  "dynamodb:Scan",
];

/** What `release` asks beyond that. */
const RELEASE_ACTIONS = ["dynamodb:UpdateItem"];

/** What a restore asks of the table, and of the table that replaces it (docs/guide/operate.md). */
const RESTORE_ACTIONS = [
  "dynamodb:BatchWriteItem",
  "dynamodb:DeleteItem",
  "dynamodb:DescribeContinuousBackups",
  "dynamodb:DescribeTable",
  "dynamodb:DescribeTimeToLive",
  "dynamodb:GetItem",
  "dynamodb:PutItem",
  "dynamodb:Query",
  "dynamodb:RestoreTableFromBackup",
  "dynamodb:RestoreTableToPointInTime",
  "dynamodb:Scan",
  "dynamodb:UpdateContinuousBackups",
  "dynamodb:UpdateItem",
  "dynamodb:UpdateTable",
  "dynamodb:UpdateTimeToLive",
];

/** What DynamoDB asks of the caller of a table with a customer managed key. */
const KEY_ACTIONS = [
  "kms:Decrypt",
  "kms:DescribeKey",
  "kms:Encrypt",
  "kms:GenerateDataKey",
  "kms:GenerateDataKeyWithoutPlaintext",
  "kms:ReEncryptFrom",
  "kms:ReEncryptTo",
];

const MINUTE = { period: Duration.minutes(1), statistic: cloudwatch.Stats.SUM };

export interface IdempotencyTableProps {
  /**
   * The table's name. CloudFormation cannot replace a table with a fixed name in an update.
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
   * What happens to the table when it is removed from the stack.
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
   * (`TableSchema::ttl_attribute`).
   *
   * @default "expires_at"
   */
  readonly timeToLiveAttribute?: string;
}

export interface IdempotencyGrantOptions {
  /** The scopes whose records may be read and written; at least one. All others are denied. */
  readonly scopes: Scope[];
}

/** A table that is there. Either its name or its ARN. */
export interface IdempotencyTableAttributes {
  /** @default - that of `tableArn` */
  readonly tableName?: string;

  /** @default - that of `tableName` in this account and region */
  readonly tableArn?: string;

  /**
   * The customer managed key that encrypts it.
   *
   * @default - a key that AWS owns
   */
  readonly encryptionKey?: kms.IKey;
}

/** A table that is there, made by this stack, by another one, or by hand. */
export interface IIdempotencyTable extends IConstruct {
  /** For the function's environment variable `IDEMPOTENCY_TABLE`. */
  readonly tableName: string;

  /** The table itself, for what this construct has no word for. */
  readonly table: dynamodb.ITable;

  /**
   * Grants a function access to its records: the three actions of {@link IdempotencyTable.ACTIONS},
   * on this table, and only on records of the given scopes. With a customer managed key, also the
   * use of that key through DynamoDB.
   *
   * @throws if there is no scope: a grant for every record is no least privilege
   */
  grantIdempotency(grantee: iam.IGrantable, options: IdempotencyGrantOptions): iam.Grant;

  /**
   * Lets an operator look, by the command line's `doctor`, `find`, `show`, `stats`, `stuck` and `watch`: at
   * every record, with the answers that are stored in it.
   */
  grantInspection(grantee: iam.IGrantable): iam.Grant;

  /** As {@link grantInspection}, and lets an operator `release` a key. */
  grantRelease(grantee: iam.IGrantable): iam.Grant;

  /**
   * Lets an operator restore the table, by `docs/guide/operate.md`: read it and its backups, make a table
   * whose name is this table's with `-` and more behind it, fill that table and configure it.
   */
  grantRestore(grantee: iam.IGrantable): iam.Grant;

  /** Requests to the table that DynamoDB throttled, reads and writes, in a minute. */
  metricThrottles(): cloudwatch.IMetric;

  /** Requests to the table that DynamoDB answered with a server error (HTTP 5xx), per minute. */
  metricSystemErrors(): cloudwatch.IMetric;
}

abstract class IdempotencyTableBase extends Construct implements IIdempotencyTable {
  public abstract readonly table: dynamodb.ITable;

  /** Where the table is. */
  protected get region(): string {
    return Stack.of(this).region;
  }

  public get tableName(): string {
    return this.table.tableName;
  }

  public grantIdempotency(grantee: iam.IGrantable, options: IdempotencyGrantOptions): iam.Grant {
    if (options.scopes.length === 0) {
      throw new Error("grantIdempotency: name at least one scope");
    }
    const records = this.grant(grantee, ACTIONS, {
      "ForAllValues:StringLike": {
        "dynamodb:LeadingKeys": options.scopes.flatMap(leadingKeys),
      },
      // `ForAllValues` holds of a request without any key too.
      Null: { "dynamodb:LeadingKeys": "false" },
    });
    return this.withKey(grantee, records);
  }

  public grantInspection(grantee: iam.IGrantable): iam.Grant {
    return this.withKey(grantee, this.grant(grantee, INSPECTION_ACTIONS));
  }

  public grantRelease(grantee: iam.IGrantable): iam.Grant {
    return this.grantInspection(grantee).combine(this.grant(grantee, RELEASE_ACTIONS));
  }

  public grantRestore(grantee: iam.IGrantable): iam.Grant {
    const { tableArn } = this.table;
    const tables = [tableArn, `${tableArn}-*`, `${tableArn}/backup/*`];
    const grant = this.add({ grantee, actions: RESTORE_ACTIONS, resourceArns: tables });
    // It knows no resource.
    const list = this.add({ grantee, actions: ["dynamodb:ListBackups"], resourceArns: ["*"] });
    return this.withKey(grantee, grant.combine(list), ["kms:CreateGrant", ...KEY_ACTIONS]);
  }

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

  public metricSystemErrors(): cloudwatch.IMetric {
    const errors = (operation: string) =>
      this.table.metric("SystemErrors", {
        ...MINUTE,
        dimensionsMap: { TableName: this.tableName, Operation: operation },
      });
    return new cloudwatch.MathExpression({
      expression: "SUM([gets, puts, updates, transactions])",
      label: "System errors",
      period: MINUTE.period,
      usingMetrics: {
        gets: errors("GetItem"),
        puts: errors("PutItem"),
        updates: errors("UpdateItem"),
        transactions: errors("TransactWriteItems"),
      },
    });
  }

  private grant(
    grantee: iam.IGrantable,
    actions: readonly string[],
    conditions: { [operator: string]: { [key: string]: unknown } } = {},
  ): iam.Grant {
    return this.add({ grantee, actions: [...actions], resourceArns: [this.table.tableArn], conditions });
  }

  /**
   * @throws if the role is one that other stacks may grant to as well, and its policies have the same name
   * in each of them: the last deployment would silently replace the grants of the others
   */
  private add(grant: iam.GrantOnPrincipalOptions): iam.Grant {
    const role = grant.grantee.grantPrincipal;
    const isImported = !(role instanceof iam.Role) && "roleName" in role && Construct.isConstruct(role);
    if (isImported && !FeatureFlags.of(role).isEnabled(SAFE_NAME)) {
      throw new Error(
        `${role.node.path} is an imported role. Set "${SAFE_NAME}": true in the context of cdk.json: without it, ` +
          "stacks that grant something to the same role overwrite each other's policy",
      );
    }
    return iam.Grant.addToPrincipal(grant);
  }

  private withKey(grantee: iam.IGrantable, grant: iam.Grant, actions: readonly string[] = KEY_ACTIONS): iam.Grant {
    const key = this.table.encryptionKey;
    return key ? grant.combine(grantKey(grantee, key, this.region, actions)) : grant;
  }
}

/**
 * The DynamoDB table of the Rust crate `dynamodb-idempotency`.
 *
 * On demand, with the partition key and the time to live that the crate expects, point-in-time
 * recovery, and deletion protection unless `removalPolicy` is `DESTROY`. It is a table of one
 * region: in a global table with eventual consistency each region could have its own winner.
 *
 * ```ts
 * const idempotency = new IdempotencyTable(this, "Idempotency");
 * const payments = new RustFunction(this, "Payments", {
 *   environment: { IDEMPOTENCY_TABLE: idempotency.tableName },
 * });
 * idempotency.grantIdempotency(payments, { scopes: ["payments"] });
 * ```
 */
export class IdempotencyTable extends IdempotencyTableBase {
  /** What the crate asks of DynamoDB. In a transaction the same actions are asked for. */
  public static readonly ACTIONS: string[] = ACTIONS;

  /** What the command line asks that only looks. */
  public static readonly INSPECTION_ACTIONS: string[] = INSPECTION_ACTIONS;

  /** What the command line's `release` asks beyond that. */
  public static readonly RELEASE_ACTIONS: string[] = RELEASE_ACTIONS;

  /** What a restore asks, of the table and of the one that replaces it. */
  public static readonly RESTORE_ACTIONS: string[] = RESTORE_ACTIONS;

  /** A table of this account and region, by its name: one that was restored, or another team's. */
  public static fromTableName(scope: Construct, id: string, tableName: string): IIdempotencyTable {
    return IdempotencyTable.fromTableAttributes(scope, id, { tableName });
  }

  /** A table by its ARN: of another account or region as well, where its policy lets them in. */
  public static fromTableArn(scope: Construct, id: string, tableArn: string): IIdempotencyTable {
    return IdempotencyTable.fromTableAttributes(scope, id, { tableArn });
  }

  /**
   * A table that is there, with the key that encrypts it.
   *
   * @throws if neither its name nor its ARN is given, or both are
   */
  public static fromTableAttributes(
    scope: Construct,
    id: string,
    attributes: IdempotencyTableAttributes,
  ): IIdempotencyTable {
    return new Imported(scope, id, attributes);
  }

  public readonly table: dynamodb.ITable;

  constructor(scope: Construct, id: string, props: IdempotencyTableProps = {}) {
    super(scope, id);
    const removalPolicy = props.removalPolicy ?? RemovalPolicy.RETAIN;
    this.table = new dynamodb.Table(this, "Table", {
      tableName: props.tableName,
      partitionKey: { name: props.partitionKey ?? "pk", type: dynamodb.AttributeType.STRING },
      billingMode: dynamodb.BillingMode.PAY_PER_REQUEST,
      timeToLiveAttribute: props.timeToLiveAttribute ?? "expires_at",
      pointInTimeRecoverySpecification: {
        pointInTimeRecoveryEnabled: props.pointInTimeRecovery ?? true,
      },
      encryption: props.encryptionKey && dynamodb.TableEncryption.CUSTOMER_MANAGED,
      encryptionKey: props.encryptionKey,
      deletionProtection: props.deletionProtection ?? removalPolicy !== RemovalPolicy.DESTROY,
      removalPolicy,
    });
  }
}

class Imported extends IdempotencyTableBase {
  public readonly table: dynamodb.ITable;

  constructor(
    scope: Construct,
    id: string,
    private readonly attributes: IdempotencyTableAttributes,
  ) {
    super(scope, id);
    this.table = dynamodb.Table.fromTableAttributes(this, "Table", attributes);
  }

  protected override get region(): string {
    const { tableArn } = this.attributes;
    const { region } = tableArn ? Arn.split(tableArn, ArnFormat.SLASH_RESOURCE_NAME) : {};
    return region ?? super.region;
  }
}

/** The use of a customer managed key, through DynamoDB only. */
function grantKey(grantee: iam.IGrantable, key: kms.IKey, region: string, actions: readonly string[]): iam.Grant {
  return iam.Grant.addToPrincipal({
    grantee,
    actions: [...actions],
    resourceArns: [key.keyArn],
    conditions: {
      StringEquals: { "kms:ViaService": `dynamodb.${region}.amazonaws.com` },
    },
  });
}
