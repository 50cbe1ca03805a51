// The playground in a real browser: every button, what is shown for it, and what must not happen.
//
// `cargo xtask playground` runs this. PLAYGROUND_SERVER is the example's binary, CHROMIUM the browser,
// SCREENSHOTS where the pictures go.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { chromium } from 'playwright-core';

const { PLAYGROUND_SERVER, CHROMIUM, SCREENSHOTS } = process.env;
// Only a page that hangs meets it: a lease is 5 s long.
const PATIENCE_MS = 30_000;
/** What a record says whose owner died: at first the one, then the other. */
const HELD = /in progress|abandoned/;
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

let server;
let origin;
let profile;
let context;
let page;
let wrong;

/** Starts the example on a free port; its address is in the first line that has one. */
async function start() {
  server = spawn(PLAYGROUND_SERVER, ['--port', '0'], { env: { ...process.env, RUST_LOG: 'off' },
    stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const line of createInterface({ input: server.stdout })) {
    const found = /listens on (http:\/\/\S+)/.exec(line);
    if (found) return found[1];
  }
  throw new Error('the server ended');
}

before(async () => {
  origin = await start();
  server.stdout.resume();
  profile = await mkdtemp(join(tmpdir(), 'playground-'));
  await mkdir(SCREENSHOTS, { recursive: true });
  context = await chromium.launchPersistentContext(profile, { executablePath: CHROMIUM, args: FLAGS,
    chromiumSandbox: false, viewport: { width: 1200, height: 900 } });
});

after(async () => {
  await context?.close();
  server?.kill();
  if (profile) await rm(profile, { recursive: true, force: true });
});

beforeEach(async () => {
  wrong = [];
  page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on('pageerror', (error) => wrong.push(`script: ${error}`));
  page.on('console', (message) => {
    // The browser reports each 4xx and 5xx, which are what the buttons ask for.
    const isStatus = message.text().startsWith('Failed to load resource: the server responded with a status');
    if (['error', 'warning'].includes(message.type()) && !isStatus) wrong.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${origin}/`)) wrong.push(`elsewhere: ${request.url()}`);
  });
  await page.goto(`${origin}/`);
});

afterEach(async () => {
  await page.close();
  assert.deepEqual(wrong, []);
});

const press = (name) => page.getByRole('button', { name: new RegExp(`^${name}`) }).click();
const entries = () => page.locator('#log > li');
/** Waits until the newest entries of the log have these words, the newest first. */
const said = (...words) => page.waitForFunction((expected) => {
  const shown = [...document.querySelectorAll('#log .word')].slice(0, expected.length);
  return JSON.stringify(shown.map((word) => word.textContent)) === JSON.stringify(expected);
}, words);
const record = async () => {
  const key = await page.locator('#key').textContent();
  return page.locator('#records > li').filter({ hasText: key });
};
/** Waits for the record of the current key to say this. */
const recordSays = async (text) => (await record()).filter({ hasText: text }).waitFor();
const charges = () => page.locator('#ledger > li').count();
/** Waits for a state of the tables that was asked for after now. */
const looked = () => page.waitForResponse((response) => response.url().endsWith('/playground/state'));
const charged = async (before, more) => {
  await looked();
  await page.waitForFunction((count) => document.querySelectorAll('#ledger > li').length === count, before + more);
};
/** The page may be a moment ahead of the store. */
async function retryUntilFree() {
  let word;
  do {
    await press('Retry');
    await page.waitForFunction(() => document.querySelector('#log .word').textContent !== '…');
    word = await page.locator('#log .word').first().textContent();
  } while (word === 'in progress');
}
const shoot = (name, fullPage = true) => page.screenshot({ path: join(SCREENSHOTS, name), fullPage });

async function fits(width) {
  await page.setViewportSize({ width, height: 700 });
  const scrollWidth = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(scrollWidth <= width, `${scrollWidth} px wide in ${width}`);
}

// The first, on tables that are empty: its picture is the README's.
test('it pays once, whatever is done to a key', async () => {
  assert.ok(await page.getByRole('button', { name: 'Retry' }).isDisabled());
  await press('Pay');
  await said('first answer');
  await recordSays('completed');
  await press('Retry');
  await said('replay', 'first answer');
  assert.match(await entries().first().textContent(), /201.*idempotency-replayed: true.*"id":"pay_/);
  await press('Change the amount');
  await said('mismatch', 'replay', 'first answer');
  assert.match(await entries().first().textContent(), /422/);
  await charged(0, 1);
  await press('Double-click');
  await page.getByText('Two requests at once, 1 ran.').waitFor();
  // The other one came while it ran or, on a machine that is slow, after it.
  const words = (await page.locator('#log .word').allTextContents()).slice(0, 2);
  assert.equal(words.filter((word) => word === 'first answer').length, 1);
  assert.equal(words.filter((word) => ['in progress', 'replay'].includes(word)).length, 1);
  await charged(1, 1);
  await press('Crash in mid-payment');
  await said('crashed');
  await recordSays(HELD);
  await charged(2, 0);
  const picture = await shoot('playground.png', false);
  assert.ok(picture.length <= 200 * 1024, `${picture.length} bytes`);
});

for (const { route, attempt, word, scope } of [
  { route: '/payments', attempt: 2, word: 'takeover', scope: 'the transaction' },
  { route: '/charges', attempt: 1, word: 'reconciled', scope: 'the card network' },
]) {
  test(`a crash of ${route} is seen through by its retry, and ${scope} moves the money once`, async () => {
    await page.locator(`input[value="${route}"]`).check();
    await looked();
    const before = await charges();
    await press('Crash in mid-payment');
    await said('crashed');
    await recordSays(HELD);
    await recordSays('abandoned');
    await shoot(`crash${route.replace('/', '-')}.png`);
    await retryUntilFree();
    await said(word);
    await recordSays(`attempt ${attempt}`);
    await recordSays('completed');
    await press('Retry');
    await said('replay');
    await charged(before, 1);
  });
}

test('headers have lines of their own', async () => {
  await press('Pay');
  await said('first answer');
  await press('Retry');
  await said('replay');
  const headers = await entries().first().locator('.header').allTextContents();
  assert.ok(headers.length >= 2 && headers.includes('idempotency-replayed: true'), headers.join('|'));
});

test('on a phone the ledger is next to the buttons', async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  const top = async (id) => (await page.locator(id).boundingBox()).y;
  const tops = [await top('#fresh'), await top('#total'), await top('#said'), await top('#records-title')];
  assert.deepEqual(tops, tops.toSorted((a, b) => a - b));
  assert.ok(tops[1] < 844, `the ledger begins at ${tops[1]}`);
});

test('a new key is another payment', async () => {
  await looked();
  const before = await charges();
  const key = await page.locator('#key').textContent();
  await press('Pay');
  await said('first answer');
  await press('New key');
  assert.notEqual(await page.locator('#key').textContent(), key);
  await press('Pay');
  await said('first answer', 'first answer');
  await charged(before, 2);
});

test('a hidden tab asks for nothing, and looks again when it is shown', async () => {
  await looked();
  const hide = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await hide(true);
  let asked = 0;
  page.on('request', () => { asked += 1; });
  // Time in which a tab that is shown would have asked three times.
  await page.waitForTimeout(3_000);
  assert.equal(asked, 0);
  await Promise.all([looked(), hide(false)]);
});

test('everything can be done by the keyboard, and has a name', async () => {
  const names = [];
  for (let tab = 0; tab < 4; tab += 1) {
    await page.keyboard.press('Tab');
    names.push(await page.evaluate(() => document.activeElement.id || document.activeElement.name));
  }
  // A group of radio buttons is one stop; what is disabled is none.
  assert.deepEqual(names, ['route', 'pay', 'double', 'crash']);
  await page.locator('#pay').focus();
  await page.keyboard.press('Enter');
  await said('first answer');
  assert.equal(await page.locator('#hint').textContent(), 'It ran, and its answer is stored. Press “Retry”.');
});

test('what a record holds is shown as text, never as markup', async () => {
  const key = `<img src=x onerror="alert(1)">${Date.now()}`;
  await page.evaluate(async (name) => {
    await fetch('/payments', { method: 'POST', body: '{"amount":1,"currency":"eur","source":"tok_visa"}',
      headers: { 'content-type': 'application/json', 'idempotency-key': name } });
  }, key);
  await page.locator('#records code').filter({ hasText: key }).waitFor();
  assert.equal(await page.locator('#records img').count(), 0);
});

test('it fits a phone of 320 px, and a dark one', async () => {
  await press('Double-click');
  await page.getByText('Two requests at once').waitFor();
  await fits(320);
  await shoot('phone.png');
  await page.emulateMedia({ colorScheme: 'dark' });
  await fits(1200);
  await shoot('dark.png');
  await page.emulateMedia({ colorScheme: null });
});
