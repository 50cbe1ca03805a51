//! `idempotency stuck` and `idempotency stats`

use dynamodb_idempotency::policy::{Compression, LargeAnswers};
use dynamodb_idempotency::signals::hashed_key;
use dynamodb_idempotency::{Policy, TableSchema};
use serde_json::{Value, json};

use crate::support::{Item, Store, abandoned, completed, n, pasted, pending, s, with};

async fn filled() -> Store {
    let store = Store::open().await;
    for item in [
        abandoned("payments#old", 7_300),
        with(abandoned("payments/%t/acme#young", 120), "attempt", n(3)),
        with(abandoned("payments#gone", 7_200), "expires_at", n(1_000_000_000)),
        pending("payments#live"),
        completed("payments#done"),
        with(with(completed("refunds#failed"), "status", s("FAILED")), "attempt", n(2)),
    ] {
        store.put(item).await;
    }
    store
}

fn keys(stuck: &Value) -> Vec<&str> {
    let stuck = stuck["stuck"].as_array().expect("a list");
    stuck.iter().map(|one| one["key"].as_str().expect("a key")).collect()
}

#[tokio::test]
async fn stuck_lists_abandoned_records_oldest_first() {
    let store = filled().await;
    let stuck = store.json(&["stuck"]).await;
    assert_eq!(keys(&stuck), ["old", "young"]);
    let young = &stuck["stuck"][1];
    assert_eq!((&young["scope"], &young["attempt"]), (&json!("payments/%t/acme"), &json!(3)));
    assert_eq!(young["key_hash"], hashed_key("payments/%t/acme#young"));

    let older = store.json(&["stuck", "--older-than", "1h"]).await;
    assert_eq!(keys(&older), ["old"]);

    let text = store.run(&["stuck"]).await.out;
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("SCOPE"), "{text}");
    let old = lines.next().unwrap();
    assert!(old.contains("2 h") && old.contains(&hashed_key("payments#old")), "{text}");
    assert!(text.contains("2 operations are stuck"), "{text}");
}

#[tokio::test]
async fn nothing_stuck_is_said() {
    let store = Store::open().await;
    let text = store.run(&["stuck"]).await;
    assert_eq!((text.code, text.out.starts_with("0 operations are stuck")), (0, true), "{text:?}");
    let stuck = store.json(&["stuck"]).await;
    assert_eq!((&stuck["schema"], &stuck["stuck"]), (&json!(1), &json!([])));
    assert_eq!(stuck["read"]["resume"], json!(null));
}

#[tokio::test]
async fn stats_count_every_record_once() {
    let store = filled().await;
    let stats = store.json(&["stats"]).await;
    let payments = json!({
        "in_progress": 1, "abandoned": 2, "completed": 1, "failed": 0, "released": 0,
        "blocked": 0, "expired": 1, "retried": 1,
    });
    assert_eq!(stats["operations"]["payments"], payments);
    assert_eq!(stats["operations"]["refunds"]["failed"], 1);
    assert_eq!((&stats["read"]["items"], &stats["unreadable"]), (&json!(6), &json!(0)));
    assert!(stats["read"]["read_units"].as_f64().unwrap() > 0.0);

    let scopes = store.json(&["stats", "--scopes"]).await;
    assert_eq!(scopes["operations"]["payments/%t/acme"]["abandoned"], 1);
    let text = store.run(&["stats"]).await.out;
    assert!(text.contains("OPERATION") && text.contains("6 items were read"), "{text}");
}

/// More than one page of 1 MB, in any number of parts, within any limit.
#[tokio::test]
async fn a_large_table_is_read_to_its_end() {
    let store = Store::open().await;
    let filler = s(&"x".repeat(150_000));
    for number in 0..16 {
        store.put(with(abandoned(&format!("payments#{number}"), 60), "note", filler.clone())).await;
    }
    for options in [&["--parts", "1"][..], &["--parts", "7"], &["--max-units", "0"]] {
        let stats = store.json(&[&["stats"], options].concat()).await;
        assert_eq!(stats["operations"]["payments"]["abandoned"], 16, "{options:?}");
        let stuck = store.json(&[&["stuck"], options].concat()).await;
        assert_eq!(keys(&stuck).len(), 16, "{options:?}");
    }
}

