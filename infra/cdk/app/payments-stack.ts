import { CfnOutput, Duration, RemovalPolicy, Stack, type StackProps, Validations } from "aws-cdk-lib";
import * as apigateway from "aws-cdk-lib/aws-apigatewayv2";
import { HttpIamAuthorizer } from "aws-cdk-lib/aws-apigatewayv2-authorizers";
import { HttpLambdaIntegration } from "aws-cdk-lib/aws-apigatewayv2-integrations";
import type * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import { SnsAction } from "aws-cdk-lib/aws-cloudwatch-actions";
import * as codedeploy from "aws-cdk-lib/aws-codedeploy";
import * as dynamodb from "aws-cdk-lib/aws-dynamodb";
import * as iam from "aws-cdk-lib/aws-iam";
import * as kms from "aws-cdk-lib/aws-kms";
import * as lambda from "aws-cdk-lib/aws-lambda";
import * as logs from "aws-cdk-lib/aws-logs";
import * as sns from "aws-cdk-lib/aws-sns";
import * as sqs from "aws-cdk-lib/aws-sqs";
import { RustFunction } from "cargo-lambda-cdk";
import type { Construct } from "constructs";
import * as path from "node:path";

import { IdempotencyTable, type IIdempotencyTable } from "../lib";
import type { Settings } from "./settings";
import { Watch } from "./watch";

/** A lease ends 2 s after it; the queue's visibility timeout is six times as long. */
const TIMEOUT = Duration.seconds(30);

/** Less than its API waits (an HTTP API 30 s, a REST API 29 s): the client gets the timeout error. */
const API_TIMEOUT = Duration.seconds(25);

/** Where cdk runs, as where the tests do, is this package's own folder. */
const MANIFEST = path.resolve("../../lambda-example/Cargo.toml");

export interface PaymentsStackProps extends StackProps {
  readonly settings: Settings;
}

/** What belongs to one function. */
interface Part {
  /** What the binary is called, and the function's alarms. */
  readonly name: string;
  readonly fn: lambda.Function;
  /** What clients and queues call: it moves from one version to the next. */
  readonly live: lambda.Alias;
  readonly logGroup: logs.LogGroup;
}

/** How clients reach the API. */
interface Endpoint {
  readonly url: string;
  /** Answers in a minute: those of 5xx, and all. */
  readonly answers: { readonly errors: cloudwatch.IMetric; readonly all: cloudwatch.IMetric };
}

/** The payments API and the consumer of payment events of `lambda-example`, on one table. */
export class PaymentsStack extends Stack {
  private readonly settings: Settings;
  private readonly removalPolicy: RemovalPolicy;
  private readonly key: kms.IKey | undefined;
  private readonly idempotency: IIdempotencyTable;
  private readonly payments: dynamodb.Table;
  private readonly ledger: dynamodb.Table;

  constructor(scope: Construct, id: string, props: PaymentsStackProps) {
    super(scope, id, props);
    this.settings = props.settings;
    this.removalPolicy =
      this.settings.stage === "prod" ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY;

    const { kmsKeyArn } = this.settings;
    this.key = kmsKeyArn === undefined ? undefined : kms.Key.fromKeyArn(this, "Key", kmsKeyArn);
    this.idempotency = this.idempotencyTable();
    this.payments = this.businessTable("Payments", "tenant");
    this.ledger = this.businessTable("Ledger", "account");

    const api = this.paymentsApi();
    const { queue, deadLetters } = this.queues();
    const consumer = this.paymentEvents(queue);
    this.operators(queue, deadLetters);
    const { url, answers } = this.endpoint(api);
    const watch = new Watch(this, "Watch", {
      table: this.idempotency,
      functions: [api, consumer],
      answers,
      queue,
      deadLetters,
      pageActions: this.actions("AlarmTopic", this.settings.alarmTopicArn),
      ticketActions: this.actions("TicketTopic", this.settings.ticketTopicArn),
    });
    this.shiftTraffic([
      { ...api, alarms: [...watch.alarmsOfVersion(api.name), watch.answersFail] },
      { ...consumer, alarms: watch.alarmsOfVersion(consumer.name) },
    ]);

    new CfnOutput(this, "Url", { value: url });
    new CfnOutput(this, "QueueUrl", { value: queue.queueUrl });
    new CfnOutput(this, "DeadLetterQueueArn", { value: deadLetters.queueArn });
    new CfnOutput(this, "FunctionNames", { value: `${api.fn.functionName} ${consumer.fn.functionName}` });
    new CfnOutput(this, "IdempotencyTableName", { value: this.idempotency.tableName });
    new CfnOutput(this, "PaymentsTableName", { value: this.payments.tableName });
    new CfnOutput(this, "LedgerTableName", { value: this.ledger.tableName });
  }

