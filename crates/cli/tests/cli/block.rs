//! `idempotency block`, and blockers in all other commands

use std::process::Stdio;

use dynamodb_idempotency::signals::hashed_key;
use dynamodb_idempotency::{ErrorKind, RunError};
use serde_json::json;

#[cfg(unix)]
use crate::support::interrupted;
use crate::support::{
    Store, abandoned, blocker, completed, ended, map, n, now, pending, program, s, with,
};

/// No request with this key runs.
async fn is_refused(store: &Store, key: &str) -> bool {
    let idempotency = store.builder().build().unwrap();
    let operation = idempotency.operation("payments").key(key).payload(&1200);
    let ran = operation.run(async |_| Ok::<_, std::io::Error>("re_1".to_owned())).await;
    matches!(ran, Err(RunError::Idempotency(error)) if error.kind() == ErrorKind::Mismatch)
}

#[tokio::test]
async fn a_blocked_key_runs_no_request() {
    let store = Store::open().await;
    let done = store.json(&["block", "--scope", "payments", "a", "b", "--yes"]).await;
    assert_eq!((&done["blocked"], &done["existing"]), (&json!(2), &json!([])));
    for key in ["a", "b"] {
        assert!(is_refused(&store, key).await);
        let item = store.item(&format!("payments#{key}")).await.unwrap();
        let expires: i64 = item["expires_at"].as_n().unwrap().parse().unwrap();
        assert!((expires - now() / 1000 - 7 * 86_400).abs() < 600, "{expires}");
    }
    // What exists says what it is, and stays.
    store.put(completed("payments#done")).await;
    let again = store.run(&["block", "--scope", "payments", "a", "done", "--yes"]).await;
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.out.contains("`payments#a` has a record: PENDING, blocked"), "{again:?}");
    assert!(again.out.contains("`payments#done` has a record: COMPLETED"), "{again:?}");
    assert!(again.out.contains("0 keys are blocked, 2 had a record"), "{again:?}");
}

#[tokio::test]
async fn a_block_with_a_reason_leaves_audit_lines() {
    let store = Store::open().await;
    store.put(completed("payments#done")).await;
    let block = ["block", "--scope", "payments", "done", "k", "--yes", "--reason", "ticket 7"];
    let blocked = store.run(&block).await;
    let lines = blocked.err.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<_> = lines
        .map(|line: serde_json::Value| {
            assert_eq!((&line["action"], &line["reason"]), (&json!("block"), &json!("ticket 7")));
            assert_eq!((&line["table"], &line["scope"]), (&json!(store.table), &json!("payments")));
            let text = |name: &str| line[name].as_str().unwrap().to_owned();
            (text("key_hash"), text("outcome"))
        })
        .collect();
    lines.sort();
    let line = |key: &str, outcome: &str| (hashed_key(&format!("payments#{key}")), outcome.into());
    let mut expected = [
        line("done", "intended"),
        line("done", "exists"),
        line("k", "intended"),
        line("k", "blocked"),
    ];
    expected.sort();
    assert_eq!(lines, expected);

    let full = [&block[..], &["other", "--audit-log", "/dev/full"]].concat();
    let failed = store.run(&full).await;
    assert!(failed.error(1).contains("nothing was written"), "{failed:?}");
    assert_eq!(store.item("payments#other").await, None);
}

