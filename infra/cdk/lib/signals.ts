/** What a log says that an alarm counts. `docs/signals.md` has the same patterns. */
export interface Signal {
  /** As `docs/signals.md` calls it. */
  readonly name: string;
  /** A filter pattern of CloudWatch Logs, for lines that are JSON. It finds lines of the crate alone. */
  readonly pattern: string;
}

/** A signal of which one line raises a page. */
export interface Page extends Signal {
  readonly description: string;
}

const says = (text: string): string => `$.fields.message = "${text}"`;
const ENDED = says("an idempotent call has ended");
const ended = (outcome: string): string => `(${ENDED} && $.fields.outcome = "${outcome}")`;
const anyOf = (...conditions: string[]): string => `{ ${conditions.join(" || ")} }`;

/** One log line requires action at once. */
export const PAGES: readonly Page[] = [
  {
    name: "LeaseLost",
    pattern: anyOf(ended("lease_lost"), says("the lease was lost before*"), says("the lease is lost while*")),
    description:
      "A handler outlived its lease and another call owned its key: the operation may have run twice. See docs/signals.md#outcomes.",
  },
  {
    name: "LeaseExpired",
    pattern: anyOf(ended("lease_expired"), says("the lease ended while the handler ran*")),
    description: "A handler was stopped when its lease expired: its effect may have happened in part. See docs/signals.md#outcomes.",
  },
  {
    name: "Unconfirmed",
    pattern: anyOf(ended("unconfirmed"), says("the handler ran and its completion could not be confirmed*")),
    description:
      "A handler ran and DynamoDB did not confirm its completion: it may run again after its lease. See docs/signals.md#outcomes.",
  },
  {
    name: "FailOpen",
    pattern: anyOf(ended("fail_open"), says("DynamoDB is out of reach: the handler runs WITHOUT idempotency*")),
    description: "DynamoDB could not be reached and handlers ran without a record. See docs/signals.md#outcomes.",
  },
  {
    name: "SwitchedOff",
    pattern: anyOf(
      says("idempotency is switched OFF*"),
      says("a call runs WITHOUT idempotency: it is switched off"),
    ),
    description: "Idempotency is switched off: handlers run for every repeat. See docs/command-line.md#switching-it-off.",
  },
  {
    name: "AnswerLost",
    pattern: anyOf(says("*: repeats get an error")),
    description: "A completed operation has no answer that can be replayed: its repeats get an error. See docs/signals.md#warnings-and-errors.",
  },
];

/** Calls that ended without an answer and without an effect, or with a transaction in doubt. */
export const FAILED: Signal = {
  name: "Failed",
  pattern: anyOf(ended("store_error"), ended("error")),
};

/** Calls whose operation stays unfinished, or failed for good, until an operator looks at it. */
export const UNRESOLVED: Signal = {
  name: "Unresolved",
  pattern: anyOf(ended("abandoned"), ended("failed"), ended("reconcile_failed")),
};

/** Calls that were dropped while their handler ran: each one logs this line, and its end. */
export const DROPPED: Signal = {
  name: "Dropped",
  pattern: anyOf(says("the future of a running operation was dropped*")),
};

/** Errors of the crate, whichever, in logs that have the target of each line. */
export const ERROR_LINES: Signal = {
  name: "ErrorLines",
  pattern: '{ $.level = "ERROR" && $.target = "dynamodb_idempotency*" }',
};

/** Each call that is logged: what failures are compared with where no function counts invocations. */
export const CALLS: Signal = { name: "Calls", pattern: anyOf(ENDED) };

/** The same lines, counted by their outcome. */
export const OUTCOMES: Signal = { name: "Outcomes", pattern: anyOf(ENDED) };

/** Where a log line in JSON has the outcome of a call. */
export const OUTCOME = "$.fields.outcome";

/** Queries of CloudWatch Logs Insights, as `docs/signals.md` has them, by their names. */
export const QUERIES: { readonly [name: string]: string } = {
  AbandonedByOperation: 'filter fields.outcome = "abandoned" | stats count_distinct(span.key) by fields.operation',
  AbandonedByKey: 'filter fields.outcome = "abandoned" | stats count(*) by span.key',
  UnresolvedByOutcome: 'filter fields.outcome in ["abandoned", "failed", "reconcile_failed"] | stats count(*) by fields.outcome',
};
