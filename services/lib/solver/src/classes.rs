//! Classes: pods that no rule can tell apart. All work is per class; pods are counts.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use model::pod::{HostPort, LabelSelector, Pod, PodSpec, Volume};
use model::requirements::Requirements;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::dims::Dims;
use crate::options::PreferencePolicy;
use crate::relax::{Rung, ladder};
use crate::sets::{ReqSetId, Sets, TolSetId};
use crate::topology::group::{GroupId, Kind, NamespaceLabels, Rule};
use crate::topology::groups::Groups;
use crate::volumes;

pub(crate) type ClassId = u32;

#[derive(Clone, Debug)]
pub(crate) struct ClassData {
    pub(crate) id: ClassId,
    pub(crate) namespace: Arc<str>,
    pub(crate) spec: Arc<PodSpec>,
    pub(crate) requests: Box<[i64]>,
    pub(crate) ports: Vec<HostPort>,
    /// Attachments by CSI driver. Pods with any are classes of their own, since each claim is counted once a node.
    pub(crate) attachments: Vec<(Arc<str>, Arc<str>)>,
    /// Alternatives of the pod's volumes combined; empty: no volume constrains it.
    pub(crate) volume_terms: Vec<Requirements>,
    /// Rungs under Respect and under Ignore.
    ladders: [Arc<Vec<Variant>>; 2],
    /// Groups that count pods of this class, in ascending order; so are the two below.
    pub(crate) selected: Vec<GroupId>,
    /// Required anti-affinity rules of others (or itself) that select it: hostname ones, and those of other keys.
    pub(crate) kept_from_host: Vec<GroupId>,
    pub(crate) kept_from_domain: Vec<GroupId>,
    pub(crate) buffer: bool,
}

/// One rung of the ladder, interned.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    /// One per OR-term of the node affinity and combination of volume alternatives; usually a single one.
    pub(crate) asked: SmallVec<[ReqSetId; 1]>,
    /// Without preferences and volumes: decides which domains the pod itself could use. One per OR-term.
    pub(crate) strict: SmallVec<[ReqSetId; 1]>,
    pub(crate) tolerations: TolSetId,
    pub(crate) host_groups: Vec<GroupId>,
    pub(crate) domain_groups: Vec<GroupId>,
    /// Required anti-affinity rules that the pod states, of any key.
    pub(crate) stated_anti: Vec<GroupId>,
}

impl ClassData {
    pub(crate) fn ladder(&self, policy: PreferencePolicy) -> &[Variant] {
        &self.ladders[usize::from(policy == PreferencePolicy::Ignore)]
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    pub(crate) list: Vec<Arc<ClassData>>,
    by_hash: FxHashMap<u64, SmallVec<[ClassId; 1]>>,
    /// Label keys that some selector looks at; other labels do not tell pods apart.
    relevant: BTreeSet<String>,
}

/// Everything that interning a class may add to.
pub(crate) struct Registry<'a> {
    pub(crate) sets: &'a mut Sets,
    pub(crate) groups: &'a mut Groups,
    pub(crate) dims: &'a Dims,
    pub(crate) namespaces: &'a dyn NamespaceLabels,
    pub(crate) soft_taints: bool,
}

impl Classes {
    pub(crate) fn new(relevant: BTreeSet<String>) -> Self {
        Self { relevant, ..Self::default() }
    }

    /// Whether the selectors of this spec look at labels that were not known to matter.
    pub(crate) fn knows_selectors_of(&self, spec: &PodSpec) -> bool {
        let mut keys = BTreeSet::new();
        selector_keys(spec, &mut keys);
        keys.is_subset(&self.relevant)
    }

    pub(crate) fn get(&self, id: ClassId) -> &ClassData {
        &self.list[id as usize]
    }

    pub(crate) fn find(&self, pod: &Pod) -> Option<ClassId> {
        self.find_hashed(self.hash(pod), pod)
    }

    fn find_hashed(&self, hash: u64, pod: &Pod) -> Option<ClassId> {
        self.by_hash.get(&hash)?.iter().copied().find(|id| self.is_same(*id, pod))
    }

