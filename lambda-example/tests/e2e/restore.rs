//! The runbooks of `docs/guide/operate.md`, by its commands: a lost table, and many stuck keys.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::Idempotency;

use crate::deployment::{Deployment, Item};
use crate::dynamodb::unique;
use crate::emulator::Emulator;
use crate::event::{Kind, Order, Response};
use crate::page::block;

const OPERATE: &str = "docs/guide/operate.md";

/// An idempotency table of this test alone.
async fn table(deployment: &Deployment) -> String {
    let name = unique("restore");
    let idempotency = Idempotency::new(deployment.client(), &name);
    idempotency.create_table().await.expect("a table");
    name
}

/// The payments function with another idempotency table.
async fn function(deployment: &Deployment, table: &str) -> Emulator {
    let mut function = deployment.payments();
    function.environment.insert("IDEMPOTENCY_TABLE".to_owned(), table.to_owned());
    Emulator::start(deployment, &function).await
}

async fn pay(emulator: &Emulator, key: &str) -> Response {
    let order = Order { amount: 1200, source: "tok_visa", note: key.to_owned() };
    Kind::HttpApi.response(&emulator.invoke(&Kind::HttpApi.payment(Some(key), &order)).await)
}

async fn items(deployment: &Deployment, table: &str) -> Vec<Item> {
    let scan = deployment.client().scan().table_name(table).consistent_read(true);
    let items = scan.into_paginator().items().send().collect::<Result<Vec<_>, _>>();
    items.await.expect("a table")
}

async fn put(deployment: &Deployment, table: &str, item: Item) {
    let put = deployment.client().put_item().table_name(table).set_item(Some(item));
    put.send().await.expect("a table");
}

/// Runs a block of the page in a folder with the file `paid.txt`, which has to succeed.
fn run(deployment: &Deployment, shell: &str, variables: &[(&str, &str)], paid: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique("restore"));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("paid.txt"), paid).expect("a file");
    let tools = deployment.command_line.parent().expect("a folder").to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([tools].into_iter().chain(std::env::split_paths(&path)));
    let output = Command::new("bash")
        .args(["-euc", shell])
        .current_dir(&folder)
        .env("PATH", path.expect("a path"))
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("AWS_ENDPOINT_URL_DYNAMODB", &deployment.endpoint)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    fs::remove_dir_all(folder).expect("a folder");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_lost_table_is_restored_by_the_commands_of_its_page() {
    let deployment = Deployment::load();
    let old = table(&deployment).await;
    let emulator = function(&deployment, &old).await;
    let before = pay(&emulator, "before").await;
    assert_eq!(before.status, 201, "{before:?}");

    // DynamoDB Local restores nothing, so the restored table is a copy of this moment.
    let restored = unique("restore");
    let idempotency = Idempotency::new(deployment.client(), &restored);
    idempotency.create_table().await.expect("a table");
    for item in items(&deployment, &old).await {
        put(&deployment, &restored, item).await;
    }
    // Its owner was at work then, and its payment is known.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(now.expect("after 1970").as_millis()).expect("a time");
    put(&deployment, &restored, abandoned("at work", now)).await;
    let later = pay(&emulator, "later").await;
    let paid = pay(&emulator, "paid").await;
    assert_eq!((later.status, paid.status), (201, 201));
    drop(emulator);
    // Only the business knows of this one.
    let pk = AttributeValue::S("payments#paid".to_owned());
    let delete = deployment.client().delete_item().table_name(&old).key("pk", pk);
    delete.send().await.expect("a table");

    let shell = block(OPERATE, "Protect later keys", "sh");
    let tables = [("TABLE", old.as_str()), ("RESTORED", restored.as_str())];
    let printed = run(&deployment, &shell, &tables, "paid\nat work\n");
    for said in ["1 COMPLETED", "2 keys are blocked (1 in place of a record)", "can be read"] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    assert!(printed.contains("0 operations are stuck"), "{printed}");

    let emulator = function(&deployment, &restored).await;
    pay(&emulator, "before").await.assert_replay_of(&before);
    pay(&emulator, "later").await.assert_replay_of(&later);
    for key in ["paid", "at work"] {
        pay(&emulator, key).await.assert_problem(422);
    }
    assert_eq!(pay(&emulator, "new").await.status, 201);
}

/// A record whose owner died two hours ago.
fn abandoned(key: &str, now: i64) -> Item {
    let number = |number: i64| AttributeValue::N(number.to_string());
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let item = [
        ("pk", text(&format!("payments#{key}"))),
        ("status", text("PENDING")),
        ("owner", text("0123456789abcdef0123456789abcdef")),
        ("attempt", number(1)),
        ("fingerprint", AttributeValue::B(Blob::new([1; 33]))),
        ("lease_expires_at", number(now - 7_200_000)),
        ("created_at", number(now - 7_230_000)),
        ("expires_at", number(now / 1000 + 86_400)),
        ("format", number(1)),
    ];
    item.map(|(name, value)| (name.to_owned(), value)).into_iter().collect::<HashMap<_, _>>()
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn many_stuck_keys_are_found_and_released_by_the_commands_of_their_page() {
    let deployment = Deployment::load();
    let table = table(&deployment).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(now.expect("after 1970").as_millis()).expect("a time");
    for number in 0..500 {
        put(&deployment, &table, abandoned(&format!("stuck-{number}"), now)).await;
    }
    let shell = block(OPERATE, "A key is stuck", "sh");
    let printed = run(&deployment, &shell, &[("IDEMPOTENCY_TABLE", &table)], "");
    assert!(printed.contains("500 operations are stuck"), "{printed}");
    assert!(printed.contains("500 released"), "{printed}");
    let released = AttributeValue::S("RELEASED".to_owned());
    let items = items(&deployment, &table).await;
    assert_eq!(items.iter().filter(|item| item["status"] == released).count(), 500);
    let emulator = function(&deployment, &table).await;
    assert_eq!(pay(&emulator, "stuck-7").await.status, 201);
}
