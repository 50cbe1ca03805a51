import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/support/temporary.ts",
    // A first synthesis loads all of aws-cdk-lib.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
