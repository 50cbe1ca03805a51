//! What each way costs, in units and in dollars: the tables of `tests/cost/figures.md`, and the bars
//! that it must stay under.

use dynamodb_idempotency::policy::{Compression, FirstRequest, LargeAnswers};
use dynamodb_idempotency::{Idempotency, Policy};
use serde_json::json;

use crate::bodies::Kind;
use crate::sizes::{KIB, is_replay, send, send_by};
use crate::support::{Gate, Link, Store};

/// On-demand prices of us-east-1 in dollars a million, as `docs/cost.md` names them.
const WRITE_UNIT: f64 = 0.625;
const READ_UNIT: f64 = 0.125;

/// How answers are stored and what comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    name: &'static str,
    policy: fn(Policy) -> Policy,
}

const OBVIOUS: Way = Way {
    name: "obvious",
    policy: |policy| policy.compression(Compression::Off).large_answers(LargeAnswers::InRecord),
};
pub(crate) const WRITE_FIRST: Way = Way { name: "write first", policy: |policy| policy };
const WAYS: [Way; 4] = [
    OBVIOUS,
    WRITE_FIRST,
    Way { name: "read first", policy: |policy| policy.first_request(FirstRequest::Read) },
    Way {
        name: "read first, consistent",
        policy: |policy| policy.first_request(FirstRequest::ConsistentRead),
    },
];

/// What one call has consumed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    pub(crate) requests: usize,
    pub(crate) writes: f64,
    pub(crate) reads: f64,
}

impl Cost {
    fn of(link: &Link) -> Self {
        let (reads, writes) = link.wire.units();
        Self { requests: link.wire.requests().len(), writes, reads }
    }

    /// A million calls.
    fn dollars(self) -> f64 {
        self.writes * WRITE_UNIT + self.reads * READ_UNIT
    }
}

/// One line of the table; `None` where the obvious way stores nothing to replay.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) first: Cost,
    pub(crate) replay: Option<Cost>,
    in_progress: Cost,
    mismatch: Cost,
}

pub(crate) struct Bench {
    pub(crate) store: Store,
}

impl Bench {
    fn caller(&self, way: Way, link: &Link) -> Idempotency {
        self.store.by(link, way.policy)
    }

    /// Measures each call of one key with a separate caller, as if each ran in its own process.
    pub(crate) async fn row(&self, way: Way, kind: Kind, bytes: usize) -> Row {
        let name = way.name.replace([' ', ','], "_");
        let (key, body) = (format!("{name}-{kind:?}-{bytes}"), kind.bytes(bytes));
        let (owner, gate) = (Link::default(), Gate::default());
        owner.wire.measure();
        let first = self.caller(way, &owner);
        let running = send_by(&first, &key, kind, &body, &gate);
        let (response, in_progress) = tokio::join!(running, async {
            gate.reached().await;
            let cost = self.repeat(way, &key, kind, b"{}", 409).await;
            gate.open();
            cost
        });
        assert_eq!(response.status(), 201, "{key}");
        let first = Cost::of(&owner);
        let link = Link::default();
        let repeat = self.caller(way, &link);
        link.wire.measure();
        let response = send(&repeat, &key, kind, b"it ran again").await;
        let is_whole = is_replay(&response) && response.body() == &body;
        // Over 400 KB the obvious way has nothing to replay.
        assert!(is_whole || (way.name == OBVIOUS.name && bytes > 399 * KIB), "{key}");
        let replay = is_whole.then(|| Cost::of(&link));
        let mismatch = self.repeat(way, &key, kind, b"{\"another\":1}", 422).await;
        Row { first, replay, in_progress, mismatch }
    }

    async fn repeat(
        &self,
        way: Way,
        key: &str,
        kind: Kind,
        request: &'static [u8],
        status: u16,
    ) -> Cost {
        let link = Link::default();
        let caller = self.caller(way, &link);
        link.wire.measure();
        let response = crate::sizes::send_with(&caller, key, kind, b"it ran", request, None).await;
        assert_eq!(response.status(), status, "{key}");
        Cost::of(&link)
    }
}

fn written(cost: Cost) -> serde_json::Value {
    let Cost { requests, writes, reads } = cost;
    json!({ "requests": requests, "writes": writes, "reads": reads, "dollars": cost.dollars() })
}

/// `cargo xtask cost` reads what this prints.
#[tokio::test]
#[ignore = "prints the table"]
async fn print() {
    let bench = Bench { store: Store::open().await };
    for kind in Kind::ALL {
        for bytes in [200, KIB - 400, KIB, 10 * KIB, 100 * KIB, 390 * KIB, 1 << 20, 5 << 20] {
            for way in WAYS {
                let Row { first, replay, in_progress, mismatch } =
                    bench.row(way, kind, bytes).await;
                let row = json!({
                    "kind": format!("{kind:?}"), "bytes": bytes, "way": way.name,
                    "first": written(first), "replay": replay.map(written),
                    "in_progress": written(in_progress), "mismatch": written(mismatch),
                });
                println!("cost {row}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_of_a_kilobyte_or_less_costs_no_unit_and_no_request_more() {
    let bench = Bench { store: Store::open().await };
    for kind in Kind::ALL {
        for bytes in [0, 200, KIB - 400, KIB] {
            let obvious = bench.row(OBVIOUS, kind, bytes).await;
            let ours = bench.row(WRITE_FIRST, kind, bytes).await;
            for (ours, obvious) in [
                (ours.first, obvious.first),
                (ours.replay.unwrap(), obvious.replay.unwrap()),
                (ours.in_progress, obvious.in_progress),
                (ours.mismatch, obvious.mismatch),
            ] {
                assert!(
                    ours.requests <= obvious.requests
                        && ours.writes <= obvious.writes
                        && ours.reads <= obvious.reads,
                    "{kind:?}, {bytes} bytes: {ours:?} for {obvious:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn replaying_a_large_answer_costs_at_most_an_eighth() {
    let bench = Bench { store: Store::open().await };
    for kind in Kind::ALL {
        for bytes in [100 * KIB, 390 * KIB] {
            let obvious = bench.row(OBVIOUS, kind, bytes).await.replay.unwrap().dollars();
            for way in WAYS.into_iter().skip(1) {
                let row = bench.row(way, kind, bytes).await;
                let replay = row.replay.unwrap().dollars();
                assert!(replay * 8.0 <= obvious, "{way:?}, {kind:?}: {replay} of {obvious}");
                // What a first run costs more is a unit, a part's rounding, and a read.
                let first = row.first.dollars();
                assert!(first <= obvious + 7.0 * WRITE_UNIT, "{way:?}, {kind:?}: {first}");
            }
        }
    }
}

#[tokio::test]
async fn a_repeat_that_is_refused_costs_a_unit_whatever_the_answers_size() {
    let bench = Bench { store: Store::open().await };
    for kind in Kind::ALL {
        let row = bench.row(WRITE_FIRST, kind, 390 * KIB).await;
        assert_eq!(row.in_progress, Cost { requests: 1, writes: 1.0, reads: 0.0 });
        assert!(row.mismatch.writes <= 8.0 && row.mismatch.requests == 1, "{row:?}");
    }
}