#[tokio::test]
async fn a_record_with_which_a_request_runs_is_reported_and_stays() {
    let store = Store::open().await;
    let mut failed = with(completed("payments#k"), "status", s("FAILED"));
    failed.remove("response");
    let released = with(failed.clone(), "status", s("RELEASED"));
    for item in [abandoned("payments#k", 60), failed, released] {
        store.put(item.clone()).await;
        let refused = store.run(&["block", "--scope", "payments", "k", "other", "--yes"]).await;
        assert_eq!(refused.code, 4, "{refused:?}");
        assert!(refused.err.contains("1 key has a record with which a request can run"));
        assert!(refused.err.contains("--force blocks it"), "{refused:?}");
        assert_eq!(store.item("payments#k").await, Some(item));
        assert!(is_refused(&store, "other").await);
    }
    let newer = with(completed("payments#k"), "format", n(9));
    store.put(newer.clone()).await;
    let refused = store.run(&["block", "--scope", "payments", "k", "--yes"]).await;
    assert!(refused.code == 1 && refused.err.contains("format 9"), "{refused:?}");
    assert_eq!(store.item("payments#k").await, Some(newer));
}

#[tokio::test]
async fn a_forced_block_replaces_a_record_with_which_a_request_runs() {
    let store = Store::open().await;
    let mut failed = with(completed("payments#failed"), "status", s("FAILED"));
    failed.remove("response");
    let released = with(with(failed.clone(), "status", s("RELEASED")), "pk", s("payments#freed"));
    let stepped = with(abandoned("payments#steps", 60), "steps", map(&[("reserve", s("1"))]));
    let stuck = with(abandoned("payments#stuck", 60), "attempt", n(3));
    for item in [failed, released, stepped, stuck] {
        store.put(item).await;
    }
    let keys = ["failed", "freed", "steps", "stuck", "new"];
    let block = [&["block", "--scope", "payments", "--yes", "--force"], &keys[..]].concat();
    let done = store.json(&block).await;
    assert_eq!((&done["blocked"], &done["existing"]), (&json!(5), &json!([])), "{done}");
    assert_eq!(done["replaced"].as_array().map(Vec::len), Some(4), "{done}");
    for key in keys {
        assert!(is_refused(&store, key).await, "{key}");
    }
    let blocked = store.item("payments#stuck").await.unwrap();
    assert_eq!((&blocked["attempt"], blocked.contains_key("steps")), (&n(3), false));

    // What no request runs with stays, and what runs.
    let (live, done) = (pending("payments#live"), completed("payments#done"));
    for item in [&live, &done] {
        store.put(item.clone()).await;
    }
    let block = ["block", "--scope", "payments", "--yes", "--force", "live", "done", "new"];
    let refused = store.run(&block).await;
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("wait for its lease"), "{refused:?}");
    assert!(refused.out.contains("0 keys are blocked, 3 had a record"), "{refused:?}");
    assert_eq!(store.item("payments#live").await, Some(live));
    assert_eq!(store.item("payments#done").await, Some(done));
}

/// The command that `show` prints for an abandoned operation.
#[cfg(unix)]
#[tokio::test]
async fn show_names_the_command_that_blocks_an_abandoned_key() {
    let store = Store::open().await;
    store.put(abandoned("payments#-1 a", 60)).await;
    let shown = store.run(&["show", "payments", "--", "-1 a"]).await.out;
    let (_, command) = shown.split_once("if it has: ").expect("a command");
    let (command, _) = command.split_once("; ").expect("an end");
    let blocked = crate::support::pasted(&format!("{} --yes", command.trim())).await;
    // Behind `--`, the option is a key too.
    assert_eq!(blocked.code, 4, "{blocked:?}");
    let command = command.replace("block ", "block --yes ");
    let blocked = crate::support::pasted(command.trim()).await;
    assert_eq!(blocked.code, 0, "{blocked:?}");
    assert!(is_refused(&store, "-1 a").await);
}

#[tokio::test]
async fn white_space_around_a_key_of_standard_input_is_refused() {
    let store = Store::open().await;
    let file = std::env::temp_dir().join(crate::support::unique());
    for typed in ["paid-1\n  paid-2\n", "paid-1\npaid-2 \n", "paid-1\npaid-2\t\r\n", "paid-1\n \n"]
    {
        std::fs::write(&file, typed).unwrap();
        let target = ["--endpoint-url", &store.endpoint, "--table", &store.table];
        let block = ["block", "--scope", "payments", "--yes"];
        let mut piped = program(&[&target[..], &block].concat());
        let refused = ended(piped.stdin(Stdio::from(std::fs::File::open(&file).unwrap()))).await;
        assert!(refused.error(2).contains("line 2 of standard input"), "{refused:?}");
    }
    std::fs::remove_file(file).unwrap();
    assert_eq!(store.items().await, []);
}

