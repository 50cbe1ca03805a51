import { App, Validations } from "aws-cdk-lib";
import { BUNDLING_STACKS } from "aws-cdk-lib/cx-api";
import { AwsSolutionsChecks } from "cdk-nag";

import { PaymentsStack } from "./payments-stack";
import { settings } from "./settings";

const app = new App();
// `cdk synth -c bundling=skip` looks at the template without building the functions.
if (app.node.tryGetContext("bundling") === "skip") {
  app.node.setContext(BUNDLING_STACKS, []);
}
const chosen = settings(app.node);
new PaymentsStack(app, `payments-${chosen.stage}`, { settings: chosen });
Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
