//! `cargo xtask playground`: the page of the local example, clicked through in headless Chromium.
//!
//! The tests are JavaScript (`lambda-example/tests/page`), with one pinned package that drives the
//! browser; it is installed once, and again when its lock file has changed.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use crate::{
    command::quiet,
    suites,
    tools::{self, NODE, NPM, install_node, succeeds},
    workspace::Workspace,
};

/// What Chromium is called; Debian's first.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Names the browser, where it is none of those.
const CHROMIUM: &str = "CHROMIUM";

/// Where the README's picture is kept, and what the tests call it.
const KEPT: &str = "docs/playground.png";
const TAKEN: &str = "playground.png";

/// The message that names the missing tools, if any are missing.
pub(crate) fn missing() -> Option<String> {
    tools::missing(&[NODE, NPM]).or_else(|| {
        let none = format!("this machine has no Chromium ({CHROMIUM} names one that is elsewhere)");
        browser().is_none().then_some(none)
    })
}

/// `false` if something is wrong; what has been printed then.
pub(crate) fn run(workspace: &Workspace, renew_screenshot: bool) -> Result<bool> {
    if let Some(missing) = missing() {
        println!("playground: {missing}");
        return Ok(false);
    }
    if !check(workspace)? {
        return Ok(false);
    }
    if renew_screenshot {
        let taken = screenshots(workspace).join(TAKEN);
        fs::copy(&taken, workspace.root.join(KEPT))
            .with_context(|| format!("{} cannot be kept as {KEPT}", taken.display()))?;
        println!("    {KEPT} is new");
    }
    Ok(true)
}

/// As [`run`], where nothing is missing.
pub(crate) fn check(workspace: &Workspace) -> Result<bool> {
    if !suites::build_examples(workspace)? {
        return Ok(false);
    }
    let page = workspace.root.join("lambda-example/tests/page");
    let pictures = screenshots(workspace);
    fs::create_dir_all(&pictures)?;
    if !install_node(&page, pictures.join("npm.lock"))? {
        return Ok(false);
    }
    succeeds(
        node_command("node", &page)
            .args(["--test", "--test-reporter=spec", "playground.test.js"])
            .env("PLAYGROUND_SERVER", workspace.target.join("debug/examples/local"))
            .env(CHROMIUM, browser().unwrap_or_default())
            .env("SCREENSHOTS", pictures)
            // The tests count on tables that are empty.
            .env_remove("DYNAMODB_ENDPOINT"),
    )
}

fn node_command(program: &str, page: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(page).stdin(Stdio::null());
    command
}

fn screenshots(workspace: &Workspace) -> PathBuf {
    workspace.target.join("playground")
}

/// The path of the browser: the test's driver does not look for it.
fn browser() -> Option<OsString> {
    let chosen = env::var_os(CHROMIUM).filter(|path| !path.is_empty()).map(PathBuf::from);
    let browser = chosen.or_else(installed_browser)?;
    let works = quiet(Command::new(&browser).arg("--version")).is_ok_and(|status| status.success());
    works.then(|| browser.into_os_string())
}

fn installed_browser() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places: Vec<_> = env::split_paths(&path).collect();
    BROWSERS
        .iter()
        .flat_map(|name| places.iter().map(move |place| place.join(name)))
        .find(|file| file.is_file())
}
