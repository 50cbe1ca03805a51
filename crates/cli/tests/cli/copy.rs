//! `idempotency copy`

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::policy::{Compression, LargeAnswers};
use dynamodb_idempotency::{Policy, TableSchema};
use serde_json::{Value, json};

use crate::support::{Ended, Item, Store, abandoned, blocker, completed, n, now, pending, s, with};

/// A source and an empty target in one engine.
async fn pair() -> (Store, Store) {
    pair_with(TableSchema::default()).await
}

async fn pair_with(schema: TableSchema) -> (Store, Store) {
    let source = Store::with_schema(schema.clone()).await;
    let target = source.another_table(schema).await;
    (source, target)
}

/// Copies by requests to `source`'s endpoint.
async fn copy(source: &Store, target: &Store, options: &[&str]) -> Ended {
    let tables = ["copy", "--from", &source.table, "--to", &target.table];
    source.run(&[&tables[..], options].concat()).await
}

/// Copies, and reads the JSON of a success.
async fn copied(source: &Store, target: &Store, options: &[&str]) -> Value {
    let ended = copy(source, target, &[&["--json", "--yes"], options].concat()).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.json()
}

fn failed(pk: &str) -> Item {
    let mut item = with(completed(pk), "status", s("FAILED"));
    item.remove("response");
    item
}

fn released(pk: &str) -> Item {
    let mut item = with(completed(pk), "status", s("RELEASED"));
    item.remove("response");
    item.remove("completed_at");
    item
}

fn newer(pk: &str) -> Item {
    with(with(completed(pk), "format", n(9)), "novelty", map_of_all())
}

/// As AWS CLI 1 leaves it.
fn damaged(pk: &str) -> Item {
    with(completed(pk), "fingerprint", AttributeValue::B(Blob::new(b"AQcHBw==")))
}

/// A value of each type, nested.
fn map_of_all() -> AttributeValue {
    crate::support::map(&[
        ("bytes", AttributeValue::B(Blob::new(b"\xff\0"))),
        ("list", AttributeValue::L(vec![s("a"), n(1), AttributeValue::Bool(true)])),
        ("set", AttributeValue::Ss(vec!["a".to_owned()])),
        ("null", AttributeValue::Null(true)),
    ])
}