/// By some items at a time, each scan from where the last one stopped: nothing twice, nothing left out.
#[tokio::test]
async fn a_scan_that_was_limited_goes_on() {
    let store = Store::open().await;
    let filler = s(&"x".repeat(150_000));
    for number in 0..16 {
        store
            .put(with(abandoned(&format!("payments#{number:02}"), 60), "note", filler.clone()))
            .await;
    }
    let mut found = Vec::new();
    let mut place = vec!["--parts".to_owned(), "2".to_owned()];
    let mut scans = 0;
    loop {
        let place_args: Vec<_> = place.iter().map(String::as_str).collect();
        let stuck = store.json(&[&["stuck", "--limit", "1"], &place_args[..]].concat()).await;
        found.extend(keys(&stuck).into_iter().map(str::to_owned));
        scans += 1;
        assert!(scans < 20, "{stuck}");
        let Some(resume) = stuck["read"]["resume"].as_str() else { break };
        place = vec!["--resume".to_owned(), resume.to_owned()];
    }
    found.sort();
    let expected: Vec<_> = (0..16).map(|number| format!("{number:02}")).collect();
    assert_eq!(found, expected);
    assert!(scans > 1, "{scans}");
    let text = store.run(&["stats", "--parts", "1", "--limit", "1"]).await;
    let (_, place) = text.out.split_once("continue with --resume ").expect("a place");
    let (_, parts) = place.split_once('-').expect("a mark");
    assert!(parts.starts_with("1.0:"), "{text:?}");
}

#[tokio::test]
async fn a_scope_includes_the_scopes_below_it_only() {
    for schema in
        [TableSchema::default(), TableSchema::default().composite_key("pk", "IDEMPOTENCY", "SK")]
    {
        let is_composite = schema != TableSchema::default();
        let store = Store::with_schema(schema).await;
        for key in ["payments#a", "payments/%t/acme#b", "payments-old#c", "refunds#d"] {
            let mut item = abandoned(key, 60);
            if is_composite {
                let key = item.insert("pk".to_owned(), s("IDEMPOTENCY")).unwrap();
                item = with(item, "SK", key);
            }
            store.put(item).await;
        }
        let shape = ["--composite-key", "pk=IDEMPOTENCY,SK"];
        let shape = if is_composite { &shape[..] } else { &[] };
        let within = async |scope| {
            let stuck = store.json(&[shape, &["stuck", "--scope", scope]].concat()).await;
            let mut keys: Vec<_> = keys(&stuck).into_iter().map(str::to_owned).collect();
            keys.sort();
            (keys.join(""), stuck["read"]["items"].as_u64().unwrap())
        };
        // Where a partition is read by its sort key, the rest costs nothing.
        let read = |fewer| if is_composite { fewer } else { 4 };
        assert_eq!(within("payments").await, ("ab".to_owned(), read(3)));
        assert_eq!(within("payments/%t/acme").await, ("b".to_owned(), read(1)));
        let absent = store.run(&[shape, &["stuck", "--scope", "absent"]].concat()).await;
        assert_eq!(absent.code, 3, "{absent:?}");
        assert_eq!(within("refunds").await, ("d".to_owned(), read(1)));
        let stats = store.json(&[shape, &["stats", "--scope", "refunds"]].concat()).await;
        let operations = stats["operations"].as_object().unwrap();
        assert_eq!(operations.keys().collect::<Vec<_>>(), ["refunds"]);
    }
    let wrong = Store::open().await.run(&["stuck", "--scope", "a#b"]).await;
    assert!(wrong.error(2).contains("is not an encoded scope"), "{wrong:?}");
}

#[tokio::test]
async fn the_cost_of_a_scan_is_shown_before_it_starts() {
    let store = filled().await;
    for command in [&["stuck"][..], &["stats"], &["find", "--hash", "0123456789abcdef"]] {
        let estimate = [command, &["--estimate"]].concat();
        let json = store.json(&estimate).await;
        for member in ["items", "bytes", "read_units", "seconds", "dollars"] {
            assert!(json[member].is_number(), "{member}: {json}");
        }
        let text = store.run(&estimate).await;
        assert!(text.out.contains("read units (about $"), "{text:?}");
    }
}

