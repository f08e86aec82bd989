//! Where a set of requirements can be met among the new nodes of one pool: which rows of its table, which cells, and what
//! remains to be decided on labels that neither types nor cells settle.

use std::collections::BTreeSet;

use model::labels;
use model::requirement::Requirement;
use model::requirements::Requirements;
use packing::Bits;

use crate::cells::{Cells, is_cell_key};
use crate::table::TypeTable;

/// Label keys that nodes carry only if their type or offering says so.
#[derive(Clone, Debug, Default)]
pub(crate) struct WellKnown(pub(crate) BTreeSet<String>);

impl WellKnown {
    pub(crate) fn has(&self, key: &str) -> bool {
        labels::is_well_known(key) || self.0.contains(key)
    }
}

/// Labels still open on a new node, with what is allowed for each.
pub(crate) type Loose = Vec<Requirement>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reach {
    pub(crate) rows: Bits,
    pub(crate) cells: Bits,
    pub(crate) loose: Loose,
}

/// What a pool puts on all of its new nodes.
pub(crate) struct Offer<'a> {
    pub(crate) template: &'a Requirements,
    pub(crate) table: &'a TypeTable,
    pub(crate) cells: &'a Cells,
    pub(crate) well_known: &'a WellKnown,
}

impl Offer<'_> {
    /// Rows and cells that the template itself allows.
    pub(crate) fn of_template(&self) -> Reach {
        let mut reach = Reach {
            rows: Bits::full(self.table.len()),
            cells: Bits::full(self.cells.len()),
            loose: Vec::new(),
        };
        for requirement in self.template.iter() {
            self.narrow_known(&mut reach, requirement);
        }
        reach
    }

    /// `None` where no new node of the pool can satisfy the requirements, whatever its type.
    pub(crate) fn of(&self, base: &Reach, asked: &Requirements) -> Option<Reach> {
        let mut reach = base.clone();
        for requirement in asked.iter() {
            if !self.narrow(&mut reach, requirement) {
                return None;
            }
        }
        (!reach.rows.is_empty() && !reach.cells.is_empty()).then_some(reach)
    }

    fn narrow_known(&self, reach: &mut Reach, requirement: &Requirement) {
        let key = requirement.key();
        if is_cell_key(key) {
            reach.cells.keep(&self.cells.satisfying(requirement));
        } else if self.table.defines(key) || self.well_known.has(key) {
            reach.rows.keep(&self.table.satisfying(requirement, self.well_known.has(key)));
        }
    }

    /// Narrows to nodes that satisfy one more requirement; false if none can.
    pub(crate) fn narrow(&self, reach: &mut Reach, requirement: &Requirement) -> bool {
        let key = requirement.key();
        if key == labels::HOSTNAME {
            // A node that does not exist yet has no name that anything could ask for.
            return requirement.is_complement();
        }
        self.narrow_known(reach, requirement);
        if is_cell_key(key) {
            return !reach.cells.is_empty();
        }
        let typed = self.table.defines(key);
        if typed && reach.rows.is_empty() {
            return false;
        }
        if typed && !self.table.has_several_values(key) {
            return true;
        }
        match self.template.get(key) {
            Some(own) if own.allows_absence() && requirement.allows_absence() => true,
            Some(own) if own.single().is_some() => {
                own.overlaps(requirement) || (requirement.allows_absence() && own.is_empty())
            }
            Some(own) => self.keep_loose(reach, own.intersect(requirement)),
            // The label must not be there, and the rows that are left do not have it.
            None if requirement.is_empty() => requirement.allows_absence(),
            None if typed || self.well_known.has(key) => self.keep_loose(reach, requirement.clone()),
            // Nobody will put the label on the node.
            None => requirement.allows_absence(),
        }
    }

    fn keep_loose(&self, reach: &mut Reach, requirement: Requirement) -> bool {
        let found = reach.loose.iter().position(|r| r.key() == requirement.key());
        let both = match found {
            Some(index) => reach.loose[index].intersect(&requirement),
            None => requirement,
        };
        if both.is_empty() {
            return false;
        }
        if self.table.has_several_values(both.key()) {
            let well_known = self.well_known.has(both.key());
            reach.rows.keep(&self.table.satisfying(&both, well_known));
            if reach.rows.is_empty() {
                return false;
            }
        }
        match found {
            Some(index) => reach.loose[index] = both,
            None => reach.loose.push(both),
        }
        true
    }

    /// Adds the open labels of another reach; false if the two contradict each other.
    pub(crate) fn merge_loose(&self, reach: &mut Reach, other: &[Requirement]) -> bool {
        other.iter().all(|requirement| self.keep_loose(reach, requirement.clone()))
    }

    /// The one value of the key that all nodes of this reach will have, if that is decided.
    pub(crate) fn decided<'b>(&'b self, reach: &'b Reach, key: &str) -> Option<&'b str> {
        if is_cell_key(key) {
            let mut cells = reach.cells.iter().map(|cell| self.cells.label(cell, key));
            let first = cells.next()??;
            return cells.all(|value| value == Some(first)).then_some(first);
        }
        if let Some(loose) = reach.loose.iter().find(|r| r.key() == key) {
            return loose.single();
        }
        if self.table.defines(key) && !self.table.has_several_values(key) {
            let mut values = self.table.values(key).filter(|(_, rows)| rows.meets(&reach.rows));
            let (first, rows) = values.next()?;
            return reach.rows.within(rows).then_some(first);
        }
        self.template.get(key).and_then(Requirement::single)
    }
}
