/** What a function's log says that somebody must hear of. */
export interface Signal {
  /** As `docs/signals.md` calls it. */
  readonly name: string;
  /** A line of the log with one of them counts. They are in both of Lambda's log formats. */
  readonly terms: readonly string[];
  readonly description: string;
}

/** The handler may have run twice. */
export const LEASE_LOST: Signal = {
  name: "LeaseLost",
  terms: ["lease_lost", "the lease was lost", "the lease is lost"],
  description:
    "A handler outlived its lease and another one owned its key: the operation may have run twice.",
};

/** Part of its effect may have happened. */
export const LEASE_EXPIRED: Signal = {
  name: "LeaseExpired",
  terms: ["lease_expired", "the lease ended while the handler ran"],
  description: "A handler was stopped at the end of its lease: its effect may have happened in part.",
};

/** It may run again. */
export const UNCONFIRMED: Signal = {
  name: "Unconfirmed",
  terms: ["unconfirmed", "its completion could not be confirmed"],
  description:
    "A handler ran and DynamoDB did not confirm its end: it may run again when its lease is over.",
};

/** Nothing guarded these calls. */
export const FAIL_OPEN: Signal = {
  name: "FailOpen",
  terms: ["fail_open", "the handler runs WITHOUT idempotency"],
  description: "DynamoDB was out of reach and handlers ran without a record: nothing guarded them.",
};

/** Nothing guards any call. */
export const SWITCHED_OFF: Signal = {
  name: "SwitchedOff",
  terms: ["idempotency is switched OFF", "it is switched off"],
  description: "Idempotency is switched off: handlers run for every repeat.",
};

/** Callers get errors. */
export const STORE_ERROR: Signal = {
  name: "StoreError",
  terms: ["store_error"],
  description:
    "Calls ended with DynamoDB out of reach: nothing ran, or a transaction is in doubt; callers get errors.",
};

/** Whatever else the crate, or the handler, finds worth an error. */
export const ERROR_LINES: Signal = {
  name: "ErrorLines",
  terms: ["ERROR"],
  description: "A function has logged an error.",
};
