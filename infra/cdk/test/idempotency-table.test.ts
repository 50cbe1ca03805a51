import { App, RemovalPolicy, Stack } from "aws-cdk-lib";
import { Match, Template } from "aws-cdk-lib/assertions";
import * as iam from "aws-cdk-lib/aws-iam";
import * as kms from "aws-cdk-lib/aws-kms";
import { IAM_IMPORTED_ROLE_STACK_SAFE_DEFAULT_POLICY_NAME } from "aws-cdk-lib/cx-api";
import { describe, expect, it } from "vitest";

import contract from "../../contract.json";
import { IdempotencyAlarms, IdempotencyTable, type IdempotencyTableProps, type Scope } from "../lib";

const TABLE = "AWS::DynamoDB::Table";
const KEY = "arn:aws:kms:eu-central-1:111122223333:key/00000000-0000-0000-0000-000000000000";

function table(props?: IdempotencyTableProps): { stack: Stack; table: IdempotencyTable } {
  const stack = new Stack();
  return { stack, table: new IdempotencyTable(stack, "Idempotency", props) };
}

function role(stack: Stack): iam.Role {
  return new iam.Role(stack, "Role", { assumedBy: new iam.ServicePrincipal("lambda.amazonaws.com") });
}

/** Of the one policy in a stack. */
function statements(stack: Stack): any[] {
  const policies = Object.values(Template.fromStack(stack).findResources("AWS::IAM::Policy"));
  expect(policies).toHaveLength(1);
  return policies[0]!["Properties"].PolicyDocument.Statement;
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

  it("is protected from deletion if asked, even with the policy DESTROY", () => {
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
    const grant = idempotency.grantIdempotency(role(stack), { scopes });
    expect(grant.success).toBe(true);
    return statements(stack);
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
          Null: { "dynamodb:LeadingKeys": "false" },
        },
      },
    ]);
  });

  it("allows the use of the table's own key, through DynamoDB only", () => {
    expect(granted(["payments"], true)).toEqual([
      expect.objectContaining({ Action: contract.actions }),
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
  });

  it("works in another stack than the table's", () => {
    const app = new App();
    const shared = new IdempotencyTable(new Stack(app, "shared"), "Idempotency", {
      encryptionKey: kms.Key.fromKeyArn(app.node.children[0] as Stack, "Key", KEY),
    });
    const shop = new Stack(app, "shop");
    shared.grantIdempotency(role(shop), { scopes: ["payments"] });
    const [records, key] = statements(shop);
    const arn = { "Fn::ImportValue": expect.stringMatching(/^shared:.*Arn/) };
    expect(records).toMatchObject({ Resource: arn });
    expect(key).toMatchObject({ Resource: KEY });
    // The table's own stack knows nothing of it.
    Template.fromStack(Stack.of(shared)).resourceCountIs("AWS::IAM::Policy", 0);
  });

  it("refuses to grant every record", () => {
    expect(() => granted([])).toThrow("at least one scope");
    expect(() => granted([""])).toThrow("name the operation");
  });
});

describe("for operators", () => {
  const granted = (grant: (table: IdempotencyTable, role: iam.Role) => iam.Grant) => {
    const { stack, table: idempotency } = table();
    expect(grant(idempotency, role(stack)).success).toBe(true);
    return statements(stack).map(({ Action }) => [Action].flat());
  };

  it("grants to look, or to release as well", () => {
    expect(granted((table, role) => table.grantInspection(role))).toEqual([contract.inspection]);
    expect(granted((table, role) => table.grantRelease(role))).toEqual([contract.inspection, contract.release]);
    expect(IdempotencyTable.INSPECTION_ACTIONS).toEqual(contract.inspection);
    expect(IdempotencyTable.RELEASE_ACTIONS).toEqual(contract.release);
  });
});

