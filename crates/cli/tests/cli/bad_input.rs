//! Every command, on everything that can be wrong: one line that says what and what to do, an exit
//! code that is not 0, and nothing written.

use dynamodb_idempotency::TableSchema;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{Store, abandoned, ended, n, pending, program, run, s, with};

/// Each command that reads or writes records.
const COMMANDS: [&[&str]; 7] = [
    &["show", "payments", "k"],
    &["stuck"],
    &["stats"],
    &["release", "payments", "k", "--yes", "--force"],
    &["watch", "payments", "k"],
    &["block", "--scope", "payments", "k", "--yes"],
    &["release", "--stuck", "--yes"],
];

#[tokio::test]
async fn an_unknown_table() {
    let store = Store::without_table().await;
    for command in COMMANDS {
        let ended = store.run(command).await;
        let error = ended.error(1);
        assert!(error.contains(&store.table) && error.contains("create it"), "{error}");
    }
}

#[tokio::test]
async fn other_keys_than_the_schemas() {
    let store = Store::with_schema(TableSchema::default().partition_key("id")).await;
    store.put([("id".to_owned(), s("payments#k"))].into()).await;
    for command in [COMMANDS[0], COMMANDS[3], COMMANDS[4]] {
        let ended = store.run(command).await;
        assert!(ended.error(1).contains("TableSchema"), "{ended:?}");
    }
    let create = store.run(&["create-table"]).await;
    assert!(create.error(1).contains("not those of the TableSchema"), "{create:?}");
    assert_eq!(store.items().await.len(), 1);
}

#[tokio::test]
async fn no_credentials() {
    let store = Store::open().await;
    for command in COMMANDS {
        let target = ["--endpoint-url", &store.endpoint, "--table", &store.table];
        let mut program = program(&[&target[..], command].concat());
        program.env_remove("AWS_ACCESS_KEY_ID").env("AWS_CONFIG_FILE", "none");
        program.env("AWS_SHARED_CREDENTIALS_FILE", "none").env("HOME", "none");
        let ended = ended(&mut program).await;
        assert!(ended.error(1).contains("credentials"), "{ended:?}");
    }
}

/// The same precedence as in the AWS CLI.
#[tokio::test]
async fn a_profile_goes_before_credentials_in_the_environment() {
    let store = Store::open().await;
    for command in COMMANDS {
        let target = ["--endpoint-url", &store.endpoint, "--table", &store.table];
        let mut program = program(&[&target[..], &["--profile", "nope"], command].concat());
        program.env("AWS_CONFIG_FILE", "none").env("AWS_SHARED_CREDENTIALS_FILE", "none");
        let ended = ended(&mut program).await;
        assert!(ended.error(1).contains("credentials"), "{ended:?}");
    }
}

#[tokio::test]
async fn no_region() {
    for command in COMMANDS {
        let mut program = program(&[&["--table", "table"][..], command].concat());
        program.env_remove("AWS_REGION").env("AWS_CONFIG_FILE", "none");
        program.env("AWS_SHARED_CREDENTIALS_FILE", "none");
        let ended = ended(&mut program).await;
        assert!(ended.code == 2 && ended.err.contains("--region"), "{ended:?}");
    }
}

/// On a developer's machine there is no Lambda function whose role could be changed.
#[tokio::test]
async fn a_hint_depends_on_where_the_program_runs() {
    let store = Store::open().await;
    let target = ["--endpoint-url", &store.endpoint, "--table", &store.table, "show", "a", "b"];
    for (function, hint) in [(None, "aws sso login"), (Some("pay"), "give the function a role")] {
        let mut program = program(&target);
        program.env_remove("AWS_ACCESS_KEY_ID").env("AWS_CONFIG_FILE", "none");
        program.env("AWS_SHARED_CREDENTIALS_FILE", "none").env("HOME", "none");
        program.env_remove("AWS_LAMBDA_FUNCTION_NAME");
        if let Some(name) = function {
            program.env("AWS_LAMBDA_FUNCTION_NAME", name);
        }
        let ended = ended(&mut program).await;
        assert!(ended.error(1).contains(hint), "{hint}: {ended:?}");
    }
}

