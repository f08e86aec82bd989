//! What daemons take of new nodes, for thousands of outcomes: everything that does not depend on the outcome is read once.

use model::catalog::InstanceType;
use model::labels;
use model::pod::PodSpec;
use model::pool::{ClusterInput, NodePool};
use model::requirement::Requirement;
use model::requirements::Requirements;
use model::resources::Resources;
use rustc_hash::FxHashMap;

use super::daemons;
use super::labels::{Labels, Outcome};
use super::taints::bears_hard;

/// One set of requirements of a daemon, without those that every node of ours satisfies once it is initialised.
struct Asked {
    others: Requirements,
    /// What it asks of registration and initialisation will be so.
    is_possible: bool,
}

impl Asked {
    fn of(term: &Requirements) -> Self {
        let is_state = |r: &&Requirement| matches!(r.key(), labels::REGISTERED | labels::INITIALIZED);
        Self {
            others: term.iter().filter(|r| !is_state(r)).cloned().collect(),
            is_possible: term.iter().filter(is_state).all(|r| r.contains(labels::TRUE)),
        }
    }

    fn holds(&self, on: &Labels<'_>) -> bool {
        self.is_possible && on.may_satisfy(&self.others)
    }
}

struct Daemon<'a> {
    pod: &'a PodSpec,
    selector: Asked,
    terms: Vec<Asked>,
}

/// The daemons of one pool.
#[derive(Default)]
struct OfPool {
    /// Sum of those that select no nodes.
    everywhere: Resources,
    /// Indices of the others.
    selective: Vec<usize>,
}

pub(super) struct Overheads<'a> {
    input: &'a ClusterInput,
    daemons: Vec<Daemon<'a>>,
    pools: FxHashMap<*const NodePool, OfPool>,
    most: FxHashMap<(*const NodePool, *const InstanceType), Resources>,
}

impl<'a> Overheads<'a> {
    pub(super) fn new(input: &'a ClusterInput) -> Self {
        let daemon = |pod: &'a PodSpec| Daemon {
            pod,
            selector: Asked::of(&Requirements::from_labels(&pod.node_selector)),
            terms: pod.required_node_affinity.iter().map(Asked::of).collect(),
        };
        let counted = input.daemon_sets.iter().filter(|set| set.is_overhead());
        Self {
            input,
            daemons: counted.map(|set| daemon(&set.pod)).collect(),
            pools: FxHashMap::default(),
            most: FxHashMap::default(),
        }
    }

    fn of_pool(&mut self, pool: &NodePool) -> &OfPool {
        self.pools.entry(std::ptr::from_ref(pool)).or_insert_with(|| {
            let mut own = OfPool::default();
            for (index, daemon) in self.daemons.iter().enumerate() {
                if !bears_hard(daemon.pod, pool.taints.iter()) {
                    continue;
                }
                if daemon.pod.node_selector.is_empty() && daemon.terms.is_empty() {
                    own.everywhere.add(&daemons::sum(std::iter::once(daemon.pod)));
                } else {
                    own.selective.push(index);
                }
            }
            own
        })
    }

    /// Of one way to launch a node.
    pub(super) fn overhead(&mut self, way: Outcome<'a>) -> Resources {
        let own = self.of_pool(way.pool);
        let (mut sum, selective) = (own.everywhere.clone(), own.selective.clone());
        let on = Labels::Outcome(way);
        for daemon in selective.into_iter().map(|index| &self.daemons[index]) {
            let selected = daemon.terms.is_empty() || daemon.terms.iter().any(|term| term.holds(&on));
            if selected && daemon.selector.holds(&on) {
                sum.add(&daemons::sum(std::iter::once(daemon.pod)));
            }
        }
        sum
    }

    /// By resource: the most of any way that the pool leaves to launch the type.
    pub(super) fn most_overhead(&mut self, pool: &'a NodePool, instance: &'a InstanceType) -> Resources {
        if self.of_pool(pool).selective.is_empty() {
            return self.of_pool(pool).everywhere.clone();
        }
        let key = (std::ptr::from_ref(pool), std::ptr::from_ref(instance));
        if let Some(known) = self.most.get(&key) {
            return known.clone();
        }
        let (input, mut most) = (self.input, Resources::new());
        for offering in &instance.offerings {
            most.max(&self.overhead(Outcome { pool, claim: &pool.requirements, instance, offering, input }));
        }
        self.most.insert(key, most.clone());
        most
    }
}