/// A scan itself does not need the description.
#[tokio::test]
async fn an_estimate_that_may_not_describe_the_table_names_the_action() {
    let denying = filled().await.failing("DescribeTable", 400, "AccessDeniedException").await;
    let ended = denying.run(&["stats", "--estimate"]).await;
    assert!(ended.error(1).contains("grant dynamodb:DescribeTable on table"), "{ended:?}");
    let scanned = denying.run(&["stats"]).await;
    assert_eq!(scanned.code, 0, "{scanned:?}");
    let missing = Store::without_table().await.run(&["stats", "--estimate"]).await;
    assert!(missing.error(1).contains("create it"), "{missing:?}");
}

#[tokio::test]
async fn a_hash_of_the_logs_leads_to_its_record() {
    let store = filled().await;
    let hash = hashed_key("payments/%t/acme#young");
    let found = store.json(&["find", "--hash", &hash.to_uppercase()]).await;
    assert_eq!((&found["key"], &found["key_hash"]), (&json!("young"), &json!(hash)));
    let text = store.run(&["find", "--hash", &hash, "--scope", "payments"]).await;
    assert!(text.out.contains("young") && text.out.contains(&hash), "{text:?}");
    let shown = store.run(&["show", "payments/%t/acme", "young"]).await;
    assert!(shown.out.contains(&hash), "{shown:?}");
    let elsewhere = store.run(&["find", "--hash", &hash, "--scope", "refunds"]).await;
    assert!(elsewhere.error(3).contains(&hash), "{elsewhere:?}");
}

/// Records of a newer version by their keys, items of other programs in one line without theirs.
#[tokio::test]
async fn items_of_other_programs_are_counted_in_one_line() {
    let store = filled().await;
    for number in 0..30 {
        store.put([("pk".to_owned(), s(&format!("CUSTOMER#{number}")))].into()).await;
    }
    store.put(with(pending("payments#newer"), "format", n(9))).await;
    let stats = store.run(&["stats"]).await;
    assert_eq!(stats.code, 0, "{stats:?}");
    assert!(stats.err.contains("30 items are no records of this crate"), "{stats:?}");
    assert!(stats.err.contains("`payments#newer` is not counted"), "{stats:?}");
    assert!(stats.err.contains("format 9") && !stats.err.contains("CUSTOMER"), "{stats:?}");
    assert_eq!(stats.err.lines().count(), 2, "{stats:?}");

    let stats = store.run(&["stats", "--json"]).await;
    let document = stats.json();
    assert_eq!((&document["unreadable"], &document["other_items"]), (&json!(1), &json!(30)));
    assert_eq!(stats.err.lines().count(), 1, "{stats:?}");
    let stuck = store.run(&["stuck"]).await;
    assert!(stuck.err.contains("warning: `payments#newer` is not counted"), "{stuck:?}");
}

/// What the mark of a place is a hash of.
fn marked(command: &[&str], table: &str) -> String {
    let command = match command {
        ["stats"] => "stats".to_owned(),
        [command @ ("stuck" | "sweep")] => format!("{command} false"),
        ["find", "--hash", hash] => format!("find {hash}"),
        other => panic!("{other:?}"),
    };
    format!("{command}\0{table}\0")
}

/// A place that was reached, or that the caller has named, is in the error too.
#[tokio::test]
async fn an_error_keeps_the_place_of_a_scan() {
    let position = "1.0:eyJwayI6InBheW1lbnRzIzEifQ";
    let unreachable =
        Store { endpoint: "http://127.0.0.1:9".to_owned(), ..Store::without_table().await };
    let hash = ["find", "--hash", "0123456789abcdef"];
    for command in [&hash[..], &["stuck"], &["stats"], &["sweep"]] {
        let mark = hashed_key(&marked(command, &unreachable.table));
        let place = &format!("{}-{position}", &mark[..8]);
        let failed = unreachable.run(&[command, &["--resume", place]].concat()).await;
        let error = failed.error(6);
        assert!(error.ends_with(&format!("continue with --resume {place}")), "{error}");
        let failed = unreachable.run(&[&["--json"], command, &["--resume", place]].concat()).await;
        assert_eq!(failed.json_error()["resume"], **place, "{failed:?}");
    }

    let store = Store::open().await;
    let filler = s(&"x".repeat(150_000));
    for number in 0..16 {
        store.put(with(abandoned(&format!("payments#{number}"), 60), "note", filler.clone())).await;
    }
    let limited = [&hash[..], &["--parts", "1", "--limit", "1"]].concat();
    let absent = store.run(&[&["--json"], &limited[..]].concat()).await;
    let error = absent.json_error();
    assert_eq!(error["kind"], "absent");
    let place = error["resume"].as_str().expect("a place").to_owned();
    let rest = store.run(&[&hash[..], &["--resume", &place]].concat()).await;
    assert!(!rest.error(3).contains("--resume"), "{rest:?}");
}

