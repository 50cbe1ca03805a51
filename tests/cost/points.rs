//! Where the curves of `benches/figures.md` are measured, for the programs that count and that time.

use std::fmt::Write as _;

/// Sizes of answers, in bytes.
pub(crate) const ANSWERS: [usize; 13] = [
    100,
    300,
    600,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    390 << 10,
    1 << 20,
    4 << 20,
];
/// Messages of an event.
pub(crate) const RECORDS: [u32; 5] = [1, 10, 100, 1_000, 10_000];
/// Tenants that use the same key.
pub(crate) const TENANTS: [u32; 5] = [1, 10, 100, 1_000, 10_000];

/// An event from SQS whose messages have their keys at `/order` of their bodies.
pub(crate) fn sqs_event(records: u32) -> String {
    let mut text = String::from(r#"{"Records":["#);
    for number in 0..records {
        let comma = if number == 0 { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            r#"{comma}{{"messageId":"{number}","body":"{{\"order\":\"{number}\"}}","attributes":{{}},"messageAttributes":{{}},"eventSource":"aws:sqs"}}"#
        );
    }
    text + "]}"
}
