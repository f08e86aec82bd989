//! What is wrong with the input, and where.

use std::fmt;

/// A mistake in the input: the run ends with exit code 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    pub file: String,
    /// From 1; 0 where the mistake is not at a line (an unreadable file).
    pub line: usize,
    /// `Kind namespace/name`, where known.
    pub object: String,
    /// Path of the field, where known.
    pub field: String,
    pub problem: String,
}

impl InputError {
    pub(crate) fn of_file(file: &str, problem: impl fmt::Display) -> Self {
        Self {
            file: file.to_owned(),
            line: 0,
            object: String::new(),
            field: String::new(),
            problem: problem.to_string(),
        }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        for part in [&self.object, &self.field, &self.problem] {
            if !part.is_empty() {
                write!(f, ": {part}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for InputError {}
