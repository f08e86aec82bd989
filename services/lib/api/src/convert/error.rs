//! Where a conversion failed: object, field and what is wrong there.

use std::fmt;

/// One step into an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

/// Way from the root of an object to a field, printed as `spec.containers[0].resources.requests["nvidia.com/gpu"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(pub Vec<Step>);

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(at) => write!(f, "[{at}]")?,
                Step::Key(key) if key.contains(['.', '/', '[']) => write!(f, "[{key:?}]")?,
                Step::Key(key) if index == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

/// A place in an object while it is being read. Costs nothing until something is wrong and the path is needed.
#[derive(Clone, Copy, Debug)]
pub enum At<'a> {
    Root,
    Key(&'a At<'a>, &'a str),
    Index(&'a At<'a>, usize),
}

impl<'a> At<'a> {
    #[must_use]
    pub fn key(&'a self, name: &'a str) -> Self {
        Self::Key(self, name)
    }

    #[must_use]
    pub fn index(&'a self, at: usize) -> Self {
        Self::Index(self, at)
    }

    #[must_use]
    pub fn path(&self) -> FieldPath {
        let mut steps = Vec::new();
        let mut place = self;
        loop {
            match place {
                Self::Root => break,
                Self::Key(parent, key) => {
                    steps.push(Step::Key((*key).to_owned()));
                    place = parent;
                }
                Self::Index(parent, index) => {
                    steps.push(Step::Index(*index));
                    place = parent;
                }
            }
        }
        steps.reverse();
        FieldPath(steps)
    }

    /// Something is wrong here.
    pub fn invalid(&self, problem: impl fmt::Display) -> Invalid {
        Invalid { path: self.path(), problem: problem.to_string() }
    }
}

/// A field that cannot be used, before it is known which object it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub path: FieldPath,
    pub problem: String,
}

impl Invalid {
    /// Names the object.
    pub fn of(self, kind: &str, namespace: Option<&str>, name: Option<&str>) -> Error {
        let name = name.unwrap_or("(unnamed)");
        let object = match namespace {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        };
        Error { object, path: self.path, problem: self.problem }
    }
}

/// An object that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {path}: {problem}")]
pub struct Error {
    /// `Kind namespace/name`.
    pub object: String,
    pub path: FieldPath,
    pub problem: String,
}
