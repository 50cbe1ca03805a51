//! Fingerprints, timed. As JSON.
//!
//! `fingerprints [TURNS]`: 25 without an argument.
//!
//! Criterion is not used: its dependencies enable features of crates that the AWS SDK uses, so every
//! contributor would build the SDK again. Median and spread are sufficient here.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use benches::order;
use dynamodb_idempotency::Fingerprint;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The fingerprints are measured in turns: what disturbs the machine for a while disturbs all of them.
const TURNS: usize = 25;
/// The shortest turn of one fingerprint.
const TURN: Duration = Duration::from_millis(4);

const SIZES: [(&str, usize); 3] = [("0.5 KB", 512), ("10 KB", 10 * 1024), ("100 KB", 100 * 1024)];

struct Case {
    name: String,
    text: String,
    hash: fn(&str) -> [u8; 32],
}

fn main() -> Result<()> {
    let turns = std::env::args().nth(1).map_or(Ok(TURNS), |turns| turns.parse())?;
    let cases: Vec<Case> = SIZES.into_iter().flat_map(of_size).collect();
    let repeats: Vec<u32> = cases.iter().map(repeats).collect();
    let mut nanos = vec![Vec::with_capacity(turns); cases.len()];
    for _ in 0..turns {
        for ((case, repeats), nanos) in cases.iter().zip(&repeats).zip(&mut nanos) {
            nanos.push(case.run(*repeats).as_secs_f64() * 1e9 / f64::from(*repeats));
        }
    }
    let rows: Vec<Value> = cases.iter().zip(nanos).map(|(case, nanos)| row(case, nanos)).collect();
    println!("{}", Value::from(rows));
    Ok(())
}

impl Case {
    /// Hashes the text this many times and returns the duration.
    fn run(&self, repeats: u32) -> Duration {
        let start = Instant::now();
        for _ in 0..repeats {
            black_box((self.hash)(black_box(&self.text)));
        }
        start.elapsed()
    }
}

/// How often a text is hashed in a turn.
fn repeats(case: &Case) -> u32 {
    let mut repeats = 1;
    while case.run(repeats) < TURN {
        repeats *= 2;
    }
    repeats
}

fn row(case: &Case, mut nanos: Vec<f64>) -> Value {
    nanos.sort_by(f64::total_cmp);
    let at = |share: usize| nanos[(nanos.len() - 1) * share / 100];
    let bytes = case.text.len();
    json!({ "name": case.name, "bytes": bytes, "ns": at(50), "low": at(10), "high": at(90) })
}

fn of_size((size, bytes): (&str, usize)) -> [Case; 4] {
    let (sorted, loose) = (order::text(bytes), order::loose_text(bytes));
    let case = |what: &str, text: &str, hash| Case {
        name: format!("{what}, {size}"),
        text: text.to_owned(),
        hash,
    };
    [
        case("SHA-256 alone", &sorted, |text| Sha256::digest(text).into()),
        case("fingerprint of bytes", &sorted, |text| {
            *Fingerprint::builder().bytes(text.as_bytes()).finish().as_bytes()
        }),
        case("fingerprint of JSON", &sorted, of_json),
        case("fingerprint of JSON, members to sort", &loose, of_json),
    ]
}

fn of_json(text: &str) -> [u8; 32] {
    *Fingerprint::builder().json(text.as_bytes()).finish().as_bytes()
}
