//! One process that makes many calls over a socket, and what they cost it, as one line of JSON.
//!
//! `end-to-end SIDE ENDPOINT cold|first|replay|in-progress|cached CALLERS WARM_UP CALLS`; a side is
//! `ours`, `bare`, or `bare-threads`: the calls by hand on the runtime that `#[tokio::main]` gives
//! unasked. Each caller makes so many calls to warm up, then those that are measured. `cold` is one
//! first call on a table that is there, with a client as the environment says, and no line. `starts` is
//! the start of such a process and its first requests, `starts-ready` the same of ours with `preflight()`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::{Client, Config};
use benches::{cpu, raw};
use dynamodb_idempotency::policy::Lease;
use dynamodb_idempotency::{ErrorKind, Idempotency, Outcome, Policy, RunError};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// Keys that are completed, for replays.
const KEYS: usize = 16;
const HOUR: Duration = Duration::from_secs(3600);
const ANSWER: &str = "an answer of some forty bytes, no more, ok";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [side, endpoint, name, callers, warm_up, calls] = args.as_slice() else {
        bail!("end-to-end SIDE ENDPOINT CASE CALLERS WARM_UP CALLS");
    };
    let (is_ours, mut runtime) = match side.as_str() {
        "ours" => (true, Builder::new_current_thread()),
        "bare" => (false, Builder::new_current_thread()),
        "bare-threads" => (false, Builder::new_multi_thread()),
        other => bail!("no side `{other}`"),
    };
    let runtime = runtime.enable_all().build()?;
    let run = format!("{side}-{}", std::process::id());
    match name.as_str() {
        "cold" => return runtime.block_on(cold(is_ours, run)),
        "starts" | "starts-ready" => {
            println!("{}", runtime.block_on(starts(is_ours, name == "starts-ready", &run))?);
            return Ok(());
        }
        _ => {}
    }
    let case = name.parse()?;
    let client = client(endpoint);
    let idempotency = Idempotency::builder(client.clone(), raw::TABLE)
        .local_cache(if case == Case::Cached { 1 << 20 } else { 0 })
        .build()?;
    let work = Work { idempotency, client, is_ours, case, run };
    let (callers, warm_up, calls) = (callers.parse()?, warm_up.parse()?, calls.parse()?);
    let measured = runtime.block_on(async move {
        work.idempotency.create_table().await?;
        tokio::spawn(measure(Arc::new(work), callers, warm_up, calls)).await?
    });
    println!("{}", measured?);
    Ok(())
}

/// A side as it gets its client from the environment.
enum Started {
    Ours(Idempotency),
    ByHand(Client),
}

impl Started {
    async fn new(is_ours: bool) -> Result<Self> {
        if is_ours {
            return Ok(Self::Ours(Idempotency::from_env().await?));
        }
        let config = dynamodb_idempotency::sdk_config_loader().load().await;
        Ok(Self::ByHand(Client::new(&config)))
    }

    async fn preflight(&self) -> Result<()> {
        let Self::Ours(idempotency) = self else { bail!("by hand nothing is checked") };
        idempotency.preflight(["payments"]).await?;
        Ok(())
    }

    async fn call(&self, key: &str, expected: Case) -> Result<()> {
        let client = match self {
            Self::Ours(idempotency) => {
                let came_to = ours(idempotency, key.to_owned()).await?;
                ensure!(came_to == expected, "{came_to:?} instead of {expected:?}");
                return Ok(());
            }
            Self::ByHand(client) => client,
        };
        match expected {
            Case::First => first_by_hand(client, &pk(key)).await,
            Case::Replay => replay_by_hand(client, &pk(key)).await,
            Case::InProgress | Case::Cached => bail!("no call of a start"),
        }
    }
}

async fn cold(is_ours: bool, key: String) -> Result<()> {
    Started::new(is_ours).await?.call(&key, Case::First).await
}

/// How often a later request is made, of which the median counts.
const LATER: usize = 9;

/// Reports when the process is ready, by the system clock, so that the process that started it can
/// compute the duration; then how long the requests take.
async fn starts(is_ours: bool, checks: bool, run: &str) -> Result<serde_json::Value> {
    let started = Started::new(is_ours).await?;
    if checks {
        started.preflight().await?;
    }
    let ready = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let call = async |n: usize, expected: Case| {
        let (began, cpu, faults) = (Instant::now(), cpu::of_process(), page_faults()?);
        started.call(&format!("{run}-{n}"), expected).await?;
        let (took, cpu) =
            (began.elapsed().as_micros(), cpu::of_process().saturating_sub(cpu).as_micros());
        anyhow::Ok([took, cpu, u128::from(page_faults()? - faults)])
    };
    let [first, first_cpu, first_faults] = call(0, Case::First).await?;
    let (mut later, mut replays) = (Vec::new(), Vec::new());
    for n in 1..=LATER {
        later.push(call(n, Case::First).await?);
        replays.push(call(n, Case::Replay).await?);
    }
    Ok(json!({
        "ready_at_us": ready.as_micros(),
        "first_us": first,
        "first_cpu_us": first_cpu,
        "first_faults": first_faults,
        "later_us": median(&later, 0),
        "later_cpu_us": median(&later, 1),
        "later_faults": median(&later, 2),
        "replay_us": median(&replays, 0),
    }))
}

