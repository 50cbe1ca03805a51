/**
 * The namespace of idempotency keys, as the Rust code names it: one segment
 * (`Scope::new("payments")`, `idempotency.http("payments")`), or several
 * (`Scope::new("payments").segment("v2")` is `["payments", "v2"]`).
 *
 * The code appends the tenant (`payments/%t/acme`). A grant for `payments` covers all of them.
 */
export type Scope = string | string[];

/**
 * The partition keys of a scope and of all scopes below it, as patterns for
 * `dynamodb:LeadingKeys` with the operator `StringLike`.
 *
 * A record's key is `scope#key`, where `%`, `#` and `/` in a segment are percent-encoded: so
 * `payments#*` is the scope itself, and `payments/*#*` is what lies below it. What IAM would read
 * as a wildcard or a variable is escaped.
 *
 * @throws if the scope has no segment, or its first one is empty: it names the operation
 */
export function leadingKeys(scope: Scope): string[] {
  const segments = typeof scope === "string" ? [scope] : scope;
  if (!segments[0]) {
    throw new Error("the scope is empty: name the operation");
  }
  const prefix = segments.map(encodeSegment).map(escapePattern).join("/");
  return [`${prefix}#*`, `${prefix}/*#*`];
}

/** As `Scope` in src/store/key/mod.rs. */
function encodeSegment(segment: string): string {
  return segment.replace(/[%#/]/g, encodeURIComponent);
}

/** IAM policy elements: `${*}`, `${?}` and `${$}` are the characters themselves. */
function escapePattern(text: string): string {
  return text.replace(/[*?$]/g, "$${$&}");
}
