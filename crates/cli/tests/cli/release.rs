//! `idempotency release`: exactly what was shown, or nothing.

use std::process::Stdio;
use std::sync::Mutex;

use dynamodb_idempotency::signals::hashed_key;
use dynamodb_idempotency::{Error, ErrorKind, RunError};
use serde_json::{Value, json};

use crate::support::{Item, Store, abandoned, completed, ended, map, n, pending, program, s, with};

#[tokio::test]
async fn a_stuck_key_is_made_free() {
    let store = Store::open().await;
    store.put(abandoned("payments#k", 60)).await;
    let json = store.json(&["release", "payments", "k", "--yes"]).await;
    assert_eq!(json["release"], "released");
    assert_eq!(json["record"]["attempt"], 1);
    assert!(store.is_released("payments#k").await);
}

#[tokio::test]
async fn a_failure_that_was_kept_is_made_free() {
    let store = Store::open().await;
    let mut failed = with(completed("payments#k"), "status", s("FAILED"));
    failed.remove("response");
    store.put(failed).await;
    let released = store.run(&["release", "payments", "k", "--yes"]).await;
    assert_eq!(released.code, 0, "{released:?}");
    assert!(
        released.out.contains("FAILED") && released.out.contains("runs the operation again"),
        "{released:?}"
    );
    assert!(store.is_released("payments#k").await);
}

#[tokio::test]
async fn what_is_dangerous_needs_force() {
    let store = Store::open().await;
    let steps = map(&[("reserve", s("1"))]);
    let cases: [(Item, &str); 3] = [
        (pending("payments#k"), "lease is live"),
        (completed("payments#k"), "the operation is done"),
        (with(abandoned("payments#k", 60), "steps", steps), "steps of it are done"),
    ];
    for (item, danger) in cases {
        store.put(item.clone()).await;
        let refused = store.run(&["release", "payments", "k", "--yes"]).await;
        let error = refused.error(4);
        assert!(error.contains(danger) && error.contains("--force"), "{error}");
        assert_eq!(store.item("payments#k").await, Some(item));
        let forced = store.run(&["release", "payments", "k", "--yes", "--force"]).await;
        assert_eq!(forced.code, 0, "{forced:?}");
        assert!(store.is_released("payments#k").await);
    }
}

#[tokio::test]
async fn a_record_past_its_retention_is_not_dangerous() {
    let store = Store::open().await;
    store.put(with(completed("payments#k"), "expires_at", n(1_000_000_000))).await;
    store.json(&["release", "payments", "k", "--yes"]).await;
    assert!(store.is_released("payments#k").await);
}

#[tokio::test]
async fn without_a_terminal_nothing_is_released() {
    let store = Store::open().await;
    let item = abandoned("payments#k", 60);
    store.put(item.clone()).await;
    let refused = store.run(&["release", "payments", "k"]).await;
    assert!(refused.error(4).contains("--yes"), "{refused:?}");
    // Nor does a pipe that says yes: it may have been meant for another question.
    let target = ["--endpoint-url", &store.endpoint, "--table", &store.table];
    let mut piped = program(&[&target[..], &["release", "payments", "k"]].concat());
    let yes = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let refused = ended(piped.stdin(Stdio::from(yes))).await;
    assert!(refused.error(4).contains("--yes"), "{refused:?}");
    assert_eq!(store.item("payments#k").await, Some(item));
}