/// The median of one of the figures.
fn median(calls: &[[u128; 3]], figure: usize) -> u128 {
    let mut figures: Vec<_> = calls.iter().map(|figures| figures[figure]).collect();
    figures.sort_unstable();
    figures[figures.len() / 2]
}

/// How often this process has touched a page that was not mapped yet and needed no disk.
fn page_faults() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The second field is the program's name in parentheses; this is the tenth.
    let (_, fields) = stat.rsplit_once(')').context("no name in /proc/self/stat")?;
    Ok(fields.split_whitespace().nth(7).context("no tenth field")?.parse()?)
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
    /// A replay from the process's memory.
    Cached,
}

impl std::str::FromStr for Case {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "cold" | "first" => Ok(Self::First),
            "replay" => Ok(Self::Replay),
            "in-progress" => Ok(Self::InProgress),
            "cached" => Ok(Self::Cached),
            other => bail!("no case `{other}`"),
        }
    }
}

struct Work {
    idempotency: Idempotency,
    client: Client,
    is_ours: bool,
    case: Case,
    /// Makes the keys of this process unique.
    run: String,
}

impl Work {
    /// The key of the `n`th call.
    fn key(&self, n: usize) -> String {
        match self.case {
            Case::First => format!("{}-{n}", self.run),
            Case::Replay | Case::InProgress | Case::Cached => format!("{}-{}", self.run, n % KEYS),
        }
    }

    /// What the calls find.
    async fn prepare(&self) -> Result<()> {
        for n in 0..KEYS {
            let pk = pk(&self.key(n));
            match self.case {
                Case::First => {}
                Case::Replay | Case::Cached if self.is_ours => {
                    ensure!(self.ours(n).await? == Case::First, "the key is taken");
                }
                Case::Replay | Case::Cached => {
                    first_by_hand(&self.client, &pk).await?;
                }
                Case::InProgress if self.is_ours => self.occupy(n).await?,
                Case::InProgress => raw::create(&self.client, &pk).await?,
            }
        }
        Ok(())
    }

    /// Leaves a handler at work that never ends.
    async fn occupy(&self, n: usize) -> Result<()> {
        let hour = |policy: Policy| policy.lease(Lease::Fixed(HOUR));
        let call =
            self.idempotency.operation("payments").policy(hour)?.key(self.key(n)).no_payload();
        let (starts, started) = oneshot::channel();
        tokio::spawn(async move {
            let handler = async |_| {
                let _ = starts.send(());
                std::future::pending::<Result<String, Infallible>>().await
            };
            call.run(handler).await
        });
        Ok(started.await?)
    }

    async fn call(&self, n: usize) -> Result<()> {
        let came_to = if self.is_ours { self.ours(n).await? } else { self.bare(n).await? };
        ensure!(came_to == self.case, "{came_to:?} and not {:?}", self.case);
        Ok(())
    }

    async fn ours(&self, n: usize) -> Result<Case> {
        match ours(&self.idempotency, self.key(n)).await? {
            Case::Replay if self.case == Case::Cached => Ok(Case::Cached),
            came_to => Ok(came_to),
        }
    }

    async fn bare(&self, n: usize) -> Result<Case> {
        let pk = pk(&self.key(n));
        match self.case {
            Case::First => first_by_hand(&self.client, &pk).await?,
            Case::Replay => replay_by_hand(&self.client, &pk).await?,
            Case::Cached => bail!("by hand there is no cache"),
            Case::InProgress => {
                let item = raw::refused(&self.client, &pk).await?;
                ensure!(item.contains_key("lease_expires_at"), "the record is not PENDING");
            }
        }
        Ok(self.case)
    }
}

async fn ours(idempotency: &Idempotency, key: String) -> Result<Case> {
    let operation = idempotency.operation("payments").key(key).no_payload();
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

async fn first_by_hand(client: &Client, pk: &str) -> Result<()> {
    raw::create(client, pk).await?;
    complete(client, pk).await
}

async fn replay_by_hand(client: &Client, pk: &str) -> Result<()> {
    let answer = raw::answer(raw::refused(client, pk).await?, "json")?;
    ensure!(serde_json::from_str::<String>(&answer)? == ANSWER, "another answer");
    Ok(())
}

async fn complete(client: &Client, pk: &str) -> Result<()> {
    raw::complete(client, pk, raw::json_answer(format!("\"{ANSWER}\""))).await
}

fn pk(key: &str) -> String {
    format!("payments#{key}")
}

/// Some calls to warm up, then so many by each of the callers.
async fn measure(
    work: Arc<Work>,
    callers: usize,
    warm_up: usize,
    calls: usize,
) -> Result<serde_json::Value> {
    work.prepare().await?;
    run(&work, callers, 0, warm_up).await?;
    let (cpu, start) = (cpu::of_process(), Instant::now());
    let mut latencies = run(&work, callers, callers * warm_up, calls).await?;
    let (cpu, took) = (cpu::of_process().saturating_sub(cpu), start.elapsed());
    latencies.sort_unstable();
    let at = |share: usize| latencies[(latencies.len() - 1) * share / 100].as_micros();
    let made = u32::try_from(latencies.len())?;
    Ok(json!({
        "p50_us": at(50),
        "p99_us": at(99),
        "per_second": f64::from(made) / took.as_secs_f64(),
        "cpu_us": (cpu / made).as_secs_f64() * 1e6,
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

fn rss_kb() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