#[tokio::test]
async fn a_tenant_is_named_as_the_service_names_it() {
    let store = Store::open().await;
    store.put(abandoned("payments/%t/acme%2Feu#k", 60)).await;
    store.put(abandoned("payments#k", 60)).await;
    let tenant = ["--tenant", "acme/eu"];
    let shown = store.json(&[&["show", "payments", "k"], &tenant[..]].concat()).await;
    assert_eq!(shown["scope"], "payments/%t/acme%2Feu");
    let watch = [&["watch", "payments", "none", "--timeout", "1ms"], &tenant[..]].concat();
    let watched = store.run(&watch).await;
    assert!(watched.error(3).contains("`payments/%t/acme%2Feu#none`"));
    for command in [&["stuck"][..], &["stats"], &["sweep"], &["find", "--hash", "0123456789abcdef"]]
    {
        let without = store.run(&[command, &tenant].concat()).await;
        assert!(without.error(2).contains("add --scope"), "{without:?}");
    }
    let stuck = store.json(&[&["stuck", "--scope", "payments"], &tenant[..]].concat()).await;
    assert_eq!(stuck["stuck"].as_array().map(Vec::len), Some(1), "{stuck}");
    let doctor = store.json(&[&["doctor", "--scope", "payments"], &tenant[..]].concat()).await;
    assert!(doctor.to_string().contains("records of payments/%t/acme%2Feu"), "{doctor}");
    let doctor = store.run(&[&["doctor"], &tenant[..]].concat()).await;
    assert!(doctor.error(2).contains("add --scope"), "{doctor:?}");
    store.json(&[&["release", "payments", "k", "--yes"], &tenant[..]].concat()).await;
    assert!(store.is_released("payments/%t/acme%2Feu#k").await);
    assert!(!store.is_released("payments#k").await);
    let empty = store.run(&["show", "payments", "k", "--tenant", ""]).await;
    assert_eq!(empty.code, 2, "{empty:?}");
}

/// What a hint says after "next: ", in a shell, does it: with the same table, and with keys of any form.
#[cfg(unix)]
#[tokio::test]
async fn a_printed_hint_can_be_pasted() {
    let store = Store::open().await;
    for key in ["-1", "--help", "o'clock $HOME", "a\u{1b}[2J\u{7f}", "order-42"] {
        store.put(abandoned(&format!("payments#{key}"), 60)).await;
        let stuck = store.run(&["stuck"]).await;
        let (_, hint) = stuck.out.split_once("next: ").expect("a hint");
        let shown = pasted(hint).await;
        assert_eq!(shown.code, 0, "{key:?}: {hint}: {shown:?}");
        let (_, hint) = shown.out.rsplit_once("Takeover::Reject: ").expect("a hint");
        let released = pasted(&hint.trim_end().replace(" release ", " release --yes ")).await;
        assert_eq!(released.code, 0, "{key:?}: {hint}: {released:?}");
        assert!(store.is_released(&format!("payments#{key}")).await, "{key:?}");
    }
}

/// A page that times out is requested again with fewer items, and so are the pages after it.
#[tokio::test]
async fn a_page_that_times_out_is_halved() {
    let store = Store::open().await;
    for number in 0..40 {
        store.put(abandoned(&format!("payments#{number:02}"), 60)).await;
    }
    let limits = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = limits.clone();
    let slow = store.silent_when(move |request| {
        if !request.contains(".Scan") {
            return false;
        }
        let (_, limit) = request.split_once("\"Limit\":").expect("a limit");
        let limit: String = limit.chars().take_while(char::is_ascii_digit).collect();
        let limit: u32 = limit.parse().expect("a number");
        seen.lock().unwrap().push(limit);
        limit > 16
    });
    let options = ["--parts", "1", "--page-size", "64", "--request-timeout", "2s"];
    let stuck = slow.await.json(&[&["stuck"], &options[..]].concat()).await;
    assert_eq!(keys(&stuck).len(), 40);
    let limits = limits.lock().unwrap().clone();
    assert_eq!(limits[..3], [64, 32, 16]);
    assert!(limits[3..].iter().all(|limit| *limit <= 16), "{limits:?}");

    let never = store.silent_when(|request| request.contains(".Scan")).await;
    let options = ["--parts", "1", "--page-size", "2", "--request-timeout", "200ms"];
    let ended = never.run(&[&["stuck"], &options[..]].concat()).await;
    assert!(ended.error(6).contains("did not respond within 200 ms"), "{ended:?}");
}