type Kind = (&'static str, fn(&str) -> Item);

const KINDS: [Kind; 8] = [
    ("abandoned", |pk| abandoned(pk, 60)),
    ("live", pending),
    ("completed", completed),
    ("failed", failed),
    ("released", released),
    ("blocker", blocker),
    ("newer", newer),
    ("damaged", damaged),
];

/// Which targets each source replaces; `=` is of the same attempt and of another life of the key, `~` of
/// the same attempt in the same life, `+` of a later attempt in the same life, `*` of a later attempt in
/// another life, `-` of an earlier attempt.
const REPLACED: [(&str, &str, &str); 40] = [
    ("~", "abandoned", ""),
    ("~", "live", ""),
    ("~", "completed", "abandoned live failed released blocker"),
    // The target's record was released by hand.
    ("~", "failed", "abandoned failed"),
    ("~", "released", ""),
    ("~", "blocker", "abandoned failed released"),
    ("~", "newer", ""),
    ("~", "damaged", ""),
    ("=", "abandoned", ""),
    ("=", "live", ""),
    ("=", "completed", "abandoned live failed released blocker"),
    ("=", "failed", "abandoned failed released"),
    ("=", "released", ""),
    ("=", "blocker", "abandoned failed released"),
    ("=", "newer", ""),
    ("=", "damaged", ""),
    ("+", "abandoned", "abandoned failed released"),
    ("+", "live", "abandoned failed released"),
    ("+", "completed", "abandoned live completed failed released blocker"),
    ("+", "failed", "abandoned failed released"),
    ("+", "released", "abandoned failed released"),
    ("+", "blocker", "abandoned failed released"),
    ("+", "newer", ""),
    ("+", "damaged", ""),
    ("*", "abandoned", ""),
    ("*", "live", ""),
    ("*", "completed", "abandoned live failed released blocker"),
    ("*", "failed", "abandoned failed released"),
    ("*", "released", ""),
    ("*", "blocker", "abandoned failed released"),
    ("*", "newer", ""),
    ("*", "damaged", ""),
    ("-", "abandoned", ""),
    ("-", "live", ""),
    ("-", "completed", ""),
    ("-", "failed", ""),
    ("-", "released", ""),
    ("-", "blocker", "abandoned failed released"),
    ("-", "newer", ""),
    ("-", "damaged", ""),
];

/// The item of the source and the one of the target.
fn versions(relation: &str, pk: &str, source: Kind, target: Kind) -> (Item, Item) {
    let born = now() - 60_000;
    let (attempts, other_birth) = match relation {
        "=" => ((2, 2), true),
        "~" => ((2, 2), false),
        "+" => ((3, 2), false),
        "*" => ((3, 2), true),
        "-" => ((1, 2), false),
        other => panic!("{other}"),
    };
    let at = |item, attempt, born| with(with(item, "attempt", n(attempt)), "created_at", n(born));
    let other_owner = s("22222222222222222222222222222222");
    let source = at(with(source.1(pk), "owner", other_owner), attempts.0, born);
    (source, at(target.1(pk), attempts.1, if other_birth { born - 5_000 } else { born }))
}

#[tokio::test]
async fn a_record_replaces_only_one_that_it_is_further_than() {
    let (source, target) = pair().await;
    let (mut expected, mut replaced) = (Vec::new(), 0);
    for (relation, of_source, replaces) in REPLACED {
        let of_source = KINDS.into_iter().find(|kind| kind.0 == of_source).unwrap();
        for of_target in KINDS {
            let pk = format!("payments#{relation} {} {}", of_source.0, of_target.0);
            let (from, to) = versions(relation, &pk, of_source, of_target);
            source.put(from.clone()).await;
            target.put(to.clone()).await;
            let is_replaced = replaces.split(' ').any(|kind| kind == of_target.0);
            replaced += u64::from(is_replaced);
            expected.push((pk, if is_replaced { from } else { to }));
        }
    }
    // The target has records that cannot be read.
    let copied = async |options: &[&str]| {
        let ended = copy(&source, &target, &[&["--json", "--yes"], options].concat()).await;
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.err.contains("delete-item"), "{ended:?}");
        ended.json()
    };
    let dry = copied(&["--dry-run", "--max-units", "0"]).await;
    let done = copied(&["--max-units", "0"]).await;
    for (pk, item) in &expected {
        assert_eq!(target.item(pk).await.as_ref(), Some(item), "{pk}");
    }
    let records = &done["records"];
    assert_eq!((&records["replaced"], &records["copied"]), (&json!(replaced), &json!(0)), "{done}");
    assert_eq!(records["kept"], expected.len() as u64 - replaced);
    assert_eq!(dry["records"], *records);
    // A second run finds each of them equal, or keeps it.
    let again = copied(&["--max-units", "0"]).await;
    assert_eq!(again["records"]["same"], replaced, "{again}");
    assert_eq!(done["replaced"].as_array().map(Vec::len), Some(usize::try_from(replaced).unwrap()));
    assert_eq!(again["replaced"], json!([]));
    assert_eq!(again["records"]["kept"], records["kept"]);
}

#[tokio::test]
async fn an_absent_record_is_copied_as_it_is() {
    let (source, target) = pair().await;
    let mut items: Vec<_> = KINDS.map(|(name, item)| item(&format!("payments#{name}"))).into();
    items.push(with(completed("refunds/%t/acme#k"), "novelty", map_of_all()));
    for item in &items {
        source.put(item.clone()).await;
    }
    let expired = n(now() / 1000 - 5);
    for (pk, item) in [("payments#old", completed("")), ("payments#newer, old", newer(""))] {
        source.put(with(with(item, "pk", s(pk)), "expires_at", expired.clone())).await;
    }
    source.put([("pk".to_owned(), s("CUSTOMER#1"))].into()).await;

    // One of them is damaged, which is reported in each run.
    let damage = async |option| {
        let ended = copy(&source, &target, &["--json", option]).await;
        assert_eq!(ended.code, 1, "{ended:?}");
        ended.json()
    };
    let dry = damage("--dry-run").await;
    assert_eq!((&dry["dry_run"], target.items().await.len()), (&json!(true), 0));
    let done = damage("--yes").await;
    assert_eq!(done["records"], dry["records"]);
    let mut found = target.items().await;
    let pk = |item: &Item| item["pk"].as_s().unwrap().clone();
    found.sort_by_key(pk);
    items.sort_by_key(pk);
    assert_eq!(found, items);
    let by_status = json!({
        "PENDING": 2, "COMPLETED": 2, "FAILED": 1, "RELEASED": 1, "BLOCKER": 1, "newer": 1,
        "unreadable": 1,
    });
    assert_eq!(done["records"]["copied_by_status"], by_status, "{done}");
    assert_eq!((&done["records"]["expired"], &done["other_items"]), (&json!(2), &json!(1)));
    let mut unfinished: Vec<_> =
        done["pending"].as_array().unwrap().iter().map(|pk| pk.as_str().unwrap()).collect();
    unfinished.sort_unstable();
    assert_eq!(unfinished, ["payments#abandoned", "payments#live"]);

    let text = copy(&source, &target, &["--yes"]).await;
    assert_eq!(text.code, 1, "{text:?}");
    assert!(text.out.contains("9\n"), "{text:?}");
    assert!(text.err.contains("1 item is no record of this crate"), "{text:?}");
}

