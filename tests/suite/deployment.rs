//! What `infra/` deploys is what the crate needs. `infra/contract.json` stands between the two: the
//! tests of `infra/` hold both templates against it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use aws_sdk_dynamodb::types::{BillingMode, TimeToLiveStatus};
use dynamodb_idempotency::policy::{Compression, Failure, Lease};
use dynamodb_idempotency::{Call, Policy, Reconciled, Scope, Transaction};
use serde_json::{Value, json};

use crate::support::access::{Access, CONTRACT, GRANTED};
use crate::support::effects::count;
use crate::support::raw::{self, n, with};
use crate::support::{
    Act, Gate, Link, LocalClock, Runs, Store, caller_on, charge, charge_held, decline, handlers,
};

/// Every kind of request that the crate sends on behalf of a function (in all of the suite, the wire
/// fails what is not granted): acquire, complete, release,
/// retain a failure, read in doubt, take over, reconcile, replace, correct a timestamp, renew, step, commit, and a
/// whole operation as one transaction.
async fn representative_runs(scope: Scope) -> BTreeSet<Access> {
    let (store, link, runs, idempotency) = caller_on(Link::without_retries()).await;
    let operation = |key: &str| idempotency.operation(scope.clone()).key(key).no_payload();
    let with_policy = |key: &str, change: &dyn Fn(Policy) -> Policy| {
        idempotency.operation(scope.clone()).policy(change).unwrap().key(key).no_payload()
    };
    let pk = |key: &str| format!("{}#{key}", scope.as_str());

    charge(operation("first run and replay"), &runs).await.unwrap();
    charge(operation("first run and replay"), &runs).await.unwrap();
    handlers(decline(operation("released"), &runs).await);
    let retain = Failure::Retain { max_attempts: 2 };
    handlers(decline(with_policy("kept", &|p| p.failure(retain)), &runs).await);
    charge(with_policy("kept", &|p| p.failure(retain)), &runs).await.unwrap();

    link.wire.next("PutItem", Act::LoseResponse);
    charge(operation("in doubt"), &runs).await.unwrap();

    store.put(raw::abandoned(&pk("taken over"))).await;
    charge(operation("taken over"), &runs).await.unwrap();
    let retained =
        with(raw::completed(&pk("replaced"), "1"), "expires_at", n(raw::now() / 1000 - 60));
    store.put(retained).await;
    charge(operation("replaced"), &runs).await.unwrap();

    let renewed = Lease::Renewed(Duration::from_secs(3));
    run_until_renewed(with_policy("renewed", &|p| p.lease(renewed)), &link, &runs).await;

    store.put(raw::abandoned(&pk("reconciled"))).await;
    let reconciled = operation("reconciled")
        .reconcile(async |_| Ok::<_, Infallible>(Reconciled::Completed("found".to_owned())));
    reconciled.run(async |_| Ok::<_, Infallible>("ran".to_owned())).await.unwrap();
    let stepped = operation("committed").run(async |execution| {
        execution.step("reserve", async { Ok::<_, Infallible>(1) }).await.unwrap();
        execution.commit("done", [count(store.table(), "effect")]).await.unwrap();
        Ok::<_, Infallible>("done".to_owned())
    });
    stepped.await.unwrap();
    let transaction = operation("transaction").run_transaction(async || {
        Ok::<_, Infallible>(Transaction::new(1).items([count(store.table(), "effect")]))
    });
    transaction.await.unwrap();

    let large = with_policy("in parts", &|p| p.compression(Compression::Off));
    for large in [large, operation("in parts")] {
        large.run(async |_| Ok::<_, Infallible>("x".repeat(300_000))).await.unwrap();
    }

    let mut seen = link.wire.accesses();
    let off = Link::default().clock(LocalClock::off_by(600));
    charge(
        store.over(&off).operation(scope.clone()).key("timestamp corrected").no_payload(),
        &runs,
    )
    .await
    .unwrap();
    seen.extend(off.wire.accesses());
    seen
}

