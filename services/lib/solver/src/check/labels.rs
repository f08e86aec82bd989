//! Which labels a node has or will have: one view for each way in which it can turn out.

use std::fmt;

use model::catalog::{InstanceType, Offering};
use model::labels;
use model::node::Node;
use model::pod::PodSpec;
use model::pool::{ClusterInput, NodePool};
use model::requirement::Requirement;
use model::requirements::Requirements;

/// Labels whose values can differ between the offerings of one type.
const OF_OFFERING: [&str; 5] = [
    labels::ZONE,
    labels::ZONE_ID,
    labels::CAPACITY_TYPE,
    labels::CAPACITY_RESERVATION_ID,
    labels::CAPACITY_RESERVATION_TYPE,
];

/// Stands for the name that a new node will get, which no pod can know.
const NEW_HOST: &str = "a new node";

/// The labels of a node, in one outcome.
#[derive(Clone, Copy)]
pub(super) enum Labels<'a> {
    Node(&'a Node),
    Outcome(Outcome<'a>),
}

/// A new node, launched as one type through one offering.
#[derive(Clone, Copy)]
pub(super) struct Outcome<'a> {
    pub(super) pool: &'a NodePool,
    pub(super) claim: &'a Requirements,
    pub(super) instance: &'a InstanceType,
    pub(super) offering: &'a Offering,
    pub(super) input: &'a ClusterInput,
}

impl Labels<'_> {
    /// The values that the label can have. `None`: the node does not have the label.
    pub(super) fn get(&self, key: &str) -> Option<Requirement> {
        match self {
            Self::Node(node) if key == labels::HOSTNAME => {
                Some(Requirement::is(labels::HOSTNAME, node.hostname()))
            }
            Self::Node(node) => {
                let value = node.labels.iter().find(|(own, _)| labels::normalize(own) == key);
                value.map(|(_, value)| Requirement::is(key, value.as_str()))
            }
            Self::Outcome(outcome) => outcome.get(key),
        }
    }

    /// Whether every value that the node can have is one that is asked for.
    pub(super) fn satisfy(&self, asked: &Requirements) -> bool {
        asked.iter().all(|r| match self.get(r.key()) {
            None => r.allows_absence(),
            Some(have) => within(&have, r),
        })
    }

    /// Whether some value that the node can have is one that is asked for.
    pub(super) fn may_satisfy(&self, asked: &Requirements) -> bool {
        asked.iter().all(|r| match self.get(r.key()) {
            None => r.allows_absence(),
            Some(have) => have.overlaps(r),
        })
    }

    /// Node selector, and any of the required terms.
    pub(super) fn satisfy_pod(&self, pod: &PodSpec) -> bool {
        selects(pod, |asked| self.satisfy(asked))
    }

    fn may_be_selected(&self, by: &Selection<'_>) -> bool {
        by.holds(|asked| self.may_satisfy(asked))
    }
}

/// Node selector and required node affinity of a pod, read once for many nodes.
pub(super) struct Selection<'p> {
    selector: Requirements,
    terms: &'p [Requirements],
}

impl<'p> Selection<'p> {
    pub(super) fn of(pod: &'p PodSpec) -> Self {
        Self { selector: Requirements::from_labels(&pod.node_selector), terms: &pod.required_node_affinity }
    }

    /// Each is judged by itself: an intersection of contradictory ones would look like a wish for nodes without the label.
    fn holds(&self, holds: impl Fn(&Requirements) -> bool) -> bool {
        (self.terms.is_empty() || self.terms.iter().any(&holds)) && holds(&self.selector)
    }