#[tokio::test]
async fn a_scope_selects_records_and_their_parts_come_first() {
    let (source, target) = pair().await;
    let in_parts = |policy: Policy| {
        let policy = policy.compression(Compression::Off);
        policy.large_answers(LargeAnswers::InParts { above: 1024 })
    };
    let answer = "x".repeat(70_000);
    for key in ["one", "two"] {
        source.done(source.builder().policy(in_parts), key, &answer).await;
    }
    source.put(completed("refunds#k")).await;
    let all = source.items().await;
    let is_part = |item: &Item| item["pk"].as_s().unwrap().contains("/%p/");
    let parts = all.iter().filter(|item| is_part(item)).count();
    assert!(parts >= 4, "{parts}");

    let done = copied(&source, &target, &["--scope", "refunds"]).await;
    assert_eq!((&done["parts"]["copied"], &done["records"]["copied"]), (&json!(parts), &json!(1)));
    assert_eq!(target.items().await.len(), parts + 1);

    // Some items at a time: no record without its parts.
    let (_, target) = (&source, source.another_table(TableSchema::default()).await);
    let mut place = vec!["--parts".to_owned(), "2".to_owned()];
    let mut copies = 0;
    loop {
        let place_args: Vec<_> = place.iter().map(String::as_str).collect();
        let some = [&["--limit", "1", "--page-size", "1"], &place_args[..]].concat();
        let done = copied(&source, &target, &some).await;
        let found = target.items().await;
        let has_all_parts = found.iter().filter(|item| is_part(item)).count() == parts;
        assert!(has_all_parts || found.iter().all(is_part), "{done}");
        copies += 1;
        assert!(copies < 100, "{done}");
        let Some(resume) = done["read"]["resume"].as_str() else { break };
        place = vec!["--resume".to_owned(), resume.to_owned()];
    }
    assert!(copies > 5, "{copies}");
    assert_eq!(target.items().await.len(), all.len());
    let shown = target.json(&["show", "payments", "one"]).await;
    assert_eq!(shown["answer"], json!({"json": format!("\"{answer}\"")}));
}

#[tokio::test]
async fn a_part_that_expires_earlier_is_replaced() {
    let (source, target) = pair().await;
    let part = |number: u32, seconds: i64| -> Item {
        let mut item = completed(&format!("payments/%p/0a#1f/{number}"));
        item.retain(|name, _| ["pk", "owner", "expires_at", "format"].contains(&name.as_str()));
        with(item, "expires_at", n(now() / 1000 + seconds))
    };
    for (number, here, there) in [(0, 900, 600), (1, 600, 900)] {
        source.put(part(number, here)).await;
        target.put(part(number, there)).await;
    }
    source.put(part(2, -5)).await;
    source.put(part(3, 900)).await;
    let done = copied(&source, &target, &[]).await;
    let counts = |name: &str| done["parts"][name].as_u64().unwrap();
    let counts = ["copied", "replaced", "kept", "expired"].map(counts);
    // The first one is replaced by the first write, as a part that is absent would be.
    assert_eq!((counts[0] + counts[1], counts[2], counts[3]), (2, 1, 1), "{done}");
    for (number, item) in [(0, source.item("payments/%p/0a#1f/0").await)] {
        assert_eq!(target.item(&format!("payments/%p/0a#1f/{number}")).await, item);
    }
    assert_eq!(target.items().await.len(), 3);
}

/// After an error the place and the counts are printed, and a resumed copy does the rest.
#[tokio::test]
async fn an_interrupted_copy_goes_on() {
    let (source, target) = pair().await;
    for number in 0..200 {
        source.put(completed(&format!("payments#{number}"))).await;
    }
    let puts = Arc::new(AtomicU32::new(0));
    let failing = source.failing_when(move |request| {
        request.contains(".PutItem") && puts.fetch_add(1, Ordering::Relaxed) >= 60
    });
    let options = ["--json", "--yes", "--page-size", "20", "--parts", "2"];
    let stopped = copy(&failing.await, &target, &options).await;
    assert_eq!(stopped.code, 6, "{stopped:?}");
    let first = stopped.json()["records"]["copied"].as_u64().unwrap();
    assert_eq!(first, target.items().await.len() as u64);
    assert!((1..200).contains(&first), "{first}");
    let error: Value = serde_json::from_str(stopped.err.trim()).expect("one document");
    let place = error["error"]["resume"].as_str().expect("a place").to_owned();
    let rest = copied(&source, &target, &["--resume", &place]).await;
    let copied = rest["records"]["copied"].as_u64().unwrap();
    assert_eq!((first + copied, target.items().await.len()), (200, 200), "{rest}");
    assert!(rest["read"]["items"].as_u64().unwrap() < 200, "{rest}");
}

