//! The ways in which a node can turn out: one for a node that exists, and for a new one every listed type through every
//! offering that its requirements allow. Many new nodes of a plan list the same types under the same requirements, and with
//! them share the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use model::catalog::{CapacityType, InstanceType, Offering};
use model::node::Node;
use model::pod::Pod;
use model::pool::{ClusterInput, NodePool};
use model::quantity::Quantity;
use model::requirements::Requirements;
use model::resources::Resources;

use super::labels::{Labels, Outcome};
use super::overheads::Overheads;
use super::resources;
use crate::plan::NewNode;

#[derive(Default)]
pub(super) struct Outcomes<'a> {
    /// Those of one type are beside each other.
    pub(super) all: Vec<Labels<'a>>,
    by_type: BTreeMap<&'a str, Range<usize>>,
    /// By resource: the most that daemons take on any of the types, however it is launched. As in Karpenter, a claim states
    /// the daemons of a type, not of an offering.
    pub(super) most_overhead: Resources,
    /// By resource: the least that any of them leaves for pods.
    least_room: Resources,
}

impl<'a> Outcomes<'a> {
    pub(super) fn of_node(node: &'a Node) -> Self {
        Self { all: vec![Labels::Node(node)], ..Self::default() }
    }

    /// Tells whether two nodes share their outcomes.
    pub(super) fn id(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// Those of a new node that become `name`.
    pub(super) fn of_type(&self, name: &str) -> impl Iterator<Item = Outcome<'a>> {
        let range = self.by_type.get(name).cloned().unwrap_or_default();
        self.all[range].iter().filter_map(|labels| match labels {
            Labels::Outcome(outcome) => Some(*outcome),
            Labels::Node(_) => None,
        })
    }

    fn add(&mut self, of_type: &OfType<'a>, ways: impl Iterator<Item = Outcome<'a>>) {
        let start = self.all.len();
        self.all.extend(ways.map(Labels::Outcome));
        self.by_type.insert(of_type.name, start..self.all.len());
        self.most_overhead.max(&of_type.most_overhead);
    }

    /// Every one of them holds the pods.
    fn hold(&self, wanted: &Resources) -> bool {
        wanted.fits(&self.least_room)
    }
}

/// The allowed ways of launching one type under some requirements, and what each leaves for pods.
struct OfType<'a> {
    name: &'a str,
    ways: Vec<(Outcome<'a>, Resources)>,
    most_overhead: Resources,
    least_room: Resources,
}

/// A type of the pool, and how it can be launched once that was asked.
struct Listed<'a> {
    instance: &'a InstanceType,
    ways: Option<Rc<OfType<'a>>>,
}

/// One set of requirements of new nodes of a pool.
struct Claimed<'a> {
    pool: &'a NodePool,
    requirements: &'a Arc<Requirements>,
    types: BTreeMap<&'a str, Listed<'a>>,
    /// By where the list of types is stored.
    lists: BTreeMap<usize, Rc<Outcomes<'a>>>,
}

pub(super) struct Ways<'a> {
    input: &'a ClusterInput,
    use_reserved: bool,
    known: Vec<Claimed<'a>>,
    overheads: Overheads<'a>,
}

impl<'a> Ways<'a> {
    pub(super) fn new(input: &'a ClusterInput, use_reserved: bool) -> Self {
        Self { input, use_reserved, known: Vec::new(), overheads: Overheads::new(input) }
    }

