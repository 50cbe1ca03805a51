export * from "./idempotency-alarms";
export * from "./idempotency-table";
export * from "./scope";
