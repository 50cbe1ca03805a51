//! The example's payments function under the Runtime Interface Emulator: its cold start, and its size.

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    figures::{median, spread},
    tls::Front,
};
use xtask::{archive, dynamodb_local::Server, e2e::Stack, workspace::Workspace};

const FUNCTION: &str = "payments";
const PAUSE: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(20);

/// One build of the function and its measurements.
struct Build {
    name: String,
    bootstrap: PathBuf,
    /// By scheme: one start a round.
    starts: [Vec<Start>; 2],
}

/// One environment's first two invocations, in milliseconds.
struct Start {
    /// From the event to the answer: the process starts and initialises meanwhile.
    first: f64,
    /// CPU time of the function by then.
    cpu: f64,
    /// The next one.
    second: f64,
    rss_mb: f64,
}

/// Each build takes its turn in each round, by HTTP and by HTTPS.
pub(super) fn table(
    workspace: &Workspace,
    server: &Server,
    builds: Vec<(String, PathBuf)>,
    rounds: u32,
) -> Result<String> {
    let stack = Stack::deploy(workspace, server)?;
    let front = Front::start(workspace, server.endpoint())?;
    let mut builds: Vec<Build> = builds
        .into_iter()
        .map(|(name, bootstrap)| Build { name, bootstrap, starts: Default::default() })
        .collect();
    for round in 1..=rounds {
        println!("    round {round} of {rounds}");
        for Build { bootstrap, starts, .. } in &mut builds {
            starts[0].push(start(&stack, bootstrap, server.endpoint(), None)?);
            starts[1].push(start(&stack, bootstrap, &front.endpoint, Some(&front))?);
        }
    }
    let mut table =
        "| build | | first invocation | CPU by then | second invocation | RSS | binary | \
                     zipped |\n|---|---|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for Build { name, bootstrap, starts } in &builds {
        let size = archive::megabytes(fs::metadata(bootstrap)?.len());
        let zipped = archive::megabytes(archive::zipped(&[bootstrap])?);
        for (scheme, starts) in ["HTTP", "TLS"].into_iter().zip(starts) {
            let of = |value: fn(&Start) -> f64| -> Vec<f64> { starts.iter().map(value).collect() };
            let time =
                |values: Vec<f64>| format!("{:.1} ms ({})", median(&values), spread(&values));
            // Writing to a string does not fail.
            let _ = writeln!(
                table,
                "| {name} | {scheme} | {} | {} | {} | {:.1} MB | {size:.1} MB | {zipped:.1} MB |",
                time(of(|start| start.first)),
                time(of(|start| start.cpu)),
                time(of(|start| start.second)),
                median(&of(|start| start.rss_mb)),
            );
        }
    }
    Ok(table)
}

fn start(stack: &Stack, bootstrap: &Path, endpoint: &str, front: Option<&Front>) -> Result<Start> {
    let emulator = Emulator::start(stack, bootstrap, endpoint, front)?;
    let first = emulator.invoke()?;
    let process = emulator.function()?;
    let cpu = cpu_ms(&process)?;
    let second = emulator.invoke()?;
    Ok(Start { first, cpu, second, rss_mb: rss_mb(&process)? })
}

/// An emulator with the function in it. It starts the function with the first event.
struct Emulator {
    process: Child,
    /// Takes the events.
    address: SocketAddr,
    /// With `bootstrap` and `log`.
    folder: PathBuf,
}

