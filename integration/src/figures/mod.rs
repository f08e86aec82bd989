//! Measured figures: what a benchmark hands over, beside its bar and beside the committed baseline.

mod calibration;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

pub use calibration::calibrate;
pub use table::{Measurement, table};

/// Whether a smaller or a larger figure is the better one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    #[default]
    Lower,
    Higher,
}

/// One measured figure and its bar, in the same unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub what: String,
    pub measured: f64,
    pub unit: String,
    #[serde(default)]
    pub bar: Option<f64>,
    #[serde(default)]
    pub better: Better,
    /// What the number alone does not say, such as the reference's figure.
    #[serde(default)]
    pub note: String,
}

impl Figure {
    /// A figure without a bar, of which less is better.
    pub fn new(what: impl Into<String>, measured: f64, unit: &str) -> Self {
        let (what, unit) = (what.into(), unit.to_owned());
        Self { what, measured, unit, bar: None, better: Better::Lower, note: String::new() }
    }

    #[must_use]
    pub fn at_most(self, bar: f64) -> Self {
        Self { bar: Some(bar), ..self }
    }

    #[must_use]
    pub fn at_least(self, bar: f64) -> Self {
        Self { bar: Some(bar), better: Better::Higher, ..self }
    }

    #[must_use]
    pub fn more_is_better(self) -> Self {
        Self { better: Better::Higher, ..self }
    }

    /// The share of its bar that a figure uses: up to 1 it meets the bar, whichever direction is better.
    pub fn ratio(&self) -> Option<f64> {
        let bar = self.bar?;
        Some(match self.better {
            Better::Lower => self.measured / bar,
            Better::Higher => bar / self.measured,
        })
    }

    pub fn is_met(&self) -> bool {
        self.ratio().is_none_or(|ratio| ratio <= 1.0)
    }

    /// Whether it depends on how fast the machine is. Memory and cost do not.
    fn is_time(&self) -> bool {
        matches!(self.unit.as_str(), "ms" | "s" | "/s")
    }
}

/// Where a benchmark leaves its figures for `bench`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FiguresFile {
    /// Also write the figures to this file, as JSON
    #[arg(long = "figures", value_name = "FILE")]
    path: Option<PathBuf>,
}

/// Collects the figures of one benchmark and prints each as soon as it is known.
#[derive(Debug, Default)]
pub struct Report(Vec<Figure>);

impl Report {
    pub fn add(&mut self, figure: Figure) {
        println!("{}", table::line(&figure));
        self.0.push(figure);
    }

    pub fn write(&self, to: &FiguresFile) -> Result<()> {
        to.path.as_deref().map_or(Ok(()), |path| save(path, &self.0))
    }
}

pub fn save<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let text = serde_json::to_string_pretty(value)?;
    std::fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))
}

pub fn load<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))
}