/// What the first page has written is counted, although the page is not done.
#[tokio::test]
async fn an_error_in_the_first_page_leaves_counts_and_a_place() {
    let (source, target) = pair().await;
    for number in 0..64 {
        source.put(completed(&format!("payments#{number}"))).await;
    }
    let puts = Arc::new(AtomicU32::new(0));
    let failing = source.failing_when(move |request| {
        request.contains(".PutItem") && puts.fetch_add(1, Ordering::Relaxed) >= 20
    });
    let stopped = copy(&failing.await, &target, &["--json", "--yes", "--parts", "1"]).await;
    assert_eq!(stopped.code, 6, "{stopped:?}");
    let written = target.items().await.len();
    assert_eq!(stopped.json()["records"]["copied"], written, "{stopped:?}");
    let error: Value = serde_json::from_str(stopped.err.trim()).expect("one document");
    let place = error["error"]["resume"].as_str().expect("a place");
    assert!(place.ends_with("-1.0:"), "{place}");
    copied(&source, &target, &["--resume", place]).await;
    assert_eq!(target.items().await.len(), 64);
}

/// Nothing proves that the write was this run's: in the second copy the same requests find what the first
/// has copied. Only what has replaced another item is known.
#[tokio::test]
async fn a_write_whose_response_is_lost_is_not_counted_as_copied() {
    let (source, target) = pair().await;
    for number in 0..5 {
        source.put(completed(&format!("payments#{number}"))).await;
    }
    // Loses one response for each of these keys: that of its first put, or of its second.
    let losing = async |keys: &'static [&str], which: u32| {
        let puts = keys.iter().map(|key| (*key, AtomicU32::new(0))).collect::<Vec<_>>();
        let is_lost = Arc::new(move |request: &str| {
            let put = puts.iter().find(|(key, _)| {
                request.contains(".PutItem") && request.contains(&format!("\"payments#{key}\""))
            });
            put.is_some_and(|(_, puts)| puts.fetch_add(1, Ordering::Relaxed) == which)
        });
        let losing = source.losing_responses_when(move |request| is_lost(request)).await;
        let ended = copy(&losing, &target, &["--json", "--yes"]).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        let records = &ended.json()["records"];
        ["copied", "same", "replaced"].map(|name| records[name].as_u64().unwrap())
    };
    assert_eq!(losing(&["0", "1", "2"], 0).await, [2, 3, 0]);
    assert_eq!(losing(&["0", "1", "2"], 0).await, [0, 5, 0]);

    for number in 1..5 {
        source.delete(&format!("payments#{number}")).await;
    }
    target.put(abandoned("payments#0", 60)).await;
    // The first request shows the other item.
    assert_eq!(losing(&["0"], 1).await, [0, 0, 1]);
}

