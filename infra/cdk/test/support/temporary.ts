/** Each synthesis leaves a folder behind; together they go with the tests. */

import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";

export default function setup(): () => void {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "idempotency-cdk-"));
  // Where `os.tmpdir` looks, in the processes of the tests too.
  process.env["TMPDIR"] = folder;
  return () => fs.rmSync(folder, { recursive: true });
}
