//! A user's project in a separate folder, written as a page describes.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::deployment::Deployment;
use crate::dynamodb::unique;
use crate::emulator::free_addresses;
use crate::page::ROOT;

/// Longer than a build of all dependencies takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(1200);
const PAUSE: Duration = Duration::from_millis(50);

/// `cargo`, with two differences. `cargo install` of the command line would take minutes, so the program
/// that the workspace has built is installed already. And `cargo lambda` gets a port that is free, before the
/// arguments of the page.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
    "install --git "*" dynamodb-idempotency-cli") ;;
    "install "*) echo "not an installation of the command line: $*" >&2; exit 2 ;;
    "lambda watch"*|"lambda invoke"*)
        action="$2"; shift 2
        exec "$REAL_CARGO" lambda "$action" --invoke-port "$PORT" "$@" ;;
    *) exec "$REAL_CARGO" "$@" ;;
esac
"#;

pub struct Project {
    name: String,
    folder: PathBuf,
    /// Where `cargo lambda watch` or the Runtime Interface Emulator takes requests.
    pub address: SocketAddr,
    runtime_api: SocketAddr,
    /// Host and port of DynamoDB Local.
    dynamodb: String,
    environment: Vec<(&'static str, String)>,
}

/// A command that runs until it is dropped, with what it has started.
pub struct Running {
    process: Child,
    log: PathBuf,
}

impl Project {
    /// A project of one program. DynamoDB Local keeps the tables of each access key apart, so each
    /// project has its own.
    pub fn new(deployment: &Deployment, program: &str, dependencies: &str) -> Self {
        let name = unique("project");
        let folder = std::env::temp_dir().join(&name);
        let bin = folder.join("bin");
        fs::create_dir_all(folder.join("src")).expect("a folder");
        fs::create_dir_all(&bin).expect("a folder");
        let git = r#"git = "URL of this repository""#;
        assert!(dependencies.contains(git), "no dependency on this crate: {dependencies}");
        let path = format!("path = {ROOT:?}");
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n{}",
            dependencies.replace(git, &path)
        );
        fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
        fs::write(folder.join("src/main.rs"), program).expect("a program");
        // The versions that the workspace has built, so that they are built once.
        fs::copy(Path::new(ROOT).join("Cargo.lock"), folder.join("Cargo.lock")).expect("a lock");
        fs::write(bin.join("cargo"), CARGO).expect("a program");
        fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).expect("ours");
        symlink(&deployment.command_line, bin.join("idempotency")).expect("a link");
        symlink(&deployment.emulator, bin.join("aws-lambda-rie")).expect("a link");
        let [address, runtime_api] = free_addresses();
        let dynamodb = deployment.endpoint.trim_start_matches("http://").to_owned();
        let environment = environment(deployment, &folder, &name, address.port());
        Self { name, folder, address, runtime_api, dynamodb, environment }
    }

    /// Links the folder where the workspace builds to the place where a page builds or looks for programs:
    /// in a new folder, all dependencies would be built again.
    pub fn link_target(&self, deployment: &Deployment, place: &str) {
        let link = self.folder.join(place);
        fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
        symlink(&deployment.target, link).expect("a link");
    }

    pub fn write(&self, file: &str, text: &str) {
        let file = self.folder.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }

    /// The text of a page with this project's name and the ports that are free here.
    fn fitted(&self, shell: &str) -> String {
        // DynamoDB Local has separate tables for each access key.
        let access_key = format!("AWS_ACCESS_KEY_ID={}", access_key(&self.name));
        shell
            .replace("AWS_ACCESS_KEY_ID=local", &access_key)
            .replace("127.0.0.1:8000", &self.dynamodb)
            .replace("127.0.0.1:9000", &self.address.to_string())
            .replace("127.0.0.1:8080", &self.address.to_string())
            .replace("127.0.0.1:9001", &self.runtime_api.to_string())
            .replace("FUNCTION", &self.name)
    }

    fn command(&self, shell: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-euc", &self.fitted(shell)]).current_dir(&self.folder);
        // What cargo has set for these tests would build some crates again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "AWS_"]
                .iter()
                .any(|it| text.starts_with(it))
            {
                command.env_remove(name);
            }
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command
    }

    /// Runs it to its end, which has to be a success; gives what it printed.
    pub fn run(&self, shell: &str) -> String {
        let Output { status, stdout, stderr } = self.command(shell).output().expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(status.success(), "{shell}: {status}\n{}\n{}", text(&stdout), text(&stderr));
        text(&stdout)
    }

    /// Starts it, and waits until something listens at the project's address.
    pub fn start(&self, shell: &str) -> Running {
        // Not in the folder: `cargo lambda watch` starts again at each change of a file there.
        let log = self.folder.with_extension("log");
        Running::start(self.command(shell), self.address.port(), log)
    }
}

fn access_key(name: &str) -> String {
    name.replace('-', "")
}

fn environment(
    deployment: &Deployment,
    folder: &Path,
    name: &str,
    port: u16,
) -> Vec<(&'static str, String)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = [folder.join("bin"), deployment.cargo_lambda.clone()];
    let path = std::env::join_paths(tools.into_iter().chain(std::env::split_paths(&path)));
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    vec![
        ("PATH", path.expect("a path").into_string().expect("UTF-8")),
        ("REAL_CARGO", std::env::var("CARGO").expect("cargo runs these tests")),
        ("PORT", port.to_string()),
        // As the workspace builds, so that what they share is built once.
        ("CARGO_TARGET_DIR", text(&deployment.target)),
        ("CARGO_PROFILE_DEV_DEBUG", "0".to_owned()),
        ("AWS_ACCESS_KEY_ID", access_key(name)),
        ("AWS_SECRET_ACCESS_KEY", "any".to_owned()),
    ]
}

impl Running {
    /// Waits until something listens at the port.
    pub fn start(mut command: Command, port: u16, log: PathBuf) -> Self {
        let output = File::create(&log).expect("a log");
        command.stdout(output.try_clone().expect("a log")).stderr(output).process_group(0);
        let mut running = Self { process: command.spawn().expect("a shell"), log };
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let ended = running.process.try_wait().expect("a child");
            assert!(ended.is_none(), "{command:?}: {ended:?}");
            assert!(start.elapsed() < PATIENCE, "{command:?} does not listen");
            std::thread::sleep(PAUSE);
        }
        running
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }
}

impl Drop for Running {
    /// Ends the whole group: the function is a child of a child.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of {}:\n{}", self.log.display(), self.log());
        }
        let group = format!("-{}", self.process.id());
        let ended = Command::new("kill").args(["-s", "KILL", "--", &group]).status();
        if let Err(error) = ended.and_then(|_| self.process.wait()) {
            eprintln!("{group} could not be ended: {error}");
        }
        if let Err(error) = fs::remove_file(&self.log) {
            eprintln!("{} could not be removed: {error}", self.log.display());
        }
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{} could not be removed: {error}", self.folder.display());
        }
    }
}