/// At a terminal it is asked, and takes nothing but a yes for one.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_person_at_a_terminal_is_asked() {
    let store = Store::open().await;
    let item = abandoned("payments#k", 60);
    for typed in ["n\n", "\n", "yes please\n", ""] {
        store.put(item.clone()).await;
        let refused = store.run_on_a_terminal(&["release", "payments", "k"], typed).await;
        assert_eq!(refused.code, 4, "{typed:?}: {refused:?}");
        assert!(refused.out.contains("PENDING, abandoned"), "{typed:?}: {refused:?}");
        assert!(refused.out.contains("Release this record? [y/N]"), "{typed:?}: {refused:?}");
        for asked in
            ["Has its effect happened?", "Takeover::Reject", "the next request runs it again"]
        {
            assert!(refused.out.contains(asked), "{asked}: {refused:?}");
        }
        assert!(refused.out.contains("nothing was written"), "{typed:?}: {refused:?}");
        assert_eq!(store.item("payments#k").await, Some(item.clone()), "{typed:?}");
    }
    for typed in ["y\n", "yes\n"] {
        store.put(item.clone()).await;
        let released = store.run_on_a_terminal(&["release", "payments", "k"], typed).await;
        assert_eq!(released.code, 0, "{typed:?}: {released:?}");
        assert!(released.out.contains("runs the operation again"), "{typed:?}: {released:?}");
        assert!(store.is_released("payments#k").await, "{typed:?}");
    }
}

#[tokio::test]
async fn a_key_without_a_record_is_an_error() {
    let store = Store::open().await;
    let missing = store.run(&["release", "payments", "k", "--yes"]).await;
    assert!(missing.error(3).contains("no record `payments#k`"), "{missing:?}");
}

/// A failure is no vanished owner.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn only_of_a_vanished_owner_it_is_asked_whether_its_effect_has_happened() {
    let store = Store::open().await;
    let mut failed = with(completed("payments#k"), "status", s("FAILED"));
    failed.remove("response");
    store.put(failed).await;
    let asked = store.run_on_a_terminal(&["release", "payments", "k"], "n\n").await;
    assert!(asked.out.contains("[y/N]") && !asked.out.contains("effect"), "{asked:?}");
}

#[tokio::test]
async fn the_record_that_is_deleted_is_printed_for_programs() {
    let store = Store::open().await;
    store.put(abandoned("payments#k", 60)).await;
    let json = store.json(&["release", "payments", "k", "--yes"]).await;
    assert_eq!(json["record"]["item"]["pk"], json!({"S": "payments#k"}));
}

/// What was shown is what is deleted: a record that changes in between is left alone.
#[tokio::test]
async fn a_record_that_changes_between_the_two_requests_is_left_alone() {
    let store = Store::open().await;
    let steps = map(&[("reserve", s("1"))]);
    let seen = abandoned("payments#k", 60);
    for now in [
        with(seen.clone(), "owner", s("11111111111111111111111111111111")),
        with(seen.clone(), "lease_expires_at", n(crate::support::now() + 60_000)),
        with(seen.clone(), "steps", steps),
        completed("payments#k"),
    ] {
        store.put(seen.clone()).await;
        let between = store.changing(now.clone()).await;
        let released = between.run(&["--json", "release", "payments", "k", "--yes"]).await;
        assert_eq!(released.code, 5, "{released:?}");
        let json = released.json();
        assert_eq!(json["release"], "changed");
        assert_eq!(json["record"]["owner"], json!(now["owner"].as_s().unwrap()));
        assert_eq!(store.item("payments#k").await, Some(now));
    }
    store.put(seen.clone()).await;
    let between = store.changing(completed("payments#k")).await;
    let released = between.run(&["release", "payments", "k", "--yes"]).await;
    assert!(released.error(5).contains("has changed meanwhile"), "{released:?}");
    assert!(released.out.contains("PENDING") && released.out.contains("COMPLETED"), "{released:?}");
}

