//! The snippets of the README and of the guides, as doc tests.

macro_rules! pages {
    ($($name:ident: $file:literal,)*) => {$(
        #[doc = include_str!($file)]
        #[derive(Debug)]
        pub struct $name;
    )*};
}

pages! {
    Readme: "../README.md",
    Agents: "../docs/agents.md",
    ExactlyOnce: "../docs/exactly-once.md",
    Signals: "../docs/signals.md",
    WrapAHandler: "../docs/guide/wrap-a-handler.md",
    Axum: "../docs/guide/axum.md",
    Policies: "../docs/guide/policies.md",
    LongOperations: "../docs/guide/long-operations.md",
    ThirdParties: "../docs/guide/third-parties.md",
    Messages: "../docs/guide/messages.md",
    Webhooks: "../docs/guide/webhooks.md",
    McpTools: "../docs/guide/mcp-tools.md",
    MultiTenant: "../docs/guide/multi-tenant.md",
    MigratingFromPowertools: "../docs/guide/migrating-from-powertools.md",
    SnapStart: "../docs/guide/snapstart.md",
    DurableFunctions: "../docs/guide/durable-functions.md",
    Guarantees: "../docs/guide/guarantees.md",
    HowItRelates: "../docs/guide/how-it-relates.md",
    EncryptAnswers: "../docs/guide/encrypt-answers.md",
    Testing: "../docs/guide/testing.md",
    Deploy: "../docs/guide/deploy.md",
    Operate: "../docs/guide/operate.md",
    Scale: "../docs/guide/scale.md",
    Faq: "../docs/guide/faq.md",
}
