//! A JSON text of about the size that is asked for, with little in it that repeats but the names.

use std::fmt::Write as _;

/// Members in their order, and nothing between them.
#[must_use]
pub fn text(bytes: usize) -> String {
    written(bytes, |out, Line { article, count, price }| {
        write!(out, "{{\"article\":\"{article:016x}\",\"count\":{count},\"price\":{price}}}")
    })
}

/// The same, spelled loosely: other members first, and blanks.
#[must_use]
pub fn loose_text(bytes: usize) -> String {
    written(bytes, |out, Line { article, count, price }| {
        write!(out, "{{\"price\": {price}, \"article\": \"{article:016x}\", \"count\": {count}}}")
    })
}

struct Line {
    article: u64,
    count: u64,
    price: u64,
}

fn written(bytes: usize, line: impl Fn(&mut String, Line) -> std::fmt::Result) -> String {
    let mut random: u64 = 42;
    // Knuth's MMIX generator: the same text in every run.
    let mut next = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 16
    };
    let mut out = String::with_capacity(bytes + 128);
    out.push_str("{\"id\":\"order-42\",\"lines\":[");
    while out.len() + 60 < bytes {
        // Writing to a string does not fail.
        let _ =
            line(&mut out, Line { article: next(), count: next() % 9, price: next() % 100_000 });
        out.push(',');
    }
    out.pop();
    out.push_str("]}");
    out
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn both_spellings_are_of_one_value_and_about_as_long_as_was_asked_for() {
        for bytes in [512, 10 * 1024, 100 * 1024] {
            let text = super::text(bytes);
            assert!(text.len().abs_diff(bytes) < 64, "{} bytes", text.len());
            let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            let loose = super::loose_text(bytes);
            let (value, loose) = (value(&text), value(&loose));
            assert_eq!(value["lines"][0], loose["lines"][0]);
        }
    }
}