async fn run_until_renewed(call: Call, link: &Link, runs: &Runs) {
    let (held, renewal) = (Gate::default(), Gate::default());
    link.wire.next("UpdateItem", Act::HoldResponse(renewal.clone()));
    let (long, ()) = tokio::join!(charge_held(call, runs, &held), async {
        renewal.reached().await;
        renewal.open();
        held.open();
    });
    long.unwrap();
}

#[tokio::test]
async fn functions_are_granted_what_is_sent_and_nothing_else() {
    let seen = representative_runs(Scope::new("payments")).await;
    let sent: BTreeSet<String> = seen.into_iter().map(|access| access.action).collect();
    assert_eq!(sent, *GRANTED);
}

#[tokio::test]
async fn records_lie_under_the_leading_keys_that_are_granted() {
    let scopes = [
        (Scope::new("payments"), "payments"),
        (Scope::new("payments").segment("v/2"), "payments/v%2F2"),
        (Scope::new("payments").tenant("tenant/7"), "payments/%t/tenant%2F7"),
    ];
    for (scope, granted) in scopes {
        let mut parts = 0;
        for access in representative_runs(scope).await {
            parts += usize::from(access.is_part());
            let key = access.leading_key.unwrap_or_else(|| panic!("{} has no key", access.action));
            // `payments#*` and `payments/*#*`, the latter for an answer's parts.
            let rest = key.strip_prefix(granted).unwrap_or_else(|| panic!("{key}"));
            let is_inside =
                rest.starts_with('#') || (rest.starts_with("/%p/") && rest.contains('#'));
            assert!(is_inside, "{key}");
        }
        assert!(parts > 2, "{parts}");
    }
}

#[tokio::test]
async fn preflight_needs_no_permission_that_calls_do_not_need() {
    let (store, link) = (Store::open().await, Link::default());
    let scope = Scope::new("payments").segment("v2");
    store.over(&link).preflight([scope]).await.unwrap();
    let sent: BTreeSet<String> =
        link.wire.accesses().into_iter().map(|access| access.action).collect();
    assert_eq!(sent, *GRANTED);
    for access in link.wire.accesses() {
        let key = access.leading_key.unwrap_or_else(|| panic!("{} has no key", access.action));
        let is_of_a_part = key.starts_with("payments/v2/%p/") && key.ends_with("#/0");
        assert!(key == "payments/v2#" || is_of_a_part, "{key}");
    }
}

#[tokio::test]
async fn the_table_that_is_deployed_is_the_one_that_create_table_makes() {
    let store = Store::open().await;
    let output = store.raw.describe_table().table_name(store.table()).send().await.unwrap();
    let table = output.table.unwrap();
    let output = store.raw.describe_time_to_live().table_name(store.table()).send().await.unwrap();
    let ttl = output.time_to_live_description.unwrap();
    let is_on = matches!(
        ttl.time_to_live_status,
        Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
    );
    let attributes = table.attribute_definitions().iter().map(|definition| {
        json!({
            "AttributeName": definition.attribute_name(),
            "AttributeType": definition.attribute_type().as_str(),
        })
    });
    let keys = table.key_schema().iter().map(
        |key| json!({"AttributeName": key.attribute_name(), "KeyType": key.key_type().as_str()}),
    );
    let billing = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    let made = json!({
        "AttributeDefinitions": attributes.collect::<Vec<_>>(),
        "KeySchema": keys.collect::<Vec<_>>(),
        "BillingMode": billing.map(BillingMode::as_str),
        "TimeToLiveSpecification": {"AttributeName": ttl.attribute_name, "Enabled": is_on},
    });
    assert_eq!(made, CONTRACT["table"]);
}

const DEPLOY: &str = include_str!("../../docs/guide/deploy.md");
const COMMANDS: &str = include_str!("../../docs/command-line.md");

