// Sends requests to the payments API, and shows its records and its ledger as they stand.

const POLL_MS = 1000;
const TICK_MS = 200;
const CENTS = 100;
const PRICE = 1200;
const OTHER_PRICE = 1300;
const LOGGED_HEADERS = ['idempotency-replayed', 'retry-after', 'location'];
const LOG_LENGTH = 50;

const find = (id) => document.getElementById(id);

/** An element; strings among its children become text, never markup. */
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

const money = (amount, currency) =>
  `${(amount / CENTS).toFixed(2)} ${currency === 'eur' ? '€' : currency.toUpperCase()}`;

const short = (id) => (id.length > 14 ? `${id.slice(0, 12)}…` : id);

function inWords(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.round(minutes / 60)} h`;
}

// Requests.

let key = '';
let isUsed = false;

function takeKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(4));
  key = `order-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
  setUsed(false);
  find('key').textContent = key;
}

function setUsed(used) {
  isUsed = used;
  find('retry').disabled = !used;
  find('change').disabled = !used;
}

const route = () => document.querySelector('input[name=route]:checked').value;

const say = (text) => {
  find('hint').textContent = text;
};

async function send(action, amount, { crash = false } = {}) {
  const path = route();
  const sentKey = key;
  // Who gets a first answer although the key had an owner has taken it over.
  const wasPending = bars.some(({ record }) => record.key === sentKey && record.status === 'PENDING');
  setUsed(true);
  const headers = { 'content-type': 'application/json', 'idempotency-key': `"${sentKey}"` };
  if (crash) headers['x-playground'] = 'crash';
  const body = JSON.stringify({ amount, currency: 'eur', source: 'tok_slow' });
  const entry = log(action, path, sentKey);
  try {
    const response = await fetch(path, { method: 'POST', headers, body });
    const answer = read(response, await response.text(), { crash, wasPending });
    entry(answer);
    return answer;
  } catch {
    const answer = { tone: 'lost', status: '', word: 'no answer', headers: [], body: '' };
    entry(answer);
    return answer;
  } finally {
    look();
  }
}

function read(response, body, { crash, wasPending }) {
  const headers = LOGGED_HEADERS.filter((name) => response.headers.has(name))
    .map((name) => `${name}: ${response.headers.get(name)}`);
  const replayed = response.headers.get('idempotency-replayed') === 'true';
  const reconciled = response.headers.get('x-playground') === 'reconciled';
  const first = wasPending ? 'takeover' : 'first answer';
  const kinds = {
    201: ['done', replayed ? 'replay' : reconciled ? 'reconciled' : first],
    409: ['running', 'in progress'],
    422: ['refused', 'mismatch'],
  };
  const vanished = crash && response.status === 502;
  const [tone, word] = vanished ? ['lost', 'crashed'] : kinds[response.status] ?? ['refused', 'error'];
  return { tone, word, replayed, status: String(response.status), headers, body: shown(body) };
}

/** A problem is shown by its title, any other body unchanged. */
function shown(body) {
  try {
    const { title, detail } = JSON.parse(body);
    return title && detail ? `${title}: ${detail}` : body;
  } catch {
    return body;
  }
}

let number = 0;

/** Begins an entry of the log; what it returns ends it. */
function log(action, path, sentKey) {
  number += 1;
  const word = make('span', 'word running', '…');
  const status = make('span', 'status');
  const line = make('div', 'line', make('b', '', action), status, word, make('span', 'end', `#${number}`));
  const item = make('li', 'running', line, make('p', '', `POST ${path}  Idempotency-Key: "${sentKey}"`));
  const list = find('log');
  list.prepend(item);
  while (list.children.length > LOG_LENGTH) list.lastElementChild.remove();
  find('log-empty').hidden = true;
  return (answer) => {
    item.className = answer.tone;
    word.className = `word ${answer.tone}`;
    word.textContent = answer.word;
    status.textContent = answer.status;
    item.append(...answer.headers.map((header) => make('p', 'header', header)));
    item.append(make('p', 'body', answer.body));
  };
}

const HINTS = {
  replay: 'The answer came from the table: nothing ran.',
  'first answer': 'It ran, and its answer is stored. Press “Retry”.',
  'in progress': 'Another owner runs it now. Retry when its lease has expired.',
  takeover: 'The first owner was dead: this request took its key over and ran it as attempt 2.',
  reconciled: 'The first owner was dead, and its charge was found: nothing ran again.',
  mismatch: 'Refused: this key was used with another amount.',
  crashed: 'The owner is dead. Press “Retry”: in progress until its lease expires, then a takeover.',
};

const explain = (answer) => say(HINTS[answer.word] ?? `${answer.status} ${answer.body}`);