  private idempotencyTable(): IIdempotencyTable {
    const { removalPolicy, key: encryptionKey } = this;
    const { idempotencyTableName: tableName } = this.settings;
    return tableName === undefined
      ? new IdempotencyTable(this, "Idempotency", { removalPolicy, encryptionKey })
      : IdempotencyTable.fromTableAttributes(this, "Idempotency", { tableName, encryptionKey });
  }

  /** By owner and id, as both of the example's own tables are. */
  private businessTable(id: string, owner: string): dynamodb.Table {
    return new dynamodb.Table(this, id, {
      partitionKey: { name: owner, type: dynamodb.AttributeType.STRING },
      sortKey: { name: "id", type: dynamodb.AttributeType.STRING },
      billingMode: dynamodb.BillingMode.PAY_PER_REQUEST,
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      encryption: this.key && dynamodb.TableEncryption.CUSTOMER_MANAGED,
      encryptionKey: this.key,
      deletionProtection: this.removalPolicy === RemovalPolicy.RETAIN,
      removalPolicy: this.removalPolicy,
    });
  }

  private paymentsApi(): Part {
    const part = this.rustFunction("payments", "PaymentsFunction", {
      environment: { PAYMENTS_TABLE: this.payments.tableName },
      timeout: API_TIMEOUT,
      reservedConcurrentExecutions: this.settings.reservedConcurrency,
    });
    this.idempotency.grantIdempotency(part.fn, { scopes: ["payments", "transfers"] });
    this.allow(part.fn, this.payments.tableArn, [
      "dynamodb:GetItem",
      "dynamodb:PutItem",
      "dynamodb:Query",
      "dynamodb:UpdateItem",
    ]);
    return part;
  }

  private paymentEvents(queue: sqs.Queue): Part {
    const part = this.rustFunction("payment-events", "PaymentEventsFunction", {
      environment: { LEDGER_TABLE: this.ledger.tableName },
      timeout: TIMEOUT,
    });
    this.idempotency.grantIdempotency(part.fn, { scopes: ["payment-events"] });
    this.allow(part.fn, this.ledger.tableArn, ["dynamodb:PutItem"]);
    // Not `SqsEventSource`: it grants two actions more than Lambda asks for.
    this.allow(part.fn, queue.queueArn, [
      "sqs:DeleteMessage",
      "sqs:GetQueueAttributes",
      "sqs:ReceiveMessage",
    ]);
    this.allowQueueKey(part.fn, ["kms:Decrypt"]);
    part.live.addEventSourceMapping("Queue", {
      eventSourceArn: queue.queueArn,
      batchSize: 10,
      reportBatchItemFailures: true,
      maxConcurrency: this.settings.consumerConcurrency,
    });
    return part;
  }

