//! The pure parts of a call, timed: key, fingerprint, record, decision, stored answer. As JSON.
//!
//! `parts [TURNS]`: 25 without an argument.
//!
//! Criterion is not used: its dependencies enable features of crates that the AWS SDK uses, so every
//! contributor would build the SDK again. Median and spread are sufficient here.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use benches::order;
use bytes::Bytes;
use dynamodb_idempotency::Fingerprint;
use dynamodb_idempotency::internals::{self, Calls};
use dynamodb_idempotency::policy::Compression;
use http::{HeaderMap, HeaderValue, Response};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The parts are measured in turns: what disturbs the machine for a while disturbs all of them.
const TURNS: usize = 25;
/// The least time of one turn of one part.
const TURN: Duration = Duration::from_millis(4);

/// What bodies there are, and their bytes.
const SIZES: [(&str, usize); 3] = [("0.5 KB", 512), ("10 KB", 10 * 1024), ("100 KB", 100 * 1024)];

struct Part {
    name: String,
    /// What one run reads or writes, where that is what counts.
    bytes: Option<usize>,
    /// Runs the part this many times and returns the duration.
    run: Box<dyn Fn(u32) -> Duration>,
}

fn main() -> Result<()> {
    let turns = std::env::args().nth(1).map_or(Ok(TURNS), |turns| turns.parse())?;
    let parts: Vec<Part> =
        [key(), fingerprint(), record()?, answer()?].into_iter().flatten().collect();
    let repeats: Vec<u32> = parts.iter().map(|part| repeats(&part.run)).collect();
    let mut nanos = vec![Vec::with_capacity(turns); parts.len()];
    for _ in 0..turns {
        for ((part, repeats), nanos) in parts.iter().zip(&repeats).zip(&mut nanos) {
            nanos.push((part.run)(*repeats).as_secs_f64() * 1e9 / f64::from(*repeats));
        }
    }
    let rows: Vec<Value> = parts.iter().zip(nanos).map(|(part, nanos)| row(part, nanos)).collect();
    println!("{}", Value::from(rows));
    Ok(())
}

/// How often a part runs in a turn.
fn repeats(run: &dyn Fn(u32) -> Duration) -> u32 {
    let mut repeats = 1;
    while run(repeats) < TURN {
        repeats *= 2;
    }
    repeats
}

fn row(part: &Part, mut nanos: Vec<f64>) -> Value {
    nanos.sort_by(f64::total_cmp);
    let at = |share: usize| nanos[(nanos.len() - 1) * share / 100];
    json!({ "name": part.name, "bytes": part.bytes, "ns": at(50), "low": at(10), "high": at(90) })
}

/// A part that is run on the same input over and over.
fn part<I: 'static, O: 'static>(
    name: &str,
    bytes: Option<usize>,
    input: I,
    work: impl Fn(&I) -> O + 'static,
) -> Part {
    let run = move |repeats| {
        let start = Instant::now();
        for _ in 0..repeats {
            black_box(work(black_box(&input)));
        }
        start.elapsed()
    };
    Part { name: name.to_owned(), bytes, run: Box::new(run) }
}

/// A part that uses its input up; the copies are made before the clock starts.
fn consumer<I: Clone + 'static, O: 'static>(
    name: &str,
    bytes: Option<usize>,
    input: I,
    work: impl Fn(I) -> O + 'static,
) -> Part {
    let run = move |repeats: u32| {
        let copies: Vec<I> = (0..repeats).map(|_| input.clone()).collect();
        let start = Instant::now();
        for input in copies {
            black_box(work(black_box(input)));
        }
        start.elapsed()
    };
    Part { name: name.to_owned(), bytes, run: Box::new(run) }
}

fn key() -> Vec<Part> {
    let part = |name, key: &'static str| {
        let headers = [(internals::KEY_HEADER, HeaderValue::from_static(key))];
        part(name, None, HeaderMap::from_iter(headers), |headers| {
            matches!(internals::find_key(headers), Ok(Some(_)))
        })
    };
    vec![
        part("key, bare", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        part("key, quoted", "\"8e03978e-40d5-43dd-bc93-6894a57f9324\""),
    ]
}

fn fingerprint() -> Vec<Part> {
    let of_one_size = |(size, bytes)| {
        let (sorted, loose) = (order::text(bytes), order::loose_text(bytes));
        let part = |what: &str, text: &str, work: fn(&String) -> [u8; 32]| {
            part(&format!("{what}, {size}"), Some(text.len()), text.to_owned(), work)
        };
        let json =
            |text: &String| *Fingerprint::builder().json(text.as_bytes()).finish().as_bytes();
        [
            part("SHA-256 alone", &sorted, |text| Sha256::digest(text).into()),
            part("fingerprint of bytes", &sorted, |text| {
                *Fingerprint::builder().bytes(text.as_bytes()).finish().as_bytes()
            }),
            part("fingerprint of JSON", &sorted, json),
            part("fingerprint of JSON, members to sort", &loose, json),
        ]
    };
    SIZES.into_iter().flat_map(of_one_size).collect()
}

fn record() -> Result<Vec<Part>> {
    let calls = Calls::new()?;
    let answer = internals::encode_answer(&response(512), Compression::Off);
    let completed = calls.completed(answer.context("the answer does not fit")?);
    ensure!(calls.is_replayed(completed.clone())?, "the record is no answer");
    let pending = part("record, pending", None, Calls::new()?, Calls::pending);
    let decided = consumer("record read and decided on", None, completed, move |item| {
        calls.is_replayed(item).is_ok_and(|is_replayed| is_replayed)
    });
    Ok(vec![pending, decided])
}

fn answer() -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for (size, bytes) in SIZES {
        for (form, compression) in
            [("uncompressed", Compression::Off), ("by zstd", Compression::Auto)]
        {
            let (response, calls) = (response(bytes), Calls::new()?);
            let encode = move |response: &_| internals::encode_answer(response, compression);
            let stored = encode(&response).context("the answer does not fit")?;
            ensure!(calls.is_answer(stored.clone()), "the answer cannot be read");
            let decode = move |stored| calls.is_answer(stored);
            parts.push(part(
                &format!("answer stored {form}, {size}"),
                Some(bytes),
                response,
                encode,
            ));
            let name = format!("answer read, stored {form}, {size}");
            parts.push(consumer(&name, Some(bytes), stored, decode));
            if bytes < 1024 {
                break;
            }
        }
    }
    Ok(parts)
}

fn response(bytes: usize) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(order::text(bytes)));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", json);
    response
}
