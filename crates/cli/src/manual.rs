//! Completions and manual pages, made of the command line itself.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

use crate::args::Cli;
use crate::failure::Failure;
use crate::output;

pub(crate) fn completions(shell: Shell, json: bool) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "idempotency", &mut script);
    print("script", script, json);
}

fn print(name: &str, text: Vec<u8>, json: bool) {
    if json {
        let text = String::from_utf8_lossy(&text);
        output::document(json!({name: text}));
    } else {
        output::print(text);
    }
}

pub(crate) fn pages(folder: Option<&Path>, json: bool) -> Result<(), Failure> {
    if let Some(folder) = folder {
        let made = clap_mangen::generate_to(Cli::command(), folder);
        made.map_err(|error| Failure::Other(format!("folder {}: {error}", folder.display())))?;
        if json {
            output::document(json!({"folder": folder.display().to_string()}));
        }
        return Ok(());
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    print("page", page, json);
    Ok(())
}
