//! The whole status of a pool, from everything that is known of it. Pure.

use api::conditions::{ConditionSet, Finding};
use api::{EC2NodeClass, NodePool, NodePoolStatus};
use jiff::Timestamp;

use super::health::{self, Generations, HEALTHY, Ring};
use super::{counter, readiness};
use crate::cluster::PoolUsage;

/// What a status is made from.
pub(super) struct Known<'a> {
    pub(super) pool: &'a NodePool,
    pub(super) class: Option<&'a EC2NodeClass>,
    /// `None` before the cluster is known; then the count stays as it is.
    pub(super) usage: Option<Option<&'a PoolUsage>>,
    /// What a registration that was just heard of means.
    pub(super) health: Option<Finding>,
}

/// `None` when the pool says all that already.
pub(super) fn wanted(known: &Known<'_>, ring: &mut Ring, now: Timestamp) -> Option<NodePoolStatus> {
    let (pool, meta) = (known.pool, &known.pool.metadata);
    let mut status = pool.status.clone().unwrap_or_default();
    let list = status.conditions.get_or_insert_default();
    let name = &pool.spec.template.spec.node_class_ref.name;
    let mut findings = vec![
        ("ValidationSucceeded", readiness::validation(pool)),
        ("NodeClassReady", readiness::node_class_ready(name, known.class)),
    ];
    if let Some(class) = known.class {
        let generations = Generations {
            pool: meta.generation,
            class: class.metadata.generation,
            class_observed: status.node_class_observed_generation,
        };
        let reset = health::reconcile(ring, list, generations);
        findings.extend(reset.map(|finding| (HEALTHY, finding)));
        status.node_class_observed_generation = class.metadata.generation;
    }
    findings.extend(known.health.clone().map(|finding| (HEALTHY, finding)));
    for (type_, finding) in findings {
        ConditionSet::NODE_POOL.set(list, meta, type_, finding, now);
    }
    if let Some(usage) = known.usage {
        status.resources = Some(counter::resources(usage));
        status.nodes = i64::from(usage.map_or(0, |usage| usage.nodes));
    }
    (pool.status.as_ref() != Some(&status)).then_some(status)
}
