import { describe, expect, it } from "vitest";

import { leadingKeys } from "../lib";

/** IAM's `StringLike`: text in `${}` is literal, `*` matches any text, `?` one character. */
function matches(pattern: string, text: string): boolean {
  const source = pattern.replace(/\$\{([*?$])\}|([*?])|[.+^${}()|[\]\\]/g, (all, escaped, wildcard) => {
    if (escaped) return `\\${escaped}`;
    if (wildcard) return wildcard === "*" ? "[^]*" : "[^]";
    return `\\${all}`;
  });
  return new RegExp(`^${source}$`).test(text);
}

describe("leadingKeys", () => {
  it("covers the scope and what lies below it", () => {
    expect(leadingKeys("payments")).toEqual(["payments#*", "payments/*#*"]);
    expect(leadingKeys(["payments", "v2"])).toEqual(["payments/v2#*", "payments/v2/*#*"]);
  });

  it("encodes segments as the crate does", () => {
    // The example of src/store/key/mod.rs, `segments_are_encoded_and_the_key_is_verbatim`.
    const [own] = leadingKeys(["charge#1", "a/b%", "v2"]);
    expect(own).toBe("charge%231/a%2Fb%25/v2#*");
  });

  it("escapes what IAM would read as a wildcard or a variable", () => {
    expect(leadingKeys("a*b?c$d")).toEqual(["a${*}b${?}c${$}d#*", "a${*}b${?}c${$}d/*#*"]);
  });

  it.each([
    ["payments", "payments#k", true],
    ["payments", "payments/%t/tenant-7#k", true],
    ["payments", "payments/%t/tenant-7/v2#k#/with signs", true],
    ["payments", "payments/%p/0#k", true],
    ["payments", "payments-export#k", false],
    ["payments", "paymentsX/a#k", false],
    ["payments", "refunds#k", false],
    ["payments", "refunds#payments#k", false],
    ["payments", "refunds/payments#k", false],
    ["pay*", "payments#k", false],
    ["pay*", "pay*#k", true],
    ["pay?", "pays#k", false],
    ["pay$", "pay$#k", true],
  ])("of %s: %s is covered: %s", (scope, key, expected) => {
    expect(leadingKeys(scope).some((pattern) => matches(pattern, key))).toBe(expected);
  });

  it.each([[""], [[]], [["", "v2"]]])("refuses a scope without an operation: %j", (scope) => {
    expect(() => leadingKeys(scope)).toThrow("name the operation");
  });
});
