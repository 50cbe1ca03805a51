// Powertools for TypeScript at the work of `benches/src/bin/end-to-end.rs`: same arguments, same line.
//
// `main.mjs SIDE ENDPOINT cold|starts|first|replay|in-progress|cached CALLERS WARM_UP CALLS`

import { readFileSync } from 'node:fs';
import { Agent } from 'node:http';
import {
  IdempotencyAlreadyInProgressError,
  IdempotencyConfig,
  makeIdempotent,
} from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';

const TABLE = 'powertools';
const KEYS = 16;
const LATER = 9;
const HOUR_MS = 3_600_000;
const ANSWER = 'an answer of some forty bytes, no more, ok';

const [side, endpoint, kind] = process.argv.slice(2, 5);
const [callers, warmUp, calls] = process.argv.slice(5, 8).map(Number);
const run = `${side}-${process.pid}`;

const client = new DynamoDBClient({
  endpoint,
  region: 'us-east-1',
  credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  requestHandler: { httpAgent: new Agent({ keepAlive: true, maxSockets: 256 }) },
});
const persistenceStore = new DynamoDBPersistenceLayer({ tableName: TABLE, awsSdkV3Client: client });
const config = new IdempotencyConfig({
  eventKeyJmesPath: 'id',
  useLocalCache: kind === 'cached',
  lambdaContext: { getRemainingTimeInMillis: () => 30_000 },
});

const pay = makeIdempotent(
  async (order) => {
    order.ran = true;
    return ANSWER;
  },
  { persistenceStore, config, keyPrefix: 'payments' },
);

const isNew = ['cold', 'starts', 'first'].includes(kind);
const key = (n) => `${run}-${isNew ? n : n % KEYS}`;

async function call(n, expected = { cold: 'first', cached: 'replay' }[kind] ?? kind) {
  const order = { id: key(n) };
  const start = process.hrtime.bigint();
  let cameTo;
  try {
    cameTo = (await pay(order)) === ANSWER && order.ran ? 'first' : 'replay';
  } catch (error) {
    if (!(error instanceof IdempotencyAlreadyInProgressError)) throw error;
    cameTo = 'in-progress';
  }
  const took = Number(process.hrtime.bigint() - start);
  if (cameTo !== expected) throw new Error(`${cameTo} and not ${expected}`);
  return took;
}

async function prepare() {
  try {
    await client.send(
      new CreateTableCommand({
        TableName: TABLE,
        KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
        AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
        BillingMode: 'PAY_PER_REQUEST',
      }),
    );
  } catch (error) {
    if (error.name !== 'ResourceInUseException') throw error;
  }
  for (let n = 0; n < KEYS; n++) {
    if (kind === 'replay' || kind === 'cached') await pay({ id: key(n) });
    if (kind === 'in-progress') {
      persistenceStore.configure({ config, keyPrefix: 'payments' });
      await persistenceStore.saveInProgress({ id: key(n) }, HOUR_MS);
    }
  }
}

/** Each caller makes its calls one after the other. */
async function work(first, calls) {
  const caller = async (number) => {
    const latencies = [];
    for (let n = 0; n < calls; n++) latencies.push(await call(first + number * calls + n));
    return latencies;
  };
  return (await Promise.all(Array.from({ length: callers }, (_, number) => caller(number)))).flat();
}

/** When the process is ready, by the system's clock, and its first requests. */
async function starts() {
  const ready = Date.now();
  const first = await call(0, 'first');
  const [later, replays] = [[], []];
  for (let n = 1; n <= LATER; n++) {
    later.push(await call(n, 'first'));
    replays.push(await call(n, 'replay'));
  }
  const median = (all) => all.sort((a, b) => a - b)[Math.floor(LATER / 2)] / 1000;
  return {
    ready_at_us: ready * 1000,
    first_us: first / 1000,
    later_us: median(later),
    replay_us: median(replays),
  };
}

function rssKb() {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'ascii'))[1]);
}

if (kind === 'cold') {
  await call(0);
} else if (kind === 'starts') {
  console.log(JSON.stringify(await starts()));
} else {
  await prepare();
  await work(0, warmUp);
  const [cpu, start] = [process.cpuUsage(), process.hrtime.bigint()];
  const latencies = (await work(callers * warmUp, calls)).sort((a, b) => a - b);
  const [used, took] = [process.cpuUsage(cpu), Number(process.hrtime.bigint() - start)];
  const made = latencies.length;
  console.log(
    JSON.stringify({
      p50_us: latencies[Math.floor((made - 1) / 2)] / 1000,
      p99_us: latencies[Math.floor(((made - 1) * 99) / 100)] / 1000,
      per_second: (made / took) * 1e9,
      cpu_us: (used.user + used.system) / made,
      rss_kb: rssKb(),
    }),
  );
}
client.destroy();
process.exit(0);
