/** What the documentation promises of the stacks. */

import * as fs from "node:fs";

/** The cells of the table below a heading of a page, row by row. */
export function rows(heading: string, page = "../../docs/signals.md"): string[][] {
  const [, section] = fs.readFileSync(page, "utf8").split(`\n${heading}\n`);
  const [text] = section!.split("\n## ");
  const lines = text!.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| --"));
  return lines.slice(1).map((line) => line.split(" | ").map((cell) => cell.replace(/^\| | \|$/g, "")));
}

/** The alarms on lines of a log. */
export const SIGNALS = rows("## Alarms").map(([name, terms, outcome]) => ({
  name: name!.replaceAll("`", ""),
  terms: [...terms!.matchAll(/`([^`]+)`/g)].map(([, term]) => term!),
  outcome: outcome!,
}));