    pub(crate) fn add(&mut self, pod: &Pod, registry: &mut Registry<'_>) -> ClassId {
        let hash = self.hash(pod);
        if let Some(id) = self.find_hashed(hash, pod) {
            return id;
        }
        let id = u32::try_from(self.list.len()).expect("fewer classes than 2^32");
        self.list.push(Arc::new(compile(id, pod, registry)));
        self.by_hash.entry(hash).or_default().push(id);
        id
    }

    fn relevant_labels<'a>(&'a self, spec: &'a PodSpec) -> impl Iterator<Item = (&'a String, &'a String)> {
        spec.labels.iter().filter(|(key, _)| self.relevant.contains(*key))
    }

    fn hash(&self, pod: &Pod) -> u64 {
        let spec = &*pod.spec;
        let mut h = FxHasher::default();
        pod.namespace.hash(&mut h);
        pod.buffer.hash(&mut h);
        for label in self.relevant_labels(spec) {
            label.hash(&mut h);
        }
        for (name, amount) in spec.requests.iter().filter(|(_, amount)| !amount.is_zero()) {
            name.hash(&mut h);
            amount.nano().hash(&mut h);
        }
        spec.node_selector.hash(&mut h);
        spec.priority.hash(&mut h);
        spec.tolerations.hash(&mut h);
        spec.required_node_affinity.hash(&mut h);
        spec.host_ports.hash(&mut h);
        let selectors =
            spec.topology_spread.iter().map(|s| (&s.topology_key, &s.selector)).chain(
                spec.affinity.iter().chain(&spec.anti_affinity).map(|t| (&t.topology_key, &t.selector)),
            );
        for (key, selector) in selectors {
            key.hash(&mut h);
            selector.hash(&mut h);
        }
        for volume in &pod.volumes {
            volume.alternatives.hash(&mut h);
            volume.driver.as_ref().map(|_| &volume.claim).hash(&mut h);
        }
        h.finish()
    }

    fn is_same(&self, id: ClassId, pod: &Pod) -> bool {
        let class = self.get(id);
        let (a, b) = (&*class.spec, &*pod.spec);
        class.namespace == pod.namespace
            && class.buffer == pod.buffer
            && same_volumes(class, &pod.volumes)
            && (std::ptr::eq(a, b)
                || (self.relevant_labels(a).eq(self.relevant_labels(b))
                    && a.requests == b.requests
                    && a.node_selector == b.node_selector
                    && a.required_node_affinity == b.required_node_affinity
                    && a.preferred_node_affinity == b.preferred_node_affinity
                    && a.tolerations == b.tolerations
                    && a.topology_spread == b.topology_spread
                    && a.affinity == b.affinity
                    && a.anti_affinity == b.anti_affinity
                    && a.preferred_affinity == b.preferred_affinity
                    && a.preferred_anti_affinity == b.preferred_anti_affinity
                    && a.host_ports == b.host_ports
                    && a.priority == b.priority
                    && a.uses_resource_claims == b.uses_resource_claims))
    }
}

fn same_volumes(class: &ClassData, pod_volumes: &[Volume]) -> bool {
    if pod_volumes.is_empty() {
        return class.attachments.is_empty() && class.volume_terms.is_empty();
    }
    class.attachments == volumes::attachments(pod_volumes)
        && class.volume_terms == volumes::combined(pod_volumes)
}

fn compile(id: ClassId, pod: &Pod, registry: &mut Registry<'_>) -> ClassData {
    let spec = &pod.spec;
    let volume_terms = volumes::combined(&pod.volumes);
    let attachments = volumes::attachments(&pod.volumes);
    let mut variants = |policy| -> Arc<Vec<Variant>> {
        let rungs = ladder(spec, policy, registry.soft_taints);
        Arc::new(rungs.iter().map(|rung| variant(rung, pod, &volume_terms, registry)).collect())
    };
    let respect = variants(PreferencePolicy::Respect);
    let ignore =
        if has_preferences(spec) { variants(PreferencePolicy::Ignore) } else { Arc::clone(&respect) };
    ClassData {
        id,
        namespace: Arc::clone(&pod.namespace),
        requests: registry.dims.requests_with(&spec.requests, &attachments),
        ports: spec.host_ports.clone(),
        attachments,
        volume_terms,
        ladders: [respect, ignore],
        selected: Vec::new(),
        kept_from_host: Vec::new(),
        kept_from_domain: Vec::new(),
        buffer: pod.buffer,
        spec: Arc::clone(spec),
    }
}

