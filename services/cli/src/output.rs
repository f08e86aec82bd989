//! `-o`: for whom a sub-command writes.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Table,
    /// For programs
    Json,
}

/// One document, as every sub-command writes its JSON.
pub(crate) fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}
