// Deliveries signed by the senders' own libraries, at a fixed time. `node sign.js` prints them,
// `node sign.js --check` compares them with deliveries.json, which the Rust tests read.
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import "@shopify/shopify-api/adapters/node";
import { Paddle } from "@paddle/paddle-node-sdk";
import { shopifyApi } from "@shopify/shopify-api";
import { sign as signGitHub, verify as verifyGitHub } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";

const time = 1790000000;
const kept = fileURLToPath(new URL("deliveries.json", import.meta.url));
// No request is sent, so no key is needed.
const stripe = new Stripe("sk_test_none");

const bodies = [
  '{"id":"evt_1","pending_webhooks":1}',
  '{\n  "id": "evt_2",\n  "name": "Zoë \u{1F980} \\u00e9",\n  "amount": 10.50\n}\n',
];

function fromStripe(id, body, secrets) {
  const headers = secrets.map((secret) =>
    stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp: time }),
  );
  // While a secret is rotated Stripe sends one header with a signature for each.
  const [first, ...others] = headers;
  const signatures = others.map((header) => header.replace(/^t=\d+/, ""));
  const signature = first + signatures.join("");
  for (const secret of secrets) {
    stripe.webhooks.constructEvent(body, signature, secret, undefined, undefined, time * 1000);
  }
  return { sender: "stripe", id, secrets, headers: { "stripe-signature": signature }, body };
}

async function fromGitHub(id, body, secret) {
  const signature = await signGitHub(secret, body);
  if (!(await verifyGitHub(secret, body, signature))) throw new Error("not verified");
  const headers = { "x-github-delivery": id, "x-hub-signature-256": signature };
  return { sender: "github", id, secrets: [secret], headers, body };
}

function fromStandard(prefix, id, body, secrets) {
  const signatures = secrets.map((secret) => new Webhook(secret).sign(id, new Date(time * 1000), body));
  const headers = {
    [`${prefix}-id`]: id,
    [`${prefix}-timestamp`]: String(time),
    [`${prefix}-signature`]: signatures.join(" "),
  };
  return { sender: "standard", id, secrets, headers, body };
}

/** These libraries only verify. */
function hmac(secret, text, encoding) {
  return createHmac("sha256", secret).update(text, "utf8").digest(encoding);
}

async function fromShopify(id, body, secret) {
  const shopify = shopifyApi({
    apiKey: "none",
    apiSecretKey: secret,
    hostName: "localhost",
    apiVersion: "2026-07",
    isEmbeddedApp: false,
    logger: { log: () => {} },
  });
  const headers = {
    "x-shopify-topic": "orders/paid",
    "x-shopify-hmac-sha256": hmac(secret, body, "base64"),
    "x-shopify-shop-domain": "example.myshopify.com",
    "x-shopify-api-version": "2026-07",
    "x-shopify-webhook-id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
    "x-shopify-event-id": id,
  };
  const rawRequest = { method: "POST", url: "/", headers };
  const { valid } = await shopify.webhooks.validate({ rawBody: body, rawRequest });
  if (!valid) throw new Error("not verified");
  return { sender: "shopify", id, secrets: [secret], headers, body };
}

async function fromPaddle(id, body, secrets) {
  const { webhooks } = new Paddle("none");
  const sign = (secret, time) => `h1=${hmac(secret, `${time}:${body}`, "hex")}`;
  // The library accepts a signature for 5 seconds.
  const now = Math.floor(Date.now() / 1000);
  for (const secret of secrets) {
    const valid = await webhooks.isSignatureValid(body, secret, `ts=${now};${sign(secret, now)}`);
    if (!valid) throw new Error("not verified");
  }
  // While a secret is rotated Paddle sends a signature for each.
  const signatures = secrets.map((secret) => sign(secret, time));
  const headers = { "paddle-signature": `ts=${time};${signatures.join(";")}` };
  return { sender: "paddle", id, secrets, headers, body };
}

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const deliveries = [
  fromStripe("evt_1", bodies[0], ["whsec_stripe"]),
  fromStripe("evt_2", bodies[1], ["whsec_stripe", "whsec_older"]),
  await fromGitHub("72d3162e-cc78-11e3-81ab-4c9367dc0958", bodies[0], "It's a Secret to Everybody"),
  await fromGitHub("72d3162e-cc78-11e3-81ab-4c9367dc0959", bodies[1], "Zoë's secret"),
  fromStandard("webhook", "msg_1", bodies[0], [secret]),
  fromStandard("webhook", "msg_2", bodies[1], [other, secret]),
  fromStandard("svix", "msg_3", bodies[0], [secret]),
  await fromShopify("98880550-7158-44d4-b7cd-2c97c8a091b5", bodies[1], "shpss_none"),
  await fromPaddle("evt_01", '{"event_id":"evt_01"}', ["pdl_ntfset_none"]),
  await fromPaddle("evt_02", '{"event_id":"evt_02","name":"Zoë"}', ["pdl_ntfset_new", "pdl_ntfset_old"]),
];

const printed = `${JSON.stringify({ time, deliveries }, null, 2)}\n`;
if (process.argv.includes("--check")) {
  if (readFileSync(kept, "utf8") !== printed) {
    console.error("deliveries.json is not what the senders' libraries sign: node sign.js > deliveries.json");
    process.exit(1);
  }
  console.log(`${deliveries.length} deliveries are signed as the senders' libraries sign them`);
} else {
  process.stdout.write(printed);
}