describe("several grants to one role", () => {
  /** The actions that all policies of a template allow, by the resource, and the policies' names. */
  function granted(...stacks: Stack[]): { names: string[]; statements: any[] } {
    const policies = stacks.flatMap((stack) => Object.values(Template.fromStack(stack).findResources("AWS::IAM::Policy")));
    return {
      names: policies.map(({ Properties }) => Properties.PolicyName),
      statements: policies.flatMap(({ Properties }) => Properties.PolicyDocument.Statement),
    };
  }
  const keys = (statements: any[]) => statements.flatMap(({ Condition }) => Condition?.["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] ?? []);

  it("are all kept: two services, an inspector who is an operator too, and two tables", () => {
    const { stack, table: idempotency } = table();
    const other = new IdempotencyTable(stack, "Other");
    const shared = role(stack);
    idempotency.grantIdempotency(shared, { scopes: ["payments"] });
    idempotency.grantIdempotency(shared, { scopes: ["refunds"] });
    idempotency.grantInspection(shared);
    idempotency.grantRelease(shared);
    other.grantIdempotency(shared, { scopes: ["orders"] });
    const all = statements(stack);
    expect(keys(all)).toEqual(expect.arrayContaining(["payments#*", "refunds#*", "orders#*"]));
    const allowed = all.filter(({ Condition }) => !Condition).flatMap(({ Action }) => Action);
    expect(allowed).toEqual(expect.arrayContaining([...contract.inspection, ...contract.release]));
  });

  function toImported(context: { [name: string]: unknown }): Stack[] {
    const app = new App({ context });
    return ["payments", "refunds"].map((scope) => {
      const stack = new Stack(app, scope);
      const shared = iam.Role.fromRoleName(stack, "Shared", "shared");
      new IdempotencyTable(stack, "Idempotency").grantIdempotency(shared, { scopes: [scope] });
      return stack;
    });
  }

  it("are all kept if two stacks grant them to a role of neither, with what `cdk init` writes into cdk.json", () => {
    const { names, statements } = granted(...toImported({ [IAM_IMPORTED_ROLE_STACK_SAFE_DEFAULT_POLICY_NAME]: true }));
    expect(keys(statements)).toEqual(["payments#*", "payments/*#*", "refunds#*", "refunds/*#*"]);
    expect(new Set(names).size).toBe(2);
  });

  it("are refused where one stack would overwrite the policy of the other", () => {
    expect(() => toImported({})).toThrow(`payments/Shared is an imported role. Set "${IAM_IMPORTED_ROLE_STACK_SAFE_DEFAULT_POLICY_NAME}": true`);
  });
});

describe("for a restore", () => {
  it("grants what docs/guide/operate.md does, on the table and its namesakes", () => {
    const { stack, table: idempotency } = table({ encryptionKey: undefined });
    expect(idempotency.grantRestore(role(stack)).success).toBe(true);
    const [restore, list] = statements(stack);
    expect(restore.Action).toEqual(contract.restore);
    expect(IdempotencyTable.RESTORE_ACTIONS).toEqual(contract.restore);
    expect(restore.Resource).toHaveLength(3);
    expect(list).toMatchObject({ Action: "dynamodb:ListBackups", Resource: "*" });
    // The command line's `copy` and `block`.
    const copy = ["Scan", "GetItem", "PutItem", "DescribeTable"].map((action) => `dynamodb:${action}`);
    expect(contract.restore).toEqual(expect.arrayContaining(copy));
  });
});

describe("a table that is there", () => {
  const ARN = "arn:aws:dynamodb:eu-west-1:444455556666:table/restored";

  it("is granted by its ARN, in its own region", () => {
    const stack = new Stack();
    const encryptionKey = kms.Key.fromKeyArn(stack, "Key", KEY);
    const there = IdempotencyTable.fromTableAttributes(stack, "There", { tableArn: ARN, encryptionKey });
    expect(there.tableName).toBe("restored");
    there.grantIdempotency(role(stack), { scopes: ["payments"] });
    expect(statements(stack)).toMatchObject([
      { Action: contract.actions, Resource: ARN },
      { Resource: KEY, Condition: { StringEquals: { "kms:ViaService": "dynamodb.eu-west-1.amazonaws.com" } } },
    ]);
    Template.fromStack(stack).resourceCountIs(TABLE, 0);
    expect(IdempotencyTable.fromTableArn(stack, "Without key", ARN).tableName).toBe("restored");
  });

  it("is granted by its name, in this account and region", () => {
    const stack = new Stack();
    const there = IdempotencyTable.fromTableName(stack, "There", "restored");
    there.grantRelease(role(stack));
    const resource = statements(stack)[0].Resource;
    expect(JSON.stringify(resource)).toMatch(/:dynamodb:.*"AWS::Region".*"AWS::AccountId".*:table\/restored"/);
  });

  it("is named in one way", () => {
    const both = { tableName: "restored", tableArn: ARN };
    for (const attributes of [{}, both]) {
      expect(() => IdempotencyTable.fromTableAttributes(new Stack(), "There", attributes)).toThrow();
    }
  });

  it("has alarms like any other", () => {
    const stack = new Stack();
    const there = IdempotencyTable.fromTableName(stack, "There", "restored");
    new IdempotencyAlarms(stack, "Alarms", { table: there, services: {} });
    const alarms = Template.fromStack(stack).findResources("AWS::CloudWatch::Alarm");
    const named = Object.values(alarms).filter((alarm) => JSON.stringify(alarm).includes('"Value":"restored"'));
    expect(named).toHaveLength(2);
  });
});