/// It counts as absent, and DynamoDB deletes it some time later.
#[tokio::test]
async fn a_record_past_its_retention_is_replaced() {
    let store = Store::open().await;
    store.put(with(completed("payments#k"), "expires_at", n(now() / 1000 - 5))).await;
    let done = store.json(&["block", "--scope", "payments", "k", "--yes", "--for", "1h"]).await;
    assert_eq!(done["blocked"], 1);
    assert!(is_refused(&store, "k").await);
}

#[tokio::test]
async fn keys_come_from_standard_input_and_tenants_from_their_option() {
    let store = Store::open().await;
    let file = std::env::temp_dir().join(crate::support::unique());
    std::fs::write(&file, "order 1\n\n-2\r\n").unwrap();
    let target = ["--endpoint-url", &store.endpoint, "--table", &store.table];
    let block = ["block", "--scope", "payments", "--tenant", "acme"];
    let from_file = async |args: &[&str]| {
        let mut piped = program(&[&target[..], &block, args].concat());
        ended(piped.stdin(Stdio::from(std::fs::File::open(&file).unwrap()))).await
    };
    // A pipe cannot be asked.
    assert!(from_file(&[]).await.error(4).contains("--yes"));
    assert_eq!(from_file(&["--json"]).await.json_error()["kind"], "usage");
    assert_eq!(store.items().await, []);
    let done = from_file(&["--yes"]).await;
    assert_eq!(done.code, 0, "{done:?}");
    for key in ["order 1", "-2"] {
        let shown = store.run(&["show", "payments", "--tenant", "acme", "--", key]).await;
        assert!(shown.out.contains("blocked by an operator"), "{shown:?}");
    }
    std::fs::remove_file(file).unwrap();
    let none = store.run(&["block", "--scope", "payments", "--yes"]).await;
    assert!(none.error(2).contains("no key on standard input"), "{none:?}");
    let never = store.run(&["block", "--scope", "payments", "k", "--yes", "--for", "0s"]).await;
    assert_eq!(never.code, 2, "{never:?}");
}

/// By their fingerprint alone: this one has the owner that an earlier page had.
#[tokio::test]
async fn a_blocker_is_not_stuck_and_not_released_without_force() {
    let store = Store::open().await;
    let item = with(blocker("payments#k"), "owner", s("00000000000000000000000000000000"));
    store.put(item.clone()).await;
    let stuck = store.json(&["stuck"]).await;
    assert_eq!(stuck["stuck"], json!([]), "{stuck}");
    let stats = store.json(&["stats"]).await;
    assert_eq!(stats["operations"]["payments"]["blocked"], 1, "{stats}");
    assert_eq!(stats["operations"]["payments"]["abandoned"], 0, "{stats}");

    let shown = store.run(&["show", "payments", "k"]).await.out;
    assert!(shown.contains("every request is a mismatch until "), "{shown}");
    assert!(!shown.contains("takes it over"), "{shown}");
    let json = store.json(&["show", "payments", "k"]).await;
    assert_eq!((&json["dangers"], &json["is_blocked"]), (&json!(["blocked"]), &json!(true)));
    let watched = store.run(&["watch", "payments", "k"]).await;
    assert_eq!(watched.code, 0, "{watched:?}");

    let refused = store.run(&["release", "payments", "k", "--yes"]).await;
    assert!(refused.error(4).contains("blocked because its effect has happened"), "{refused:?}");
    let many = store.run(&["release", "--stuck", "--yes"]).await;
    assert!(many.code == 0 && many.out.contains("nothing to release"), "{many:?}");
    assert_eq!(store.item("payments#k").await, Some(item));
    let forced = store.run(&["release", "payments", "k", "--yes", "--force"]).await;
    assert_eq!(forced.code, 0, "{forced:?}");
    assert!(store.is_released("payments#k").await);
}

