//! Pods of the input, and those that workloads stand for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::convert::{self, At, PodBudget, PodContext, Specs, eviction_cost, is_terminal, owned_by};
use consolidation::{PodFacts, PodIndex};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1 as core;
use model::node::Node;
use model::pod::{Pod, PodSpec};

use super::storage::Storage;
use super::workloads::Workload;
use crate::manifest::{InputError, Named, Origin, Sources};

pub(super) struct Reader<'a> {
    sources: &'a Sources,
    context: PodContext<'a>,
    budgets: &'a [PodBudget],
    priority_class: &'a dyn Fn(&str) -> Option<i32>,
    specs: &'a mut Specs,
    nodes: BTreeSet<Arc<str>>,
    pub(super) pods: Vec<Pod>,
    facts: PodIndex,
    unknown_nodes: BTreeMap<String, usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        sources: &'a Sources,
        storage: &'a Storage,
        budgets: &'a [PodBudget],
        priority_class: &'a dyn Fn(&str) -> Option<i32>,
        specs: &'a mut Specs,
        now: Timestamp,
        nodes: &[Node],
    ) -> Self {
        Self {
            sources,
            context: PodContext { storage, budgets, now },
            budgets,
            priority_class,
            specs,
            nodes: nodes.iter().map(|n| Arc::clone(&n.name)).collect(),
            pods: Vec::new(),
            facts: PodIndex::new(),
            unknown_nodes: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, named: &Named<core::Pod>) -> Result<(), InputError> {
        let object = &named.object;
        if is_terminal(object) {
            return Ok(());
        }
        let node = object.spec.as_ref().and_then(|s| s.node_name.as_deref()).filter(|n| !n.is_empty());
        if let Some(node) = node.filter(|node| !self.nodes.contains(*node)) {
            *self.unknown_nodes.entry(node.to_owned()).or_default() += 1;
            return Ok(());
        }
        let at = At::Root;
        let spec = self.spec(object, &at.key("spec"), "Pod", named.origin)?;
        let mut pod = self.convert(object, spec, named.origin)?;
        if pod.node.is_none() {
            pod.rejected = not_ours_to_place(object).or(pod.rejected);
        }
        self.push(pod, Arc::new(self.facts_of(object)));
        Ok(())
    }

    /// Replicas share spec and facts; only names differ, and volumes where each has its own.
    pub(super) fn add_workload(&mut self, workload: &Workload) -> Result<(), InputError> {
        let root = At::Root;
        let (spec_at, template) = (root.key("spec"), "template");
        let template_at = spec_at.key(template);
        let spec = self.spec(&workload.pod, &template_at.key("spec"), workload.kind, workload.origin)?;
        let facts = Arc::new(self.facts_of(&workload.pod));
        let shared = if convert::has_own_claims(&workload.pod, &workload.claim_templates) {
            None
        } else {
            let mut pod = self.convert(&workload.pod, Arc::clone(&spec), workload.origin)?;
            pod.rejected = not_ours_to_place(&workload.pod).or(pod.rejected);
            Some(pod)
        };
        for number in workload.numbers.clone() {
            let pod = match &shared {
                Some(shared) => Pod { name: Arc::from(workload.pod_name(number)), ..shared.clone() },
                None => {
                    let name = workload.pod_name(number);
                    let (own, claims) = convert::replica(&workload.pod, &workload.claim_templates, &name);
                    let storage = convert::WithClaims::new(self.context.storage, claims);
                    let context = PodContext { storage: &storage, ..self.context };
                    self.convert_in(&context, &own, Arc::clone(&spec), workload.origin)?
                }
            };
            self.push(pod, Arc::clone(&facts));
        }
        Ok(())
    }

    fn spec(
        &mut self,
        object: &core::Pod,
        at: &At<'_>,
        kind: &str,
        origin: Origin,
    ) -> Result<Arc<PodSpec>, InputError> {
        let empty = core::PodSpec::default();
        let written = object.spec.as_ref().unwrap_or(&empty);
        let meta = &object.metadata;
        let spec =
            convert::pod_spec(meta.labels.as_ref(), written, object.status.as_ref(), self.priority_class, at)
                .map_err(|invalid| {
                    let error = invalid.of(kind, meta.namespace.as_deref(), meta.name.as_deref());
                    self.sources.conversion_error(origin, &error)
                })?;
        Ok(self.specs.share(spec))
    }

    fn convert(&self, object: &core::Pod, spec: Arc<PodSpec>, origin: Origin) -> Result<Pod, InputError> {
        self.convert_in(&self.context, object, spec, origin)
    }

    fn convert_in(
        &self,
        context: &PodContext<'_>,
        object: &core::Pod,
        spec: Arc<PodSpec>,
        origin: Origin,
    ) -> Result<Pod, InputError> {
        convert::pod(object, spec, context).map_err(|error| self.sources.conversion_error(origin, &error))
    }

    fn facts_of(&self, object: &core::Pod) -> PodFacts {
        let empty = core::PodSpec::default();
        let labels = object.metadata.labels.clone().unwrap_or_default();
        let written = object.spec.as_ref().unwrap_or(&empty);
        let at = At::Root;
        let tolerations = convert::pod_spec(None, written, None, &|_| None, &at).map(|s| s.tolerations);
        let priority = convert::priority_of(written, self.priority_class);
        PodFacts {
            obstacle: convert::obstacle(
                object,
                &labels,
                &tolerations.unwrap_or_default(),
                self.budgets,
                self.context.now,
            ),
            eviction_cost: eviction_cost(object, priority),
        }
    }

    fn push(&mut self, mut pod: Pod, facts: Arc<PodFacts>) {
        if pod.uid.is_empty() {
            // Ties go by the order of the input.
            pod.uid = Arc::from(format!("{:012}", self.pods.len()));
        }
        self.facts.insert((Arc::clone(&pod.namespace), Arc::clone(&pod.name)), facts);
        self.pods.push(pod);
    }

    pub(super) fn remarks(&self) -> Vec<String> {
        let pods: usize = self.unknown_nodes.values().sum();
        match self.unknown_nodes.keys().next() {
            Some(node) => vec![format!(
                "{pods} pods ignored: they run on {} nodes that are not in the input, such as {node}",
                self.unknown_nodes.len()
            )],
            None => Vec::new(),
        }
    }

    pub(super) fn finish(self) -> (Vec<Pod>, PodIndex) {
        (self.pods, self.facts)
    }
}