#[tokio::test]
async fn a_release_with_a_reason_leaves_audit_lines() {
    let store = Store::open().await;
    let folder = std::env::temp_dir().join(crate::support::unique());
    std::fs::create_dir(&folder).unwrap();
    let log = folder.join("audit.jsonl");
    let release = ["release", "payments", "k", "--yes", "--reason", "ticket 7: the worker is gone"];
    let to_log = [&release[..], &["--audit-log", log.to_str().unwrap()]].concat();
    for _ in 0..2 {
        store.put(abandoned("payments#k", 60)).await;
        assert_eq!(store.run(&to_log).await.code, 0);
    }
    let lines = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let outcomes: Vec<_> = lines.iter().map(|line| &line["outcome"]).collect();
    assert_eq!(outcomes, ["intended", "released", "intended", "released"]);
    for line in &lines {
        assert_eq!(line["table"], json!(store.table));
        assert_eq!(line["reason"], "ticket 7: the worker is gone");
        assert_eq!(line["key_hash"], hashed_key("payments#k"));
        assert_eq!((&line["attempt"], &line["forced"]), (&json!(1), &json!(false)));
    }
    // On the standard error without a file; and none where nothing was tried.
    store.put(abandoned("payments#k", 60)).await;
    let released = store.run(&release).await;
    assert!(released.err.contains("ticket 7"), "{released:?}");
    store.put(pending("payments#k")).await;
    assert!(store.run(&release).await.error(4).contains("lease is live"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn nothing_is_released_without_the_audit_line_that_is_asked_for() {
    let store = Store::open().await;
    let item = abandoned("payments#k", 60);
    store.put(item.clone()).await;
    let release = ["release", "payments", "k", "--yes", "--audit-log", "/no-such-folder/audit"];
    let without_reason = store.run(&release).await;
    assert!(
        without_reason.code == 2 && without_reason.err.contains("--reason"),
        "{without_reason:?}"
    );
    let unwritable = store.run(&[&release[..], &["--reason", "why"]].concat()).await;
    assert!(unwritable.error(1).contains("audit log /no-such-folder/audit"), "{unwritable:?}");
    assert_eq!(store.item("payments#k").await, Some(item));
}

/// As with `| head` and `| grep -q`.
#[cfg(unix)]
#[tokio::test]
async fn a_closed_output_neither_skips_the_release_nor_hides_a_failure() {
    let store = Store::open().await;
    store.put(abandoned("payments#k", 60)).await;
    let (code, err) = store.run_without_reader(&["release", "payments", "k", "--yes"]).await;
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(store.is_released("payments#k").await);

    store.put(pending("payments#k")).await;
    let (code, err) = store.run_without_reader(&["release", "payments", "k", "--yes"]).await;
    assert!(code == 4 && err.contains("lease is live"), "{code}: {err}");
    let (code, _) = store.run_without_reader(&["show", "payments", "none"]).await;
    assert_eq!(code, 3);
    let (code, _) = Store::without_table().await.run_without_reader(&["doctor"]).await;
    assert_eq!(code, 1);
    let watch = ["watch", "payments", "k", "--follow", "--timeout", "0s", "--interval", "1ms"];
    let (code, err) = store.run_without_reader(&watch).await;
    assert!(code == 7 && err.contains("has not ended"), "{code}: {err}");
}

/// The lines of an audit log: outcome by outcome.
fn outcomes(log: &str) -> Vec<String> {
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|line| line["outcome"].as_str().expect("a text").to_owned()).collect()
}

#[tokio::test]
async fn a_release_whose_response_is_lost_leaves_its_audit_lines() {
    let store = Store::open().await;
    store.put(abandoned("payments#k", 60)).await;
    let deaf = store.losing_responses_to_updates().await;
    let lost = deaf.run(&["release", "payments", "k", "--yes", "--reason", "stuck"]).await;
    assert_eq!(lost.code, 6, "{lost:?}");
    let (log, error) = lost.err.trim_end().rsplit_once('\n').expect("lines and an error");
    assert_eq!(outcomes(log), ["intended", "unknown"], "{lost:?}");
    assert!(error.starts_with("error: ") && error.contains("read it again"), "{error}");
    assert!(store.is_released("payments#k").await);
}

#[tokio::test]
async fn an_audit_log_that_cannot_be_written_stops_the_release() {
    let store = Store::open().await;
    let item = abandoned("payments#k", 60);
    store.put(item.clone()).await;
    let release = ["release", "payments", "k", "--yes", "--reason", "stuck"];
    let full = store.run(&[&release[..], &["--audit-log", "/dev/full"]].concat()).await;
    assert!(full.error(1).contains("nothing was written to the table"), "{full:?}");
    assert_eq!(store.item("payments#k").await, Some(item));
}

/// Many abandoned operations, one with a step, and what is not stuck.
async fn many() -> Store {
    let store = Store::open().await;
    for number in 0..30 {
        store.put(abandoned(&format!("payments#{number:02}"), 7_200)).await;
    }
    let steps = map(&[("reserve", s("1"))]);
    store.put(with(abandoned("payments#stepped", 7_200), "steps", steps)).await;
    store.put(abandoned("payments#young", 60)).await;
    store.put(abandoned("refunds#other", 7_200)).await;
    store.put(pending("payments#live")).await;
    store
}

async fn released(store: &Store) -> usize {
    let items = store.items().await;
    items.iter().filter(|item| item["status"] == s("RELEASED")).count()
}

const MANY: [&str; 6] = ["release", "--stuck", "--scope", "payments", "--older-than", "1h"];

#[tokio::test]
async fn many_stuck_keys_are_made_free() {
    let store = many().await;
    let unconfirmed = store.run(&MANY).await;
    assert_eq!(unconfirmed.code, 4, "{unconfirmed:?}");
    assert!(unconfirmed.err.contains("--yes"), "{unconfirmed:?}");
    assert_eq!(released(&store).await, 0);

    let audited = [&MANY[..], &["--yes", "--reason", "incident 7"]].concat();
    let done = store.run(&audited).await;
    // One of them has a step.
    assert_eq!(done.code, 4, "{done:?}");
    assert!(done.out.contains("1 refused, 30 released"), "{done:?}");
    assert!(done.out.contains("left out: `payments#stepped`: steps of it are done"), "{done:?}");
    let lines = done.err.lines().filter(|line| line.contains("incident 7")).count();
    assert_eq!((lines, released(&store).await), (60, 30), "{done:?}");

    let forced = store.json(&[&MANY[..], &["--yes", "--force"]].concat()).await;
    assert_eq!(forced["releases"].as_array().map(Vec::len), Some(1), "{forced}");
    assert_eq!(
        (&forced["releases"][0]["release"], &forced["releases"][0]["key"]),
        (&json!("released"), &json!("stepped"))
    );
    for pk in ["payments#young", "refunds#other", "payments#live"] {
        assert!(!store.is_released(pk).await, "{pk}");
    }
    let nothing = store.run(&[&MANY[..], &["--yes"]].concat()).await;
    assert!(nothing.code == 0 && nothing.out.contains("nothing to release"), "{nothing:?}");
    let estimate = store.json(&[&MANY[..], &["--estimate"]].concat()).await;
    assert!(estimate["read_units"].is_number(), "{estimate}");
}

/// After an error the same command does the rest.
#[tokio::test]
async fn an_interrupted_release_of_many_goes_on() {
    let store = many().await;
    let updates = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let failing = store.failing_when(move |request| {
        request.contains(".UpdateItem")
            && updates.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 10
    });
    let all = [&MANY[..], &["--yes", "--force", "--json"]].concat();
    let stopped = failing.await.run(&all).await;
    assert_eq!(stopped.code, 6, "{stopped:?}");
    let outcomes = |document: &Value, outcome: &str| {
        let all = document["releases"].as_array().unwrap().iter();
        all.filter(|one| one["release"] == outcome).count()
    };
    assert_eq!((outcomes(&stopped.json(), "released"), released(&store).await), (10, 10));
    assert_eq!(outcomes(&stopped.json(), "unknown"), 1, "{stopped:?}");
    let rest = store.run(&all).await;
    assert_eq!((rest.code, outcomes(&rest.json(), "released")), (0, 21), "{rest:?}");
    assert_eq!(released(&store).await, 31);
}

/// One write unit a second.
#[cfg(unix)]
#[tokio::test]
async fn a_release_writes_no_faster_than_its_limit() {
    let store = many().await;
    let target = ["--endpoint-url", &store.endpoint, "--table", &store.table];
    let slow = ["--max-write-units", "1"];
    let release = program(&[&target[..], &MANY, &["--yes"], &slow].concat());
    let ended = crate::support::interrupted(release, "-INT", async || {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        released(&store).await > 0
    });
    let ended = ended.await;
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    let out = String::from_utf8(ended.stdout).unwrap();
    let left = 30 - released(&store).await;
    assert!(left >= 28 && out.contains(&format!("{} released", 30 - left)), "{out}");
}

/// One read unit a second.
#[cfg(unix)]
#[tokio::test]
async fn a_release_of_keys_reads_no_faster_than_its_limit() {
    let store = many().await;
    let reads = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = std::sync::Arc::clone(&reads);
    let seen = store.failing_when(move |request| {
        if request.contains(".GetItem") {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        false
    });
    let seen = seen.await;
    let target = ["--endpoint-url", &seen.endpoint, "--table", &seen.table];
    let keys: Vec<_> = (0..30).map(|number| format!("k{number}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let release = ["release", "--yes", "--max-units", "1", "payments"];
    let release = program(&[&target[..], &release, &keys].concat());
    let read = || reads.load(std::sync::atomic::Ordering::Relaxed);
    let ended = crate::support::interrupted(release, "-INT", async || {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        read() > 0
    });
    assert_eq!(ended.await.status.code(), Some(130));
    assert!(read() <= 2, "{}", read());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_terminal_shows_how_many_records_are_left() {
    let store = many().await;
    let shown = store.run_on_a_terminal(&[&MANY[..], &["--yes"]].concat(), "").await;
    assert!(shown.out.contains(" of 30 keys, "), "{shown:?}");
    assert!(shown.out.contains("1 refused, 30 released"), "{shown:?}");
}

#[tokio::test]
async fn several_keys_are_made_free_at_once() {
    let store = Store::open().await;
    for key in ["a", "b"] {
        store.put(abandoned(&format!("payments#{key}"), 60)).await;
    }
    let done = store.run(&["release", "payments", "a", "b", "none", "--yes"]).await;
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.out.contains("2 released") && done.err.contains("`payments#none`"), "{done:?}");
    assert_eq!(released(&store).await, 2);
    for wrong in [
        &["release", "--yes"][..],
        &["release", "payments", "--yes"],
        &["release", "payments", "a", "--stuck", "--yes"],
        &["release", "payments", "a", "--scope", "payments", "--yes"],
        &["release", "payments", "a", "--failed", "--yes"],
    ] {
        let refused = store.run(wrong).await;
        assert_eq!(refused.code, 2, "{wrong:?}: {refused:?}");
    }
}

#[tokio::test]
async fn kept_failures_are_made_free() {
    let store = many().await;
    let mut failed = with(completed("payments#failed"), "status", s("FAILED"));
    failed.remove("response");
    store.put(failed).await;
    let done = store.json(&["release", "--stuck", "--failed", "--yes"]).await;
    assert_eq!(done["releases"].as_array().map(Vec::len), Some(1), "{done}");
    assert!(store.is_released("payments#failed").await);
    assert_eq!(released(&store).await, 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_person_is_asked_once_for_many() {
    let store = many().await;
    let refused = store.run_on_a_terminal(&MANY, "n\n").await;
    assert_eq!((refused.code, released(&store).await), (4, 0), "{refused:?}");
    assert_eq!(refused.out.matches("[y/N]").count(), 1, "{refused:?}");
    assert!(refused.out.contains("Release 30 records?"), "{refused:?}");
    store.run_on_a_terminal(&MANY, "y\n").await;
    assert_eq!(released(&store).await, 30);
}

/// The RELEASED record has an owner that no call has, and every retry of a release keeps it.
#[tokio::test]
async fn an_owner_whose_key_is_released_never_commits() {
    let store = Store::open().await;
    let idempotency = store.builder().build().unwrap();
    let owner = Mutex::new(None);
    let result = idempotency.operation("payments").key("k").no_payload().run(async |execution| {
        let held = store.item("payments#k").await.expect("a record");
        let released = store.run(&["release", "payments", "k", "--yes", "--force"]).await;
        assert_eq!(released.code, 0, "{released:?}");
        *owner.lock().unwrap() = Some((held["owner"].clone(), held["attempt"].clone()));
        execution.commit("re_1", []).await?;
        Ok::<_, Error>("re_1".to_owned())
    });
    let Err(RunError::Idempotency(error) | RunError::Handler(error)) = result.await else {
        panic!("it commits");
    };
    assert_eq!(error.kind(), ErrorKind::LeaseLost);
    let left = store.item("payments#k").await.expect("a record");
    let (owner, attempt) = owner.lock().unwrap().clone().expect("it ran");
    assert_eq!((&left["status"], &left["attempt"]), (&s("RELEASED"), &attempt));
    assert_ne!(left["owner"], owner);
}

/// Also if another key is refused.
#[tokio::test]
async fn each_key_without_a_record_is_reported() {
    let store = Store::open().await;
    store.put(completed("payments#done")).await;
    let keys = ["release", "payments", "none", "done", "neither", "--yes"];
    let refused = store.run(&keys).await;
    assert_eq!(refused.code, 4, "{refused:?}");
    for key in ["none", "neither"] {
        let said = format!("there is no record `payments#{key}`");
        assert!(refused.out.contains(&said), "{refused:?}");
    }
    let one = store.run(&["release", "payments", "none", "done", "--yes", "--force"]).await;
    assert!(one.code == 3 && !one.err.contains("nor of"), "{one:?}");
}

/// A command that is refused is no help.
#[tokio::test]
async fn show_suggests_a_release_that_is_done() {
    let store = Store::open().await;
    let steps = crate::support::map(&[("reserve", s("1"))]);
    let failed = with(completed("payments#failed"), "status", s("FAILED"));
    for item in [abandoned("payments#stuck", 60), failed] {
        store.put(with(item, "steps", steps.clone())).await;
    }
    for key in ["stuck", "failed"] {
        let shown = store.run(&["show", "payments", key]).await.out;
        let said = format!("release payments {key} --force (its steps run again)");
        assert!(shown.contains(&said), "{shown}");
    }
}

/// The next request asks the look-up of the step. A release removes the note, so that nothing is asked any more.
#[tokio::test]
async fn a_note_of_a_request_is_said_to_be_sent_again_by_a_release() {
    let store = Store::open().await;
    let note = || crate::support::map(&[("refund~sent~1", s("1790000000000"))]);
    let both = crate::support::map(&[("refund~sent~1", s("1790000000000")), ("reserve", s("1"))]);
    let failed = |key| with(completed(key), "status", s("FAILED"));
    let mixed = "its steps run again, and step `refund` may be sent a second time";
    for (item, steps, again) in [
        (failed("payments#failed"), note(), "step `refund` may be sent a second time"),
        (abandoned("payments#dead", 60), note(), "step `refund` may be sent a second time"),
        (failed("payments#both"), both, mixed),
    ] {
        let key = item["pk"].as_s().unwrap().split_once('#').unwrap().1.to_owned();
        store.put(with(item, "steps", steps)).await;
        let shown = store.run(&["show", "payments", &key]).await.out;
        let next = shown.lines().find(|line| line.starts_with("next: ")).unwrap();
        for part in ["look in the system", "asks the look-up of step `refund`", "sends nothing"] {
            assert!(next.contains(part), "{part}: {next}");
        }
        assert!(next.ends_with(&format!("release payments {key} --force ({again})")), "{next}");
        let refused = store.run(&["release", "payments", &key, "--yes"]).await;
        let error = refused.error(4);
        for part in ["may have been sent: look in the system", "asks its look-up; after a release"]
        {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(error.contains(again) && !error.contains("does them again"), "{error}");
        let several = store.run(&["release", "payments", &key, "other", "--yes"]).await;
        assert!(several.out.contains(again), "{several:?}");
    }
}

/// The keys behind it are released, and it is named.
#[tokio::test]
async fn a_record_that_cannot_be_read_does_not_stop_a_release() {
    let store = Store::open().await;
    store.put(with(abandoned("payments#newer", 60), "format", n(2))).await;
    for key in ["a", "b"] {
        store.put(abandoned(&format!("payments#{key}"), 60)).await;
    }
    let release = ["release", "payments", "newer", "a", "b", "--yes"];
    let ended = store.run(&release).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.out.contains("`payments#newer` was not released: the record has"), "{ended:?}");
    assert!(ended.out.contains("2 released"), "{ended:?}");
    assert!(ended.err.contains("not released: 1 of 3 keys"), "{ended:?}");
    assert_eq!(released(&store).await, 2);
    let again = store.run(&[&["--json"], &release[..]].concat()).await;
    assert_eq!((again.code, &again.json()["failed"][0]["key"]), (1, &json!("newer")), "{again:?}");
}

/// `ulimit` stands for a full disk: a line is cut off within.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_neither_hides_a_release_nor_glues_lines() {
    let store = many().await;
    let log = std::env::temp_dir().join(crate::support::unique());
    let release = async |most: &str, reason: &str| {
        let own = env!("CARGO_BIN_EXE_idempotency");
        let log = log.display();
        let (endpoint, table) = (&store.endpoint, &store.table);
        let options = "--stuck --scope payments --older-than 1h --yes";
        crate::support::pasted(&format!(
            "trap '' XFSZ; ulimit -f {most}; exec {own} --endpoint-url {endpoint} --table {table} \
             release {options} --reason '{reason}' --audit-log {log}"
        ))
        .await
    };
    // All lines have one length. The one that is cut off is the second of a release.
    store.put(abandoned("refunds#length", 60)).await;
    let one = ["release", "refunds", "length", "--yes", "--reason", "", "--audit-log"];
    store.run(&[&one[..], &[log.to_str().unwrap()]].concat()).await;
    let length = std::fs::read_to_string(&log).unwrap().lines().next().unwrap().len() + 2;
    std::fs::remove_file(&log).unwrap();
    let is_cut = |padding: &usize| {
        let length = length + padding;
        (8192 / length) % 2 == 1 && 8192 % length > 1
    };
    let padding = (1..300).find(is_cut).unwrap();
    let reason = "x".repeat(padding);

    let full = release("8", &reason).await;
    let done = released(&store).await - 1;
    assert_eq!(full.code, 1, "{full:?}");
    assert!((1..30).contains(&done), "{full:?}");
    assert!(full.out.contains(&format!("{done} released")), "{full:?}");
    assert!(full.err.contains("`payments#") && full.err.contains("is `released`"), "{full:?}");
    assert!(full.err.contains(&format!("not released: {} of 31", 30 - done)), "{full:?}");

    let rest = release("unlimited", &reason).await;
    assert!(rest.out.contains(&format!("{} released", 30 - done)), "{rest:?}");
    let text = std::fs::read_to_string(&log).unwrap();
    let lines = text.lines().map(serde_json::from_str::<Value>);
    assert_eq!(lines.filter(Result::is_err).count(), 1, "{text}");
    assert_eq!(text.lines().count(), 60, "{text}");
    std::fs::remove_file(log).unwrap();
}
