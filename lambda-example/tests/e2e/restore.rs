//! The runbooks of `docs/guide/operate.md`, by its commands: a lost table, deleted and damaged records, and many
//! stuck keys.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, BillingMode};
use dynamodb_idempotency::Idempotency;
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard};

use crate::deployment::{Deployment, Item};
use crate::dynamodb::unique;
use crate::emulator::Emulator;
use crate::event::{Kind, Order, Response};
use crate::page::{block, blocks};

/// Its heading has a comma.
const ROLL_OUT: &str = "Roll out, and back";
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

/// A payment that is made.
async fn paid(emulator: &Emulator, key: &str) -> Response {
    let response = pay(emulator, key).await;
    assert_eq!(response.status, 201, "{response:?}");
    response
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

/// A shell of a user of AWS who has the programs of the pages.
struct Shell {
    deployment: Deployment,
    /// The id and the secret of the access key.
    key: [String; 2],
}

impl Shell {
    fn new(deployment: &Deployment) -> Self {
        Self { deployment: deployment.clone(), key: ["local", "local"].map(str::to_owned) }
    }

    /// Runs commands in a folder with the file `paid.txt`. Returns whether they succeeded, and what they printed.
    fn try_run(&self, shell: &str, variables: &[(&str, &str)], paid: &str) -> (bool, String) {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique("restore"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("paid.txt"), paid).expect("a file");
        // A zip archive without a file, for the code of a function that is not run.
        let archive = [b"PK\x05\x06".as_slice(), &[0; 18]].concat();
        fs::write(folder.join("function.zip"), archive).expect("a file");
        let tools = self.deployment.command_line.parent().expect("a folder").to_owned();
        let tools = [tools, self.deployment.moto.programs.clone()];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(tools.into_iter().chain(std::env::split_paths(&path)));
        let [id, secret] = &self.key;
        let output = Command::new("bash")
            .args(["-euc", shell])
            .current_dir(&folder)
            .env("PATH", path.expect("a path"))
            .env("AWS_REGION", "us-east-1")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", id)
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("AWS_ENDPOINT_URL", &self.deployment.endpoint)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        fs::remove_dir_all(folder).expect("a folder");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = text(&output.stdout) + &text(&output.stderr);
        (output.status.success(), printed)
    }

    /// Runs commands that have to succeed.
    fn run(&self, shell: &str, variables: &[(&str, &str)], paid: &str) -> String {
        let (is_done, printed) = self.try_run(shell, variables, paid);
        assert!(is_done, "{shell}\n{printed}");
        printed
    }
}

/// An account of AWS, which moto emulates, for one test at a time: it decides for all requests whether their policies
/// count.
struct Account {
    administrator: Shell,
    /// May do what the template's restorer role may do, on any resource: moto does not look at resources.
    restorer: Shell,
    _alone: MutexGuard<'static, ()>,
}

impl Account {
    async fn open(deployment: &Deployment) -> Self {
        static ALONE: Mutex<()> = Mutex::const_new(());
        let alone = ALONE.lock().await;
        let moto = &deployment.moto;
        let deployment = deployment.at(&moto.endpoint);
        let administrator = Shell::new(&deployment);
        let policy = json!({"Version": "2012-10-17", "Statement": moto.restorer}).to_string();
        let user = unique("restorer");
        let keys = "aws iam create-user --user-name $RESTORER > /dev/null
            aws iam put-user-policy --user-name $RESTORER --policy-name restore --policy-document \"$POLICY\"
            aws iam create-access-key --user-name $RESTORER --output text \
              --query 'AccessKey.[AccessKeyId, SecretAccessKey]'";
        let key = administrator.run(keys, &[("RESTORER", &user), ("POLICY", &policy)], "");
        let key: Vec<_> = key.split_whitespace().map(str::to_owned).collect();
        let key = key.try_into().expect("an id and a secret");
        let restorer = Shell { deployment, key };
        Self { administrator, restorer, _alone: alone }
    }

    fn deployment(&self) -> &Deployment {
        &self.administrator.deployment
    }

    /// Runs commands as the restorer, whose policy counts.
    fn as_restorer(&self, shell: &str, variables: &[(&str, &str)], paid: &str) -> (bool, String) {
        let policies_count_after = |requests: &str| {
            let set = "curl -sf -H content-type:text/plain --data $AFTER $AWS_ENDPOINT_URL/moto-api/reset-auth";
            self.administrator.run(set, &[("AFTER", requests)], "")
        };
        policies_count_after("0");
        let result = self.restorer.try_run(shell, variables, paid);
        policies_count_after("inf");
        result
    }

    fn restore(&self, shell: &str, variables: &[(&str, &str)], paid: &str) -> String {
        let (is_done, printed) = self.as_restorer(shell, variables, paid);
        assert!(is_done, "{shell}\n{printed}");
        printed
    }

    /// The tables that the function uses, the one of idempotency with point-in-time recovery.
    async fn tables(&self) -> String {
        let local = Deployment::load();
        let payments = local.table("PaymentsTable");
        let described = local.client().describe_table().table_name(payments).send().await;
        let described = described.expect("a table").table.expect("a table");
        let create = self.deployment().client().create_table().table_name(payments);
        let created = create
            .set_attribute_definitions(described.attribute_definitions)
            .set_key_schema(described.key_schema)
            .billing_mode(BillingMode::PayPerRequest)
            .send()
            .await;
        // An earlier test may have created it.
        if let Err(error) = created {
            assert!(error.into_service_error().is_resource_in_use_exception());
        }
        let table = table(self.deployment()).await;
        let recovery = "aws dynamodb update-continuous-backups --table-name $TABLE \
            --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true";
        self.administrator.run(recovery, &[("TABLE", &table)], "");
        table
    }

    /// Runs the commands of a restore. Returns the name of the restored table.
    fn restored(&self, shell: &str, variables: &[(&str, &str)]) -> String {
        let printed = self.restore(&format!("{shell}echo; echo \"$RESTORED\""), variables, "");
        let restored = printed.trim_end().lines().last().expect("a name").to_owned();
        // moto restores every setting but this one.
        let billing =
            "aws dynamodb update-table --table-name $RESTORED --billing-mode PAY_PER_REQUEST";
        self.administrator.run(billing, &[("RESTORED", &restored)], "");
        restored
    }

    /// Runs the commands of a restore to a time. moto restores what the table has now, not what it had at another time.
    fn restored_to_now(&self, shell: &str, table: &str) -> String {
        let time = self.administrator.run("date -u +%Y-%m-%dT%H:%M:%SZ", &[], "");
        self.restored(shell, &[("TABLE", table), ("T", time.trim())])
    }

    /// Makes a function, which is not run, and its version 1. Returns its name.
    fn lambda_function(&self) -> String {
        let name = unique("payments");
        let create = "role=$(aws iam create-role --role-name $FUNCTION --assume-role-policy-document '{}' \
              --output text --query Role.Arn)
            aws lambda create-function --function-name $FUNCTION --role $role --runtime provided.al2023 \
              --handler bootstrap --zip-file fileb://function.zip --publish";
        self.administrator.run(create, &[("FUNCTION", &name)], "");
        name
    }
}

/// The commands of *Restore a copy*: to stop the writers, to restore a table, to restore a deleted one, and to set what a
/// restore leaves out.
fn steps_of_a_restore() -> [String; 4] {
    let steps = blocks(OPERATE, "Restore a copy", "sh");
    steps.try_into().expect("four steps")
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_table_goes_back_to_a_time_by_the_commands_of_its_page() {
    let account = Account::open(&Deployment::load()).await;
    let deployment = account.deployment();
    let old = account.tables().await;
    let emulator = function(deployment, &old).await;
    let before = paid(&emulator, "before").await;
    // Its owner was at work at the time, and its payment is known.
    put(deployment, &old, abandoned("at work")).await;

    let [stop, restore, _, set] = steps_of_a_restore();
    let function_name = account.lambda_function();
    let functions = [("FUNCTIONS", function_name.as_str())];
    let (is_allowed, denied) = account.as_restorer(&stop, &functions, "");
    assert!(!is_allowed && denied.contains("AccessDenied"), "{denied}");
    account.administrator.run(&stop, &functions, "");
    let concurrency =
        "aws lambda get-function-concurrency --function-name $FUNCTIONS --output text";
    assert_eq!(account.administrator.run(concurrency, &functions, "").trim(), "0");
    let restored = account.restored_to_now(&restore, &old);

    // After that time:
    let later = paid(&emulator, "later").await;
    paid(&emulator, "paid").await;
    drop(emulator);
    // Only the business knows of this one.
    let pk = AttributeValue::S("payments#paid".to_owned());
    let delete = deployment.client().delete_item().table_name(&old).key("pk", pk);
    delete.send().await.expect("a table");

    let tables = [("TABLE", old.as_str()), ("RESTORED", restored.as_str())];
    let doctor = r#"idempotency --table "$RESTORED" doctor --strict --scope payments"#;
    assert!(set.contains(doctor), "{set}");
    let (is_whole, listed) = account.as_restorer(doctor, &tables, "");
    assert!(!is_whole, "{listed}");
    for missing in ["deletion protection", "backups", "time to live"] {
        assert!(listed.contains(&format!("warning  {missing}")), "{missing}: {listed}");
    }
    account.restore(&set, &tables, "");
    let protect = block(OPERATE, "Protect later keys", "sh");
    let printed = account.restore(&protect, &tables, "paid\nat work\n");
    for said in ["1 COMPLETED", "2 keys are blocked (1 in place of a record)", "can be read"] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    assert!(printed.contains("0 operations are stuck"), "{printed}");

    let emulator = function(deployment, &restored).await;
    pay(&emulator, "before").await.assert_replay_of(&before);
    pay(&emulator, "later").await.assert_replay_of(&later);
    for key in ["paid", "at work"] {
        pay(&emulator, key).await.assert_problem(422);
    }
    paid(&emulator, "new").await;
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_deleted_table_is_restored_by_the_commands_of_its_page() {
    let account = Account::open(&Deployment::load()).await;
    let deployment = account.deployment();
    let old = account.tables().await;
    let emulator = function(deployment, &old).await;
    let before = paid(&emulator, "before").await;
    drop(emulator);
    // AWS makes this backup itself when a table with point-in-time recovery is deleted; moto makes none.
    let delete = "aws dynamodb create-backup --table-name $TABLE --backup-name last \
          --output text --query BackupDetails.BackupArn
        aws dynamodb delete-table --table-name $TABLE > /dev/null";
    let backup = account.administrator.run(delete, &[("TABLE", &old)], "");

    let [_, _, restore, set] = steps_of_a_restore();
    let restored = account.restored(&restore, &[("TABLE", &old), ("BACKUP", backup.trim())]);
    account.restore(&set, &[("TABLE", &old), ("RESTORED", &restored)], "");
    let emulator = function(deployment, &restored).await;
    pay(&emulator, "before").await.assert_replay_of(&before);
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn deleted_and_damaged_records_come_back_by_the_commands_of_their_page() {
    let account = Account::open(&Deployment::load()).await;
    let deployment = account.deployment();
    let table = account.tables().await;
    let emulator = function(deployment, &table).await;
    let deleted = paid(&emulator, "order-41").await;
    let damaged = paid(&emulator, "order-42").await;
    // `copy` takes a table of damaged records alone for that of another program.
    let whole = paid(&emulator, "order-43").await;
    let [_, restore, _, _] = steps_of_a_restore();
    let restored = account.restored_to_now(&restore, &table);

    let pk = |key: &str| AttributeValue::S(format!("payments#{key}"));
    let delete = deployment.client().delete_item().table_name(&table).key("pk", pk("order-41"));
    delete.send().await.expect("a table");
    put(deployment, &table, HashMap::from([("pk".to_owned(), pk("order-42"))])).await;
    assert_ne!(pay(&emulator, "order-42").await.status, 201);
    let shell = block(OPERATE, "Copy back", "sh");
    let (copy, delete) = shell.split_once('\n').expect("two commands");
    let tables = [("TABLE", table.as_str()), ("RESTORED", restored.as_str())];
    let (is_done, printed) = account.as_restorer(copy, &tables, "");
    assert!(!is_done && printed.contains("order-42"), "{printed}");
    account.restore(delete, &tables, "");
    account.restore(copy, &tables, "");
    pay(&emulator, "order-41").await.assert_replay_of(&deleted);
    pay(&emulator, "order-42").await.assert_replay_of(&damaged);
    pay(&emulator, "order-43").await.assert_replay_of(&whole);
}

/// A record whose owner died two hours ago.
fn abandoned(key: &str) -> Item {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(now.expect("after 1970").as_millis()).expect("a time");
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
    for number in 0..500 {
        put(&deployment, &table, abandoned(&format!("stuck-{number}"))).await;
    }
    let shell = block(OPERATE, "A key is stuck", "sh");
    let printed = Shell::new(&deployment).run(&shell, &[("IDEMPOTENCY_TABLE", &table)], "");
    assert!(printed.contains("500 operations are stuck"), "{printed}");
    assert!(printed.contains("500 released"), "{printed}");
    let released = AttributeValue::S("RELEASED".to_owned());
    let items = items(&deployment, &table).await;
    assert_eq!(items.iter().filter(|item| item["status"] == released).count(), 500);
    let emulator = function(&deployment, &table).await;
    assert_eq!(pay(&emulator, "stuck-7").await.status, 201);
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask e2e"]
async fn a_version_is_rolled_back_by_the_command_of_its_page() {
    let account = Account::open(&Deployment::load()).await;
    let function = account.lambda_function();
    let variables = [("FUNCTION", function.as_str()), ("OLD", "1")];
    let alias = "aws lambda create-alias --function-name $FUNCTION --name live \
        --function-version '$LATEST'";
    account.administrator.run(alias, &variables, "");
    account.administrator.run(&block(OPERATE, ROLL_OUT, "sh"), &variables, "");
    let version = "aws lambda get-alias --function-name $FUNCTION --name live --output text \
        --query FunctionVersion";
    assert_eq!(account.administrator.run(version, &variables, "").trim(), "1");
}
