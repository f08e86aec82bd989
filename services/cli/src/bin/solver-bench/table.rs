//! The table of bars.

use std::path::Path;

pub(crate) fn run(_oracle: Option<&Path>, _only: Option<&str>, _json: bool) -> anyhow::Result<()> {
    Ok(())
}
