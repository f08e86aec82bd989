//! What a NodeClaim asks for, read once into plain form.

use std::collections::BTreeMap;

use api::NodeClaim;
use api::convert::{At, amounts};
use model::catalog::Overlaid;
use model::labels;
use model::requirement::Requirement;
use model::requirements::Requirements;
use model::resources::{EFA, NITRO_ENCLAVE_SLOTS, Resources};

use super::userdata::BootTaint;

#[derive(Debug, Clone, Default)]
pub struct ClaimRequest {
    pub name: String,
    /// EC2's client token is made of it, unless the claim is of a batch: the same claim never launches twice.
    pub uid: String,
    pub pool: String,
    pub labels: BTreeMap<String, String>,
    pub requirements: Requirements,
    pub requests: Resources,
    /// Taints, then startup taints.
    pub taints: Vec<BootTaint>,
    /// NodeOverlays set a price or a resource of a type that the claim lists. With their prices EC2's own must not decide.
    pub overlaid: Overlaid,
    pub min_values_relaxed: bool,
}

/// A claim that no launch can satisfy: it says something this release does not understand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("NodeClaim {claim}: {problem}")]
pub struct Unreadable {
    pub claim: String,
    pub problem: String,
}

impl ClaimRequest {
    pub fn of(claim: &NodeClaim) -> Result<Self, Unreadable> {
        let meta = &claim.metadata;
        let name = meta.name.clone().unwrap_or_default();
        let unreadable = |problem: String| Unreadable { claim: name.clone(), problem };
        let mut requirements = Requirements::new();
        for written in &claim.spec.requirements {
            let entry = written.to_entry().map_err(|error| unreadable(error.to_string()))?;
            requirements.add(Requirement::from(&entry));
        }
        let requested = claim.spec.resources.as_ref().and_then(|r| r.requests.as_ref());
        let spec = At::Root.key("spec");
        let requests = amounts(requested, &spec.key("resources"))
            .map_err(|invalid| unreadable(invalid.of("NodeClaim", None, Some(&name)).to_string()))?;
        let all_labels = meta.labels.clone().unwrap_or_default();
        let flag = |key: &str| {
            meta.annotations.as_ref().and_then(|a| a.get(key)).is_some_and(|value| value == labels::TRUE)
        };
        let lists = [claim.spec.taints.as_ref(), claim.spec.startup_taints.as_ref()];
        let taints = lists.into_iter().flatten().flatten().map(|taint| BootTaint {
            key: taint.key.clone(),
            value: taint.value.clone().unwrap_or_default(),
            effect: taint.effect.as_str().to_owned(),
        });
        Ok(Self {
            uid: meta.uid.clone().unwrap_or_default(),
            pool: all_labels.get(labels::NODEPOOL).cloned().unwrap_or_default(),
            labels: all_labels,
            requirements,
            requests,
            taints: taints.collect(),
            overlaid: Overlaid {
                price: flag(labels::PRICE_OVERLAY_APPLIED),
                capacity: flag(labels::CAPACITY_OVERLAY_APPLIED),
            },
            min_values_relaxed: flag(labels::MIN_VALUES_RELAXED),
            name,
        })
    }

    /// Whether any instance that does for this claim does for the other.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.requests == other.requests
            && self.requirements == other.requirements
            && self.pool == other.pool
            && self.labels == other.labels
            && self.taints == other.taints
            && self.overlaid == other.overlaid
            && self.min_values_relaxed == other.min_values_relaxed
    }

    pub fn wants_efa(&self) -> bool {
        !self.requests.get(EFA).is_zero()
    }

    pub fn wants_enclave(&self) -> bool {
        self.requests.contains(NITRO_ENCLAVE_SLOTS)
    }

    /// Whether a label of this value would do; an absent requirement takes every value.
    pub fn allows(&self, key: &str, value: &str) -> bool {
        self.requirements.get(key).is_none_or(|requirement| requirement.contains(value))
    }

    /// Whether a node without this label would do.
    pub fn allows_absence_of(&self, key: &str) -> bool {
        self.requirements.get(key).is_none_or(Requirement::allows_absence)
    }

    /// `default` unless the claim insists on the other.
    pub fn tenancy(&self) -> &'static str {
        let dedicated_only = !self.allows(labels::INSTANCE_TENANCY, labels::TENANCY_DEFAULT)
            && self.allows(labels::INSTANCE_TENANCY, labels::TENANCY_DEDICATED);
        if dedicated_only { labels::TENANCY_DEDICATED } else { labels::TENANCY_DEFAULT }
    }
}
