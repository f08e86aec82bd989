//! The input of a decision, read back from a view: the whole of it, or as much as the judgement of one plan depends on. Pure,
//! and off the task that owns the state: in a large cluster copying all of it takes longer than deciding.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::labels;
use model::node::NodeState;
use model::pod::{LabelSelector, Pod, PodSpec, WhenUnsatisfiable};
use model::pool::ClusterInput;
use rustc_hash::{FxHashMap, FxHashSet};
use solver::Plan;

use super::view::{ClusterView, NodeView};

/// Whether the pod needs another place when its node goes. `forced`: it will soon be deleted whatever protects it, so that
/// one that a budget or an annotation holds needs it as much as any other.
pub(super) fn leaves(pod: &Pod, forced: bool) -> bool {
    pod.reschedulable || (forced && !pod.terminating && !pod.bound_to_node)
}

/// The pod as decisions see it: under the solver's name of its node.
pub(super) fn shown(pod: &Pod, node: Option<&Arc<str>>, forced: bool) -> Pod {
    Pod { node: node.cloned(), reschedulable: leaves(pod, forced), ..pod.clone() }
}

impl ClusterView {
    /// Everything that the snapshot stands for.
    pub(crate) fn input(&self) -> ClusterInput {
        self.input_of(|_| true, |_, _| true)
    }

    /// As much as [`solver::check`] can come to another verdict by: pods that need a place, nodes that the plan uses or that
    /// go, with all their pods; of the others the pods that topology rules count. Where no rule about topology is in force,
    /// nodes count only for the limits of pools that grow.
    pub(crate) fn input_for(&self, plan: &Plan) -> ClusterInput {
        let selectors = self.topology_of_unplaced();
        let used: FxHashSet<&str> = plan.existing.iter().map(|node| &*node.node).collect();
        let grown: BTreeSet<&str> = plan.new_nodes.iter().map(|node| &*node.pool).collect();
        let limited: BTreeSet<&str> = self
            .usable_pools
            .iter()
            .filter(|pool| grown.contains(&*pool.name) && pool.limits.iter().next().is_some())
            .map(|pool| &*pool.name)
            .collect();
        let whole =
            |view: &NodeView| view.node.state == NodeState::Deleting || used.contains(&*view.node.name);
        let mut known: FxHashMap<*const PodSpec, bool> = FxHashMap::default();
        let mut counts = |pod: &Pod| {
            *known.entry(Arc::as_ptr(&pod.spec)).or_insert_with(|| {
                !pod.spec.anti_affinity.is_empty() || selectors.iter().any(|s| s.matches(&pod.spec.labels))
            })
        };
        let of_limited = |view: &NodeView| {
            let label = view.node.labels.get(labels::NODEPOOL).map(String::as_str);
            view.node.pool.as_deref().or(label).is_some_and(|pool| limited.contains(pool))
        };
        let mut keep: FxHashSet<&str> = FxHashSet::default();
        for view in self.nodes.values() {
            if !selectors.is_empty() || whole(view) || of_limited(view) || view.residents().any(&mut counts) {
                keep.insert(&view.node.name);
            }
        }
        self.input_of(|view| keep.contains(&*view.node.name), |view, pod| whole(view) || counts(pod))
    }

    fn input_of(
        &self,
        node: impl Fn(&NodeView) -> bool,
        mut pod: impl FnMut(&NodeView, &Pod) -> bool,
    ) -> ClusterInput {
        let waiting = self.pending.iter().filter(|waiting| waiting.nominated.is_none());
        let mut pods: Vec<Pod> = waiting.map(|waiting| shown(&waiting.pod, None, false)).collect();
        let mut nodes = Vec::new();
        for view in self.nodes.values().filter(|view| node(view)) {
            nodes.push((*view.node).clone());
            for own in view.residents() {
                if pod(view, own) {
                    pods.push(shown(own, Some(&view.node.name), view.forced));
                }
            }
        }
        pods.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        pods.extend(self.placeholder_pods.iter().cloned());
        ClusterInput {
            pods,
            nodes,
            pools: (*self.usable_pools).clone(),
            daemon_sets: (*self.daemon_sets).clone(),
            namespaces: (*self.namespaces).clone(),
            extra_well_known: BTreeSet::default(),
        }
    }

    /// Whom the topology rules of pods that need a place look for; a namespace or a label less than they ask for.
    fn topology_of_unplaced(&self) -> Vec<LabelSelector> {
        let waiting = self.pending.iter().map(|waiting| &*waiting.pod);
        let going = self.nodes.values().filter(|view| view.node.state == NodeState::Deleting);
        let going = going.flat_map(|view| view.residents().filter(|pod| leaves(pod, view.forced)));
        let mut seen: FxHashSet<*const PodSpec> = FxHashSet::default();
        let mut found = Vec::new();
        for pod in waiting.chain(going).chain(self.placeholder_pods.iter()) {
            if !seen.insert(Arc::as_ptr(&pod.spec)) {
                continue;
            }
            let hard = |rule: &WhenUnsatisfiable| *rule == WhenUnsatisfiable::DoNotSchedule;
            let spread = pod.spec.topology_spread.iter().filter(|rule| hard(&rule.when_unsatisfiable));
            let terms = pod.spec.affinity.iter().chain(&pod.spec.anti_affinity);
            let selectors =
                spread.map(|rule| rule.selector.as_ref()).chain(terms.map(|term| term.selector.as_ref()));
            found.extend(selectors.flatten().cloned());
        }
        found
    }
}

impl NodeView {
    /// Bound to it or meant for it.
    fn residents(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().chain(&self.nominated).map(|pod| &**pod)
    }
}
