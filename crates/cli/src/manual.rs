//! Completions and manual pages, made of the command line itself.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Failure;
use crate::output;

pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "idempotency", &mut script);
    output::print(script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn pages(folder: Option<&Path>) -> Result<ExitCode, Failure> {
    if let Some(folder) = folder {
        let made = clap_mangen::generate_to(Cli::command(), folder);
        made.map_err(|error| Failure::Other(format!("folder {}: {error}", folder.display())))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    output::print(page)?;
    Ok(ExitCode::SUCCESS)
}
