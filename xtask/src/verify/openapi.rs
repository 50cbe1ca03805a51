//! `docs/openapi.yaml` is a valid `OpenAPI` document.

use anyhow::Result;

use super::{Outcome, outcome, wheel::Wheel};
use crate::workspace::Workspace;

pub(super) fn check(workspace: &Workspace) -> Result<Outcome> {
    match Wheel::of(workspace, "openapi-spec-validator")? {
        Ok(validator) => {
            outcome(&mut validator.command(&["--validation-errors", "all", "docs/openapi.yaml"]))
        }
        Err(missing) => Ok(Outcome::Skipped(missing)),
    }
}