/// The keys that were not done are listed, with the reason, and those behind them are done.
#[tokio::test]
async fn a_record_that_cannot_be_read_does_not_stop_a_block() {
    let store = Store::open().await;
    let newer = with(completed("payments#newer"), "format", n(2));
    store.put(newer.clone()).await;
    let long = "x".repeat(3000);
    let keys: Vec<_> = (0..40).map(|number| format!("zz{number}")).collect();
    let keys = keys.iter().map(String::as_str);
    let keys: Vec<_> = ["newer", &long].into_iter().chain(keys).collect();
    for blocked in [40, 0] {
        let block = [&["block", "--scope", "payments", "--yes"], &keys[..]].concat();
        let ended = store.run(&[&["--json"], &block[..]].concat()).await;
        assert_eq!(ended.code, 1, "{ended:?}");
        let document = ended.json();
        assert_eq!((&document["blocked"], &document["untried"]), (&json!(blocked), &json!([])));
        let failed = document["failed"].as_array().unwrap();
        assert_eq!((failed.len(), &failed[0]["key"]), (2, &json!("newer")), "{document}");
        let error: serde_json::Value = serde_json::from_str(&ended.err).unwrap();
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("`payments#newer`: the record has format 2"), "{message}");
        assert!(message.ends_with("not blocked: 2 of 42 keys"), "{message}");
    }
    let text = store.run(&["block", "--scope", "payments", "--yes", "newer"]).await;
    assert!(text.out.contains("`payments#newer` was not blocked: the record has"), "{text:?}");
    assert_eq!(store.item("payments#newer").await, Some(newer));
    assert!(is_refused(&store, "zz39").await);

    // What would fail for each of them is tried for the first ones only.
    let denied = store.failing("PutItem", 400, "AccessDeniedException").await;
    let keys: Vec<_> = keys[2..].iter().map(|key| format!("{key}-other")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let block = [&["--json", "block", "--scope", "payments", "--yes"], &keys[..]].concat();
    let ended = denied.run(&block).await;
    let document = ended.json();
    let number = |name: &str| document[name].as_array().map(Vec::len);
    assert_eq!((ended.code, number("failed"), number("untried")), (1, Some(16), Some(24)));
}