  /** A function with a role that may write its own log and traces, and nothing else yet. */
  private rustFunction(
    binaryName: string,
    id: string,
    props: Pick<lambda.FunctionOptions, "environment" | "timeout" | "reservedConcurrentExecutions">,
  ): Part {
    const logGroup = this.logGroup(`${id}Logs`);
    const role = new iam.Role(this, `${id}Role`, {
      assumedBy: new iam.ServicePrincipal("lambda.amazonaws.com"),
    });
    logGroup.grantWrite(role);
    const { capacityProviderArn } = this.settings;
    const isOnDemand = capacityProviderArn === undefined;
    const fn = new RustFunction(this, id, {
      ...props,
      currentVersionOptions: {
        // On demand, old versions cost nothing. On Managed Instances each version has separate instances.
        removalPolicy: isOnDemand ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY,
      },
      manifestPath: MANIFEST,
      binaryName,
      architecture:
        this.settings.architecture === "arm64"
          ? lambda.Architecture.ARM_64
          : lambda.Architecture.X86_64,
      // Managed Instances take no less than 2 GB, and one vCPU with it.
      memorySize: isOnDemand ? 512 : 2048,
      tracing: lambda.Tracing.ACTIVE,
      loggingFormat: lambda.LoggingFormat.JSON,
      logGroup,
      role,
      environment: { IDEMPOTENCY_TABLE: this.idempotency.tableName, ...props.environment },
    });
    if (!isOnDemand) {
      // `CapacityProvider.addFunction` is for providers of this app.
      (fn.node.defaultChild as lambda.CfnFunction).capacityProviderConfig = {
        lambdaManagedInstancesCapacityProviderConfig: { capacityProviderArn },
      };
    }
    Validations.of(role).acknowledge({
      id: "AwsSolutions-IAM5[Resource::*]",
      reason: "X-Ray's two write actions know no resource.",
    });
    const live = new lambda.Alias(this, `${id}Live`, {
      aliasName: "live",
      version: fn.currentVersion,
    });
    return { name: binaryName, fn, live, logGroup };
  }

  private logGroup(id: string): logs.LogGroup {
    return new logs.LogGroup(this, id, {
      retention: this.settings.logRetentionDays,
      encryptionKey: this.key,
      removalPolicy: this.removalPolicy,
    });
  }

  private allow(grantee: iam.IGrantable, resource: string, actions: string[]): void {
    iam.Grant.addToPrincipal({ grantee, actions, resourceArns: [resource] });
  }

  /** The use of the customer's key through SQS, where there is one. */
  private allowQueueKey(grantee: iam.IGrantable, actions: string[]): void {
    if (this.key === undefined) return;
    const conditions = { StringEquals: { "kms:ViaService": `sqs.${this.region}.amazonaws.com` } };
    const resourceArns = [this.key.keyArn];
    iam.Grant.addToPrincipal({ grantee, actions, resourceArns, conditions });
  }

  private endpoint({ fn, live }: Part): Endpoint {
    const minute = { period: Duration.minutes(1), statistic: "Sum" };
    if (this.settings.endpoint === "function-url") {
      const { url } = live.addFunctionUrl({ authType: lambda.FunctionUrlAuthType.AWS_IAM });
      const answers = { errors: fn.metric("Url5xxCount", minute), all: fn.metric("UrlRequestCount", minute) };
      return { url, answers };
    }
    const api = new apigateway.HttpApi(this, "HttpApi", {
      defaultIntegration: new HttpLambdaIntegration("Payments", live),
      defaultAuthorizer: new HttpIamAuthorizer(),
      createDefaultStage: false,
    });
    api.addStage("DefaultStage", {
      autoDeploy: true,
      throttle: {
        rateLimit: this.settings.requestsPerSecond,
        burstLimit: this.settings.requestsPerSecond,
      },
      accessLogSettings: {
        destination: new apigateway.LogGroupLogDestination(this.logGroup("HttpApiLogs")),
      },
    });
    const all = api.metricCount({ ...minute, statistic: "SampleCount" });
    return { url: api.apiEndpoint, answers: { errors: api.metricServerError(minute), all } };
  }