impl Emulator {
    fn start(
        stack: &Stack,
        bootstrap: &Path,
        endpoint: &str,
        front: Option<&Front>,
    ) -> Result<Self> {
        let [address, runtime_api] = free_addresses()?;
        let parent = bootstrap.parent().context("the function lies in no folder")?;
        let folder = parent.join(format!("bench-{}", address.port()));
        fs::create_dir_all(&folder)?;
        // A unique path, by which the process is found.
        fs::hard_link(bootstrap, folder.join("bootstrap"))?;
        let log = fs::File::create(folder.join("log"))?;
        let function = &stack.functions[FUNCTION];
        let mut command = Command::new(&stack.emulator);
        command
            .args(["--runtime-interface-emulator-address", &address.to_string()])
            .args(["--runtime-api-address", &runtime_api.to_string()])
            .arg(folder.join("bootstrap"))
            .env_clear()
            .env("AWS_LAMBDA_FUNCTION_NAME", FUNCTION)
            .env("AWS_LAMBDA_FUNCTION_TIMEOUT", function["timeout_s"].to_string())
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", function["memory_mb"].to_string())
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        for (name, value) in function["environment"].as_object().into_iter().flatten() {
            command.env(name, value.as_str().unwrap_or_default());
        }
        command.envs(front.map(Front::environment).into_iter().flatten());
        let process = command.spawn().context("the emulator")?;
        let emulator = Self { process, address, folder };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            ensure!(began.elapsed() < PATIENCE, "the emulator does not start: {}", emulator.log());
            thread::sleep(PAUSE);
        }
        Ok(emulator)
    }

    /// Makes one payment with a new key and returns its duration in milliseconds.
    fn invoke(&self) -> Result<f64> {
        let event = payment(&random_key()?).to_string();
        let began = Instant::now();
        let answer = post(self.address, &event)?;
        let took = began.elapsed().as_secs_f64() * 1000.0;
        ensure!(answer.contains("\"statusCode\":201"), "{answer}\n{}", self.log());
        Ok(took)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// The folder of the function's process below `/proc`. It is no child of ours.
    fn function(&self) -> Result<PathBuf> {
        let bootstrap = self.folder.join("bootstrap");
        let is_it = |process: &PathBuf| {
            fs::read_link(process.join("exe")).is_ok_and(|program| program == bootstrap)
        };
        let processes = fs::read_dir("/proc")?.filter_map(Result::ok).map(|entry| entry.path());
        processes.into_iter().find(is_it).context("no process runs the function")
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let function = self.function();
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            eprintln!("the emulator {} could not be ended: {error}", self.process.id());
        }
        // It outlives its emulator.
        if let Some(id) = function.ok().and_then(|process| Some(process.file_name()?.to_owned()))
            && let Err(error) = Command::new("kill").arg("-KILL").arg(id).status()
        {
            eprintln!("the function could not be ended: {error}");
        }
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{} could not be removed: {error}", self.folder.display());
        }
    }
}

/// The emulator takes no port 0. Both are held until both are known, so that they differ.
fn free_addresses() -> Result<[SocketAddr; 2]> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (one, other) = (listen()?, listen()?);
    Ok([one.local_addr()?, other.local_addr()?])
}

fn random_key() -> Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// As an HTTP API sends it: payload format 2.0.
fn payment(key: &str) -> Value {
    let body = json!({ "amount": 1200, "currency": "eur", "source": "tok_visa", "note": key });
    json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/payments",
        "rawQueryString": "",
        "headers": { "content-type": "application/json", "idempotency-key": key },
        "requestContext": {
            "accountId": "111122223333",
            "apiId": "p4ym3nts",
            "domainName": "p4ym3nts.execute-api.us-east-1.amazonaws.com",
            "domainPrefix": "p4ym3nts",
            "http": {
                "method": "POST",
                "path": "/payments",
                "protocol": "HTTP/1.1",
                "sourceIp": "198.51.100.7",
                "userAgent": "benches",
            },
            "requestId": "RkVmRjXhliAEJ8g=",
            "routeKey": "$default",
            "stage": "$default",
            "time": "21/Nov/2026:11:00:00 +0000",
            "timeEpoch": 1_795_258_800_000_u64,
        },
        "body": body.to_string(),
        "isBase64Encoded": false,
    })
}

/// By HTTP/1.0: the answer ends with the connection.
fn post(address: SocketAddr, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(
        stream,
        "POST /2015-03-31/functions/function/invocations HTTP/1.0\r\n\
         content-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Of all threads of a process, in nanoseconds as the scheduler counts them.
fn cpu_ms(process: &Path) -> Result<f64> {
    let mut nanos = 0.0;
    for task in fs::read_dir(process.join("task"))? {
        let spent = fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += spent.split(' ').next().unwrap_or_default().parse::<f64>()?;
    }
    Ok(nanos / 1e6)
}

fn rss_mb(process: &Path) -> Result<f64> {
    let status = fs::read_to_string(process.join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_its_own_key_in_header_and_body() {
        let event = payment("k-1");
        assert_eq!(event["headers"]["idempotency-key"], "k-1");
        let body: Value = serde_json::from_str(event["body"].as_str().unwrap()).unwrap();
        assert_eq!(body["note"], "k-1");
        assert_ne!(random_key().unwrap(), random_key().unwrap());
    }
}
