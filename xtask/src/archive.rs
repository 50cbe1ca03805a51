//! ZIP archives, which are uploaded to Lambda.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};

use crate::command::output;

/// A program that adds files and folders to an archive in memory, except for the files that Python's
/// `venv` creates.
const SCRIPT: &str = "
import io, os, sys, zipfile
archive = io.BytesIO()
with zipfile.ZipFile(archive, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as file:
    for path in sys.argv[1:]:
        if os.path.isfile(path):
            file.write(path, 'bootstrap')
        for folder, folders, names in os.walk(path):
            folders[:] = [it for it in folders if it != '__pycache__' and not it.startswith(('pip', 'setuptools'))]
            for name in names:
                file.write(os.path.join(folder, name))
print(len(archive.getvalue()))
";

/// Returns the size of an archive of these files and folders, in bytes.
///
/// # Errors
/// If Python or a path is missing.
pub fn zipped(paths: &[&Path]) -> Result<u64> {
    let said = output(Command::new("python3").args(["-c", SCRIPT]).args(paths))?;
    said.trim().parse().context("the size of an archive")
}

/// Of a million bytes.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "of some digits")]
pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