#[tokio::test]
async fn create_table_says_whether_it_has() {
    let store = Store::without_table().await;
    for said in ["was created", "exists already"] {
        let ended = store.run(&["create-table"]).await;
        assert!(ended.out.contains(said) && ended.out.contains(&store.table), "{ended:?}");
    }
    assert_eq!(store.json(&["create-table"]).await["created"], false);
    assert_eq!(Store::without_table().await.json(&["create-table"]).await["created"], true);
}

#[tokio::test]
async fn an_endpoint_without_a_scheme() {
    for command in COMMANDS {
        let target = ["--endpoint-url", "127.0.0.1:8000", "--table", "table"];
        let ended = run(&[&target[..], command].concat()).await;
        assert!(ended.code == 2 && ended.err.contains("http://"), "{ended:?}");
    }
}

#[tokio::test]
async fn no_permission() {
    let endpoint = denying().await;
    for command in COMMANDS {
        let ended =
            run(&[&["--endpoint-url", &endpoint, "--table", "table"][..], command].concat()).await;
        let error = ended.error(1);
        assert!(error.contains("table `table`") && error.contains("dynamodb:"), "{error}");
    }
    let doctor =
        run(&["--endpoint-url", &endpoint, "--table", "table", "doctor", "--scope", "p"]).await;
    assert_eq!((doctor.code, doctor.err.as_str()), (1, ""), "{doctor:?}");
    for action in ["DescribeTable", "PutItem", "GetItem", "UpdateItem"] {
        assert!(doctor.out.contains(&format!("dynamodb:{action}")), "{action}: {}", doctor.out);
    }
}

/// A DynamoDB that denies everything: no engine for tests knows permissions.
async fn denying() -> String {
    const BODY: &str =
        r#"{"__type":"com.amazon.coral.service#AccessDeniedException","message":"not authorized"}"#;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![0; 64 * 1024];
                // Requests of these tests fit into one segment.
                while stream.read(&mut request).await.is_ok_and(|bytes| bytes > 0) {
                    let answer = format!(
                        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/x-amz-json-1.0\r\n\
                         content-length: {}\r\n\r\n{BODY}",
                        BODY.len()
                    );
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    endpoint
}

/// As by the SDK's own client.
#[tokio::test]
async fn what_a_proxy_stands_before_is_asked_through_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let mut program = program(&["--table", "table", "--region", "eu-west-3", "stats"]);
    program.env("HTTPS_PROXY", proxy);
    let asked = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 1024];
        let bytes = stream.read(&mut request).await.unwrap();
        String::from_utf8_lossy(&request[..bytes]).into_owned()
    };
    let asked = tokio::select! {
        asked = asked => asked,
        ended = ended(&mut program) => panic!("the proxy was not asked: {ended:?}"),
    };
    assert!(asked.starts_with("CONNECT dynamodb.eu-west-3.amazonaws.com:443 "), "{asked}");
}

#[tokio::test]
async fn an_unreachable_endpoint_is_an_error() {
    for command in COMMANDS {
        let target = ["--endpoint-url", "http://127.0.0.1:9", "--table", "table"];
        let ended = run(&[&target[..], command].concat()).await;
        let says = "could not be reached at http://127.0.0.1:9";
        assert!(ended.error(6).contains(says), "{ended:?}");
    }
}

#[tokio::test]
async fn a_record_of_an_unknown_format_is_never_released() {
    let store = Store::open().await;
    for item in [
        with(abandoned("payments#k", 60), "format", n(2)),
        with(abandoned("payments#k", 60), "status", s("PAUSED")),
        [("pk".to_owned(), s("payments#k"))].into(),
    ] {
        store.put(item.clone()).await;
        for command in [COMMANDS[0], COMMANDS[3], COMMANDS[4]] {
            let ended = store.run(command).await;
            assert!(!ended.error(1).is_empty());
            assert_eq!(store.item("payments#k").await.as_ref(), Some(&item));
        }
    }
    store.put(with(pending("payments#k"), "format", n(2))).await;
    let shown = store.run(COMMANDS[0]).await;
    assert!(shown.error(1).contains("format 2"), "{shown:?}");
}