/// The statements of the policies on the page, in their order.
fn policies() -> Vec<Value> {
    let blocks = DEPLOY.split("```json\n").skip(1);
    let blocks = blocks.map(|rest| rest.split_once("```").expect("the end of a block").0);
    let policies = blocks.map(|block| serde_json::from_str::<Value>(block).expect("a policy"));
    policies.map(|policy| policy["Statement"].clone()).collect()
}

fn actions(statement: &Value) -> BTreeSet<String> {
    serde_json::from_value(statement["Action"].clone()).expect("a list of actions")
}

#[test]
fn the_service_policy_of_the_page_grants_what_is_sent_on_its_scopes_and_nothing_else() {
    let [service, _] = &policies()[..] else { panic!("two policies") };
    assert_eq!(service.as_array().map(Vec::len), Some(1));
    assert_eq!(actions(&service[0]), *GRANTED);
    let condition = json!({
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["payments#*", "payments/*#*"]},
        "Null": {"dynamodb:LeadingKeys": "false"},
    });
    assert_eq!(service[0]["Condition"], condition);
}

#[test]
fn the_setup_policy_of_the_page_grants_what_create_table_and_doctor_need() {
    let [_, setup] = &policies()[..] else { panic!("two policies") };
    let needs = ["`create-table`", "`doctor`"].iter().flat_map(|command| {
        let row = COMMANDS.lines().find(|line| line.starts_with(&format!("| {command}")));
        let needs = row.and_then(|row| row.rsplit(" | ").next()).expect("what the command needs");
        // What is needed without further options.
        let needs = needs.split(';').next().unwrap_or_default();
        let names = needs.split('`').skip(1).step_by(2);
        names.map(|name| format!("dynamodb:{}", name.trim_start_matches("dynamodb:")))
    });
    assert_eq!(actions(&setup[0]), needs.collect());
}

const PROMETHEUS: &str = include_str!("../../infra/servers/prometheus.yml");
const CLOUDWATCH: &str = include_str!("../../infra/servers/cloudwatch.yaml");
const SIGNALS: &str = include_str!("../../docs/signals.md");

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[test]
fn alarms_for_servers_are_on_metrics_that_exist() {
    use dynamodb_idempotency::signals;

    let known = [signals::EXECUTIONS, signals::CALLS, signals::TAKEOVERS, signals::STORE_SECONDS];
    for text in [PROMETHEUS, CLOUDWATCH] {
        let named: Vec<_> = words(text).filter(|word| word.starts_with("idempotency_")).collect();
        assert!(named.len() > 3, "{named:?}");
        for name in named {
            // Of a histogram, Prometheus has the number of values under this name.
            assert!(known.contains(&name.trim_end_matches("_count")), "{name}");
        }
    }
}

#[test]
fn alarms_for_servers_are_on_outcomes_that_exist() {
    let quoted = PROMETHEUS.split("outcome=").skip(1).flat_map(|rest| {
        rest.trim_start_matches('~').split('"').nth(1).unwrap_or_default().split('|')
    });
    let listed = CLOUDWATCH.split("{ Name: outcome, Value: ").skip(1);
    let listed = listed.map(|rest| rest.split(' ').next().unwrap_or_default());
    let outcomes: BTreeSet<_> = quoted.chain(listed).collect();
    assert!(outcomes.len() > 8, "{outcomes:?}");
    for outcome in outcomes {
        assert!(SIGNALS.contains(&format!("\n| `{outcome}` | ")), "{outcome}");
    }
}

/// The text of a file below the root.
fn file(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The anchors of a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The descriptions of the alarms in a file: in the line of their name, or folded in the next one.
fn descriptions(path: &str, name: &str) -> Vec<String> {
    let text = file(path);
    let mut lines = text.lines().map(str::trim);
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if let Some((before, description)) = line.split_once(name)
            && !before.contains('#')
        {
            let description =
                if description.contains(">-") { lines.next() } else { Some(description) };
            found.push(
                description.expect("a description").trim_matches(['"', ' ', '=', ',']).to_owned(),
            );
        }
    }
    found
}