#[tokio::test]
async fn kept_failures_are_listed() {
    let store = filled().await;
    let old = with(with(completed("payments#old"), "status", s("FAILED")), "completed_at", n(5));
    store.put(old).await;
    let listed = store.json(&["stuck", "--failed"]).await;
    assert_eq!(keys(&listed), ["old", "failed"], "{listed}");
    assert_eq!(
        (&listed["stuck"][0]["status"], &listed["stuck"][1]["attempt"]),
        (&json!("FAILED"), &json!(2))
    );
    let older = store.json(&["stuck", "--failed", "--older-than", "1h"]).await;
    assert_eq!(keys(&older), ["old"]);
    let text = store.run(&["stuck", "--failed"]).await.out;
    assert!(text.contains("FAILED FOR") && text.contains("2 operations failed"), "{text}");
}

/// With no abandoned operation, but one record that cannot be read.
#[tokio::test]
async fn what_cannot_be_read_is_not_nothing() {
    let store = Store::open().await;
    store.put(with(pending("payments#newer"), "format", n(9))).await;
    let stuck = store.run(&["stuck"]).await;
    assert!(stuck.out.contains("next: look at the records that cannot be read"), "{stuck:?}");
}

/// Nothing but what was asked for: the bar is for who watches.
#[tokio::test]
async fn who_does_not_watch_sees_no_progress() {
    let store = filled().await;
    for command in ["stats", "stuck"] {
        let ended = store.run(&[command]).await;
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{command}: {ended:?}");
        assert!(!ended.out.contains(['\r', '\u{1b}']), "{command}: {ended:?}");
    }
}

/// On a terminal the progress bar appears and is removed at the end.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_terminal_shows_progress() {
    let store = filled().await;
    let ended = store.run_on_a_terminal(&["stats"], "").await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains('\u{1b}') && ended.out.contains("6 items were read"), "{ended:?}");
}

/// Answer parts are read by a scan but are not counted as records.
#[tokio::test]
async fn the_parts_of_an_answer_are_no_records() {
    let store = Store::open().await;
    let in_parts = |policy: Policy| {
        let policy = policy.compression(Compression::Off);
        policy.large_answers(LargeAnswers::InParts { above: 1024 })
    };
    store.done(store.builder().policy(in_parts), "large", &"x".repeat(70_000)).await;
    store.put(abandoned("payments#dead", 60)).await;
    let parts = store.items().await.len() - 2;
    assert!(parts >= 2, "{parts}");

    let stats = store.json(&["stats"]).await;
    let payments = json!({
        "in_progress": 0, "abandoned": 1, "completed": 1, "failed": 0, "released": 0,
        "blocked": 0, "expired": 0, "retried": 0,
    });
    assert_eq!(stats["operations"], json!({ "payments": payments }));
    assert_eq!((&stats["read"]["items"], &stats["unreadable"]), (&json!(parts + 2), &json!(0)));
    let by_scope = store.json(&["stats", "--scopes"]).await;
    assert_eq!(by_scope["operations"], json!({ "payments": payments }));

    let stuck = store.run(&["stuck"]).await;
    assert!(stuck.out.contains("dead") && stuck.out.contains("1 operation is stuck"), "{stuck:?}");
    assert_eq!(stuck.err, "");
}

/// As with `show`. A table without records, except for a copy, and a scope in which nothing is stuck, are no error.
#[tokio::test]
async fn a_scope_that_does_not_exist_is_an_error_with_those_that_do() {
    let store = Store::open().await;
    let target = store.another_table(TableSchema::default()).await;
    let copy = ["copy", "--from", &store.table, "--to", &target.table, "--yes"];
    let commands: [&[&str]; 5] = [
        &["stuck"],
        &["stats"],
        &["find", "--hash", "0123456789abcdef"],
        &["release", "--stuck", "--yes"],
        &copy,
    ];
    let in_scope =
        async |command: &[&str], scope| store.run(&[command, &["--scope", scope]].concat()).await;
    for command in commands.into_iter().filter(|command| command[0] != "find") {
        let expected = if command[0] == "copy" { 3 } else { 0 };
        assert_eq!(in_scope(command, "payment").await.code, expected, "{command:?}");
    }
    store.put(completed("payments/v2#k")).await;
    for command in commands {
        let ended = in_scope(command, "payment").await;
        assert_eq!(ended.code, 3, "{ended:?}");
        let said = "no record of scope `payment`; scopes that exist: `payments/v2`";
        assert!(ended.err.contains(said), "{ended:?}");
        if command[0] != "find" {
            assert_eq!(in_scope(command, "payments").await.code, 0, "{command:?}");
        }
    }
}