const ACTIONS = {
  pay: async () => explain(await send('Pay', PRICE)),
  retry: async () => explain(await send('Retry', PRICE)),
  change: async () => explain(await send('Change the amount', OTHER_PRICE)),
  double: async () => {
    if (isUsed) takeKey();
    const answers = await Promise.all([1, 2].map((click) => send(`Double-click, ${click} of 2`, PRICE)));
    const paid = answers.filter((answer) => answer.word === 'first answer').length;
    say(`Two requests at once, ${paid} ran.`);
  },
  crash: async () => {
    if (isUsed) takeKey();
    explain(await send('Crash', PRICE, { crash: true }));
  },
  fresh: () => {
    takeKey();
    say('Another key: the next click is another payment.');
  },
};

// Records and ledger.

let leaseMs = 0;
let seen = '';
/** The server's time, and the local time when it was reported. */
let clock = { server: 0, local: 0 };
let bars = [];
let order = new Map();

const now = () => clock.server + performance.now() - clock.local;

async function look() {
  if (document.hidden) return;
  try {
    const response = await fetch('/playground/state', { cache: 'no-store' });
    if (!response.ok) throw new Error(`${response.status}`);
    const { now: server, lease_ms: lease, records, ledger } = await response.json();
    clock = { server, local: performance.now() };
    leaseMs = lease;
    find('lease').textContent = String(lease / 1000);
    find('offline').hidden = true;
    const text = JSON.stringify([records, ledger]);
    // Unchanged parts of the page are kept, so that a reader is not interrupted.
    if (text !== seen) {
      seen = text;
      showRecords(records);
      showLedger(ledger);
    }
    tick();
  } catch {
    find('offline').hidden = false;
  }
}

function showRecords(records) {
  bars = [];
  find('records').replaceChildren(...records.map(showRecord));
  find('records-empty').hidden = records.length > 0;
}

function showRecord(record) {
  const word = make('span', 'word');
  const item = make('li', '', make('div', 'line', make('code', '', record.key), word,
    make('span', 'end', `attempt ${record.attempt}`)));
  const facts = make('dl');
  const fact = (name, ...value) => facts.append(make('dt', '', name), make('dd', '', ...value));
  fact('scope', record.scope);
  fact('owner', `${record.owner}…`);
  if (record.steps.length > 0) fact('steps', record.steps.join(', '));
  if (record.answer) fact('answer', record.answer);
  const until = make('span');
  fact('deleted', until);
  const bar = { record, word, item, until };
  if (record.status === 'PENDING') {
    bar.left = make('span');
    fact('lease', bar.left);
    bar.progress = make('progress');
    bar.progress.max = leaseMs;
    bar.progress.setAttribute('aria-label', `Lease of ${record.key}`);
  }
  item.append(facts);
  if (bar.progress) item.append(bar.progress);
  bars.push(bar);
  return item;
}

/** What changes with time alone. */
function tick() {
  for (const { record, word, item, until, left, progress } of bars) {
    let state = {
      COMPLETED: ['done', 'completed'],
      FAILED: ['refused', 'failed'],
      RELEASED: ['refused', 'released'],
    }[record.status];
    if (progress) {
      const ms = Math.max(0, record.lease_expires_at - now());
      // Leases are judged by the Date of DynamoDB's response, which is cut to the second.
      const isOver = Math.floor(now() / 1000) * 1000 > record.lease_expires_at;
      progress.value = ms;
      left.textContent = isOver ? 'over: the next request takes over' : `${(ms / 1000).toFixed(1)} s left`;
      state = isOver ? ['lost', 'abandoned'] : ['running', 'in progress'];
    }
    item.className = state[0];
    word.className = `word ${state[0]}`;
    word.textContent = state[1];
    const ttl = record.expires_at * 1000 - now();
    until.textContent = ttl > 0 ? `in ${inWords(ttl)}, by TTL` : 'by TTL, as DynamoDB finds the time';
  }
}

function showLedger(ledger) {
  for (const entry of ledger) if (!order.has(entry.id)) order.set(entry.id, order.size);
  const sorted = ledger.toSorted((a, b) => order.get(b.id) - order.get(a.id));
  find('ledger').replaceChildren(...sorted.map((entry) => make('li', '', make('span', '', short(entry.id)),
    make('span', '', entry.kind), make('b', 'end', money(entry.amount, entry.currency)))));
  const total = ledger.reduce((sum, entry) => sum + entry.amount, 0);
  find('total').textContent = money(total, 'eur');
  find('count').textContent = { 0: 'nothing charged', 1: 'in one charge' }[ledger.length] ?? `in ${ledger.length} charges`;
}

// A hidden tab asks for nothing.
let timers = [];

function wake() {
  timers.forEach(clearInterval);
  timers = [];
  if (document.hidden) return;
  look();
  timers = [setInterval(look, POLL_MS), setInterval(tick, TICK_MS)];
}

for (const [id, action] of Object.entries(ACTIONS)) find(id).addEventListener('click', action);
for (const radio of document.querySelectorAll('input[name=route]')) {
  radio.addEventListener('change', () => {
    takeKey();
    say('Another route is another request: it has a fresh key.');
  });
}
document.addEventListener('visibilitychange', wake);
takeKey();
wake();
