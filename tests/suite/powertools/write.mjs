// Writes records with Powertools for AWS Lambda (TypeScript): `write.mjs ENDPOINT` prints them as DynamoDB JSON.
// As `write.py`.

import {
  IdempotencyConfig,
  makeIdempotent,
} from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';
import { CreateTableCommand, DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';

const TABLE = 'powertools-typescript';
const ANSWERS = {
  text: 'paid',
  'json-in-text': '{"paid": true}',
  object: { receipt: 're_1', amount: 1250, rate: 0.1, lines: [1, 'two', null] },
  number: 42,
  list: ['a', 'b'],
  false: false,
  null: null,
  nothing: undefined,
};

const client = new DynamoDBClient({
  endpoint: process.argv[2],
  region: 'us-east-1',
  credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
});
await client.send(
  new CreateTableCommand({
    TableName: TABLE,
    KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
    AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
    BillingMode: 'PAY_PER_REQUEST',
  }),
);
const persistenceStore = new DynamoDBPersistenceLayer({ tableName: TABLE, awsSdkV3Client: client });
const config = new IdempotencyConfig({
  eventKeyJmesPath: 'order',
  lambdaContext: { getRemainingTimeInMillis: () => 30_000 },
});
const pay = makeIdempotent(async ({ order }) => ANSWERS[order], {
  persistenceStore,
  config,
  keyPrefix: 'pay',
});

for (const order of Object.keys(ANSWERS)) {
  await pay({ order });
}
persistenceStore.configure({ config, keyPrefix: 'pay' });
await persistenceStore.saveInProgress({ order: 'running' }, 30_000);

const { Items } = await client.send(new ScanCommand({ TableName: TABLE }));
Items.sort((a, b) => (a.id.S < b.id.S ? -1 : 1));
console.log(JSON.stringify(Items, null, 1));
client.destroy();
