//! All topology groups of a cluster, the label keys that they use, and which classes each of them counts.

use std::sync::Arc;

use model::pod::SelectorOperator;
use packing::Bits;
use rustc_hash::FxHashMap;

use super::group::{GroupId, Namespaces, Rule};
use crate::cells::{Cells, is_cell_key};
use crate::classes::{ClassData, ClassId};
use crate::sets::{ReqSetId, Sets, TolSetId};

/// Index of a topology key; hostname has one too, but no list of domains.
pub(crate) type TopoKeyId = usize;
pub(crate) type DomainId = u32;
pub(crate) const NO_DOMAIN: DomainId = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct GroupData {
    pub(crate) rule: Arc<Rule>,
    pub(crate) key: TopoKeyId,
    /// Nodes that count: any of the requirement sets, and the tolerations.
    pub(crate) filter: Option<(Vec<ReqSetId>, Option<TolSetId>)>,
}

#[derive(Clone, Debug)]
pub(crate) struct TopoKey {
    pub(crate) name: String,
    pub(crate) host: bool,
    pub(crate) values: Vec<Arc<str>>,
    index: FxHashMap<Arc<str>, DomainId>,
    /// For keys that offerings decide: the cells of each domain.
    pub(crate) cells: Option<Vec<Bits>>,
}

impl TopoKey {
    pub(crate) fn domain(&self, value: &str) -> Option<DomainId> {
        self.index.get(value).copied()
    }

    pub(crate) fn add(&mut self, value: &str, cells: &Cells) -> DomainId {
        if let Some(id) = self.index.get(value) {
            return *id;
        }
        let id = u32::try_from(self.values.len()).expect("fewer domains than 2^32");
        let value: Arc<str> = Arc::from(value);
        if let Some(masks) = &mut self.cells {
            masks.push(cells.with_label(&self.name, &value));
        }
        self.values.push(Arc::clone(&value));
        self.index.insert(value, id);
        id
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    pub(crate) list: Vec<GroupData>,
    index: FxHashMap<Arc<Rule>, GroupId>,
    pub(crate) keys: Vec<TopoKey>,
}

impl Groups {
    pub(crate) fn add(&mut self, rule: Rule, sets: &mut Sets) -> GroupId {
        if let Some(id) = self.index.get(&rule) {
            return *id;
        }
        let id = u32::try_from(self.list.len()).expect("fewer groups than 2^32");
        let key = self.key(&rule.key);
        let filter = rule.filter.as_ref().map(|f| {
            let any_of = f.any_of.iter().map(|r| sets.requirements.add(r.clone())).collect();
            (any_of, f.tolerations.as_ref().map(|t| sets.tolerations.add(t.clone())))
        });
        let rule = Arc::new(rule);
        self.list.push(GroupData { rule: Arc::clone(&rule), key, filter });
        self.index.insert(rule, id);
        id
    }

    fn key(&mut self, name: &str) -> TopoKeyId {
        if let Some(known) = self.keys.iter().position(|k| k.name == name) {
            return known;
        }
        self.keys.push(TopoKey {
            name: name.to_owned(),
            host: name == model::labels::HOSTNAME,
            values: Vec::new(),
            index: FxHashMap::default(),
            cells: is_cell_key(name).then(Vec::new),
        });
        self.keys.len() - 1
    }

    pub(crate) fn get(&self, id: GroupId) -> &GroupData {
        &self.list[id as usize]
    }

    fn selects(&self, id: GroupId, class: &ClassData) -> bool {
        let rule = &self.get(id).rule;
        rule.namespaces.has(&class.namespace)
            && rule.selector.as_ref().is_some_and(|s| s.matches(&class.spec.labels))
    }

    /// Tells each class which groups count it. `old_classes` and `old_groups` have been linked with each other before.
    pub(crate) fn link(&self, classes: &mut [Arc<ClassData>], old_classes: usize, old_groups: usize) {
        if self.list.len() > old_groups {
            let postings = Postings::of(classes);
            for id in old_groups as GroupId..self.list.len() as GroupId {
                for class in postings.candidates(&self.get(id).rule, classes.len()) {
                    self.link_one(&mut classes[class as usize], id);
                }
            }
        }
        for class in &mut classes[old_classes..] {
            for id in 0..old_groups as GroupId {
                self.link_one(class, id);
            }
        }
    }

    fn link_one(&self, class: &mut Arc<ClassData>, id: GroupId) {
        if self.selects(id, class) {
            self.add_link(Arc::make_mut(class), id);
        }
    }

    fn add_link(&self, class: &mut ClassData, id: GroupId) {
        let rule = &self.get(id).rule;
        insert(&mut class.selected, id);
        if rule.is_required_anti_affinity() {
            let list = if rule.is_host() { &mut class.kept_from_host } else { &mut class.kept_from_domain };
            insert(list, id);
        }
    }
}

/// Lists of groups are in ascending order, so that looking one up is quick.
fn insert(list: &mut Vec<GroupId>, id: GroupId) {
    let at = list.partition_point(|known| *known < id);
    list.insert(at, id);
}

/// Classes by one of their labels, so that a selector need not be tried on all.
struct Postings {
    by_label: FxHashMap<(String, String), Vec<ClassId>>,
}

impl Postings {
    fn of(classes: &[Arc<ClassData>]) -> Self {
        let mut by_label: FxHashMap<(String, String), Vec<ClassId>> = FxHashMap::default();
        for (id, class) in classes.iter().enumerate() {
            for (key, value) in &class.spec.labels {
                by_label.entry((key.clone(), value.clone())).or_default().push(id as ClassId);
            }
        }
        Self { by_label }
    }

    fn candidates(&self, rule: &Rule, class_count: usize) -> Vec<ClassId> {
        let Some(selector) = &rule.selector else { return Vec::new() };
        if matches!(&rule.namespaces, Namespaces::Listed(names) if names.is_empty()) {
            return Vec::new();
        }
        let Some(narrow) = selector.requirements.iter().find(|r| r.operator == SelectorOperator::In) else {
            return (0..class_count as ClassId).collect();
        };
        let lists = narrow.values.iter().filter_map(|v| self.by_label.get(&(narrow.key.clone(), v.clone())));
        let mut out: Vec<ClassId> = lists.flatten().copied().collect();
        out.sort_unstable();
        out.dedup();
        out
    }
}