#[tokio::test]
async fn a_scope_without_a_record_is_questioned() {
    let store = Store::open().await;
    store.put(completed("payments#k")).await;
    let right = store.run(&["block", "--scope", "payments", "a", "--yes"]).await;
    assert_eq!((right.code, right.err.as_str()), (0, ""), "{right:?}");
    let typo = store.run(&["block", "--scope", "paymnets", "a", "--yes"]).await;
    let question = "is `paymnets` the right scope? scopes that exist: `payments`";
    assert!(typo.code == 0 && typo.err.contains(question), "{typo:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupted_block_lists_what_is_left_and_concludes_its_audit_lines() {
    for signal in ["-INT", "-TERM"] {
        let store = Store::open().await;
        let keys: Vec<_> = (0..2000).map(|number| number.to_string()).collect();
        let (file, log) =
            (std::env::temp_dir().join(crate::support::unique()), crate::support::unique());
        std::fs::write(&file, keys.join("\n")).unwrap();
        let log = std::env::temp_dir().join(log);
        let target = ["--json", "--endpoint-url", &store.endpoint, "--table", &store.table];
        let block = ["block", "--scope", "payments", "--yes", "--reason", "ticket 7"];
        let mut block = program(&[&target[..], &block].concat());
        block.arg("--audit-log").arg(&log).stdin(std::fs::File::open(&file).unwrap());
        let ended = interrupted(block, signal, async || !store.items().await.is_empty()).await;
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        let document: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        let (blocked, untried) = (&document["blocked"], document["untried"].as_array().unwrap());
        let blocked = usize::try_from(blocked.as_u64().unwrap()).unwrap();
        assert_eq!((blocked + untried.len(), store.items().await.len()), (2000, blocked));
        assert!(!untried.is_empty());
        let lines = std::fs::read_to_string(&log).unwrap();
        let of = |outcome: &str| lines.matches(&format!("\"outcome\":\"{outcome}\"")).count();
        assert_eq!((of("intended"), of("blocked")), (blocked, blocked));
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(said.contains("\"note\":\"interrupted: "), "{said}");
        assert!(said.contains("\"kind\":\"interrupted\""), "{said}");
        for path in [file, log] {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// One write unit a second: behind the first keys, which are written at once, it waits that many seconds.
#[cfg(unix)]
#[tokio::test]
async fn a_block_writes_no_faster_than_its_limit() {
    let store = Store::open().await;
    let keys: Vec<_> = (0..40).map(|number| number.to_string()).collect();
    let target = ["--json", "--endpoint-url", &store.endpoint, "--table", &store.table];
    let block = ["block", "--scope", "payments", "--yes", "--max-write-units", "1"];
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let block = program(&[&target[..], &block, &keys].concat());
    let ended = interrupted(block, "-INT", async || {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        store.items().await.len() >= 16
    });
    let ended = ended.await;
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    let document: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&document["blocked"], store.items().await.len()), (&json!(16), 16));
    assert_eq!(document["untried"].as_array().map(Vec::len), Some(24), "{document}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_terminal_shows_how_many_keys_are_left() {
    let store = Store::open().await;
    let keys: Vec<_> = (0..40).map(|number| number.to_string()).collect();
    let block = ["block", "--scope", "payments", "--yes", "--max-write-units", "100"];
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let block = [&block[..], &keys].concat();
    let shown = store.run_on_a_terminal(&block, "").await;
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.out.contains(" of 40 keys, "), "{shown:?}");
    // Audit lines on standard error are not mixed with a bar.
    let reason = [&block[..6], &["--reason", "ticket 7"], &block[6..]].concat();
    let shown = store.run_on_a_terminal(&reason, "").await;
    assert!(!shown.out.contains(" of 40 keys") && shown.out.contains("ticket 7"), "{shown:?}");
}

/// Also while it waits for its input.
#[cfg(unix)]
#[tokio::test]
async fn every_command_says_that_it_was_interrupted() {
    let store = Store::open().await;
    store.put(pending("payments#k")).await;
    for (signal, command) in [
        ("-INT", &["watch", "payments", "k"][..]),
        ("-TERM", &["watch", "payments", "k"]),
        ("-INT", &["block", "--scope", "payments", "--yes"]),
        ("-TERM", &["block", "--scope", "payments", "--yes"]),
    ] {
        let requests = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counted = std::sync::Arc::clone(&requests);
        let seen = store.failing_when(move |_| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            false
        });
        let seen = seen.await;
        let target = ["--json", "--endpoint-url", &seen.endpoint, "--table", &seen.table];
        let mut program = program(&[&target[..], command].concat());
        program.stdin(Stdio::piped());
        // `watch` has sent a request; `block` reads its keys before it sends one.
        let is_watch = command[0] == "watch";
        let ended = interrupted(program, signal, async || {
            if !is_watch {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
            !is_watch || requests.load(std::sync::atomic::Ordering::Relaxed) > 0
        });
        let ended = ended.await;
        assert_eq!(ended.status.code(), Some(130), "{command:?} {ended:?}");
        let error: serde_json::Value = serde_json::from_slice(&ended.stderr).expect("a document");
        assert_eq!(error["error"]["kind"], "interrupted", "{command:?}");
    }
}