/// Why an unbound pod is not for us, if so.
fn not_ours_to_place(pod: &core::Pod) -> Option<String> {
    let spec = pod.spec.as_ref();
    if owned_by(pod, "apps/v1", "DaemonSet") || owned_by(pod, "v1", "Node") {
        return Some("it belongs to one node (DaemonSet or static pod) and waits for that".to_owned());
    }
    if spec.is_some_and(|s| s.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty())) {
        return Some("it is held back by scheduling gates".to_owned());
    }
    let nominated =
        pod.status.as_ref().and_then(|s| s.nominated_node_name.as_deref()).filter(|n| !n.is_empty());
    nominated.map(|node| format!("it is about to take the place of preempted pods on node {node}"))
}

/// The newest pod of a DaemonSet that is in the input.
pub(super) fn newest_of<'a>(set: &DaemonSet, pods: &'a [Named<core::Pod>]) -> Option<&'a core::Pod> {
    let namespace = set.metadata.namespace.as_deref().unwrap_or("default");
    pods.iter()
        .map(|p| &p.object)
        .filter(|p| p.metadata.namespace.as_deref().unwrap_or("default") == namespace)
        .filter(|p| {
            let owners = p.metadata.owner_references.iter().flatten();
            owners.into_iter().any(|o| o.kind == "DaemonSet" && Some(&o.name) == set.metadata.name.as_ref())
        })
        .max_by_key(|p| p.metadata.creation_timestamp.as_ref().map(|t| t.0))
}
