/** What the documentation promises of the stacks. */

import * as fs from "node:fs";

/** The cells of the table below a heading of a page, row by row. */
export function rows(heading: string, page = "../../docs/signals.md"): string[][] {
  const [, section] = fs.readFileSync(page, "utf8").split(`\n${heading}\n`);
  const [text] = section!.split("\n## ");
  const lines = text!.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| --"));
  return lines.slice(1).map((line) => line.split(" | ").map((cell) => cell.replace(/^\| | \|$/g, "")));
}

/** What is counted in logs: the block under "Alarms", a name and its pattern a line. */
export const SIGNALS = signals();

function signals(): { name: string; pattern: string }[] {
  const [, section] = fs.readFileSync("../../docs/signals.md", "utf8").split("\n## Alarms\n");
  const [, block] = section!.split("```text\n");
  const [lines] = block!.split("```");
  return lines!.trim().split("\n").map((line) => {
    const [, name, pattern] = /^(\w+) +(\{.*\})$/.exec(line)!;
    return { name: name!, pattern: pattern! };
  });
}

/** The block of queries of CloudWatch Logs Insights: by its name, each query's text. */
export const QUERIES = queries();

function queries(): { [name: string]: string } {
  const [, section] = fs.readFileSync("../../docs/signals.md", "utf8").split("\n## Was this a replay, and of which key?\n");
  const [, block] = section!.split("```text\n");
  const lines = block!.split("```")[0]!.trim().split("\n");
  return Object.fromEntries(lines.map((line) => /^(\w+) +(filter .*)$/.exec(line)!.slice(1)));
}

/** The alarms under "Alarms" of the page on deployment: their names, whether they page, and whether each function has one. */
export const ALARMS = rows("## Alarms", "../../docs/guide/deploy.md").flatMap(([names, severities, raised]) => {
  const severity = severities!.split(", ");
  return [...names!.matchAll(/`(\w+)`/g)].map(([, name], index) => ({
    name: name!,
    severity: severity[index] ?? severity[0]!,
    isOfFunction: /\bone function\b/.test(raised!),
  }));
});