fn has_preferences(spec: &PodSpec) -> bool {
    use model::pod::WhenUnsatisfiable::ScheduleAnyway;
    !spec.preferred_node_affinity.is_empty()
        || !spec.preferred_affinity.is_empty()
        || !spec.preferred_anti_affinity.is_empty()
        || spec.topology_spread.iter().any(|s| s.when_unsatisfiable == ScheduleAnyway)
}

fn variant(
    rung: &Rung<'_>,
    pod: &Pod,
    volume_terms: &[Requirements],
    registry: &mut Registry<'_>,
) -> Variant {
    let (spec, namespace) = (&*pod.spec, &*pod.namespace);
    let mut rules: Vec<Rule> =
        rung.spread.iter().map(|s| Rule::of_spread(s, spec, &rung.tolerations, namespace)).collect();
    rules.extend(Rule::of_terms(&rung.affinity, spec, namespace, registry.namespaces));
    let terms = [
        (Kind::Affinity, &rung.preferred_affinity),
        (Kind::AntiAffinity { required: true }, &rung.anti_affinity),
        (Kind::AntiAffinity { required: false }, &rung.preferred_anti_affinity),
    ];
    for (kind, terms) in terms {
        rules.extend(terms.iter().map(|t| Rule::of_term(kind, t, spec, namespace, registry.namespaces)));
    }
    let (mut host_groups, mut domain_groups, mut stated_anti) = (Vec::new(), Vec::new(), Vec::new());
    for rule in rules {
        let (host, anti) = (rule.is_host(), rule.is_required_anti_affinity());
        let id = registry.groups.add(rule, registry.sets);
        let list = if host { &mut host_groups } else { &mut domain_groups };
        if !list.contains(&id) {
            list.push(id);
        }
        if anti && !stated_anti.contains(&id) {
            stated_anti.push(id);
        }
    }
    let with = |(own, term): (&Requirements, &Requirements)| {
        let mut both = own.clone();
        both.add_all(term);
        both
    };
    let asked = match volume_terms {
        [] => rung.asked.clone(),
        terms => rung.asked.iter().flat_map(|own| terms.iter().map(move |term| with((own, term)))).collect(),
    };
    let mut interned = |all: Vec<Requirements>| -> SmallVec<[ReqSetId; 1]> {
        let mut ids = SmallVec::new();
        for id in all.into_iter().map(|own| registry.sets.requirements.add(own)) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    };
    let (asked, strict) = (interned(asked), interned(rung.strict.clone()));
    Variant {
        asked,
        strict,
        tolerations: registry.sets.tolerations.add(rung.tolerations.clone()),
        host_groups,
        domain_groups,
        stated_anti,
    }
}

/// Label keys that the selectors of a spec look at, on pods.
pub(crate) fn selector_keys(spec: &PodSpec, keys: &mut BTreeSet<String>) {
    let mut add = |selector: Option<&LabelSelector>, more: &[&Vec<String>]| {
        let named = selector.into_iter().flat_map(|s| s.requirements.iter().map(|r| &r.key));
        for key in named.chain(more.iter().flat_map(|m| m.iter())) {
            if !keys.contains(key) {
                keys.insert(key.clone());
            }
        }
    };
    for spread in &spec.topology_spread {
        add(spread.selector.as_ref(), &[&spread.match_label_keys]);
    }
    let preferred = spec.preferred_affinity.iter().chain(&spec.preferred_anti_affinity).map(|t| &t.term);
    for term in spec.affinity.iter().chain(&spec.anti_affinity).chain(preferred) {
        add(term.selector.as_ref(), &[&term.match_label_keys, &term.mismatch_label_keys]);
    }
}