    /// Ways of launching a listed type that the requirements allow and that hold the pods; of a type that never holds them, all
    /// that are allowed. Also says whether all types hold the pods in every way.
    pub(super) fn of(
        &mut self,
        pool: &'a NodePool,
        node: &'a NewNode,
        pods: &[&Pod],
    ) -> (Rc<Outcomes<'a>>, bool) {
        let (input, use_reserved) = (self.input, self.use_reserved);
        let same = |known: &Claimed<'_>| {
            std::ptr::eq(known.pool, pool)
                && (Arc::ptr_eq(known.requirements, &node.requirements)
                    || *known.requirements == node.requirements)
        };
        let index = self.known.iter().position(same).unwrap_or_else(|| {
            self.known.push(Claimed {
                pool,
                requirements: &node.requirements,
                types: pool
                    .instance_types
                    .iter()
                    .map(|instance| (&*instance.name, Listed { instance, ways: None }))
                    .collect(),
                lists: BTreeMap::new(),
            });
            self.known.len() - 1
        });
        let claimed = &mut self.known[index];
        let list = Arc::as_ptr(&node.instance_types).cast::<()>() as usize;
        let wanted = resources::wanted(pods);
        if let Some(shared) = claimed.lists.get(&list).filter(|shared| shared.hold(&wanted)) {
            return (Rc::clone(shared), true);
        }
        let types: Vec<Rc<OfType<'a>>> = claimed.listed(input, use_reserved, &mut self.overheads, node);
        let all = Rc::new(all_of(&types));
        claimed.lists.insert(list, Rc::clone(&all));
        if all.hold(&wanted) { (all, true) } else { (Rc::new(holding(&types, &wanted)), false) }
    }
}

impl<'a> Claimed<'a> {
    fn listed(
        &mut self,
        input: &'a ClusterInput,
        use_reserved: bool,
        daemons: &mut Overheads<'a>,
        node: &NewNode,
    ) -> Vec<Rc<OfType<'a>>> {
        let (pool, requirements): (&'a NodePool, &'a Arc<Requirements>) = (self.pool, self.requirements);
        let mut of = |instance: &'a InstanceType| {
            let usable =
                |o: &&Offering| o.is_open() && (use_reserved || o.capacity_type != CapacityType::Reserved);
            let outcome =
                |offering: &'a Offering| Outcome { pool, claim: requirements, instance, offering, input };
            let is_allowed = instance.offerings.first().is_some_and(|any| outcome(any).allows_type());
            let offerings = if is_allowed { &instance.offerings[..] } else { &[] };
            let allowed = offerings.iter().filter(usable).map(outcome).filter(Outcome::allows_offering);
            let with_room = |way: Outcome<'a>| {
                let overhead = daemons.overhead(way);
                (way, resources::room(way, &overhead))
            };
            let ways: Vec<(Outcome<'a>, Resources)> = allowed.map(with_room).collect();
            let most_overhead =
                if ways.is_empty() { Resources::new() } else { daemons.most_overhead(pool, instance) };
            let least_room = least(ways.iter().map(|(_, room)| room));
            Rc::new(OfType { name: &instance.name, ways, most_overhead, least_room })
        };
        let mut seen = BTreeSet::new();
        let mut out = Vec::new();
        for name in node.instance_types.iter().filter(|name| seen.insert(&***name)) {
            let Some(Listed { instance, ways }) = self.types.get_mut(&**name) else { continue };
            let ways = ways.get_or_insert_with(|| of(instance));
            if !ways.ways.is_empty() {
                out.push(Rc::clone(ways));
            }
        }
        out
    }
}

fn all_of<'a>(types: &[Rc<OfType<'a>>]) -> Outcomes<'a> {
    let mut out = Outcomes::default();
    for of_type in types {
        out.add(of_type, of_type.ways.iter().map(|(way, _)| *way));
    }
    out.least_room = least(types.iter().map(|of_type| &of_type.least_room));
    out
}

/// By resource.
fn least<'r>(rooms: impl Iterator<Item = &'r Resources>) -> Resources {
    let rooms: Vec<&Resources> = rooms.collect();
    let names: BTreeSet<&str> = rooms.iter().flat_map(|room| room.iter().map(|(name, _)| name)).collect();
    let of = |name: &str| rooms.iter().map(|room| room.get(name)).min().unwrap_or(Quantity::ZERO);
    names.into_iter().map(|name| (name, of(name))).collect()
}

fn holding<'a>(types: &[Rc<OfType<'a>>], wanted: &Resources) -> Outcomes<'a> {
    let mut out = Outcomes::default();
    for of_type in types {
        let holds = |(_, room): &&(Outcome<'a>, Resources)| wanted.fits(room);
        if of_type.ways.iter().any(|way| holds(&way)) {
            out.add(of_type, of_type.ways.iter().filter(holds).map(|(way, _)| *way));
        } else {
            out.add(of_type, of_type.ways.iter().map(|(way, _)| *way));
        }
    }
    out
}
