//! Whether one set of requirements accepts another, and why not.

use std::fmt;

use super::Requirements;
use super::suggest::suggest;
use crate::requirement::Requirement;

/// Why two sets do not go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incompatible {
    /// The accepting side does not know the label at all.
    Undefined { key: String, suggestion: Option<String> },
    /// Labels that both sides define, without a common value. Never empty; in order of the keys.
    Conflicts(Vec<Conflict>),
}

/// One label on which nothing satisfies both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub existing: Requirement,
    pub incoming: Requirement,
}

impl Conflict {
    #[must_use]
    pub fn key(&self) -> &str {
        self.existing.key()
    }
}

impl Incompatible {
    /// The (first) label at fault.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Undefined { key, .. } => key,
            Self::Conflicts(conflicts) => conflicts.first().map_or("", Conflict::key),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}, {} not in {}", self.key(), self.incoming, self.existing)
    }
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undefined { key, suggestion } => {
                write!(f, "label \"{key}\" does not have known values")?;
                match suggestion {
                    Some(near) => write!(f, " (typo of \"{near}\"?)"),
                    None => Ok(()),
                }
            }
            Self::Conflicts(conflicts) => {
                for (index, conflict) in conflicts.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "; " };
                    write!(f, "{separator}{conflict}")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Incompatible {}

impl Requirements {
    /// Whether what is offered here accepts what `incoming` asks. Labels for which `allow_undefined` answers yes, the
    /// well-known ones when a node is only planned, may be missing here; others only if a node without them would do.
    pub fn compatible(
        &self,
        incoming: &Self,
        allow_undefined: &dyn Fn(&str) -> bool,
    ) -> Result<(), Incompatible> {
        match self.first_undefined(incoming, allow_undefined) {
            Some(key) => Err(Incompatible::Undefined {
                key: key.to_owned(),
                suggestion: suggest(self, key, allow_undefined),
            }),
            None => self.intersects(incoming),
        }
    }

    /// [`Self::compatible`] without the reason, which costs more than the answer.
    #[must_use]
    pub fn is_compatible(&self, incoming: &Self, allow_undefined: &dyn Fn(&str) -> bool) -> bool {
        self.first_undefined(incoming, allow_undefined).is_none() && self.overlaps(incoming)
    }

    /// Whether every label that both define has a common value. Symmetric; undefined labels play no part.
    pub fn intersects(&self, incoming: &Self) -> Result<(), Incompatible> {
        let conflicts: Vec<Conflict> = self
            .conflicting(incoming)
            .map(|(existing, incoming)| Conflict { existing: existing.clone(), incoming: incoming.clone() })
            .collect();
        if conflicts.is_empty() { Ok(()) } else { Err(Incompatible::Conflicts(conflicts)) }
    }

    /// [`Self::intersects`] without the reason.
    #[must_use]
    pub fn overlaps(&self, incoming: &Self) -> bool {
        self.conflicting(incoming).next().is_none()
    }

    fn first_undefined<'a>(
        &self,
        incoming: &'a Self,
        allow_undefined: &dyn Fn(&str) -> bool,
    ) -> Option<&'a str> {
        incoming
            .iter()
            .filter(|asked| !asked.allows_absence() && !self.0.contains_key(asked.key()))
            .map(Requirement::key)
            .find(|key| !allow_undefined(key))
    }

    fn conflicting<'a>(
        &'a self,
        incoming: &'a Self,
    ) -> impl Iterator<Item = (&'a Requirement, &'a Requirement)> {
        // Walks the smaller set and looks up in the larger one; both are ordered alike, so the result is too.
        let swapped = incoming.len() > self.len();
        let (few, many) = if swapped { (self, incoming) } else { (incoming, self) };
        few.iter().filter_map(move |one| {
            let other = many.0.get(one.key())?;
            // A node without the label satisfies both.
            let fine = (one.allows_absence() && other.allows_absence()) || one.overlaps(other);
            (!fine).then_some(if swapped { (one, other) } else { (other, one) })
        })
    }
}
