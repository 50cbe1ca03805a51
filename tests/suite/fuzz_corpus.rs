//! The inputs in `tests/fuzz/corpus` stay checked without a fuzzer.

use std::path::{Path, PathBuf};

use dynamodb_idempotency::internals;

#[path = "../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "it is a library there")]
mod targets;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus")
}

fn pass(target: &str, run: fn(&[u8])) {
    let folder = corpus().join(target);
    let mut count = 0;
    for entry in folder.read_dir().unwrap() {
        run(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn the_corpus_of_each_target_passes() {
    pass("idempotency_key", targets::idempotency_key);
    pass("record", targets::record);
    pass("response", targets::response);
    pass("json", targets::json);
    pass("event", targets::event);
    pass("message", targets::message);
}

/// Were the notation misread, the fuzzer would look at nothing but errors.
#[test]
fn the_corpus_has_records_and_answers_that_can_be_read() {
    let read = |path: &str| std::fs::read(corpus().join(path)).unwrap();
    for name in ["pending", "completed", "failed", "steps"] {
        let item = targets::item(&read(&format!("record/{name}")));
        assert!(internals::record_reads_back(item).is_ok(), "{name}");
    }
    for name in ["json", "http", "http-empty", "unavailable", "packed", "parts"] {
        let value = targets::value(&read(&format!("response/{name}")));
        assert_eq!(internals::answer_reads_back(value.clone()), Some(true), "{name}: {value:?}");
    }
}

#[test]
fn every_input_is_some_value() {
    for input in ["", "M", "Ma", "Ma\nS", "L]", "}}}", "\n\n", "LLLL", "Ma\nLS\nN1\n]\n}\nx"] {
        targets::value(input.as_bytes());
        targets::item(input.as_bytes());
    }
    targets::value("L".repeat(100_000).as_bytes());
}
