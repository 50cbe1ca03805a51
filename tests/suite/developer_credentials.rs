//! The credentials of developers (feature `developer-credentials`), as `from_env` finds them in a profile.
//!
//! The environment belongs to the process, so each case is this test binary, started again with one
//! ignored test. That the error names the feature where it is missing, is tested by `cargo xtask e2e`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use dynamodb_idempotency::Idempotency;
use tokio::process::Command;

use crate::support::gate::patiently;
use crate::support::{Charging, Runs, Store, charge};

/// Calls with the credentials of its environment, and prints the result.
#[tokio::test]
#[ignore = "the process that the other tests start"]
async fn a_developers_program() {
    let idempotency = Idempotency::from_env().await.expect("a table is named");
    let charged = charge(idempotency.calling("developer"), &Runs::default()).await;
    println!("RESULT {charged:?}");
}

/// What the program prints whose profile has these settings.
async fn printed(folder: &Path, settings: &str) -> (String, Store) {
    let store = Store::open_in_real_time().await;
    let config = folder.join("config");
    fs::write(&config, format!("[profile developer]\n{settings}")).expect("a file");
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args([
        "--exact",
        "--ignored",
        "--nocapture",
        "developer_credentials::a_developers_program",
    ]);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] {
        command.env_remove(name);
    }
    command.envs([
        ("AWS_PROFILE", "developer"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_ENDPOINT_URL_DYNAMODB", store.endpoint()),
        ("IDEMPOTENCY_TABLE", store.table()),
    ]);
    command.env("AWS_CONFIG_FILE", &config).env("AWS_SHARED_CREDENTIALS_FILE", "none");
    command.env("HOME", folder).kill_on_drop(true);
    let output = patiently("the end of a process", command.output()).await.expect("it starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}");
    (printed, store)
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("developer-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[tokio::test]
async fn a_profile_with_a_credential_process_signs_requests() {
    let folder = folder("process");
    let script = folder.join("credentials");
    // The keys of the store: DynamoDB Local keeps the tables of each access key apart.
    let keys = r#"{"Version": 1, "AccessKeyId": "test", "SecretAccessKey": "test"}"#;
    fs::write(&script, format!("#!/bin/sh\necho '{keys}'\n")).expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let settings = format!("credential_process = {}\n", script.display());
    let (printed, store) = printed(&folder, &settings).await;
    assert!(printed.contains("RESULT Ok("), "{printed}");
    assert_eq!(store.record("developer#k").await["status"].as_s().unwrap(), "COMPLETED");
    fs::remove_dir_all(folder).expect("it is ours");
}

#[tokio::test]
async fn an_sso_profile_without_a_token_is_an_error_that_says_how_to_sign_in() {
    let folder = folder("sso");
    let settings = "sso_session = corp\nsso_account_id = 123456789012\nsso_role_name = dev\n\
                    [sso-session corp]\nsso_region = us-east-1\n\
                    sso_start_url = https://example.awsapps.com/start\n";
    let (printed, store) = printed(&folder, settings).await;
    assert!(printed.contains("RESULT Err("), "{printed}");
    assert!(printed.contains("sign in (`aws sso login`)"), "{printed}");
    assert!(store.item("developer#k").await.is_none());
    fs::remove_dir_all(folder).expect("it is ours");
}