    /// Whether the node may satisfy it in one of its outcomes.
    pub(super) fn may_have(&self, outcomes: &[Labels<'_>]) -> bool {
        // Most nodes of other pools are ruled out by their requirements, which all outcomes share.
        if let Some(Labels::Outcome(any)) = outcomes.first()
            && !self.holds(|asked| any.claim_overlaps(asked))
        {
            return false;
        }
        outcomes.iter().any(|labels| labels.may_be_selected(self))
    }
}

/// Node selector and any of the required terms.
pub(super) fn selects(pod: &PodSpec, holds: impl Fn(&Requirements) -> bool) -> bool {
    Selection::of(pod).holds(holds)
}

/// Node selector and required node affinity as OR-ed sets.
pub(super) fn terms(pod: &PodSpec) -> Vec<Requirements> {
    let selector = Requirements::from_labels(&pod.node_selector);
    if pod.required_node_affinity.is_empty() {
        return vec![selector];
    }
    let with_selector = |term: &Requirements| {
        let mut both = selector.clone();
        both.add_all(term);
        both
    };
    pod.required_node_affinity.iter().map(with_selector).collect()
}

/// Whether `asked` allows all that `have` allows.
pub(super) fn within(have: &Requirement, asked: &Requirement) -> bool {
    let plain = |mut r: Requirement| {
        r.set_min_values(None);
        r
    };
    plain(have.intersect(asked)) == plain(have.intersect(have))
}

/// Labels that the pool puts on its nodes whatever they become.
pub(super) fn template_labels(pool: &NodePool) -> impl Iterator<Item = (&str, &str)> {
    let class = pool.node_class_label.as_ref().map(|(key, value)| (key.as_str(), value.as_str()));
    pool.labels
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .chain(class)
        .chain([(labels::NODEPOOL, &*pool.name)])
}

impl Outcome<'_> {
    fn get(&self, key: &str) -> Option<Requirement> {
        if key == labels::HOSTNAME {
            return Some(Requirement::is(key, NEW_HOST));
        }
        let mut value = self.given(key)?;
        for narrower in [self.pool.requirements.get(key), self.claim.get(key)].into_iter().flatten() {
            value = value.intersect(narrower);
        }
        (!value.is_empty()).then_some(value)
    }

    /// What pool template, type and offering say about a label, before the node's requirements narrow it.
    fn given(&self, key: &str) -> Option<Requirement> {
        let template = template_labels(self.pool).find(|(own, _)| labels::normalize(own) == key);
        if let Some((_, value)) = template {
            return Some(Requirement::is(key, value));
        }
        let reservation = self.offering.reservation.as_ref();
        let of_offering = match key {
            labels::ZONE => Some(&*self.offering.zone),
            labels::CAPACITY_TYPE => Some(self.offering.capacity_type.as_str()),
            labels::CAPACITY_RESERVATION_ID => return reservation.map(|r| Requirement::is(key, &*r.id)),
            labels::CAPACITY_RESERVATION_TYPE => return reservation.map(|r| Requirement::is(key, &*r.kind)),
            labels::CAPACITY_RESERVATION_INTERRUPTIBLE => {
                return reservation.map(|r| Requirement::is(key, r.interruptible_label()));
            }
            labels::ZONE_ID => self.offering.zone_id.as_deref(),
            _ => None,
        };
        if let Some(value) = of_offering {
            return Some(Requirement::is(key, value));
        }
        if let Some(own) = self.instance.requirements.get(key) {
            return (!own.is_empty()).then(|| own.clone());
        }
        // A label of the user's own comes from the pool's requirements; a well-known one that the type lacks is not there.
        let custom = !labels::is_well_known(key) && !self.input.extra_well_known.contains(key);
        self.pool.requirements.get(key).filter(|r| custom && !r.is_empty()).cloned()
    }

    /// Whether the node's requirements leave a value for each of the asked, as far as they name the label. No outcome has a
    /// value beyond them.
    fn claim_overlaps(&self, asked: &Requirements) -> bool {
        asked
            .iter()
            .all(|r| r.allows_absence() || self.claim.get(r.key()).is_none_or(|claimed| claimed.overlaps(r)))
    }

    /// Whether the node's and the pool's requirements let it become this type, whichever the offering.
    pub(super) fn allows_type(&self) -> bool {
        self.allows(|key| !OF_OFFERING.contains(&key))
    }

    /// Whether they let it be launched through this offering.
    pub(super) fn allows_offering(&self) -> bool {
        self.allows(|key| OF_OFFERING.contains(&key))
    }

    fn allows(&self, is_about: impl Fn(&str) -> bool) -> bool {
        let asked = self.claim.iter().chain(self.pool.requirements.iter());
        asked.filter(|r| r.key() != labels::HOSTNAME && is_about(r.key())).all(|r| {
            match self.given(r.key()) {
                None => r.allows_absence(),
                Some(given) => given.overlaps(r) || (given.allows_absence() && r.allows_absence()),
            }
        })
    }
}

/// `m5.large, spot in us-east-1a`; empty for a node that exists.
impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(_) => Ok(()),
            Self::Outcome(Outcome { instance, offering, .. }) => {
                write!(f, "{}, {} in {}", instance.name, offering.capacity_type, offering.zone)
            }
        }
    }
}