/// Those that have nothing of a record but the form of its key belong to other programs: they are not copied.
#[tokio::test]
async fn damaged_items_of_the_source_are_listed_and_fail_the_copy() {
    let (source, target) = pair().await;
    source.put(completed("payments#k")).await;
    let mut keys = Vec::new();
    source.put([("pk".to_owned(), s("payments#junk"))].into()).await;
    for attribute in ["owner", "status", "format"] {
        let mut item = completed(&format!("payments#{attribute}"));
        item.remove(attribute);
        source.put(item).await;
        keys.push(format!("payments#{attribute}"));
    }
    keys.sort();
    for options in [&["--json", "--dry-run"][..], &["--json", "--yes"], &["--json", "--yes"]] {
        let ended = copy(&source, &target, options).await;
        assert_eq!(ended.code, 1, "{ended:?}");
        let document = ended.json();
        let listed = document["source_damaged"].as_array().unwrap().iter();
        let mut listed: Vec<_> = listed.map(|pk| pk.as_str().unwrap().to_owned()).collect();
        listed.sort();
        assert_eq!(listed, keys, "{document}");
        assert!(ended.err.contains("3 items of table") && ended.err.contains("show --json"));
    }
    assert_eq!(target.items().await.len(), 4);
    let text = copy(&source, &target, &["--yes"]).await;
    assert!(keys.iter().all(|key| text.out.contains(key)), "{text:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn after_a_signal_the_place_is_printed() {
    let source = Store::open().await;
    for number in 0..64 {
        source.put(completed(&format!("payments#{number}"))).await;
    }
    for signal in ["-INT", "-TERM"] {
        let target = source.another_table(TableSchema::default()).await;
        let tables = ["--endpoint-url", &source.endpoint, "copy", "--from", &source.table];
        let slow = ["--to", &target.table, "--yes", "--json", "--parts", "1"];
        let slow = [&slow[..], &["--max-write-units", "8"]].concat();
        let mut program = crate::support::program(&[&tables[..], &slow].concat());
        program.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let running = program.spawn().expect("it starts");
        while target.items().await.is_empty() {
            tokio::task::yield_now().await;
        }
        let id = running.id().expect("it runs").to_string();
        let sent = tokio::process::Command::new("kill").args([signal, &id]).status().await;
        assert!(sent.expect("it runs").success());
        let ended = running.wait_with_output().await.expect("it ends");
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        let documents: Vec<Value> = serde_json::Deserializer::from_slice(&ended.stderr)
            .into_iter()
            .collect::<Result<_, _>>()
            .expect("documents");
        let [note, error] = &documents[..] else { panic!("two documents: {documents:?}") };
        let note = note["note"].as_str().expect("a note");
        assert!(note.starts_with("interrupted: ") && note.contains("--resume"), "{note}");
        assert_eq!(error["error"]["kind"], "interrupted");
        let place = error["error"]["resume"].as_str().expect("a place").to_owned();
        copied(&source, &target, &["--resume", &place]).await;
        assert_eq!(target.items().await.len(), 64);
    }
}

#[tokio::test]
async fn tables_that_do_not_fit_are_refused() {
    let (source, target) = pair().await;
    source.put(completed("payments#k")).await;
    let same = copy(&source, &source, &["--yes"]).await;
    assert!(same.error(4).contains("are the same table"), "{same:?}");
    let other = source.another_table(TableSchema::default().partition_key("id")).await;
    for (from, to) in [(&source, &other), (&other, &source)] {
        let refused = copy(from, to, &["--yes"]).await;
        let error = refused.error(4);
        assert!(error.contains("`id` (HASH, S)") && error.contains("--partition-key"), "{error}");
    }
    let missing = Store::without_table().await;
    let missing = Store { endpoint: source.endpoint.clone(), ..missing };
    for (from, to) in [(&source, &missing), (&missing, &source)] {
        let refused = copy(from, to, &["--yes"]).await;
        assert!(refused.error(1).contains(&missing.table), "{refused:?}");
    }
    let restoring = json!({"Table": {
        "TableName": source.table, "TableArn": "arn:aws:dynamodb:x", "TableStatus": "CREATING",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    }});
    let busy = source.answering("DescribeTable", &source.table, &restoring).await;
    let refused = copy(&busy, &target, &["--yes"]).await;
    assert!(refused.error(4).contains("wait until it is ACTIVE"), "{refused:?}");
    assert_eq!(target.items().await, []);
}

/// With a key of the same name and form, and one attribute of the same name.
async fn table_of_another_program(store: &Store) -> Store {
    let foreign = store.another_table(TableSchema::default()).await;
    for number in 0..300 {
        let item = [("pk", s(&format!("CUSTOMER#{number}"))), ("owner", s("alice"))];
        foreign.put(item.map(|(name, value)| (name.to_owned(), value)).into()).await;
    }
    foreign
}

#[tokio::test]
async fn a_target_of_another_program_is_refused_before_the_first_write() {
    let (source, _) = pair().await;
    source.put(completed("payments#k")).await;
    let foreign = table_of_another_program(&source).await;
    for options in [&["--yes"][..], &["--dry-run"]] {
        let refused = copy(&source, &foreign, options).await;
        let error = refused.error(4);
        assert!(error.starts_with("300 items that were read are of another program"), "{error}");
        for said in [&foreign.table, "--to", "--force", "nothing was written"] {
            assert!(error.contains(said), "{said}: {error}");
        }
    }
    assert_eq!(foreign.items().await.len(), 300);
    // Nothing is read for an estimate.
    assert_eq!(copy(&source, &foreign, &["--estimate"]).await.code, 0);
    // Who may not look is told so, and the copy needs no more than before.
    let is_scan = {
        let table = format!("\"{}\"", foreign.table);
        move |request: &str| request.contains(".Scan") && request.contains(&table)
    };
    let denied = source.denying_when(is_scan).await;
    let copied = copy(&denied, &foreign, &["--yes"]).await;
    assert_eq!((copied.code, foreign.items().await.len()), (0, 301), "{copied:?}");
    assert!(copied.err.contains("it is not checked whether"), "{copied:?}");
}

/// Also if all that it has is a damaged record, one of a newer version, or a part of an answer.
#[tokio::test]
async fn a_table_that_is_shared_with_another_program_is_a_target() {
    let (source, _) = pair().await;
    source.put(completed("payments#k")).await;
    let foreign = table_of_another_program(&source).await;
    let forced = copied(&source, &foreign, &["--force"]).await;
    assert_eq!(forced["records"]["copied"], 1, "{forced}");
    let mut part = completed("payments/%p/0a#1f/0");
    part.retain(|name, _| ["pk", "owner", "expires_at", "format"].contains(&name.as_str()));
    let mut formless = completed("payments#formless");
    formless.remove("format");
    for ours in [newer("payments#newer"), part, formless, completed("payments#other")] {
        foreign.delete("payments#k").await;
        let pk = ours["pk"].as_s().unwrap().clone();
        foreign.put(ours).await;
        let done = copied(&source, &foreign, &[]).await;
        assert_eq!(done["records"]["copied"], 1, "{pk}: {done}");
        foreign.delete(&pk).await;
    }
}

#[tokio::test]
async fn a_source_without_a_record_is_an_error() {
    let (empty, target) = pair().await;
    let foreign = table_of_another_program(&empty).await;
    for (source, has) in [(&empty, "has no item;"), (&foreign, "has no item that is one")] {
        for options in [&["--yes"][..], &["--dry-run"]] {
            let refused = copy(source, &target, options).await;
            let error = refused.err.lines().last().unwrap_or_default();
            assert!(refused.code == 4 && error.contains(has), "{refused:?}");
            assert!(error.contains(&source.table) && error.contains("--from"), "{error}");
        }
    }
    // Of the scope, although the table has others, more than one megabyte before them.
    for number in 0..4 {
        let note = s(&"x".repeat(350_000));
        empty.put(with(completed(&format!("refunds#{number}")), "note", note)).await;
    }
    let none = copy(&empty, &target, &["--yes", "--scope", "payments"]).await;
    assert_eq!(none.code, 3, "{none:?}");
    assert!(none.err.contains("has no record of scope `payments`"), "{none:?}");
    // What has expired was there.
    let old = empty.another_table(TableSchema::default()).await;
    old.put(with(completed("payments#old"), "expires_at", n(now() / 1000 - 5))).await;
    assert_eq!(copied(&old, &target, &[]).await["records"]["expired"], 1);
    assert_eq!(target.items().await, []);
}

#[tokio::test]
async fn unfinished_operations_are_listed_at_the_end() {
    let (source, target) = pair().await;
    for number in 0..25 {
        source.put(abandoned(&format!("payments#{number:02}"), 60)).await;
    }
    source.put(completed("payments#done")).await;
    let done = copy(&source, &target, &["--yes"]).await;
    assert_eq!(done.code, 0, "{done:?}");
    let (counts, listed) = done.out.split_once("PENDING  ").expect("a list");
    assert!(counts.contains("write units"), "{done:?}");
    assert!(
        listed.contains(&format!("25 operations; `idempotency --table {} stuck`", target.table))
    );
    for number in 0..25 {
        assert!(listed.contains(&format!("payments#{number:02}\n")), "{number}: {listed}");
    }
    assert!(!listed.contains("payments#done"), "{listed}");
    let stuck = target.json(&["stuck"]).await;
    assert_eq!(stuck["stuck"].as_array().map(Vec::len), Some(25), "{stuck}");
}

#[tokio::test]
async fn nothing_is_copied_without_consent() {
    let (source, target) = pair().await;
    source.put(completed("payments#k")).await;
    let refused = copy(&source, &target, &[]).await;
    assert!(refused.error(4).contains("--yes"), "{refused:?}");
    assert!(refused.out.contains("write units"), "{refused:?}");
    let refused = copy(&source, &target, &["--json"]).await;
    assert_eq!(refused.json_error()["kind"], "usage");
    let estimate = copy(&source, &target, &["--estimate", "--json", "--yes"]).await;
    assert!(estimate.json()["write_units"].is_number(), "{estimate:?}");
    assert_eq!(target.items().await, []);
}

#[tokio::test]
async fn a_missing_permission_is_named() {
    let (source, target) = pair().await;
    source.put(completed("payments#k")).await;
    for (operation, denied) in [("DescribeTable", &source), ("Scan", &source), ("PutItem", &target)]
    {
        let denying = source.failing(operation, 400, "AccessDeniedException").await;
        let ended = copy(&denying, &target, &["--yes"]).await;
        let error = ended.err.lines().last().unwrap_or_default();
        assert_eq!(ended.code, 1, "{ended:?}");
        let action = if operation == "PutItem" { "PutItem" } else { operation };
        assert!(error.contains(action) && error.contains(&denied.table), "{ended:?}");
    }
    assert_eq!(target.items().await, []);
}

/// As with `| head`.
#[cfg(unix)]
#[tokio::test]
async fn a_closed_output_does_not_stop_a_copy() {
    let (source, target) = pair().await;
    source.put(completed("payments#k")).await;
    let tables = ["copy", "--from", &source.table, "--to", &target.table, "--yes"];
    let (code, err) = source.run_without_reader(&tables).await;
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(target.items().await.len(), 1);
}

/// As on a full disk.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_output_that_cannot_be_written_does_not_lose_the_place() {
    let (source, target) = pair().await;
    for number in 0..8 {
        source.put(completed(&format!("payments#{number}"))).await;
    }
    let failing = source.failing_when(|request| request.contains("ExclusiveStartKey")).await;
    let tables = ["copy", "--from", &source.table, "--to", &target.table, "--yes"];
    let scan = ["--endpoint-url", &failing.endpoint, "--parts", "1", "--page-size", "1"];
    let mut copy = crate::support::program(&[&scan[..2], &tables, &scan[2..]].concat());
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    copy.stdout(full).stderr(std::process::Stdio::piped());
    let ended = copy.spawn().unwrap().wait_with_output().await.unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(6), "{err}");
    assert!(err.contains("cannot be written") && err.contains("--resume"), "{err}");
}

