//! DynamoDB Local on Java. Maven fetches its jars once, into the target folder.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::{self, Command, Output, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::{JAVA, Server, VERSION, endpoint_at, free_port, process::ServerProcess, server_folder};

const POM: &str = include_str!("../../dynamodb-local/pom.xml");
const MAIN_CLASS: &str = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner";
const OLDEST_JAVA: u32 = 17;

pub(super) fn start(cache: &Path) -> Result<Server> {
    check_java()?;
    let jars = jars(cache)?;
    let port = free_port()?;
    let folder = server_folder(cache, port);
    let server = server(&jars, &folder, port, &["-inMemory".into()]);
    let process = ServerProcess::start(&server, None, port, folder)?;
    Ok(Server { endpoint: endpoint_at(port), origin: JAVA, process: Some(process) })
}

/// The command of a server that stores its data in `folder`, which must exist. The data survives a
/// restart.
pub(super) fn durable(cache: &Path, folder: &Path, port: u16) -> Result<Command> {
    check_java()?;
    let storage = ["-sharedDb".into(), "-dbPath".into(), folder.into()];
    Ok(server(&jars(cache)?, folder, port, &storage))
}

fn server(jars: &Path, folder: &Path, port: u16, storage: &[OsString]) -> Command {
    let mut java = Command::new("java");
    // The native SQLite library is copied to the temporary folder and never deleted.
    java.arg(property("java.io.tmpdir", folder)).arg(property("java.library.path", jars));
    java.arg("-cp").arg(jars.join("*")).arg(MAIN_CLASS);
    java.args(storage).args(["-disableTelemetry", "-port"]).arg(port.to_string());
    java
}

/// `-Dname=path`
fn property(name: &str, path: &Path) -> OsString {
    let mut property = OsString::from(format!("-D{name}="));
    property.push(path);
    property
}

fn check_java() -> Result<()> {
    let output = output_of("java", Command::new("java").arg("-version"))?;
    // Java prints its version to standard error.
    let text = String::from_utf8_lossy(&output.stderr);
    let version = major_version(&text).context("`java -version` does not print a version")?;
    ensure!(version >= OLDEST_JAVA, "Java {version} is too old, {OLDEST_JAVA} is needed");
    Ok(())
}

/// From `openjdk version "17.0.15" 2025-04-15` or, up to Java 8, `java version "1.8.0_412"`.
fn major_version(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("version \"")?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Returns the folder with DynamoDB Local and its dependencies, and fetches it if it is missing.
///
/// The folder is renamed when it is complete. So an interrupted fetch is not used, and concurrent fetches
/// do not conflict.
fn jars(cache: &Path) -> Result<PathBuf> {
    let folder = cache.join(VERSION);
    if !folder.exists() {
        let partial = cache.join(format!("{VERSION}.partial-{}", process::id()));
        let fetched = fetch(&partial).and_then(|()| take_name(&partial, &folder));
        if fetched.is_err() {
            let _ = fs::remove_dir_all(&partial);
        }
        fetched?;
    }
    Ok(folder)
}

fn take_name(partial: &Path, folder: &Path) -> Result<()> {
    match fs::rename(partial, folder) {
        // Another process has fetched it.
        Err(_) if folder.exists() => Ok(fs::remove_dir_all(partial)?),
        other => other.context("the fetched folder could not be renamed"),
    }
}

fn fetch(folder: &Path) -> Result<()> {
    output_of("mvn", Command::new("mvn").arg("--version"))?;
    println!("fetching DynamoDB Local {VERSION} with Maven, once");
    fs::create_dir_all(folder)?;
    let pom = folder.join("pom.xml");
    fs::write(&pom, POM)?;
    let output = output_of("mvn", &mut maven(&pom, folder))?;
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stdout).trim_end());
        bail!("Maven could not fetch DynamoDB Local ({})", output.status);
    }
    Ok(())
}

fn maven(pom: &Path, folder: &Path) -> Command {
    let mut maven = Command::new("mvn");
    maven.args(["-B", "-q", "-Dstyle.color=never", "-DincludeScope=runtime"]);
    maven
        .arg(format!("-Ddynamodb-local.version={VERSION}"))
        .arg(property("outputDirectory", folder));
    maven.arg("-f").arg(pom).arg("dependency:copy-dependencies");
    maven
}

fn output_of(program: &str, command: &mut Command) -> Result<Output> {
    match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("`{program}` is not on PATH")
        }
        other => other.with_context(|| format!("`{program}` did not start")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read() {
        let cases = [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime Environment", Some(17)),
            ("Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"21\" 2023-09-19", Some(21)),
            ("openjdk version \"25-ea\" 2025-09-16", Some(25)),
            ("java version \"1.8.0_412\"", Some(1)),
            ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ];
        for (text, expected) in cases {
            assert_eq!(major_version(text), expected, "{text}");
        }
    }

    #[test]
    fn the_pom_takes_its_version_from_here() {
        assert!(POM.contains("<version>${dynamodb-local.version}</version>"));
        assert!(!POM.contains(VERSION));
    }

    #[test]
    fn a_missing_program_is_reported() {
        let error = output_of("no-such", &mut Command::new("no-such-program")).unwrap_err();
        assert_eq!(error.to_string(), "`no-such` is not on PATH");
    }
}