/// SAM, CDK and Terraform have the same alarms, which `infra/cdk/test` compares.
#[test]
fn each_alarm_ends_with_the_section_that_says_what_to_do() {
    for (path, name, number) in [
        ("infra/sam/template.yaml", "AlarmDescription:", 32),
        ("infra/servers/cloudwatch.yaml", "AlarmDescription:", 12),
        ("infra/servers/prometheus.yml", "summary:", 9),
        ("infra/terraform/examples/payments/main.tf", "alarm_description ", 1),
    ] {
        let descriptions = descriptions(path, name);
        assert_eq!(descriptions.len(), number, "{path}");
        for description in descriptions {
            let section = description.rsplit_once(". See docs/").map(|(_, section)| section);
            let section = section.and_then(|section| section.strip_suffix('.')?.split_once('#'));
            let (page, anchor) = section.unwrap_or_else(|| panic!("{path}: {description}"));
            let anchors = anchors(&file(&format!("docs/{page}")));
            assert!(anchors.contains(anchor), "{path}: {description}: {anchors:?}");
        }
    }
}

/// One alarm stands for those of the page on one outcome each.
const IN_DOUBT: &str = "AnswerInDoubt";

#[test]
fn each_alarm_of_prometheus_is_explained_on_the_page_on_deployment() {
    let alarms = PROMETHEUS.split("- alert: Idempotency").skip(1);
    let alarms: Vec<_> = alarms.filter_map(|rest| rest.lines().next()).collect();
    assert!(alarms.contains(&IN_DOUBT) && alarms.len() == 9, "{alarms:?}");
    for name in alarms.into_iter().filter(|name| *name != IN_DOUBT) {
        let is_explained = [name.to_owned(), format!("Idempotency{name}")]
            .iter()
            .any(|name| DEPLOY.contains(&format!("`{name}`")));
        assert!(is_explained, "{name}");
    }
}

/// The alarms of `cloudwatch.yaml`, each as its text.
fn alarms_for_servers() -> Vec<(&'static str, &'static str)> {
    let (_, resources) = CLOUDWATCH.split_once("\nResources:\n").expect("resources");
    let alarms = resources.split("\n\n").map(|alarm| alarm.split_once(":\n").expect("an alarm"));
    alarms.map(|(name, text)| (name.trim(), text)).collect()
}

/// Log lines have no metric, and functions, API and queues are none of a server's.
const NOT_OF_A_SERVER: [&str; 9] = [
    "AnswerLost",
    "AnswersFail",
    "DeadLetters",
    "ErrorLines",
    "FunctionThrottles",
    "InvocationsFail",
    "MostAnswersFail",
    "MostInvocationsFail",
    "OldestMessage",
];

#[test]
fn a_server_has_the_alarms_of_the_page_on_deployment() {
    let (_, section) = DEPLOY.split_once("\n## Alarms\n").expect("the alarms");
    let (section, _) = section.split_once("\n### ").expect("its end");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split(" | ").next().unwrap_or_default());
    let listed = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let listed: BTreeSet<_> = listed.filter(|name| !NOT_OF_A_SERVER.contains(name)).collect();
    assert_eq!(
        alarms_for_servers().into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>(),
        listed
    );
}

#[test]
fn alarms_for_servers_compare_with_all_calls_and_are_on_ten_metrics_at_most() {
    for (name, alarm) in alarms_for_servers() {
        assert!(alarm.matches("MetricStat:").count() <= 10, "{name}");
        if alarm.contains("Expression: 100 * ") {
            assert!(alarm.contains(" / calls\n"), "{name}");
            let calls = alarm.split("- Id: calls\n").nth(1).expect("calls");
            assert!(calls.contains("MetricName: idempotency_calls_total"), "{name}");
            assert_eq!(calls.matches("{ Name: ").count(), 1, "{name}: by its operation alone");
        }
    }
}