#[tokio::test]
async fn an_estimate_for_a_program_needs_no_consent() {
    let (source, target) = pair().await;
    source.put(completed("payments#k")).await;
    let ended = copy(&source, &target, &["--json", "--estimate"]).await;
    assert_eq!((ended.code, target.items().await.len()), (0, 0), "{ended:?}");
    assert_eq!(ended.json()["schema"], 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_person_confirms_a_copy() {
    let (source, target) = pair().await;
    source.put(completed("payments#k")).await;
    let tables = ["copy", "--from", &source.table, "--to", &target.table];
    let refused = source.run_on_a_terminal(&tables, "n\n").await;
    assert_eq!((refused.code, target.items().await.len()), (4, 0), "{refused:?}");
    let done = source.run_on_a_terminal(&tables, "y\n").await;
    assert_eq!((done.code, target.items().await.len()), (0, 1), "{done:?}");
}

#[tokio::test]
async fn a_partition_is_copied_and_the_rest_of_the_table_left_alone() {
    let schema = TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK");
    let (source, target) = pair_with(schema).await;
    for partition in ["IDEMPOTENCY", "ORDERS"] {
        let mut item = completed("payments#k");
        let own = item.remove("pk").expect("a key");
        source.put(with(with(item, "SK", own), "PK", s(partition))).await;
    }
    let done = copied(&source, &target, &["--composite-key", "PK=IDEMPOTENCY,SK"]).await;
    assert_eq!(done["records"]["copied"], 1, "{done}");
    let found = target.items().await;
    assert_eq!(found.iter().map(|item| &item["PK"]).collect::<Vec<_>>(), [&s("IDEMPOTENCY")]);
}

/// A copy, a release by hand, and the same copy again.
#[tokio::test]
async fn a_failure_that_was_released_by_hand_stays_released() {
    let (source, target) = pair().await;
    for key in ["a", "b"] {
        source.put(failed(&format!("payments#{key}"))).await;
    }
    copied(&source, &target, &[]).await;
    let released = target.run(&["release", "--stuck", "--failed", "--yes"]).await;
    assert_eq!(released.code, 0, "{released:?}");
    let again = copied(&source, &target, &[]).await;
    assert_eq!(again["records"]["kept_by_status"], json!({"RELEASED": 2}), "{again}");
    assert!(target.is_released("payments#a").await && target.is_released("payments#b").await);
}

#[tokio::test]
async fn damaged_items_of_the_target_are_listed_and_fail_the_copy() {
    let (source, target) = pair().await;
    let mut formless = completed("payments#formless");
    formless.remove("format");
    for item in [damaged("payments#damaged"), formless.clone()] {
        let pk = item["pk"].as_s().unwrap().clone();
        source.put(completed(&pk)).await;
        target.put(item).await;
    }
    target.put(newer("payments#newer")).await;
    source.put(completed("payments#newer")).await;
    let ended = copy(&source, &target, &["--yes"]).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("2 items of table") && ended.err.contains("delete-item"));
    for key in ["payments#damaged", "payments#formless"] {
        assert!(ended.out.contains(key), "{ended:?}");
    }
    assert!(ended.out.contains("1 newer, 2 unreadable"), "{ended:?}");
    assert_eq!(target.item("payments#formless").await, Some(formless));
    // As an item of the source it is a damaged record too.
    let other = source.another_table(TableSchema::default()).await;
    let back = copy(&target, &other, &["--json", "--yes"]).await.json();
    assert_eq!(back["records"]["copied_by_status"], json!({"newer": 1, "unreadable": 2}));
}

/// DynamoDB bills the writes that it rejects, and each reading of the source.
#[tokio::test]
async fn rejected_writes_and_both_readings_are_counted() {
    let (source, target) = pair().await;
    let large = with(completed("payments#large"), "note", s(&"x".repeat(3000)));
    for item in [completed("payments#k"), large, abandoned("payments#dead", 60)] {
        source.put(item).await;
    }
    let first = copied(&source, &target, &[]).await;
    assert_eq!((&first["write_units"], &first["rejected_write_units"]), (&json!(6), &json!(0)));
    assert_eq!(first["read"]["items"], 6, "{first}");
    let again = copied(&source, &target, &[]).await;
    assert_eq!((&again["write_units"], &again["rejected_write_units"]), (&json!(0), &json!(6)));
    let dry = copied(&source, &target, &["--dry-run"]).await;
    assert_eq!((&dry["target_reads"], &dry["rejected_write_units"]), (&json!(3), &json!(0)));
    let text = copy(&source, &target, &["--yes"]).await.out;
    assert!(text.contains("about 6, billed too"), "{text}");
    let other = source.another_table(TableSchema::default()).await;
    let text = copy(&source, &other, &["--yes"]).await.out;
    assert!(text.contains("1 operation; ") && text.contains("payments#dead\n"), "{text}");
}

#[tokio::test]
async fn a_place_continues_only_the_command_that_printed_it() {
    let (source, target) = pair().await;
    for number in 0..8 {
        source.put(abandoned(&format!("payments#{number}"), 60)).await;
    }
    let scan = ["--parts", "1", "--page-size", "1", "--limit", "1"];
    let stopped = source.json(&[&["stuck"], &scan[..]].concat()).await;
    let place = stopped["read"]["resume"].as_str().expect("a place");
    let copying = copied(&source, &target, &scan).await;
    let of_copy = copying["read"]["resume"].as_str().expect("a place");
    let other = source.another_table(TableSchema::default()).await;
    let refused = [
        copy(&source, &target, &["--yes", "--resume", place]).await,
        copy(&source, &other, &["--yes", "--resume", of_copy]).await,
        copy(&source, &target, &["--dry-run", "--resume", of_copy]).await,
        copy(&source, &target, &["--yes", "--scope", "payments", "--resume", of_copy]).await,
        target.run(&["stuck", "--resume", place]).await,
        source.run(&["stuck", "--failed", "--resume", place]).await,
        source.run(&["stuck", "--scope", "payments", "--resume", place]).await,
        source.run(&["release", "--stuck", "--yes", "--resume", place]).await,
        source.run(&["stats", "--resume", of_copy]).await,
    ];
    for ended in refused {
        assert!(ended.error(2).contains("another command, table or scope"), "{ended:?}");
    }
    assert_eq!((other.items().await, target.items().await), (vec![], vec![]));
    // A table of the same name that was made later.
    target.make_again().await;
    let ended = copy(&source, &target, &["--yes", "--resume", of_copy]).await;
    assert!(ended.error(2).contains("another command, table or scope"), "{ended:?}");
    let rest = source.json(&["stuck", "--resume", place]).await;
    assert_eq!(rest["read"]["items"], 7, "{rest}");
}

/// A request would run with it, although the source has completed.
#[tokio::test]
async fn an_expired_record_of_the_target_counts_as_absent() {
    type Make = fn(&str) -> Item;
    let (source, target) = pair().await;
    let expired = |item| with(item, "expires_at", n(now() / 1000 - 5));
    let targets: [(&str, Make); 3] = [
        ("completed", completed),
        ("blocker", blocker),
        ("later", |pk| with(failed(pk), "attempt", n(7))),
    ];
    for (key, item) in targets {
        let pk = format!("payments#{key}");
        source.put(released(&pk)).await;
        target.put(expired(item(&pk))).await;
    }
    // A lease is live until its end.
    source.put(completed("payments#live")).await;
    target.put(with(expired(pending("payments#live")), "attempt", n(7))).await;
    let done = copied(&source, &target, &[]).await;
    assert_eq!((&done["records"]["replaced"], &done["records"]["kept"]), (&json!(3), &json!(1)));
    for (key, _) in targets {
        let pk = format!("payments#{key}");
        assert_eq!(target.item(&pk).await, source.item(&pk).await, "{pk}");
    }
}
