import { RemovalPolicy, Stack } from "aws-cdk-lib";
import { Match, Template } from "aws-cdk-lib/assertions";
import * as iam from "aws-cdk-lib/aws-iam";
import * as kms from "aws-cdk-lib/aws-kms";
import { describe, expect, it } from "vitest";

import contract from "../../contract.json";
import { IdempotencyTable, type IdempotencyTableProps, type Scope } from "../lib";

const TABLE = "AWS::DynamoDB::Table";

function table(props?: IdempotencyTableProps): { stack: Stack; table: IdempotencyTable } {
  const stack = new Stack();
  return { stack, table: new IdempotencyTable(stack, "Idempotency", props) };
}

function template(props?: IdempotencyTableProps): Template {
  return Template.fromStack(table(props).stack);
}

describe("by default", () => {
  it("is the table that the crate expects", () => {
    template().hasResourceProperties(TABLE, contract.table);
  });

  it("is kept, protected and restorable", () => {
    template().hasResource(TABLE, {
      DeletionPolicy: "Retain",
      UpdateReplacePolicy: "Retain",
      Properties: {
        DeletionProtectionEnabled: true,
        PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
        SSESpecification: Match.absent(),
        TableName: Match.absent(),
      },
    });
  });
});

describe("by choice", () => {
  it("goes with its stack, and then is not protected", () => {
    template({ removalPolicy: RemovalPolicy.DESTROY }).hasResource(TABLE, {
      DeletionPolicy: "Delete",
      Properties: { DeletionProtectionEnabled: false },
    });
  });

  it("is protected from deletion all the same", () => {
    const props = { removalPolicy: RemovalPolicy.DESTROY, deletionProtection: true };
    template(props).hasResourceProperties(TABLE, { DeletionProtectionEnabled: true });
  });

  it("has names of one's own", () => {
    const props = { tableName: "once", partitionKey: "PK", timeToLiveAttribute: "ttl" };
    template(props).hasResourceProperties(TABLE, {
      TableName: "once",
      KeySchema: [{ AttributeName: "PK", KeyType: "HASH" }],
      TimeToLiveSpecification: { AttributeName: "ttl", Enabled: true },
    });
  });

  it("has no backups", () => {
    template({ pointInTimeRecovery: false }).hasResourceProperties(TABLE, {
      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: false },
    });
  });
});

describe("grantIdempotency", () => {
  function granted(scopes: Scope[], withKey = false): object[] {
    const stack = new Stack();
    const encryptionKey = withKey ? new kms.Key(stack, "Key") : undefined;
    const idempotency = new IdempotencyTable(stack, "Idempotency", encryptionKey && { encryptionKey });
    const role = new iam.Role(stack, "Role", { assumedBy: new iam.ServicePrincipal("lambda.amazonaws.com") });
    const grant = idempotency.grantIdempotency(role, { scopes });
    expect(grant.success).toBe(true);
    const policies = Object.values(Template.fromStack(stack).findResources("AWS::IAM::Policy"));
    expect(policies).toHaveLength(1);
    return policies[0]!["Properties"].PolicyDocument.Statement;
  }

  const resource = { "Fn::GetAtt": [expect.stringMatching(/^IdempotencyTable/), "Arn"] };

  it("allows the crate's actions on records of the scopes, and a look at the table", () => {
    expect(granted(["payments", ["refunds", "v2"]])).toEqual([
      {
        Effect: "Allow",
        Action: contract.actions,
        Resource: resource,
        Condition: {
          "ForAllValues:StringLike": {
            "dynamodb:LeadingKeys": ["payments#*", "payments/*#*", "refunds/v2#*", "refunds/v2/*#*"],
          },
        },
      },
      { Effect: "Allow", Action: contract.preflight, Resource: resource },
    ]);
  });

  it("allows the use of the table's own key, through DynamoDB only", () => {
    expect(granted(["payments"], true)).toEqual([
      expect.objectContaining({ Action: contract.actions }),
      expect.objectContaining({ Action: contract.preflight }),
      {
        Effect: "Allow",
        Action: [
          "kms:Decrypt",
          "kms:DescribeKey",
          "kms:Encrypt",
          "kms:GenerateDataKey",
          "kms:GenerateDataKeyWithoutPlaintext",
          "kms:ReEncryptFrom",
          "kms:ReEncryptTo",
        ],
        Resource: { "Fn::GetAtt": [expect.stringMatching(/^Key/), "Arn"] },
        Condition: {
          StringEquals: {
            "kms:ViaService": { "Fn::Join": ["", ["dynamodb.", { Ref: "AWS::Region" }, ".amazonaws.com"]] },
          },
        },
      },
    ]);
  });

  it("says what it allows", () => {
    expect(IdempotencyTable.ACTIONS).toEqual(contract.actions);
    expect(IdempotencyTable.PREFLIGHT_ACTIONS).toEqual(contract.preflight);
  });

  it("refuses to grant every record", () => {
    expect(() => granted([])).toThrow("at least one scope");
    expect(() => granted([""])).toThrow("name the operation");
  });
});