#[tokio::test]
async fn a_wrong_command_line_is_code_2() {
    for args in [
        &["show", "payments", "k"][..],
        &["--table", "", "stats"],
        &["--table", "table", "show", "payments"],
        &["--table", "table", "stuck", "--older-than", "10"],
        &["--table", "table", "stuck", "--limit", "0"],
        &["--table", "table", "stuck", "--resume", "4"],
        &["--table", "table", "stats", "--parts", "0"],
        &["--table", "table", "find", "--hash", "84732e"],
        &["--table", "table", "--composite-key", "PK", "stats"],
        &["--table", "table", "unstick"],
        &["--table", "table", "stats", "--page-size", "0"],
        &["--table", "table", "--request-timeout", "0s", "stats"],
        &["copy", "--from", "table", "--to", "t", "--yes"],
        &["copy", "--from", "table"],
        &["--table", "table", "block", "--scope", "a#b", "k", "--yes"],
        &["--table", "table", "block", "k", "--yes"],
    ] {
        let ended = run(args).await;
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
        assert!(ended.err.starts_with("error: "), "{ended:?}");
        // As a program's document, too.
        let ended = run(&[&["--json"], args].concat()).await;
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
        assert_eq!(ended.json_error()["kind"], "usage", "{ended:?}");
    }
    let unconfirmed = run(&["--table", "table", "--json", "release", "payments", "k"]).await;
    assert_eq!(unconfirmed.json_error()["exit_code"], 2, "{unconfirmed:?}");
}

#[tokio::test]
async fn programs_get_whole_sentences() {
    for (args, expected) in [
        (
            &["--table", "table", "show", "payments"][..],
            "the following required arguments were not provided: <KEY>",
        ),
        (
            &["--table", "table", "stast"],
            "unrecognized subcommand 'stast' tip: a similar subcommand exists: 'stats'",
        ),
    ] {
        let ended = run(&[&["--json"], args].concat()).await;
        assert_eq!(ended.json_error()["message"], expected, "{ended:?}");
    }
}

/// For `-1` clap says `-- -1`, which does not work before options, and names half of `-1a`.
#[tokio::test]
async fn a_key_that_begins_with_a_dash_is_explained() {
    for command in ["show", "watch", "release"] {
        let ended = run(&["--table", "table", command, "payments", "-1a", "--sha256"]).await;
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains("follows `--`, after all options: `-- SCOPE KEY`"), "{ended:?}");
        assert!(!ended.err.contains("'-- -"), "{ended:?}");
    }
    let store = Store::open().await;
    store.put(abandoned("payments#-1a", 60)).await;
    let shown = store.run(&["show", "--json", "--", "payments", "-1a"]).await;
    assert_eq!(shown.code, 0, "{shown:?}");
}

#[tokio::test]
async fn what_is_no_tables_name_is_called_that() {
    for name in ["t", "pay ments", "payments/dev", "zahlungen-für-alle", "arn:aws:dynamodb:x"] {
        let ended = run(&["--table", name, "show", "payments", "k"]).await;
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains(&format!("`{name}` is no table's name")), "{ended:?}");
    }
    // An ARN is a name too, and is asked for.
    let arn = "arn:aws:dynamodb:us-east-1:123456789012:table/payments";
    let target = ["--endpoint-url", "http://127.0.0.1:9", "--table", arn];
    let ended = run(&[&target[..], &["show", "payments", "k"]].concat()).await;
    assert!(ended.error(6).contains("could not be reached"), "{ended:?}");
}

#[tokio::test]
async fn an_invalid_scope_or_key_is_reported() {
    let store = Store::open().await;
    for (scope, key, message) in [
        ("payments#1", "k", "is not an encoded scope"),
        ("", "k", "is not an encoded scope"),
        ("100%", "k", "is not an encoded scope"),
        ("payments", "", "key is empty"),
        ("payments", &"k".repeat(3_000), "2048"),
    ] {
        let ended = store.run(&["show", scope, key]).await;
        assert!(ended.error(2).contains(message), "{ended:?}");
    }
    let doctor = store.run(&["doctor", "--scope", "a#b"]).await;
    assert!(doctor.error(2).contains("is not an encoded scope"), "{doctor:?}");
}