/// Also one that lacks attributes. A newer one is told apart.
#[tokio::test]
async fn a_record_that_cannot_be_read_is_found_by_its_hash_and_listed() {
    let store = Store::open().await;
    let mut formless = completed("payments#formless");
    formless.remove("format");
    let bare = [("pk".to_owned(), s("payments#bare"))].into();
    let damaged = with(completed("payments#damaged"), "fingerprint", s("x"));
    let newer = with(completed("payments#newer"), "format", n(9));
    for item in [formless, bare, damaged, newer] {
        store.put(item).await;
    }
    for key in ["formless", "bare", "damaged", "newer"] {
        let hash = hashed_key(&format!("payments#{key}"));
        let found = store.run(&["find", "--hash", &hash]).await;
        assert_eq!(found.code, 1, "{found:?}");
        let said = format!("`payments#{key}` has this hash, and cannot be read");
        assert!(found.err.contains(&said), "{found:?}");
    }
    let stats = store.run(&["stats"]).await;
    assert!(stats.err.contains("1 item is no record"), "{stats:?}");
    for key in ["formless", "damaged", "newer"] {
        assert!(stats.err.contains(&format!("`payments#{key}` is not counted")), "{stats:?}");
    }
    let stats = store.json(&["stats"]).await;
    assert_eq!((&stats["unreadable"], &stats["newer"]), (&json!(3), &json!(1)), "{stats}");
}

/// One attribute of a record is enough. The parts of answers are no records, nor is what has nothing of a record but
/// the form of its key, such as an item of Powertools.
#[tokio::test]
async fn every_scan_lists_an_item_with_a_records_key_that_is_damaged() {
    let composite = TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK");
    for schema in [TableSchema::default(), composite] {
        let is_composite = schema != TableSchema::default();
        let store = Store::with_schema(schema).await;
        let keyed = |item: Item| {
            if !is_composite {
                return item;
            }
            let mut item = with(item, "PK", s("IDEMPOTENCY"));
            let key = item.remove("pk").unwrap();
            with(item, "SK", key)
        };
        let item = |pk: &str| Item::from([("pk".to_owned(), s(pk))]);
        let part = with(with(item("payments/%p/x#1.1"), "format", n(1)), "response", s("x"));
        for one in [
            completed("payments#k"),
            with(item("payments#format"), "format", n(1)),
            with(item("payments#junk"), "junk", s("x")),
            with(completed("payments#status"), "status", s("DONE")),
            part,
            item("of another program"),
        ] {
            store.put(keyed(one)).await;
        }
        let shape: &[&str] =
            if is_composite { &["--composite-key", "PK=IDEMPOTENCY,SK"] } else { &[] };
        for command in [&["stats"][..], &["stuck"], &["stuck", "--failed"], &["doctor"]] {
            let ended = store.run(&[shape, command].concat()).await;
            assert_eq!(ended.code, i32::from(command == ["doctor"]), "{ended:?}");
            let said = format!("{}{}", ended.out, ended.err);
            for key in ["payments#format", "payments#status"] {
                assert!(said.contains(&format!("`{key}`")), "{command:?}: {said}");
            }
            for other in ["%p", "payments#junk"] {
                assert!(!said.contains(other), "{command:?}: {said}");
            }
        }
    }
}

#[tokio::test]
async fn many_records_that_cannot_be_read_are_not_all_listed() {
    let store = Store::open().await;
    for number in 0..103 {
        store.put(with(pending(&format!("payments#{number}")), "fingerprint", s("x"))).await;
    }
    let stats = store.run(&["stats"]).await;
    assert_eq!(stats.err.lines().count(), 101, "{stats:?}");
    assert!(stats.err.contains("3 records more cannot be read"), "{stats:?}");
}
