//! One process that makes many calls over a socket, and what they cost it, as one line of JSON.
//!
//! `end-to-end SIDE ENDPOINT cold|first|replay|in-progress CALLERS CALLS`; a side is `ours`, `bare`, or
//! `bare-threads`: the calls by hand on the runtime that `#[tokio::main]` gives unasked. `cold` is one
//! first call on a table that is there, and no line.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::{Client, Config};
use benches::raw;
use dynamodb_idempotency::{ErrorKind, Idempotency, Lease, Outcome, RunError};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// Keys that are completed, for replays.
const KEYS: usize = 16;
const HOUR: Duration = Duration::from_secs(3600);
const ANSWER: &str = "an answer of some forty bytes, no more, ok";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [side, endpoint, case, callers, calls] = args.as_slice() else {
        bail!("end-to-end SIDE ENDPOINT cold|first|replay|in-progress CALLERS CALLS");
    };
    let (is_ours, mut runtime) = match side.as_str() {
        "ours" => (true, Builder::new_current_thread()),
        "bare" => (false, Builder::new_current_thread()),
        "bare-threads" => (false, Builder::new_multi_thread()),
        other => bail!("no side `{other}`"),
    };
    let client = client(endpoint);
    let work = Work {
        idempotency: Idempotency::new(client.clone(), raw::TABLE),
        client,
        is_ours,
        case: case.parse()?,
        run: format!("{side}-{}", std::process::id()),
    };
    let (callers, calls) = (callers.parse()?, calls.parse()?);
    let runtime = runtime.enable_all().build()?;
    if case == "cold" {
        return runtime.block_on(work.call(0));
    }
    let measured = runtime.block_on(async move {
        work.idempotency.create_table().await?;
        tokio::spawn(measure(Arc::new(work), callers, calls)).await?
    });
    println!("{}", measured?);
    Ok(())
}

fn client(endpoint: &str) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    Client::from_conf(config)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    First,
    Replay,
    InProgress,
}

impl std::str::FromStr for Case {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "cold" | "first" => Ok(Self::First),
            "replay" => Ok(Self::Replay),
            "in-progress" => Ok(Self::InProgress),
            other => bail!("no case `{other}`"),
        }
    }
}

struct Work {
    idempotency: Idempotency,
    client: Client,
    is_ours: bool,
    case: Case,
    /// Tells the keys of this process from others'.
    run: String,
}

impl Work {
    /// The key of the `n`th call.
    fn key(&self, n: usize) -> String {
        match self.case {
            Case::First => format!("{}-{n}", self.run),
            Case::Replay | Case::InProgress => format!("{}-{}", self.run, n % KEYS),
        }
    }

    /// What the calls find.
    async fn prepare(&self) -> Result<()> {
        for n in 0..KEYS {
            let pk = pk(&self.key(n));
            match self.case {
                Case::First => {}
                Case::Replay if self.is_ours => {
                    ensure!(self.ours(n).await? == Case::First, "the key is taken");
                }
                Case::Replay => {
                    raw::create(&self.client, &pk).await?;
                    self.complete(&pk).await?;
                }
                Case::InProgress if self.is_ours => self.occupy(n).await?,
                Case::InProgress => raw::create(&self.client, &pk).await?,
            }
        }
        Ok(())
    }

    /// Leaves a handler at work that never ends.
    async fn occupy(&self, n: usize) -> Result<()> {
        let (idempotency, key) = (self.idempotency.clone(), self.key(n));
        let (starts, started) = oneshot::channel();
        tokio::spawn(async move {
            let operation = idempotency.operation("payments").key(key);
            let operation = operation.policy(|policy| policy.lease(Lease::Fixed(HOUR)));
            let handler = async |_| {
                let _ = starts.send(());
                std::future::pending::<Result<String, Infallible>>().await
            };
            operation.run(handler).await
        });
        Ok(started.await?)
    }

    async fn complete(&self, pk: &str) -> Result<()> {
        raw::complete(&self.client, pk, raw::json_answer(format!("\"{ANSWER}\""))).await
    }

    async fn call(&self, n: usize) -> Result<()> {
        let came_to = if self.is_ours { self.ours(n).await? } else { self.bare(n).await? };
        ensure!(came_to == self.case, "{came_to:?} and not {:?}", self.case);
        Ok(())
    }

    async fn ours(&self, n: usize) -> Result<Case> {
        let operation = self.idempotency.operation("payments").key(self.key(n));
        let handler = async |_| Ok::<_, Infallible>(ANSWER.to_owned());
        match operation.run_with_outcome(handler).await {
            Ok(Outcome::Executed(_)) => Ok(Case::First),
            Ok(Outcome::Replayed(answer)) if answer == ANSWER => Ok(Case::Replay),
            Err(RunError::Idempotency(error))
                if matches!(error.kind(), ErrorKind::InProgress { .. }) =>
            {
                Ok(Case::InProgress)
            }
            other => bail!("{other:?}"),
        }
    }

    async fn bare(&self, n: usize) -> Result<Case> {
        let pk = pk(&self.key(n));
        match self.case {
            Case::First => {
                raw::create(&self.client, &pk).await?;
                self.complete(&pk).await?;
            }
            Case::Replay => {
                let answer = raw::answer(raw::refused(&self.client, &pk).await?, "json")?;
                ensure!(serde_json::from_str::<String>(&answer)? == ANSWER, "another answer");
            }
            Case::InProgress => {
                let item = raw::refused(&self.client, &pk).await?;
                ensure!(item.contains_key("lease_expires_at"), "nobody is at work");
            }
        }
        Ok(self.case)
    }
}

fn pk(key: &str) -> String {
    format!("payments#{key}")
}

/// Some calls to warm up, then so many by each of the callers.
async fn measure(work: Arc<Work>, callers: usize, calls: usize) -> Result<serde_json::Value> {
    work.prepare().await?;
    let warm_up = calls / 2 + 10;
    run(&work, callers, 0, warm_up).await?;
    let (cpu, start) = (cpu_time(), Instant::now());
    let mut latencies = run(&work, callers, callers * warm_up, calls).await?;
    let (cpu, took) = (cpu_time() - cpu, start.elapsed());
    latencies.sort_unstable();
    let at = |share: usize| latencies[(latencies.len() - 1) * share / 100].as_micros();
    let made = u32::try_from(latencies.len())?;
    Ok(json!({
        "p50_us": at(50),
        "p99_us": at(99),
        "per_second": f64::from(made) / took.as_secs_f64(),
        "cpu_us": (cpu / made).as_nanos() as f64 / 1000.0,
        "rss_kb": rss_kb()?,
    }))
}

async fn run(
    work: &Arc<Work>,
    callers: usize,
    first: usize,
    calls: usize,
) -> Result<Vec<Duration>> {
    let caller = |caller: usize| {
        let work = Arc::clone(work);
        tokio::spawn(async move {
            let mut latencies = Vec::with_capacity(calls);
            for n in 0..calls {
                let start = Instant::now();
                work.call(first + caller * calls + n).await?;
                latencies.push(start.elapsed());
            }
            anyhow::Ok(latencies)
        })
    };
    let tasks: Vec<_> = (0..callers).map(caller).collect();
    let mut all = Vec::with_capacity(callers * calls);
    for task in tasks {
        all.extend(task.await??);
    }
    Ok(all)
}

/// Of all threads of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

fn rss_kb() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