  /** Who of the account may take these roles, its own policies say. */
  private operators(queue: sqs.Queue, deadLetters: sqs.Queue): void {
    const role = (id: string, description: string) =>
      new iam.Role(this, id, { assumedBy: new iam.AccountRootPrincipal(), description });
    const looks = "Looks at the idempotency table by the command line";
    const inspector = role("InspectorRole", `${looks}.`);
    this.idempotency.grantInspection(inspector);
    const operator = role("OperatorRole", `${looks}, releases keys, and sends dead letters back.`);
    this.idempotency.grantRelease(operator);
    this.allow(operator, deadLetters.queueArn, [
      "sqs:CancelMessageMoveTask",
      "sqs:DeleteMessage",
      "sqs:GetQueueAttributes",
      "sqs:ListMessageMoveTasks",
      "sqs:ReceiveMessage",
      "sqs:StartMessageMoveTask",
    ]);
    this.allow(operator, queue.queueArn, ["sqs:SendMessage"]);
    this.allowQueueKey(operator, ["kms:Decrypt", "kms:GenerateDataKey"]);
    const restorer = role("RestorerRole", "Restores the idempotency table.");
    this.idempotency.grantRestore(restorer);
    const table = spelled(this.resolve(this.idempotency.table.tableArn));
    for (const resource of ["*", `${table}-*`, `${table}/backup/*`]) {
      Validations.of(restorer).acknowledge({
        id: `AwsSolutions-IAM5[Resource::${resource}]`,
        reason: "Backups can only be listed all. The names of backups and of restored tables are not known here.",
      });
    }
    new CfnOutput(this, "RestorerRoleArn", { value: restorer.roleArn });
    new CfnOutput(this, "InspectorRoleArn", { value: inspector.roleArn });
    new CfnOutput(this, "OperatorRoleArn", { value: operator.roleArn });
  }

  private queues(): { queue: sqs.Queue; deadLetters: sqs.Queue } {
    const encryption = {
      encryption: this.key ? sqs.QueueEncryption.KMS : sqs.QueueEncryption.SQS_MANAGED,
      encryptionMasterKey: this.key,
    };
    const deadLetters = new sqs.Queue(this, "PaymentEventsDeadLetterQueue", {
      ...encryption,
      enforceSSL: true,
      // The longest. A message keeps the age that it had in the other queue.
      retentionPeriod: Duration.days(14),
      removalPolicy: this.removalPolicy,
    });
    const queue = new sqs.Queue(this, "PaymentEventsQueue", {
      ...encryption,
      enforceSSL: true,
      visibilityTimeout: Duration.seconds(6 * TIMEOUT.toSeconds()),
      retentionPeriod: Duration.days(4),
      deadLetterQueue: { queue: deadLetters, maxReceiveCount: 5 },
      removalPolicy: this.removalPolicy,
    });
    return { queue, deadLetters };
  }

  /** To a new version by `rollout`, and back when one of the alarms rings. */
  private shiftTraffic(parts: (Part & { readonly alarms: cloudwatch.IAlarm[] })[]): void {
    const policy = "service-role/AWSCodeDeployRoleForLambdaLimited";
    const role = new iam.Role(this, "RolloutRole", {
      description: "Shifts traffic to new versions of the functions.",
      assumedBy: new iam.ServicePrincipal("codedeploy.amazonaws.com"),
      managedPolicies: [iam.ManagedPolicy.fromAwsManagedPolicyName(policy)],
    });
    Validations.of(role).acknowledge({
      id: `AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/${policy}]`,
      reason: "What CodeDeploy needs for Lambda is AWS's to say.",
    });
    const application = new codedeploy.LambdaApplication(this, "Rollout");
    const deploymentConfig = codedeploy.LambdaDeploymentConfig.fromLambdaDeploymentConfigName(
      this,
      "RolloutConfig",
      `CodeDeployDefault.Lambda${this.settings.rollout}`,
    );
    for (const { fn, live, alarms } of parts) {
      new codedeploy.LambdaDeploymentGroup(this, `${fn.node.id}Rollout`, {
        application,
        alias: live,
        deploymentConfig,
        role,
        alarms,
        autoRollback: { failedDeployment: true, stoppedDeployment: true, deploymentInAlarm: true },
      });
    }
  }

  private actions(id: string, topicArn: string | undefined): cloudwatch.IAlarmAction[] {
    return topicArn === undefined ? [] : [new SnsAction(sns.Topic.fromTopicArn(this, id, topicArn))];
  }
}

/** A reference as cdk-nag writes it. */
function spelled(reference: any): string {
  if (typeof reference === "string") return reference;
  if (reference.Ref) return `<${reference.Ref}>`;
  return reference["Fn::GetAtt"] ? `<${reference["Fn::GetAtt"].join(".")}>` : reference["Fn::Join"][1].map(spelled).join("");
}
